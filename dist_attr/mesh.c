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
