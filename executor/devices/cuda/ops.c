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

weft_status cuda_start(const cuda_launch *l, cuda_kernel_id id, int64_t nblocks, const void *args) {
    enum { MOST_BLOCKS = 65536 }; /* kernels go on with the next row, or item, of their block */
    if (nblocks <= 0) return NULL;
    dim3 grid = {(unsigned)(nblocks < MOST_BLOCKS ? nblocks : MOST_BLOCKS), 1, 1}, block = {CUDA_THREADS, 1, 1};
    void *list[] = {(void *)(uintptr_t)args};
    CUDA_TRY(LaunchKernel, (const void *)l->device->kernels[id], grid, block, list, 0, l->stream);
    return NULL;
}

weft_status cuda_start_items(const cuda_launch *l, cuda_kernel_id id, int64_t nitems, const void *args) {
    return cuda_start(l, id, (nitems + CUDA_THREADS - 1) / CUDA_THREADS, args);
}
