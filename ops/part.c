/* part.c: types of parts of tensors and of tensors put together: slice, concat, split
 * (paddle/phi/infermeta/{unary,multiary}.cc, paddle/phi/kernels/funcs/slice_utils.h). */
#include "ops/part.h"

#include "ops/infer.h"

/* --- slice -------------------------------------------------------------------------------------------------------- */

/* Number of elements of start .. end in a dimension; negative bounds count from its end, both are clamped to it. */
static int64_t slice_extent(int64_t extent, int64_t start, int64_t end) {
    if (extent < 0) return -1;
    if (start < 0) start += extent;
    if (end < 0) end += extent;
    start = start < 0 ? 0 : start > extent ? extent : start;
    end = end < start ? start : end > extent ? extent : end;
    return end - start;
}

/* infer_flags of -1 say that a bound is run time's, unless tensors that are known gave it. */
static weft_status slice_axes(infer *i, shape *out) {
    size_t naxes, nflags;
    const int64_t *axes = attr_ints(i->op, "axes", &naxes), *flags = attr_ints(i->op, "infer_flags", &nflags);
    bool by_tensor = infer_has(i, "StartsTensor") || infer_has(i, "StartsTensorList") || infer_has(i, "EndsTensor") ||
                     infer_has(i, "EndsTensorList");
    numbers starts, ends;
    TRY(infer_numbers(i, "StartsTensor", "StartsTensorList", "starts", &starts));
    TRY(infer_numbers(i, "EndsTensor", "EndsTensorList", "ends", &ends));
    if (starts.count != naxes || ends.count != naxes)
        return infer_error(i, "expected a start and an end for each of %zu axes, found %zu and %zu", naxes,
                           starts.count, ends.count);
    for (size_t k = 0; k < naxes; k++) {
        int32_t d;
        TRY(infer_axis(i, "axes", axes[k], out->ndim, &d));
        bool known = starts.known && ends.known && (by_tensor || k >= nflags || flags[k] != -1);
        out->dims[d] = known ? slice_extent(out->dims[d], starts.values[k], ends.values[k]) : -1;
    }
    return NULL;
}

static weft_status drop_axes(infer *i, shape *s) {
    size_t count;
    const int64_t *axes = attr_ints(i->op, "decrease_axis", &count);
    bool dropped[WEFT_MAX_RANK] = {false};
    for (size_t k = 0; k < count; k++) {
        int32_t d;
        TRY(infer_axis(i, "decrease_axis", axes[k], s->ndim, &d));
        if (!extent_fits(s->dims[d], 1))
            return infer_error(i, "decrease_axis: expected an extent of 1 at dimension %d, found %lld", d,
                               (long long)s->dims[d]);
        dropped[d] = true;
    }
    int32_t ndim = 0;
    for (int32_t d = 0; d < s->ndim; d++)
        if (!dropped[d]) s->dims[ndim++] = s->dims[d];
    s->ndim = ndim;
    return NULL;
}

weft_status infer_slice(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    shape out = *x;
    TRY(slice_axes(i, &out));
    TRY(drop_axes(i, &out));
    *infer_out(i, 0) = out;
    return NULL;
}

int64_t strided_end(bool older, int64_t extent, int64_t end, int64_t stride) {
    if (!older || stride > 0 || end >= 0) return end;
    if (end == -1) return INT64_MIN;
    return end < -extent ? 0 : end;
}

int64_t strided_extent(int64_t extent, int64_t start, int64_t end, int64_t stride, int64_t *out_first) {
    int64_t lowest = stride < 0 ? -1 : 0, highest = stride < 0 ? extent - 1 : extent;
    if (start < 0) start += extent;
    if (end < 0) end = end < -extent ? lowest : end + extent;
    start = start < lowest ? lowest : start > highest ? highest : start;
    end = end < lowest ? lowest : end > highest ? highest : end;
    *out_first = start < 0 ? 0 : start;
    int64_t room = stride < 0 ? start - end : end - start, step = stride < 0 ? -stride : stride;
    return room <= 0 ? 0 : (room + step - 1) / step;
}

