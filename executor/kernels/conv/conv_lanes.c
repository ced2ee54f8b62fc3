/* conv_lanes.c: convolution with few channels and many images: every lane of a vector is an image.
 *
 * VEC images are turned into planes of vectors, [channel][row][column][image], with zeros around them. A tap is then
 * one whole vector wherever its window lies, so that neither short rows nor borders leave lanes idle, and strides cost
 * nothing. y and dx are register tiles of up to GEMM_ROWS output channels by two windows side by side; the filter's
 * gradient is a tile of output channels by taps that adds up over all windows, and its lanes in the end.
 *
 * The invariant: an output is one chain of additions over its taps; an element of the filter's gradient is one chain
 * over the images of a lane in a batch; batches are added in order. Neither depends on tiles or threads. */
#include "executor/kernels/conv/conv.h"

enum { TURN_FLOATS = 1 << 20, GROUP_FLOATS = 1 << 20, MOST_TAPS = 64 };

struct conv_lanes {
    int64_t rows, columns; /* of a plane with its zeros */
    int64_t groups;        /* of VEC images, in a batch of the filter's gradient */
};

/* Floats of the planes of VEC images; windows of one channel. */
static int64_t planes_count(const conv *c) {
    return c->in.channels * c->lanes->rows * c->lanes->columns * VEC;
}
static int64_t windows_count(const conv *c) {
    return c->out.channels * c->positions * VEC;
}
static int64_t groups_of(const conv *c) {
    return (c->in.count + VEC - 1) / VEC;
}
static int64_t strips_of(int64_t rows, int64_t most) {
    return (rows + most - 1) / most;
}
static int64_t strips_count(const conv *c) {
    return c->groups * gemm_strips(c->out_channels) * c->patch * GEMM_STRIP;
}

weft_status conv_lanes_prepare(const kernel_prepare *p, conv *c) {
    const window *w = &c->w;
    bool few = c->patch <= GEMM_DEPTH || c->out_channels <= 2 * GEMM_ROWS;
    if (!c->copy || !few || w->size[0] * w->size[1] > MOST_TAPS || 5 * c->in.count < 4 * VEC * groups_of(c))
        return NULL;
    conv_lanes lanes = {.rows = (c->out.height - 1) * w->stride[0] + (w->size[0] - 1) * w->dilation[0] + 1,
                        .columns = (c->out.width - 1) * w->stride[1] + (w->size[1] - 1) * w->dilation[1] + 1};
    int64_t count = (c->in.channels * lanes.rows * lanes.columns + c->out.channels * c->positions) * VEC;
    if (count > GROUP_FLOATS) return NULL;
    lanes.groups = TURN_FLOATS / count;
    if (lanes.groups > groups_of(c)) lanes.groups = groups_of(c);
    c->lanes = ARENA_NEW(p->arena, conv_lanes);
    if (!c->lanes) return base_out_of_memory();
    *c->lanes = lanes;
    return NULL;
}

size_t conv_lanes_workspace(const conv *c, int nthreads) {
    int64_t nparts = nthreads < groups_of(c) ? nthreads : groups_of(c);
    int64_t count = planes_count(c) + windows_count(c), forward = strips_count(c) + nparts * count;
    int64_t backward = c->lanes->groups * count;
    return (size_t)(forward > backward ? forward : backward) * sizeof(float);
}

/* --- images become lanes, and back -------------------------------------------------------------------------------- */

/* n elements (at most VEC) of `nimages` images, `step` floats apart. */
static inline void take_square(const float *from, int64_t step, int64_t nimages, int64_t n, float *to) {
    vec v[VEC];
    vec_lanes some = vec_first_lanes(n);
    for (int i = 0; i < VEC; i++) v[i] = i < nimages ? vec_load_lanes(from + i * step, some) : (vec){0};
    vec_transpose(v);
    for (int i = 0; i < VEC && i < n; i++) vec_store(to + i * VEC, v[i]);
}
static inline void put_square(const float *from, int64_t step, int64_t nimages, int64_t n, float *to) {
    vec v[VEC];
    vec_lanes some = vec_first_lanes(n);
    for (int i = 0; i < VEC; i++) v[i] = i < n ? vec_load(from + i * VEC) : (vec){0};
    vec_transpose(v);
    for (int i = 0; i < VEC && i < nimages; i++) vec_store_lanes(to + i * step, v[i], some);
}

static void take_run(const float *from, int64_t step, int64_t nimages, int64_t n, float *to) {
    for (int64_t at = 0; at < n; at += VEC)
        take_square(from + at, step, nimages, n - at < VEC ? n - at : VEC, to + at * VEC);
}

