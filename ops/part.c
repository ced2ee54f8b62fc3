/* part.c: types of parts of tensors and of tensors put together: slice, concat, split
 * (paddle/phi/infermeta/{unary,multiary}.cc, paddle/phi/kernels/funcs/slice_utils.h). */
#include "ops/infer.h"

/* --- slice --------------------------------------------------------------------------------------------------------- */

/* Number of elements of start .. end in a dimension; negative bounds count from its end, both are clamped to it. */
static int64_t slice_extent(int64_t extent, int64_t start, int64_t end) {
    if (extent < 0) {
        /* Known all the same where both bounds count from the same end. */
        bool same_end = (start < 0) == (end < 0);
        return same_end && end == start + 1 && start < 0 ? 1 : -1;
    }
    if (start < 0) start += extent;
    if (end < 0) end += extent;
    start = start < 0 ? 0 : start > extent ? extent : start;
    end = end < start ? start : end > extent ? extent : end;
    return end - start;
}

static bool has_args(const infer *i, const char *slot_name) {
    int s = schema_input(i->schema, slot_name);
    return s >= 0 && infer_nin(i, s) > 0;
}

static weft_status slice_axes(infer *i, shape *out) {
    size_t naxes, nstarts, nends, nflags;
    const int64_t *axes = attr_ints(i->op, "axes", &naxes), *starts = attr_ints(i->op, "starts", &nstarts);
    const int64_t *ends = attr_ints(i->op, "ends", &nends), *flags = attr_ints(i->op, "infer_flags", &nflags);
    bool at_run_time = has_args(i, "StartsTensor") || has_args(i, "StartsTensorList") || has_args(i, "EndsTensor") ||
                       has_args(i, "EndsTensorList");
    if (!at_run_time && (nstarts != naxes || nends != naxes))
        return infer_error(i, "expected a start and an end for each of %zu axes, found %zu and %zu", naxes, nstarts, nends);
    for (size_t k = 0; k < naxes; k++) {
        int32_t d;
        TRY(infer_axis(i, "axes", axes[k], out->ndim, &d));
        bool unknown = at_run_time || (k < nflags && flags[k] == -1);
        out->dims[d] = unknown ? -1 : slice_extent(out->dims[d], starts[k], ends[k]);
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

/* --- concat, split ------------------------------------------------------------------------------------------------- */

weft_status infer_concat(infer *i) {
    const shape *x = i->in;
    if (!infer_nin(i, 0)) return infer_error(i, "expected at least one argument in X, found none");
    for (size_t k = 0; k < infer_nin(i, 0); k++)
        if (!shape_known(&x[k])) return NULL;
    if (!infer_out(i, 0) || has_args(i, "AxisTensor")) return NULL;
    shape out = x[0];
    int32_t axis;
    TRY(infer_axis(i, "axis", attr_int(i->op, "axis", 0), out.ndim, &axis));
    for (size_t k = 1; k < infer_nin(i, 0); k++) {
        bool fits = x[k].ndim == out.ndim;
        for (int32_t d = 0; d < out.ndim && fits; d++) {
            if (d != axis) fits = extent_fits(out.dims[d], x[k].dims[d]);
            if (d != axis && out.dims[d] < 0) out.dims[d] = x[k].dims[d];
        }
        shape_text first, other;
        if (!fits)
            return infer_error(i, "expected shapes that differ in dimension %d alone, found %s and %s", axis,
                               shape_print(&x[0], &first), shape_print(&x[k], &other));
        out.dims[axis] = extent_add(out.dims[axis], x[k].dims[axis]);
    }
    *infer_out(i, 0) = out;
    return NULL;
}

static weft_status split_sections(infer *i, shape *out, int32_t axis, const int64_t *sections, size_t count) {
    int64_t whole = out->dims[axis], rest = whole;
    size_t nfree = 0;
    for (size_t k = 0; k < count; k++) {
        if (sections[k] < 0)
            nfree++;
        else
            rest = rest < 0 ? -1 : rest - sections[k];
        if (whole >= 0 && rest < 0) break;
    }
    if (nfree > 1) return infer_error(i, "sections: expected one -1, found %zu", nfree);
    if (whole >= 0 && (rest < 0 || (!nfree && rest)))
        return infer_error(i, "sections: expected extents that add up to %lld", (long long)whole);
    for (size_t k = 0; k < count; k++) {
        i->out[k] = *out;
        i->out[k].dims[axis] = sections[k] < 0 ? rest : sections[k];
    }
    return NULL;
}

weft_status infer_split(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || has_args(i, "AxisTensor")) return NULL;
    size_t nout = infer_nout(i, 0), nsections;
    const int64_t *sections = attr_ints(i->op, "sections", &nsections);
    const int64_t num = attr_int(i->op, "num", 0);
    shape out = *x;
    int32_t axis;
    TRY(infer_axis(i, "axis", attr_int(i->op, "axis", 0), out.ndim, &axis));
    int64_t parts = num > 0 ? num : (int64_t)nsections;
    if (parts != (int64_t)nout)
        return infer_error(i, "expected %lld arguments in Out, found %zu", (long long)parts, nout);
    if (num <= 0 && !has_args(i, "SectionsTensorList")) return split_sections(i, &out, axis, sections, nsections);
    if (num <= 0)
        out.dims[axis] = -1;
    else if (out.dims[axis] >= 0 && out.dims[axis] % num)
        return infer_error(i, "num: expected a divisor of %lld, found %lld", (long long)out.dims[axis], (long long)num);
    else if (out.dims[axis] >= 0)
        out.dims[axis] /= num;
    for (size_t k = 0; k < nout; k++) i->out[k] = out;
    return NULL;
}
