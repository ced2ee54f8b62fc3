/* gemm.c: which code multiplies matrices, and on how many threads.
 *
 * With AVX2 or AVX-512 ours (gemm_matrices.c): in a training step operands come from far caches. There oneDNN's
 * products in pieces (below) are up to 30% slower, most of all the gradients', and at best 6% faster. Where rows lie
 * pages apart they take twice the time on an AMD EPYC. Small products take half the time, since oneDNN checks its
 * arguments and chooses a kernel at every call. On other machines large products are oneDNN's where it was found. Which
 * of the two is a rule of the shape, never of a clock: a measurement at every start could fall out differently from run
 * to run and from rank to rank, and with it the last bits.
 *
 * oneDNN is asked for one thread's work at a time. Large products are cut into pieces that depend on the shape alone,
 * whatever the number of threads: oneDNN chooses its blocks, and so its order of addition, by the shape it is given. */
#include "executor/kernels/matmul/gemm.h"
#include "executor/kernels/matmul/gemm_matrices.h"

#if defined(WEFT_HAVE_DNNL) && !defined(__AVX2__)
#define USE_DNNL
#include <dnnl.h>
extern void omp_set_num_threads(int nthreads); /* libgomp; its header may belong to another compiler */
#endif

#define REAL double
#define NAME(x) f64_##x
#include "executor/kernels/matmul/gemm_plain.h"
#undef REAL
#undef NAME

void gemm_f64(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
              const double *b, int64_t ldb, double beta, double *c, int64_t ldc) {
    f64_gemm_plain(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

#ifdef USE_DNNL

/* Multiplications below which ours is faster; from which a product is cut into 2 and more pieces. */
enum { FEW_PRODUCTS = 48 * 1024, MANY_PRODUCTS = 1024 * 1024, MOST_PIECES = 16 };

/* A piece of that many rows multiplies faster than one of columns, though there are more columns. */
enum { ENOUGH_ROWS = 64 };

/* A product of two matrices in pieces. */
typedef struct pieces {
    const gemm *of;
    bool by_rows;      /* pieces are rows of C, else columns */
    int64_t per_piece; /* rows or columns */
} pieces;

static void multiply_pieces(void *arg, int64_t first, int64_t end, int part) {
    const pieces *p = arg;
    const gemm *g = p->of;
    char ta = g->a_transposed ? 'T' : 'N', tb = g->b_transposed ? 'T' : 'N';
    (void)part;
    omp_set_num_threads(1); /* a property of the calling thread */
    for (int64_t i = first; i < end; i++) {
        int64_t at = i * p->per_piece, extent = p->by_rows ? g->m : g->n;
        int64_t length = extent - at < p->per_piece ? extent - at : p->per_piece;
        if (length <= 0) return;
        const float *a = !p->by_rows ? g->a : g->a_transposed ? g->a + at : g->a + at * g->lda;
        const float *b = p->by_rows ? g->b : g->b_transposed ? g->b + at * g->ldb : g->b + at;
        float *c = p->by_rows ? g->c + at * g->ldc : g->c + at;
        dnnl_sgemm(ta, tb, p->by_rows ? length : g->m, p->by_rows ? g->n : length, g->k, g->alpha, a, g->lda, b, g->ldb,
                   g->beta, c, g->ldc);
    }
}

/* Pieces are multiples of oneDNN's register tile: 48 columns, 8 rows. */
static int64_t cut(const gemm *g, pieces *out) {
    int64_t products = g->m * g->n * g->k, npieces = 1;
    while (npieces < MOST_PIECES && products / npieces > 4 * (int64_t)MANY_PRODUCTS * npieces) npieces *= 2;
    *out = (pieces){.of = g, .by_rows = g->m > g->n || g->m >= npieces * ENOUGH_ROWS};
    int64_t extent = out->by_rows ? g->m : g->n, unit = out->by_rows ? 8 : 48;
    out->per_piece = (extent + npieces * unit - 1) / (npieces * unit) * unit;
    return (extent + out->per_piece - 1) / out->per_piece;
}

#endif

/* A product over an empty inner extent. */
static void scale(const gemm *g) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float *c = &g->c[i * g->ldc + j];
            *c = g->beta == 0 ? 0 : g->beta * *c;
        }
}

void gemm_multiply(const kernel_call *call, const gemm *g) {
    if (g->m == 0 || g->n == 0) return;
    if (g->k == 0) {
        scale(g);
        return;
    }
#ifdef USE_DNNL
    if (g->m * g->n >= FEW_PRODUCTS / g->k) {
        pieces p;
        int64_t npieces = cut(g, &p);
        parallel_for(call, npieces, 1, multiply_pieces, &p);
        return;
    }
#endif
    gemm_matrices(call, g);
}

void gemm_f32(const kernel_call *call, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
              int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    gemm g = {.m = m,
              .n = n,
              .k = k,
              .a = a,
              .lda = lda,
              .a_transposed = ta,
              .alpha = alpha,
              .beta = beta,
              .b = b,
              .ldb = ldb,
              .b_transposed = tb,
              .c = c,
              .ldc = ldc};
    gemm_multiply(call, &g);
}

const char *gemm_library(void) {
#ifdef WEFT_HAVE_DNNL
    return "for large products, where there is no AVX2";
#else
    return "packed panels";
#endif
}
