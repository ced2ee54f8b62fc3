/* counted.c: types of ops that draw, count or look up numbers: how many results there are is an attr, or follows from
 * elements that are known (paddle/phi/infermeta/{unary,binary}.cc). */
#include "ops/infer.h"

enum { COUNT_MAX = 4096 }; /* elements that are looked at */

weft_status infer_randperm(infer *i) {
    shape_set(infer_out(i, 0), (int32_t)attr_int(i->op, "dtype", WEFT_INT64), 1,
              (const int64_t[]){attr_int(i->op, "n", -1)});
    return NULL;
}

/* A row of draws for each row of shares. */
weft_status infer_multinomial(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (x->ndim < 1 || x->ndim > 2) return infer_error(i, "expected X of 1 or 2 dimensions, found %d", x->ndim);
    shape out = *x;
    out.dtype = WEFT_INT64;
    out.dims[x->ndim - 1] = attr_int(i->op, "num_samples", 1);
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_searchsorted(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 1),
                    attr_bool(i->op, "out_int32", false) ? (int32_t)WEFT_INT32 : (int32_t)WEFT_INT64);
    return NULL;
}

/* Known elements of X, as int64 or bits of a double; NULL: they are not known, or too many. */
static const int64_t *known_elements(const infer *i, int64_t *out_count) {
    const int64_t *values = i->in_values[i->in_first[0]];
    *out_count = values ? shape_numel(infer_in(i, 0)) : -1;
    return *out_count >= 0 && *out_count <= COUNT_MAX ? values : NULL;
}

weft_status infer_bincount(infer *i) {
    const shape *weights = infer_has(i, "Weights") ? infer_in(i, 1) : NULL;
    int64_t count, most = attr_int(i->op, "minlength", 0);
    const int64_t *values = known_elements(i, &count);
    for (int64_t k = 0; values && k < count; k++)
        if (values[k] >= most && values[k] < INT64_MAX) most = values[k] + 1;
    shape_set(infer_out(i, 0), weights ? weights->dtype : (int32_t)WEFT_INT64, 1, (const int64_t[]){values ? most : -1});
    return NULL;
}

static int64_t count_different(const int64_t *values, int64_t count) {
    int64_t found = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t before = 0;
        while (before < k && values[before] != values[k]) before++;
        found += before == k;
    }
    return found;
}

/* Out, Indices, Index, Counts. */
weft_status infer_unique(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t naxes;
    const int64_t *axes = attr_ints(i->op, "axis", &naxes), *values;
    int32_t axis = 0, number = (int32_t)attr_int(i->op, "dtype", WEFT_INT64);
    int64_t count, found = -1, extent;
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (naxes > 1) return infer_error(i, "axis: expected one or none, found %zu", naxes);
    shape out = {.dtype = x->dtype, .ndim = 1, .height = -1};
    if (naxes) {
        TRY(infer_axis(i, "axis", axes[0], x->ndim, &axis));
        out = *x;
        extent = x->dims[axis];
    } else {
        extent = shape_numel(x);
    }
    values = known_elements(i, &count);
    if (values && extent == count) found = count_different(values, count);
    out.dims[axis] = found;
    *infer_out(i, 0) = out;
    shape_set(infer_out(i, 1), number, 1, &found);
    shape_set(infer_out(i, 2), number, 1, &extent);
    shape_set(infer_out(i, 3), number, 1, &found);
    return NULL;
}

/* Out [row, matrix]. */
weft_status infer_bilinear(infer *i) {
    const shape *x = infer_in(i, 0), *w = infer_in(i, 2);
    if (!shape_known(x) || !shape_known(w) || !infer_out(i, 0)) return NULL;
    if (x->ndim != 2 || w->ndim != 3)
        return infer_error(i, "expected X of 2 dimensions and Weight of 3, found %d and %d", x->ndim, w->ndim);
    shape_set(infer_out(i, 0), x->dtype, 2, (const int64_t[]){x->dims[0], w->dims[0]});
    return NULL;
}

weft_status infer_bilinear_grad(infer *i) {
    const shape *w = infer_in(i, 2);
    TRY(infer_grad(i));
    if (shape_known(w) && w->ndim == 3) shape_set(infer_out(i, 3), w->dtype, 2, (const int64_t[]){1, w->dims[0]});
    return NULL;
}

