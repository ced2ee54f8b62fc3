/* lift_views.c: parts of what is moved.
 *
 * What a rank holds of a sharded value is a strided view of it (view.c), whose offset grows with the rank's
 * coordinates. So a move of a part is a move of its levels. Its whole is found by putting the ranks back in, as the
 * outermost level of one of its dimensions: of which the fewest levels are left. Where that is one level of all
 * elements, it is the value that was moved; where the serial program has a term for the view it is that, and else a
 * term of its own kind. */
#include "proof/spmd/view.h"

/* --- what ranks hold ---------------------------------------------------------------------------------------------- */

static bool copy_dims(const terms *t, uint32_t id, size_t *out_ndim, int64_t *out) {
    const int64_t *dims = term_dims(t, id, out_ndim);
    if (!dims || *out_ndim > WEFT_MAX_RANK) return false;
    if (*out_ndim) memcpy(out, dims, *out_ndim * sizeof *dims);
    return true;
}

/* Takes the rank's part of what is split unevenly out of the view of all, whose extents are `whole`, and become those
 * of that part. */
static bool take_uneven(const lifter *l, const lifted *x, size_t rank, size_t ndim, int64_t *whole, view *v) {
    size_t first[WEFT_MAX_RANK + 1];
    for (size_t k = 0; k < l->grid.naxes; k++) {
        int64_t extent;
        if (!has_partition(x->placed[k]) || !lift_leads(l, x->placed[k], k)) continue;
        if (rank == LIFT_ALL || !view_split(v, ndim, whole, first)) return false;
        size_t d = (size_t)sharded_dim(x->placed[k]);
        int64_t from = lift_partition_part(l, x->placed[k], rank, &extent);
        if (d >= ndim || !view_slice(v, first[d], first[d + 1], from, extent)) return false;
        whole[d] = extent;
        view_merge(v);
    }
    return true;
}

bool lift_view_of_part(const lifter *l, const lifted *x, size_t rank, size_t ndim, const int64_t *dims, view *out) {
    int64_t fine[WEFT_MAX_RANK + 2 * LIFT_AXES] = {0}, whole[WEFT_MAX_RANK];
    int axis_at[WEFT_MAX_RANK + 2 * LIFT_AXES];
    size_t first[WEFT_MAX_RANK + 2 * LIFT_AXES + 1], n = 0, nwhole;
    if (!copy_dims(l->t, x->term, &nwhole, whole) || nwhole != ndim || !view_of_term(l->t, x->term, out)) return false;
    if (!take_uneven(l, x, rank, ndim, whole, out)) return false;
    for (size_t d = 0; d < ndim; d++) {
        uint32_t axes = 0;
        int64_t run = 0;
        int nest[LIFT_AXES], nnest = 0;
        for (size_t k = 0; k < l->grid.naxes; k++)
            if (is_sharded_equally(x->placed[k], (int)d)) axes |= UINT32_C(1) << k;
        if (axes && (nnest = lift_nest(l, x, (int)d, nest)) < 0) return false;
        for (size_t k = 0; k < l->grid.naxes; k++) {
            if (!has_runs(x->placed[k]) || sharded_dim(x->placed[k]) != (int)d) continue;
            run = lift_run(l, x->placed[k]);
            if (axes || dims[d] % run) return false;
            axes = UINT32_C(1) << k;
            axis_at[n] = -1;
            fine[n++] = dims[d] / run;
            axis_at[n] = (int)k;
            fine[n++] = l->grid.extent[k];
        }
        if (whole[d] != lift_product(dims[d], lift_extent(l, axes))) return false;
        for (int i = 0; i < nnest; i++) axis_at[n] = nest[i], fine[n++] = l->grid.extent[nest[i]];
        axis_at[n] = -1;
        fine[n++] = run ? run : dims[d];
    }
    if (!view_split(out, n, fine, first)) return false;
    for (size_t i = 0; i < n; i++) {
        if (axis_at[i] < 0 || first[i] == first[i + 1]) continue;
        if (first[i + 1] - first[i] != 1) return false;
        out->step[axis_at[i]] = out->stride[first[i]];
        out->extent[first[i]] = 1;
    }
    view_merge(out);
    return true;
}

