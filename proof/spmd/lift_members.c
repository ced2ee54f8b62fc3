/* lift_members.c: which collectives of ranks belong together, and what their members give. Where ranks run different
 * programs, the n-th collectives of a ring belong together. */
#include "proof/spmd/lift.h"

/* --- which collectives belong together ---------------------------------------------------------------------------- */

const collective *lift_partner(const lifter *l, size_t self, size_t at, size_t rank) {
    const collective *own = l->outputs[self].collectives;
    if (l->uniform) return &l->outputs[rank].collectives[at];
    int64_t ring_id = op_ring(own[at].op);
    const outputs *o = &l->outputs[rank];
    for (size_t i = 0, k = at; i < o->ncollectives; i++, k++) { /* mostly at the same place */
        if (k >= o->ncollectives) k = 0;
        if (l->turn[rank][k] == l->turn[self][at] && op_ring(o->collectives[k].op) == ring_id)
            return &o->collectives[k];
    }
    return NULL;
}

static bool is_structure(head_kind kind) {
    return kind == HEAD_FLAT || kind == HEAD_RESHAPE || kind == HEAD_CAST || kind == HEAD_SCALE || kind == HEAD_PART;
}

/* The reduces that the result of a collective of a bucket consists of. */
static void record_below(lifter *l, size_t rank, uint32_t id, uint32_t number) {
    l->record[rank][id] = number;
    if (!is_structure(term_head(l->t, id)->kind)) return;
    for (size_t i = 0; i < l->t->items[id].nargs; i++) record_below(l, rank, term_args(l->t, id)[i].term, number);
}

weft_status lift_record(lifter *l, size_t rank, arena *memory) {
    const outputs *o = &l->outputs[rank];
    if (!(l->turn[rank] = ARENA_ARRAY(memory, uint32_t, o->ncollectives + 1))) return base_out_of_memory();
    for (size_t k = 0; k < o->ncollectives; k++) {
        record_below(l, rank, o->collectives[k].result, (uint32_t)k + 1);
        size_t last = k;
        while (last-- > 0 && op_ring(o->collectives[last].op) != op_ring(o->collectives[k].op)) continue;
        l->turn[rank][k] = last < k ? l->turn[rank][last] + 1 : 0;
    }
    return NULL;
}

/* Whether the like-built `other` (TERM_NONE: it is built otherwise) has one thing wherever `own` has `id`; *found:
 * that, or what it was before. */
static bool find_counterpart(const terms *t, uint32_t own, uint32_t other, uint32_t id, uint32_t *found) {
    if (own == id) {
        bool agrees = other != TERM_NONE && (*found == TERM_NONE || *found == other);
        *found = other;
        return agrees;
    }
    if (!is_structure(term_head(t, own)->kind)) return true;
    const term *a = &t->items[own], *b = other == TERM_NONE ? NULL : &t->items[other];
    bool alike = b && a->head == b->head && a->nargs == b->nargs;
    for (size_t i = 0; i < a->nargs; i++) {
        uint32_t theirs = alike ? term_args(t, other)[i].term : TERM_NONE;
        if (!find_counterpart(t, term_args(t, own)[i].term, theirs, id, found)) return false;
    }
    return true;
}

/* What the rank gives to collective number `at` of `self`, of which `id` comes; TERM_NONE: nothing that goes with it.
 */
static uint32_t argument_in(const lifter *l, size_t self, size_t at, uint32_t id, size_t rank) {
    const collective *own = &l->outputs[self].collectives[at], *other = lift_partner(l, self, at, rank);
    if (!other || strcmp(own->op->type->bytes, other->op->type->bytes) != 0 ||
        op_collective_reduce(own->op) != op_collective_reduce(other->op))
        return TERM_NONE;
    if (own->result == id && term_is(l->t, id, HEAD_OUT)) return other->argument;
    uint32_t found = TERM_NONE;
    bool alike = find_counterpart(l->t, own->result, other->result, id, &found) && found != TERM_NONE &&
                 term_is(l->t, found, HEAD_REDUCE) && term_head(l->t, found)->reduce == term_head(l->t, id)->reduce;
    return alike ? term_args(l->t, found)[0].term : TERM_NONE;
}

static uint32_t argument_of(const lifter *l, size_t self, uint32_t id, size_t rank) {
    return argument_in(l, self, l->record[self][id] - 1, id, rank);
}

/* --- collectives of the same -------------------------------------------------------------------------------------- */

