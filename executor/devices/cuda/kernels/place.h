/* place.h: where an item of a strided walk lies. */
#ifndef EXECUTOR_DEVICES_CUDA_KERNELS_PLACE_H
#define EXECUTOR_DEVICES_CUDA_KERNELS_PLACE_H

#include "executor/devices/cuda/kernels/kernel.h"

typedef struct strided_at {
    cuda_index out, in[KERNEL_INPUTS];
} strided_at;

DEVICE strided_at place_of(const strided_args *a, cuda_index i) {
    strided_at at = {0, {0, 0, 0}};
    for (int k = a->naxes - 1; k >= 0; k--) {
        cuda_index index = k ? i % a->extent[k] : i;
        i /= a->extent[k];
        at.out += index * a->out_stride[k];
        for (int n = 0; n < KERNEL_INPUTS; n++) at.in[n] += index * a->stride[n][k];
    }
    return at;
}

#endif
