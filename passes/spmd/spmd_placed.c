/* spmd_placed.c: placements: equality, parts, words, and those that programs hold. */
#include "passes/spmd/spmd.h"

#include <stdio.h>

#include "dist_attr/dims.h"

int64_t spmd_extent(const spmd_mesh *m, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < m->axes.naxes; i++)
        if (axes >> i & 1) n *= m->axes.extent[i];
    return n;
}

bool placed_same_dims(const axes_placed *a, const axes_placed *b, int32_t ndim) {
    for (int d = 0; d < ndim; d++) {
        if (a->naxes[d] != b->naxes[d]) return false;
        for (int i = 0; i < a->naxes[d]; i++)
            if (a->axes[d][i] != b->axes[d][i]) return false;
    }
    return true;
}

bool placed_same(const axes_placed *a, const axes_placed *b, int32_t ndim, int naxes) {
    return placed_same_dims(a, b, ndim) && memcmp(a->partial, b->partial, (size_t)naxes) == 0;
}

uint32_t placed_partial(const axes_placed *p, int naxes) {
    uint32_t axes = 0;
    for (int i = 0; i < naxes; i++) axes |= p->partial[i] ? UINT32_C(1) << i : 0;
    return axes;
}

bool placed_is_partial(const axes_placed *p, int naxes) {
    return placed_partial(p, naxes) != 0;
}

int placed_dim_of(const axes_placed *p, int32_t ndim, int axis) {
    for (int d = 0; d < ndim; d++)
        for (int i = 0; i < p->naxes[d]; i++)
            if (p->axes[d][i] == axis) return d;
    return -1;
}

uint32_t placed_dim_axes(const axes_placed *p, int dim) {
    uint32_t axes = 0;
    for (int i = 0; i < p->naxes[dim]; i++) axes |= UINT32_C(1) << p->axes[dim][i];
    return axes;
}

axes_placed placed_whole_sums(const axes_placed *p) {
    axes_placed whole = *p;
    memset(whole.partial, 0, sizeof whole.partial);
    return whole;
}

void placed_shard(axes_placed *p, int dim, int axis) {
    if (p->naxes[dim] < AXES_MESH) p->axes[dim][p->naxes[dim]++] = (uint8_t)axis;
}

void placed_extents(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole, int64_t *out) {
    int64_t offset[WEFT_MAX_RANK];
    axes_part(&m->axes, p, whole->ndim, whole->dims, m->at, offset, out);
    for (int d = 0; d < whole->ndim; d++)
        if (whole->dims[d] < 0) out[d] = -1;
}

void placed_largest(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole, int64_t *out) {
    for (int d = 0; d < whole->ndim; d++) {
        out[d] = whole->dims[d] < 0 ? -1 : whole->dims[d];
        for (int i = 0; i < p->naxes[d] && out[d] > 0; i++) {
            int64_t n = m->axes.extent[p->axes[d][i]];
            out[d] = (out[d] + n - 1) / n;
        }
    }
}

void placed_priced(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole, int64_t *out) {
    placed_largest(m, p, whole, out);
    for (int d = 0; d < whole->ndim; d++) {
        if (out[d] >= 0) continue;
        int64_t n = spmd_extent(m, placed_dim_axes(p, d));
        out[d] = (m->rows + n - 1) / n;
    }
}

int placed_fitting(const spmd_mesh *m, const axes_placed *p, int d, int64_t extent) {
    int n = p->naxes[d];
    while (n && axes_cut(&m->axes, extent, p->axes[d], n) == AXES_CUT_EMPTY) n--;
    return n;
}

int64_t placed_nbytes(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole) {
    int64_t extent[WEFT_MAX_RANK], n = (int64_t)weft_dtype_nbytes((weft_dtype)whole->dtype);
    placed_priced(m, p, whole, extent);
    for (int d = 0; d < whole->ndim; d++) n *= extent[d];
    return n;
}

bool spmd_is_single(const spmd_var *v) {
    for (int d = 0; d < v->whole.ndim; d++)
        if (v->whole.dims[d] != 1) return false;
    return true;
}

void spmd_axis_text(const spmd_mesh *m, int axis, char *out, size_t room) {
    if (m->mesh->names)
        snprintf(out, room, "%s", m->mesh->names[axis]);
    else
        snprintf(out, room, "axis %d", axis);
}

const char *placed_text(const spmd_mesh *m, const axes_placed *p, int32_t ndim, char *out, size_t room) {
    size_t n = (size_t)snprintf(out, room, "[");
    for (int d = 0; d < ndim && n < room; d++) {
        bool is_list = p->naxes[d] > 1;
        n += (size_t)snprintf(out + n, room - n, "%s%s", d ? ", " : "", !p->naxes[d] ? "-" : is_list ? "(" : "");
        for (int i = 0; i < p->naxes[d] && n < room; i++) {
            char axis[40];
            spmd_axis_text(m, p->axes[d][i], axis, sizeof axis);
            n += (size_t)snprintf(out + n, room - n, "%s%s", i ? ", " : "", axis);
        }
        if (is_list && n < room) n += (size_t)snprintf(out + n, room - n, ")");
    }
    if (n < room) n += (size_t)snprintf(out + n, room - n, "]");
    for (int i = 0; i < m->axes.naxes && n < room; i++) {
        char axis[40];
        if (!p->partial[i]) continue;
        spmd_axis_text(m, i, axis, sizeof axis);
        n += (size_t)snprintf(out + n, room - n, ", partial over %s", axis);
    }
    return out;
}

