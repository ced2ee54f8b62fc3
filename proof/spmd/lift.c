/* lift.c: from what a rank computes to what the serial program computes.
 *
 * The ranks form a grid. Along each of its axes a value of theirs is replicated, sharded or partial. Replicated is the
 * serial value itself, sharded the rows of its batch or columns of a weight, partial: the ranks' values add up to the
 * serial one. What the serial value is follows op by op, as a term over the serial program's inputs; how it is placed
 * along one axis does not depend on the others. The ranks that differ only there are a program for the rest: an op on
 * the same values gives the same value; what shards a dimension passes through ops that treat its elements each for
 * themselves (lift_dims.c); a sum over a sharded dimension is partial, a mean is partial of n times the mean
 * (lift_shares.c: of unequal parts); what is linear in partial values is partial; collectives add partial values up and
 * join parts (lift_collectives.c). Where ranks run different programs, the n-th collectives of a ring belong together.
 * All else is not known, and names the op where it began. */
#include "proof/spmd/lift.h"

#include "base/numbers.h"

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static weft_status lift_input(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const char *label = term_head(l->t, id)->label;
    const weft_var *serial = weft_block_find_var(l->serial->blocks[0], label);
    const weft_var *own = weft_block_find_var(l->programs[rank]->blocks[0], label);
    *out = lift_replicated(id);
    if (!serial || !own) return NULL; /* the rank's own state: equal to no serial value */
    const char *reason = lift_declared(l, serial, own, out);
    if (reason) return *out = lift_unknown(id, reason), NULL;
    shape type = shape_of_var(serial);
    if (serial->kind == WEFT_SELECTED_ROWS && type.height < 0) type.height = 0;
    return term_leaf(l->t, HEAD_INPUT, label, &type, &out->term);
}

/* --- moves and sums ----------------------------------------------------------------------------------------------- */

static weft_status lift_reshaped(lifter *l, uint32_t id, const lifted *x, lifted *out) {
    const head *h = term_head(l->t, id);
    size_t ndim, new_ndim = h->nints;
    const int64_t *dims = term_dims(l->t, term_args(l->t, id)[0].term, &ndim);
    int64_t whole[WEFT_MAX_RANK];
    value v = value_of(x->term);
    if (new_ndim > WEFT_MAX_RANK || !lift_reshape(l, x, ndim, dims, new_ndim, h->ints, out)) {
        *out = lift_unknown(id, "other extents split its parts otherwise");
        return NULL;
    }
    lift_extents(l, out, new_ndim, h->ints, whole);
    TRY(term_reshape(l->t, v, new_ndim, whole, &v));
    out->term = v.term;
    return NULL;
}

/* A term of one kind of element-wise work or of a move, over the serial value. */
static weft_status lift_unary(lifter *l, uint32_t id, const lifted *x, lifted *out) {
    const head *h = term_head(l->t, id);
    bool partial = lift_is_partial(l, x), shards = false;
    for (size_t i = 0; i < l->grid.naxes; i++) shards |= is_sharded(x->placed[i]);
    if (h->kind == HEAD_RESHAPE) {
        TRY(lift_reshaped(l, id, x, out));
    } else if (h->kind == HEAD_CAST && partial &&
               (!dtype_is_inexact(h->dtype) || !dtype_is_inexact(l->t->items[x->term].dtype))) {
        *out = lift_unknown(id, "a partial sum over ranks loses its fraction: a reduce is missing");
    } else if (h->kind == HEAD_PART && shards) {
        TRY(lift_slice(l, id, x, out));
    } else {
        *out = *x;
        TRY(lift_below_padding(l, id, x->term, &out->term));
    }
    if (out->state == LIFT_KNOWN) lift_name_family(l, x, 1, out);
    return NULL;
}

