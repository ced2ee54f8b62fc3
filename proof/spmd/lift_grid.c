/* lift_grid.c: the ranks as a grid, and which part of a value belongs to which coordinate.
 *
 * A value that several axes shard at one dimension is split by the first of them first: parts are in row-major order of
 * the axes. So the grid has the axes of the mesh in an order that agrees with the lists of placements, if there is one.
 * Vars are sharded where their extents say so, over the axes that their placement names. */
#include "dist_attr/dims.h"
#include "proof/spmd/lift.h"

/* --- the grid ----------------------------------------------------------------------------------------------------- */

static bool has_all_ranks(const lifter *l, const mesh *m) {
    int64_t at[MESH_MAX_NDIM];
    if (m->ndim > LIFT_AXES || mesh_size(m) != (int64_t)l->nranks) return false;
    for (size_t i = 0; i < l->nranks; i++)
        if (!mesh_coordinates(m, (int64_t)i, at)) return false;
    return true;
}

/* By axis of the mesh: those (bits) that some var has before it in a list of axes of one dimension. */
static void find_majors(const weft_program *p, const mesh *m, uint32_t *out) {
    memset(out, 0, (size_t)m->ndim * sizeof *out);
    for (size_t i = 0; i < p->nall_vars; i++) {
        const placement *at = program_var(p, i)->dist;
        for (int d = 0; at && at->mesh == m && d < at->ndim; d++)
            for (int k = 1; k < dim_naxes(at->dims_mapping[d]); k++)
                out[dim_axis(at->dims_mapping[d], k)] |= UINT32_C(1) << dim_axis(at->dims_mapping[d], k - 1);
    }
}

/* The axes of the mesh, each behind those that are major to it, as far as lists agree. */
static void order_axes(const weft_program *p, const mesh *m, int *out) {
    uint32_t majors[LIFT_AXES], placed = 0;
    find_majors(p, m, majors);
    for (int n = 0; n < m->ndim; n++) {
        int next = -1, first = -1;
        for (int a = m->ndim; a-- > 0;) {
            if (placed >> a & 1) continue;
            first = a;
            if (!(majors[a] & ~placed)) next = a;
        }
        out[n] = next < 0 ? first : next;
        placed |= UINT32_C(1) << out[n];
    }
}

static bool has_both_or_none(uint32_t axes, int a, int b) {
    return (axes >> a & 1) == (axes >> b & 1);
}

/* Whether the entry has both, one behind the other, or none of them. */
static bool keeps_together(int64_t entry, int a, int b) {
    int n = dim_naxes(entry), at_a = -1, at_b = -1;
    for (int k = 0; k < n; k++) {
        if (dim_axis(entry, k) == a) at_a = k;
        if (dim_axis(entry, k) == b) at_b = k;
    }
    return (at_a < 0 && at_b < 0) || (at_a >= 0 && at_b == at_a + 1);
}

/* The axes of the mesh along which the ranks of a ring differ; all where it has others. */
static uint32_t axes_of_ring(const mesh *m, const ring *r) {
    int64_t first[MESH_MAX_NDIM], at[MESH_MAX_NDIM];
    uint32_t axes = 0;
    if (!r->nranks || !mesh_coordinates(m, r->ranks[0], first)) return UINT32_MAX;
    for (int k = 1; k < r->nranks; k++) {
        if (!mesh_coordinates(m, r->ranks[k], at)) return UINT32_MAX;
        for (int i = 0; i < m->ndim; i++) axes |= at[i] != first[i] ? UINT32_C(1) << i : 0;
    }
    return axes;
}

/* Whether nothing tells the one axis from the other: they shard, are partial and communicate together. Then they may be
 * taken as one, of which parts may differ. */
static bool go_together(const weft_program *p, const mesh *m, int a, int b) {
    bool listed = false;
    for (size_t i = 0; i < p->nall_vars; i++) {
        const placement *at = program_var(p, i)->dist;
        if (!at || at->mesh != m) continue;
        if (!has_both_or_none(at->partial_axes, a, b)) return false;
        for (int d = 0; d < at->ndim; d++) {
            if (!keeps_together(at->dims_mapping[d], a, b)) return false;
            listed |= dim_naxes(at->dims_mapping[d]) > 1;
        }
    }
    for (size_t i = 0; i < p->nrings && listed; i++)
        if (!has_both_or_none(axes_of_ring(m, &p->rings[i]), a, b)) return false;
    return listed;
}

