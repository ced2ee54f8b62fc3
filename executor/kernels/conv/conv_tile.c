/* conv_tile.c: the register tile of convolutions: one chain of additions over the inner extent for
 * each element; and while it multiplies, it asks for memory that will be packed next: filters of many channels come
 * from memory once in a step, and waiting for them would take longer than multiplying them. */
#include "executor/kernels/conv/conv_tile.h"

static inline __attribute__((always_inline)) void store_vec(const conv_tile *t, float *c, vec sum, int64_t n) {
    if (t->add) sum += n >= VEC ? vec_load(c) : vec_load_first(c, n);
    if (n >= VEC)
        vec_store(c, sum);
    else
        vec_store_first(c, sum, n);
}

/* The next line of what lies ahead; at its end the last one again. */
static inline __attribute__((always_inline)) void fetch_ahead(conv_ahead *ahead) {
    __builtin_prefetch(ahead->at + ahead->line * 64, 0, 2);
    if (++ahead->line < ahead->lines) return;
    ahead->line = 0;
    if (ahead->pieces > 1) ahead->at += ahead->step;
    ahead->pieces--;
}

/* `rows`, `width` (vectors across), `row_step` and `step` are constants where this is inlined, so that `sum` lies in
 * registers. */
static inline __attribute__((always_inline)) void tile(int rows, int width, int row_step, int step, const conv_tile *t,
                                                       conv_ahead *at) {
    vec sum[GEMM_ROWS][2] = {{{0}}};
    const float *a = t->a, *b = t->b;
    conv_ahead ahead = *at;
    for (int i = 0; i < rows; i++) __builtin_prefetch(t->c + i * t->ldc, 1);
    if (width > 1)
        for (int i = 0; i < rows; i++) __builtin_prefetch(t->c + i * t->ldc + VEC, 1);
    for (int64_t k = 0; k < t->count; k++, a += step, b += GEMM_COLUMNS) {
        vec left = vec_load(b), right = width > 1 ? vec_load(b + VEC) : left;
        fetch_ahead(&ahead);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vec x = vec_all(a[i * row_step]);
            sum[i][0] = vec_fma(x, left, sum[i][0]);
            if (width > 1) sum[i][1] = vec_fma(x, right, sum[i][1]);
        }
    }
    *at = ahead;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        store_vec(t, t->c + i * t->ldc, sum[i][0], t->columns);
        if (width > 1) store_vec(t, t->c + i * t->ldc + VEC, sum[i][1], t->columns - VEC);
    }
}

typedef void (*tile_fn)(const conv_tile *t, conv_ahead *ahead);

#define DEFINE_TILE(rows, suffix, width, row_step, step)                                                               \
    static void tile_##rows##suffix(const conv_tile *t, conv_ahead *ahead) {                                           \
        tile(rows, width, row_step, step, t, ahead);                                                                   \
    }
#define DEFINE_TILES(rows)                                                                                             \
    DEFINE_TILE(rows, _rows, 2, CONV_ROW_STRIDE, 1)                                                                    \
    DEFINE_TILE(rows, _rows_narrow, 1, CONV_ROW_STRIDE, 1)                                                             \
    DEFINE_TILE(rows, _short, 2, CONV_SHORT_STRIDE, 1)                                                                 \
    DEFINE_TILE(rows, _short_narrow, 1, CONV_SHORT_STRIDE, 1)                                                          \
    DEFINE_TILE(rows, _columns, 2, 1, GEMM_STRIP)                                                                      \
    DEFINE_TILE(rows, _columns_narrow, 1, 1, GEMM_STRIP)
GEMM_EACH_ROWS(DEFINE_TILES)
#define TILE_ROW(rows)                                                                                                 \
    {{tile_##rows##_rows_narrow, tile_##rows##_rows},                                                                  \
     {tile_##rows##_short_narrow, tile_##rows##_short},                                                                \
     {tile_##rows##_columns_narrow, tile_##rows##_columns}},
/* By rows - 1, layout, vectors across - 1. */
static const tile_fn tiles[GEMM_ROWS][3][2] = {GEMM_EACH_ROWS(TILE_ROW)};

void conv_tile_multiply(conv_layout layout, int64_t rows, const conv_tile *t, conv_ahead *ahead) {
    tiles[rows - 1][layout][t->columns > VEC](t, ahead);
}
