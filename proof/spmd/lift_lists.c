/* lift_lists.c: collectives of lists, whose outputs are each an argument of one member.
 *
 * Output i of an all-to-all on member j is argument j of member i. That of an all-gather is the only argument of member
 * i, that of a scatter argument j of the root. Each is a view of a serial value (view.c) at an offset that the member's
 * coordinates say: where offsets grow evenly with the coordinates of those that receive it, it is sharded over the
 * ring. */
#include "proof/spmd/view.h"

typedef struct list_op {
    lifter *l;
    const ring *ring;
    const weft_op *op;
    size_t self, index; /* of the output */
    uint32_t first;     /* the op's first output, by which members find what belongs to it */
    uint32_t axes;      /* of the ring */
} list_op;

/* Which member's argument, and which of them, the member at `place` of the ring gets. */
static bool source_of(const list_op *o, size_t place, size_t *out_member, size_t *out_argument) {
    collective_kind kind = op_collective_kind(o->op);
    int64_t member = kind == COLLECTIVE_SCATTER ? op_collective_root(o->op) : (int64_t)o->index;
    *out_member = (size_t)member;
    *out_argument = kind == COLLECTIVE_ALL_GATHER ? 0 : place;
    return member >= 0 && member < o->ring->nranks;
}

/* The term of that argument of the member; TERM_NONE: it has none. */
static uint32_t find_argument(const list_op *o, size_t rank, size_t argument) {
    const terms *t = o->l->t;
    uint32_t result = o->first;
    if (rank != o->self) result = lift_members_result(o->l, o->self, o->first, o->axes, rank);
    if (result == TERM_NONE || !term_is(t, result, HEAD_OUT)) return TERM_NONE;
    uint32_t of = term_args(t, result)[0].term;
    if (argument >= t->items[of].nargs || term_args(t, of)[argument].factor != FACTOR_ONE) return TERM_NONE;
    return term_args(t, of)[argument].term;
}

bool lift_of_member(const lifter *l, uint32_t axes, size_t rank, lifted *x, view *v) {
    for (size_t k = 0; k < l->grid.naxes; k++) {
        if (!(axes >> k & 1)) {
            if (has_partition(x->placed[k])) return false;
            continue;
        }
        if (is_partial(x->placed[k])) return false;
        v->offset += v->step[k] * l->grid.at[rank][k];
        v->step[k] = 0;
        x->placed[k] = REPLICATED;
    }
    return true;
}

/* What the member at `place` gets: its view, with the offset for that member; false: *out says why not. */
static bool view_at(const list_op *o, size_t place, lifted *out_held, view *v, lifted *out) {
    lifter *l = o->l;
    size_t member, argument, ndim;
    uint32_t id = TERM_NONE;
    if (source_of(o, place, &member, &argument)) id = find_argument(o, (size_t)o->ring->ranks[member], argument);
    if (id == TERM_NONE) return false;
    const lifted *x = &l->known[o->ring->ranks[member]][id];
    if (lift_is_open(x)) return *out = *x, false;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    if (!dims || !lift_view_of_part(l, x, (size_t)o->ring->ranks[member], ndim, dims, v)) return false;
    *out_held = *x;
    return lift_of_member(l, o->axes, (size_t)o->ring->ranks[member], out_held, v);
}

bool lift_find_steps(const lifter *l, const ring *r, uint32_t axes, const int64_t *offsets, view *v) {
    const grid *g = &l->grid;
    size_t n = (size_t)r->nranks, origin = n;
    for (size_t i = 0; i < n && origin == n; i++) {
        bool at_zero = true;
        for (size_t k = 0; k < g->naxes; k++) at_zero = at_zero && (!(axes >> k & 1) || !g->at[r->ranks[i]][k]);
        if (at_zero) origin = i;
    }
    if (origin == n) return false;
    v->offset = offsets[origin];
    for (size_t i = 0; i < n; i++) {
        const int64_t *at = g->at[r->ranks[i]];
        for (size_t k = 0; k < g->naxes; k++) {
            int64_t others = 0;
            for (size_t m = 0; m < g->naxes; m++) others += m != k && (axes >> m & 1) ? at[m] : 0;
            if ((axes >> k & 1) && at[k] == 1 && others == 0) v->step[k] = offsets[i] - offsets[origin];
        }
    }
    for (size_t i = 0; i < n; i++) {
        int64_t offset = v->offset;
        for (size_t k = 0; k < g->naxes; k++)
            if (axes >> k & 1) offset += v->step[k] * g->at[r->ranks[i]][k];
        if (offset != offsets[i]) return false;
    }
    return true;
}

static weft_status join(const list_op *o, uint32_t id, lifted *held, int64_t *offsets, lifted *out) {
    lifter *l = o->l;
    size_t n = (size_t)o->ring->nranks;
    view first, v;
    for (size_t i = 0; i < n; i++) {
        if (!view_at(o, i, &held[i], &v, out)) return NULL;
        if (i && (!view_is_like(&v, &first) || !lift_placed_alike(&held[i], &held[0]))) return NULL;
        if (i == 0) first = v;
        offsets[i] = v.offset;
    }
    if (!lift_find_steps(l, o->ring, o->axes, offsets, &first)) return NULL;
    lifted made = held[0];
    for (size_t k = 0; k < l->grid.naxes; k++)
        if ((o->axes >> k & 1) && first.step[k]) made.placed[k] = sharded(0);
    bool found;
    TRY(lift_from_view(l, id, &first, &found, &made));
    if (!found) return NULL;
    lift_name_family(l, held, n, &made);
    *out = made;
    return NULL;
}

weft_status lift_lists(lifter *l, size_t rank, uint32_t id, const weft_op *op, lifted *out) {
    list_op o = {.l = l, .op = op, .self = rank, .index = (size_t)term_head(l->t, id)->ints[1]};
    o.ring = program_find_ring(l->programs[rank], op_ring(op));
    o.first = lift_recorded_output(l, rank, id);
    *out = lift_unknown(id, "a collective of lists whose members do not get what falls into even parts of one value");
    if (!o.ring || o.first == TERM_NONE || !lift_ring_axes(l, rank, op, &o.axes)) return NULL;
    const weft_allocator *a = &l->t->context->allocator;
    size_t n = (size_t)o.ring->nranks;
    lifted *held = base_alloc(a, n * sizeof *held);
    int64_t *offsets = base_alloc(a, n * sizeof *offsets);
    weft_status status = held && offsets ? join(&o, id, held, offsets, out) : base_out_of_memory();
    base_free(a, held, n * sizeof *held);
    base_free(a, offsets, n * sizeof *offsets);
    return status;
}
