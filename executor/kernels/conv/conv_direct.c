/* conv_direct.c: convolution straight from a padded copy of the images.
 *
 * Windows side by side see a tap side by side. So in a copy with zeros around it a vector of windows is one load for
 * each tap, wherever it lies: no matrix of columns is made. A register tile holds up to GEMM_ROWS output channels of
 * two vectors of windows; taps are offsets into the copy, the same for all windows. Where windows move by s columns the
 * copy keeps columns apart by their remainder by s, so that the load stays one load. For channels first.
 *
 * The invariant: an output is one chain of additions over GEMM_DEPTH taps, and those chains are added in order. So it
 * depends neither on tiles nor on threads. */
#include "executor/kernels/conv/conv.h"

enum { ROW_STRIDE = GEMM_DEPTH + VEC, BLOCK_STRIPS = 16, MANY_FLOATS = 1 << 20 };

struct conv_direct {
    int64_t group; /* images that are copied at once */
    int64_t plane; /* floats of a channel of dy's copy: rows of row_length, up to a whole vector */
};

/* --- preparation -------------------------------------------------------------------------------------------------- */

/* Lanes of vectors that cover a row of windows. */
static int64_t lanes_of_row(const conv *c) {
    return (c->out.width + VEC - 1) / VEC * VEC;
}

/* Packing a panel costs about as much as multiplying it by 14 rows of filters. Here lanes beyond the end of a row are
 * lost, and the copy is walked through once for every GEMM_DEPTH taps. */
static bool forward_pays(const conv *c) {
    bool few = c->patch <= GEMM_DEPTH || c->out_channels <= 2 * GEMM_ROWS;
    return few && c->out.width * (c->out_channels + 14) > lanes_of_row(c) * c->out_channels;
}

/* With few taps a channel there are more loads than products; lanes between rows are lost; what a tile needs to begin
 * and end must be little beside what it adds up. */
static bool filter_pays(const conv *c) {
    int64_t area = c->w.size[0] * c->w.size[1], reach = (c->w.size[1] - 1) * c->w.dilation[1];
    return area >= 4 && c->w.stride[0] == 1 && c->w.stride[1] == 1 && c->out_channels <= 2 * GEMM_ROWS &&
           c->out.width >= reach && c->in.count * c->positions >= 64 * VEC;
}

weft_status conv_direct_prepare(const kernel_prepare *p, conv *c) {
    if (!c->copy) return NULL;
    c->direct_forward = forward_pays(c);
    c->direct_filter = filter_pays(c);
    if (!c->direct_forward && !c->direct_filter) return NULL;
    conv_direct d = {.group = MANY_FLOATS / c->copy->image,
                     .plane = (c->out.height * c->copy->row_length + VEC - 1) / VEC * VEC};
    if (d.group > c->in.count) d.group = c->in.count;
    if (d.group < 1) d.group = 1;
    c->direct = ARENA_NEW(p->arena, conv_direct);
    if (!c->direct) return base_out_of_memory();
    *c->direct = d;
    return NULL;
}

size_t conv_direct_workspace(const conv *c) {
    const conv_direct *d = c->direct;
    int64_t count = conv_copy_count(c, d->group);
    if (c->direct_filter) count += d->group * c->out.channels * d->plane;
    return (size_t)count * sizeof(float);
}

typedef struct job {
    const conv *c;
    int64_t images;
    const float *x, *filter; /* x, y and dy: of the images of this batch */
    float *y, *copy;
    const float *dy;
    float *dy_copy, *dfilter;
    bool add; /* to dfilter: images of an earlier batch are in there */
} job;

/* --- the register tile -------------------------------------------------------------------------------------------- */

/* Two vectors of windows: where they begin in the copy and in the output, and how many windows they have. */
typedef struct pair {
    const float *from[2];
    float *to[2];
    int64_t count[2];
    int64_t channel_step; /* of the output */
    bool add;             /* to what is there */
} pair;

