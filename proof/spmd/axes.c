/* axes.c: see axes.h. Without a mesh axes are the rings that no smaller ring is part of. */
#include "proof/spmd/axes.h"

#include <stdio.h>

#include "dist_attr/dims.h"

static bool is_in(const ring *r, int64_t rank) {
    return rank < 0 || ring_index(r, rank) >= 0;
}

/* The mesh of most ranks. */
static const mesh *widest_mesh(const weft_program *p, int64_t rank) {
    const mesh *found = NULL;
    int64_t coordinates[MESH_MAX_NDIM];
    for (size_t i = 0; i < p->nmeshes; i++) {
        const mesh *m = p->meshes[i];
        if (rank >= 0 && !mesh_coordinates(m, rank, coordinates)) continue;
        if (!found || mesh_size(m) > mesh_size(found) || (mesh_size(m) == mesh_size(found) && m->ndim > found->ndim))
            found = m;
    }
    return found && mesh_size(found) > 1 ? found : NULL;
}

static void set_members(axis_grid *g, const ring *r, uint8_t value) {
    for (int n = 0; n < r->nranks; n++)
        if (r->ranks[n] >= 0 && r->ranks[n] < g->nflags) g->set[r->ranks[n]] = value;
}

static bool is_part(const ring *r, const axis_grid *of) {
    for (int n = 0; n < r->nranks; n++)
        if (r->ranks[n] < 0 || r->ranks[n] >= of->nflags || !of->set[r->ranks[n]]) return false;
    return true;
}

static weft_status find_same(axis_grid *g, const program_rings *rings, arena *a) {
    const weft_program *p = g->program;
    g->same = ARENA_ARRAY(a, uint32_t, p->nrings + 1);
    if (!g->same) return base_out_of_memory();
    for (uint32_t i = 0; i < p->nrings; i++)
        while (rings->list_of[g->same[i]] != rings->list_of[i]) g->same[i]++;
    for (uint32_t i = 0; i < p->nrings; i++)
        for (int n = 0; g->same[i] == i && n < p->rings[i].nranks; n++)
            if (p->rings[i].ranks[n] >= g->nflags && p->rings[i].ranks[n] < MAX_RANKS)
                g->nflags = p->rings[i].ranks[n] + 1;
    g->set = ARENA_ARRAY(a, uint8_t, g->nflags + 1);
    return g->set ? NULL : base_out_of_memory();
}

/* Whether a smaller ring of the rank is part of ring `i`, or as large a one before it. */
static bool has_smaller(axis_grid *g, size_t i, int64_t rank) {
    const weft_program *p = g->program;
    const ring *r = &p->rings[i];
    bool found = false, is_set = false;
    for (size_t k = 0; k < p->nrings && !found; k++) {
        const ring *other = &p->rings[k];
        bool may = other->nranks < r->nranks || (k < i && other->nranks == r->nranks);
        if (!may || g->same[k] != k || other->nranks < 2 || !is_in(other, rank)) continue;
        if (!is_set) set_members(g, r, 1);
        is_set = true;
        found = is_part(other, g);
    }
    if (is_set) set_members(g, r, 0);
    return found;
}

/* Without a mesh: rings that no smaller ring is part of. */
static void use_rings(axis_grid *g, int64_t rank) {
    const weft_program *p = g->program;
    for (size_t i = 0; i < p->nrings && g->naxes < MAX_AXES; i++) {
        const ring *r = &p->rings[i];
        if (g->same[i] != i || r->nranks < 2 || !is_in(r, rank)) continue;
        if (!has_smaller(g, i, rank)) g->rings[g->naxes++] = r;
    }
    g->all =
        g->naxes ? (axes)((UINT64_C(1) << g->naxes) - 1) : 1; /* no ring at all: ranks differ, and nothing joins them */
}

static void make_grid(axis_grid *g, int64_t rank) {
    g->mesh = widest_mesh(g->program, rank);
    if (!g->mesh) {
        use_rings(g, rank);
        return;
    }
    g->naxes = g->mesh->ndim;
    for (int i = 0; i < g->naxes; i++)
        if (g->mesh->shape[i] > 1) g->all |= (axes)1 << i;
}

