/* lift_exchange.c: all-to-all, which shards a value at another dimension.
 *
 * Each rank sends a piece to each: row blocks of one value, or values that were put one after another. Piece j of all
 * ranks, put together by the ring, is what rank j has. That is told of the serial value of each piece: what is sharded
 * at dimension 0 becomes whole, and what is sharded at another dimension lies one part after the other. What all ranks
 * have then is, rank by rank, the slices of one value along a dimension, if the pieces were that; or else what they
 * have one after another, sharded at dimension 0: always true, if seldom of use. Slices of rows of that are followed
 * rank by rank as well, and boxes that adjoin are one (lift_boxes.c). */
#include "proof/spmd/lift.h"

/* Each rank's rows of `x` are one after another in it: no axis shards another dimension. */
static bool is_rows_only(const lifter *l, const lifted *x) {
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (is_sharded(x->placed[i]) && !is_sharded_evenly(x->placed[i], 0)) return false;
    return true;
}

/* Pieces of `numel` elements each, one after another, as one box where they adjoin along dimension 0, else as they are.
 * The result has one dimension. */
static weft_status put_together(lifter *l, const value *pieces, size_t n, int64_t numel, value *out) {
    int64_t total = lift_product(numel, (int64_t)n);
    arena memory;
    arena_init(&memory, &l->t->context->allocator);
    weft_status status = NULL;
    box *boxes = ARENA_ARRAY(&memory, box, n), all;
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * n);
    if (!boxes || !ranges) TRY_DONE(base_out_of_memory());
    bool joined = total > 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t under = pieces[i].term;
        while (term_is(l->t, under, HEAD_RESHAPE)) under = term_args(l->t, under)[0].term;
        joined = joined && pieces[i].factor == FACTOR_ONE && lift_as_box(l->t, under, &boxes[i]);
        ranges[2 * i] = (int64_t)i * numel, ranges[2 * i + 1] = numel;
    }
    if (joined && lift_join(boxes, n, 0, &all))
        TRY_DONE(lift_make_box(l->t, &all, out));
    else
        TRY_DONE(term_flat(l->t, pieces, ranges, n, total, out));
    TRY_DONE(term_reshape(l->t, *out, 1, &total, out));
done:
    arena_fini(&memory);
    return status;
}

/* Whether the terms are all even slices of one value along a dimension, in order. *out_first: the first of them. */
static weft_status as_slices(lifter *l, const value *pieces, size_t n, bool *out_are, int *out_dim, box *out_first,
                             value *out) {
    box *boxes = base_alloc(&l->t->context->allocator, n * sizeof *boxes), all;
    *out_are = false;
    if (!boxes) return base_out_of_memory();
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        uint32_t under = pieces[i].term;
        while (term_is(l->t, under, HEAD_RESHAPE) && !lift_as_box(l->t, under, &boxes[i]))
            under = term_args(l->t, under)[0].term;
        good = pieces[i].factor == FACTOR_ONE && lift_as_box(l->t, under, &boxes[i]);
        good = good && boxes[i].ndim == boxes[0].ndim &&
               memcmp(boxes[i].extent, boxes[0].extent, boxes[0].ndim * sizeof *boxes[0].extent) == 0;
    }
    size_t d = 0;
    while (good && d < boxes[0].ndim && !lift_join(boxes, n, d, &all)) d++;
    *out_are = good && d < boxes[0].ndim;
    *out_dim = (int)d;
    *out_first = boxes[0];
    base_free(&l->t->context->allocator, boxes, n * sizeof *boxes);
    return *out_are ? lift_make_box(l->t, &all, out) : NULL;
}

/* What a slice of the rank's rows of `x` is, of each part in turn. NULL: they are not followed. */
static weft_status slice_parts(lifter *l, const head *h, const lifted *x, size_t *out_n, value **out) {
    int64_t offset = h->ints[0], numel = h->ints[1], n = lift_extent(l, lift_axes_with(l, x, sharded(0)));
    int64_t whole = term_numel(l->t, x->term);
    *out = NULL;
    *out_n = (size_t)n;
    if (!is_rows_only(l, x) || n < 2 || whole < 0 || whole % n || offset < 0 || numel <= 0) return NULL;
    value *parts = base_alloc(&l->t->context->allocator, (size_t)n * sizeof *parts);
    if (!parts) return base_out_of_memory();
    weft_status status = NULL;
    for (int64_t i = 0; i < n && !status; i++)
        status = term_part(l->t, value_of(x->term), i * (whole / n) + offset, numel, &parts[i]);
    if (!status) return *out = parts, NULL;
    base_free(&l->t->context->allocator, parts, (size_t)n * sizeof *parts);
    return status;
}

