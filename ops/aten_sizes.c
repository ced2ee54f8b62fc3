/* aten_sizes.c: types of ATen ops whose extents follow from attrs: borders, ranges, halves, bags; and of steps of
 * optimizers, which write what they are given. */
#include <math.h>

#include "ops/infer.h"

/* Two numbers in `attr` for each of the last dimensions, the last one first. */
static weft_status add_border(infer *i, const char *attr) {
    const shape *x = infer_in(i, 0);
    size_t count;
    const int64_t *pad = attr_ints(i->op, attr, &count);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (count % 2 || count > 2 * (size_t)x->ndim)
        return infer_error(i, "%s: expected two numbers for each of the last dimensions, found %zu", attr, count);
    shape out = *x;
    for (size_t k = 0; k < count / 2; k++) {
        int64_t *extent = &out.dims[x->ndim - 1 - (int32_t)k];
        if (*extent >= 0 && *extent + pad[2 * k] + pad[2 * k + 1] < 0)
            return infer_error(i, "%s: expected a cut of what is there, found %lld", attr, (long long)pad[2 * k]);
        if (*extent >= 0) *extent += pad[2 * k] + pad[2 * k + 1];
    }
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_aten_constant_pad(infer *i) {
    return add_border(i, "pad");
}
weft_status infer_aten_border(infer *i) {
    return add_border(i, "padding");
}

weft_status infer_aten_arange(infer *i) {
    double start = attr_float(i->op, "start", 0), end = attr_float(i->op, "end", 0),
           step = attr_float(i->op, "step", 1);
    int64_t dtype = attr_int(i->op, "dtype", -1);
    double count = ceil((end - start) / step);
    if (!infer_out(i, 0)) return NULL;
    if (!(count >= 0 && count < 9e15)) return infer_error(i, "expected steps from start to end");
    int64_t n = (int64_t)count;
    shape_set(infer_out(i, 0), dtype < 0 ? infer_out(i, 0)->dtype : (int32_t)dtype, 1, &n);
    return NULL;
}

/* As many numbers as `attr` says. */
static weft_status infer_counted(infer *i, const char *attr) {
    int64_t dtype = attr_int(i->op, "dtype", -1), count = attr_int(i->op, attr, 0);
    if (!infer_out(i, 0)) return NULL;
    if (count < 0) return infer_error(i, "%s: expected 0 or more, found %lld", attr, (long long)count);
    shape_set(infer_out(i, 0), dtype < 0 ? infer_out(i, 0)->dtype : (int32_t)dtype, 1, &count);
    return NULL;
}

weft_status infer_aten_linspace(infer *i) {
    return infer_counted(i, "steps");
}
weft_status infer_aten_iota(infer *i) {
    return infer_counted(i, "length");
}

weft_status infer_aten_glu(infer *i) {
    const shape *x = infer_in(i, 0);
    int32_t dim = 0;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(infer_axis(i, "dim", attr_int(i->op, "dim", -1), x->ndim, &dim));
    if (x->dims[dim] % 2 > 0)
        return infer_error(i, "expected two halves, found an extent of %lld", (long long)x->dims[dim]);
    shape out = *x;
    if (out.dims[dim] > 0) out.dims[dim] /= 2;
    *infer_out(i, 0) = out;
    return NULL;
}

/* A row of each bag. */
weft_status infer_aten_embedding_bag(infer *i) {
    const shape *weight = infer_in(i, 0), *indices = infer_in(i, 1), *offsets = infer_in(i, 2);
    if (!shape_known(weight) || !shape_known(offsets)) return NULL;
    if (weight->ndim != 2 || offsets->ndim != 1)
        return infer_error(i, "expected a matrix and a list of offsets, found %d and %d dimensions", weight->ndim,
                           offsets->ndim);
    int64_t nbags = offsets->dims[0];
    if (nbags > 0 && attr_bool(i->op, "include_last_offset", false)) nbags--;
    shape_set(infer_out(i, 0), weight->dtype, 2, (const int64_t[]){nbags, weight->dims[1]});
    if (shape_known(indices) && infer_out(i, 1)) *infer_out(i, 1) = *indices;
    for (int o = 2; o < 4; o++)
        if (infer_out(i, o)) shape_set(infer_out(i, o), offsets->dtype, 1, &nbags);
    return NULL;
}

weft_status infer_aten_embedding_bag_backward(infer *i) {
    const shape *grad = infer_in(i, 0);
    if (!shape_known(grad)) return NULL;
    if (grad->ndim != 2) return infer_error(i, "expected grad of 2 dimensions, found %d", grad->ndim);
    shape_set(infer_out(i, 0), grad->dtype, 2, (const int64_t[]){attr_int(i->op, "num_weights", 0), grad->dims[1]});
    return NULL;
}

/* What is written in place stays as it is. */
weft_status infer_aten_fused(infer *i) {
    for (size_t o = 0; o < i->schema->noutputs; o++) {
        size_t from = (size_t)i->schema->outputs[o].in_place_of;
        for (uint32_t k = i->out_first[o]; k < i->out_first[o + 1]; k++) {
            uint32_t at = i->in_first[from] + (k - i->out_first[o]);
            if (at < i->in_first[from + 1]) i->out[k] = i->in[at];
        }
    }
    return NULL;
}