/* One channel with zeros around it. */
static void take_plane(const conv *c, const float *x, int64_t nimages, float *to) {
    const conv_lanes *l = c->lanes;
    span columns = span_inside(l->columns, 1, -c->w.before[1], c->in.width);
    for (int64_t r = 0; r < l->rows; r++, to += l->columns * VEC) {
        int64_t y = r - c->w.before[0], inside = y >= 0 && y < c->in.height ? columns.end - columns.first : 0;
        memset(to, 0, (size_t)(columns.first * VEC) * sizeof *to);
        if (inside)
            take_run(x + y * c->in.row_step + columns.first - c->w.before[1], c->in.image, nimages, inside,
                     to + columns.first * VEC);
        float *rest = to + (columns.first + inside) * VEC;
        memset(rest, 0, (size_t)((l->columns - columns.first - inside) * VEC) * sizeof *to);
    }
}

static int64_t images_of(const conv *c, int64_t group) {
    int64_t left = c->in.count - group * VEC;
    return left < VEC ? left : VEC;
}

/* --- y ------------------------------------------------------------------------------------------------------------ */

typedef struct job {
    const conv *c;
    const float *x, *dy;
    float *y, *dw;
    const float *strips;  /* filters: [group][strip][tap][GEMM_STRIP] */
    float *parts;         /* planes and windows of a part, or of a group of images */
    int64_t first, count; /* groups of images of this batch */
} job;

/* Windows side by side: taps [rows.first, rows.end) x [columns.first, columns.end) of each channel exist. */
typedef struct target {
    const float *from; /* tap 0 of the first channel */
    const float *w;
    span rows, columns;
    float *to;
} target;

static inline __attribute__((always_inline)) void tile(int rows, int width, const conv *c, const target *t) {
    vec sum[GEMM_ROWS][2] = {{{0}}};
    int64_t row_step = c->lanes->columns * c->w.dilation[0] * VEC, plane = c->lanes->rows * c->lanes->columns * VEC;
    int64_t step = c->w.dilation[1] * VEC, next = c->w.stride[1] * VEC, n = t->columns.end - t->columns.first;
    for (int64_t in = 0; in < c->in_channels; in++)
        for (int64_t i = t->rows.first; i < t->rows.end; i++) {
            const float *x = t->from + in * plane + i * row_step + t->columns.first * step;
            const float *w = t->w + ((in * c->w.size[0] + i) * c->w.size[1] + t->columns.first) * GEMM_STRIP;
            for (int64_t k = 0; k < n; k++, x += step, w += GEMM_STRIP) {
                vec left = vec_load(x), right = width > 1 ? vec_load(x + next) : left;
#pragma GCC unroll 16
                for (int r = 0; r < rows; r++) {
                    vec f = vec_all(w[r]);
                    sum[r][0] = vec_fma(f, left, sum[r][0]);
                    if (width > 1) sum[r][1] = vec_fma(f, right, sum[r][1]);
                }
            }
        }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        vec_store(t->to + r * c->positions * VEC, sum[r][0]);
        if (width > 1) vec_store(t->to + r * c->positions * VEC + VEC, sum[r][1]);
    }
}

typedef void (*tile_fn)(const conv *c, const target *t);
#define DEFINE_TILE(rows)                                                                                              \
    static void tile_##rows(const conv *c, const target *t) {                                                          \
        tile(rows, 2, c, t);                                                                                           \
    }                                                                                                                  \
    static void tile_##rows##_narrow(const conv *c, const target *t) {                                                 \
        tile(rows, 1, c, t);                                                                                           \
    }
#define TILE_ENTRY(rows) {tile_##rows##_narrow, tile_##rows},
GEMM_EACH_ROWS(DEFINE_TILE)
static const tile_fn tiles[GEMM_ROWS][2] = {GEMM_EACH_ROWS(TILE_ENTRY)};

/* Taps of window `at` that see the image, in dimension d. */
static span taps_inside(const conv *c, int d, int64_t at) {
    int64_t shift = at * c->w.stride[d] - c->w.before[d];
    return span_inside(c->w.size[d], c->w.dilation[d], shift, d ? c->in.width : c->in.height);
}

static void convolve_row(const conv *c, const float *planes, const float *w, int64_t rows, int64_t y, float *to) {
    target t = {.w = w, .rows = taps_inside(c, 0, y)};
    for (int64_t x = 0; x < c->out.width; x += 2) {
        int64_t width = x + 1 < c->out.width ? 2 : 1;
        t.columns = taps_inside(c, 1, x);
        span last = taps_inside(c, 1, x + width - 1);
        if (last.first < t.columns.first) t.columns.first = last.first;
        if (last.end > t.columns.end) t.columns.end = last.end;
        t.from = planes + (y * c->w.stride[0] * c->lanes->columns + x * c->w.stride[1]) * VEC;
        t.to = to + x * VEC;
        tiles[rows - 1][width - 1](c, &t);
    }
}