weft_status lift_slice(lifter *l, uint32_t id, const lifted *x, lifted *out) {
    size_t n;
    value *parts, all;
    int64_t numel = term_head(l->t, id)->ints[1];
    *out = lift_unknown(id, "a slice of a rank's part");
    TRY(slice_parts(l, term_head(l->t, id), x, &n, &parts));
    if (!parts) return NULL;
    weft_status status = put_together(l, parts, n, numel, &all);
    base_free(&l->t->context->allocator, parts, n * sizeof *parts);
    if (status || all.factor != FACTOR_ONE) return status;
    *out = *x;
    out->term = all.term;
    return NULL;
}

weft_status lift_shaped_slice(lifter *l, size_t rank, uint32_t id, bool *out_is, lifted *out) {
    const head *h = term_head(l->t, id);
    const value part = term_args(l->t, id)[0];
    *out_is = false;
    if (!term_is(l->t, part.term, HEAD_PART)) return NULL;
    const lifted x = l->known[rank][term_args(l->t, part.term)[0].term];
    if (x.state != LIFT_KNOWN) return NULL;
    size_t n, ndim = h->nints;
    value *parts, all;
    box first;
    int dim;
    if (ndim > WEFT_MAX_RANK) return NULL;
    int64_t dims[WEFT_MAX_RANK];
    if (ndim) memcpy(dims, h->ints, ndim * sizeof *dims);
    TRY(slice_parts(l, term_head(l->t, part.term), &x, &n, &parts));
    if (!parts) return NULL;
    weft_status status = as_slices(l, parts, n, out_is, &dim, &first, &all);
    base_free(&l->t->context->allocator, parts, n * sizeof *parts);
    *out_is = *out_is && !status && first.ndim == ndim && memcmp(first.extent, dims, ndim * sizeof *dims) == 0;
    if (!*out_is) return status;
    *out = x;
    out->term = all.term;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (is_sharded_evenly(x.placed[i], 0)) out->placed[i] = sharded(dim);
    lift_name_family(l, &x, 1, out);
    return NULL;
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

typedef struct exchange {
    lifter *l;
    uint32_t axes;
    size_t n; /* ranks of the ring */
    size_t ndim;
    int64_t dims[WEFT_MAX_RANK]; /* of a piece, as a rank sends it */
} exchange;

/* All axes of the ring shard one dimension evenly, which no other axis does; others may not touch the rows. */
static bool is_regular(const exchange *e, const lifted *x, int *out_dim) {
    axis_placement found = REPLICATED;
    bool any = false;
    if (lift_is_uneven(e->l, x)) return false;
    for (size_t i = 0; i < e->l->grid.naxes; i++) {
        if (!(e->axes >> i & 1)) continue;
        if (any && !placed_equal(x->placed[i], found)) return false;
        found = x->placed[i];
        any = true;
    }
    *out_dim = sharded_dim(found);
    if (!is_sharded(found)) return false;
    for (size_t i = 0; i < e->l->grid.naxes; i++)
        if (!(e->axes >> i & 1) &&
            (is_sharded_evenly(x->placed[i], 0) || placed_equal(x->placed[i], found) || is_partial(x->placed[i])))
            return false;
    return true;
}

/* Rows of the value, under its extents but for that of dimension 0. */
static weft_status rows_of(terms *t, uint32_t id, int64_t first, int64_t count, value *out) {
    int64_t dims[WEFT_MAX_RANK], row = 1;
    size_t ndim;
    const int64_t *own = term_dims(t, id, &ndim);
    memcpy(dims, own, ndim * sizeof *own);
    for (size_t d = 1; d < ndim; d++) row *= dims[d];
    dims[0] = count;
    TRY(term_part(t, value_of(id), first * row, count * row, out));
    return term_reshape(t, *out, ndim, dims, out);
}

/* Piece j of what is in parts: rows of the value, or of each part of it. */
static weft_status piece_of_part(exchange *e, const lifted *x, int dim, size_t j, lifted *out) {
    terms *t = e->l->t;
    size_t ndim, nparts = dim == 0 ? e->n : 1;
    const int64_t *whole = term_dims(t, x->term, &ndim);
    *out = lift_unknown(x->term, "it exchanges what does not fall into equal rows");
    if (!whole || ndim != e->ndim || term_numel(t, x->term) <= 0 ||
        whole[0] != lift_product(e->dims[0], (int64_t)(e->n * nparts)))
        return NULL;
    int64_t dims[WEFT_MAX_RANK], numel = 1;
    memcpy(dims, whole, ndim * sizeof *whole);
    dims[0] = e->dims[0];
    for (size_t d = 0; d < ndim; d++) numel *= dims[d];
    dims[0] *= (int64_t)nparts;
    value *rows = base_alloc(&t->context->allocator, nparts * sizeof *rows), all;
    if (!rows) return base_out_of_memory();
    weft_status status = NULL;
    for (size_t i = 0; i < nparts && !status; i++)
        status = rows_of(t, x->term, (int64_t)(i * e->n + j) * e->dims[0], e->dims[0], &rows[i]);
    if (!status) status = put_together(e->l, rows, nparts, numel, &all);
    if (!status) status = term_reshape(t, all, ndim, dims, &all);
    base_free(&t->context->allocator, rows, nparts * sizeof *rows);
    if (status || all.factor != FACTOR_ONE) return status;
    *out = *x;
    out->term = all.term;
    return NULL;
}

/* Argument j of a concatenation of as many equal pieces as there are ranks. */
static weft_status piece_of_list(exchange *e, size_t rank, uint32_t argument, size_t j, lifted *out) {
    terms *t = e->l->t;
    uint32_t flat = argument;
    *out = e->l->known[rank][argument];
    while (term_is(t, flat, HEAD_RESHAPE)) flat = term_args(t, flat)[0].term;
    const head *h = term_head(t, flat);
    if (h->kind != HEAD_FLAT || t->items[flat].nargs != e->n) return NULL;
    int64_t numel = 1;
    for (size_t d = 0; d < e->ndim; d++) numel *= e->dims[d];
    const value piece = term_args(t, flat)[j];
    if (h->ints[2 * j] != (int64_t)j * numel || h->ints[2 * j + 1] != numel || piece.factor != FACTOR_ONE) return NULL;
    const lifted x = e->l->known[rank][piece.term];
    *out = x;
    if (lift_is_open(&x)) return NULL;
    size_t ndim;
    const int64_t *dims = term_dims(t, piece.term, &ndim);
    int64_t whole[WEFT_MAX_RANK];
    value v = value_of(x.term);
    *out = lift_unknown(piece.term, "other extents split its parts otherwise");
    lifted made;
    if (!lift_reshape(e->l, &x, ndim, dims, e->ndim, e->dims, &made)) return NULL;
    lift_extents(e->l, &made, e->ndim, e->dims, whole);
    TRY(term_reshape(t, v, e->ndim, whole, &v));
    *out = made;
    out->term = v.term;
    return NULL;
}

/* What `rank` sends to member j. */
static weft_status find_piece(exchange *e, size_t rank, uint32_t argument, size_t j, lifted *out) {
    const lifted x = e->l->known[rank][argument];
    int dim;
    if (x.state != LIFT_KNOWN) return piece_of_list(e, rank, argument, j, out);
    *out = lift_unknown(argument, "it exchanges what is not sharded over its ring");
    return is_regular(e, &x, &dim) ? piece_of_part(e, &x, dim, j, out) : NULL;
}

/* What all members send to j, if they send the like of one another; else *out says why not, or that some wait. */
static weft_status common_piece(exchange *e, size_t self, uint32_t id, size_t j, lifted *out) {
    uint32_t own = term_args(e->l->t, term_args(e->l->t, id)[0].term)[0].term;
    TRY(find_piece(e, self, own, j, out));
    for (size_t i = 0; i < e->l->nranks && out->state == LIFT_KNOWN; i++) {
        if (i == self || !lift_is_member(e->l, self, i, e->axes)) continue;
        uint32_t argument = lift_members_argument(e->l, self, id, e->axes, i);
        lifted y = lift_unknown(id, "ranks give it different values");
        if (argument != TERM_NONE) TRY(find_piece(e, i, argument, j, &y));
        bool same =
            y.state == LIFT_KNOWN && y.term == out->term && y.family == out->family && lift_placed_alike(&y, out);
        if (y.state == LIFT_PENDING)
            *out = y;
        else if (!same)
            *out = lift_unknown(id, "ranks give it different values");
    }
    return NULL;
}

/* --- what ranks have then ----------------------------------------------------------------------------------------- */

/* The pieces that member j has, one after another. */
static weft_status received(exchange *e, const lifted *piece, int dim, value *out) {
    terms *t = e->l->t;
    *out = value_of(piece->term);
    box whole;
    if (dim == 0) return NULL;
    if (!lift_as_box(t, piece->term, &whole)) {
        whole = (box){.of = piece->term};
        const int64_t *dims = term_dims(t, piece->term, &whole.ndim);
        memcpy(whole.whole, dims, whole.ndim * sizeof *dims);
        memcpy(whole.extent, dims, whole.ndim * sizeof *dims);
    }
    value *parts = base_alloc(&t->context->allocator, e->n * sizeof *parts);
    if (!parts) return base_out_of_memory();
    int64_t ranges[2 * 64], numel = term_numel(t, piece->term) / (int64_t)e->n;
    weft_status status = NULL;
    whole.extent[dim] /= (int64_t)e->n;
    for (size_t i = 0; i < e->n && !status; i++, whole.offset[dim] += whole.extent[dim]) {
        status = lift_make_box(t, &whole, &parts[i]);
        ranges[2 * i] = (int64_t)i * numel, ranges[2 * i + 1] = numel;
    }
    if (!status) status = term_flat(t, parts, ranges, e->n, numel * (int64_t)e->n, out);
    base_free(&t->context->allocator, parts, e->n * sizeof *parts);
    return status;
}

/* What members have as one value; `x` is how they hold the pieces. */
static weft_status join_members(exchange *e, uint32_t id, const value *have, const lifted *x, int dim, lifted *out) {
    terms *t = e->l->t;
    bool slices = false;
    int to = 0;
    value all;
    box first;
    if (dim == 0) TRY(as_slices(e->l, have, e->n, &slices, &to, &first, &all));
    if (slices) {
        size_t ndim;
        const int64_t *dims = term_dims(t, have[0].term, &ndim);
        slices = dims && ndim == first.ndim && memcmp(first.extent, dims, ndim * sizeof *dims) == 0;
    }
    if (!slices) to = 0;
    *out = lift_unknown(id, "it shards a dimension that another axis shards");
    for (size_t i = 0; i < e->l->grid.naxes; i++)
        if (!(e->axes >> i & 1) && (is_sharded_evenly(x->placed[i], to) || is_sharded_evenly(x->placed[i], 0)))
            return NULL;
    lifted made = *x;
    for (size_t i = 0; i < e->l->grid.naxes; i++)
        if (e->axes >> i & 1) made.placed[i] = sharded(to);
    if (!slices) {
        size_t ndim;
        const int64_t *own = term_dims(t, id, &ndim);
        int64_t dims[WEFT_MAX_RANK], numel = term_numel(t, have[0].term);
        lift_extents(e->l, &made, e->ndim, own, dims);
        TRY(put_together(e->l, have, e->n, numel, &all));
        TRY(term_reshape(t, all, e->ndim, dims, &all));
    }
    if (all.factor != FACTOR_ONE) return NULL;
    *out = made;
    out->term = all.term;
    return NULL;
}

/* Whether what it says of its pieces is that they are as long as one another. */
static bool has_equal_splits(const weft_op *op, size_t n) {
    for (int gets = 0; gets < 2; gets++) {
        size_t count;
        const int64_t *splits = op_collective_splits(op, gets, &count);
        if (count && count != n) return false;
        for (size_t k = 1; k < count; k++)
            if (splits[k] != splits[0]) return false;
    }
    return true;
}

static bool begin(exchange *e, size_t rank, uint32_t id, const weft_op *op) {
    lifter *l = e->l;
    size_t nout;
    uint32_t of = term_args(l->t, id)[0].term;
    if (l->t->items[of].nargs != 1 || !lift_ring_axes(l, rank, op, &e->axes) || !e->axes) return false;
    if (!lift_ring_in_order(l, rank, op, e->axes) || !l->record[rank][id]) return false;
    uint32_t argument = term_args(l->t, of)[0].term;
    const int64_t *dims = term_dims(l->t, argument, &e->ndim), *own = term_dims(l->t, id, &nout);
    e->n = (size_t)lift_extent(l, e->axes);
    if (!has_equal_splits(op, e->n) || !dims || !own || nout != e->ndim || e->ndim == 0 || e->ndim > WEFT_MAX_RANK ||
        e->n > 64)
        return false;
    if (memcmp(dims, own, e->ndim * sizeof *dims) != 0 || term_numel(l->t, argument) <= 0) return false;
    memcpy(e->dims, dims, e->ndim * sizeof *dims);
    e->dims[0] /= (int64_t)e->n;
    return dims[0] == lift_product(e->dims[0], (int64_t)e->n);
}

weft_status lift_all_to_all(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out) {
    exchange e = {.l = l};
    *out = lift_unknown(id, "an exchange over ranks that are no line of the mesh, or of unequal pieces");
    if (!begin(&e, rank, id, op)) return NULL;
    value have[64];
    lifted first = lift_replicated(TERM_NONE);
    int dim = 0, next;
    for (size_t j = 0; j < e.n; j++) {
        lifted piece;
        TRY(common_piece(&e, rank, id, j, &piece));
        if (lift_is_open(&piece)) return *out = piece, NULL;
        *out = lift_unknown(id, "it exchanges what is not sharded over its ring");
        if (!is_regular(&e, &piece, j ? &next : &dim)) return NULL;
        if (j == 0) first = piece;
        if (!lift_placed_alike(&piece, &first)) return NULL;
        TRY(received(&e, &piece, dim, &have[j]));
        if (have[j].factor != FACTOR_ONE) return NULL;
    }
    return join_members(&e, id, have, &first, dim, out);
}
