/* conv_winograd_filter.c: the gradient of filters of 3 x 3, from tiles of 4 x 4 outputs with a quarter of the products.
 *
 * The transpose by the filter of what conv_winograd.c computes: with d a tile of 6 x 6 inputs and e the 4 x 4 gradients
 * of its outputs, dg = G^T [sum over tiles of (A e A^T) * (B^T d B)] G. The sums are 36 matrix products, one for each
 * element: [out, tiles] times [tiles, in]. Gradients are written as the rows, inputs as the panels that the register
 * tile takes (conv_tile.c). BATCH_TILES tiles go through the workspace at a time; where they are all there are, a strip
 * of output channels is turned into filters at once, while its sums are in the cache.
 *
 * The invariant: a sum is one chain of additions over BATCH_TILES tiles, and those chains are added in order. */
#include "executor/kernels/conv/conv_tile.h"
#include "executor/kernels/conv/conv_winograd.h"

enum { BATCH_TILES = CONV_SHORT_STRIDE - VEC, MANY_SUMS = 4 << 20 };

typedef struct job {
    const conv *c;
    const float *x, *dy; /* of the group's first channels */
    float *dw;
    int64_t first, ntiles; /* of this batch; as many as exist, or up to a whole vector */
    bool last;             /* there are no more */
    float *panels;         /* [element][panel][tile][GEMM_COLUMNS] */
    float *rows;           /* [strip][element][GEMM_ROWS][CONV_SHORT_STRIDE] */
    float *sums;           /* [strip or part][element][GEMM_ROWS][input channel, to whole panels] */
} job;

static int64_t strips_of(const conv *c) {
    return gemm_strips(c->out_channels);
}
static int64_t panels_of(const conv *c) {
    return gemm_panels(c->in_channels);
}

/* Floats of the parts of the workspace. */
static int64_t panels_count(const conv *c) {
    return ELEMENTS * panels_of(c) * BATCH_TILES * GEMM_COLUMNS;
}
static int64_t strip_rows_count(void) {
    return ELEMENTS * GEMM_ROWS * CONV_SHORT_STRIDE;
}
static int64_t strip_sums_count(const conv *c) {
    return ELEMENTS * GEMM_ROWS * panels_of(c) * GEMM_COLUMNS;
}

size_t conv_winograd_filter_workspace(const conv *c, int nthreads) {
    int64_t nsums = winograd_tiles(c) <= BATCH_TILES && nthreads < strips_of(c) ? nthreads : strips_of(c);
    return (size_t)(panels_count(c) + strips_of(c) * strip_rows_count() + nsums * strip_sums_count(c)) * sizeof(float);
}

