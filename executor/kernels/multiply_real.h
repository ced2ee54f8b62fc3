/* multiply_real.h: products of matrices by one name for templates over fp32 and fp64 (executor/kernels/each_real.h):
 * c = beta c + a b, rows lda, ldb, ldc elements apart; ta, tb: the operand lies transposed. */
#ifndef EXECUTOR_KERNELS_MULTIPLY_REAL_H
#define EXECUTOR_KERNELS_MULTIPLY_REAL_H

#include "executor/kernels/layout.h"

static inline void multiply_fp32(const kernel_call *call, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a,
                          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    gemm_f32(call, ta, tb, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
}
static inline void multiply_fp64(const kernel_call *call, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const double *a,
                          int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    (void)call;
    gemm_f64(ta, tb, m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
}

#endif
