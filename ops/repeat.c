/* repeat.c: types of ops that repeat elements or put a border around them (paddle/phi/infermeta/unary.cc). */
#include "ops/infer.h"

/* X's dimensions stand at the end of the target's; -1 keeps one. */
weft_status infer_expand_v2(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers target;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "Shape", "expand_shapes_tensor", "shape", &target));
    shape out = {.dtype = x->dtype, .height = -1};
    int64_t lead = (int64_t)target.count - x->ndim;
    shape_text tx;
    if (lead < 0) return infer_error(i, "shape: expected at least %d extents, found %zu", x->ndim, target.count);
    for (size_t d = 0; d < target.count; d++) {
        int64_t extent = target.values[d], own = (int64_t)d < lead ? 1 : x->dims[(int64_t)d - lead];
        if (extent == -1 && target.known) extent = own;
        if (own != 1 && !extent_fits(own, extent))
            return infer_error(i, "shape: expected an extent to which X %s broadcasts, found %lld", shape_print(x, &tx),
                               (long long)extent);
        TRY(shape_append(i, &out, extent));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_expand_as_v2(infer *i) {
    numbers target;
    if (infer_in(i, 1)) {
        shape_copy_dims(infer_out(i, 0), infer_in(i, 1), infer_in(i, 0)->dtype);
        return NULL;
    }
    TRY(infer_numbers(i, "", NULL, "target_shape", &target));
    shape_set(infer_out(i, 0), infer_in(i, 0)->dtype, target.count, target.values);
    return NULL;
}

/* The shorter of extents and repetitions is filled up with ones at the front. */
static weft_status repeat(infer *i, const numbers *given) {
    const shape *x = infer_in(i, 0);
    numbers times = *given;
    int32_t nx = x->ndim, nt = (int32_t)times.count, ndim = nx > nt ? nx : nt;
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < ndim; d++) {
        int64_t extent = d < ndim - nx ? 1 : x->dims[d - (ndim - nx)];
        int64_t repeat = d < ndim - nt ? 1 : times.known ? times.values[d - (ndim - nt)] : -1;
        TRY(shape_append(i, &out, extent_mul(extent, repeat)));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_tile(infer *i) {
    numbers times;
    if (!shape_known(infer_in(i, 0)) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "RepeatTimes", "repeat_times_tensor", "repeat_times", &times));
    return repeat(i, &times);
}

weft_status infer_expand(infer *i) {
    numbers times;
    if (!shape_known(infer_in(i, 0)) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "ExpandTimes", "expand_times_tensor", "expand_times", &times));
    return repeat(i, &times);
}

/* All become as large as all together need. */
weft_status infer_broadcast_tensors(infer *i) {
    shape all = {.height = -1};
    for (size_t k = 0; k < infer_nin(i, 0); k++) {
        if (!shape_known(&i->in[k])) return NULL;
        shape wider;
        if (k) TRY(shape_broadcast(i, &all, &i->in[k], -1, &wider));
        all = k ? wider : i->in[k];
    }
    for (size_t k = 0; k < infer_nout(i, 0) && k < infer_nin(i, 0); k++)
        shape_copy_dims(&i->out[k], &all, i->in[k].dtype);
    return NULL;
}

/* Each argument is a vector, or a scalar that counts as one element. */
weft_status infer_meshgrid(infer *i) {
    shape out = {.dtype = i->in[0].dtype, .height = -1};
    for (size_t k = 0; k < infer_nin(i, 0); k++) {
        if (!shape_known(&i->in[k])) return NULL;
        TRY(shape_append(i, &out, shape_numel(&i->in[k])));
    }
    for (size_t k = 0; k < infer_nout(i, 0); k++) i->out[k] = out;
    return NULL;
}

/* --- borders ------------------------------------------------------------------------------------------------------ */

enum { MAX_BORDER = INT32_MAX }; /* as Paddle's: sums do not overflow */

/* `extent` with two borders, which a negative number cuts off. */
static weft_status add_border(infer *i, int64_t *extent, int64_t before, int64_t after, int sign) {
    if (before < -MAX_BORDER || before > MAX_BORDER || after < -MAX_BORDER || after > MAX_BORDER)
        return infer_error(i, "paddings: expected 32 bits, found %lld and %lld", (long long)before, (long long)after);
    if (*extent < 0) return NULL;
    if (*extent > INT64_MAX - 2 * (int64_t)MAX_BORDER || *extent + sign * (before + after) < 0)
        return infer_error(i, "paddings: expected a tensor that %lld and %lld leave, found an extent of %lld",
                           (long long)before, (long long)after, (long long)*extent);
    *extent += sign * (before + after);
    return NULL;
}

static weft_status add_borders(infer *i, const shape *x, int sign) {
    size_t count;
    const int64_t *paddings = attr_ints(i->op, "paddings", &count);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (count != 2 * (size_t)x->ndim)
        return infer_error(i, "paddings: expected two for each of %d dimensions, found %zu", x->ndim, count);
    shape out = *x;
    for (int32_t d = 0; d < x->ndim; d++) TRY(add_border(i, &out.dims[d], paddings[2 * d], paddings[2 * d + 1], sign));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_pad(infer *i) {
    return add_borders(i, infer_in(i, 0), 1);
}
weft_status infer_pad_grad(infer *i) {
    return add_borders(i, infer_in(i, schema_input(i->schema, "Out@GRAD")), -1);
}

/* Paddings go from the last spatial dimension to the first: left, right, top, bottom, front, back. */
weft_status infer_pad3d(infer *i) {
    const shape *x = infer_in(i, 0);
    numbers paddings;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 5) return infer_error(i, "expected X of 5 dimensions, found %d", x->ndim);
    TRY(infer_numbers(i, "Paddings", NULL, "paddings", &paddings));
    if (paddings.count != 6) return infer_error(i, "paddings: expected 6 numbers, found %zu", paddings.count);
    bool last = strcmp(attr_string(i->op, "data_format", "NCDHW"), "NDHWC") == 0;
    shape out = *x;
    for (int k = 0; k < 3; k++) {
        int64_t *extent = &out.dims[(last ? 3 : 4) - k];
        if (!paddings.known)
            *extent = -1;
        else
            TRY(add_border(i, extent, paddings.values[2 * k], paddings.values[2 * k + 1], 1));
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_diag_v2(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t offset = attr_int(i->op, "offset", 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (offset < -INT32_MAX || offset > INT32_MAX)
        return infer_error(i, "offset: expected 32 bits, found %lld", (long long)offset);
    int64_t size = offset < 0 ? -offset : offset;
    if (x->ndim > 2) return infer_error(i, "expected X of at most 2 dimensions, found %d", x->ndim);
    if (x->ndim < 2) {
        int64_t side = extent_add(shape_numel(x), size);
        shape_set(infer_out(i, 0), x->dtype, 2, (const int64_t[]){side, side});
        return NULL;
    }
    int64_t rows = x->dims[0], columns = x->dims[1], length = -1;
    if (rows >= 0 && columns >= 0) {
        if (offset >= 0) length = rows < columns - size ? rows : columns - size;
        if (offset < 0) length = rows - size < columns ? rows - size : columns;
        if (length < 0) length = 0;
    }
    shape_set(infer_out(i, 0), x->dtype, 1, &length);
    return NULL;
}