/* Those that an axis of the program's mesh is: itself, or what it is divided into; 0: there is one rank along it. */
static uint32_t own_axes(const spmd_mesh *m, const mesh *of, int axis) {
    if (axis < 0 || axis >= of->ndim) return 0;
    if (of != m->mesh && !mesh_equal(of, m->mesh)) return mesh_divided(m->mesh, of, axis);
    return m->axes.extent[axis] > 1 ? UINT32_C(1) << axis : 0;
}

axes_placed placed_of(const spmd_mesh *m, const placement *p) {
    axes_placed out = {.naxes = {0}};
    for (int d = 0; p && d < p->ndim && d < WEFT_MAX_RANK; d++)
        for (int i = 0; i < dim_naxes(p->dims_mapping[d]); i++) {
            uint32_t axes = own_axes(m, p->mesh, dim_axis(p->dims_mapping[d], i));
            for (int a = 0; a < m->axes.naxes; a++)
                if (axes >> a & 1) placed_shard(&out, d, a);
        }
    for (int i = 0; p && i < p->mesh->ndim; i++) {
        uint32_t axes = p->partial_axes >> i & 1 ? own_axes(m, p->mesh, i) : 0;
        for (int a = 0; a < m->axes.naxes; a++)
            if (axes >> a & 1) out.partial[a] = (uint8_t)(1 + p->partial_reduce[i]);
    }
    return out;
}

/* Layers over again have the same few placements. */
struct spmd_written {
    axes_placed placed;
    placement *made; /* NULL: none yet */
};
enum { WRITTEN = 64 };

weft_status spmd_written_init(spmd_mesh *m, arena *memory) {
    m->written = ARENA_ARRAY(memory, spmd_written, WRITTEN);
    return m->written ? NULL : base_out_of_memory();
}

/* Where it is kept. */
static spmd_written *written_at(const spmd_mesh *m, const axes_placed *p, int32_t ndim) {
    uint32_t h = (uint32_t)ndim;
    for (int d = 0; d < ndim; d++) {
        h = h * 31 + p->naxes[d];
        for (int i = 0; i < p->naxes[d]; i++) h = h * 31 + p->axes[d][i];
    }
    for (int i = 0; i < m->axes.naxes; i++) h = h * 31 + p->partial[i];
    return &m->written[(h ^ h >> 7) % WRITTEN];
}

static weft_status make_placement(const spmd_mesh *m, const axes_placed *p, int32_t ndim, arena *a, placement **out) {
    placement *made = ARENA_NEW(a, placement);
    int64_t *mapping = ARENA_ARRAY(a, int64_t, (size_t)ndim);
    if (!made || !mapping) return base_out_of_memory();
    for (int d = 0; d < ndim; d++) {
        mapping[d] = -1;
        for (int i = 0; i < p->naxes[d]; i++) mapping[d] = dim_add(mapping[d], p->axes[d][i]);
    }
    *made = (placement){.mesh = m->mesh, .ndim = ndim, .dims_mapping = mapping};
    for (int i = 0; i < m->axes.naxes; i++) {
        if (!p->partial[i]) continue;
        made->partial_axes |= UINT32_C(1) << i;
        made->partial_reduce[i] = (uint8_t)(p->partial[i] - 1);
    }
    *out = made;
    return NULL;
}

weft_status placed_write(const spmd_mesh *m, const axes_placed *p, int32_t ndim, weft_var *var) {
    spmd_written *w = written_at(m, p, ndim);
    bool is_there =
        w->made && w->made->mesh == m->mesh && w->made->ndim == ndim && placed_same(&w->placed, p, ndim, m->axes.naxes);
    if (!is_there) {
        TRY(make_placement(m, p, ndim, &var->program->arena, &w->made));
        w->placed = *p;
    }
    var_changed(var);
    var->dist = w->made;
    var->dist_is_null = false;
    return NULL;
}

weft_status placed_declare(const spmd_mesh *m, const axes_placed *p, const kept_shape *whole, const int64_t *extents,
                           weft_var *var) {
    int32_t ndim = whole->ndim;
    int64_t declared[WEFT_MAX_RANK], *dims;
    bool same_rank = (int32_t)var->ndim == ndim; /* Paddle declares what einsum keeps with other ranks */
    for (int d = 0; d < ndim; d++) declared[d] = same_rank && var->dims[d] < 0 ? var->dims[d] : extents[d];
    if (var->ndim == 0 && ndim > 0) var->dtype = whole->dtype; /* what only a gradient reads is left without a type */
    TRY(program_dims(var->program, (size_t)ndim, declared, &dims));
    var->dims = dims;
    var->ndim = (uint32_t)ndim;
    return placed_write(m, p, ndim, var);
}
