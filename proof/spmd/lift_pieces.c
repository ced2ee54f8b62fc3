/* lift_pieces.c: an all-to-all or an all-gather, piece by piece, of whatever size.
 *
 * What a member gets are pieces of rows of what members hold, each a view of a serial value (view.c). They are followed
 * where they are regular steps apart, or lie behind one another. So it is where rows that ranks hold unevenly become
 * whole on all, or are dealt out otherwise. Then members have the same, or even parts, or uneven ones behind one
 * another. */
#include "proof/spmd/view.h"

typedef struct exchange {
    lifter *l;
    const ring *ring;
    size_t self;
    uint32_t id, axes;
    size_t dim; /* along which pieces are taken and put together */
    bool fills; /* full parts count as parts of what is filled up */
    weft_status *failure;
} exchange;

/* Some rows, as a view. */
typedef struct rows {
    view v;
    size_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    lifted held; /* how the ranks have them, along other axes than the ring's */
} rows;

int64_t lift_rows_given(const weft_op *op, int64_t all, size_t n, size_t place, int64_t *out_first) {
    size_t count;
    const int64_t *splits = op_collective_splits(op, false, &count);
    *out_first = 0;
    if (op_is_collective(op, COLLECTIVE_ALL_GATHER)) return all;
    if (count != n && count) return -1;
    if (!count && all % (int64_t)n) return -1;
    for (size_t i = 0; i < place; i++) *out_first += count ? splits[i] : all / (int64_t)n;
    return count ? splits[place] : all / (int64_t)n;
}

static bool view_of_own(const exchange *u, size_t rank, uint32_t id, lifted *held, view *v, lifted *out);

/* What the rank puts together. */
static bool join_own(const exchange *u, size_t rank, const view_joint *j, lifted *held, view *v, lifted *out) {
    int64_t offsets[VIEW_PIECES];
    for (size_t i = 0; i < j->n; i++) {
        view piece;
        lifted of;
        if (!view_of_own(u, rank, term_args(u->l->t, j->of)[i].term, &of, &piece, out)) return false;
        if (i == 0) *v = piece, *held = of;
        if (!view_is_like(&piece, v) || !lift_placed_alike(&of, held)) return false;
        offsets[i] = piece.offset;
    }
    return view_join(u->l->t, j, offsets, v);
}

/* What this rank has as `id`, or what it moves to get it where that is no part of one value. */
static bool view_of_own(const exchange *u, size_t rank, uint32_t id, lifted *held, view *v, lifted *out) {
    lifter *l = u->l;
    size_t ndim;
    bool are_full;
    *held = l->known[rank][id];
    if (held->state == LIFT_PENDING) return *out = *held, false;
    if (u->fills && (*u->failure = lift_full_parts(l, rank, id, &are_full, held))) return false;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    if (held->state == LIFT_KNOWN)
        return dims && lift_view_of_part(l, held, rank, ndim, dims, v) && lift_of_member(l, u->axes, rank, held, v);
    view_joint j;
    uint32_t from = view_argument(l->t, id);
    if (from != TERM_NONE) return view_of_own(u, rank, from, held, v, out) && view_move(l->t, id, v);
    return view_joint_of(l->t, id, &j) && join_own(u, rank, &j, held, v, out);
}

/* What member `from` gives to member `to`; false: *out says why not, if it is not that it is no view. */
static bool find_piece(const exchange *u, size_t from, size_t to, rows *piece, lifted *out) {
    lifter *l = u->l;
    size_t rank = (size_t)u->ring->ranks[from], first[WEFT_MAX_RANK + 1];
    const collective *c = lift_members_collective(l, u->self, u->id, u->axes, rank);
    if (!c) return false;
    const int64_t *dims = term_dims(l->t, c->argument, &piece->ndim);
    if (!dims || piece->ndim <= u->dim || piece->ndim > WEFT_MAX_RANK) return false;
    memcpy(piece->dims, dims, piece->ndim * sizeof *dims);
    int64_t at, count = lift_rows_given(c->op, dims[u->dim], (size_t)u->ring->nranks, to, &at);
    if (count < 0 || !view_of_own(u, rank, c->argument, &piece->held, &piece->v, out)) return false;
    if (!view_split(&piece->v, piece->ndim, piece->dims, first)) return false;
    if (count && !view_slice(&piece->v, first[u->dim], first[u->dim + 1], at, count)) return false;
    piece->dims[u->dim] = count;
    view_merge(&piece->v);
    return true;
}

/* What member `to` has then; `pieces`, `offsets`: room for as many as there are members. */
static bool receive(const exchange *u, size_t to, rows *pieces, int64_t *offsets, rows *all, lifted *out) {
    size_t count = 0, first[WEFT_MAX_RANK + 1];
    bool alike = true;
    for (size_t i = 0; i < (size_t)u->ring->nranks; i++) {
        rows *piece = &pieces[count];
        if (!find_piece(u, i, to, piece, out)) return false;
        if (!piece->dims[u->dim]) continue;
        if (piece->ndim != pieces[0].ndim || !lift_placed_alike(&piece->held, &pieces[0].held)) return false;
        alike = alike && view_is_like(&piece->v, &pieces[0].v) &&
                memcmp(piece->dims, pieces[0].dims, piece->ndim * sizeof *piece->dims) == 0;
        offsets[count++] = piece->v.offset;
    }
    if (!count) return false;
    *all = pieces[0];
    if (alike) {
        if (!view_split(&all->v, all->ndim, all->dims, first)) return false;
        all->dims[u->dim] *= (int64_t)count;
        if (!view_add_pieces(&all->v, first[u->dim], offsets, count)) return false;
        view_merge(&all->v);
        return true;
    }
    for (size_t i = 1; i < count; i++)
        if (!view_adjoin(&all->v, all->ndim, all->dims, &pieces[i].v, pieces[i].dims, u->dim)) return false;
    return true;
}

