/* conv_winograd.c: convolution by filters of 3 x 3, four by four outputs at a time with a quarter of the products.
 *
 * After Winograd and Lavin (Fast Algorithms for Convolutional Neural Networks, 2015), F(4 x 4, 3 x 3): with d a tile of
 * 6 x 6 inputs and g a filter, the outputs are A^T [(G g G^T) * (B^T d B)] A, where * is element by element. Summed
 * over input channels these are 36 matrix products, one for each element: [out, in] times [in, tiles]. Filters are
 * written as the strips, inputs as the panels that the register tile of gemm_packed.c takes, so nothing is packed.
 *
 * The transforms add and subtract numbers up to 8 times as large as the result: about a digit is lost. For many
 * channels and large images only, where products are what takes time.
 *
 * The invariant: an output depends on its tile and its filters alone, in an order fixed by their number. */
#include "executor/kernels/conv.h"

enum { EDGE = 6, STEP = 4, ELEMENTS = EDGE * EDGE, TURN = 2 * GEMM_COLUMNS };

/* Tiles are numbered over images, rows, columns; TURN of them go through the workspace at a time. */
typedef struct job {
    const conv *c;
    const float *x, *filter;
    float *y;
    conv_filter_order order;
    int64_t group, first, ntiles; /* tiles of this turn */
    float *strips, *panels, *products;
} job;

static int64_t tiles_across(int64_t extent) {
    return (extent + STEP - 1) / STEP;
}
static int64_t tiles_of_image(const conv *c) {
    return tiles_across(c->out.height) * tiles_across(c->out.width);
}
static int64_t count_strips(const conv *c) {
    return (c->out_channels + GEMM_ROWS - 1) / GEMM_ROWS;
}

void conv_winograd_prepare(conv *c) {
    const window *w = &c->w;
    int64_t ntiles = c->in.count * tiles_of_image(c), used = c->positions * c->in.count;
    bool fits = c->panels && w->size[0] == 3 && w->size[1] == 3 && w->stride[0] == 1 && w->stride[1] == 1 &&
                w->dilation[0] == 1 && w->dilation[1] == 1 && c->in.image < INT32_MAX && c->out.image < INT32_MAX;
    /* Transforms take as long as 16 more channels on each side; filters must serve many tiles; tiles must be full. */
    c->winograd = fits && c->in_channels >= 32 && c->in_channels <= GEMM_DEPTH && c->out_channels >= 32 &&
                  ntiles >= 2 * VEC && 2 * ntiles >= c->out_channels && 4 * used >= 3 * ntiles * STEP * STEP;
}

/* Floats of the three parts of the workspace. */
static int64_t strips_count(const conv *c) {
    return ELEMENTS * count_strips(c) * c->in_channels * GEMM_STRIP;
}
static int64_t panels_count(const conv *c) {
    return ELEMENTS * c->in_channels * TURN;
}
static int64_t products_count(const conv *c) {
    return ELEMENTS * c->out_channels * TURN;
}

size_t conv_winograd_workspace(const conv *c) {
    return (size_t)(strips_count(c) + panels_count(c) + products_count(c)) * sizeof(float);
}

/* --- filters ------------------------------------------------------------------------------------------------------ */

/* G g of a column of 3. */
static inline void widen(const vec g[3], vec out[EDGE]) {
    vec even = (g[0] + g[2]) * vec_all(-1.0f / 6), odd = g[1] * vec_all(1.0f / 6);
    vec far = g[0] * vec_all(1.0f / 24) + g[2] * vec_all(1.0f / 6), half = g[1] * vec_all(1.0f / 12);
    out[0] = g[0] * vec_all(0.25f);
    out[1] = even - odd;
    out[2] = even + odd;
    out[3] = far + half;
    out[4] = far - half;
    out[5] = g[2];
}

/* Items are strips of output channels by input channels; lanes are the channels of the strip. */
static void transform_filters(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t nstrips = count_strips(c);
    (void)part;
    for (int64_t item = first; item < end; item++) {
        int64_t strip = item / c->in_channels, in = item % c->in_channels;
        int64_t o = gemm_strip_start(c->out_channels, nstrips, strip);
        int64_t rows = gemm_strip_start(c->out_channels, nstrips, strip + 1) - o;
        const float *from = j->filter + (j->group * j->order.group + o * j->order.out + in * j->order.in);
        for (int64_t lane = 0; lane < rows; lane += VEC) {
            vec g[3][3], column[3][EDGE], out[EDGE];
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < 3; k++) {
                    int tap = j->order.turned ? 8 - (i * 3 + k) : i * 3 + k;
                    int64_t left = rows - lane < VEC ? rows - lane : VEC;
                    g[k][i] = vec_gather_range(from + lane * j->order.out + tap, j->order.out, 0, left);
                }
            for (int k = 0; k < 3; k++) widen(g[k], column[k]);
            for (int i = 0; i < EDGE; i++) {
                vec row[3] = {column[0][i], column[1][i], column[2][i]};
                widen(row, out);
                for (int k = 0; k < EDGE; k++)
                    vec_store(j->strips + (((i * EDGE + k) * nstrips + strip) * c->in_channels + in) * GEMM_STRIP +
                                  lane,
                              out[k]);
            }
        }
    }
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

/* Where VEC tiles are: offsets of their first inputs and outputs, and which of their rows and columns exist. */
typedef struct places {
    int32_t in[VEC], out[VEC];                                                   /* from the first image's channel */
    uint32_t in_rows[EDGE], in_columns[EDGE], out_rows[STEP], out_columns[STEP]; /* a bit for each lane */
} places;

