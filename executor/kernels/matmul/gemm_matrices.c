/* gemm_matrices.c: fp32 products of matrices that lie in memory.
 *
 * After Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008). In a training step operands
 * are not in the cache when a product begins. So nothing is packed in a pass of its own that can be packed on the way.
 * While a tile is computed, lines that the next ones need are asked for. They are few at a time, since a core can wait
 * for no more than a dozen. The first strips of A meet B panel by panel. The first of them copies the panel as it
 * reads it, and the next panel comes closer under the others. The other strips, one after another, meet the block of B
 * that is packed by then: C is written along its rows. Where strips are few, B is read as it lies. So is A where its
 * rows are not a multiple of a page apart, and so do not share a cache set. Of columns of A, four rows would be too
 * little of each cache line.
 *
 * The invariant: an element of C is one chain of additions over the depth of a block. Those blocks, the same for all
 * elements, are added to C in order. So it does not depend on tiles, on cuts between threads, or on the others. */
#include "executor/kernels/matmul/gemm_matrices.h"

/* The register tile: ROWS by WIDTH vectors. Eight rows at most, because in matrices whose rows lie pages apart they
 * share a cache set; four where there are 16 registers. Up to SOME_STRIPS of rows all meet B panel by panel.
 * EACH_WIDTH(X, ...) is a list of X(rows, width, ...). */
#if defined(__AVX512F__)
enum { ROWS = 8, WIDTH = 3, SOME_STRIPS = 32 };
#define EACH_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define FULL_ROWS 8
#else
enum { ROWS = 4, WIDTH = 3, SOME_STRIPS = 72 };
#define EACH_ROWS(X) X(1) X(2) X(3) X(4)
#define FULL_ROWS 4
#endif
#define EACH_WIDTH(X, rows, ...) X(rows, 1, __VA_ARGS__) X(rows, 2, __VA_ARGS__) X(rows, 3, __VA_ARGS__)

enum {
    PANEL = WIDTH * VEC,
    BLOCK_COLUMNS = 8 * PANEL,
    ROW_STEP = GEMM_DEPTH + VEC, /* packed rows; the extra vector keeps them out of one cache set */
    COLUMN_STEP = ROWS,          /* packed columns */
    STRIP = ROWS * ROW_STEP > GEMM_DEPTH *COLUMN_STEP ? ROWS *ROW_STEP : GEMM_DEPTH *COLUMN_STEP,
    GROUP = 4, /* strips that are packed together from columns: whole cache lines are read */
    FEW_STRIPS = 16,
    SMALL_BLOCK = 128 * 128, /* of B: it is packed before A goes on */
    PAGE = 4096 / sizeof(float),
    LINE = 64,
    STEP = 16, /* steps of depth from one request for lines to the next */
    CLOSE = 4  /* steps of depth that a row of B is asked for before it is read where it lies */
};

/* --- lines ahead -------------------------------------------------------------------------------------------------- */

/* Rows that will be read soon; `per_step` lines of them are asked for at a time. */
typedef struct ahead {
    const char *row;
    int64_t stride, nbytes, at, nrows;
    int64_t per_step;
} ahead;

static ahead rows_ahead(const float *first, int64_t ld, int64_t columns, int64_t nrows, int64_t nsteps) {
    ahead next = {.row = (const char *)first, .stride = ld * (int64_t)sizeof(float), .nrows = nrows};
    next.nbytes = columns * (int64_t)sizeof(float);
    int64_t nlines = nrows * ((next.nbytes + LINE - 1) / LINE);
    next.per_step = (nlines + nsteps - 1) / nsteps;
    return next;
}

static inline __attribute__((always_inline)) void fetch_some(ahead *next) {
    for (int64_t i = 0; i < next->per_step && next->nrows > 0; i++) {
        __builtin_prefetch(next->row + next->at, 0, 2);
        next->at += LINE;
        if (next->at < next->nbytes) continue;
        next->at = 0;
        next->row += next->stride;
        next->nrows--;
    }
}

