/* conv_input.c: the gradient of a convolution's input, dP = W^T dy added back into dx, for channels first.
 *
 * A few input channels at a time: all their taps are rows of a product small enough to stay in the second-level cache,
 * and are added into dx from there (col2im). dy is packed once as the right factor; the filters stream by once, in the
 * runs of taps that lie together for each output channel.
 *
 * The invariant: an element of dP is one chain of additions over GEMM_DEPTH output channels, and those chains are added
 * in order; an element of dx adds up taps in order. So it depends neither on pieces nor on threads. */
#include "executor/kernels/conv/conv.h"
#include "executor/kernels/conv/conv_tile.h"

/* MANY_ROWS of the product are computed at a time, or more where one channel has more taps. BLOCK_FLOATS of its two
 * parts may be packed at once. Strips of filters lie a line more apart than they need, so that they fall into sets of
 * their own. */
enum { MANY_ROWS = 9 * GEMM_ROWS, BLOCK_FLOATS = 256 * 1024, STRIP_STEP = GEMM_DEPTH * GEMM_STRIP + GEMM_STRIP };
/* Vectors of an image that is added as one long row. */
enum { FLAT_VECTORS = 16 };

typedef struct job {
    const conv *c;
    const float *filter, *dy; /* of the group */
    int64_t ld;
    float *dx;         /* of the group's first channel in the first image */
    int64_t row, rows; /* rows of windows, over images */
    float *panels, *parts;
} job;

/* Input channels that are computed together. */
static int64_t channels_at_once(const conv *c) {
    int64_t area = c->w.size[0] * c->w.size[1], n = MANY_ROWS / area;
    if (n > c->in_channels) n = c->in_channels;
    return n < 1 ? 1 : n;
}
static int64_t rows_at_once(const conv *c) {
    return channels_at_once(c) * c->w.size[0] * c->w.size[1];
}

/* Rows of windows in a batch. */
static int64_t window_rows(const conv *c) {
    int64_t n = BLOCK_FLOATS / ((c->out_channels + rows_at_once(c)) * c->out.width), most = c->batch * c->out.height;
    if (n > most) n = most;
    return n < 1 ? 1 : n;
}
static int64_t panels_count(const conv *c) {
    return gemm_panels(window_rows(c) * c->out.width) * GEMM_COLUMNS * c->out_channels;
}
/* The filters of a few channels and the product. */
static int64_t filters_count(const conv *c) {
    return gemm_strips(rows_at_once(c)) * STRIP_STEP;
}
static int64_t part_count(const conv *c) {
    return filters_count(c) + rows_at_once(c) * gemm_panels(window_rows(c) * c->out.width) * GEMM_COLUMNS;
}

