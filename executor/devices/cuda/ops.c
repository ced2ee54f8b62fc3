/* ops.c: ops.def as a table by row of ops/ops.def. */
#include "executor/devices/cuda/launch.h"
#include "ops/rows.h"

#define OP(type, launcher) extern const cuda_op launcher;
#include "executor/devices/cuda/ops.def"
#undef OP

static const cuda_op *const table[NROWS] = {
#define OP(type, launcher) [ROW_##type] = &launcher,
#include "executor/devices/cuda/ops.def"
#undef OP
};

const char cuda_no_kernel[] = "no kernel for GPUs";

const cuda_op *cuda_op_find(const op_schema *schema) {
    return schema->host || schema->index < 0 ? NULL : table[schema->index];
}

const char *cuda_op_hosts(int row) {
    return row < 0 || table[row] ? NULL : cuda_no_kernel;
}
