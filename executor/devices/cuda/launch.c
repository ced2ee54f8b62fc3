/* launch.c: kernels of the fatbin put on a stream; the services that the plugin was given. */
#include "executor/devices/cuda/launch.h"

const device_services *services;

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