/* Y, Means, Scales. */
weft_status infer_data_norm(infer *i) {
    if (infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, 2);
    for (int o = 1; o < 3; o++)
        if (infer_out(i, o)) *infer_out(i, o) = *infer_in(i, 3);
    return NULL;
}

/* What a batch adds to the sums, and the sums themselves where the op names them again, are like Means. */
weft_status infer_data_norm_grad(infer *i) {
    static const int sums[] = {1, 2, 3, 6, 7, 8};
    TRY(infer_grad(i));
    for (size_t k = 0; k < sizeof sums / sizeof *sums; k++)
        if (infer_out(i, sums[k])) *infer_out(i, sums[k]) = *infer_in(i, 3);
    return NULL;
}

/* Out, PreOut, W_Out: a row of PreOut is as long as the longest way to a class. */
weft_status infer_hierarchical_sigmoid(infer *i) {
    const shape *x = infer_in(i, 0), *path = infer_has(i, "PathTable") ? infer_in(i, 3) : NULL;
    if (!shape_known(x) || (path && !shape_known(path))) return NULL;
    int64_t steps = 0;
    for (int64_t n = attr_int(i->op, "num_classes", 2) - 1; n > 0; n /= 2) steps++;
    if (path) steps = path->ndim == 2 ? path->dims[1] : -1;
    if (x->ndim != 2) return infer_error(i, "expected X of 2 dimensions, found %d", x->ndim);
    shape_set(infer_out(i, 0), x->dtype, 2, (const int64_t[]){x->dims[0], 1});
    shape_set(infer_out(i, 1), x->dtype, 2, (const int64_t[]){x->dims[0], steps});
    if (infer_out(i, 2)) *infer_out(i, 2) = *infer_in(i, 1);
    return NULL;
}

/* Out, Index, Counts. */
weft_status infer_unique_consecutive(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t naxes;
    const int64_t *axes = attr_ints(i->op, "axis", &naxes);
    int32_t axis = 0, number = (int32_t)attr_int(i->op, "dtype", WEFT_INT64);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    if (naxes > 1) return infer_error(i, "axis: expected one or none, found %zu", naxes);
    if (naxes) TRY(infer_axis(i, "axis", axes[0], x->ndim, &axis));
    shape out = {.dtype = x->dtype, .ndim = 1, .height = -1};
    if (naxes) out = *x;
    int64_t count, found = -1, extent = naxes ? x->dims[axis] : shape_numel(x);
    const int64_t *values = known_elements(i, &count);
    if (values && extent == count) {
        found = count > 0;
        for (int64_t k = 1; k < count; k++) found += values[k] != values[k - 1];
    }
    out.dims[axis] = found;
    *infer_out(i, 0) = out;
    shape_set(infer_out(i, 1), number, 1, &extent);
    shape_set(infer_out(i, 2), number, 1, &found);
    return NULL;
}

/* Scores, Path: as long as the longest sequence, or where lengths are not known as all may be. */
weft_status infer_viterbi_decode(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    if (x->ndim != 3) return infer_error(i, "expected Input of 3 dimensions, found %d", x->ndim);
    const int64_t *lengths = i->in_values[i->in_first[2]];
    int64_t count = lengths ? shape_numel(infer_in(i, 2)) : 0, longest = lengths && count > 0 ? 0 : x->dims[1];
    for (int64_t k = 0; k < count; k++)
        if (lengths[k] > longest) longest = lengths[k];
    shape_set(infer_out(i, 0), x->dtype, 1, x->dims);
    shape_set(infer_out(i, 1), WEFT_INT64, 2, (const int64_t[]){x->dims[0], longest});
    return NULL;
}

weft_status infer_edit_distance(infer *i) {
    const shape *hyps = infer_in(i, 0);
    shape_set(infer_out(i, 0), WEFT_INT64, 1, (const int64_t[]){1});
    if (shape_known(hyps) && hyps->ndim)
        shape_set(infer_out(i, 1), WEFT_FP32, 2, (const int64_t[]){hyps->dims[0], 1});
    return NULL;
}