/* Where ranks can be put back into a view: as the outermost level of a dimension, which the first places are, in order;
 * or before a level further in, so that each has runs of the dimension. */
typedef struct places {
    size_t count, dim[VIEW_LEVELS + WEFT_MAX_RANK], level[VIEW_LEVELS + WEFT_MAX_RANK];
    int64_t run[VIEW_LEVELS + WEFT_MAX_RANK]; /* 0: the first level */
} places;

static void list_places(const view *own, size_t ndim, const size_t *first, places *out) {
    out->count = 0;
    for (size_t d = 0; d < ndim; d++, out->count++)
        out->dim[out->count] = d, out->level[out->count] = first[d], out->run[out->count] = 0;
    for (size_t d = 0; d < ndim; d++) {
        int64_t run = 1;
        for (size_t i = first[d + 1]; i > first[d]; run *= own->extent[--i], out->count++)
            out->dim[out->count] = d, out->level[out->count] = i, out->run[out->count] = run;
    }
}

/* Runs of a dimension are those of one axis. */
static bool are_apart(const lifter *l, const places *p, uint32_t cut, const size_t *pick) {
    for (size_t k = 0; k < l->grid.naxes; k++)
        for (size_t m = 0; m < l->grid.naxes; m++)
            if (k != m && (cut >> k & 1) && (cut >> m & 1) && p->run[pick[k]] && p->dim[pick[k]] == p->dim[pick[m]])
                return false;
    return true;
}

/* A value of which a rank's view is the part, if axis k of `axes` is put back at place pick[k], the major ones first.
 */
static bool put_back(const lifter *l, const view *own, const size_t *first, const int *axes, int naxes, const places *p,
                     const size_t *pick, size_t ndim, view *out) {
    *out = (view){.base = own->base, .offset = own->offset};
    for (size_t d = 0; d < ndim; d++) {
        for (size_t i = first[d]; i <= first[d + 1]; i++) {
            for (int m = 0; m < naxes; m++) {
                int k = axes[m];
                bool here = p->dim[pick[k]] == d && p->level[pick[k]] == i;
                if (here && !view_add_level(out, out->n, l->grid.extent[k], own->step[k])) return false;
            }
            if (i < first[d + 1] && !view_add_level(out, out->n, own->extent[i], own->stride[i])) return false;
        }
    }
    view_merge(out);
    return true;
}

/* How the axes then shard its dimensions. */
static void place_back(const int *axes, int naxes, const places *p, const size_t *pick, lifted *out) {
    for (size_t d = 0; d < WEFT_MAX_RANK; d++) {
        int list[LIFT_AXES], n = 0;
        for (int i = 0; i < naxes; i++)
            if (p->dim[pick[axes[i]]] == d) list[n++] = axes[i];
        lift_put_nest(out, (int)d, list, n);
    }
}

/* Whether `pick` are the next ones of so many places, for all axes of `cut`; false: there are no more. */
static bool next_pick(const lifter *l, uint32_t cut, size_t nplaces, size_t *pick) {
    for (size_t k = 0; k < l->grid.naxes; k++) {
        if (!(cut >> k & 1)) continue;
        if (++pick[k] < nplaces) return true;
        pick[k] = 0;
    }
    return false;
}

/* --- terms -------------------------------------------------------------------------------------------------------- */

