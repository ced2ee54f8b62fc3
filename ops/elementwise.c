/* elementwise.c: types of ops on equal positions of two tensors (paddle/phi/core/kernels/funcs/common_shape.h). */
#include "ops/infer.h"

static weft_status do_not_broadcast(const infer *i, const shape *x, const shape *y, int64_t axis) {
    shape_text tx, ty;
    return infer_error(i, "expected shapes that broadcast with axis %lld, found X %s and Y %s", (long long)axis,
                       shape_print(x, &tx), shape_print(y, &ty));
}

weft_status shape_broadcast(const infer *i, const shape *x, const shape *y, int64_t axis, shape *out) {
    const shape *large = x->ndim >= y->ndim ? x : y, *small = large == x ? y : x;
    int32_t nlarge = large->ndim, nsmall = small->ndim;
    int64_t at = axis == -1 || nlarge == nsmall ? nlarge - nsmall : axis;
    /* Paddle drops trailing extents of 1 that would stand out at the end. */
    while (at + nsmall > nlarge && nsmall && small->dims[nsmall - 1] == 1) nsmall--;
    if (at < 0 || at + nsmall > nlarge) return do_not_broadcast(i, x, y, axis);
    *out = *large;
    out->dtype = x->dtype;
    out->height = -1;
    for (int32_t d = 0; d < nsmall; d++) {
        int64_t a = large->dims[at + d], b = small->dims[d];
        if (!extent_fits(a, b) && a != 1 && b != 1) return do_not_broadcast(i, x, y, axis);
        out->dims[at + d] = a == 1 ? b : b == 1 || b < 0 ? a : b;
    }
    return NULL;
}

static weft_status infer_pair(infer *i, int64_t axis, int32_t dtype) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    shape out;
    TRY(shape_broadcast(i, x, y, axis, &out));
    if (x->height >= 0 && out.ndim == x->ndim) out.height = x->height; /* rows times a scalar stay rows */
    if (dtype != WEFT_DTYPE_NONE) out.dtype = dtype;
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_elementwise(infer *i) {
    return infer_pair(i, attr_int(i->op, "axis", -1), WEFT_DTYPE_NONE);
}

/* Of integers a number of fp64. */
weft_status infer_atan2(infer *i) {
    TRY(infer_pair(i, -1, WEFT_DTYPE_NONE));
    shape *out = infer_out(i, 0);
    if (out && (out->dtype == WEFT_INT32 || out->dtype == WEFT_INT64)) out->dtype = WEFT_FP64;
    return NULL;
}

/* Paddle's comparisons ignore `axis` on CPU. */
weft_status infer_compare(infer *i) {
    return infer_pair(i, -1, WEFT_BOOL);
}

weft_status infer_cast(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 0), (int32_t)attr_int(i->op, "out_dtype", WEFT_FP32));
    return NULL;
}

weft_status infer_bool_like(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 0), WEFT_BOOL);
    return NULL;
}

/* Three counts, and three numbers. */
weft_status infer_check_numerics(infer *i) {
    shape_set(infer_out(i, 0), WEFT_INT64, 1, (const int64_t[]){3});
    shape_set(infer_out(i, 1), WEFT_FP32, 1, (const int64_t[]){3});
    return NULL;
}

weft_status infer_allclose(infer *i) {
    shape_set(infer_out(i, 0), WEFT_BOOL, 0, NULL);
    return NULL;
}

weft_status infer_one_bool(infer *i) {
    shape_set(infer_out(i, 0), WEFT_BOOL, 1, (const int64_t[]){1});
    return NULL;
}

weft_status infer_where(infer *i) {
    const shape *x = infer_in(i, 1), *y = infer_in(i, 2);
    shape_text tx, ty;
    if (shape_known(x) && shape_known(y) && x->ndim != y->ndim)
        return infer_error(i, "expected X and Y of one shape, found %s and %s", shape_print(x, &tx),
                           shape_print(y, &ty));
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    return NULL;
}

weft_status infer_lerp(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1), *weight = infer_in(i, 2);
    shape both, out;
    if (!shape_known(x) || !shape_known(y) || !shape_known(weight) || !infer_out(i, 0)) return NULL;
    TRY(shape_broadcast(i, x, y, -1, &both));
    TRY(shape_broadcast(i, &both, weight, -1, &out));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_dist(infer *i) {
    shape_set(infer_out(i, 0), infer_in(i, 0)->dtype, 0, NULL);
    return NULL;
}

weft_status infer_masked_fill(infer *i) {
    const shape *x = infer_in(i, 0), *mask = infer_in(i, 1);
    shape out;
    if (!shape_known(x) || !shape_known(mask) || !infer_out(i, 0)) return NULL;
    TRY(shape_broadcast(i, x, mask, -1, &out));
    out.dtype = x->dtype;
    *infer_out(i, 0) = out;
    return NULL;
}
