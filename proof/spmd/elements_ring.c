/* elements_ring.c: the elements of what collectives give.
 *
 * A member's piece of a gather or an exchange is what another member has. That is so of parts, not of what is partial
 * along the ring: each member has another addend of that. A sum of what is partial alike is the value; one of which a
 * single member has no zero is what that member has. */
#include "proof/spmd/elements.h"

/* What member `rank` gives to the collective that made `id` on `self`. */
static bool given_elements(walk *w, size_t self, uint32_t id, uint32_t axes, size_t rank, elements *out) {
    const lifter *l = w->l;
    uint32_t argument = term_is(l->t, id, HEAD_REDUCE) && rank == self ? term_args(l->t, id)[0].term
                                                                       : lift_members_argument(l, self, id, axes, rank);
    return argument != TERM_NONE && w->find(w, rank, argument, out);
}

/* Which rows member `rank` gives to the one at `place` of the ring: all, or those that an exchange deals out. */
static bool rows_for(const walk *w, size_t self, uint32_t id, uint32_t axes, size_t rank, size_t place, size_t n,
                     int64_t all, int64_t *out_first, int64_t *out_count) {
    const collective *c = lift_members_collective(w->l, self, id, axes, rank);
    if (!c) return false;
    *out_count = lift_rows_given(c->op, all, n, place, out_first);
    return *out_count >= 0;
}

/* Of a gather or an exchange: what members give, one after another. */
static bool gathered_elements(walk *w, size_t rank, uint32_t id, const weft_op *op, uint32_t axes, elements *out) {
    const ring *r = program_find_ring(w->l->programs[rank], op_ring(op));
    size_t self = (size_t)ring_index(r, (int64_t)rank), n = (size_t)r->nranks;
    bool is_last = op_collective(op)->form == COLLECTIVE_LAST_DIM;
    int64_t at = 0, first, count;
    if (!out->ndim) return false;
    size_t d = is_last ? out->ndim - 1 : 0;
    for (size_t i = 0; i < n; i++) {
        elements x;
        size_t member = (size_t)r->ranks[i];
        if (!given_elements(w, rank, id, axes, member, &x) || (x.partial & axes) || !x.ndim ||
            !rows_for(w, rank, id, axes, member, self, n, x.dims[is_last ? x.ndim - 1 : 0], &first, &count) ||
            !elements_put(&x, d, first, count, at, out))
            return false;
        at += count;
    }
    return at == out->dims[d];
}

/* Adds what a member gives: the like of all others where it is partial along the axes, else zeros where others have
 * something. */
static bool add_elements(const elements *more, uint32_t axes, elements *sum) {
    bool partial = (more->partial & axes) != 0;
    if (partial ? more->partial != sum->partial || more->base != sum->base || more->family != sum->family
                : !elements_join(sum, more))
        return false;
    if ((sum->partial & axes) != (partial ? axes : 0) || more->count != sum->count) return false;
    for (int64_t i = 0; i < sum->count; i++) {
        if (partial ? more->at[i] != sum->at[i] : more->at[i] != ELEMENT_ZERO && sum->at[i] != ELEMENT_ZERO)
            return false;
        if (more->at[i] != ELEMENT_ZERO) sum->at[i] = more->at[i];
    }
    return true;
}

/* The sum of what the members give; `out` has room for the argument. */
static bool summed_elements(walk *w, size_t rank, uint32_t id, const weft_op *op, uint32_t axes, elements *out) {
    const ring *r = program_find_ring(w->l->programs[rank], op_ring(op));
    for (int i = 0; i < r->nranks; i++) {
        elements x;
        if (!given_elements(w, rank, id, axes, (size_t)r->ranks[i], &x)) return false;
        if (i == 0)
            *out = x;
        else if (!add_elements(&x, axes, out))
            return false;
    }
    if (!(out->partial & axes)) return true;
    out->partial &= ~axes;
    out->family = out->partial ? base_hash(&(uint64_t[2]){out->family, axes}, 2 * sizeof(uint64_t)) : 0;
    return true;
}

/* The rank's rows of the sum. */
static bool scattered_elements(walk *w, size_t rank, uint32_t id, const weft_op *op, uint32_t axes, elements *out) {
    const ring *r = program_find_ring(w->l->programs[rank], op_ring(op));
    elements sum;
    if (!out->ndim || !summed_elements(w, rank, id, op, axes, &sum) || !sum.ndim || sum.dims[0] % r->nranks)
        return false;
    int64_t rows = sum.dims[0] / r->nranks;
    return out->dims[0] == rows && elements_put(&sum, 0, ring_index(r, (int64_t)rank) * rows, rows, 0, out);
}

bool elements_of_collective(walk *w, size_t rank, uint32_t id, const weft_op *op, elements *out) {
    const lifter *l = w->l;
    uint32_t axes;
    bool adds = op_collective_reduce(op) == WEFT_REDUCE_SUM;
    if (!l->record[rank][id] || !lift_ring_axes(l, rank, op, &axes)) return false;
    switch (op_collective_kind(op)) {
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_ALL_TO_ALL: return gathered_elements(w, rank, id, op, axes, out);
    case COLLECTIVE_ALL_REDUCE: return adds && summed_elements(w, rank, id, op, axes, out);
    case COLLECTIVE_REDUCE_SCATTER: return adds && scattered_elements(w, rank, id, op, axes, out);
    default: return false;
    }
}

/* The collective of one tensor that makes the rank's term; NULL: none does. */
const weft_op *elements_collective(const lifter *l, size_t rank, uint32_t id) {
    const terms *t = l->t;
    if (rank == LIFT_ALL) return NULL;
    if (term_is(t, id, HEAD_REDUCE))
        return l->record[rank][id] ? l->outputs[rank].collectives[l->record[rank][id] - 1].op : NULL;
    if (!term_is(t, id, HEAD_OUT)) return NULL;
    uint32_t of = term_args(t, id)[0].term;
    const weft_op *op = term_is(t, of, HEAD_OP) ? term_head(t, of)->op : NULL;
    bool is_single = op && op_collective_kind(op) != COLLECTIVE_NONE && t->items[of].nargs == 1 &&
                     op_collective(op)->form != COLLECTIVE_LIST;
    return is_single ? op : NULL;
}
