/* gemm.h: fp32 matrix products: which code, in which pieces. */
#ifndef EXECUTOR_KERNELS_MATMUL_GEMM_H
#define EXECUTOR_KERNELS_MATMUL_GEMM_H

#include "executor/kernels/matmul/tile.h"

/* gemm_f32 (kernel.h). */
void gemm_multiply(const kernel_call *call, const gemm *g);

#endif
