/* conv_winograd.c: convolution by filters of 3 x 3, four by four outputs at a time with a quarter of the products.
 *
 * After Winograd and Lavin (Fast Algorithms for Convolutional Neural Networks, 2015), F(4 x 4, 3 x 3): with d a tile of
 * 6 x 6 inputs and g a filter, the outputs are A^T [(G g G^T) * (B^T d B)] A, where * is element by element. Summed
 * over input channels these are 36 matrix products, one for each element: [out, in] times [in, tiles]. Filters are
 * written as the strips, inputs as the panels that the register tile takes (conv_tile.c), so nothing is packed. Where
 * one batch takes all tiles, filters are transformed a strip at a time, and stay in the cache until they are
 * multiplied.
 *
 * The transforms add and subtract numbers larger than the result: half a digit is lost. For many
 * channels and large images only, where products are what takes time.
 *
 * The invariant: an output depends on its tile and its filters alone, in an order fixed by their number. */
#include "executor/kernels/conv/conv_winograd.h"
#include "executor/kernels/conv/conv_tile.h"

/* Tiles that go through the workspace at a time. */
enum { BATCH_TILES = 2 * GEMM_COLUMNS, STRIPS = 4 };

typedef struct job {
    const conv *c;
    const float *x, *filter; /* of the group */
    float *y;
    conv_filter_order order;
    int64_t first, ntiles; /* of this batch */
    float *panels;         /* [element][panel][input channel][GEMM_COLUMNS] */
    float *strips;         /* filters: [strip or part][element][input channel][GEMM_STRIP] */
    float *products;       /* [part][strip][element][GEMM_ROWS][BATCH_TILES] */
} job;

static int64_t count_strips(const conv *c) {
    return gemm_strips(c->out_channels);
}

static int64_t strip_start(const conv *c, int64_t strip) {
    return gemm_strip_start(c->out_channels, count_strips(c), strip);
}
static bool in_one_batch(const conv *c) {
    return winograd_tiles(c) <= BATCH_TILES;
}
/* Strips whose products are computed together, so that inputs larger than the cache come by less often. */
static int64_t strips_at_once(const conv *c) {
    return in_one_batch(c) ? 1 : STRIPS;
}

bool winograd_fits(const conv *c) {
    const window *w = &c->w;
    int64_t ntiles = winograd_tiles(c), used = c->positions * c->in.count;
    return c->copy && w->size[0] == 3 && w->size[1] == 3 && w->stride[0] == 1 && w->stride[1] == 1 &&
           w->dilation[0] == 1 && w->dilation[1] == 1 && c->in.count * c->in.image < INT32_MAX &&
           c->in.count * c->out.image < INT32_MAX && 4 * used >= 3 * ntiles * STEP * STEP;
}

/* Transforms take as long as 16 more channels on each side; filters must serve some tiles. */
void conv_winograd_prepare(conv *c) {
    c->winograd = winograd_fits(c) && c->in_channels >= 32 && c->in_channels <= GEMM_DEPTH && c->out_channels >= 32 &&
                  winograd_tiles(c) >= MANY_TILES;
}

/* Floats from one element of the transform to the next: a line more than what there is, so that not all of them lie in
 * one set of the cache. */
static int64_t panels_step(const conv *c) {
    return c->in_channels * BATCH_TILES + GEMM_STRIP;
}
static int64_t strip_step(const conv *c) {
    return c->in_channels * GEMM_STRIP + GEMM_STRIP;
}
/* Floats of the three parts of the workspace. Filters that serve one batch are transformed a strip at a time. */
static int64_t panels_count(const conv *c) {
    return ELEMENTS * panels_step(c);
}
static int64_t strip_count(const conv *c) {
    return ELEMENTS * strip_step(c);
}
enum { STRIP_PRODUCTS = ELEMENTS * GEMM_ROWS * BATCH_TILES };
static int64_t parts_of(const conv *c, int nthreads) {
    return nthreads < count_strips(c) ? nthreads : count_strips(c);
}
static int64_t filters_count(const conv *c, int nthreads) {
    return (in_one_batch(c) ? parts_of(c, nthreads) : count_strips(c)) * strip_count(c);
}

size_t conv_winograd_workspace(const conv *c, int nthreads) {
    int64_t nproducts = parts_of(c, nthreads) * strips_at_once(c) * STRIP_PRODUCTS;
    return (size_t)(panels_count(c) + filters_count(c, nthreads) + nproducts) * sizeof(float);
}

/* --- filters ------------------------------------------------------------------------------------------------------ */

