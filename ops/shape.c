/* shape.c: types of ops that rearrange dimensions and keep every element (paddle/phi/infermeta/unary.cc). */
#include "ops/infer.h"

/* --- reshape2: 0 keeps an extent, one -1 follows from the number of elements -------------------------------------- */

/* Extents that only a run knows are -1 too: only where all are known must they be consistent. */
static weft_status reshape_extents(infer *i, const shape *x, const numbers *target, shape *out, int32_t *out_free) {
    *out_free = -1;
    for (size_t d = 0; d < target->count; d++) {
        int64_t extent = target->values[d];
        if (extent < -1) return infer_error(i, "shape: expected extents of -1 or more, found %lld", (long long)extent);
        if (extent == 0 && d >= (size_t)x->ndim && shape_numel(x) != 0)
            return infer_error(i, "shape: expected a dimension of X to keep at position %zu, found only %d", d,
                               x->ndim);
        if (extent == -1 && *out_free >= 0 && target->known)
            return infer_error(i, "shape: expected one -1, found more");
        if (extent == -1) *out_free = *out_free < 0 ? (int32_t)d : WEFT_MAX_RANK;
        TRY(shape_append(i, out, extent || d >= (size_t)x->ndim ? extent : x->dims[d]));
    }
    return NULL;
}

static weft_status reshape(infer *i, const shape *x, const numbers *target, shape *out) {
    int32_t free_dim;
    TRY(reshape_extents(i, x, target, out, &free_dim));
    if (free_dim == WEFT_MAX_RANK) return NULL; /* several: a run will know */
    int64_t numel = shape_numel(x), others = 1;
    for (int32_t d = 0; d < out->ndim; d++)
        if (d != free_dim) others = extent_mul(others, out->dims[d]);
    if (numel < 0 || others < 0) return NULL;
    if (free_dim >= 0) out->dims[free_dim] = others ? numel / others : 0;
    if (shape_numel(out) == numel) return NULL;
    shape_text from, to;
    return infer_error(i, "expected a shape with the elements of X %s, found %s", shape_print(x, &from),
                       shape_print(out, &to));
}

weft_status infer_reshape2(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers target;
    if (!shape_known(x)) return NULL;
    shape out = {.dtype = x->dtype, .height = -1};
    TRY(infer_numbers(i, "Shape", "ShapeTensor", "shape", &target));
    TRY(reshape(i, x, &target, &out));
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    infer_xshape(i, 1, x);
    return NULL;
}

/* --- transpose2 --------------------------------------------------------------------------------------------------- */

static weft_status read_permutation(const infer *i, int32_t ndim, int32_t axis[WEFT_MAX_RANK]) {
    size_t count;
    const int64_t *given = attr_ints(i->op, "axis", &count);
    uint32_t seen = 0;
    if (count != (size_t)ndim) return infer_error(i, "axis: expected %d dimensions, found %zu", ndim, count);
    for (size_t d = 0; d < count; d++) {
        TRY(infer_axis(i, "axis", given[d], ndim, &axis[d]));
        if (seen & 1u << axis[d]) return infer_error(i, "axis: expected each dimension once, found %d twice", axis[d]);
        seen |= 1u << axis[d];
    }
    return NULL;
}

weft_status infer_transpose2(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t axis[WEFT_MAX_RANK];
    if (!shape_known(x)) return NULL;
    TRY(read_permutation(i, x->ndim, axis));
    if (infer_out(i, 0)) {
        *infer_out(i, 0) = *x;
        for (int32_t d = 0; d < x->ndim; d++) infer_out(i, 0)->dims[d] = x->dims[axis[d]];
    }
    infer_xshape(i, 1, x);
    return NULL;
}

weft_status infer_transpose2_grad(infer *i) {
    const shape *gradient = infer_in(i, schema_input(i->schema, "Out@GRAD"));
    int32_t axis[WEFT_MAX_RANK];
    if (!shape_known(gradient) || !infer_out(i, 0)) return NULL;
    TRY(read_permutation(i, gradient->ndim, axis));
    *infer_out(i, 0) = *gradient;
    for (int32_t d = 0; d < gradient->ndim; d++) infer_out(i, 0)->dims[axis[d]] = gradient->dims[d];
    return NULL;
}

