/* mesh.c: process meshes. */
#include "dist_attr/ranks.h"

int64_t mesh_size(const mesh *m) {
    int64_t size = 1;
    for (int i = 0; i < m->ndim; i++) size *= m->shape[i];
    return size;
}

bool mesh_equal(const mesh *a, const mesh *b) {
    if (a == b) return true;
    if (!a || !b || a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return memcmp(a->ids, b->ids, (size_t)mesh_size(a) * sizeof *a->ids) == 0;
}

/* How many ranks one step along the axis is. */
static int64_t stride_of(const mesh *m, int axis) {
    int64_t n = 1;
    for (int i = axis + 1; i < m->ndim; i++) n *= m->shape[i];
    return n;
}

uint32_t mesh_divided(const mesh *fine, const mesh *coarse, int axis) {
    int64_t low = stride_of(coarse, axis), high = low * coarse->shape[axis];
    uint32_t axes = 0;
    for (int i = 0; i < fine->ndim; i++) {
        int64_t stride = stride_of(fine, i);
        if (fine->shape[i] > 1 && stride >= low && stride < high) axes |= UINT32_C(1) << i;
    }
    return axes;
}

bool mesh_divides(const mesh *fine, const mesh *coarse) {
    int64_t size = mesh_size(coarse);
    if (mesh_size(fine) != size || memcmp(fine->ids, coarse->ids, (size_t)size * sizeof *fine->ids) != 0) return false;
    for (int a = 0; a < coarse->ndim; a++) {
        uint32_t axes = mesh_divided(fine, coarse, a);
        int64_t extent = 1, low = 0;
        for (int i = 0; i < fine->ndim; i++)
            if (axes >> i & 1) extent *= fine->shape[i], low = stride_of(fine, i);
        if (extent != coarse->shape[a] || (axes && low != stride_of(coarse, a))) return false;
    }
    return true;
}

bool mesh_coordinates(const mesh *m, int64_t rank, int64_t *out_coordinates) {
    int64_t size = mesh_size(m), at = 0;
    while (at < size && m->ids[at] != rank) at++;
    if (at == size) return false;
    for (int i = m->ndim - 1; i >= 0; i--) {
        out_coordinates[i] = at % m->shape[i];
        at /= m->shape[i];
    }
    return true;
}

weft_status mesh_check(const mesh *m, const char *place) {
    if (m->ndim < 1 || m->ndim > MESH_MAX_NDIM)
        return weft_status_create(WEFT_INVALID_PROGRAM, place, "mesh: expected 1 to %d dims, found %d", MESH_MAX_NDIM,
                                  m->ndim);
    int64_t size = 1;
    for (int i = 0; i < m->ndim; i++) {
        if (m->shape[i] < 1)
            return weft_status_create(WEFT_INVALID_PROGRAM, place, "mesh: expected extents of 1 or more, found %lld",
                                      (long long)m->shape[i]);
        if (__builtin_mul_overflow(size, m->shape[i], &size) || size > MAX_RANKS)
            return weft_status_create(WEFT_LIMIT, place, "mesh: more ranks than the limit of %d", MAX_RANKS);
    }
    for (int i = 0; m->names && i < m->ndim; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(m->names[i], m->names[j]) == 0)
                return weft_status_create(WEFT_INVALID_PROGRAM, place, "mesh: dim name \"%s\" is given twice",
                                          m->names[i]);
    return ranks_check(m->ids, size, "mesh", place);
}
