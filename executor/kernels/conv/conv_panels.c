/* conv_panels.c: products whose right factor is the column matrix of a convolution, which is never stored as such (an
 * implicit im2col): y = W P and dW = dy P^T.
 *
 * P comes from a padded copy (conv_copy.c): its elements lie at a window's offset plus a tap's. So a vector of windows
 * for a tap, or of taps for a window, is one load where the offsets lie side by side. It is one gather where they do
 * not. As much of P as stays in the second-level cache is packed. All of the left factor streams by, a strip of
 * GEMM_ROWS rows at a time: with many channels and few windows the filters are what is long, and they are read once.
 *
 * The invariant: an element of the result is one chain of additions over GEMM_DEPTH of the inner extent, and those
 * chains are added in order; so it depends neither on blocks nor on threads. */
#include "executor/kernels/conv/conv.h"
#include "executor/kernels/conv/conv_tile.h"

enum { BLOCK_FLOATS = 320 * 1024, PIECE_PANELS = 8 };

typedef struct block {
    int64_t first, count;
} block;

typedef struct job {
    const conv_product *p;
    block depth, columns; /* of P, packed */
    float *panels;
} job;

/* How much of the inner extent and of the columns is packed at once. */
static void cut_blocks(int64_t n, int64_t k, int64_t *out_depth, int64_t *out_columns) {
    int64_t width = gemm_panels(n) * GEMM_COLUMNS, depth = BLOCK_FLOATS / width / GEMM_DEPTH * GEMM_DEPTH;
    if (depth < GEMM_DEPTH) depth = GEMM_DEPTH;
    if (depth > k) depth = k;
    int64_t columns = BLOCK_FLOATS / depth / GEMM_COLUMNS * GEMM_COLUMNS;
    *out_depth = depth;
    *out_columns = columns < width ? columns : width;
}