/* Whether the others give to collective number `at`, of which `id` comes as it does of the one that is recorded, what
 * they give to that one. */
static bool is_as_recorded(const lifter *l, size_t self, size_t at, uint32_t id) {
    size_t recorded = l->record[self][id] - 1;
    const ring *r = program_find_ring(l->programs[self], op_ring(l->outputs[self].collectives[at].op));
    if (!r) return false;
    for (int i = 0; i < r->nranks; i++) {
        if (r->ranks[i] < 0 || r->ranks[i] >= (int64_t)l->nranks) return false;
        size_t rank = (size_t)r->ranks[i];
        const collective *a = lift_partner(l, self, at, rank), *b = lift_partner(l, self, recorded, rank);
        bool same = term_is(l->t, id, HEAD_OUT)
                        ? a && b && a->result == b->result
                        : argument_in(l, self, at, id, rank) == argument_in(l, self, recorded, id, rank);
        if (!same) return false;
    }
    return true;
}

static void drop_below(lifter *l, size_t rank, uint32_t id, size_t at) {
    bool communicates = term_is(l->t, id, HEAD_OUT) || term_is(l->t, id, HEAD_REDUCE);
    if (communicates && l->record[rank][id] && l->record[rank][id] != at + 1 && !is_as_recorded(l, rank, at, id)) {
        l->known[rank][id] = lift_unknown(id, "a rank gives the same to two collectives, and others do not");
        l->record[rank][id] = 0;
    }
    if (!is_structure(term_head(l->t, id)->kind)) return;
    for (size_t i = 0; i < l->t->items[id].nargs; i++) drop_below(l, rank, term_args(l->t, id)[i].term, at);
}

void lift_drop_repeats(lifter *l, size_t rank) {
    const outputs *o = &l->outputs[rank];
    for (size_t k = 0; k < o->ncollectives && !l->uniform; k++) drop_below(l, rank, o->collectives[k].result, k);
}

/* --- whether members have the same -------------------------------------------------------------------------------- */

bool lift_is_member(const lifter *l, size_t self, size_t rank, uint32_t axes) {
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (!(axes >> i & 1) && l->grid.at[self][i] != l->grid.at[rank][i]) return false;
    return true;
}

uint32_t lift_members_argument(const lifter *l, size_t self, uint32_t id, uint32_t axes, size_t rank) {
    uint32_t at = l->record[self][id], theirs;
    const collective *c = at ? lift_partner(l, self, at - 1, rank) : NULL;
    uint32_t argument = c ? argument_of(l, self, id, rank) : TERM_NONE;
    return argument != TERM_NONE && lift_ring_axes(l, rank, c->op, &theirs) && theirs == axes ? argument : TERM_NONE;
}

uint32_t lift_recorded_output(const lifter *l, size_t rank, uint32_t id) {
    const outputs *o = &l->outputs[rank];
    uint32_t of = term_args(l->t, id)[0].term;
    for (size_t i = 0; i < o->ncollectives; i++) {
        uint32_t result = o->collectives[i].result;
        if (term_is(l->t, result, HEAD_OUT) && term_args(l->t, result)[0].term == of) return result;
    }
    return TERM_NONE;
}

const collective *lift_members_collective(const lifter *l, size_t self, uint32_t id, uint32_t axes, size_t rank) {
    uint32_t at = l->record[self][id];
    if (!at || (rank != self && lift_members_argument(l, self, id, axes, rank) == TERM_NONE)) return NULL;
    return rank == self ? &l->outputs[self].collectives[at - 1] : lift_partner(l, self, at - 1, rank);
}

uint32_t lift_members_result(const lifter *l, size_t self, uint32_t id, uint32_t axes, size_t rank) {
    const collective *c = lift_members_collective(l, self, id, axes, rank);
    return c ? c->result : TERM_NONE;
}

lift_agreement lift_members_agree(const lifter *l, size_t self, uint32_t id, uint32_t axes, const lifted *x) {
    for (size_t i = 0; i < l->nranks; i++) {
        if (i == self || !lift_is_member(l, self, i, axes)) continue;
        uint32_t argument = lift_members_argument(l, self, id, axes, i);
        if (argument == TERM_NONE) return MEMBERS_DIFFER;
        const lifted *y = &l->known[i][argument];
        if (y->state == LIFT_PENDING) return MEMBERS_WAIT;
        if (y->state != x->state || y->term != x->term || y->family != x->family || !lift_placed_alike(y, x))
            return MEMBERS_DIFFER;
    }
    return MEMBERS_AGREE;
}
