/* gemm.h: matrix products by packed panels, for kernels whose operands are matrices only in the mind. */
#ifndef EXECUTOR_KERNELS_GEMM_H
#define EXECUTOR_KERNELS_GEMM_H

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

/* Where a right factor comes from. A matrix in memory: [k, n] at `data`, or [n, k] where transposed. Else `pack` writes
 * its rows [depth, depth + count) of columns [column, column + columns) as panels of GEMM_COLUMNS columns one after
 * another, each `count` rows of GEMM_COLUMNS; zero-filled. It may write a vector too far. */
typedef struct gemm_source {
    void (*pack)(const struct gemm_source *source, int64_t depth, int64_t count, int64_t column, int64_t columns,
                 float *out);
    const void *context;
    const float *data;
    int64_t ld;
    bool transposed;
} gemm_source;

/* `rows` (at most GEMM_COLUMNS) rows of `count` floats, `stride` apart, as columns: [count][GEMM_COLUMNS]. */
void gemm_pack_rows(const float *from, int64_t stride, int64_t rows, int64_t count, float *out);

/* VEC rows, `ld` apart (those from `rows` on are zero and not read), of VEC floats (those from `count` on neither read
 * nor written) as columns: rows of `out`, `step` apart. */
void gemm_transpose(const float *from, int64_t ld, int64_t rows, int64_t count, int64_t step, float *out);

typedef struct gemm {
    int64_t m, n, k;
    const float *a; /* [m, k], or [k, m] where a_transposed */
    int64_t lda;
    bool a_transposed;
    float alpha, beta;
    gemm_source b;
    float *c;
    int64_t ldc;
    const float *next_a, *next_b; /* operands of a product of this shape that follows; NULL: none is known */
} gemm;

/* gemm_f32 (kernel.h). */
void gemm_multiply(const kernel_call *call, const gemm *g);

/* C = alpha op(A) B + beta C, on the threads of `call` (NULL: this one). Every element is added up in the order of the
 * inner extent, in blocks of GEMM_DEPTH, whatever the shape or the number of threads. */
void gemm_run(const kernel_call *call, const gemm *g);
/* The same of two matrices in memory (gemm_matrices.c). The inner extent is cut into blocks as even as they go, of
 * at most GEMM_DEPTH; it is not 0. */
void gemm_matrices(const kernel_call *call, const gemm *g);

/* The register tile alone: C [rows, columns] = A B with rows at most GEMM_ROWS, count at most GEMM_DEPTH, columns at
 * most GEMM_COLUMNS. A lies column by column, GEMM_STRIP floats apart; B is a panel, [count][GEMM_COLUMNS]. */
enum { GEMM_STRIP = 16 };
void gemm_multiply_strip(int64_t rows, int64_t count, const float *a, const float *b, int64_t columns, float *c,
                         int64_t ldc);
/* Where strip s of `rows` rows cut into nstrips begins: as evenly as they go. */
static inline int64_t gemm_strip_start(int64_t rows, int64_t nstrips, int64_t s) {
    return s * (rows / nstrips) + (s < rows % nstrips ? s : rows % nstrips);
}

#endif
