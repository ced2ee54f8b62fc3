/* weft/placement.h: process meshes, and how vars and arguments of ops lie on them. */
#ifndef WEFT_PLACEMENT_H
#define WEFT_PLACEMENT_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_MESH_MAX_NDIM = 32 };

/* A row-major array of ranks. */
typedef struct weft_mesh {
    size_t ndim;
    const int64_t *shape;     /* ndim extents of 1 or more */
    const int64_t *ids;       /* the ranks, as many as the extents' product, each once */
    const char *const *names; /* of the axes; NULL: they have none */
} weft_mesh;

/* An entry of a dims_mapping: the mesh axes that shard one axis of a tensor. The first cuts it, the next one each of
 * these parts, and so on. -1: none; one axis: its number; several: what weft_dims_entry gives for them. Equal lists are
 * equal numbers. A list of more than WEFT_DIM_MAX_AXES, or of what is no axis, gives -2, which no placement may have.
 */
enum { WEFT_DIM_MAX_AXES = 10 };
int64_t weft_dims_entry(size_t naxes, const int64_t *axes);
/* Gives at most WEFT_DIM_MAX_AXES axes; returns how many. */
size_t weft_dims_axes(int64_t entry, int64_t *out_axes);

/* How a tensor lies on a mesh. Along a mesh axis it is sharded, or partial (ranks hold addends, or what `reduce` says,
 * of the value), or replicated. */
typedef struct weft_placement {
    weft_mesh mesh;
    size_t ndim;                        /* of the tensor */
    const int64_t *dims_mapping;        /* by axis of the tensor: an entry as above */
    uint32_t partial_axes;              /* bit i: partial over mesh axis i, */
    uint8_t reduce[WEFT_MESH_MAX_NDIM]; /* by mesh axis: with this weft_reduce */
} weft_placement;

/* Meshes that the program names, in order of first use. What is read is borrowed from the program. */
size_t weft_program_nmeshes(const weft_program *program);
bool weft_program_mesh(const weft_program *program, size_t index, weft_mesh *out_mesh);

/* False: none is known. Setting copies what it is given; NULL takes the placement away. Errors: a mesh axis twice, an
 * axis that is not there, another number of axes than the tensor has. */
bool weft_var_placement(const weft_var *var, weft_placement *out_placement);
WEFT_MUST_USE weft_status weft_var_set_placement(weft_var *var, const weft_placement *placement);

/* The mesh that an op runs on, and how it sees one of its arguments, where that is another than the var's. */
bool weft_op_mesh(const weft_op *op, weft_mesh *out_mesh);
WEFT_MUST_USE weft_status weft_op_set_mesh(weft_op *op, const weft_mesh *mesh);
bool weft_op_arg_placement(const weft_op *op, bool output, const weft_var *var, weft_placement *out_placement);
WEFT_MUST_USE weft_status weft_op_set_arg_placement(weft_op *op, bool output, const weft_var *var,
                                                    const weft_placement *placement);

#ifdef __cplusplus
}
#endif
#endif
