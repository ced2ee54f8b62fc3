/* spmd_permute.c: placements under which ranks have the same parts in another order.
 *
 * Where lists of axes cut each dimension into as many equal parts, each part is one rank's before and behind. So it is
 * where they cut rows into parts that differ, but are the same ones. Each rank then has one to send its part to:
 * itself, where it keeps that part. Axes that both lists have at their beginning or at their end say nothing of it.
 * Where an axis shards the value before or behind alone, ranks hold copies: nothing known of an exchange says that
 * these stay equal. */
#include "passes/spmd/spmd.h"

/* Axes of one dimension but for those at the beginning and at the end of both. */
static uint32_t differing_axes(const axes_placed *from, const axes_placed *to, int d) {
    int begin = 0, n = from->naxes[d], nto = to->naxes[d];
    uint32_t axes = 0;
    while (begin < n && begin < nto && from->axes[d][begin] == to->axes[d][begin]) begin++;
    while (n > begin && nto > begin && from->axes[d][n - 1] == to->axes[d][nto - 1]) n--, nto--;
    for (int i = begin; i < n; i++) axes |= UINT32_C(1) << from->axes[d][i];
    for (int i = begin; i < nto; i++) axes |= UINT32_C(1) << to->axes[d][i];
    return axes;
}

/* Whether both lists cut rows into parts of the same extents, which may differ: axis by axis they are of one size. */
static bool cut_alike(const spmd_mesh *m, const axes_placed *from, const axes_placed *to) {
    if (from->naxes[0] != to->naxes[0]) return false;
    for (int i = 0; i < from->naxes[0]; i++)
        if (m->axes.extent[from->axes[0][i]] != m->axes.extent[to->axes[0][i]]) return false;
    return true;
}

uint32_t spmd_permuted(const spmd_mesh *m, const kept_shape *whole, const axes_placed *from, const axes_placed *to) {
    uint32_t axes = 0, had = 0, has = 0;
    if (memcmp(from->partial, to->partial, (size_t)m->axes.naxes) != 0) return 0;
    for (int d = 0; d < whole->ndim; d++) {
        uint32_t differing = differing_axes(from, to, d);
        int64_t extent = whole->dims[d], n = spmd_extent(m, placed_dim_axes(from, d));
        if (d == 0 && extent < 0) return 0; /* rows are counted */
        if (!differing) continue;
        if (n != spmd_extent(m, placed_dim_axes(to, d)) || extent < 0) return 0;
        if (extent % n && (d || !cut_alike(m, from, to))) return 0; /* a collective knows parts of rows alone */
        axes |= differing;
    }
    for (int d = 0; d < whole->ndim; d++) had |= placed_dim_axes(from, d), has |= placed_dim_axes(to, d);
    return axes & ~(had & has) ? 0 : axes;
}

/* The part that a member has: one number of all dimensions. Of other axes than those of the ring all have the same. */
static int64_t part_of_member(const spmd_mesh *m, int32_t ndim, const axes_placed *p, uint32_t axes, int64_t member) {
    int64_t at[AXES_MESH] = {0}, part = 0;
    for (int i = m->axes.naxes; i-- > 0;) {
        if (!(axes >> i & 1)) continue;
        at[i] = member % m->axes.extent[i];
        member /= m->axes.extent[i];
    }
    for (int d = 0; d < ndim; d++)
        for (int k = 0; k < p->naxes[d]; k++) {
            int axis = p->axes[d][k];
            part = part * m->axes.extent[axis] + at[axis];
        }
    return part;
}

weft_status spmd_permute_sources(const spmd_mesh *m, int32_t ndim, const axes_placed *from, const axes_placed *to,
                                 uint32_t axes, arena *memory, int64_t *out) {
    int64_t n = spmd_extent(m, axes), *have = ARENA_ARRAY(memory, int64_t, n);
    if (!have) return base_out_of_memory();
    for (int64_t i = 0; i < n; i++) have[i] = part_of_member(m, ndim, from, axes, i);
    for (int64_t i = 0; i < n; i++) {
        int64_t need = part_of_member(m, ndim, to, axes, i);
        for (out[i] = 0; have[out[i]] != need;) out[i]++;
    }
    return NULL;
}
