/* kernel.h: how kernels are written, so that nvcc makes kernels of them, and the host's C compiler functions with the
 * same results (tests/standin/).
 *
 * A kernel has one argument, a struct of args.h. ITEM_KERNEL computes one of args.nitems items at a time, each by
 * itself. BLOCK_KERNEL computes one of args.nrows rows at a time by a block of threads with shared memory: a list of
 * PHASEs, with a barrier behind each. A phase is a function of the arguments, the shared memory, the row and the thread;
 * what it leaves for the next is in shared memory. The host runs the threads of a phase one after another. */
#ifndef EXECUTOR_DEVICES_CUDA_KERNELS_KERNEL_H
#define EXECUTOR_DEVICES_CUDA_KERNELS_KERNEL_H

#include "executor/devices/cuda/kernels/args.h"

enum { KERNEL_THREADS = 256 }; /* of a block */

#if defined(__CUDACC__)

#define DEVICE static __device__ __forceinline__
#define KERNEL_OF(name, type, body) \
    extern "C" __global__ void __launch_bounds__(KERNEL_THREADS) name(const __grid_constant__ type given) { \
        const type *a = &given; \
        body \
    }
#define ITEM_KERNEL(name, type) \
    DEVICE void name##_item(const type *a, cuda_index i); \
    KERNEL_OF(name, type, for (cuda_index i = (cuda_index)blockIdx.x * KERNEL_THREADS + threadIdx.x; i < a->nitems; \
                               i += (cuda_index)gridDim.x * KERNEL_THREADS) name##_item(a, i);) \
    DEVICE void name##_item(const type *a, cuda_index i)
#define PHASE(function) \
    function(a, &shared, row, (int)threadIdx.x); \
    __syncthreads();
#define BLOCK_KERNEL(name, type, shared_type, phases) \
    KERNEL_OF(name, type, __shared__ shared_type shared; \
              for (cuda_index row = blockIdx.x; row < a->nrows; row += gridDim.x){phases})

#else

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define DEVICE static inline __attribute__((unused))
/* What the stand-in launches: the grid is as large as the items need. */
#define KERNEL_OF(name, type, body) \
    void standin_##name(const void *given); \
    void standin_##name(const void *given) { \
        const type *a = (const type *)given; \
        body \
    } \
    const size_t standin_##name##_nbytes = sizeof(type);
#define ITEM_KERNEL(name, type) \
    DEVICE void name##_item(const type *a, cuda_index i); \
    KERNEL_OF(name, type, for (cuda_index i = 0; i < a->nitems; i++) name##_item(a, i);) \
    DEVICE void name##_item(const type *a, cuda_index i)
#define PHASE(function) \
    for (int thread = 0; thread < KERNEL_THREADS; thread++) function(a, &shared, row, thread);
#define BLOCK_KERNEL(name, type, shared_type, phases) \
    KERNEL_OF(name, type, shared_type shared; for (cuda_index row = 0; row < a->nrows; row++){phases})

#endif
#endif