/* Tiles must be as many as make a product worth beginning. */
void conv_winograd_filter_prepare(conv *c) {
    c->winograd_filter = winograd_fits(c) && c->in_channels >= 32 && c->out_channels >= 32 &&
                         winograd_tiles(c) >= MANY_TILES &&
                         (winograd_tiles(c) <= BATCH_TILES || strips_of(c) * strip_sums_count(c) <= MANY_SUMS);
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

/* Items are VEC input channels: of VEC tiles each, rows become columns. */
static void transform_inputs(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t element = panels_of(c) * j->ntiles * GEMM_COLUMNS;
    float block[ELEMENTS * VEC * VEC];
    (void)part;
    for (int64_t t = 0; t < j->ntiles; t += VEC) {
        places p;
        winograd_find_places(c, j->first + t, winograd_tiles(c) - j->first - t, &p);
        for (int64_t item = first; item < end; item++) {
            int64_t in = item * VEC, n = c->in_channels - in < VEC ? c->in_channels - in : VEC;
            float *to = j->panels + (in / GEMM_COLUMNS * j->ntiles + t) * GEMM_COLUMNS + in % GEMM_COLUMNS;
            if (n < VEC) memset(block, 0, sizeof block);
            for (int64_t i = 0; i < n; i++)
                winograd_split_tiles(c, &p, j->x + (in + i) * c->in.channel_step, block + i * VEC, VEC * VEC);
            for (int e = 0; e < ELEMENTS; e++) {
                vec v[VEC];
                for (int i = 0; i < VEC; i++) v[i] = vec_load(block + (e * VEC + i) * VEC);
                vec_transpose(v);
                for (int i = 0; i < VEC; i++) vec_store(to + e * element + i * GEMM_COLUMNS, v[i]);
            }
        }
    }
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* A e of a column of 4. */
static inline void spread(const vec d[STEP], vec out[EDGE]) {
    vec even = d[0] + NEAR_2 * d[2], odd = NEAR * (d[1] + NEAR_2 * d[3]);
    vec far_even = d[0] + FAR_2 * d[2], far_odd = FAR * (d[1] + FAR_2 * d[3]);
    out[0] = d[0];
    out[1] = even + odd;
    out[2] = even - odd;
    out[3] = far_even + far_odd;
    out[4] = far_even - far_odd;
    out[5] = d[3];
}

static void spread_tiles(const conv *c, const places *p, const float *dy, float *out) {
    vec rows[STEP][EDGE], result[EDGE];
    for (int i = 0; i < STEP; i++) {
        vec d[STEP];
        winograd_load(c, p, dy, i, d);
        spread(d, rows[i]);
    }
    for (int k = 0; k < EDGE; k++) {
        vec column[STEP];
        for (int i = 0; i < STEP; i++) column[i] = rows[i][k];
        spread(column, result);
        for (int i = 0; i < EDGE; i++) vec_store(out + (i * EDGE + k) * GEMM_ROWS * CONV_SHORT_STRIDE, result[i]);
    }
}

/* Items are strips of output channels. */
static void transform_gradients(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    (void)part;
    for (int64_t t = 0; t < j->ntiles; t += VEC) {
        places p;
        winograd_find_places(c, j->first + t, winograd_tiles(c) - j->first - t, &p);
        for (int64_t strip = first; strip < end; strip++) {
            int64_t o = gemm_strip_start(c->out_channels, strips_of(c), strip);
            int64_t rows = gemm_strip_start(c->out_channels, strips_of(c), strip + 1) - o;
            for (int64_t i = 0; i < rows; i++)
                spread_tiles(c, &p, j->dy + (o + i) * c->out.channel_step,
                             j->rows + strip * strip_rows_count() + i * CONV_SHORT_STRIDE + t);
        }
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

static void add_products(const job *j, int64_t strip, int64_t rows, float *sums) {
    const conv *c = j->c;
    int64_t npanels = panels_of(c), ld = npanels * GEMM_COLUMNS;
    conv_ahead ahead = conv_ahead_of(j->rows, 0, 1, 1);
    for (int64_t e = 0; e < ELEMENTS; e++)
        for (int64_t q = 0; q < npanels; q++) {
            conv_tile t = {.count = j->ntiles,
                           .a = j->rows + strip * strip_rows_count() + e * GEMM_ROWS * CONV_SHORT_STRIDE,
                           .b = j->panels + (e * npanels + q) * j->ntiles * GEMM_COLUMNS,
                           .c = sums + e * GEMM_ROWS * ld + q * GEMM_COLUMNS,
                           .ldc = ld,
                           .columns = GEMM_COLUMNS,
                           .add = j->first > 0};
            conv_tile_multiply(CONV_SHORT_ROWS, rows, &t, &ahead);
        }
}

/* G^T m of a column of 6. */
static inline void narrow(const vec m[EDGE], vec out[3]) {
    vec a = BY_NEAR * (m[1] + m[2]), b = (NEAR * BY_NEAR) * (m[1] - m[2]);
    vec e = BY_FAR * (m[3] + m[4]), f = (FAR * BY_FAR) * (m[3] - m[4]);
    out[0] = BY_ZERO * m[0] + a + e;
    out[1] = b + f;
    out[2] = NEAR_2 * a + FAR_2 * e + m[5];
}

/* The filters of one output channel. */
static void narrow_sums(const conv *c, const float *sums, float *dw) {
    int64_t element = GEMM_ROWS * panels_of(c) * GEMM_COLUMNS;
    for (int64_t in = 0; in < c->in_channels; in += VEC) {
        int64_t n = c->in_channels - in < VEC ? c->in_channels - in : VEC;
        vec column[EDGE][3], taps[9];
        for (int k = 0; k < EDGE; k++) {
            vec m[EDGE];
            for (int i = 0; i < EDGE; i++) m[i] = vec_load(sums + (i * EDGE + k) * element + in);
            narrow(m, column[k]);
        }
        for (int i = 0; i < 3; i++) {
            vec row[EDGE];
            for (int k = 0; k < EDGE; k++) row[k] = column[k][i];
            narrow(row, taps + i * 3);
        }
        winograd_put_filters(dw + in * 9, n, taps);
    }
}

/* Items are strips of output channels. */
static void multiply_strips(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t ld = panels_of(c) * GEMM_COLUMNS;
    for (int64_t strip = first; strip < end; strip++) {
        int64_t o = gemm_strip_start(c->out_channels, strips_of(c), strip);
        int64_t rows = gemm_strip_start(c->out_channels, strips_of(c), strip + 1) - o;
        float *sums = j->sums + (winograd_tiles(c) <= BATCH_TILES ? part : strip) * strip_sums_count(c);
        add_products(j, strip, rows, sums);
        for (int64_t i = 0; j->last && i < rows; i++) narrow_sums(c, sums + i * ld, j->dw + (o + i) * c->patch);
    }
}

void conv_winograd_filter(const kernel_call *call, const conv *c, const float *x, const float *dy, float *dfilter,
                          float *workspace) {
    int64_t total = winograd_tiles(c), nstrips = strips_of(c), strip_products = GEMM_ROWS * c->in_channels * ELEMENTS;
    job j = {.c = c, .panels = workspace};
    j.rows = j.panels + panels_count(c);
    j.sums = j.rows + nstrips * strip_rows_count();
    for (int64_t g = 0; g < c->groups; g++) {
        j.x = x + g * c->in_channels * c->in.channel_step;
        j.dy = dy + g * c->out_channels * c->out.channel_step;
        j.dw = dfilter + g * c->out_channels * c->patch;
        for (j.first = 0; j.first < total; j.first += BATCH_TILES) {
            j.last = total - j.first <= BATCH_TILES;
            j.ntiles = j.last ? (total - j.first + VEC - 1) / VEC * VEC : BATCH_TILES;
            parallel_for(call, (c->in_channels + VEC - 1) / VEC, 1, transform_inputs, &j);
            parallel_for(call, nstrips, 1, transform_gradients, &j);
            parallel_for(call, nstrips, grain_of_products(strip_products * j.ntiles), multiply_strips, &j);
        }
    }
}
