/* host_op.h: an op type that a host registered (weft/op.h): what its row of the op table has beside the schema. */
#ifndef OPS_HOST_OP_H
#define OPS_HOST_OP_H

#include "ops/axes.h"
#include "weft/op.h"

typedef struct host_op {
    weft_op_def def;
    axes_row axes;           /* type NULL: nothing may be split */
    const axes_row *forward; /* of a gradient: the row of the op that it is the gradient of */
} host_op;

/* For kernels, whose arguments lie in the same order: where argument `index` of a slot is; false: there is none. */
static inline bool host_arg_at(const uint32_t *first, size_t nslots, size_t slot_index, size_t index, uint32_t *out) {
    if (slot_index >= nslots || index >= first[slot_index + 1] - first[slot_index]) return false;
    *out = first[slot_index] + (uint32_t)index;
    return true;
}

#endif
