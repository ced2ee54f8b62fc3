/* lift_collectives.c: what collectives make of what ranks have.
 *
 * The ranks of a ring must be all that differ along some axes of the grid. A sum over them makes of what is partial
 * along these the value itself, and of what is replicated as many times the value; a gather does so with parts. All
 * members must have the same value, sharded alike or partial of one family: else their sum is a sum of different
 * values, which is followed only where each is the same on all ranks. */
#include "proof/spmd/view.h"

/* --- sums --------------------------------------------------------------------------------------------------------- */

/* What a reduce over `axes` makes of what all members have. */
static weft_status reduce_along(lifter *l, uint32_t id, weft_reduce reduce, uint32_t axes, const lifted *x,
                                lifted *out) {
    bool adds = reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG;
    uint32_t partial = axes & lift_axes_with(l, x, PARTIAL), replicated = axes & lift_axes_with(l, x, REPLICATED);
    *out = lift_unknown(id, partial ? "it is no sum" : "it multiplies what is equal on all ranks");
    if ((partial | replicated) != axes) {
        *out = lift_unknown(id, "it combines the parts of different ranks");
        return NULL;
    }
    if (!adds && (partial || (reduce == WEFT_REDUCE_PROD && axes))) return NULL;
    *out = *x;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (partial >> i & 1) out->placed[i] = REPLICATED;
    if (reduce == WEFT_REDUCE_SUM) TRY(lift_times(l, out->term, lift_extent(l, replicated), false, &out->term));
    if (reduce == WEFT_REDUCE_AVG) TRY(lift_times(l, out->term, lift_extent(l, partial), true, &out->term));
    lift_name_family(l, x, 1, out);
    return NULL;
}

weft_status lift_reduce(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const head *h = term_head(l->t, id);
    weft_reduce reduce = h->reduce;
    uint32_t own = term_args(l->t, id)[0].term, at = l->record[rank][id], axes = 0;
    uint32_t all = 0; /* axes along which ranks differ */
    for (size_t i = 0; i < l->grid.naxes; i++) all |= l->grid.extent[i] > 1 ? UINT32_C(1) << i : 0;
    const lifted x = l->known[rank][own];
    const weft_op *op = at ? l->outputs[rank].collectives[at - 1].op : NULL;
    bool full = h->ints && h->nints == l->nranks;
    bool lies = full || (op && lift_ring_axes(l, rank, op, &axes));
    if (full) axes = all;
    if (lift_is_open(&x)) {
        *out = x;
        if (lies && x.state == LIFT_UNKNOWN) lift_take_fold(l, rank, id, axes, (int)reduce, out);
        return NULL;
    }
    if (!lies) return *out = lift_unknown(id, "it reduces over ranks that are no line of the mesh"), NULL;
    if (!op) return *out = lift_unknown(id, "it is not known what other ranks give it"), NULL;
    lift_agreement found = lift_members_agree(l, rank, id, axes, &x);
    if (found == MEMBERS_WAIT) return *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE}, NULL;
    if (found == MEMBERS_DIFFER && reduce == WEFT_REDUCE_SUM) return lift_sum_of_different(l, rank, id, axes, out);
    if (found == MEMBERS_DIFFER) {
        *out = lift_unknown(id, "ranks give it different values");
        return NULL;
    }
    return reduce_along(l, id, reduce, axes, &x, out);
}

/* --- from and to a root ------------------------------------------------------------------------------------------- */

static weft_status lift_rooted(lifter *l, size_t rank, uint32_t id, weft_op *op, lifted *out) {
    const ring *of = program_find_ring(l->programs[rank], op_ring(op));
    uint32_t at = l->record[rank][id], axes = 0;
    bool sends = op_is_collective(op, COLLECTIVE_BROADCAST);
    int64_t root = op_collective_root(op);
    *out = lift_unknown(id, "a collective whose ring is not known");
    if (!of || !at || root < 0 || root >= of->nranks || of->ranks[root] >= (int64_t)l->nranks) return NULL;
    size_t root_rank = (size_t)of->ranks[root];
    const collective *c = lift_partner(l, rank, at - 1, sends ? root_rank : rank);
    if (!c || strcmp(op->type->bytes, c->op->type->bytes) != 0) return NULL;
    lifted x = l->known[sends ? root_rank : rank][c->argument];
    bool lies = lift_ring_axes(l, rank, op, &axes);
    if (lift_is_open(&x)) return *out = x, NULL;
    if (sends) {
        bool is_own = lies ? (lift_axes_with(l, &x, REPLICATED) & axes) != axes : !lift_is_replicated(l, &x);
        *out = is_own ? lift_unknown(id, "the root sends what is only its own") : x;
        return NULL;
    }
    bool is_sum = op_collective_reduce(op) == WEFT_REDUCE_SUM;
    bool partial = lies && (lift_axes_with(l, &x, PARTIAL) & axes) == axes;
    if (root_rank != rank) return *out = lift_unknown(id, "only the root has the sum"), NULL;
    if (!is_sum || !partial) return *out = lift_unknown(id, "a reduction of what is not partial"), NULL;
    lift_agreement found = lift_members_agree(l, rank, id, axes, &x);
    if (found == MEMBERS_WAIT) return *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE}, NULL;
    if (found == MEMBERS_DIFFER) return *out = lift_unknown(id, "ranks give it different values"), NULL;
    return reduce_along(l, id, WEFT_REDUCE_SUM, axes, &x, out);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* Whether dimension `d` of one is n times as long as that of the other; true too where that is not known. */