static inline __attribute__((always_inline)) void store_windows(float *to, vec sum, int64_t n, bool add) {
    if (add) sum += n == VEC ? vec_load(to) : vec_load_first(to, n);
    if (n == VEC)
        vec_store(to, sum);
    else
        vec_store_first(to, sum, n);
}

static inline __attribute__((always_inline)) void tile(int rows, int64_t count, const float *w, const int32_t *offset,
                                                       const pair *p) {
    vec sum[GEMM_ROWS][2] = {{{0}}};
    for (int64_t k = 0; k < count; k++, w++) {
        vec left = vec_load(p->from[0] + offset[k]), right = vec_load(p->from[1] + offset[k]);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            vec x = vec_all(w[i * ROW_STRIDE]);
            sum[i][0] = vec_fma(x, left, sum[i][0]);
            sum[i][1] = vec_fma(x, right, sum[i][1]);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        store_windows(p->to[0] + i * p->channel_step, sum[i][0], p->count[0], p->add);
        if (p->count[1]) store_windows(p->to[1] + i * p->channel_step, sum[i][1], p->count[1], p->add);
    }
}

typedef void (*tile_fn)(int64_t count, const float *w, const int32_t *offset, const pair *p);
#define DEFINE_TILE(rows)                                                                                              \
    static void tile_##rows(int64_t count, const float *w, const int32_t *offset, const pair *p) {                     \
        tile(rows, count, w, offset, p);                                                                               \
    }
#define TILE_ENTRY(rows) tile_##rows,
GEMM_EACH_ROWS(DEFINE_TILE)
static const tile_fn tiles[GEMM_ROWS] = {GEMM_EACH_ROWS(TILE_ENTRY)};

/* --- windows ------------------------------------------------------------------------------------------------------ */

/* Vectors of windows of one group, one row of one image after another. */
typedef struct cursor {
    int64_t row, end, column; /* row: of all images of the batch */
} cursor;

/* The next vector as side `side` of the pair; none left: one without windows, which reads where the other one does. */
static void next_vector(const job *j, int64_t g, int64_t o, cursor *at, int side, pair *p) {
    const conv *c = j->c;
    const conv_copy *d = c->copy;
    if (at->row == at->end) {
        p->from[side] = p->from[0];
        p->count[side] = 0;
        return;
    }
    int64_t n = at->row / c->out.height, y = at->row % c->out.height;
    int64_t left = c->out.width - at->column;
    p->from[side] = j->copy + n * d->image + g * c->in_channels * d->channel +
                    y * c->w.stride[0] * c->w.stride[1] * d->row_length + at->column;
    p->to[side] =
        j->y + n * c->out.image + (g * c->out_channels + o) * c->out.channel_step + y * c->out.row_step + at->column;
    p->count[side] = left < VEC ? left : VEC;
    at->column += VEC;
    if (at->column < c->out.width) return;
    at->column = 0;
    at->row++;
}

/* Up to BLOCK_STRIPS strips of filters from channel o on, taps [depth, depth + count), for the rows of windows. */
static void convolve_block(const job *j, int64_t g, int64_t o, int64_t channels, int64_t depth, int64_t count,
                           cursor at) {
    _Alignas(64) float packed[BLOCK_STRIPS * GEMM_ROWS * ROW_STRIDE];
    const conv *c = j->c;
    const float *w = j->filter + (g * c->out_channels + o) * c->patch + depth;
    int64_t nstrips = (channels + GEMM_ROWS - 1) / GEMM_ROWS;
    for (int64_t i = 0; i < channels; i++) vec_copy(packed + i * ROW_STRIDE, w + i * c->patch, count);
    pair p = {.channel_step = c->out.channel_step, .add = depth > 0};
    while (at.row < at.end) {
        next_vector(j, g, o, &at, 0, &p);
        next_vector(j, g, o, &at, 1, &p);
        for (int64_t s = 0; s < nstrips; s++) {
            int64_t first = gemm_strip_start(channels, nstrips, s), end = gemm_strip_start(channels, nstrips, s + 1);
            pair strip = p;
            strip.to[0] += first * c->out.channel_step;
            if (p.count[1]) strip.to[1] += first * c->out.channel_step;
            tiles[end - first - 1](count, packed + first * ROW_STRIDE, c->copy->taps + depth, &strip);
        }
    }
}