weft_status infer_strided_slice(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t naxes;
    const int64_t *axes = attr_ints(i->op, "axes", &naxes);
    numbers starts, ends, strides;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "StartsTensor", "StartsTensorList", "starts", &starts));
    TRY(infer_numbers(i, "EndsTensor", "EndsTensorList", "ends", &ends));
    TRY(infer_numbers(i, "StridesTensor", "StridesTensorList", "strides", &strides));
    if (starts.count != naxes || ends.count != naxes || strides.count != naxes)
        return infer_error(i, "expected a start, an end and a stride for each of %zu axes, found %zu, %zu and %zu",
                           naxes, starts.count, ends.count, strides.count);
    shape out = *x;
    bool older = op_follows_older(i->op);
    for (size_t k = 0; k < naxes; k++) {
        int32_t d;
        int64_t first;
        bool known = starts.known && ends.known && strides.known;
        TRY(infer_axis(i, "axes", axes[k], out.ndim, &d));
        if (known && (!strides.values[k] || strides.values[k] < -INT32_MAX || strides.values[k] > INT32_MAX))
            return infer_error(i, "strides: expected 32 bits, not 0, found %lld", (long long)strides.values[k]);
        known = known && x->dims[d] >= 0;
        int64_t end = known ? strided_end(older, x->dims[d], ends.values[k], strides.values[k]) : 0;
        out.dims[d] = known ? strided_extent(x->dims[d], starts.values[k], end, strides.values[k], &first) : -1;
    }
    TRY(drop_axes(i, &out));
    *infer_out(i, 0) = out;
    return NULL;
}

/* --- concat, split ------------------------------------------------------------------------------------------------ */

/* Attr `axis`, or what AxisTensor holds; -1 where only a run knows. */
static weft_status read_axis(const infer *i, int32_t ndim, int32_t *out) {
    numbers axis;
    TRY(infer_numbers(i, "AxisTensor", NULL, "axis", &axis));
    *out = -1;
    return axis.known && axis.count == 1 ? infer_axis(i, "axis", axis.values[0], ndim, out) : NULL;
}

static weft_status concat_along(infer *i, const shape *x, int32_t axis, shape *out) {
    for (size_t k = 1; k < infer_nin(i, 0); k++) {
        bool fits = x[k].ndim == out->ndim;
        for (int32_t d = 0; d < out->ndim && fits; d++) {
            if (d != axis) fits = extent_fits(out->dims[d], x[k].dims[d]);
            if (d != axis && out->dims[d] < 0) out->dims[d] = x[k].dims[d];
        }
        shape_text first, other;
        if (!fits)
            return infer_error(i, "expected shapes that differ in dimension %d alone, found %s and %s", axis,
                               shape_print(&x[0], &first), shape_print(&x[k], &other));
        out->dims[axis] = extent_add(out->dims[axis], x[k].dims[axis]);
    }
    return NULL;
}

weft_status infer_concat(infer *i) {
    const shape *x = i->in;
    int32_t axis;
    if (!infer_nin(i, 0)) return infer_error(i, "expected at least one argument in X, found none");
    for (size_t k = 0; k < infer_nin(i, 0); k++)
        if (!shape_known(&x[k])) return NULL;
    if (!infer_out(i, 0)) return NULL;
    shape out = x[0];
    TRY(read_axis(i, out.ndim, &axis));
    if (axis >= 0) TRY(concat_along(i, x, axis, &out));
    for (int32_t d = 0; d < out.ndim && axis < 0; d++) out.dims[d] = -1;
    *infer_out(i, 0) = out;
    return NULL;
}

/* Extents of the parts; one may be -1 and takes what the others leave. */
static weft_status split_sections(infer *i, const shape *x, int32_t axis, const int64_t *sections, size_t count) {
    int64_t whole = x->dims[axis], rest = whole;
    size_t nfree = 0;
    for (size_t k = 0; k < count && (whole < 0 || rest >= 0); k++) {
        nfree += sections[k] < 0;
        if (sections[k] >= 0 && whole >= 0) rest -= sections[k];
    }
    if (nfree > 1) return infer_error(i, "sections: expected one -1, found %zu", nfree);
    if (whole >= 0 && (rest < 0 || (!nfree && rest)))
        return infer_error(i, "sections: expected extents that add up to %lld", (long long)whole);
    for (size_t k = 0; k < count; k++) {
        i->out[k] = *x;
        i->out[k].dims[axis] = sections[k] < 0 ? rest : sections[k];
    }
    return NULL;
}