/* Constants among parts are parts, and so are slices that are the rank's. */
static weft_status fit_parts(lifter *l, size_t rank, lifted *args, size_t n) {
    for (size_t k = 0; k < l->grid.naxes; k++) {
        int d = -1;
        bool is_part;
        for (size_t i = 0; i < n && d < 0; i++)
            if (is_sharded_evenly(args[i].placed[k], sharded_dim(args[i].placed[k])))
                d = sharded_dim(args[i].placed[k]);
        for (size_t i = 0; i < n && d >= 0; i++) {
            TRY(lift_fill_as_part(l, k, (size_t)d, &args[i], &is_part));
            if (!is_part) TRY(lift_box_as_part(l, rank, k, (size_t)d, &args[i], &is_part));
        }
    }
    return NULL;
}

/* How a list of them is placed along the axis; false: it is not. A replicated value counts as partial where others are.
 */
static bool common_placement(const lifted *args, size_t n, size_t axis, axis_placement *out) {
    bool partial = false, equal = true;
    for (size_t i = 0; i < n; i++) {
        partial |= is_partial(args[i].placed[axis]);
        equal = equal && placed_equal(args[i].placed[axis], args[0].placed[axis]);
    }
    *out = partial ? PARTIAL : args[0].placed[axis];
    if (!partial) return equal;
    for (size_t i = 0; i < n; i++)
        if (is_sharded(args[i].placed[axis])) return false;
    return true;
}

static weft_status lift_list(lifter *l, uint32_t id, const lifted *args, size_t n, value *scratch, lifted *out) {
    bool flat = term_head(l->t, id)->kind == HEAD_FLAT;
    lifted made = lift_replicated(TERM_NONE);
    *out = lift_unknown(id, "it mixes a rank's part with what all ranks have");
    for (size_t k = 0; k < l->grid.naxes && n; k++)
        if (!common_placement(args, n, k, &made.placed[k]) || (flat && is_sharded(made.placed[k])))
            return flat ? lift_flat_of_parts(l, id, args, n, scratch, out) : NULL;
    uint32_t partial = lift_axes_with(l, &made, PARTIAL);
    for (size_t i = 0; i < n; i++) {
        scratch[i] = value_of(args[i].term);
        int64_t times = lift_extent(l, partial & ~lift_axes_with(l, &args[i], PARTIAL));
        TRY(lift_times(l, args[i].term, times, false, &scratch[i].term));
    }
    value v;
    TRY(term_again(l->t, id, scratch, &v));
    made.term = v.term;
    lift_name_family(l, args, n, &made);
    *out = made;
    return NULL;
}

/* A choice that all ranks make alike. Of sums over ranks the other choice counts as often as there are ranks. */
static weft_status lift_select(lifter *l, uint32_t id, const lifted args[3], lifted *out) {
    value three[3] = {value_of(args[0].term), value_of(args[1].term), value_of(args[2].term)}, v;
    lifted made = lift_replicated(TERM_NONE);
    bool alike = lift_is_replicated(l, &args[0]);
    for (size_t k = 0; k < l->grid.naxes; k++) alike = alike && common_placement(args + 1, 2, k, &made.placed[k]);
    if (!alike) return *out = lift_unknown(id, "a condition that ranks may see differently"), NULL;
    uint32_t partial = lift_axes_with(l, &made, PARTIAL);
    for (size_t i = 1; i < 3; i++) {
        int64_t times = lift_extent(l, partial & ~lift_axes_with(l, &args[i], PARTIAL));
        TRY(lift_times(l, args[i].term, times, false, &three[i].term));
    }
    TRY(term_again(l->t, id, three, &v));
    made.term = v.term;
    lift_name_family(l, args, 3, &made);
    *out = made;
    return NULL;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status lift_out(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const head *h = term_head(l->t, term_args(l->t, id)[0].term);
    if (h->kind != HEAD_OP || !h->op) return *out = lift_unknown(id, "a block's values are not followed"), NULL;
    if (op_collective_kind(h->op) != COLLECTIVE_NONE) return lift_collective(l, rank, id, h->op, out);
    return lift_function(l, rank, id, out);
}

static weft_status lift_several(lifter *l, size_t rank, uint32_t id, lifted *out) {
    size_t n = l->t->items[id].nargs;
    arena memory;
    arena_init(&memory, &l->t->context->allocator);
    weft_status status = NULL;
    value *scratch = ARENA_ARRAY(&memory, value, n + 1);
    lifted *all = ARENA_ARRAY(&memory, lifted, n + 1);
    if (!scratch || !all) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < n; i++) {
        all[i] = l->known[rank][term_args(l->t, id)[i].term];
        if (!lift_is_open(&all[i])) continue;
        *out = all[i];
        goto done;
    }
    if (term_is(l->t, id, HEAD_SELECT))
        TRY_DONE(fit_parts(l, rank, all + 1, 2));
    else if (term_is(l->t, id, HEAD_SUM))
        TRY_DONE(fit_parts(l, rank, all, n));
    if (term_is(l->t, id, HEAD_SELECT))
        TRY_DONE(lift_select(l, id, all, out));
    else
        TRY_DONE(lift_list(l, id, all, n, scratch, out));
done:
    arena_fini(&memory);
    return status;
}