/* Items are rows of windows. */
static void convolve_rows(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    (void)part;
    for (int64_t g = 0; g < c->groups; g++)
        for (int64_t o = 0; o < c->out_channels; o += BLOCK_STRIPS * GEMM_ROWS)
            for (int64_t depth = 0; depth < c->patch; depth += GEMM_DEPTH) {
                int64_t channels = c->out_channels - o, count = c->patch - depth;
                if (channels > BLOCK_STRIPS * GEMM_ROWS) channels = BLOCK_STRIPS * GEMM_ROWS;
                if (count > GEMM_DEPTH) count = GEMM_DEPTH;
                convolve_block(j, g, o, channels, depth, count, (cursor){first, end, 0});
            }
}

/* --- the gradient of the filter ----------------------------------------------------------------------------------- */

/* For windows that move by one. dy is copied into rows as long as those of the images' copy, with zeros in between. So
 * an image is one long row to both. A tile of output channels and taps of one input channel walks along it: every
 * channel's dy times every tap's inputs, vector after vector. Lanes are added up at the end. */

typedef struct correlation {
    const float *dy, *from; /* of the first image */
    const int32_t *offset;
    float *dw;
} correlation;

/* `channels` and `taps` are constants where this is inlined, so that `sum` lies in registers. */
static inline __attribute__((always_inline)) void correlate(int channels, int taps, const job *j,
                                                            const correlation *r) {
    const conv *c = j->c;
    int64_t plane = c->direct->plane;
    vec sum[CONV_TILE_CHANNELS][CONV_TILE_TAPS] = {{{0}}};
    const float *from[CONV_TILE_TAPS];
    for (int64_t n = 0; n < j->images; n++) {
        const float *dy = r->dy + n * c->out.channels * plane;
        for (int t = 0; t < taps; t++) from[t] = r->from + n * c->copy->image + r->offset[t];
        for (int64_t q = 0; q < plane; q += VEC) {
            vec d[CONV_TILE_CHANNELS];
#pragma GCC unroll 3
            for (int o = 0; o < channels; o++) d[o] = vec_keep(vec_load(dy + o * plane + q));
#pragma GCC unroll 9
            for (int t = 0; t < taps; t++) {
                vec x = vec_keep(vec_load(from[t] + q));
#pragma GCC unroll 3
                for (int o = 0; o < channels; o++) sum[o][t] = vec_fma(d[o], x, sum[o][t]);
            }
        }
    }
#pragma GCC unroll 3
    for (int o = 0; o < channels; o++)
#pragma GCC unroll 9
        for (int t = 0; t < taps; t++) {
            float *dw = &r->dw[o * c->patch + t];
            *dw = vec_sum(sum[o][t]) + (j->add ? *dw : 0);
        }
}

typedef void (*correlate_fn)(const job *j, const correlation *r);
#define DEFINE_CORRELATE(taps)                                                                                         \
    static void correlate_1_##taps(const job *j, const correlation *r) {                                               \
        correlate(1, taps, j, r);                                                                                      \
    }                                                                                                                  \
    static void correlate_2_##taps(const job *j, const correlation *r) {                                               \
        correlate(2, taps, j, r);                                                                                      \
    }                                                                                                                  \
    static void correlate_3_##taps(const job *j, const correlation *r) {                                               \
        correlate(3, taps, j, r);                                                                                      \
    }
CONV_EACH_TAPS(DEFINE_CORRELATE)
#define CORRELATE_ENTRY(taps) {correlate_1_##taps, correlate_2_##taps, correlate_3_##taps},
static const correlate_fn correlations[CONV_TILE_TAPS][CONV_TILE_CHANNELS] = {CONV_EACH_TAPS(CORRELATE_ENTRY)};