/* Members' parts that lie behind one another, as uneven parts of all. */
static weft_status join_uneven(const exchange *u, const rows *have, lifted *out) {
    lifter *l = u->l;
    size_t n = (size_t)u->ring->nranks, axis = 0, nown;
    int64_t extent[LIFT_RANKS] = {0};
    rows all = have[0];
    if (u->dim) return NULL;
    while (axis < l->grid.naxes && u->axes != UINT32_C(1) << axis) axis++;
    if (axis == l->grid.naxes) return NULL;
    const int64_t *own = term_dims(l->t, u->id, &nown);
    for (size_t i = 0; i < n; i++) {
        if ((size_t)u->ring->ranks[i] == u->self && (!own || nown == 0 || own[0] != have[i].dims[0])) return NULL;
        if (l->grid.at[u->ring->ranks[i]][axis] != (int64_t)i) return NULL;
        extent[i] = have[i].dims[0];
        if (i && !view_adjoin(&all.v, all.ndim, all.dims, &have[i].v, have[i].dims, 0)) return NULL;
    }
    int split = lift_find_partition(l, &(int){(int)axis}, 1, extent);
    if (!split || lift_is_sharded_at(l, &all.held, 0)) return NULL;
    lifted made = all.held;
    made.placed[axis] = sharded_by(0, split);
    int64_t whole[WEFT_MAX_RANK];
    lift_extents(l, &all.held, all.ndim, all.dims, whole);
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (is_sharded(made.placed[k]) && k != axis) return NULL; /* other axes shard it too */
    TRY(lift_view_term(l, &all.v, all.ndim, whole, &made.term));
    *out = made;
    return NULL;
}

static weft_status exchange_rows(const exchange *u, rows *have, rows *pieces, int64_t *offsets, lifted *held,
                                 lifted *out) {
    size_t n = (size_t)u->ring->nranks;
    bool alike = true, found = false;
    for (size_t i = 0; i < n; i++) {
        if (!receive(u, i, pieces, offsets, &have[i], out)) return NULL;
        alike = alike && view_is_like(&have[i].v, &have[0].v) && have[i].ndim == have[0].ndim &&
                memcmp(have[i].dims, have[0].dims, have[0].ndim * sizeof *have[0].dims) == 0;
        held[i] = have[i].held;
        if (!lift_placed_alike(&held[i], &held[0])) return NULL;
    }
    for (size_t i = 0; i < n; i++) offsets[i] = have[i].v.offset;
    lifted made = held[0];
    view v = have[0].v;
    if (alike && lift_find_steps(u->l, u->ring, u->axes, offsets, &v)) {
        for (size_t k = 0; k < u->l->grid.naxes; k++)
            if ((u->axes >> k & 1) && v.step[k]) made.placed[k] = sharded(0);
        TRY(lift_from_view(u->l, u->id, &v, &found, &made));
    } else {
        made.state = LIFT_UNKNOWN;
        TRY(join_uneven(u, have, &made));
        found = made.state == LIFT_KNOWN;
    }
    if (!found) return NULL;
    lift_name_family(u->l, held, n, &made);
    *out = made;
    return NULL;
}

weft_status lift_pieces(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out) {
    exchange u = {.l = l, .self = rank, .id = id, .ring = program_find_ring(l->programs[rank], op_ring(op))};
    if (!u.ring || !l->record[rank][id] || !lift_ring_axes(l, rank, op, &u.axes)) return NULL;
    if (op_collective(op)->form == COLLECTIVE_LAST_DIM)
        u.dim = (size_t)(l->t->items[id].ndim > 0 ? l->t->items[id].ndim - 1 : 0);
    size_t n = (size_t)u.ring->nranks;
    arena memory;
    arena_init(&memory, &l->t->context->allocator);
    weft_status status = NULL;
    rows *have = ARENA_ARRAY(&memory, rows, n), *pieces = ARENA_ARRAY(&memory, rows, n);
    int64_t *offsets = ARENA_ARRAY(&memory, int64_t, n);
    lifted *held = ARENA_ARRAY(&memory, lifted, n);
    if (!have || !pieces || !offsets || !held) TRY_DONE(base_out_of_memory());
    for (int fills = 0; fills < 2 && out->state == LIFT_UNKNOWN; fills++) {
        weft_status failure = NULL;
        u.fills = fills;
        u.failure = &failure;
        TRY_DONE(exchange_rows(&u, have, pieces, offsets, held, out));
        TRY_DONE(failure);
    }
done:
    arena_fini(&memory);
    return status;
}
