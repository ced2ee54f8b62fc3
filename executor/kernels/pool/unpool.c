/* unpool.c: each pooled element goes back to where max_pool2d_with_index or max_pool3d_with_index found it; zeros
 * elsewhere. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_INDICES, IN_OUT_GRAD = 3 };

typedef struct planes {
    int64_t count, small, large; /* channels of all images; elements of a pooled one and of a whole one */
} planes;

static weft_status prepare_planes(kernel_prepare *p, const tensor *whole, int ndim) {
    planes *s = KERNEL_STATE(p, planes);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *indices = type_in(p, IN_INDICES);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, indices, "Indices"));
    TRY(require_numel(p, indices, x->numel, "Indices"));
    TRY(require_present(p, whole, "Out"));
    if (indices->dtype != WEFT_INT32 && indices->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected int32 or int64 Indices, found %s", dtype_text(indices->dtype));
    if (x->ndim != ndim || whole->ndim != ndim || x->dims[0] != whole->dims[0] || x->dims[1] != whole->dims[1])
        return kernel_unsupported(p, "expected %s in and out", ndim == 4 ? "[N, C, H, W]" : "[N, C, D, H, W]");
    *s = (planes){x->dims[0] * x->dims[1], 1, 1};
    for (int d = 2; d < ndim; d++) s->small *= x->dims[d], s->large *= whole->dims[d];
    return require_like(p, x, whole, s->count * s->large, "Out");
}
static weft_status prepare_gradient(kernel_prepare *p, int ndim) {
    TRY(prepare_planes(p, type_in(p, IN_OUT_GRAD), ndim));
    return require_like(p, type_in(p, IN_X), type_out(p, 0), type_in(p, IN_X)->numel, "X@GRAD");
}
static weft_status prepare_2d(kernel_prepare *p) {
    return prepare_planes(p, type_out(p, 0), 4);
}
static weft_status prepare_3d(kernel_prepare *p) {
    return prepare_planes(p, type_out(p, 0), 5);
}
static weft_status prepare_2d_grad(kernel_prepare *p) {
    return prepare_gradient(p, 4);
}
static weft_status prepare_3d_grad(kernel_prepare *p) {
    return prepare_gradient(p, 5);
}

/* Where element i of X lies in the whole. */
static weft_status find(const kernel_call *c, int64_t i, int64_t *out_at) {
    const planes *s = c->state;
    int64_t index = tensor_integer(arg_in(c, IN_INDICES), i);
    if (index < 0 || index >= s->large)
        return kernel_failed(c, "expected indices of 0 to %lld, found %lld", (long long)s->large - 1, (long long)index);
    *out_at = i / s->small * s->large + index;
    return NULL;
}

static weft_status run(const kernel_call *c) {
    tensor_clear(arg_out(c, 0));
    for (int64_t i = 0, at = 0; i < arg_in(c, IN_X)->numel; i++) {
        TRY(find(c, i, &at));
        tensor_set_real(arg_out(c, 0), at, tensor_real(arg_in(c, IN_X), i));
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    for (int64_t i = 0, at = 0; i < arg_in(c, IN_X)->numel; i++) {
        TRY(find(c, i, &at));
        tensor_set_real(arg_out(c, 0), i, tensor_real(arg_in(c, IN_OUT_GRAD), at));
    }
    return NULL;
}

const kernel kernel_unpool = {prepare_2d, run};
const kernel kernel_unpool_grad = {prepare_2d_grad, run_grad};
const kernel kernel_unpool3d = {prepare_3d, run};
const kernel kernel_unpool3d_grad = {prepare_3d_grad, run_grad};