static bool is_times_as_long(const terms *t, uint32_t longer, uint32_t shorter, int d, int64_t n) {
    size_t nlong, nshort;
    const int64_t *a = term_dims(t, longer, &nlong), *b = term_dims(t, shorter, &nshort);
    return !a || !b || ((size_t)d < nlong && (size_t)d < nshort && a[d] == lift_product(b[d], n));
}

/* Parts along the axes of the ring put together, or what is replicated split, or the sum of what is partial split. */
static weft_status move_parts(lifter *l, size_t rank, uint32_t id, const weft_op *op, axis_placement from,
                              axis_placement to, const lifted *x, lifted *out) {
    uint32_t axes;
    bool joins = is_sharded(from), is_part = false;
    int d = joins ? from.dim : to.dim;
    lifted made = *x;
    *out = lift_unknown(id, "its ring is no line of the mesh, or in another order than the parts");
    if (!lift_ring_axes(l, rank, op, &axes) || !lift_ring_in_order(l, rank, op, axes)) return NULL;
    *out = lift_unknown(id, joins                 ? "it gathers what are no parts along that dimension"
                            : is_replicated(from) ? "it splits what is not replicated"
                                                  : "it adds up what is not partial");
    for (size_t i = 0; joins && i < l->grid.naxes; i++)
        if (axes == UINT32_C(1) << i) TRY(lift_fill_as_part(l, i, (size_t)d, &made, &is_part));
    if (joins ? !lift_is_innermost(l, &made, axes, d) : (lift_axes_with(l, x, from) & axes) != axes) return NULL;
    uint32_t argument = term_args(l->t, term_args(l->t, id)[0].term)[0].term;
    *out = lift_unknown(id, "what it makes has other extents than the ring says");
    if (!is_times_as_long(l->t, joins ? id : argument, joins ? argument : id, d, lift_extent(l, axes))) return NULL;
    lift_agreement found = l->record[rank][id] ? lift_members_agree(l, rank, id, axes, x) : MEMBERS_AGREE;
    if (found == MEMBERS_WAIT) return *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE}, NULL;
    if (found == MEMBERS_DIFFER) return *out = lift_unknown(id, "ranks give it different values"), NULL;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (axes >> i & 1) made.placed[i] = REPLICATED;
    if (!joins && !lift_nest_deeper(l, axes, d, &made)) return NULL;
    *out = made;
    lift_name_family(l, x, 1, out);
    return NULL;
}

/* Parts, or sums, of what was moved: a step of the ring's axes stands before rows, or is taken out of them. */
static weft_status move_views(lifter *l, size_t rank, uint32_t id, const weft_op *op, bool gathers, const lifted *x,
                              lifted *out) {
    uint32_t axes, argument = term_args(l->t, term_args(l->t, id)[0].term)[0].term;
    size_t ndim, nout;
    const int64_t *dims = term_dims(l->t, argument, &ndim), *made_dims = term_dims(l->t, id, &nout);
    view v;
    bool found;
    if (!dims || !made_dims || !ndim || nout != ndim || ndim > WEFT_MAX_RANK || !lift_ring_axes(l, rank, op, &axes) ||
        !lift_ring_in_order(l, rank, op, axes) || !l->record[rank][id])
        return NULL;
    if (!is_times_as_long(l->t, gathers ? id : argument, gathers ? argument : id, 0, lift_extent(l, axes))) return NULL;
    if (!lift_view_of_part(l, x, LIFT_ALL, ndim, dims, &v)) return NULL;
    lifted made = *x;
    if (!(gathers ? lift_join_steps(l, axes, &v, &made) : lift_take_steps(l, axes, ndim, dims, &v, &made))) return NULL;
    lift_agreement agree = lift_members_agree(l, rank, id, axes, x);
    if (agree == MEMBERS_WAIT) return *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE}, NULL;
    if (agree == MEMBERS_DIFFER) return NULL;
    TRY(lift_from_view(l, id, &v, &found, &made));
    if (!found) return NULL;
    lift_name_family(l, x, 1, &made);
    *out = made;
    return NULL;
}

