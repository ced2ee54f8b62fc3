/* collective.c: types of collectives that change extents; the others are `same`. */
#include "ops/infer.h"

static weft_status read_nranks(const infer *i, int64_t *out) {
    *out = attr_int(i->op, "nranks", 1);
    return *out >= 1 ? NULL : infer_error(i, "nranks: expected 1 or more, found %lld", (long long)*out);
}

static weft_status divide(const infer *i, int64_t *extent, int64_t nranks) {
    if (*extent < 0) return NULL;
    if (*extent % nranks)
        return infer_error(i, "expected an extent that %lld ranks can share, found %lld", (long long)nranks,
                           (long long)*extent);
    *extent /= nranks;
    return NULL;
}

static weft_status need_dims(const infer *i, const shape *x) {
    return x->ndim ? NULL : infer_error(i, "expected a tensor of one dimension or more, found []");
}

/* Scalars are gathered into a vector. */
weft_status infer_all_gather(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t nranks;
    TRY(read_nranks(i, &nranks));
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    shape out = *x;
    if (!out.ndim) TRY(shape_append(i, &out, 1));
    out.dims[0] = extent_mul(out.dims[0], nranks);
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_reduce_scatter(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t nranks;
    TRY(read_nranks(i, &nranks));
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(need_dims(i, x));
    *infer_out(i, 0) = *x;
    return divide(i, &infer_out(i, 0)->dims[0], nranks);
}

weft_status infer_c_concat(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t nranks;
    TRY(read_nranks(i, &nranks));
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(need_dims(i, x));
    shape *out = infer_out(i, 0);
    *out = *x;
    out->dims[x->ndim - 1] = extent_mul(x->dims[x->ndim - 1], nranks);
    return NULL;
}

weft_status infer_c_split(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t nranks;
    TRY(read_nranks(i, &nranks));
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(need_dims(i, x));
    *infer_out(i, 0) = *x;
    return divide(i, &infer_out(i, 0)->dims[x->ndim - 1], nranks);
}