/* --- the register tile -------------------------------------------------------------------------------------------- */

/* How B's rows lie: packed; as in memory; as in memory, and copied to `panel` on the way. */
enum { B_PACKED, B_LIES, B_COPIED, B_LAYOUTS };

typedef struct tile_call {
    int64_t depth;
    const float *a;
    int64_t a_step; /* from row to row; of A transposed from one step of depth to the next */
    const float *b;
    int64_t b_step;
    float *panel;
    float *c;
    int64_t ldc, columns;
    float alpha, beta;
    const float *next_c; /* the tile of C that follows; NULL: not known */
    int64_t c_per_step;  /* rows of it */
    ahead *next;
} tile_call;

static inline __attribute__((always_inline)) void store_vec(const tile_call *t, float *c, vec sum, int64_t n) {
    sum *= t->alpha;
    if (t->beta != 0) sum += t->beta * (n >= VEC ? vec_load(c) : vec_load_first(c, n));
    if (n >= VEC)
        vec_store(c, sum);
    else
        vec_store_first(c, sum, n);
}

static inline __attribute__((always_inline)) void store_tile(int rows, int width, const tile_call *t,
                                                             vec sum[ROWS][WIDTH]) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < width; j++)
            store_vec(t, t->c + i * t->ldc + j * VEC, sum[i][j], j + 1 < width ? VEC : t->columns - j * VEC);
}

/* Instructions beside multiplications are few: a core may have another thread to serve, and then they count.
 *
 * What is left to the compiler are constants: `rows`, `width` (vectors), `transposed` (A), `layout`. */
static inline __attribute__((always_inline)) void tile(int rows, int width, bool transposed, int layout,
                                                       const tile_call *t) {
    vec sum[ROWS][WIDTH];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++) sum[i][j] = (vec){0};
    int64_t row_step = transposed ? 1 : t->a_step, a_step = transposed ? t->a_step : 1;
    int64_t b_step = layout == B_PACKED ? width * VEC : t->b_step;
    const float *a = t->a, *b = t->b, *next_c = t->next_c;
    float *panel = t->panel;
    ahead next = *t->next;
    for (int64_t step = 0; step < t->depth; step += STEP) {
        int64_t end = t->depth - step < STEP ? t->depth - step : STEP;
        fetch_some(&next);
        for (int64_t i = 0; next_c && i < t->c_per_step; i++, next_c += t->ldc)
            for (int j = 0; j < width; j++) __builtin_prefetch(next_c + j * VEC, 1);
#pragma GCC unroll 4
        for (int64_t k = 0; k < end; k++, a += a_step, b += b_step) {
            vec right[WIDTH];
#pragma GCC unroll 4
            for (int j = 0; j < width; j++) right[j] = vec_keep(vec_load(b + j * VEC));
            if (layout != B_PACKED)
                for (int j = 0; j < width; j++) __builtin_prefetch(b + CLOSE * b_step + j * VEC + VEC - 1);
            if (layout == B_COPIED) {
#pragma GCC unroll 4
                for (int j = 0; j < width; j++) vec_store(panel + j * VEC, right[j]);
                panel += width * VEC;
            }
#pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                vec x = vec_all(a[i * row_step]);
#pragma GCC unroll 4
                for (int j = 0; j < width; j++) sum[i][j] = vec_fma(x, right[j], sum[i][j]);
            }
        }
    }
    *t->next = next;
    store_tile(rows, width, t, sum);
}

typedef void (*tile_fn)(const tile_call *t);

#define DEFINE_TILE(rows, width, transposed, layout)                                                                   \
    static void tile_##rows##_##width##_##transposed##_##layout(const tile_call *t) {                                  \
        tile(rows, width, transposed, layout, t);                                                                      \
    }
