/* args.h: what kernels are given: one struct each, by value. Seen by nvcc, and by the host's compiler. */
#ifndef EXECUTOR_DEVICES_CUDA_KERNELS_ARGS_H
#define EXECUTOR_DEVICES_CUDA_KERNELS_ARGS_H

typedef long long cuda_index;

/* unary.cu: out[i] from x[i], and from dy[i] where it is a gradient. */
typedef struct unary_args {
    cuda_index nitems;
    float *out;
    const float *x, *dy;
    float p, q;
} unary_args;

#endif
