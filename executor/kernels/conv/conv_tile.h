/* conv_tile.h: the register tile of convolutions: up to GEMM_ROWS rows times a panel of GEMM_COLUMNS columns. */
#ifndef EXECUTOR_KERNELS_CONV_CONV_TILE_H
#define EXECUTOR_KERNELS_CONV_CONV_TILE_H

#include "executor/kernels/matmul/tile.h"

/* How the left factor lies: rows CONV_ROW_STRIDE apart, rows CONV_SHORT_STRIDE apart, or columns GEMM_STRIP apart. */
typedef enum conv_layout { CONV_ROWS, CONV_SHORT_ROWS, CONV_COLUMNS } conv_layout;
enum { CONV_ROW_STRIDE = GEMM_DEPTH + VEC, CONV_SHORT_STRIDE = 64 + VEC };

/* What the next factor will read from memory, fetched a cache line at a time while this one is multiplied: lines side
 * by side in pieces `step` bytes apart. */
typedef struct conv_ahead {
    const char *at;
    int64_t step, pieces, lines, line;
} conv_ahead;
static inline conv_ahead conv_ahead_of(const float *from, int64_t step, int64_t pieces, int64_t count) {
    int64_t nbytes = (int64_t)sizeof *from;
    return (conv_ahead){.at = (const char *)from, .step = step * nbytes, .pieces = pieces, .lines = (count + 30) / 16};
}

typedef struct conv_tile {
    int64_t count;  /* the inner extent */
    const float *a; /* in its layout */
    const float *b; /* [count][GEMM_COLUMNS] */
    float *c;
    int64_t ldc, columns; /* at most GEMM_COLUMNS */
    bool add;             /* to what is there */
} conv_tile;

/* C (+)= A B with rows from 1 to GEMM_ROWS: one chain of additions an element. */
void conv_tile_multiply(conv_layout layout, int64_t rows, const conv_tile *t, conv_ahead *ahead);

#endif