/* G g of a column of 3. */
static inline void widen(const vec g[3], vec out[EDGE]) {
    vec even = g[0] * BY_NEAR + g[2] * (NEAR_2 * BY_NEAR), odd = g[1] * (NEAR * BY_NEAR);
    vec far_even = g[0] * BY_FAR + g[2] * (FAR_2 * BY_FAR), far_odd = g[1] * (FAR * BY_FAR);
    out[0] = g[0] * BY_ZERO;
    out[1] = even + odd;
    out[2] = even - odd;
    out[3] = far_even + far_odd;
    out[4] = far_even - far_odd;
    out[5] = g[2];
}

/* Lanes are the channels of the strip. */
static void widen_strip(const job *j, int64_t strip, float *to) {
    const conv *c = j->c;
    int64_t o = strip_start(c, strip), rows = strip_start(c, strip + 1) - o, element = strip_step(c);
    const float *from = j->filter + o * j->order.out;
    for (int64_t in = 0; in < c->in_channels; in++, from += j->order.in, to += GEMM_STRIP)
        for (int64_t lane = 0; lane < rows; lane += VEC) {
            int64_t left = rows - lane < VEC ? rows - lane : VEC;
            vec taps[9], columns[3][EDGE], out[EDGE];
            winograd_take_filters(from + lane * j->order.out, j->order.out, left, taps);
            for (int k = 0; k < 3; k++) {
                vec g[3];
                for (int i = 0; i < 3; i++) g[i] = j->order.turned ? taps[8 - i * 3 - k] : taps[i * 3 + k];
                widen(g, columns[k]);
            }
            for (int i = 0; i < EDGE; i++) {
                vec row[3] = {columns[0][i], columns[1][i], columns[2][i]};
                widen(row, out);
                for (int k = 0; k < EDGE; k++) vec_store(to + (i * EDGE + k) * element + lane, out[k]);
            }
        }
}