static weft_status lift_gather(lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *x, lifted *out) {
    uint32_t axes;
    bool is_boxes = false;
    TRY(move_parts(l, rank, id, op, sharded(0), REPLICATED, x, out));
    if (out->state != LIFT_UNKNOWN || !lift_ring_axes(l, rank, op, &axes)) return NULL;
    lift_agreement found = lift_members_agree(l, rank, id, axes, x);
    if (found == MEMBERS_WAIT) return *out = (lifted){.state = LIFT_PENDING, .term = TERM_NONE}, NULL;
    if (found == MEMBERS_AGREE) TRY(move_views(l, rank, id, op, true, x, out));
    if (out->state == LIFT_KNOWN) return NULL;
    if (found == MEMBERS_AGREE) TRY(lift_gather_boxes(l, rank, id, op, x, &is_boxes, out));
    return is_boxes ? NULL : lift_pieces(l, rank, id, op, out);
}

/* Of one tensor, from and to all ranks of the ring. */
static weft_status lift_single(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out) {
    const collective_schema *c = op_collective(op);
    uint32_t argument = term_args(l->t, term_args(l->t, id)[0].term)[0].term;
    const lifted x = l->known[rank][argument];
    int last = l->t->items[argument].ndim - 1;
    if (c->kind == COLLECTIVE_ALL_TO_ALL) {
        TRY(lift_all_to_all(l, rank, id, op, out));
        return out->state == LIFT_UNKNOWN ? lift_pieces(l, rank, id, op, out) : NULL;
    }
    if (lift_is_open(&x)) return *out = x, NULL;
    bool cuts = c->kind == COLLECTIVE_SPLIT, gathers = c->kind == COLLECTIVE_ALL_GATHER;
    if (!cuts && !l->record[rank][id]) return NULL;
    if (gathers && (c->form == COLLECTIVE_WHOLE || c->form == COLLECTIVE_EACH))
        return lift_gather(l, rank, id, op, &x, out);
    if (gathers && c->form == COLLECTIVE_LAST_DIM && last >= 0) {
        TRY(move_parts(l, rank, id, op, sharded(last), REPLICATED, &x, out));
        bool differ = lift_is_uneven(l, &x) || term_is(l->t, x.term, HEAD_PADDED);
        return out->state == LIFT_UNKNOWN && differ ? lift_pieces(l, rank, id, op, out) : NULL;
    }
    if (c->kind == COLLECTIVE_REDUCE_SCATTER && op_collective_reduce(op) == WEFT_REDUCE_SUM) {
        TRY(move_parts(l, rank, id, op, PARTIAL, sharded(0), &x, out));
        return out->state == LIFT_UNKNOWN ? move_views(l, rank, id, op, false, &x, out) : NULL;
    }
    const ring *r = program_find_ring(l->programs[rank], op_ring(op));
    bool own_part =
        cuts && r && attr_int(op, "nranks", 1) == r->nranks && attr_int(op, "rank", 0) == ring_index(r, (int64_t)rank);
    if (own_part && last >= 0) return move_parts(l, rank, id, op, REPLICATED, sharded(last), &x, out);
    return NULL;
}

weft_status lift_collective(lifter *l, size_t rank, uint32_t id, weft_op *op, lifted *out) {
    const collective_schema *c = op_collective(op);
    *out = lift_unknown(id, "this collective is not followed");
    if (!c) return NULL;
    if (c->kind == COLLECTIVE_BROADCAST || c->kind == COLLECTIVE_REDUCE) return lift_rooted(l, rank, id, op, out);
    if (op_is(op, "c_softmax_with_cross_entropy")) return lift_classes(l, rank, id, op, out);
    if (c->form == COLLECTIVE_ROWS) return lift_batch(l, rank, id, op, out);
    bool moves_lists =
        c->kind == COLLECTIVE_ALL_TO_ALL || c->kind == COLLECTIVE_ALL_GATHER || c->kind == COLLECTIVE_SCATTER;
    if (c->form == COLLECTIVE_LIST) return moves_lists ? lift_lists(l, rank, id, op, out) : NULL;
    uint32_t of = term_args(l->t, id)[0].term;
    return l->t->items[of].nargs == 1 ? lift_single(l, rank, id, op, out) : NULL;
}