/* Where the view is in the list of those with names, or belongs. */
static size_t find_name(const lifter *l, uint32_t key) {
    size_t low = 0, high = l->nviews;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (l->views[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The term is the name of the view that it is, if that has none so far. Only of ops and of slices of what these moved:
 * the serial program has the like. */
static weft_status name_view(lifter *l, uint32_t id) {
    uint32_t key;
    view v;
    bool has_like = term_is(l->t, id, HEAD_OUT) || term_is(l->t, id, HEAD_PART);
    if (!has_like || view_argument(l->t, id) == TERM_NONE) return NULL;
    if (!view_of_term(l->t, id, &v) || v.base == id || v.n < 2) return NULL;
    TRY(view_term(l->t, &v, &key));
    size_t at = find_name(l, key);
    if (at < l->nviews && l->views[at].key == key) return NULL;
    TRY(vector_reserve(&l->t->context->allocator, &l->views, &l->views_capacity, l->nviews + 1, sizeof *l->views));
    memmove(&l->views[at + 1], &l->views[at], (l->nviews++ - at) * sizeof *l->views);
    l->views[at] = (named_view){key, id};
    return NULL;
}

/* The first term of the serial program of that shape. */
static table_probe find_shape(const lifter *l, size_t ndim, const int64_t *dims) {
    uint64_t hash = ndim;
    for (size_t d = 0; d < ndim; d++) hash = (hash ^ (uint64_t)dims[d]) * UINT64_C(0x9E3779B97F4A7C15) ^ hash >> 31;
    table_probe at = table_find(&l->shapes, table_hash(hash));
    for (; at.item != TABLE_NONE; table_next(&l->shapes, &at)) {
        size_t n;
        const int64_t *own = term_dims(l->t, at.item, &n);
        if (n == ndim && (n == 0 || memcmp(own, dims, n * sizeof *dims) == 0)) break;
    }
    return at;
}

static bool has_serial_shape(const lifter *l, uint32_t id) {
    size_t ndim;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    return dims && find_shape(l, ndim, dims).item != TABLE_NONE;
}

static weft_status list_shapes(lifter *l, arena *memory) {
    size_t ndim;
    l->shapes = (hash_table){.entries = NULL};
    for (uint32_t i = 0; i < l->nserial; i++) {
        const int64_t *dims = term_dims(l->t, i, &ndim);
        if (!dims) continue;
        TRY(table_reserve(memory, &l->shapes, l->shapes.count + 1));
        table_probe at = find_shape(l, ndim, dims);
        if (at.item == TABLE_NONE) table_put(&l->shapes, &at, i);
    }
    return NULL;
}

weft_status lift_name_views(lifter *l, arena *memory) {
    TRY(list_shapes(l, memory));
    for (uint32_t i = 0; i < l->nserial; i++) TRY(name_view(l, i));
    return NULL;
}

typedef struct whole {
    uint32_t term;
    bool is_named; /* by another term than the view's own */
    size_t levels;
} whole;

static weft_status term_of_view(lifter *l, const view *of, size_t ndim, const int64_t *dims, whole *out) {
    terms *t = l->t;
    value made;
    view shown = *of;
    while (view_unpad(t, &shown)) continue;
    const view *v = &shown;
    int64_t numel = v->n ? v->extent[0] : 1;
    out->is_named = v->n == 0 || (v->n == 1 && v->stride[0] == 1);
    if (out->is_named) {
        TRY(term_part(t, value_of(v->base), v->offset, numel, &made));
    } else {
        uint32_t key;
        TRY(view_term(t, v, &key));
        size_t at = find_name(l, key);
        out->is_named = at < l->nviews && l->views[at].key == key;
        made = value_of(out->is_named ? l->views[at].term : key);
    }
    TRY(term_reshape(t, made, ndim, dims, &made));
    out->term = made.term;
    return NULL;
}

/* How far a way to put ranks back is from what the serial program does. Best is one by which it has the value, else one
 * of the fewest levels. Of equal ones a shape that it has is better, then that of `hint`, then that it is not where
 * there is one element. */
static size_t distance(const lifter *l, const whole *made, const lifted *as, const lifted *hint, const int64_t *dims) {
    enum { MOST_MOVED = 3 * LIFT_AXES + 1 };
    size_t moved = 0, levels = made->term < l->nserial ? made->levels : made->levels + VIEW_LEVELS;
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (!placed_equal(as->placed[k], hint->placed[k]) && is_sharded(as->placed[k]))
            moved += dims[as->placed[k].dim] == 1 ? 2 : 1;
    return (2 * levels + !has_serial_shape(l, made->term)) * MOST_MOVED + moved;
}

/* The way to put ranks back that is nearest to the serial program. */
static weft_status find_whole(lifter *l, const view *view_of_rank, size_t ndim, const int64_t *dims, bool *out_found,
                              lifted *x, whole *out) {
    view own = *view_of_rank, v;
    size_t first[WEFT_MAX_RANK + 1], pick[LIFT_AXES] = {0}, best_pick[LIFT_AXES] = {0}, best = SIZE_MAX;
    const lifted hint = *x;
    places p;
    uint32_t cut = 0;
    int order[LIFT_AXES], norder = 0;
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (is_sharded(hint.placed[k]) && (own.step[k] || l->grid.extent[k] == 1))
            cut |= UINT32_C(1) << k, order[norder++] = (int)k;
    *out_found = false;
    if ((cut && ndim == 0) || !view_split(&own, ndim, dims, first)) return NULL;
    list_places(&own, ndim, first, &p);
    if (__builtin_popcount(cut) > 2) p.count = ndim; /* there are too many ways */
    do {
        if (!are_apart(l, &p, cut, pick)) continue;
        if (!put_back(l, &own, first, order, norder, &p, pick, ndim, &v)) return NULL;
        whole made = {.levels = v.n};
        lifted as = hint;
        for (size_t k = 0; k < l->grid.naxes; k++)
            if (is_sharded(hint.placed[k])) as.placed[k] = REPLICATED;
        place_back(order, norder, &p, pick, &as);
        int64_t extents[WEFT_MAX_RANK];
        lift_extents(l, &as, ndim, dims, extents);
        TRY(term_of_view(l, &v, ndim, extents, &made));
        size_t far = distance(l, &made, &as, &hint, dims);
        for (size_t k = 0; k < l->grid.naxes; k++) far += cut >> k & 1 && p.run[pick[k]];
        if (far >= best) continue;
        best = far;
        *out = made;
        *x = as;
        memcpy(best_pick, pick, sizeof pick);
    } while (next_pick(l, cut, p.count, pick) || (l->reorders && lift_next_order(order, norder)));
    for (size_t k = 0; k < l->grid.naxes; k++) {
        int64_t run = cut >> k & 1 ? p.run[best_pick[k]] : 0;
        int split = run ? lift_find_run(l, run) : SPLIT_EVEN;
        if (run && !split) return NULL;
        if (run) x->placed[k].split = (uint8_t)split;
    }
    x->term = out->term;
    *out_found = true;
    return NULL;
}

weft_status lift_settle(lifter *l, uint32_t id, lifted *x) {
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim;
    view now, own;
    if (x->state != LIFT_KNOWN || x->term < l->nserial || !view_of_term(l->t, x->term, &now)) return NULL;
    TRY(name_view(l, x->term));
    if (now.base == x->term || !copy_dims(l->t, id, &ndim, dims) ||
        !lift_view_of_part(l, x, LIFT_ALL, ndim, dims, &own))
        return NULL;
    lifted made = *x;
    whole all;
    bool found;
    TRY(find_whole(l, &own, ndim, dims, &found, &made, &all));
    bool loses_shape = has_serial_shape(l, x->term) && !has_serial_shape(l, made.term);
    if (found && !loses_shape && (all.is_named || all.levels < now.n)) *x = made;
    return NULL;
}

weft_status lift_view_term(lifter *l, const view *v, size_t ndim, const int64_t *dims, uint32_t *out) {
    whole all;
    TRY(term_of_view(l, v, ndim, dims, &all));
    *out = all.term;
    return NULL;
}

weft_status lift_from_view(lifter *l, uint32_t id, const view *own, bool *out_found, lifted *x) {
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim;
    whole all;
    *out_found = false;
    return copy_dims(l->t, id, &ndim, dims) ? find_whole(l, own, ndim, dims, out_found, x, &all) : NULL;
}

bool lift_join_steps(const lifter *l, uint32_t axes, view *v, lifted *x) {
    size_t at = 0;
    for (size_t k = 0; k < l->grid.naxes; k++) {
        if (!(axes >> k & 1)) continue;
        bool is_one = l->grid.extent[k] == 1;
        if (!is_one && (!is_sharded(x->placed[k]) || has_partition(x->placed[k]) || !v->step[k])) return false;
        if (!view_add_level(v, at, l->grid.extent[k], v->step[k])) return false;
        at += !is_one;
        v->step[k] = 0;
        x->placed[k] = REPLICATED;
    }
    view_merge(v);
    return true;
}

bool lift_take_steps(const lifter *l, uint32_t axes, size_t ndim, const int64_t *dims, view *v, lifted *x) {
    int64_t fine[WEFT_MAX_RANK + LIFT_AXES], n = lift_extent(l, axes);
    size_t first[WEFT_MAX_RANK + LIFT_AXES + 1], axis_at[LIFT_AXES], count = 0;
    if ((lift_axes_with(l, x, PARTIAL) & axes) != axes || dims[0] % n) return false;
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (axes >> k & 1) axis_at[count] = k, fine[count++] = l->grid.extent[k];
    fine[count] = dims[0] / n;
    for (size_t d = 1; d < ndim; d++) fine[count + d] = dims[d];
    if (!view_split(v, count + ndim, fine, first)) return false;
    for (size_t i = 0; i < count; i++) {
        x->placed[axis_at[i]] = sharded(0);
        if (fine[i] == 1) continue;
        if (first[i + 1] - first[i] != 1) return false;
        v->step[axis_at[i]] = v->stride[first[i]];
        v->extent[first[i]] = 1;
    }
    view_merge(v);
    return true;
}

/* --- moves of parts ----------------------------------------------------------------------------------------------- */

/* Whether both are the same where neither is a part. */
static bool are_alike_but_for_parts(const lifter *l, const lifted *a, const lifted *b) {
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (!placed_equal(a->placed[k], b->placed[k]) && (!is_sharded(a->placed[k]) || !is_sharded(b->placed[k])))
            return false;
    return true;
}

static bool view_of_own(const lifter *l, size_t rank, uint32_t id, view *out) {
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim;
    const lifted *x = &l->known[rank][id];
    return x->state == LIFT_KNOWN && copy_dims(l->t, id, &ndim, dims) &&
           lift_view_of_part(l, x, LIFT_ALL, ndim, dims, out);
}

/* What the rank puts together. */
static bool join_own(const lifter *l, size_t rank, const view_joint *j, view *out) {
    int64_t offsets[VIEW_PIECES];
    const value *args = term_args(l->t, j->of);
    for (size_t i = 0; i < j->n; i++) {
        view v;
        if (!view_of_own(l, rank, args[i].term, &v) || (i && !view_is_like(&v, out))) return false;
        if (!are_alike_but_for_parts(l, &l->known[rank][args[0].term], &l->known[rank][args[i].term])) return false;
        if (i == 0) *out = v;
        offsets[i] = v.offset;
    }
    return view_join(l->t, j, offsets, out);
}

weft_status lift_move(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const terms *t = l->t;
    view own;
    view_joint j = {.of = TERM_NONE};
    uint32_t from = view_argument(t, id);
    bool good = from != TERM_NONE ? view_of_own(l, rank, from, &own) && view_move(t, id, &own)
                                  : view_joint_of(t, id, &j) && join_own(l, rank, &j, &own);
    if (!good) return NULL;
    if (from == TERM_NONE) from = term_args(t, j.of)[0].term;
    lifted made = l->known[rank][from];
    bool found;
    TRY(lift_from_view(l, id, &own, &found, &made));
    if (!found) return NULL;
    if (j.of == TERM_NONE) {
        lift_name_family(l, &l->known[rank][from], 1, &made);
        *out = made;
        return NULL;
    }
    lifted *args = base_alloc(&t->context->allocator, j.n * sizeof *args);
    if (!args) return base_out_of_memory();
    for (size_t i = 0; i < j.n; i++) args[i] = l->known[rank][term_args(t, j.of)[i].term];
    lift_name_family(l, args, j.n, &made);
    base_free(&t->context->allocator, args, j.n * sizeof *args);
    *out = made;
    return NULL;
}