/* The axes along which the ranks of a ring differ, if it has every rank along them. */
static axes axes_of_mesh_ring(const mesh *m, const ring *r) {
    int64_t first[MESH_MAX_NDIM], at[MESH_MAX_NDIM], size = 1;
    axes found = 0;
    if (!mesh_coordinates(m, r->ranks[0], first)) return 0;
    for (int n = 1; n < r->nranks; n++) {
        if (!mesh_coordinates(m, r->ranks[n], at)) return 0;
        for (int i = 0; i < m->ndim; i++)
            if (at[i] != first[i]) found |= (axes)1 << i;
    }
    for (int i = 0; i < m->ndim; i++)
        if (found >> i & 1) size *= m->shape[i];
    return size == r->nranks ? found : 0;
}

axes axes_of_ring(const axis_grid *g, int64_t ring_id) {
    const ring *r = program_find_ring(g->program, ring_id);
    return r ? g->of_ring[r - g->program->rings] : g->all; /* not told: all ranks */
}

/* Of a ring, where axes are rings: those that are part of it. */
static axes axes_within(axis_grid *g, const ring *r) {
    axes found = 0;
    bool is_set = false;
    for (int i = 0; i < g->naxes; i++) {
        if (g->rings[i] != r && !is_set) set_members(g, r, 1), is_set = true;
        if (g->rings[i] == r || is_part(g->rings[i], g)) found |= (axes)1 << i;
    }
    if (is_set) set_members(g, r, 0);
    return found;
}

static weft_status find_axes_of_rings(axis_grid *g, arena *a) {
    const weft_program *p = g->program;
    g->of_ring = ARENA_ARRAY(a, axes, p->nrings + 1);
    if (!g->of_ring) return base_out_of_memory();
    for (size_t k = 0; k < p->nrings; k++) {
        const ring *r = &p->rings[k];
        if (g->same[k] != k)
            g->of_ring[k] = g->of_ring[g->same[k]];
        else if (!g->mesh)
            g->of_ring[k] = axes_within(g, r);
        else if (r->nranks)
            g->of_ring[k] = axes_of_mesh_ring(g->mesh, r);
    }
    return NULL;
}

weft_status axes_find(const weft_program *p, const program_rings *rings, int64_t rank, arena *a, axis_grid *out) {
    *out = (axis_grid){.program = p};
    TRY(find_same(out, rings, a));
    make_grid(out, rank);
    return find_axes_of_rings(out, a);
}

/* A placement on another mesh says nothing of these axes, save by size. */
axes axes_of_shards(const axis_grid *g, const placement *p) {
    axes found = 0;
    if (!p || !g->mesh || !p->mesh) return 0;
    for (int i = 0; i < p->ndim; i++)
        for (int k = 0; k < dim_naxes(p->dims_mapping[i]); k++) {
            int axis = dim_axis(p->dims_mapping[i], k);
            if (axis < 0 || axis >= p->mesh->ndim) continue;
            found |= mesh_equal(p->mesh, g->mesh) ? (axes)1 << axis : g->all;
        }
    return found & g->all;
}

const char *axes_text(const axis_grid *g, axes a, char *out, size_t room) {
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < g->naxes && n < room; i++) {
        if (!(a >> i & 1)) continue;
        const char *axis = g->mesh && g->mesh->names ? g->mesh->names[i] : NULL;
        if (axis)
            n += (size_t)snprintf(out + n, room - n, "%smesh axis %s", n ? ", " : "", axis);
        else if (g->mesh)
            n += (size_t)snprintf(out + n, room - n, "%smesh axis %d", n ? ", " : "", i);
        else
            n += (size_t)snprintf(out + n, room - n, "%sring %lld", n ? ", " : "", (long long)g->rings[i]->id);
    }
    if (!n) snprintf(out, room, "all ranks");
    return out;
}
