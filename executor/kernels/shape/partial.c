/* partial.c: columns start_index .. start_index + length of several matrices, side by side or added up, and the
 * gradients. A length of -1 goes to the end, a start below 0 counts from there. */
#include "executor/kernels/layout.h"

typedef struct partial_state {
    int64_t rows, width, first, length, count; /* count: matrices */
} partial_state;

static weft_status prepare_columns(kernel_prepare *p, const tensor *whole, bool side_by_side) {
    partial_state *s = KERNEL_STATE(p, partial_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, whole, "Out"));
    if (x->ndim != 2) return kernel_unsupported(p, "expected matrices, found %d dimensions", x->ndim);
    s->rows = x->dims[0], s->width = x->dims[1], s->count = p->in_first[1] - p->in_first[0];
    s->first = attr_int(p->op, "start_index", 0);
    s->length = attr_int(p->op, "length", -1);
    if (s->first < 0) s->first += s->width;
    if (s->length < 0) s->length = s->width - s->first;
    if (s->first < 0 || s->length < 0 || s->first + s->length > s->width)
        return kernel_unsupported(p, "expected columns within %lld, found %lld from %lld on", (long long)s->width,
                                  (long long)s->length, (long long)s->first);
    for (int64_t k = 1; k < s->count; k++) TRY(require_like(p, x, x + k, x->numel, "X"));
    return require_like(p, x, whole, s->rows * s->length * (side_by_side ? s->count : 1), "Out");
}

static weft_status prepare_gradients(kernel_prepare *p, bool side_by_side) {
    TRY(prepare_columns(p, type_in(p, 1), side_by_side));
    const tensor *x = type_in(p, 0), *to = &p->out[p->out_first[0]];
    for (uint32_t k = 0; k < p->out_first[1] - p->out_first[0]; k++)
        if (to[k].dtype != WEFT_DTYPE_NONE) TRY(require_like(p, x, &to[k], x->numel, "X@GRAD"));
    return NULL;
}

static weft_status prepare_concat(kernel_prepare *p) {
    return prepare_columns(p, type_out(p, 0), true);
}
static weft_status prepare_sum(kernel_prepare *p) {
    return prepare_columns(p, type_out(p, 0), false);
}
static weft_status prepare_concat_grad(kernel_prepare *p) {
    return prepare_gradients(p, true);
}
static weft_status prepare_sum_grad(kernel_prepare *p) {
    return prepare_gradients(p, false);
}

static weft_status run_concat(const kernel_call *c) {
    const partial_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    size_t size = weft_dtype_nbytes(x->dtype);
    char *to = arg_out(c, 0)->data;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t k = 0; k < s->count; k++, to += (size_t)s->length * size)
            copy_bytes(to, (const char *)x[k].data + (size_t)(i * s->width + s->first) * size,
                       (size_t)s->length * size);
    return NULL;
}

static weft_status run_sum(const kernel_call *c) {
    const partial_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->length; j++) {
            double sum = 0;
            for (int64_t k = 0; k < s->count; k++) sum += tensor_real(&x[k], i * s->width + s->first + j);
            tensor_set_real(arg_out(c, 0), i * s->length + j, sum);
        }
    return NULL;
}

/* Each matrix gets its columns of the gradient, which are `stride` apart and begin `offset` after the last one's. */
static void spread(const kernel_call *c, int64_t stride, int64_t offset) {
    const partial_state *s = c->state;
    const tensor *g = arg_in(c, 1);
    size_t size = weft_dtype_nbytes(g->dtype), nbytes = (size_t)s->length * size;
    for (uint32_t k = 0; k < c->out_first[1] - c->out_first[0]; k++) {
        const tensor *to = &c->out[c->out_first[0] + k];
        if (to->dtype == WEFT_DTYPE_NONE) continue;
        tensor_clear(to);
        for (int64_t i = 0; i < s->rows; i++)
            copy_bytes((char *)to->data + (size_t)(i * s->width + s->first) * size,
                       (const char *)g->data + (size_t)(i * stride + k * offset) * size, nbytes);
    }
}

static weft_status run_concat_grad(const kernel_call *c) {
    const partial_state *s = c->state;
    spread(c, s->count * s->length, s->length);
    return NULL;
}
static weft_status run_sum_grad(const kernel_call *c) {
    spread(c, ((const partial_state *)c->state)->length, 0);
    return NULL;
}

const kernel kernel_partial_concat = {prepare_concat, run_concat};
const kernel kernel_partial_sum = {prepare_sum, run_sum};
const kernel kernel_partial_concat_grad = {prepare_concat_grad, run_concat_grad};
const kernel kernel_partial_sum_grad = {prepare_sum_grad, run_sum_grad};
