/* aten_index.h: what tensors that index several dimensions together make of a tensor, for inference and kernels. */
#ifndef OPS_ATEN_INDEX_H
#define OPS_ATEN_INDEX_H

#include "ops/ops.h"

typedef struct indexing {
    int32_t dims[WEFT_MAX_RANK]; /* of self, that each index tensor indexes */
    shape common;                /* of the index tensors, broadcast */
    shape result;
    int32_t from[WEFT_MAX_RANK]; /* of each dimension of the result: self's, or -1 - that of `common` */
} indexing;

/* By attr `dims` of `op`. The common dimensions stand where the indexed ones were, or first where these are apart.
 * Returns what is wrong, or NULL. */
const char *op_indexing(const weft_op *op, const shape *self, const shape *indices, size_t count, indexing *out);

#endif
