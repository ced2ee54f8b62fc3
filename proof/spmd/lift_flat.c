/* lift_flat.c: values put one after another of which ranks have parts along some dimension.
 *
 * A rank's elements of such a value come in runs: of dimension d and those behind it. Where runs are of one length in
 * all of them, so they are in what is put together: every n-th run is the rank's. */
#include "proof/spmd/lift.h"

enum { MOST_ROWS = 64 }; /* values that are followed one behind another */

/* The only axis along which they are not all alike and whole, or partial; -1: there are several, or none. */
static int sharding_axis(const lifter *l, const lifted *args, size_t n) {
    int found = -1;
    for (size_t k = 0; k < l->grid.naxes; k++) {
        bool shards = is_sharded(args[0].placed[k]);
        if (shards && found >= 0) return -1;
        for (size_t i = 0; i < n; i++)
            if (shards ? !is_sharded_evenly(args[i].placed[k], sharded_dim(args[i].placed[k]))
                       : !placed_equal(args[i].placed[k], args[0].placed[k]))
                return -1;
        if (shards) found = (int)k;
    }
    return found;
}

/* Elements of a run of the rank's part; 0: not known. */
static int64_t run_of(const terms *t, uint32_t own, const lifted *x, int axis) {
    size_t ndim;
    const int64_t *dims = term_dims(t, own, &ndim);
    int64_t run = 1;
    for (size_t d = (size_t)x->placed[axis].dim; dims && d < ndim; d++) run = lift_product(run, dims[d]);
    return dims && run > 0 && term_numel(t, own) > 0 ? run : 0;
}

weft_status lift_flat_of_parts(lifter *l, uint32_t id, const lifted *args, size_t n, value *scratch, lifted *out) {
    const head *h = term_head(l->t, id);
    int axis = n && h->nints == 2 * n ? sharding_axis(l, args, n) : -1;
    if (axis < 0) return NULL;
    int64_t parts = l->grid.extent[axis], run = run_of(l->t, term_args(l->t, id)[0].term, &args[0], axis), at = 0;
    int64_t *ranges = base_alloc(&l->t->context->allocator, 2 * n * sizeof *ranges);
    if (!ranges) return base_out_of_memory();
    bool good = run > 0;
    for (size_t i = 0; i < n && good; i++) {
        uint32_t own = term_args(l->t, id)[i].term;
        good = run_of(l->t, own, &args[i], axis) == run && h->ints[2 * i] == at &&
               h->ints[2 * i + 1] == term_numel(l->t, own) && term_args(l->t, id)[i].factor == FACTOR_ONE;
        ranges[2 * i] = lift_product(at, parts), ranges[2 * i + 1] = lift_product(h->ints[2 * i + 1], parts);
        at += h->ints[2 * i + 1];
        scratch[i] = value_of(args[i].term);
    }
    int split = good && h->total == at && lift_product(at, parts) > 0 ? lift_find_run(l, run) : 0;
    weft_status status = NULL;
    value all = value_of(TERM_NONE);
    if (split) status = term_flat(l->t, scratch, ranges, n, at * parts, &all);
    base_free(&l->t->context->allocator, ranges, 2 * n * sizeof *ranges);
    if (status || !split || all.factor != FACTOR_ONE) return status;
    *out = args[0];
    out->term = all.term;
    out->placed[axis] = at == run ? sharded(0) : sharded_by(0, split);
    lift_name_family(l, args, n, out);
    return NULL;
}

/* A member of such under those extents but for the first: where they are not its own, as it is known under them. */
static weft_status as_rows(const lifter *l, size_t rank, size_t ndim, const int64_t *like, value *arg) {
    int64_t dims[WEFT_MAX_RANK], row = 1, numel = term_numel(l->t, arg->term);
    size_t nown;
    const int64_t *own = term_dims(l->t, arg->term, &nown);
    memcpy(dims, like, ndim * sizeof *like);
    for (size_t d = 1; d < ndim; d++) row = lift_product(row, dims[d]);
    if ((own && nown == ndim) || row <= 0 || numel <= 0 || numel % row) return NULL;
    dims[0] = numel / row;
    value shaped = *arg;
    TRY(term_reshape(l->t, shaped, ndim, dims, &shaped));
    if (shaped.term < l->nterms && l->known[rank][shaped.term].state == LIFT_KNOWN) *arg = shaped;
    return NULL;
}

weft_status lift_rows_of_parts(lifter *l, size_t rank, uint32_t id, bool *out_is, lifted *out) {
    const head *h = term_head(l->t, id);
    uint32_t flat = term_args(l->t, id)[0].term;
    size_t n = l->t->items[flat].nargs, ndim = h->nints, nown;
    int64_t rows = 0, ranges[2 * MOST_ROWS], whole[WEFT_MAX_RANK], at = 0;
    value values[MOST_ROWS], members[MOST_ROWS], all;
    *out_is = false;
    if (!term_is(l->t, flat, HEAD_FLAT) || n == 0 || n > MOST_ROWS || ndim < 2 || ndim > WEFT_MAX_RANK) return NULL;
    for (size_t i = 0; i < n; i++) {
        members[i] = term_args(l->t, flat)[i];
        TRY(as_rows(l, rank, ndim, h->ints, &members[i]));
        h = term_head(l->t, id); /* the table may move */
    }
    const lifted first = l->known[rank][members[0].term];
    if (first.state != LIFT_KNOWN || lift_is_sharded_at(l, &first, 0)) return NULL;
    for (size_t i = 0; i < n; i++) {
        const value arg = members[i];
        const lifted *x = &l->known[rank][arg.term];
        const int64_t *own = term_dims(l->t, arg.term, &nown);
        if (x->state != LIFT_KNOWN || !lift_placed_alike(x, &first) || x->family != first.family) return NULL;
        if (arg.factor != FACTOR_ONE || !own || nown != ndim || term_head(l->t, flat)->ints[2 * i] != at) return NULL;
        if (memcmp(own + 1, h->ints + 1, (ndim - 1) * sizeof *own) != 0) return NULL;
        rows += own[0], at += term_numel(l->t, arg.term);
        values[i] = value_of(x->term);
    }
    if (rows != h->ints[0] || lift_is_partial(l, &first)) return NULL;
    lift_extents(l, &first, ndim, h->ints, whole);
    at = 0;
    for (size_t i = 0; i < n; i++, at += ranges[2 * i - 1])
        ranges[2 * i] = at, ranges[2 * i + 1] = term_numel(l->t, values[i].term);
    TRY(term_flat(l->t, values, ranges, n, at, &all));
    TRY(term_reshape(l->t, all, ndim, whole, &all));
    if (all.factor != FACTOR_ONE) return NULL;
    *out = first;
    out->term = all.term;
    *out_is = true;
    return NULL;
}