#define TILE_ENTRY(rows, width, transposed, layout) tile_##rows##_##width##_##transposed##_##layout,
#define DEFINE_PACKED(rows) EACH_WIDTH(DEFINE_TILE, rows, 0, 0) EACH_WIDTH(DEFINE_TILE, rows, 1, 0)
#define DEFINE_FULL(rows)                                                                                              \
    EACH_WIDTH(DEFINE_TILE, rows, 0, 1)                                                                                \
    EACH_WIDTH(DEFINE_TILE, rows, 1, 1)                                                                                \
    EACH_WIDTH(DEFINE_TILE, rows, 0, 2)                                                                                \
    EACH_WIDTH(DEFINE_TILE, rows, 1, 2)
#define PACKED_ENTRY(rows) {{EACH_WIDTH(TILE_ENTRY, rows, 0, 0)}, {EACH_WIDTH(TILE_ENTRY, rows, 1, 0)}},
#define FULL_ENTRY(rows, layout) {{EACH_WIDTH(TILE_ENTRY, rows, 0, layout)}, {EACH_WIDTH(TILE_ENTRY, rows, 1, layout)}},
EACH_ROWS(DEFINE_PACKED)
DEFINE_FULL(FULL_ROWS)

/* By rows - 1; and where B lies as in memory, of full strips alone, by its layout - 1; each by whether A is transposed,
 * and by vectors across - 1. */
static const tile_fn packed_tiles[ROWS][2][WIDTH] = {EACH_ROWS(PACKED_ENTRY)};
static const tile_fn full_tiles[B_LAYOUTS - 1][2][WIDTH] = {FULL_ENTRY(FULL_ROWS, 1) FULL_ENTRY(FULL_ROWS, 2)};

/* --- packing ------------------------------------------------------------------------------------------------------ */

/* A's rows or columns [row, row + rows), at most GROUP strips of columns, in depth [depth, depth + count). */
static void pack_strips(const gemm *g, int64_t row, int64_t rows, int64_t depth, int64_t count, float *out) {
    if (!g->a_transposed) {
        for (int64_t i = 0; i < rows; i++) vec_copy(out + i * ROW_STEP, g->a + (row + i) * g->lda + depth, count);
        return;
    }
    const float *from = g->a + depth * g->lda + row;
    for (int64_t k = 0; k < count; k++, from += g->lda, out += COLUMN_STEP) {
        int64_t i = 0;
        for (; i + ROWS <= rows; i += ROWS) memcpy(out + i / ROWS * STRIP, from + i, ROWS * sizeof *out);
        if (i < rows) memcpy(out + i / ROWS * STRIP, from + i, (size_t)(rows - i) * sizeof *out);
    }
}

/* Turns VEC rows of VEC floats, `ld` apart, into rows of `out`, `step` apart. Rows from `rows` on are zero and not
 * read; floats from `count` on are neither read nor written. */
static void transpose(const float *from, int64_t ld, int64_t rows, int64_t count, int64_t step, float *out) {
    vec v[VEC];
    if (rows >= VEC && count >= VEC)
        for (int i = 0; i < VEC; i++) v[i] = vec_load(from + i * ld);
    else
        for (int i = 0; i < VEC; i++)
            v[i] = i < rows ? vec_load_first(from + i * ld, count < VEC ? count : VEC) : (vec){0};
    vec_transpose(v);
    for (int i = 0; i < VEC && i < count; i++) vec_store(out + i * step, v[i]);
}

