/* gemm.c: matrix products: oneDNN for fp32 where it was found, else packed panels.
 *
 * oneDNN runs on OpenMP. The number of threads is a property of the calling thread there, so every call says what it
 * may use: workers of different ranks do not take each other's cores. */
#include "executor/kernel.h"

#ifdef WEFT_HAVE_DNNL
#include <dnnl.h>
extern void omp_set_num_threads(int nthreads); /* libgomp; its header may belong to another compiler */
#endif

#define REAL double
#define NAME(x) f64_##x
#include "executor/kernels/gemm_plain.h"
#undef REAL
#undef NAME

void gemm_f64(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
              const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    f64_gemm_plain(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

#define REAL float
#define NAME(x) f32_##x
#include "executor/kernels/gemm_plain.h"
#undef REAL
#undef NAME

void gemm_f32(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
              const float *b, int64_t ldb, float beta, float *c, int64_t ldc, int nthreads) {
    if (m == 0 || n == 0) return;
#ifdef WEFT_HAVE_DNNL
    if (k > 0) {
        omp_set_num_threads(nthreads > 0 ? nthreads : 1);
        if (dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) == dnnl_success)
            return;
    }
#else
    (void)nthreads;
#endif
    f32_gemm_plain(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

const char *gemm_library(void) {
#ifdef WEFT_HAVE_DNNL
    return "oneDNN";
#else
    return "plain loops";
#endif
}
