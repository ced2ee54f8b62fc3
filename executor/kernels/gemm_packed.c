/* gemm_packed.c: fp32 matrix products by packed panels, of a right factor that is a matrix only in the mind.
 *
 * After Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008): a block of A lies packed in
 * the second-level cache, a panel of B of the width of the register tile in the first, and a tile of C in registers
 * over the depth of the panel. A is packed as it lies: rows stay rows (a fixed stride apart, so that no two share a
 * cache set), columns stay columns; the tile takes single elements of it, so either is as good. Only B has to be
 * transposed, by vector shuffles. Strips of A are cut as evenly as they go, because a tile of few rows is slow.
 *
 * The invariant: an element of C is one chain of additions over the depth of a block, and those blocks are added to C
 * in order. So it does not depend on tiles, on cuts between threads, or on the other elements. */
#include "executor/kernels/gemm.h"

enum {
    ROW_STRIDE = GEMM_DEPTH + VEC,
    COLUMN_STRIDE = GEMM_STRIP,
    BLOCK_ROWS = 16 * GEMM_ROWS,
    BLOCK_COLUMNS = 4 * GEMM_COLUMNS
};

/* --- packing ------------------------------------------------------------------------------------------------------ */

/* A's rows [row, row + rows), at most GEMM_ROWS, in depth [depth, depth + count). */
static void pack_strip(const gemm *g, int64_t row, int64_t rows, int64_t depth, int64_t count, float *out) {
    if (g->a_transposed)
        for (int64_t k = 0; k < count; k++) vec_copy(out + k * COLUMN_STRIDE, g->a + (depth + k) * g->lda + row, rows);
    else
        for (int64_t i = 0; i < rows; i++) {
            const float *from = g->a + (row + i) * g->lda + depth;
            for (int64_t k = 0; k < count; k += 16) __builtin_prefetch(from + 2 * g->lda + k);
            vec_copy(out + i * ROW_STRIDE, from, count);
        }
}

void gemm_transpose(const float *from, int64_t ld, int64_t rows, int64_t count, int64_t step, float *out) {
    vec v[VEC];
    if (rows >= VEC && count >= VEC)
        for (int i = 0; i < VEC; i++) v[i] = vec_load(from + i * ld);
    else
        for (int i = 0; i < VEC; i++)
            v[i] = i < rows ? vec_load_first(from + i * ld, count < VEC ? count : VEC) : (vec){0};
    vec_transpose(v);
    for (int i = 0; i < VEC && i < count; i++) vec_store(out + i * step, v[i]);
}

void gemm_pack_rows(const float *from, int64_t stride, int64_t rows, int64_t count, float *out) {
    for (int64_t k = 0; k < count; k += VEC)
        for (int64_t i = 0; i < GEMM_COLUMNS; i += VEC)
            gemm_transpose(from + i * stride + k, stride, rows - i, count - k, GEMM_COLUMNS,
                           out + k * GEMM_COLUMNS + i);
}

/* --- the register tile -------------------------------------------------------------------------------------------- */

typedef struct tile_target {
    float *c;
    int64_t ldc, columns;
    float alpha, beta; /* beta is for the first block of the depth; 1 after it */
} tile_target;

static inline __attribute__((always_inline)) void store_vec(const tile_target *t, float *c, vec sum, int64_t n) {
    if (n <= 0) return;
    sum *= t->alpha;
    if (t->beta != 0) sum += t->beta * (n >= VEC ? vec_load(c) : vec_load_first(c, n));
    if (n >= VEC)
        vec_store(c, sum);
    else
        vec_store_first(c, sum, n);
}

/* `rows` and `width`, vectors across, are constants where this is inlined, so that `sum` lies in registers. */
static inline __attribute__((always_inline)) void tile(int rows, int width, bool transposed, int64_t count,
                                                       const float *a, const float *b, const tile_target *t) {
    vec sum[GEMM_ROWS][2] = {{{0}}};
    for (int i = 0; i < rows; i++) __builtin_prefetch(t->c + i * t->ldc, 1);
    if (width > 1)
        for (int i = 0; i < rows; i++) __builtin_prefetch(t->c + i * t->ldc + VEC, 1);
    int row_step = transposed ? 1 : ROW_STRIDE, step = transposed ? COLUMN_STRIDE : 1;
    for (int64_t k = 0; k < count; k++, a += step, b += GEMM_COLUMNS) {
        vec left = vec_load(b), right = width > 1 ? vec_load(b + VEC) : left;
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vec x = vec_all(a[i * row_step]);
            sum[i][0] = vec_fma(x, left, sum[i][0]);
            if (width > 1) sum[i][1] = vec_fma(x, right, sum[i][1]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        store_vec(t, t->c + i * t->ldc, sum[i][0], t->columns);
        if (width > 1) store_vec(t, t->c + i * t->ldc + VEC, sum[i][1], t->columns - VEC);
    }
}

typedef void (*tile_fn)(int64_t count, const float *a, const float *b, const tile_target *t);

#define DEFINE_TILE(rows)                                                                                              \
    static void tile_##rows(int64_t n, const float *a, const float *b, const tile_target *t) {                         \
        tile(rows, 2, false, n, a, b, t);                                                                              \
    }                                                                                                                  \
    static void tile_##rows##_narrow(int64_t n, const float *a, const float *b, const tile_target *t) {                \
        tile(rows, 1, false, n, a, b, t);                                                                              \
    }                                                                                                                  \
    static void tile_##rows##_transposed(int64_t n, const float *a, const float *b, const tile_target *t) {            \
        tile(rows, 2, true, n, a, b, t);                                                                               \
    }                                                                                                                  \
    static void tile_##rows##_transposed_narrow(int64_t n, const float *a, const float *b, const tile_target *t) {     \
        tile(rows, 1, true, n, a, b, t);                                                                               \
    }
