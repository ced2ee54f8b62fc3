/* matmul.h: states of matrix products and of their gradients, for what joins them with their neighbours (epilogue.c). A
 * product's is a blas_product. */
#ifndef EXECUTOR_DEVICES_CUDA_MATMUL_H
#define EXECUTOR_DEVICES_CUDA_MATMUL_H

#include "executor/devices/cuda/blas.h"

/* Slots of a gradient's arguments; its results are those of X and Y. */
enum { MATMUL_X, MATMUL_Y, MATMUL_DOUT };

/* Which argument is the first factor, and which the second. */
typedef struct matmul_gradient {
    blas_product product;
    int first, second;
} matmul_gradient;

typedef struct matmul_gradients {
    matmul_gradient of[2]; /* of X, of Y; rows 0: not asked for */
} matmul_gradients;

#endif
