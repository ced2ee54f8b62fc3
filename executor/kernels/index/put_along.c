/* put_along.c: elements replaced, or added to, by index along an axis, and gradients; masks of lengths. The last of
 * several values for one place counts. Paddle: phi/kernels/cpu/put_along_axis_kernel.cc. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_INDEX, IN_VALUE, IN_OUT_GRAD, OUT = 0, OUT_X_GRAD = 0, OUT_VALUE_GRAD };

typedef struct put_state {
    int ndim, axis;
    int64_t index[WEFT_MAX_RANK], stride[WEFT_MAX_RANK], extent, count; /* of Index; of X along the axis */
    bool adds;
} put_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *value) {
    put_state *s = KERNEL_STATE(p, put_state);
    if (!s) return base_out_of_memory();
    const tensor *index = type_in(p, IN_INDEX);
    const char *reduce = attr_string(p->op, "Reduce", "assign");
    TRY(require_real(p, x, "Input"));
    TRY(require_present(p, index, "Index"));
    if (value) TRY(require_like(p, x, value, index->numel, "Value"));
    s->adds = strcmp(reduce, "add") == 0;
    if (!s->adds && strcmp(reduce, "assign") != 0)
        return kernel_unsupported(p, "expected Reduce to be assign or add, found %s", reduce);
    if (!attr_bool(p->op, "Include_self", true)) return kernel_unsupported(p, "expected Include_self = true");
    s->ndim = x->ndim;
    s->axis = axis_of(x, attr_int(p->op, "Axis", 0));
    if (s->axis < 0 || index->ndim != x->ndim) return kernel_unsupported(p, "expected an Index of Input's dimensions");
    strides_dense(x->ndim, x->dims, s->stride);
    for (int d = 0; d < s->ndim; d++) {
        s->index[d] = index->dims[d];
        if (d != s->axis && index->dims[d] > x->dims[d])
            return kernel_unsupported(p, "expected an Index no longer than Input in dimension %d", d);
    }
    s->extent = x->ndim ? x->dims[s->axis] : 1;
    s->count = index->numel;
    return NULL;
}

/* Where element i of Index points in X; -1: outside. */
static int64_t target(const put_state *s, const tensor *index, int64_t i) {
    int64_t at = 0, rest = i, k = tensor_integer(index, i);
    if (k < 0) k += s->extent;
    if (k < 0 || k >= s->extent) return -1;
    for (int d = s->ndim - 1; d >= 0; d--) {
        int64_t own = rest % s->index[d];
        rest /= s->index[d];
        at += (d == s->axis ? k : own) * s->stride[d];
    }
    return at;
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_X), type_in(p, IN_VALUE)));
    TRY(require_present(p, type_out(p, OUT), "Result"));
    return require_like(p, type_in(p, IN_X), type_out(p, OUT), type_in(p, IN_X)->numel, "Result");
}

static weft_status run(const kernel_call *c) {
    const put_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *index = arg_in(c, IN_INDEX), *value = arg_in(c, IN_VALUE);
    tensor *out = arg_out(c, OUT);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = target(s, index, i);
        if (at < 0) return kernel_failed(c, "Index: expected numbers below %lld", (long long)s->extent);
        tensor_set_real(out, at, tensor_real(value, i) + (s->adds ? tensor_real(out, at) : 0));
    }
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *g = type_in(p, IN_OUT_GRAD);
    TRY(require_present(p, g, "Result@GRAD"));
    TRY(prepare_common(p, g, NULL));
    TRY(require_like(p, g, type_out(p, OUT_X_GRAD), g->numel, "Input@GRAD"));
    p->workspace_nbytes = (size_t)g->numel;
    return require_like(p, g, type_out(p, OUT_VALUE_GRAD), type_in(p, IN_INDEX)->numel, "Value@GRAD");
}

static weft_status run_grad(const kernel_call *c) {
    const put_state *s = c->state;
    const tensor *index = arg_in(c, IN_INDEX), *g = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT_X_GRAD), *dv = arg_out(c, OUT_VALUE_GRAD);
    uint8_t *taken = c->workspace;
    if (g->numel) memset(taken, 0, (size_t)g->numel);
    for (int64_t i = s->count - 1; dv && i >= 0; i--) {
        int64_t at = target(s, index, i);
        if (at < 0) return kernel_failed(c, "Index: expected numbers below %lld", (long long)s->extent);
        tensor_set_real(dv, i, s->adds || !taken[at] ? tensor_real(g, at) : 0);
        taken[at] = 1;
    }
    if (!dx) return NULL;
    copy_bytes(dx->data, g->data, tensor_nbytes(g));
    for (int64_t i = 0; !s->adds && i < s->count; i++) {
        int64_t at = target(s, index, i);
        if (at < 0) return kernel_failed(c, "Index: expected numbers below %lld", (long long)s->extent);
        tensor_set_real(dx, at, 0);
    }
    return NULL;
}

const kernel kernel_put_along_axis = {prepare, run};
const kernel kernel_put_along_axis_grad = {prepare_grad, run_grad};

/* --- sequence_mask ------------------------------------------------------------------------------------------------ */

static weft_status prepare_mask(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *y = type_out(p, 0);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    int64_t *length = KERNEL_STATE(p, int64_t);
    if (!length) return base_out_of_memory();
    if (!y->ndim) return kernel_unsupported(p, "expected a Y of 1 dimension or more");
    *length = y->dims[y->ndim - 1];
    return require_numel(p, y, x->numel * *length, "Y");
}

static weft_status run_mask(const kernel_call *c) {
    const int64_t *length = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *y = arg_out(c, 0);
    char *to = y->data;
    size_t nbytes = weft_dtype_nbytes(y->dtype);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t n = tensor_integer(x, i);
        n = n < 0 ? 0 : n > *length ? *length : n;
        fill_elements(y->dtype, to, n, 1);
        fill_elements(y->dtype, to + (size_t)n * nbytes, *length - n, 0);
        to += (size_t)*length * nbytes;
    }
    return NULL;
}

const kernel kernel_sequence_mask = {prepare_mask, run_mask};