static weft_status lift_term(lifter *l, size_t rank, uint32_t id, lifted *out) {
    lifted x;
    bool is_slice = false;
    switch (term_head(l->t, id)->kind) {
    case HEAD_INPUT: return lift_input(l, rank, id, out);
    case HEAD_FILL: return lift_fill(l, id, out);
    case HEAD_RANDOM:
    case HEAD_OP: /* its outputs are what counts */
    case HEAD_BODY: *out = lift_replicated(id); return NULL;
    case HEAD_OUT: return lift_out(l, rank, id, out);
    case HEAD_REDUCE: return lift_reduce(l, rank, id, out);
    case HEAD_CAST:
    case HEAD_SCALE:
    case HEAD_PART:
    case HEAD_RESHAPE:
        x = l->known[rank][term_args(l->t, id)[0].term];
        if (term_is(l->t, id, HEAD_RESHAPE) && x.state == LIFT_UNKNOWN)
            TRY(lift_rows_of_parts(l, rank, id, &is_slice, out));
        if (is_slice) return NULL;
        if (lift_is_open(&x)) {
            *out = x;
            return x.state == LIFT_UNKNOWN && term_is(l->t, id, HEAD_SCALE) ? lift_take_share(l, rank, id, out) : NULL;
        }
        TRY(lift_own_rows(l, rank, id, &is_slice, out));
        if (is_slice) return NULL;
        if (term_is(l->t, id, HEAD_RESHAPE)) TRY(lift_shaped_slice(l, rank, id, &is_slice, out));
        return is_slice ? NULL : lift_unary(l, id, &x, out);
    case HEAD_SUM:
    case HEAD_FLAT:
    case HEAD_SELECT: return lift_several(l, rank, id, out);
    default: *out = lift_unknown(id, "its value is not defined by the program"); return NULL;
    }
}

weft_status lift_rank(lifter *l, size_t rank) {
    weft_status status = NULL;
    for (size_t i = 0; i < l->nterms && !status; i++) {
        lifted *x = &l->known[rank][i];
        if (!l->wanted[rank][i] || x->state != LIFT_PENDING) continue;
        lifted found = {.state = LIFT_PENDING, .term = TERM_NONE};
        status = lift_cut(l, rank, (uint32_t)i, &found);
        if (!status && found.state == LIFT_PENDING) status = lift_term(l, rank, (uint32_t)i, &found);
        if (!status && found.state == LIFT_UNKNOWN) status = lift_pad(l, rank, (uint32_t)i, &found);
        if (!status && found.state == LIFT_UNKNOWN) status = lift_move(l, rank, (uint32_t)i, &found);
        if (!status && found.state != LIFT_PENDING) status = lift_told(l, rank, (uint32_t)i, &found);
        if (!status) status = lift_settle(l, (uint32_t)i, &found);
        if (!status) status = lift_settle_full(l, rank, (uint32_t)i, &found);
        if (!status) status = lift_settle_fill(l, &found);
        *x = found;
        if (found.state == LIFT_PENDING)
            l->pending = true;
        else
            l->moved = true;
    }
    return status;
}
