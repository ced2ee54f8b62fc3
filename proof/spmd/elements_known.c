/* elements_known.c: the elements of parts of serial values, and of serial values that are moves of others. */
#include "proof/spmd/elements.h"

/* Where dimension `d` of the rank's part of `x` has its elements, `own` of them; false: that is not known. */
static bool part_places(const lifter *l, const lifted *x, size_t rank, size_t d, int64_t whole, int64_t own,
                        int64_t *out) {
    int list[LIFT_AXES], n = lift_nest(l, x, (int)d, list);
    int64_t first = 0, extent = whole, run = 0, of = 1, at = 0;
    for (size_t k = 0; k < l->grid.naxes && n < 0; k++) {
        if (sharded_dim(x->placed[k]) != (int)d) continue;
        if (has_partition(x->placed[k])) {
            if (lift_partition(l, x->placed[k])->total != whole) return false;
            first = lift_partition_part(l, x->placed[k], rank, &extent);
        } else if (run || !has_runs(x->placed[k])) {
            return false;
        } else {
            run = lift_run(l, x->placed[k]), of = l->grid.extent[k], at = l->grid.at[rank][k];
        }
    }
    if (n > 0) {
        int64_t parts = 1;
        for (int i = 0; i < n; i++) parts *= l->grid.extent[list[i]];
        if (whole % parts) return false;
        extent = whole / parts;
        first = lift_part_of_axes(l, rank, list, n) * extent;
    }
    if (run && whole != own * of) return false;
    if (!run && extent != own) return false;
    for (int64_t i = 0; i < own; i++) out[i] = run ? (i / run * of + at) * run + i % run : first + i;
    return true;
}

/* The elements of a part of a value of extents `whole`, which has `dims` of its own: their places in the value. */
bool elements_list_part(walk *w, const lifted *x, size_t rank, size_t ndim, const int64_t *dims, const int64_t *whole,
                        int64_t *out) {
    int64_t *places[WEFT_MAX_RANK], count = 1;
    for (size_t d = 0; d < ndim; d++) {
        if (!(places[d] = ARENA_ARRAY(&w->memory, int64_t, (size_t)dims[d] + 1))) return w->failed = true, false;
        if (!part_places(w->l, x, rank, d, whole[d], dims[d], places[d])) return false;
        count *= dims[d];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, stride = 1;
        out[i] = 0;
        for (size_t d = ndim; d-- > 0; rest /= dims[d], stride *= whole[d])
            out[i] += places[d][rest % dims[d]] * stride;
    }
    return true;
}

void elements_unpad(const terms *t, uint32_t id, elements *e) {
    size_t ndim, d = (size_t)term_head(t, id)->ints[0];
    const int64_t *dims = term_dims(t, term_args(t, id)[0].term, &ndim);
    int64_t inner = 1, full = term_head(t, id)->ints[1];
    for (size_t i = d + 1; i < ndim; i++) inner *= dims[i];
    for (int64_t i = 0; i < e->count; i++) {
        if (e->at[i] == ELEMENT_ZERO) continue;
        int64_t before = e->at[i] / inner / full, at = e->at[i] / inner % full;
        e->at[i] = at < dims[d] ? (before * dims[d] + at) * inner + e->at[i] % inner : ELEMENT_ZERO;
    }
}

/* Tells elements of a value as those of what it is moved from: of its shape and of zeros alone, or of all moves. */
static bool see_through(walk *w, elements *e) {
    const terms *t = w->l->t;
    elements whole;
    while (w->depth == SEES_SHAPES) {
        bool is_padded = term_is(t, e->base, HEAD_PADDED);
        if (!is_padded && (!term_is(t, e->base, HEAD_RESHAPE) || term_args(t, e->base)[0].factor != FACTOR_ONE))
            return true;
        if (is_padded) elements_unpad(t, e->base, e);
        e->base = term_args(t, e->base)[0].term;
    }
    if (!w->find(w, LIFT_ALL, e->base, &whole)) return false;
    for (int64_t i = 0; i < e->count; i++)
        if (e->at[i] != ELEMENT_ZERO) e->at[i] = whole.at[e->at[i]];
    e->base = whole.base;
    return true;
}

bool elements_of_known(walk *w, size_t rank, uint32_t id, elements *out) {
    const lifter *l = w->l;
    const lifted x = l->known[rank][id];
    size_t nwhole;
    const int64_t *whole = term_dims(l->t, x.term, &nwhole);
    if (!whole || !elements_room(w, id, out) || nwhole != out->ndim) return false;
    out->base = x.term;
    out->partial = lift_axes_with(l, &x, PARTIAL);
    out->family = x.family;
    return elements_list_part(w, &x, rank, out->ndim, out->dims, whole, out->at) && see_through(w, out);
}
