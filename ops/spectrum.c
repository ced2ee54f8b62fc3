/* spectrum.c: types of Fourier transforms and of complex tensors; of boxes in images
 * (paddle/phi/infermeta/{unary,binary,ternary}.cc). */
#include "ops/infer.h"

static int32_t complex_of(int32_t dtype) {
    return dtype == WEFT_FP64 ? (int32_t)WEFT_COMPLEX128 : dtype == WEFT_FP32 ? (int32_t)WEFT_COMPLEX64 : dtype;
}
static int32_t real_of(int32_t dtype) {
    return dtype == WEFT_COMPLEX128 ? (int32_t)WEFT_FP64 : dtype == WEFT_COMPLEX64 ? (int32_t)WEFT_FP32 : dtype;
}

/* The last axis of the transform; -1: there is none. */
static weft_status last_axis(const infer *i, const shape *x, int32_t *out) {
    size_t naxes;
    const int64_t *axes = attr_ints(i->op, "axes", &naxes);
    if (naxes == 0) return infer_error(i, "axes: expected one or more");
    return infer_axis(i, "axes", axes[naxes - 1], x->ndim, out);
}

/* Real to half of its transform. */
static weft_status halve(infer *i, const shape *x, bool halved) {
    int32_t axis;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(last_axis(i, x, &axis));
    shape out = *x;
    out.dtype = complex_of(x->dtype);
    if (halved && out.dims[axis] >= 0) out.dims[axis] = out.dims[axis] / 2 + 1;
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_fft_r2c(infer *i) {
    return halve(i, infer_in(i, 0), attr_bool(i->op, "onesided", true));
}
weft_status infer_fft_c2r_grad(infer *i) {
    return halve(i, infer_in(i, 0), true);
}

weft_status infer_fft_c2r(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t axis;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(last_axis(i, x, &axis));
    int64_t size = attr_int(i->op, "last_dim_size", 0);
    shape out = *x;
    out.dtype = real_of(x->dtype);
    if (size > 0)
        out.dims[axis] = size;
    else if (out.dims[axis] > 0)
        out.dims[axis] = 2 * (out.dims[axis] - 1);
    *infer_out(i, 0) = out;
    return NULL;
}

/* real, imag. */
weft_status infer_real_part(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 0), real_of(infer_in(i, 0)->dtype));
    return NULL;
}
weft_status infer_real_part_grad(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 0), complex_of(infer_in(i, 0)->dtype));
    return NULL;
}

weft_status infer_as_real(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    shape out = *x;
    out.dtype = real_of(x->dtype);
    TRY(shape_append(i, &out, 2));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_as_complex(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim < 1 || !extent_fits(x->dims[x->ndim - 1], 2))
        return infer_error(i, "expected X with a last dimension of 2");
    shape out = *x;
    out.dtype = complex_of(x->dtype);
    out.ndim--;
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_complex(infer *i) {
    const shape *x = infer_in(i, 0), *y = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(y) || !infer_out(i, 0)) return NULL;
    shape out;
    TRY(shape_broadcast(i, x, y, -1, &out));
    out.dtype = complex_of(x->dtype);
    *infer_out(i, 0) = out;
    return NULL;
}

/* --- boxes in images ---------------------------------------------------------------------------------------------- */

weft_status infer_roi_align(infer *i) {
    const shape *x = infer_in(i, 0), *boxes = infer_in(i, 1);
    if (!shape_known(x) || !shape_known(boxes) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 4 || boxes->ndim != 2)
        return infer_error(i, "expected X of 4 dimensions and ROIs of 2, found %d and %d", x->ndim, boxes->ndim);
    shape_set(infer_out(i, 0), x->dtype, 4,
              (const int64_t[]){boxes->dims[0], x->dims[1], attr_int(i->op, "pooled_height", 1),
                                attr_int(i->op, "pooled_width", 1)});
    return NULL;
}

/* Boxes, Scores. */
weft_status infer_yolo_box(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t nsizes;
    if (!shape_known(x)) return NULL;
    if (x->ndim != 4) return infer_error(i, "expected X of 4 dimensions, found %d", x->ndim);
    (void)attr_ints(i->op, "anchors", &nsizes);
    int64_t boxes = extent_mul((int64_t)nsizes / 2, extent_mul(x->dims[2], x->dims[3]));
    shape_set(infer_out(i, 0), x->dtype, 3, (const int64_t[]){x->dims[0], boxes, 4});
    shape_set(infer_out(i, 1), x->dtype, 3, (const int64_t[]){x->dims[0], boxes, attr_int(i->op, "class_num", 1)});
    return NULL;
}

/* --- frames of signals -------------------------------------------------------------------------------------------- */

static weft_status frame_axis(const infer *i, bool *out_is_last) {
    int64_t axis = attr_int(i->op, "axis", -1);
    if (axis != 0 && axis != -1) return infer_error(i, "axis: expected 0 or -1, found %lld", (long long)axis);
    *out_is_last = axis == -1;
    return NULL;
}

weft_status infer_frame(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t length = attr_int(i->op, "frame_length", 1), hop = attr_int(i->op, "hop_length", 1);
    bool is_last = true;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(frame_axis(i, &is_last));
    if (x->ndim < 1 || hop < 1 || length < 1) return infer_error(i, "expected a signal, frames and steps of 1 or more");
    int64_t time = x->dims[is_last ? x->ndim - 1 : 0];
    if (time >= 0 && length > time)
        return infer_error(i, "expected frames of at most %lld elements, found %lld", (long long)time,
                           (long long)length);
    int64_t count = time < 0 ? -1 : (time - length) / hop + 1;
    shape out = *x;
    TRY(shape_append(i, &out, count));
    if (is_last) {
        out.dims[x->ndim - 1] = length;
    } else {
        for (int32_t d = x->ndim; d > 1; d--) out.dims[d] = x->dims[d - 1];
        out.dims[0] = count;
        out.dims[1] = length;
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_overlap_add(infer *i) {
    const shape *x = infer_in(i, 0);
    bool is_last = true;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(frame_axis(i, &is_last));
    if (x->ndim < 2) return infer_error(i, "expected frames of two dimensions or more, found %d", x->ndim);
    int64_t length = x->dims[is_last ? x->ndim - 2 : 1], count = x->dims[is_last ? x->ndim - 1 : 0];
    int64_t hop = attr_int(i->op, "hop_length", 1);
    shape out = *x;
    out.ndim--;
    for (int32_t d = 1; !is_last && d < out.ndim; d++) out.dims[d] = x->dims[d + 1];
    out.dims[is_last ? out.ndim - 1 : 0] = length < 0 || count < 1 ? -1 : (count - 1) * hop + length;
    *infer_out(i, 0) = out;
    return NULL;
}