/* Items are groups of images. */
static void convolve_groups(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t plane = c->lanes->rows * c->lanes->columns * VEC, nstrips = gemm_strips(c->out_channels);
    float *planes = j->parts + part * (planes_count(c) + windows_count(c)), *windows = planes + planes_count(c);
    for (int64_t n = first; n < end; n++) {
        for (int64_t in = 0; in < c->in.channels; in++)
            take_plane(c, j->x + n * VEC * c->in.image + in * c->in.channel_step, images_of(c, n), planes + in * plane);
        for (int64_t s = 0; s < c->groups * nstrips; s++) {
            int64_t g = s / nstrips, o = gemm_strip_start(c->out_channels, nstrips, s % nstrips);
            int64_t rows = gemm_strip_start(c->out_channels, nstrips, s % nstrips + 1) - o;
            float *to = windows + (g * c->out_channels + o) * c->positions * VEC;
            for (int64_t y = 0; y < c->out.height; y++)
                convolve_row(c, planes + g * c->in_channels * plane, j->strips + s * c->patch * GEMM_STRIP, rows, y,
                             to + y * c->out.width * VEC);
        }
        for (int64_t o = 0; o < c->out.channels; o++)
            for (int64_t at = 0; at < c->positions; at += VEC)
                put_square(windows + (o * c->positions + at) * VEC, c->out.image, images_of(c, n),
                           c->positions - at < VEC ? c->positions - at : VEC,
                           j->y + n * VEC * c->out.image + o * c->out.channel_step + at);
    }
}

static void pack_strips(const conv *c, const float *filter, float *to) {
    int64_t nstrips = gemm_strips(c->out_channels);
    for (int64_t s = 0; s < c->groups * nstrips; s++) {
        int64_t o = gemm_strip_start(c->out_channels, nstrips, s % nstrips);
        int64_t rows = gemm_strip_start(c->out_channels, nstrips, s % nstrips + 1) - o;
        const float *from = filter + (s / nstrips * c->out_channels + o) * c->patch;
        for (int64_t k = 0; k < c->patch; k++, to += GEMM_STRIP)
            for (int64_t r = 0; r < rows; r++) to[r] = from[r * c->patch + k];
    }
}

void conv_lanes_forward(const kernel_call *call, const conv *c, const float *x, const float *filter, float *y,
                        float *workspace) {
    job j = {.c = c, .x = x, .y = y, .strips = workspace, .parts = workspace + strips_count(c)};
    pack_strips(c, filter, workspace);
    parallel_for(call, groups_of(c), 1, convolve_groups, &j);
}

/* --- the gradient of the filter ----------------------------------------------------------------------------------- */

/* sum[channel][tap] += dy times what windows see of the tap; `channels` and `taps` are constants where this is inlined,
 * so that sums lie in registers. */
static inline __attribute__((always_inline)) void correlate(int channels, int taps, const conv *c, const float *dy,
                                                            const float *const *from, float *sums) {
    int64_t step = c->w.stride[1] * VEC, row_step = c->lanes->columns * c->w.stride[0] * VEC;
    int64_t plane = c->positions * VEC;
    vec sum[CONV_TILE_CHANNELS][CONV_TILE_TAPS];
    for (int o = 0; o < channels; o++)
        for (int t = 0; t < taps; t++) sum[o][t] = vec_load(sums + (o * MOST_TAPS + t) * VEC);
    for (int64_t y = 0; y < c->out.height; y++)
        for (int64_t x = 0, at = y * row_step; x < c->out.width; x++, at += step, dy += VEC) {
            vec d[CONV_TILE_CHANNELS];
#pragma GCC unroll 3
            for (int o = 0; o < channels; o++) d[o] = vec_keep(vec_load(dy + o * plane));
#pragma GCC unroll 9
            for (int t = 0; t < taps; t++) {
                vec v = vec_keep(vec_load(from[t] + at));
#pragma GCC unroll 3
                for (int o = 0; o < channels; o++) sum[o][t] = vec_fma(d[o], v, sum[o][t]);
            }
        }
    for (int o = 0; o < channels; o++)
        for (int t = 0; t < taps; t++) vec_store(sums + (o * MOST_TAPS + t) * VEC, sum[o][t]);
}

typedef void (*correlate_fn)(const conv *c, const float *dy, const float *const *from, float *sums);
#define DEFINE_CORRELATE(taps)                                                                                         \
    static void correlate_1_##taps(const conv *c, const float *dy, const float *const *from, float *sums) {            \
        correlate(1, taps, c, dy, from, sums);                                                                         \
    }                                                                                                                  \
    static void correlate_2_##taps(const conv *c, const float *dy, const float *const *from, float *sums) {            \
        correlate(2, taps, c, dy, from, sums);                                                                         \
    }                                                                                                                  \
    static void correlate_3_##taps(const conv *c, const float *dy, const float *const *from, float *sums) {            \
        correlate(3, taps, c, dy, from, sums);                                                                         \
    }