/* Whether some list of axes stands against the grid's order; `into`: the axis of the grid, by place in `order`. */
static bool lists_otherwise(const weft_program *p, const mesh *m, const int *order, const int *into) {
    int of[LIFT_AXES];
    for (int k = 0; k < m->ndim; k++) of[order[k]] = into[k];
    for (size_t i = 0; i < p->nall_vars; i++) {
        const placement *at = program_var(p, i)->dist;
        for (int d = 0; at && at->mesh == m && d < at->ndim; d++)
            for (int k = 1; k < dim_naxes(at->dims_mapping[d]); k++)
                if (of[dim_axis(at->dims_mapping[d], k)] < of[dim_axis(at->dims_mapping[d], k - 1)]) return true;
    }
    return false;
}

weft_status lift_grid_init(lifter *l, arena *memory) {
    int order[LIFT_AXES] = {0}, into[LIFT_AXES] = {0}, ndim = 1; /* into: the axis of the grid */
    const weft_program *p = l->programs[0];
    const mesh *found = NULL;
    for (size_t i = 0; i < p->nmeshes; i++)
        if (has_all_ranks(l, p->meshes[i]) && (!found || p->meshes[i]->ndim > found->ndim)) found = p->meshes[i];
    grid *g = &l->grid;
    *g = (grid){.naxes = 1, .extent = {(int64_t)l->nranks, 1, 1, 1}};
    if (found) {
        order_axes(p, found, order);
        ndim = found->ndim;
        for (int k = 0; k < ndim; k++) {
            into[k] = k == 0 ? 0 : into[k - 1] + !go_together(p, found, order[k - 1], order[k]);
            g->extent[into[k]] = (k && into[k] == into[k - 1] ? g->extent[into[k]] : 1) * found->shape[order[k]];
        }
        g->naxes = (size_t)into[ndim - 1] + 1;
        l->reorders = lists_otherwise(p, found, order, into);
    }
    if (!(g->at = arena_alloc(memory, l->nranks * sizeof *g->at))) return base_out_of_memory();
    for (size_t i = 0; i < l->nranks; i++) {
        int64_t at[MESH_MAX_NDIM] = {(int64_t)i};
        memset(g->at[i], 0, sizeof g->at[i]);
        if (found) (void)mesh_coordinates(found, (int64_t)i, at);
        for (int k = 0; k < ndim; k++)
            g->at[i][into[k]] = g->at[i][into[k]] * (found ? found->shape[order[k]] : 1) + at[order[k]];
    }
    return NULL;
}

int64_t lift_extent(const lifter *l, uint32_t axes) {
    int64_t n = 1;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (axes >> i & 1) n *= l->grid.extent[i];
    return n;
}

uint32_t lift_axes_with(const lifter *l, const lifted *x, axis_placement placed) {
    uint32_t axes = 0;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (placed_equal(x->placed[i], placed)) axes |= UINT32_C(1) << i;
    return axes;
}

bool lift_is_partial(const lifter *l, const lifted *x) {
    return lift_axes_with(l, x, PARTIAL) != 0;
}

bool lift_placed_alike(const lifted *a, const lifted *b) {
    for (size_t i = 0; i < LIFT_AXES; i++)
        if (!placed_equal(a->placed[i], b->placed[i])) return false;
    return true;
}

bool lift_is_replicated(const lifter *l, const lifted *x) {
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (!is_replicated(x->placed[i])) return false;
    return true;
}

int64_t lift_part(const lifter *l, size_t rank, uint32_t axes) {
    int64_t at = 0;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (axes >> i & 1) at = at * l->grid.extent[i] + l->grid.at[rank][i];
    return at;
}

static int count_sharding(const lifter *l, const lifted *x, int d) {
    int n = 0;
    for (size_t i = 0; i < l->grid.naxes; i++) n += sharded_dim(x->placed[i]) == d;
    return n;
}