static void find_places(const job *j, int64_t first, places *p) {
    const conv *c = j->c;
    int64_t across = tiles_across(c->out.width), per_image = tiles_of_image(c);
    memset(p, 0, sizeof *p);
    for (int lane = 0; lane < VEC && first + lane < j->ntiles; lane++) {
        int64_t t = j->first + first + lane, at = t % per_image, n = t / per_image;
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
}

/* B^T d of a column of 6. */
static inline void split(const vec d[EDGE], vec out[EDGE]) {
    vec a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], e = d[4] - d[2], f = 2 * (d[3] - d[1]);
    out[0] = 4 * d[0] - 5 * d[2] + d[4];
    out[1] = a + b;
    out[2] = a - b;
    out[3] = e + f;
    out[4] = e - f;
    out[5] = 4 * d[1] - 5 * d[3] + d[5];
}

static void transform_tiles(const conv *c, const places *p, const float *x, float *out) {
    vec column[EDGE][EDGE], result[EDGE];
    for (int k = 0; k < EDGE; k++) {
        vec d[EDGE];
        for (int i = 0; i < EDGE; i++)
            d[i] = vec_gather_at(x + i * c->in.row_step + k, p->in, p->in_rows[i] & p->in_columns[k]);
        split(d, column[k]);
    }
    for (int i = 0; i < EDGE; i++) {
        vec row[EDGE];
        for (int k = 0; k < EDGE; k++) row[k] = column[k][i];
        split(row, result);
        for (int k = 0; k < EDGE; k++) vec_store(out + (i * EDGE + k) * c->in_channels * TURN, result[k]);
    }
}

/* Panels of one element: [panel][input channel][GEMM_COLUMNS]. Items are input channels. */
static void transform_inputs(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    (void)part;
    for (int64_t t = 0; t < j->ntiles; t += VEC) {
        places p;
        find_places(j, t, &p);
        float *panel = j->panels + t / GEMM_COLUMNS * c->in_channels * GEMM_COLUMNS + t % GEMM_COLUMNS;
        for (int64_t in = first; in < end; in++)
            transform_tiles(c, &p, j->x + (j->group * c->in_channels + in) * c->in.channel_step,
                            panel + in * GEMM_COLUMNS);
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Items are elements of the transform. */
static void multiply_elements(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t nstrips = count_strips(c);
    (void)part;
    for (int64_t e = first; e < end; e++)
        for (int64_t s = 0; s < nstrips; s++)
            for (int64_t t = 0; t < j->ntiles; t += GEMM_COLUMNS) {
                int64_t o = gemm_strip_start(c->out_channels, nstrips, s), left = j->ntiles - t;
                gemm_multiply_strip(gemm_strip_start(c->out_channels, nstrips, s + 1) - o, c->in_channels,
                                    j->strips + (e * nstrips + s) * c->in_channels * GEMM_STRIP,
                                    j->panels + e * c->in_channels * TURN + t * c->in_channels,
                                    left < GEMM_COLUMNS ? (left + VEC - 1) / VEC * VEC : GEMM_COLUMNS,
                                    j->products + (e * c->out_channels + o) * TURN + t, TURN);
            }
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

/* A^T m of a column of 6. */
static inline void join(const vec m[EDGE], vec out[STEP]) {
    vec a = m[1] + m[2], b = m[1] - m[2], e = m[3] + m[4], f = m[3] - m[4];
    out[0] = m[0] + a + e;
    out[1] = b + 2 * f;
    out[2] = a + 4 * e;
    out[3] = b + 8 * f + m[5];
}

/* Items are output channels. */
static void transform_outputs(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t element = c->out_channels * TURN;
    (void)part;
    for (int64_t t = 0; t < j->ntiles; t += VEC) {
        places p;
        find_places(j, t, &p);
        for (int64_t o = first; o < end; o++) {
            const float *m = j->products + o * TURN + t;
            float *y = j->y + (j->group * c->out_channels + o) * c->out.channel_step;
            vec column[EDGE][STEP], result[STEP];
            for (int k = 0; k < EDGE; k++) {
                vec d[EDGE];
                for (int i = 0; i < EDGE; i++) d[i] = vec_load(m + (i * EDGE + k) * element);
                join(d, column[k]);
            }
            for (int i = 0; i < STEP; i++) {
                vec row[EDGE];
                for (int k = 0; k < EDGE; k++) row[k] = column[k][i];
                join(row, result);
                for (int k = 0; k < STEP; k++)
                    vec_scatter_at(y + i * c->out.row_step + k, p.out, p.out_rows[i] & p.out_columns[k], result[k]);
            }
        }
    }
}

void conv_winograd_forward(const kernel_call *call, const conv *c, const float *x, const float *filter,
                           conv_filter_order order, float *y, float *workspace) {
    job j = {.c = c, .x = x, .filter = filter, .y = y, .order = order, .strips = workspace};
    j.panels = j.strips + strips_count(c);
    j.products = j.panels + panels_count(c);
    int64_t total = c->in.count * tiles_of_image(c), nfilters = count_strips(c) * c->in_channels;
    for (j.group = 0; j.group < c->groups; j.group++) {
        parallel_for(call, nfilters, 64, transform_filters, &j);
        for (j.first = 0; j.first < total; j.first += TURN) {
            j.ntiles = total - j.first < TURN ? total - j.first : TURN;
            parallel_for(call, c->in_channels, 8, transform_inputs, &j);
            parallel_for(call, ELEMENTS, grain_of_products(c->in_channels * c->out_channels * j.ntiles),
                         multiply_elements, &j);
            parallel_for(call, c->out_channels, 8, transform_outputs, &j);
        }
    }
}