static weft_status split_evenly(infer *i, const shape *x, int32_t axis, int64_t num) {
    int64_t extent = x->dims[axis];
    if (extent >= 0 && extent % num)
        return infer_error(i, "num: expected a divisor of %lld, found %lld", (long long)extent, (long long)num);
    for (size_t k = 0; k < infer_nout(i, 0); k++) {
        i->out[k] = *x;
        i->out[k].dims[axis] = extent < 0 ? -1 : extent / num;
    }
    return NULL;
}

weft_status infer_split(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    size_t nout = infer_nout(i, 0), nsections;
    const int64_t *sections = attr_ints(i->op, "sections", &nsections);
    int64_t num = attr_int(i->op, "num", 0), parts = num > 0 ? num : (int64_t)nsections;
    int32_t axis;
    TRY(read_axis(i, x->ndim, &axis));
    if (parts != (int64_t)nout)
        return infer_error(i, "expected %lld arguments in Out, found %zu", (long long)parts, nout);
    numbers given;
    TRY(infer_numbers(i, "", "SectionsTensorList", NULL, &given));
    if (axis >= 0 && infer_has(i, "SectionsTensorList") && given.known && given.count == nout)
        return split_sections(i, x, axis, given.values, nout);
    if (axis < 0 || infer_has(i, "SectionsTensorList")) { /* their ranks are known, no more */
        for (size_t k = 0; k < nout; k++) {
            i->out[k] = *x;
            for (int32_t d = 0; d < x->ndim; d++) i->out[k].dims[d] = axis < 0 || d == axis ? -1 : x->dims[d];
        }
        return NULL;
    }
    return num > 0 ? split_evenly(i, x, axis, num) : split_sections(i, x, axis, sections, nsections);
}

/* --- stack, unstack ----------------------------------------------------------------------------------------------- */

weft_status infer_stack(infer *i) {
    int32_t axis;
    if (!infer_nin(i, 0)) return infer_error(i, "expected at least one argument in X, found none");
    shape out = i->in[0];
    for (size_t k = 0; k < infer_nin(i, 0); k++) {
        shape_text first, other;
        bool fits = shape_known(&i->in[k]) && i->in[k].ndim == out.ndim;
        if (!shape_known(&i->in[k])) return NULL;
        for (int32_t d = 0; d < out.ndim && fits; d++) fits = extent_fits(out.dims[d], i->in[k].dims[d]);
        if (!fits)
            return infer_error(i, "expected arguments of one shape, found %s and %s", shape_print(&i->in[0], &first),
                               shape_print(&i->in[k], &other));
    }
    TRY(infer_axis(i, "axis", attr_int(i->op, "axis", 0), out.ndim + 1, &axis));
    TRY(shape_append(i, &out, 1));
    memmove(&out.dims[axis + 1], &out.dims[axis], (size_t)(out.ndim - 1 - axis) * sizeof *out.dims);
    out.dims[axis] = (int64_t)infer_nin(i, 0);
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_unstack(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t axis;
    if (!shape_known(x)) return NULL;
    TRY(infer_axis(i, "axis", attr_int(i->op, "axis", 0), x->ndim, &axis));
    if (!extent_fits(x->dims[axis], (int64_t)infer_nout(i, 0)))
        return infer_error(i, "expected %lld outputs, found %zu", (long long)x->dims[axis], infer_nout(i, 0));
    shape part = *x;
    part.ndim--;
    memmove(&part.dims[axis], &part.dims[axis + 1], (size_t)(part.ndim - axis) * sizeof *part.dims);
    for (size_t k = 0; k < infer_nout(i, 0); k++) i->out[k] = part;
    return NULL;
}

/* The gradient of unstack is stack. */
weft_status infer_unstack_grad(infer *i) {
    return infer_stack(i);
}