int64_t conv_product_count(int64_t n, int64_t k) {
    int64_t depth, columns;
    cut_blocks(n, k, &depth, &columns);
    return depth * columns;
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

static bool side_by_side(const int32_t *offsets, int64_t n) {
    for (int64_t i = 1; i < n; i++)
        if (offsets[i] != offsets[0] + i) return false;
    return true;
}

/* Rows are the inner extent: one side's offsets are a row's, the other's a vector's. */
static void pack_panel(const conv_product *p, block depth, int64_t column, int64_t columns, float *out) {
    const int32_t *rows = p->windows_inside ? p->conv->copy->windows : p->conv->copy->taps;
    const int32_t *lanes = p->windows_inside ? p->conv->copy->taps : p->conv->copy->windows;
    for (int64_t side = 0; side < GEMM_COLUMNS; side += VEC, out += VEC) {
        int64_t n = columns - side < VEC ? columns - side : VEC;
        if (n < 0) n = 0;
        const int32_t *at = lanes + column + side;
        vec_lanes some = vec_first_lanes(n);
        if (n == 0) {
            for (int64_t k = 0; k < depth.count; k++) vec_store(out + k * GEMM_COLUMNS, (vec){0});
        } else if (side_by_side(at, n)) {
            for (int64_t k = 0; k < depth.count; k++)
                vec_store(out + k * GEMM_COLUMNS, vec_load_lanes(p->copy + rows[depth.first + k] + at[0], some));
        } else {
            for (int64_t k = 0; k < depth.count; k++)
                vec_store(out + k * GEMM_COLUMNS,
                          vec_gather_at(p->copy + rows[depth.first + k], at, (uint32_t)((1u << n) - 1)));
        }
    }
}

/* Items are panels of one depth after another. */
static void pack_panels(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    int64_t npanels = gemm_panels(j->columns.count);
    (void)part;
    for (int64_t item = first; item < end; item++) {
        int64_t from = item / npanels * GEMM_DEPTH, panel = item % npanels, left = j->depth.count - from;
        block depth = {j->depth.first + from, left < GEMM_DEPTH ? left : GEMM_DEPTH};
        pack_panel(j->p, depth, j->columns.first + panel * GEMM_COLUMNS, j->columns.count - panel * GEMM_COLUMNS,
                   j->panels + from * npanels * GEMM_COLUMNS + panel * depth.count * GEMM_COLUMNS);
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Rows [row, row + rows) of the left factor times the panels [first, first + count) of the block. */
static void multiply_strip(const job *j, int64_t row, int64_t rows, int64_t first, int64_t count) {
    _Alignas(64) float packed[GEMM_ROWS * CONV_ROW_STRIDE];
    const conv_product *p = j->p;
    int64_t npanels = gemm_panels(j->columns.count);
    for (int64_t from = 0; from < j->depth.count; from += GEMM_DEPTH) {
        int64_t left = j->depth.count - from, depth = left < GEMM_DEPTH ? left : GEMM_DEPTH;
        const float *a = p->a + row * p->lda + j->depth.first + from;
        for (int64_t i = 0; i < rows; i++) vec_copy(packed + i * CONV_ROW_STRIDE, a + i * p->lda, depth);
        conv_ahead ahead = left > depth ? conv_ahead_of(a + depth, p->lda, rows, depth)
                                        : conv_ahead_of(a + rows * p->lda - from, p->lda, rows, GEMM_DEPTH);
        for (int64_t q = first; q < first + count; q++) {
            conv_tile t = {.count = depth,
                           .a = packed,
                           .b = j->panels + (from * npanels + q * depth) * GEMM_COLUMNS,
                           .c = p->c + row * p->ldc + j->columns.first + q * GEMM_COLUMNS,
                           .ldc = p->ldc,
                           .columns = j->columns.count - q * GEMM_COLUMNS,
                           .add = p->add || j->depth.first + from > 0};
            conv_tile_multiply(CONV_ROWS, rows, &t, &ahead);
        }
    }
}

/* Items are strips of rows by pieces of a few panels. */
static void multiply_strips(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    int64_t npanels = gemm_panels(j->columns.count), npieces = (npanels + PIECE_PANELS - 1) / PIECE_PANELS;
    int64_t nstrips = (j->p->m + GEMM_ROWS - 1) / GEMM_ROWS;
    (void)part;
    for (int64_t item = first; item < end; item++) {
        int64_t row = gemm_strip_start(j->p->m, nstrips, item / npieces), panel = item % npieces * PIECE_PANELS;
        int64_t count = npanels - panel < PIECE_PANELS ? npanels - panel : PIECE_PANELS;
        multiply_strip(j, row, gemm_strip_start(j->p->m, nstrips, item / npieces + 1) - row, panel, count);
    }
}

void conv_product_run(const kernel_call *call, const conv_product *p, float *workspace) {
    int64_t most_depth, most_columns, nstrips = (p->m + GEMM_ROWS - 1) / GEMM_ROWS;
    cut_blocks(p->n, p->k, &most_depth, &most_columns);
    for (int64_t column = 0; column < p->n; column += most_columns)
        for (int64_t from = 0; from < p->k; from += most_depth) {
            job j = {.p = p, .depth = {from, most_depth}, .columns = {column, most_columns}, .panels = workspace};
            if (j.depth.count > p->k - from) j.depth.count = p->k - from;
            if (j.columns.count > p->n - column) j.columns.count = p->n - column;
            int64_t npanels = gemm_panels(j.columns.count), npieces = (npanels + PIECE_PANELS - 1) / PIECE_PANELS;
            int64_t nblocks = (j.depth.count + GEMM_DEPTH - 1) / GEMM_DEPTH;
            parallel_for(call, nblocks * npanels, 4, pack_panels, &j);
            parallel_for(call, nstrips * npieces,
                         grain_of_products(GEMM_ROWS * PIECE_PANELS * GEMM_COLUMNS * j.depth.count), multiply_strips,
                         &j);
        }
}
