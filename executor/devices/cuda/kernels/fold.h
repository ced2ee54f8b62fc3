/* fold.h: what the threads of a block have each for themselves becomes one, in an order that does not change. */
#ifndef EXECUTOR_DEVICES_CUDA_KERNELS_FOLD_H
#define EXECUTOR_DEVICES_CUDA_KERNELS_FOLD_H

#include "executor/devices/cuda/kernels/kernel.h"

typedef struct row_shared {
    float each[KERNEL_THREADS], other[KERNEL_THREADS], sixteen[16], sixteen_other[16];
    float top, sum, dot;
} row_shared;

DEVICE float sum_of_sixteen(const float *x) {
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += x[i];
    return sum;
}
DEVICE float max_of_sixteen(const float *x) {
    float top = x[0];
    for (int i = 1; i < 16; i++) top = x[i] > top ? x[i] : top;
    return top;
}
#define FOLD_SUMS                                                                                                      \
    (void)a, (void)row;                                                                                                \
    if (thread < 16) s->sixteen[thread] = sum_of_sixteen(&s->each[16 * thread]);

#endif
