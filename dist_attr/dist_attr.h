/* dist_attr.h: where values live: process meshes, placements of a tensor on a mesh, rings. Knows nothing of programs.
 *
 * Source: phi/core/distributed/auto_parallel/dist_attr.*, process_mesh.* (facts in the design's references). */
#ifndef DIST_ATTR_DIST_ATTR_H
#define DIST_ATTR_DIST_ATTR_H

#include "base/base.h"
#include "weft/types.h"

enum {
    MAX_RANKS = 1 << 18, /* ranks are numbered below this */
    MESH_MAX_NDIM = 32   /* bits of placement.partial_axes */
};

/* A row-major array of ranks. Equality ignores the names of its dims. */
typedef struct mesh {
    int ndim;
    const int64_t *shape;     /* ndim extents, each >= 1 */
    const int64_t *ids;       /* the ranks, row major, without duplicates */
    const char *const *names; /* ndim names; NULL if none were given */
} mesh;

/* How one tensor lies on a mesh: dims_mapping[i] says which mesh axes shard tensor axis i (dims.h). A partial axis
 * holds values still to be reduced over it. */
typedef struct placement {
    const mesh *mesh; /* NULL: no placement known */
    int ndim;
    const int64_t *dims_mapping;
    uint32_t partial_axes; /* bit i: partial over mesh axis i */
    uint8_t partial_reduce[32];
    int64_t batch_dim;
    int64_t chunk_id;
    const uint8_t *dynamic_dims; /* ndim flags or NULL; 1: parts of the axis may differ by one */
} placement;

/* An ordered list of ranks that communicate together. */
typedef struct ring {
    int64_t id;
    int nranks;
    const int64_t *ranks;
    const char *type; /* "p2p" or NULL */
} ring;

int64_t mesh_size(const mesh *m);
bool mesh_equal(const mesh *a, const mesh *b);
/* Whether `fine` has the ranks of `coarse` in the same order and divides its axes: each is one axis of `fine`, or
 * several that follow one another. */
bool mesh_divides(const mesh *fine, const mesh *coarse);
/* Those of one axis (bits), the major one first; 0: of an axis of extent 1. */
uint32_t mesh_divided(const mesh *fine, const mesh *coarse, int axis);
/* The coordinates (m->ndim of them) of `rank`; false if it is not in the mesh. */
bool mesh_coordinates(const mesh *m, int64_t rank, int64_t *out_coordinates);
/* Shape, ids and names are consistent: expected and found, at `place`. */
WEFT_MUST_USE weft_status mesh_check(const mesh *m, const char *place);

/* Axes of entries are below mesh ndim, none used twice, none both sharded and partial; one entry per tensor axis where
 * tensor_ndim >= 0. */
WEFT_MUST_USE weft_status placement_check(const placement *p, int tensor_ndim, const char *place);
/* Whether any axis is sharded over an extent greater than 1. */
bool placement_is_sharded(const placement *p);
/* The part of a whole tensor of dims `whole` that `rank` holds: offset and extent per axis. Parts are of ceil(whole /
 * ranks), mesh axis by mesh axis; the last are shorter, or empty. Along a dynamic axis they are as equal as can be:
 * the first are one longer. Error if the rank is not in the mesh. A NULL or meshless placement gives the whole. */
WEFT_MUST_USE weft_status placement_slice(const placement *p, int ndim, const int64_t *whole, int64_t rank,
                                          const char *place, int64_t *out_offset, int64_t *out_extent);
/* Error where parts of an axis differ; along a dynamic one, where some are empty. */
WEFT_MUST_USE weft_status placement_check_even(const placement *p, int ndim, const int64_t *whole, int axis,
                                               const char *place);
/* The whole dims of a tensor whose local dims are `local`, where all parts are equal. */
WEFT_MUST_USE weft_status placement_whole(const placement *p, int ndim, const int64_t *local, const char *place,
                                          int64_t *out_whole);

/* Index of `rank` in the ring, or -1. */
int ring_index(const ring *r, int64_t rank);
bool ring_equal(const ring *a, const ring *b);
WEFT_MUST_USE weft_status ring_check(const ring *r, const char *place);

#endif