/* Items are strips of output channels. */
static void transform_filters(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    (void)part;
    for (int64_t strip = first; strip < end; strip++) widen_strip(j, strip, j->strips + strip * strip_count(j->c));
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

void winograd_find_places(const conv *c, int64_t first, int64_t count, places *p) {
    int64_t across = tiles_across(c->out.width), per_image = tiles_of_image(c);
    memset(p, 0, sizeof *p);
    for (int lane = 0; lane < VEC; lane++) {
        int64_t t = first + winograd_tile_of(lane), at = t % per_image, n = t / per_image;
        if (t >= first + count) continue;
        int64_t y = at / across * STEP, x = at % across * STEP, row = y - c->w.before[0], column = x - c->w.before[1];
        p->in[lane] = (int32_t)(n * c->in.image + row * c->in.row_step + column);
        p->out[lane] = (int32_t)(n * c->out.image + y * c->out.row_step + x);
        for (int i = 0; i < EDGE; i++) {
            p->in_rows[i] |= (uint32_t)(row + i >= 0 && row + i < c->in.height) << lane;
            p->in_columns[i] |= (uint32_t)(column + i >= 0 && column + i < c->in.width) << lane;
        }
        for (int i = 0; i < STEP; i++) {
            p->out_rows[i] |= (uint32_t)(y + i < c->out.height) << lane;
            p->out_columns[i] |= (uint32_t)(x + i < c->out.width) << lane;
        }
    }
    p->whole = c->out.width % STEP == 0;
    p->runs =
        p->whole && count >= VEC && across % (VEC / 4) == 0 && first % (VEC / 4) == 0 && c->out.height % STEP == 0;
    for (int lane = 0; lane < VEC; lane++)
        for (int k = 0; k < STEP; k++) {
            int q = lane % 4, bit = lane / 4 * STEP + k;
            p->left[q] |= (p->in_columns[k] >> lane & 1) << bit;
            if (k + STEP < EDGE) p->right[q] |= (p->in_columns[k + STEP] >> lane & 1) << bit;
        }
}

/* Items are input channels. */
static void transform_inputs(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    (void)part;
    for (int64_t t = 0; t < j->ntiles; t += VEC) {
        places p;
        winograd_find_places(c, j->first + t, j->ntiles - t, &p);
        float *panel = j->panels + t / GEMM_COLUMNS * c->in_channels * GEMM_COLUMNS + t % GEMM_COLUMNS;
        for (int64_t in = first; in < end; in++)
            winograd_split_tiles(c, &p, j->x + in * c->in.channel_step, panel + in * GEMM_COLUMNS, panels_step(c));
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Filters behind output channel o, which lie in memory until their strip is transformed. */
static conv_ahead filters_ahead(const job *j, int64_t o, int64_t rows) {
    const float *from = j->filter + o * j->order.out;
    if (!in_one_batch(j->c) || o == j->c->out_channels) return conv_ahead_of(j->panels, 0, 1, 1);
    bool by_output = j->order.out > j->order.in;
    return by_output ? conv_ahead_of(from, j->order.out, rows, j->c->in_channels * j->order.in)
                     : conv_ahead_of(from, j->order.in, j->c->in_channels, rows * j->order.out);
}

/* Strips [first, first + count), of `filters`: what inputs of one element they share is read once. */
static void multiply_elements(const job *j, int64_t first, int64_t count, const float *filters, float *products) {
    const conv *c = j->c;
    conv_ahead ahead = filters_ahead(j, strip_start(c, first + count), GEMM_ROWS);
    for (int64_t e = 0; e < ELEMENTS; e++)
        for (int64_t s = 0; s < count; s++)
            for (int64_t t = 0; t < j->ntiles; t += GEMM_COLUMNS) {
                conv_tile tile = {.count = c->in_channels,
                                  .a = filters + s * strip_count(c) + e * strip_step(c),
                                  .b = j->panels + e * panels_step(c) + t * c->in_channels,
                                  .c = products + s * STRIP_PRODUCTS + e * GEMM_ROWS * BATCH_TILES + t,
                                  .ldc = BATCH_TILES,
                                  .columns = j->ntiles - t <= VEC ? VEC : GEMM_COLUMNS};
                int64_t rows = strip_start(c, first + s + 1) - strip_start(c, first + s);
                conv_tile_multiply(CONV_COLUMNS, rows, &tile, &ahead);
            }
}

/* A^T m of a column of 6. */
static inline void join(const vec m[EDGE], vec out[STEP]) {
    vec a = m[1] + m[2], b = NEAR * (m[1] - m[2]), e = m[3] + m[4], f = FAR * (m[3] - m[4]);
    out[0] = m[0] + a + e;
    out[1] = b + f;
    out[2] = NEAR_2 * a + FAR_2 * e;
    out[3] = NEAR_2 * b + FAR_2 * f + m[5];
}

/* VEC tiles of one output channel. */
static void join_products(const conv *c, const places *p, const float *products, float *y) {
    vec columns[EDGE][STEP], result[STEP];
    for (int k = 0; k < EDGE; k++) {
        vec m[EDGE];
        for (int i = 0; i < EDGE; i++) m[i] = vec_load(products + (i * EDGE + k) * GEMM_ROWS * BATCH_TILES);
        join(m, columns[k]);
    }
    for (int i = 0; i < STEP; i++) {
        vec row[EDGE];
        for (int k = 0; k < EDGE; k++) row[k] = columns[k][i];
        join(row, result);
        winograd_store(c, p, y, i, result);
    }
}

static void join_strips(const job *j, int64_t first, int64_t count, const float *products) {
    const conv *c = j->c;
    for (int64_t t = 0; t < j->ntiles; t += VEC) {
        places p;
        winograd_find_places(c, j->first + t, j->ntiles - t, &p);
        for (int64_t s = 0; s < count; s++) {
            int64_t o = strip_start(c, first + s), rows = strip_start(c, first + s + 1) - o;
            const float *from = products + s * STRIP_PRODUCTS + t;
            for (int64_t i = 0; i < rows; i++)
                join_products(c, &p, from + i * BATCH_TILES, j->y + (o + i) * c->out.channel_step);
        }
    }
}

/* Items are strips of output channels. */
static void multiply_strips(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t most = strips_at_once(c), count;
    float *products = j->products + part * most * STRIP_PRODUCTS;
    for (int64_t strip = first; strip < end; strip += count) {
        count = end - strip < most ? end - strip : most;
        float *filters = j->strips + (in_one_batch(c) ? part : strip) * strip_count(c);
        if (in_one_batch(c)) widen_strip(j, strip, filters);
        multiply_elements(j, strip, count, filters, products);
        join_strips(j, strip, count, products);
    }
}

void conv_winograd_forward(const kernel_call *call, const conv *c, const float *x, const float *filter,
                           conv_filter_order order, float *y, float *workspace) {
    job j = {.c = c, .order = order, .panels = workspace};
    int64_t total = winograd_tiles(c), nstrips = count_strips(c),
            strip_products = ELEMENTS * GEMM_ROWS * c->in_channels;
    j.strips = j.panels + panels_count(c);
    j.products = j.strips + filters_count(c, call->nthreads);
    for (int64_t g = 0; g < c->groups; g++) {
        j.x = x + g * c->in_channels * c->in.channel_step;
        j.filter = filter + g * order.group;
        j.y = y + g * c->out_channels * c->out.channel_step;
        if (!in_one_batch(c)) parallel_for(call, nstrips, 1, transform_filters, &j);
        for (j.first = 0; j.first < total; j.first += BATCH_TILES) {
            j.ntiles = total - j.first < BATCH_TILES ? total - j.first : BATCH_TILES;
            parallel_for(call, c->in_channels, 8, transform_inputs, &j);
            parallel_for(call, nstrips, grain_of_products(strip_products * j.ntiles), multiply_strips, &j);
        }
    }
}