static int64_t pieces(int64_t count, int64_t most) {
    return (count + most - 1) / most;
}

/* Items are tiles: of a group's input channels, of their taps, of its output channels, the last ones fastest. */
static void correlate_tiles(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    const conv_direct *d = c->direct;
    (void)part;
    int64_t area = c->w.size[0] * c->w.size[1], ntaps = pieces(area, CONV_TILE_TAPS);
    int64_t nchannels = pieces(c->out_channels, CONV_TILE_CHANNELS);
    for (int64_t item = first; item < end; item++) {
        int64_t o = gemm_strip_start(c->out_channels, nchannels, item % nchannels), in = item / nchannels / ntaps;
        int64_t channels = gemm_strip_start(c->out_channels, nchannels, item % nchannels + 1) - o;
        int64_t t = gemm_strip_start(area, ntaps, item / nchannels % ntaps);
        int64_t taps = gemm_strip_start(area, ntaps, item / nchannels % ntaps + 1) - t;
        int64_t g = in / c->in_channels, tap = in % c->in_channels * area + t;
        int64_t out = g * c->out_channels + o;
        correlation r = {j->dy_copy + out * d->plane, j->copy + g * c->in_channels * c->copy->channel,
                         c->copy->taps + tap, j->dfilter + out * c->patch + tap};
        correlations[taps - 1][channels - 1](j, &r);
    }
}

/* --- batches: images go through the copy a few at a time ------------------------------------------------------------
 */

/* Items are channels of dy. */
static void copy_gradients(void *arg, int64_t first, int64_t end, int part) {
    const job *j = arg;
    const conv *c = j->c;
    const conv_direct *d = c->direct;
    (void)part;
    for (int64_t item = first; item < end; item++) {
        const float *from = j->dy + item * c->out.channel_step;
        float *to = j->dy_copy + item * d->plane;
        memset(to, 0, (size_t)d->plane * sizeof *to);
        for (int64_t y = 0; y < c->out.height; y++)
            vec_copy(to + y * c->copy->row_length, from + y * c->out.row_step, c->out.width);
    }
}

static job turn_of(const conv *c, int64_t first, const float *x, float *copy) {
    int64_t left = c->in.count - first;
    return (job){.c = c,
                 .images = left < c->direct->group ? left : c->direct->group,
                 .x = x + first * c->in.image,
                 .copy = copy};
}

void conv_direct_forward(const kernel_call *call, const conv *c, const float *x, const float *filter, float *y,
                         float *workspace) {
    int64_t row_products = c->out.width * c->out.channels * c->patch;
    for (int64_t first = 0; first < c->in.count; first += c->direct->group) {
        job j = turn_of(c, first, x, workspace);
        j.filter = filter;
        j.y = y + first * c->out.image;
        conv_copy_images(call, c, j.images, j.x, j.copy);
        parallel_for(call, j.images * c->out.height, grain_of_products(row_products), convolve_rows, &j);
    }
}

void conv_direct_backward(const kernel_call *call, const conv *c, const float *x, const float *dy, float *dfilter,
                          float *workspace) {
    int64_t ntiles = c->groups * c->in_channels * pieces(c->w.size[0] * c->w.size[1], CONV_TILE_TAPS) *
                     pieces(c->out_channels, CONV_TILE_CHANNELS);
    for (int64_t first = 0; first < c->in.count; first += c->direct->group) {
        job j = turn_of(c, first, x, workspace);
        j.dy = dy + first * c->out.image;
        j.dfilter = dfilter;
        j.add = first > 0;
        j.dy_copy = workspace + conv_copy_count(c, c->direct->group);
        conv_copy_images(call, c, j.images, j.x, j.copy);
        parallel_for(call, j.images * c->out.channels, grain_of_bytes(c->direct->plane * 4), copy_gradients, &j);
        parallel_for(call, ntiles, grain_of_products(j.images * c->positions * CONV_TILE_TAPS * CONV_TILE_CHANNELS),
                     correlate_tiles, &j);
    }
}