void lift_swap_axes(const lifter *l, size_t rank, size_t axis, axis_placement wanted, lifted *x) {
    const grid *g = &l->grid;
    for (size_t m = axis + 1; m < g->naxes && !placed_equal(x->placed[axis], wanted); m++) {
        axis_placement a = x->placed[axis], b = x->placed[m], one = is_sharded(a) ? a : b;
        if (!placed_equal(b, wanted) || is_partial(a) || is_partial(b) || is_sharded(a) == is_sharded(b)) continue;
        if (!is_sharded_evenly(one, one.dim) || count_sharding(l, x, one.dim) > 1 || g->extent[axis] != g->extent[m] ||
            g->at[rank][axis] != g->at[rank][m])
            continue;
        x->placed[axis] = b, x->placed[m] = a;
    }
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

/* Which part a rank has along the axes of an entry, major first. */
static int64_t part_of_entry(const mesh *m, int64_t entry, const int64_t *at) {
    int64_t part = 0;
    for (int k = 0; k < dim_naxes(entry); k++) part = part * m->shape[dim_axis(entry, k)] + at[dim_axis(entry, k)];
    return part;
}

static bool are_parts_of(const lifter *l, const placement *p, int64_t entry, const int *axes, int n) {
    int64_t at[MESH_MAX_NDIM];
    for (size_t i = 0; i < l->nranks; i++)
        if (!mesh_coordinates(p->mesh, (int64_t)i, at) ||
            part_of_entry(p->mesh, entry, at) != lift_part_of_axes(l, i, axes, n))
            return false;
    return true;
}

/* The axes of the grid whose parts are those of an entry's axes of some mesh, major first; returns how many. */
static int axes_of_entry(const lifter *l, const placement *p, int64_t entry, int *out) {
    int64_t size = 1;
    for (int k = 0; k < dim_naxes(entry); k++) size *= p->mesh->shape[dim_axis(entry, k)];
    for (uint32_t axes = 1; axes < UINT32_C(1) << l->grid.naxes; axes++) {
        int n = 0;
        if (lift_extent(l, axes) != size) continue;
        for (size_t k = 0; k < l->grid.naxes; k++)
            if (axes >> k & 1) out[n++] = (int)k;
        do {
            if (are_parts_of(l, p, entry, out, n)) return n;
        } while (lift_next_order(out, n));
    }
    return 0;
}

static bool is_placed(const weft_var *v) {
    return v->dist && v->dist->mesh && v->dist->ndim == (int)v->ndim && v->dist->dims_mapping;
}

int lift_placed_axes(const lifter *l, const weft_var *v, size_t d, int *out_axes) {
    if (!is_placed(v) || v->dist->dims_mapping[d] < 0) return 0;
    return axes_of_entry(l, v->dist, v->dist->dims_mapping[d], out_axes);
}

uint32_t lift_axes_of_sums(const lifter *l, const weft_var *v) {
    uint32_t axes = 0;
    int list[LIFT_AXES];
    for (int i = 0; v->dist && v->dist->mesh && i < v->dist->mesh->ndim; i++)
        for (int k = v->dist->partial_axes >> i & 1 ? axes_of_entry(l, v->dist, i, list) : 0; k-- > 0;)
            axes |= UINT32_C(1) << list[k];
    return axes;
}

/* The axes that shard dimension `d` of the rank's var, major first, and how many; 0: none do, or they cannot be told.
 */
static int sharding_axes(const lifter *l, const weft_var *serial, const weft_var *own, size_t d, int *out) {
    bool open = own->dims[d] < 0;
    if (is_placed(own) && (open || own->dist->dims_mapping[d] >= 0)) return lift_placed_axes(l, own, d, out);
    for (size_t k = 0; k < l->grid.naxes; k++) out[k] = (int)k;
    if (open) return d == 0 ? (int)l->grid.naxes : 0; /* as many rows as are fed */
    int64_t parts[LIFT_RANKS], total = lift_declared_parts(l, own->name->bytes, d, out, (int)l->grid.naxes, parts);
    return total == serial->dims[d] ? (int)l->grid.naxes : 0;
}

/* Whether the rank's part of dimension `d` is all of it, since others have nothing. */
static bool others_have_none(const lifter *l, const weft_var *own, size_t d) {
    int list[LIFT_AXES], count = lift_placed_axes(l, own, d, list);
    int64_t parts[LIFT_RANKS], total = count ? lift_declared_parts(l, own->name->bytes, d, list, count, parts) : -1;
    return total == own->dims[d] && parts[0] == total && count && lift_extent(l, UINT32_C(1) << list[count - 1]) > 1;
}

const char *lift_declared(const lifter *l, const weft_var *serial, const weft_var *own, lifted *out) {
    uint32_t taken = 0;
    if (serial->ndim != own->ndim || own->ndim > WEFT_MAX_RANK) return "a rank holds another shape of it";
    for (size_t d = 0; d < own->ndim; d++) {
        int64_t n = own->dims[d], parts[LIFT_RANKS], total = -1;
        bool open = n < 0 && !own->persistable;
        if (n == serial->dims[d] && !open && !others_have_none(l, own, d)) continue;
        int list[LIFT_AXES], count = sharding_axes(l, serial, own, d, list);
        uint32_t axes = 0;
        for (int i = 0; i < count; i++) axes |= UINT32_C(1) << list[i];
        if (open && !axes) continue;
        if (!axes || (axes & taken)) return "a rank holds only a part of it, or another shape";
        taken |= axes;
        if (!open) total = lift_declared_parts(l, serial->name->bytes, d, list, count, parts);
        if (open)
            lift_put_nest(out, (int)d, list, count);
        else if (total != serial->dims[d] || !lift_put_parts(l, (int)d, list, count, parts, out))
            return "a rank holds only a part of it, or another shape";
    }
    return NULL;
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

bool lift_ring_axes(const lifter *l, size_t rank, const weft_op *op, uint32_t *out_axes) {
    const ring *r = program_find_ring(l->programs[rank], op_ring(op));
    uint32_t axes = 0;
    if (!r || ring_index(r, (int64_t)rank) < 0) return false;
    for (int k = 0; k < r->nranks; k++) {
        if (r->ranks[k] < 0 || r->ranks[k] >= (int64_t)l->nranks) return false;
        for (size_t i = 0; i < l->grid.naxes; i++)
            if (l->grid.at[r->ranks[k]][i] != l->grid.at[rank][i]) axes |= UINT32_C(1) << i;
    }
    *out_axes = axes;
    return lift_extent(l, axes) == r->nranks; /* ranks of a ring are distinct */
}

bool lift_ring_in_order(const lifter *l, size_t rank, const weft_op *op, uint32_t axes) {
    const ring *r = program_find_ring(l->programs[rank], op_ring(op));
    for (int k = 0; k < r->nranks; k++)
        if (lift_part(l, (size_t)r->ranks[k], axes) != k) return false;
    return true;
}

/* --- extents ------------------------------------------------------------------------------------------------------ */

void lift_extents(const lifter *l, const lifted *x, size_t ndim, const int64_t *own, int64_t *out) {
    if (ndim) memcpy(out, own, ndim * sizeof *own);
    for (size_t i = 0; i < l->grid.naxes; i++) {
        int d = sharded_dim(x->placed[i]);
        if (d < 0 || (size_t)d >= ndim || out[d] < 0) continue;
        out[d] = has_partition(x->placed[i]) ? lift_partition(l, x->placed[i])->total
                                             : lift_product(out[d], l->grid.extent[i]);
    }
}

static int64_t numel_before(const int64_t *dims, size_t d) {
    int64_t n = 1;
    for (size_t i = 0; i < d; i++) n = n < 0 || dims[i] < 0 ? -1 : lift_product(n, dims[i]);
    return n;
}

/* The dimension of the new extents that begins where `d` does: the same elements lie before it. */
static int dimension_at(size_t d, const int64_t *dims, size_t ndim, const int64_t *to, int64_t before) {
    int found = -1;
    if (d < ndim && to[d] == dims[d] && numel_before(to, d) == before) return (int)d;
    for (size_t i = 0; i < ndim; i++) {
        if (numel_before(to, i) != before) continue;
        if (to[i] != 1) return (int)i;
        if (found < 0) found = (int)i;
    }
    return found;
}

bool lift_reshape(const lifter *l, const lifted *x, size_t ndim, const int64_t *dims, size_t new_ndim,
                  const int64_t *new_dims, lifted *out) {
    *out = *x;
    for (size_t i = 0; i < l->grid.naxes; i++) {
        int d = sharded_dim(x->placed[i]), split = x->placed[i].split;
        if (d < 0) continue;
        if (d == 0 && new_ndim == 0) return false;
        int64_t before = d == 0 ? 1 : dims ? numel_before(dims, (size_t)d) : -1;
        if (before <= 0 || (d && (size_t)d >= ndim)) return false;
        int to = d == 0 && !dims ? 0 : dimension_at((size_t)d, dims, new_ndim, new_dims, before);
        if (to < 0 || (split && (!dims || new_dims[to] != dims[d]))) return false;
        out->placed[i] = sharded_by(to, split);
    }
    for (size_t i = 0; i < l->grid.naxes; i++) { /* dimensions keep their order, so nested parts stay nested */
        for (size_t k = 0; k < l->grid.naxes; k++) {
            if (!is_sharded(x->placed[i]) || !is_sharded(x->placed[k])) continue;
            int from = sharded_dim(x->placed[i]), other = sharded_dim(x->placed[k]);
            int to = sharded_dim(out->placed[i]), to_other = sharded_dim(out->placed[k]);
            if (from == other ? to != to_other : from < other && to >= to_other) return false;
        }
    }
    return true;
}