/* --- squeeze2, unsqueeze2, flatten_contiguous_range --------------------------------------------------------------- */

/* Extents of -1 that are named in `axes` count as 1, as Paddle's compile time has it. */
weft_status infer_squeeze2(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    size_t count;
    const int64_t *axes = attr_ints(i->op, "axes", &count);
    bool named[WEFT_MAX_RANK] = {false};
    for (size_t k = 0; k < count && x->ndim; k++) {
        int32_t d;
        TRY(infer_axis(i, "axes", axes[k], x->ndim, &d));
        named[d] = true;
    }
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < x->ndim; d++) {
        bool drop = count ? named[d] && (x->dims[d] == 1 || x->dims[d] < 0) : x->dims[d] == 1;
        if (!drop) TRY(shape_append(i, &out, x->dims[d]));
    }
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    infer_xshape(i, 1, x);
    return NULL;
}

weft_status infer_unsqueeze2(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers axes;
    if (!shape_known(x)) return NULL;
    infer_xshape(i, 1, x);
    if (!infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "AxesTensor", "AxesTensorList", "axes", &axes));
    shape out = *x;
    for (size_t k = 0; k < axes.count; k++) {
        int32_t at;
        TRY(infer_axis(i, "axes", axes.known ? axes.values[k] : 0, out.ndim + 1, &at));
        TRY(shape_append(i, &out, 1));
        memmove(&out.dims[at + 1], &out.dims[at], (size_t)(out.ndim - 1 - at) * sizeof *out.dims);
        out.dims[at] = 1;
    }
    for (int32_t d = 0; d < out.ndim && !axes.known; d++)
        out.dims[d] = -1; /* where they go is not known, how many is */
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_flatten_contiguous_range(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    shape out = {.dtype = x->dtype, .height = -1};
    int32_t start = 0, stop = 0;
    if (x->ndim) {
        TRY(infer_axis(i, "start_axis", attr_int(i->op, "start_axis", 1), x->ndim, &start));
        TRY(infer_axis(i, "stop_axis", attr_int(i->op, "stop_axis", 1), x->ndim, &stop));
    }
    if (start > stop) return infer_error(i, "expected start_axis <= stop_axis, found %d and %d", start, stop);
    for (int32_t d = 0; d < start; d++) TRY(shape_append(i, &out, x->dims[d]));
    int64_t flat = 1;
    for (int32_t d = start; d <= stop && d < x->ndim; d++) flat = extent_mul(flat, x->dims[d]);
    TRY(shape_append(i, &out, flat));
    for (int32_t d = stop + 1; d < x->ndim; d++) TRY(shape_append(i, &out, x->dims[d]));
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    infer_xshape(i, 1, x);
    return NULL;
}

weft_status infer_flatten2(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    int64_t axis = attr_int(i->op, "axis", 1), dims[2] = {1, 1};
    if (axis < 0 || axis > x->ndim)
        return infer_error(i, "axis: expected 0 to %d, found %lld", x->ndim, (long long)axis);
    for (int32_t d = 0; d < x->ndim; d++) dims[d >= axis] = extent_mul(dims[d >= axis], x->dims[d]);
    shape_set(infer_out(i, 0), x->dtype, 2, dims);
    infer_xshape(i, 1, x);
    return NULL;
}

/* --- shape, size: the extents themselves, as tensors -------------------------------------------------------------- */

weft_status infer_shape(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    shape_set(infer_out(i, 0), WEFT_INT32, 1, (const int64_t[]){x->ndim});
    return shape_numel(x) < 0 ? NULL : infer_keep_values(i, 0, (size_t)x->ndim, x->dims);
}

weft_status infer_size(infer *i) {
    int64_t numel = shape_numel(infer_in(i, 0));
    if (!infer_out(i, 0)) return NULL;
    shape_set(infer_out(i, 0), WEFT_INT64, 0, NULL);
    return numel < 0 ? NULL : infer_keep_values(i, 0, 1, &numel);
}