#define TILE_ROW(rows)                                                                                                 \
    {                                                                                                                  \
        {tile_##rows##_narrow, tile_##rows}, {                                                                         \
            tile_##rows##_transposed_narrow, tile_##rows##_transposed                                                  \
        }                                                                                                              \
    }
GEMM_EACH_ROWS(DEFINE_TILE)
#define TILE_ENTRY(rows) TILE_ROW(rows),
/* By rows - 1, whether A is transposed, vectors across - 1. */
static const tile_fn tiles[GEMM_ROWS][2][2] = {GEMM_EACH_ROWS(TILE_ENTRY)};

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* A rectangle of C, for one thread. */
typedef struct region {
    int64_t row, rows, column, columns;
} region;

enum {
    STRIP_SIZE = GEMM_ROWS * ROW_STRIDE > GEMM_DEPTH *COLUMN_STRIDE ? GEMM_ROWS *ROW_STRIDE : GEMM_DEPTH *COLUMN_STRIDE
};

/* A block of A times one panel. */
static void multiply_panel(const gemm *g, int64_t row, int64_t rows, int64_t column, int64_t columns, int64_t depth,
                           int64_t count, const float *packed_a, const float *panel) {
    int64_t nstrips = (rows + GEMM_ROWS - 1) / GEMM_ROWS;
    tile_target t = {.ldc = g->ldc, .columns = columns, .alpha = g->alpha, .beta = depth ? 1 : g->beta};
    if (columns > GEMM_COLUMNS) t.columns = GEMM_COLUMNS;
    for (int64_t s = 0; s < nstrips; s++) {
        int64_t at = gemm_strip_start(rows, nstrips, s), end = gemm_strip_start(rows, nstrips, s + 1);
        t.c = g->c + (row + at) * g->ldc + column;
        tiles[end - at - 1][g->a_transposed][t.columns > VEC](count, packed_a + s * STRIP_SIZE, panel, &t);
    }
}

/* One block of A, at most BLOCK_ROWS rows in depth [depth, depth + count), times all panels of the region. */
static void multiply_block(const gemm *g, const region *r, int64_t row, int64_t rows, int64_t depth, int64_t count) {
    _Alignas(64) float packed_a[(BLOCK_ROWS / GEMM_ROWS + 1) * STRIP_SIZE];
    _Alignas(64) float packed_b[GEMM_DEPTH * BLOCK_COLUMNS + VEC];
    int64_t nstrips = (rows + GEMM_ROWS - 1) / GEMM_ROWS;
    for (int64_t s = 0; s < nstrips; s++) {
        int64_t at = gemm_strip_start(rows, nstrips, s), end = gemm_strip_start(rows, nstrips, s + 1);
        pack_strip(g, row + at, end - at, depth, count, packed_a + s * STRIP_SIZE);
    }
    for (int64_t column = r->column, end = column + r->columns; column < end; column += BLOCK_COLUMNS) {
        int64_t columns = end - column < BLOCK_COLUMNS ? end - column : BLOCK_COLUMNS;
        g->b.pack(&g->b, depth, count, column, columns, packed_b);
        for (int64_t j = 0; j < columns; j += GEMM_COLUMNS)
            multiply_panel(g, row, rows, column + j, columns - j, depth, count, packed_a, packed_b + j * count);
    }
}

static void multiply_region(const gemm *g, const region *r) {
    int64_t nblocks = (r->rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (int64_t depth = 0; depth < g->k; depth += GEMM_DEPTH) {
        int64_t count = g->k - depth < GEMM_DEPTH ? g->k - depth : GEMM_DEPTH;
        for (int64_t b = 0; b < nblocks; b++) {
            int64_t at = gemm_strip_start(r->rows, nblocks, b), end = gemm_strip_start(r->rows, nblocks, b + 1);
            multiply_block(g, r, r->row + at, end - at, depth, count);
        }
    }
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static void multiply_rows(void *arg, int64_t first, int64_t end, int part) {
    const gemm *g = arg;
    (void)part;
    multiply_region(g, &(region){first, end - first, 0, g->n});
}

/* Items are panels. */
static void multiply_columns(void *arg, int64_t first, int64_t end, int part) {
    const gemm *g = arg;
    (void)part;
    int64_t column = first * GEMM_COLUMNS, last = end * GEMM_COLUMNS < g->n ? end * GEMM_COLUMNS : g->n;
    multiply_region(g, &(region){0, g->m, column, last - column});
}

static void scale_c(const gemm *g) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float *c = &g->c[i * g->ldc + j];
            *c = g->beta == 0 ? 0 : g->beta * *c;
        }
}

void gemm_run(const kernel_call *call, const gemm *g) {
    if (g->m < 1 || g->n < 1) return;
    if (g->k < 1) {
        scale_c(g);
        return;
    }
    gemm copy = *g;
    int64_t npanels = (g->n + GEMM_COLUMNS - 1) / GEMM_COLUMNS;
    if (g->m >= g->n && g->m >= 2 * GEMM_ROWS)
        parallel_for(call, g->m, grain_of_products(g->n * g->k), multiply_rows, &copy);
    else
        parallel_for(call, npanels, grain_of_products(g->m * g->k * GEMM_COLUMNS), multiply_columns, &copy);
}

void gemm_multiply_strip(int64_t rows, int64_t count, const float *a, const float *b, int64_t columns, float *c,
                         int64_t ldc) {
    tile_target t = {.c = c, .ldc = ldc, .columns = columns, .alpha = 1};
    tiles[rows - 1][true][columns > VEC](count, a, b, &t);
}