int64_t conv_input_count(const conv *c, int nthreads) {
    int64_t nitems = (c->in_channels + channels_at_once(c) - 1) / channels_at_once(c);
    return panels_count(c) + part_count(c) * (nthreads < nitems ? nthreads : nitems);
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

/* Items are panels; within one, GEMM_DEPTH channels after another. */
static void pack_gradients(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    int64_t windows = j->rows * j->c->out.width, shift = j->row * j->c->out.width;
    (void)part;
    for (int64_t item = first; item < end; item++) {
        int64_t column = item * GEMM_COLUMNS, left = windows - column;
        const float *from = j->dy + shift + column;
        float *to = j->panels + column * j->c->out_channels;
        vec_lanes some[2] = {vec_first_lanes(left < VEC ? left : VEC), vec_first_lanes(left > 2 * VEC ? VEC
                                                                                       : left > VEC   ? left - VEC
                                                                                                      : 0)};
        for (int64_t o = 0; o < j->c->out_channels; o++, from += j->ld, to += GEMM_COLUMNS) {
            vec_store(to, vec_load_lanes(from, some[0]));
            vec_store(to + VEC, vec_load_lanes(from + VEC, some[1]));
        }
    }
}

/* `rows` taps from the one at `from` on, of `count` output channels: strips, column by column. */
static void pack_filters(const conv *c, const float *from, int64_t rows, int64_t count, float *out) {
    int64_t nstrips = gemm_strips(rows), few = rows / nstrips, nlong = rows % nstrips;
    vec_lanes long_strip = vec_first_lanes(few + 1), short_strip = vec_first_lanes(few);
    for (int64_t k = 0; k < count; k++, from += c->patch, out += GEMM_STRIP) {
        const float *tap = from;
        float *to = out;
        for (int64_t s = 0; s < nstrips; s++, to += STRIP_STEP) {
            if ((int)GEMM_ROWS <= (int)VEC)
                vec_store(to, vec_load_lanes(tap, s < nlong ? long_strip : short_strip));
            else
                vec_copy(to, tap, few + (s < nlong));
            tap += few + (s < nlong);
        }
    }
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* Taps [tap, tap + rows) of all output channels times the panels: [rows, ld]. */
static void multiply_taps(const job *j, int64_t tap, int64_t rows, float *packed, float *product, int64_t ld) {
    const conv *c = j->c;
    int64_t nstrips = gemm_strips(rows), windows = j->rows * c->out.width;
    for (int64_t depth = 0; depth < c->out_channels; depth += GEMM_DEPTH) {
        int64_t left = c->out_channels - depth, count = left < GEMM_DEPTH ? left : GEMM_DEPTH;
        const float *from = j->filter + depth * c->patch + tap;
        pack_filters(c, from, rows, count, packed);
        from += left > count ? count * c->patch : rows - depth * c->patch;
        conv_ahead ahead = conv_ahead_of(from, c->patch, count, rows);
        for (int64_t s = 0; s < nstrips; s++) {
            int64_t at = gemm_strip_start(rows, nstrips, s), n = gemm_strip_start(rows, nstrips, s + 1) - at;
            for (int64_t column = 0; column < windows; column += GEMM_COLUMNS) {
                conv_tile t = {.count = count,
                               .a = packed + s * STRIP_STEP,
                               .b = j->panels + column * c->out_channels + depth * GEMM_COLUMNS,
                               .c = product + at * ld + column,
                               .ldc = ld,
                               .columns = GEMM_COLUMNS,
                               .add = depth > 0};
                conv_tile_multiply(CONV_COLUMNS, n, &t, &ahead);
            }
        }
    }
}

/* --- adding back -------------------------------------------------------------------------------------------------- */

static void add_run(float *restrict to, const float *restrict from, int64_t n, int64_t step) {
    if (step == 1) {
        for (; n >= VEC; n -= VEC, to += VEC, from += VEC) vec_store(to, vec_load(to) + vec_load(from));
        vec_lanes some = vec_first_lanes(n);
        vec_store_lanes(to, vec_load_lanes(to, some) + vec_load_lanes(from, some), some);
    } else if (step == 2) {
        for (; n > 0; n -= VEC, to += 2 * VEC, from += VEC) {
            vec v = vec_load_first(from, n < VEC ? n : VEC);
            int64_t left = 2 * n - 1;
            vec_lanes lower = vec_first_lanes(left < VEC ? left : VEC);
            vec_lanes upper = vec_first_lanes(left < VEC ? 0 : left < 2 * VEC ? left - VEC : VEC);
            vec_store_lanes(to, vec_load_lanes(to, lower) + vec_lower(v, (vec){0}), lower);
            vec_store_lanes(to + VEC, vec_load_lanes(to + VEC, upper) + vec_upper(v, (vec){0}), upper);
        }
    } else {
        for (int64_t i = 0; i < n; i++) to[step * i] += from[i];
    }
}

/* A tap of each channel: where it lies in the input, for which windows. */
typedef struct tap {
    int64_t row, column; /* of window (0, 0) */
    span columns;
    uint32_t inside[FLAT_VECTORS]; /* of an image as one row: windows that see the tap, a bit each */
} tap;

/* Images shorter than a vector are added as one row each, which takes outputs as large as inputs and whole images. */
static bool lies_flat(const job *j) {
    const conv *c = j->c;
    return c->out.width < VEC && c->positions <= FLAT_VECTORS * VEC && c->w.stride[0] == 1 && c->w.stride[1] == 1 &&
           c->out.height == c->in.height && c->out.width == c->in.width && j->row % c->out.height == 0 &&
           j->rows % c->out.height == 0;
}

static tap tap_of(const job *j, int64_t t) {
    const conv *c = j->c;
    const window *w = &c->w;
    tap r = {.row = t / w->size[1] * w->dilation[0] - w->before[0],
             .column = t % w->size[1] * w->dilation[1] - w->before[1]};
    r.columns = span_inside(c->out.width, w->stride[1], r.column, c->in.width);
    if (!lies_flat(j)) return r;
    span rows = span_inside(c->out.height, 1, r.row, c->in.height);
    for (int64_t y = rows.first; y < rows.end; y++)
        for (int64_t x = r.columns.first; x < r.columns.end; x++) {
            int64_t at = y * c->out.width + x;
            r.inside[at / VEC] |= (uint32_t)1 << at % VEC;
        }
    return r;
}

static void add_flat(const job *j, const tap *t, const float *from, float *to) {
    const conv *c = j->c;
    to += j->row / c->out.height * c->in.image + t->row * c->in.row_step + t->column;
    for (int64_t r = 0; r < j->rows; r += c->out.height, from += c->positions, to += c->in.image)
        for (int64_t at = 0; at < c->positions; at += VEC) {
            uint32_t bits = t->inside[at / VEC];
            vec_store_bits(to + at, vec_load_bits(to + at, bits) + vec_load_bits(from + at, bits), bits);
        }
}

/* One tap of one channel: `from` has the batch's windows, `to` is the channel. */
static void add_rows(const job *j, const tap *t, const float *from, float *to) {
    const conv *c = j->c;
    const window *w = &c->w;
    int64_t n = t->columns.end - t->columns.first;
    int64_t image = j->row / c->out.height, y = j->row % c->out.height;
    from += t->columns.first;
    to += t->columns.first * w->stride[1] + t->column;
    for (int64_t r = 0; r < j->rows && n > 0; r++, from += c->out.width) {
        int64_t row = y * w->stride[0] + t->row;
        if (row >= 0 && row < c->in.height)
            add_run(to + image * c->in.image + row * c->in.row_step, from, n, w->stride[1]);
        if (++y == c->out.height) y = 0, image++;
    }
}

/* Items are a few input channels each. */
static void add_channels(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t most = channels_at_once(c), area = c->w.size[0] * c->w.size[1];
    int64_t ld = gemm_panels(j->rows * c->out.width) * GEMM_COLUMNS;
    float *packed = j->parts + part * part_count(c), *product = packed + filters_count(c);
    for (int64_t item = first; item < end; item++) {
        int64_t channel = item * most, channels = c->in_channels - channel < most ? c->in_channels - channel : most;
        multiply_taps(j, channel * area, channels * area, packed, product, ld);
        for (int64_t i = 0; i < area; i++) {
            tap t = tap_of(j, i);
            for (int64_t k = 0; k < channels; k++)
                (lies_flat(j) ? add_flat : add_rows)(j, &t, product + (k * area + i) * ld,
                                                     j->dx + (channel + k) * c->in.channel_step);
        }
    }
}

void conv_input_add(const kernel_call *call, const conv *c, const float *filter, const float *dy, int64_t ld,
                    int64_t nimages, float *dx, float *workspace) {
    int64_t most = window_rows(c), total = nimages * c->out.height, nchannels = channels_at_once(c);
    job j = {.c = c, .filter = filter, .dy = dy, .ld = ld, .dx = dx, .panels = workspace};
    j.parts = workspace + panels_count(c);
    for (j.row = 0; j.row < total; j.row += most) {
        j.rows = total - j.row < most ? total - j.row : most;
        int64_t windows = j.rows * c->out.width;
        parallel_for(call, gemm_panels(windows), grain_of_bytes(c->out_channels * GEMM_COLUMNS * 4), pack_gradients,
                     &j);
        parallel_for(call, (c->in_channels + nchannels - 1) / nchannels,
                     grain_of_products(rows_at_once(c) * windows * c->out_channels), add_channels, &j);
    }
}
