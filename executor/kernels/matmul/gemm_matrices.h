/* gemm_matrices.h: fp32 products of matrices in memory. */
#ifndef EXECUTOR_KERNELS_MATMUL_GEMM_MATRICES_H
#define EXECUTOR_KERNELS_MATMUL_GEMM_MATRICES_H

#include "executor/kernels/matmul/tile.h"

/* C = alpha op(A) op(B) + beta C of matrices in memory, on the threads of `call`. The inner extent,
 * not 0, is cut into blocks as even as they go, of at most GEMM_DEPTH; every element is added up in their order,
 * whatever the number of threads. */
void gemm_matrices(const kernel_call *call, const gemm *g);

#endif