CONV_EACH_TAPS(DEFINE_CORRELATE)
#define CORRELATE_ENTRY(taps) {correlate_1_##taps, correlate_2_##taps, correlate_3_##taps},
static const correlate_fn correlations[CONV_TILE_TAPS][CONV_TILE_CHANNELS] = {CONV_EACH_TAPS(CORRELATE_ENTRY)};

/* Some output channels by all taps of one input channel, over all groups of images of the batch. */
static void correlate_channels(const job *j, int64_t in, int64_t o, int64_t channels, float *sums) {
    const conv *c = j->c;
    int64_t area = c->w.size[0] * c->w.size[1], ntiles = strips_of(area, CONV_TILE_TAPS);
    int64_t plane = c->lanes->rows * c->lanes->columns * VEC, group = planes_count(c) + windows_count(c);
    for (int64_t n = 0; n < j->count; n++) {
        const float *planes = j->parts + n * group, *dy = planes + planes_count(c) + o * c->positions * VEC;
        for (int64_t s = 0; s < ntiles; s++) {
            int64_t first = gemm_strip_start(area, ntiles, s), taps = gemm_strip_start(area, ntiles, s + 1) - first;
            const float *from[CONV_TILE_TAPS];
            for (int64_t t = 0; t < taps; t++) {
                int64_t row = (first + t) / c->w.size[1] * c->w.dilation[0];
                int64_t column = (first + t) % c->w.size[1] * c->w.dilation[1];
                from[t] = planes + in * plane + (row * c->lanes->columns + column) * VEC;
            }
            correlations[taps - 1][channels - 1](c, dy, from, sums + first * VEC);
        }
    }
}

/* Items are input channels of all groups by a few output channels. */
static void correlate_items(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t area = c->w.size[0] * c->w.size[1], nchannels = strips_of(c->out_channels, CONV_TILE_CHANNELS);
    _Alignas(64) float sums[CONV_TILE_CHANNELS * MOST_TAPS * VEC];
    (void)part;
    for (int64_t item = first; item < end; item++) {
        int64_t in = item / nchannels, o = gemm_strip_start(c->out_channels, nchannels, item % nchannels);
        int64_t channels = gemm_strip_start(c->out_channels, nchannels, item % nchannels + 1) - o;
        int64_t out = in / c->in_channels * c->out_channels + o;
        memset(sums, 0, sizeof sums);
        correlate_channels(j, in, out, channels, sums);
        for (int64_t r = 0; r < channels; r++)
            for (int64_t t = 0; t < area; t++) {
                float *dw = &j->dw[(out + r) * c->patch + in % c->in_channels * area + t];
                *dw = vec_sum(vec_load(sums + (r * MOST_TAPS + t) * VEC)) + (j->first ? *dw : 0);
            }
    }
}

/* Items are channels of the input and then of the output, for one group of images after another. */
static void take_planes(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    int64_t nchannels = c->in.channels + c->out.channels, plane = c->lanes->rows * c->lanes->columns * VEC;
    (void)part;
    for (int64_t item = first; item < end; item++) {
        int64_t n = item / nchannels, channel = item % nchannels, out = channel - c->in.channels;
        int64_t image = (j->first + n) * VEC, nimages = images_of(c, j->first + n);
        float *planes = j->parts + n * (planes_count(c) + windows_count(c));
        if (out < 0)
            take_plane(c, j->x + image * c->in.image + channel * c->in.channel_step, nimages, planes + channel * plane);
        else
            take_run(j->dy + image * c->out.image + out * c->out.channel_step, c->out.image, nimages, c->positions,
                     planes + planes_count(c) + out * c->positions * VEC);
    }
}

void conv_lanes_backward(const kernel_call *call, const conv *c, const float *x, const float *dy, float *dfilter,
                         float *workspace) {
    job j = {.c = c, .x = x, .dy = dy, .dw = dfilter, .parts = workspace};
    int64_t total = groups_of(c), nchannels = c->in.channels + c->out.channels;
    int64_t item_products = c->positions * CONV_TILE_CHANNELS * c->w.size[0] * c->w.size[1] * VEC;
    for (j.first = 0; j.first < total; j.first += j.count) {
        j.count = total - j.first < c->lanes->groups ? total - j.first : c->lanes->groups;
        parallel_for(call, j.count * nchannels, grain_of_bytes(c->positions * VEC * 4), take_planes, &j);
        parallel_for(call, c->in.channels * strips_of(c->out_channels, CONV_TILE_CHANNELS),
                     grain_of_products(item_products * j.count), correlate_items, &j);
    }
}
