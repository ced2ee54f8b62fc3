/* weft/tensor.h: named tensors: feeds, parameters, results. */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H

#include <stdbool.h>

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A dense row-major tensor. `data` belongs to the set that holds it, or is what weft_tensors_borrow was given. */
typedef struct weft_tensor {
    const char *name;
    weft_dtype dtype;
    size_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    void *data;
    size_t nbytes;
} weft_tensor;

/* An ordered set of tensors by name. */
typedef struct weft_tensors weft_tensors;

WEFT_MUST_USE weft_status weft_tensors_create(weft_context *context, weft_tensors **out_tensors);
void weft_tensors_destroy(weft_tensors *tensors);
size_t weft_tensors_count(const weft_tensors *tensors);
const weft_tensor *weft_tensors_at(const weft_tensors *tensors, size_t index);
const weft_tensor *weft_tensors_find(const weft_tensors *tensors, const char *name); /* O(1); NULL if absent */
/* Adds a tensor with zeroed data, replacing one of that name. The result is borrowed until the next add. */
WEFT_MUST_USE weft_status weft_tensors_add(weft_tensors *tensors, const char *name, weft_dtype dtype, size_t ndim,
                                           const int64_t *dims, weft_tensor **out_tensor);
/* Adds a tensor whose data stays the caller's, replacing one of that name: nothing is copied. The data, of as many
 * bytes as dtype and extents say and aligned for its elements, must outlive the set. The library only reads it. */
WEFT_MUST_USE weft_status weft_tensors_borrow(weft_tensors *tensors, const char *name, weft_dtype dtype, size_t ndim,
                                              const int64_t *dims, const void *data);

/* Reads .npz (a tensor per member), .npy (one tensor named by the file's stem) or, for a program's persistable vars in
 * order of name, .pdiparams. `program` is needed for .pdiparams only. An .npz stores bf16 as uint16 bits. They
 * arrive as WEFT_BF16 only where `program` has a bf16 var of that name. */
WEFT_MUST_USE weft_status weft_tensors_load(weft_context *context, const char *path, const weft_program *program,
                                            weft_tensors **out_tensors);
/* A file of which only some is needed, in two steps. The first reads names, types and extents. Of tensors of up to 16
 * KiB, and of arrays in column order, it reads the elements too. Memory of the others is there, but holds nothing, and
 * costs none before it is filled. A pipe is read whole. */
WEFT_MUST_USE weft_status weft_tensors_describe(weft_context *context, const char *path, const weft_program *program,
                                                weft_tensors **out_tensors);
/* The second reads elements from the same file. `parts` names boxes of a tensor that are needed, one after another:
 * box `index`, from 0 on, by its offsets and extents along all axes. False: there are no more. Bytes between two rows
 * of a box are read where they are few, 2 KiB at most. Compressed members of an archive are read from their beginning.
 */
typedef bool (*weft_tensor_part_fn)(void *user, const weft_tensor *tensor, size_t index, int64_t *offset,
                                    int64_t *extent);
WEFT_MUST_USE weft_status weft_tensors_fill(weft_tensors *tensors, const char *path, weft_tensor_part_fn parts,
                                            void *user);
/* Writes the same forms; nothing is half written. */
WEFT_MUST_USE weft_status weft_tensors_save(const weft_tensors *tensors, const char *path);

#ifdef __cplusplus
}
#endif
#endif
