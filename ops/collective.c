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

/* Output k of what input k becomes. Scalars are gathered into a vector. */
static weft_status gather_one(infer *i, size_t k) {
    const shape *x = &infer_in(i, 0)[k];
    int64_t nranks;
    TRY(read_nranks(i, &nranks));
    if (!shape_known(x)) return NULL;
    shape out = *x;
    if (!out.ndim) TRY(shape_append(i, &out, 1));
    out.dims[0] = extent_mul(out.dims[0], nranks);
    infer_out(i, 0)[k] = out;
    return NULL;
}

static weft_status scatter_one(infer *i, size_t k) {
    const shape *x = &infer_in(i, 0)[k];
    int64_t nranks;
    TRY(read_nranks(i, &nranks));
    if (!shape_known(x)) return NULL;
    TRY(need_dims(i, x));
    shape *out = &infer_out(i, 0)[k];
    *out = *x;
    return divide(i, &out->dims[0], nranks);
}

/* As many outputs as inputs, each inferred alone. */
static weft_status infer_each(infer *i, weft_status (*one)(infer *i, size_t k)) {
    if (infer_nin(i, 0) != infer_nout(i, 0))
        return infer_error(i, "expected as many outputs as inputs, found %zu and %zu", infer_nout(i, 0),
                           infer_nin(i, 0));
    for (size_t k = 0; k < infer_nin(i, 0); k++) TRY(one(i, k));
    return NULL;
}

weft_status infer_all_gather(infer *i) {
    return infer_in(i, 0) && infer_out(i, 0) ? gather_one(i, 0) : NULL;
}

weft_status infer_reduce_scatter(infer *i) {
    return infer_in(i, 0) && infer_out(i, 0) ? scatter_one(i, 0) : NULL;
}

weft_status infer_all_gather_coalesced(infer *i) {
    return infer_each(i, gather_one);
}

weft_status infer_reduce_scatter_coalesced(infer *i) {
    return infer_each(i, scatter_one);
}

/* --- lists: an argument for each rank ----------------------------------------------------------------------------- */

/* All arguments are of one type, as far as known. */
static weft_status check_alike(const infer *i, const shape *x) {
    for (size_t k = 1; k < infer_nin(i, 0); k++) {
        shape_text one, other;
        bool alike = x[k].dtype == x->dtype && (x[k].ndim == x->ndim || x[k].ndim < 0 || x->ndim < 0);
        for (int32_t d = 0; alike && x[k].ndim == x->ndim && d < x->ndim; d++)
            alike = extent_fits(x[k].dims[d], x->dims[d]);
        if (!alike)
            return infer_error(i, "%s: expected arguments of one type, found %s and %s", i->schema->inputs[0].name,
                               shape_print(x, &one), shape_print(&x[k], &other));
    }
    return NULL;
}

weft_status infer_all_gather_list(infer *i) {
    for (size_t k = 0; shape_known(infer_in(i, 0)) && k < infer_nout(i, 0); k++) i->out[k] = *infer_in(i, 0);
    return NULL;
}

/* Like any of them; a rank that gives none has declared what it gets. */
weft_status infer_part_list(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    TRY(check_alike(i, x));
    *infer_out(i, 0) = *x;
    return NULL;
}

/* What the others send has the type of what goes to them if all is alike; else it is declared. */
weft_status infer_all_to_all_list(infer *i) {
    const shape *x = infer_in(i, 0);
    if (infer_nin(i, 0) != infer_nout(i, 0))
        return infer_error(i, "expected as many outputs as inputs, found %zu and %zu", infer_nout(i, 0),
                           infer_nin(i, 0));
    if (!shape_known(x)) return NULL;
    for (size_t k = 1; k < infer_nin(i, 0); k++)
        if (x[k].ndim != x->ndim || memcmp(x[k].dims, x->dims, (size_t)x->ndim * sizeof *x->dims) != 0) return NULL;
    for (size_t k = 0; k < infer_nout(i, 0); k++) i->out[k] = *x;
    return NULL;
}

static weft_status add_up(const infer *i, const char *attr, size_t *out_count, int64_t *out_sum) {
    const int64_t *splits = attr_ints(i->op, attr, out_count);
    *out_sum = 0;
    for (size_t k = 0; k < *out_count; k++) {
        if (splits[k] < 0) return infer_error(i, "%s: expected extents, found %lld", attr, (long long)splits[k]);
        *out_sum = extent_add(*out_sum, splits[k]);
    }
    return NULL;
}

