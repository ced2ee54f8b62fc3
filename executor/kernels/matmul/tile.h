/* tile.h: a fp32 matrix product, and the register tile that products and convolutions have. */
#ifndef EXECUTOR_KERNELS_MATMUL_TILE_H
#define EXECUTOR_KERNELS_MATMUL_TILE_H

#include "executor/kernel.h"
#include "executor/kernels/vec.h"

/* Rows and columns of the register tile, and the depth that is packed at once. */
#if defined(__AVX512F__)
enum { GEMM_ROWS = 14 };
#define GEMM_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#else
enum { GEMM_ROWS = 6 };
#define GEMM_EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
enum { GEMM_COLUMNS = 2 * VEC, GEMM_DEPTH = 256 };

typedef struct gemm {
    int64_t m, n, k;
    const float *a; /* [m, k], or [k, m] where a_transposed */
    int64_t lda;
    bool a_transposed;
    const float *b; /* [k, n], or [n, k] where b_transposed */
    int64_t ldb;
    bool b_transposed;
    float alpha, beta;
    float *c;
    int64_t ldc;
    const float *next_a, *next_b; /* operands of a product of this shape that follows; NULL: none is known */
} gemm;

/* How many tiles so many rows or columns take. */
static inline int64_t gemm_strips(int64_t rows) {
    return (rows + GEMM_ROWS - 1) / GEMM_ROWS;
}
static inline int64_t gemm_panels(int64_t columns) {
    return (columns + GEMM_COLUMNS - 1) / GEMM_COLUMNS;
}

/* Columns of packed left factors are this many floats apart. */
enum { GEMM_STRIP = 16 };
/* Where strip s of `rows` rows cut into nstrips begins: as evenly as they go. */
static inline int64_t gemm_strip_start(int64_t rows, int64_t nstrips, int64_t s) {
    return s * (rows / nstrips) + (s < rows % nstrips ? s : rows % nstrips);
}

#endif
