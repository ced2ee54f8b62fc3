/* shape.c: types of ops that rearrange dimensions and keep every element (paddle/phi/infermeta/unary.cc). */
#include "ops/infer.h"

/* --- reshape2: 0 keeps an extent, one -1 follows from the number of elements --------------------------------------- */

/* Whether the new shape comes at run time, through Shape or ShapeTensor. Then `out` gets as many unknown extents. */
static bool shape_is_tensor(const infer *i, shape *out) {
    int whole = schema_input(i->schema, "Shape"), list = schema_input(i->schema, "ShapeTensor");
    const shape *tensor = infer_in(i, whole);
    if (tensor && tensor->ndim == 1 && tensor->dims[0] >= 0 && tensor->dims[0] <= WEFT_MAX_RANK)
        out->ndim = (int32_t)tensor->dims[0];
    else if (!tensor && infer_nin(i, list) && infer_nin(i, list) <= WEFT_MAX_RANK)
        out->ndim = (int32_t)infer_nin(i, list);
    for (int32_t d = 0; d < out->ndim; d++) out->dims[d] = -1;
    return tensor || infer_nin(i, list);
}

static weft_status reshape_extents(infer *i, const shape *x, shape *out, int32_t *out_free) {
    size_t count;
    const int64_t *target = attr_ints(i->op, "shape", &count);
    *out_free = -1;
    for (size_t d = 0; d < count; d++) {
        if (target[d] < -1) return infer_error(i, "shape: expected extents of -1 or more, found %lld", (long long)target[d]);
        if (target[d] == 0 && d >= (size_t)x->ndim && shape_numel(x) != 0)
            return infer_error(i, "shape: expected a dimension of X to keep at position %zu, found only %d", d, x->ndim);
        if (target[d] == -1 && *out_free >= 0) return infer_error(i, "shape: expected one -1, found more");
        if (target[d] == -1) *out_free = (int32_t)d;
        TRY(shape_append(i, out, target[d] || d >= (size_t)x->ndim ? target[d] : x->dims[d]));
    }
    return NULL;
}

static weft_status reshape(infer *i, const shape *x, shape *out) {
    int32_t free_dim;
    TRY(reshape_extents(i, x, out, &free_dim));
    int64_t numel = shape_numel(x), others = 1;
    for (int32_t d = 0; d < out->ndim; d++)
        if (d != free_dim) others = extent_mul(others, out->dims[d]);
    if (numel < 0 || others < 0) return NULL;
    if (free_dim >= 0 && others > 0) out->dims[free_dim] = numel / others;
    if (free_dim >= 0 && others == 0) out->dims[free_dim] = 0;
    if (shape_numel(out) == numel) return NULL;
    shape_text from, to;
    return infer_error(i, "expected a shape with the elements of X %s, found %s", shape_print(x, &from),
                       shape_print(out, &to));
}

weft_status infer_reshape2(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    shape out = {.dtype = x->dtype, .height = -1}, at_run_time = {.dtype = x->dtype, .ndim = -1, .height = -1};
    if (shape_is_tensor(i, &at_run_time))
        out = at_run_time;
    else
        TRY(reshape(i, x, &out));
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    if (i->schema->noutputs > 1) infer_xshape(i, 1, x);
    return NULL;
}

/* --- transpose2 ---------------------------------------------------------------------------------------------------- */

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

/* --- squeeze2, unsqueeze2, flatten_contiguous_range ------------------------------------------------------------------ */

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
    if (!shape_known(x)) return NULL;
    infer_xshape(i, 1, x);
    if (!infer_out(i, 0) || infer_in(i, 1)) return NULL; /* AxesTensor: axes are run time's */
    size_t count;
    const int64_t *axes = attr_ints(i->op, "axes", &count);
    shape out = *x;
    if (infer_nin(i, 2)) { /* AxesTensorList: where the ones go is not known, how many is */
        if (out.ndim + (int64_t)infer_nin(i, 2) > WEFT_MAX_RANK) return NULL;
        out.ndim += (int32_t)infer_nin(i, 2);
        for (int32_t d = 0; d < out.ndim; d++) out.dims[d] = -1;
        count = 0;
    }
    for (size_t k = 0; k < count; k++) {
        int32_t at;
        TRY(infer_axis(i, "axes", axes[k], out.ndim + 1, &at));
        TRY(shape_append(i, &out, 1));
        memmove(&out.dims[at + 1], &out.dims[at], (size_t)(out.ndim - 1 - at) * sizeof *out.dims);
        out.dims[at] = 1;
    }
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