/* out_splits are extents of what the others send. */
weft_status infer_all_to_all(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t nsent, nreceived;
    int64_t sent, received;
    TRY(add_up(i, "in_splits", &nsent, &sent));
    TRY(add_up(i, "out_splits", &nreceived, &received));
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    *infer_out(i, 0) = *x;
    if (!nsent && !nreceived) return NULL;
    TRY(need_dims(i, x));
    if (nsent && !extent_fits(sent, x->dims[0]))
        return infer_error(i, "in_splits: expected extents that add up to %lld, found %lld", (long long)x->dims[0],
                           (long long)sent);
    if (nreceived) infer_out(i, 0)->dims[0] = received;
    return NULL;
}

/* --- along the last dimension ------------------------------------------------------------------------------------- */

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

/* --- from one rank to another ------------------------------------------------------------------------------------- */

/* What is received has the type that the attrs say; without extents there, the declared ones. */
weft_status infer_recv(infer *i) {
    numbers extents;
    shape *out = infer_out(i, 0);
    if (!out) return NULL;
    out->dtype = (int32_t)attr_int(i->op, "dtype", WEFT_FP32);
    if (!op_find_attr(i->op, "out_shape") || attr_bool(i->op, "dynamic_shape", false)) return NULL;
    TRY(infer_numbers(i, "", NULL, "out_shape", &extents));
    *out = (shape){.dtype = out->dtype, .height = -1};
    for (size_t d = 0; d < extents.count; d++)
        TRY(shape_append(i, out, extents.values[d] < 0 ? -1 : extents.values[d]));
    return NULL;
}

/* --- with a product ----------------------------------------------------------------------------------------------- */

/* The rows of A, the columns of B; -1: B's are not known. */
static weft_status product_of(const infer *i, const shape *a, const shape *b, shape *out) {
    if (a->ndim < 2 || b->ndim != 2) return infer_error(i, "expected A of two dimensions or more and B a matrix");
    if (!extent_fits(a->dims[a->ndim - 1], b->dims[0]))
        return infer_error(i, "expected B of %lld rows, found %lld", (long long)a->dims[a->ndim - 1],
                           (long long)b->dims[0]);
    *out = *a;
    out->dims[a->ndim - 1] = b->dims[1];
    return NULL;
}

/* The dimension in the attr, which must not be the last: that is contracted. */
static weft_status dim_of(const infer *i, const char *attr, const shape *a, int64_t *out) {
    *out = attr_int(i->op, attr, 0);
    if (*out < 0 || *out >= a->ndim - 1)
        return infer_error(i, "%s: expected 0 to %d, found %lld", attr, (int)a->ndim - 2, (long long)*out);
    return NULL;
}

static int64_t ring_nranks(const infer *i) {
    const ring *r = program_find_ring(i->op->program, op_ring(i->op));
    return r ? r->nranks : -1;
}

weft_status infer_fused_all_gather_matmul(infer *i) {
    const shape *x = infer_in(i, 0);
    int64_t dim, n = ring_nranks(i);
    if (!shape_known(x) || n < 0) return NULL;
    shape whole = *x;
    TRY(dim_of(i, "gather_dim", x, &dim));
    whole.dims[dim] = extent_mul(x->dims[dim], n);
    if (infer_out(i, 0)) *infer_out(i, 0) = whole;
    size_t nproducts = infer_nout(i, 1);
    if (nproducts != infer_nin(i, 1)) return infer_error(i, "expected as many products as Bs");
    for (size_t k = 0; k < nproducts; k++) {
        const shape *b = infer_in(i, 1) + k;
        if (shape_known(b)) TRY(product_of(i, &whole, b, infer_out(i, 1) + k));
    }
    return NULL;
}

weft_status infer_fused_matmul_reduce_scatter(infer *i) {
    const shape *a = infer_in(i, 0), *b = infer_in(i, 1);
    int64_t dim, n = ring_nranks(i);
    if (!shape_known(a) || !shape_known(b) || n < 1 || !infer_out(i, 0)) return NULL;
    TRY(dim_of(i, "scatter_dim", a, &dim));
    TRY(product_of(i, a, b, infer_out(i, 0)));
    return divide(i, &infer_out(i, 0)->dims[dim], n);
}