/* Columns [column, column + columns) of B as `width` columns, zero-filled. */
static void pack_panel(const gemm *g, int64_t depth, int64_t count, int64_t column, int64_t columns, int64_t width,
                       float *out) {
    if (g->b_transposed) {
        const float *from = g->b + column * g->ldb + depth;
        for (int64_t k = 0; k < count; k += VEC)
            for (int64_t j = 0; j < width; j += VEC)
                transpose(from + j * g->ldb + k, g->ldb, columns - j, count - k, width, out + k * width + j);
        return;
    }
    const float *from = g->b + depth * g->ldb + column;
    for (int64_t k = 0; k < count; k++, from += g->ldb, out += width)
        for (int64_t j = 0; j < width; j += VEC)
            vec_store(out + j, columns - j >= VEC ? vec_load(from + j) : vec_load_first(from + j, columns - j));
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* A rectangle of C, and what of the inner extent is added to it. */
typedef struct block {
    const gemm *g;
    int64_t row, rows, column, columns, depth, count;
    int64_t nstrips, nfirst; /* strips that meet B panel by panel */
    bool packs_a, b_lies;
    float *a, *b; /* packed */
} block;

/* Columns of the panel that begins where so many are left: one vector alone would be slow. */
static int64_t panel_width(int64_t left) {
    if (left > (WIDTH + 1) * VEC) return PANEL;
    if (left > PANEL) return (WIDTH + 1) / 2 * VEC;
    return (left + VEC - 1) / VEC * VEC;
}

static int64_t steps_of(const block *b, int64_t ntiles) {
    return ntiles * ((b->count + STEP - 1) / STEP);
}

static int64_t slot_of(const block *b, int64_t s) {
    return s < b->nfirst ? s : s % GROUP;
}

/* What of A follows strip s; where columns are packed in groups, or two strips of them share cache lines that are soon
 * needed, this strip's part of the next group. */
static ahead strips_ahead(const block *b, int64_t s, int64_t ntiles) {
    const gemm *g = b->g;
    int64_t group = b->packs_a ? GROUP : b->columns <= 2 * PANEL ? 2 : 1;
    int64_t parts = g->a_transposed ? group : 1, at = (s / parts + 1) * parts * ROWS;
    int64_t rows = smaller(parts * ROWS, b->rows - at), nsteps = steps_of(b, ntiles);
    if (rows <= 0) return (ahead){0};
    if (!g->a_transposed) return rows_ahead(g->a + (b->row + at) * g->lda + b->depth, g->lda, b->count, rows, nsteps);
    int64_t first = s % parts * b->count / parts, end = (s % parts + 1) * b->count / parts;
    return rows_ahead(g->a + (b->depth + first) * g->lda + b->row + at, g->lda, rows, end - first, nsteps);
}

static ahead panel_ahead(const block *b, int64_t column, int64_t ntiles) {
    const gemm *g = b->g;
    int64_t columns = smaller(panel_width(b->columns - column), b->columns - column), nsteps = steps_of(b, ntiles);
    if (columns <= 0) return (ahead){0};
    column += b->column;
    if (g->b_transposed) return rows_ahead(g->b + column * g->ldb + b->depth, g->ldb, b->count, columns, nsteps);
    return rows_ahead(g->b + b->depth * g->ldb + column, g->ldb, columns, b->count, nsteps);
}

/* Packs strip s, or the group that begins there. */
static void pack_at(const block *b, int64_t s, int64_t end) {
    if (!b->packs_a || (b->g->a_transposed && s % GROUP)) return;
    int64_t most = b->g->a_transposed ? smaller(GROUP, end - s) * ROWS : ROWS;
    pack_strips(b->g, b->row + s * ROWS, smaller(most, b->rows - s * ROWS), b->depth, b->count,
                b->a + slot_of(b, s) * STRIP);
}

/* Strip s times the panel of columns [column, column + width) of the block. `panel`: where it is packed or, depending
 * on the layout, will be. */
static void multiply_tile(const block *b, int64_t s, int64_t column, int64_t width, int layout, float *panel,
                          const float *next_c, ahead *next) {
    const gemm *g = b->g;
    int64_t row = b->row + s * ROWS, at = b->column + column;
    tile_call t = {.depth = b->count,
                   .a = b->a + slot_of(b, s) * STRIP,
                   .a_step = g->a_transposed ? COLUMN_STEP : ROW_STEP,
                   .b = panel,
                   .b_step = width,
                   .panel = panel,
                   .c = g->c + row * g->ldc + at,
                   .ldc = g->ldc,
                   .columns = smaller(width, b->columns - column),
                   .alpha = g->alpha,
                   .beta = b->depth ? 1 : g->beta,
                   .next_c = next_c,
                   .c_per_step = (ROWS * STEP + b->count - 1) / b->count,
                   .next = next};
    if (!b->packs_a) {
        t.a = g->a_transposed ? g->a + b->depth * g->lda + row : g->a + row * g->lda + b->depth;
        t.a_step = g->lda;
    }
    int64_t rows = smaller(ROWS, b->rows - s * ROWS), across = width / VEC - 1;
    if (layout == B_PACKED) {
        packed_tiles[rows - 1][g->a_transposed][across](&t);
    } else {
        t.b = g->b + b->depth * g->ldb + at;
        t.b_step = g->ldb;
        full_tiles[layout - 1][g->a_transposed][across](&t);
    }
}

/* The first strips times one panel, which is packed into `panel` unless it is read as it lies. */
static void multiply_panel(const block *b, int64_t column, int64_t width, float *panel) {
    const gemm *g = b->g;
    int64_t columns = smaller(width, b->columns - column);
    bool straight = !g->b_transposed && columns == width && b->rows >= ROWS;
    bool lies = straight && b->b_lies && b->rows % ROWS == 0;
    ahead of_b = panel_ahead(b, column + width, b->nfirst);
    if (!straight) pack_panel(g, b->depth, b->count, b->column + column, columns, width, panel);
    for (int64_t s = 0; s < b->nfirst; s++) {
        bool last = s + 1 == b->nfirst;
        float *c = g->c + (b->row + s * ROWS) * g->ldc + b->column + column, *top = g->c + b->row * g->ldc;
        float *next_c = !last                         ? c + ROWS * g->ldc
                        : column + width < b->columns ? top + b->column + column + width
                                                      : NULL;
        ahead of_a = {0}, *next = &of_b;
        if (column == 0) {
            pack_at(b, s, b->nfirst);
            of_a = strips_ahead(b, s, 1);
            if (of_a.nrows) next = &of_a;
        }
        multiply_tile(b, s, column, width,
                      lies                 ? B_LIES
                      : straight && s == 0 ? B_COPIED
                                           : B_PACKED,
                      panel, next_c, next);
    }
}

/* The operands of the product that follows, if this block is all of a product. */
static void product_ahead(const block *b, ahead out[2]) {
    const gemm *g = b->g;
    int64_t npanels = (b->columns + PANEL - 1) / PANEL, nsteps = steps_of(b, npanels * (b->nstrips - b->nfirst));
    out[0] = out[1] = (ahead){0};
    if (!g->next_a || b->nfirst == b->nstrips || b->rows * b->columns * b->count < g->m * g->n * g->k) return;
    bool ta = g->a_transposed, tb = g->b_transposed;
    out[0] = rows_ahead(g->next_a, g->lda, ta ? g->m : g->k, ta ? g->k : g->m, (nsteps + 1) / 2);
    out[1] = rows_ahead(g->next_b, g->ldb, tb ? g->k : g->n, tb ? g->n : g->k, (nsteps + 1) / 2);
}

/* A strip after the first times all panels, which are packed. */
static void multiply_strip(const block *b, int64_t s, ahead product[2]) {
    const gemm *g = b->g;
    float *c = g->c + (b->row + s * ROWS) * g->ldc + b->column, *panel = b->b;
    ahead own = strips_ahead(b, s, (b->columns + PANEL - 1) / PANEL);
    ahead *next = product[0].nrows ? &product[0] : product[1].nrows ? &product[1] : &own;
    pack_at(b, s, b->nstrips);
    for (int64_t column = 0, width; column < b->columns; column += width, panel += width * b->count) {
        width = panel_width(b->columns - column);
        bool last = column + width >= b->columns;
        float *next_c = !last ? c + column + width : s + 1 < b->nstrips ? c + ROWS * g->ldc : NULL;
        multiply_tile(b, s, column, width, B_PACKED, panel, next_c, next);
    }
}

static void multiply_block(const block *b) {
    float *panel = b->b;
    for (int64_t column = 0, width; column < b->columns; column += width) {
        width = panel_width(b->columns - column);
        multiply_panel(b, column, width, panel);
        if (b->nfirst < b->nstrips) panel += width * b->count;
    }
    ahead product[2];
    product_ahead(b, product);
    for (int64_t s = b->nfirst; s < b->nstrips; s++) multiply_strip(b, s, product);
}

enum {
    BY_PANELS = SOME_STRIPS * STRIP + SMALL_BLOCK + VEC * GEMM_DEPTH,
    BY_STRIPS = FEW_STRIPS * STRIP + GEMM_DEPTH * BLOCK_COLUMNS,
    PACKED = BY_PANELS > BY_STRIPS ? BY_PANELS : BY_STRIPS
};

/* A rectangle of C, for one thread. */
static void multiply_region(const gemm *g, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    _Alignas(LINE) float packed[PACKED];
    int64_t nstrips = (rows + ROWS - 1) / ROWS, ndepths = (g->k + GEMM_DEPTH - 1) / GEMM_DEPTH;
    int64_t page_apart = g->lda % (g->a_transposed ? PAGE / 2 : PAGE);
    bool by_panels = nstrips <= SOME_STRIPS, wastes_lines = g->a_transposed && ROWS * sizeof(float) <= LINE / 4;
    block b = {.g = g, .row = row, .rows = rows, .nstrips = nstrips, .a = packed};
    b.packs_a = wastes_lines ? columns > PANEL : page_apart == 0 && columns > 2 * PANEL;
    for (int64_t at = 0, width = by_panels ? columns : BLOCK_COLUMNS; at < columns; at += width)
        for (int64_t i = 0; i < ndepths; i++) {
            b.column = column + at;
            b.columns = smaller(width, columns - at);
            b.depth = gemm_strip_start(g->k, ndepths, i);
            b.count = gemm_strip_start(g->k, ndepths, i + 1) - b.depth;
            b.nfirst = by_panels ? nstrips : FEW_STRIPS;
            if (b.columns <= BLOCK_COLUMNS && b.columns * b.count <= SMALL_BLOCK)
                b.nfirst = b.packs_a ? smaller(GROUP, nstrips) : 1;
            b.b_lies = nstrips <= FEW_STRIPS && b.nfirst == nstrips;
            b.b = packed + (by_panels ? SOME_STRIPS : FEW_STRIPS) * STRIP;
            multiply_block(&b);
        }
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

/* Items are strips. */
static void multiply_rows(void *arg, int64_t first, int64_t end, int part) {
    const gemm *g = arg;
    (void)part;
    multiply_region(g, first * ROWS, smaller(end * ROWS, g->m) - first * ROWS, 0, g->n);
}

/* Items are vectors across. */
static void multiply_columns(void *arg, int64_t first, int64_t end, int part) {
    const gemm *g = arg;
    (void)part;
    multiply_region(g, 0, g->m, first * VEC, smaller(end * VEC, g->n) - first * VEC);
}

/* Columns are cut where there are enough: to read A twice costs less than to pack B twice. */
void gemm_matrices(const kernel_call *call, const gemm *g) {
    if (g->m < 1 || g->n < 1) return;
    gemm copy = *g;
    if (g->n >= 4 * PANEL || g->m < 2 * ROWS)
        parallel_for(call, (g->n + VEC - 1) / VEC, grain_of_products(g->m * g->k * VEC), multiply_columns, &copy);
    else
        parallel_for(call, (g->m + ROWS - 1) / ROWS, grain_of_products(g->n * g->k * ROWS), multiply_rows, &copy);
}
