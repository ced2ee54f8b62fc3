/* kron.c: the Kronecker product, and its gradients: every element of X times every element of Y. The one of fewer
 * dimensions counts as having ones at the front. Sums are kept in double. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_Y, IN_OUT_GRAD, OUT = 0, OUT_X = 0, OUT_Y };

typedef struct kron_state {
    int ndim;
    int64_t x[WEFT_MAX_RANK], y[WEFT_MAX_RANK], stride[WEFT_MAX_RANK];
    int64_t nx, ny;
} kron_state;

static weft_status prepare_product(kernel_prepare *p, const tensor *result) {
    kron_state *s = KERNEL_STATE(p, kron_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, y, "Y"));
    TRY(require_same_dtype(p, x, result, "Out"));
    TRY(require_numel(p, result, x->numel * y->numel, "Out"));
    s->ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    for (int d = 0; d < s->ndim; d++) {
        int of_x = d - (s->ndim - x->ndim), of_y = d - (s->ndim - y->ndim);
        s->x[d] = of_x < 0 ? 1 : x->dims[of_x];
        s->y[d] = of_y < 0 ? 1 : y->dims[of_y];
    }
    strides_dense(s->ndim, result->dims, s->stride);
    s->nx = x->numel, s->ny = y->numel;
    return NULL;
}

/* Where element i of a tensor of these extents begins, or steps to, in the result. */
static int64_t place(const kron_state *s, const int64_t *dims, const int64_t *times, int64_t i) {
    int64_t at = 0;
    for (int d = s->ndim - 1; d >= 0; d--) {
        at += i % dims[d] * (times ? times[d] : 1) * s->stride[d];
        i /= dims[d];
    }
    return at;
}

static weft_status prepare(kernel_prepare *p) {
    TRY(require_present(p, type_out(p, OUT), "Out"));
    return prepare_product(p, type_out(p, OUT));
}

static weft_status run(const kernel_call *c) {
    const kron_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y);
    tensor *out = arg_out(c, OUT);
    for (int64_t i = 0; i < s->nx; i++)
        for (int64_t j = 0, base = place(s, s->x, s->y, i); j < s->ny; j++)
            tensor_set_real(out, base + place(s, s->y, NULL, j), tensor_real(x, i) * tensor_real(y, j));
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y);
    TRY(require_present(p, type_in(p, IN_OUT_GRAD), "Out@GRAD"));
    TRY(prepare_product(p, type_in(p, IN_OUT_GRAD)));
    if (type_out(p, OUT_X)) TRY(require_numel(p, type_out(p, OUT_X), x->numel, "X@GRAD"));
    if (type_out(p, OUT_Y)) TRY(require_numel(p, type_out(p, OUT_Y), y->numel, "Y@GRAD"));
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const kron_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y), *g = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT_X), *dy = arg_out(c, OUT_Y);
    for (int64_t i = 0; dx && i < s->nx; i++) {
        double sum = 0;
        for (int64_t j = 0, base = place(s, s->x, s->y, i); j < s->ny; j++)
            sum += tensor_real(g, base + place(s, s->y, NULL, j)) * tensor_real(y, j);
        tensor_set_real(dx, i, sum);
    }
    for (int64_t j = 0; dy && j < s->ny; j++) {
        double sum = 0;
        for (int64_t i = 0, step = place(s, s->y, NULL, j); i < s->nx; i++)
            sum += tensor_real(g, place(s, s->x, s->y, i) + step) * tensor_real(x, i);
        tensor_set_real(dy, j, sum);
    }
    return NULL;
}

const kernel kernel_kron = {prepare, run};
const kernel kernel_kron_grad = {prepare_grad, run_grad};
