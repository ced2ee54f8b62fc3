/* kernel.h: how kernels are written, so that nvcc makes kernels of them, and the host's C compiler functions with the
 * same results (tests/standin/).
 *
 * A kernel has one argument, a struct of args.h. ITEM_KERNEL computes one of args.nitems items at a time, each by
 * itself. BLOCK_KERNEL computes one of args.nrows rows at a time by a block of threads with shared memory: a list of
 * PHASEs, with a barrier behind each. A phase is a function of the arguments, the shared memory, the row and the
 * thread; what it leaves for the next is in shared memory. The host runs the threads of a phase one after another. */
#ifndef EXECUTOR_DEVICES_CUDA_KERNELS_KERNEL_H
#define EXECUTOR_DEVICES_CUDA_KERNELS_KERNEL_H

#include "executor/devices/cuda/kernels/args.h"

enum { KERNEL_THREADS = 256 }; /* of a block */

#if defined(__CUDACC__)

#define DEVICE static __device__ __forceinline__
#define KERNEL_OF(name, type, body)                                                                                    \
    extern "C" __global__ void __launch_bounds__(KERNEL_THREADS) name(const __grid_constant__ type given) {            \
        const type *a = &given;                                                                                        \
        body                                                                                                           \
    }
#define ITEM_KERNEL(name, type)                                                                                        \
    DEVICE void name##_item(const type *a, cuda_index i);                                                              \
    KERNEL_OF(name, type,                                                                                              \
              for (cuda_index i = (cuda_index)blockIdx.x * KERNEL_THREADS + threadIdx.x; i < a->nitems;                \
                   i += (cuda_index)gridDim.x * KERNEL_THREADS) name##_item(a, i);)                                    \
    DEVICE void name##_item(const type *a, cuda_index i)
#define PHASE(function)                                                                                                \
    function(a, &shared, row, (int)threadIdx.x);                                                                       \
    __syncthreads();
#define BLOCK_KERNEL(name, type, shared_type, phases)                                                                  \
    KERNEL_OF(name, type, __shared__ shared_type shared;                                                               \
              for (cuda_index row = blockIdx.x; row < a->nrows; row += gridDim.x){phases})

#else

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define DEVICE static inline __attribute__((unused))
/* What the stand-in launches: the grid is as large as the items need. */
#define KERNEL_OF(name, type, body)                                                                                    \
    void standin_##name(const void *given);                                                                            \
    void standin_##name(const void *given) {                                                                           \
        const type *a = (const type *)given;                                                                           \
        body                                                                                                           \
    }                                                                                                                  \
    const size_t standin_##name##_nbytes = sizeof(type);
#define ITEM_KERNEL(name, type)                                                                                        \
    DEVICE void name##_item(const type *a, cuda_index i);                                                              \
    KERNEL_OF(name, type, for (cuda_index i = 0; i < a->nitems; i++) name##_item(a, i);)                               \
    DEVICE void name##_item(const type *a, cuda_index i)
#define PHASE(function)                                                                                                \
    for (int thread = 0; thread < KERNEL_THREADS; thread++) function(a, &shared, row, thread);
#define BLOCK_KERNEL(name, type, shared_type, phases)                                                                  \
    KERNEL_OF(name, type, shared_type shared; for (cuda_index row = 0; row < a->nrows; row++){phases})

#endif

/* --- elements of real types --------------------------------------------------------------------------------------- */

DEVICE unsigned bits_of_float(float x) {
    union {
        float real;
        unsigned bits;
    } u;
    u.real = x;
    return u.bits;
}
DEVICE float float_of_bits(unsigned bits) {
    union {
        float real;
        unsigned bits;
    } u;
    u.bits = bits;
    return u.real;
}

DEVICE float float_of_bf16(unsigned short h) {
    return float_of_bits((unsigned)h << 16);
}
/* To the nearest, halves to even; what is no number stays so. */
DEVICE unsigned short bf16_of_float(float x) {
    unsigned u = bits_of_float(x);
    if (x != x) return (unsigned short)(u >> 16 | 0x40);
    return (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#if defined(__CUDACC__)
DEVICE float float_of_fp16(unsigned short h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
DEVICE unsigned short fp16_of_float(float x) {
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#else
DEVICE float float_of_fp16(unsigned short h) {
    unsigned sign = (unsigned)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float x = (float)fraction * 0x1p-24f;
    return sign ? -x : x;
}
DEVICE unsigned short fp16_of_float(float x) {
    unsigned u = bits_of_float(x), sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
    if (size > 0x7f800000) return (unsigned short)(sign | 0x7e00 | (u >> 13 & 1023));
    if (size >= 0x477ff000) return (unsigned short)(sign | 0x7c00);
    /* Below the least normal number a float that is added leaves the fraction in the lowest bits. */
    if (size < 0x38800000) return (unsigned short)(sign | (bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000));
    return (unsigned short)(sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13));
}
#endif

DEVICE int is_real(int type) {
    return type == ELEMENT_FP32 || type == ELEMENT_FP16 || type == ELEMENT_BF16;
}
DEVICE float real_at(const void *in, int type, cuda_index i) {
    switch (type) {
    case ELEMENT_FP16: return float_of_fp16(((const unsigned short *)in)[i]);
    case ELEMENT_BF16: return float_of_bf16(((const unsigned short *)in)[i]);
    default: return ((const float *)in)[i];
    }
}
DEVICE void store_real(void *out, int type, cuda_index i, float x) {
    switch (type) {
    case ELEMENT_FP16: ((unsigned short *)out)[i] = fp16_of_float(x); return;
    case ELEMENT_BF16: ((unsigned short *)out)[i] = bf16_of_float(x); return;
    default: ((float *)out)[i] = x;
    }
}

#endif
