/* pool.c: the largest or the mean element of each window, and gradients.
 *
 * Windows are cut off at the image's border. The mean divides by what is left of the window where `exclusive`, else by
 * its part of the padded image. Paddle (phi/kernels/funcs/pooling.cc) takes that image to end `before` elements after
 * the border, whatever the second padding. Adaptive windows tile the image: [floor(i H / n), ceil((i + 1) H / n));
 * adaptive max is computed with plain windows, as Paddle's CPU kernel does. The gradient of max goes to the first
 * largest element of a window, in row-major order. */
#include <float.h>

#include "executor/kernels/vec.h"
#include "executor/kernels/window.h"

enum { IN_X, GRAD_IN_OUT, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct pool_state {
    images in, out;
    window w;
    bool max, adaptive, exclusive;
    bool by_rows;     /* windows of a row lie side by side, and share their taps */
    bool in_twos;     /* the largest of 2 x 2, windows side by side, all inside: the usual case, without a branch */
    bool all_in_twos; /* and they leave nothing out */
} pool_state;

static weft_status prepare_pool(kernel_prepare *p, const tensor *y) {
    pool_state *s = KERNEL_STATE(p, pool_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    const char *format = attr_string(p->op, "data_format", "NCHW"), *kind = attr_string(p->op, "pooling_type", "max");
    TRY(require_real(p, x, "X"));
    TRY(images_prepare(p, x, format, &s->in));
    TRY(images_prepare(p, y, format, &s->out));
    TRY(require_same_dtype(p, x, y, "Out"));
    if (s->in.count != s->out.count || s->in.channels != s->out.channels)
        return kernel_unsupported(p, "expected Out of X's batch and channels");
    s->max = strcmp(kind, "max") == 0;
    if (!s->max && strcmp(kind, "avg") != 0) return kernel_unsupported(p, "expected max or avg, found %s", kind);
    s->exclusive = attr_bool(p->op, "exclusive", true);
    s->adaptive = !s->max && attr_bool(p->op, "adaptive", false);
    s->by_rows = !s->adaptive && s->in.column_step == 1;
    if (attr_bool(p->op, "global_pooling", false)) {
        s->w = (window){.size = {s->in.height, s->in.width}, .stride = {1, 1}, .dilation = {1, 1}};
        s->adaptive = s->by_rows = false;
        return NULL;
    }
    size_t nsizes;
    const int64_t *size = attr_ints(p->op, "ksize", &nsizes);
    if (nsizes != 2) return kernel_unsupported(p, "expected 2 extents in ksize, found %zu", nsizes);
    s->w.size[0] = size[0];
    s->w.size[1] = size[1];
    TRY(window_prepare(p, &s->in, &s->w));
    const window *w = &s->w;
    s->in_twos = s->max && s->by_rows && w->size[0] == 2 && w->size[1] == 2 && w->stride[0] == 2 && w->stride[1] == 2 &&
                 w->before[0] == 0 && w->before[1] == 0 && 2 * s->out.height <= s->in.height &&
                 2 * s->out.width <= s->in.width;
    s->all_in_twos = s->in_twos && 2 * s->out.height == s->in.height && 2 * s->out.width == s->in.width;
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_pool(p, type_out(p, OUT));
}
static weft_status prepare_second(kernel_prepare *p) {
    TRY(prepare_pool(p, type_out(p, OUT)));
    return ((const pool_state *)p->state)->max ? kernel_unsupported(p, "expected avg, as in Paddle, found max") : NULL;
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_pool(p, type_in(p, GRAD_IN_OUT)));
    const tensor *x = type_in(p, IN_X), *y = type_in(p, GRAD_IN_OUT);
    TRY(require_numel(p, type_in(p, GRAD_IN_OUT_GRAD), y->numel, "Out@GRAD"));
    TRY(require_same_dtype(p, x, type_in(p, GRAD_IN_OUT_GRAD), "Out@GRAD"));
    return require_numel(p, type_out(p, OUT), x->numel, "X@GRAD");
}

/* The part of window i inside the image, in dimension d, and how many elements it counts for in a mean. */
static span window_span(const pool_state *s, int d, int64_t i, int64_t *out_count) {
    int64_t extent = d ? s->in.width : s->in.height, n = d ? s->out.width : s->out.height;
    if (s->adaptive) {
        span r = {i * extent / n, ((i + 1) * extent + n - 1) / n};
        *out_count = r.end - r.first;
        return r;
    }
    int64_t first = i * s->w.stride[d] - s->w.before[d], end = first + s->w.size[d];
    if (end > extent + s->w.before[d]) end = extent + s->w.before[d];
    span r = {first < 0 ? 0 : first, end > extent ? extent : end};
    *out_count = s->exclusive ? r.end - r.first : end - first;
    return r;
}

typedef struct pool_job {
    const pool_state *s;
    const void *x, *y, *dy;
    void *to;
} pool_job;

/* Where channel `item` of all images begins. */
static int64_t offset_of(const pool_state *s, const images *in, int64_t item) {
    return item / s->in.channels * in->image + item % s->in.channels * in->channel_step;
}

/* Of up to VEC windows of 2 x 2: the first, second, third and fourth elements. `inside`: of VEC elements of a row and
 * of the next VEC. */
typedef struct twos {
    vec_lanes inside[2], windows;
    vec x[4];
} twos;

static inline twos load_twos(int64_t n, const float *x, const float *below) {
    int64_t windows = n < VEC ? n : VEC, lower = 2 * windows < VEC ? 2 * windows : VEC;
    twos t = {.inside = {vec_first_lanes(lower), vec_first_lanes(2 * windows - lower)},
              .windows = vec_first_lanes(windows)};
    vec a = vec_load_lanes(x, t.inside[0]), b = vec_load_lanes(x + VEC, t.inside[1]);
    vec c = vec_load_lanes(below, t.inside[0]), d = vec_load_lanes(below + VEC, t.inside[1]);
    t.x[0] = vec_even(a, b);
    t.x[1] = vec_odd(a, b);
    t.x[2] = vec_even(c, d);
    t.x[3] = vec_odd(c, d);
    return t;
}

/* A row of windows of 2 x 2: x and below are its two rows. Comparisons and their order as elsewhere. */
static void pool_twos_fp32(int64_t n, const float *x, const float *below, float *y) {
    for (int64_t j = 0; j < n; j += VEC) {
        twos t = load_twos(n - j, x + 2 * j, below + 2 * j);
        vec best = vec_all(-FLT_MAX);
        for (int i = 0; i < 4; i++) best = vec_larger(best, t.x[i]);
        vec_store_lanes(y + j, best, t.windows);
    }
}

static void spread_twos_fp32(int64_t n, const float *x, const float *below, const float *y, const float *dy, float *dx,
                             float *dbelow) {
    for (int64_t j = 0; j < n; j += VEC) {
        twos t = load_twos(n - j, x + 2 * j, below + 2 * j);
        vec best = vec_load_lanes(y + j, t.windows), share = vec_load_lanes(dy + j, t.windows), part[4];
        for (int i = 0; i < 4; i++) {
            part[i] = vec_where_equal(t.x[i], best, share);
            share = vec_where_unequal(t.x[i], best, share); /* what nobody has taken */
        }
        vec_store_lanes(dx + 2 * j, vec_lower(part[0], part[1]), t.inside[0]);
        vec_store_lanes(dx + 2 * j + VEC, vec_upper(part[0], part[1]), t.inside[1]);
        vec_store_lanes(dbelow + 2 * j, vec_lower(part[2], part[3]), t.inside[0]);
        vec_store_lanes(dbelow + 2 * j + VEC, vec_upper(part[2], part[3]), t.inside[1]);
    }
}

static void pool_twos_fp64(int64_t n, const double *restrict x, const double *restrict below, double *restrict y) {
    for (int64_t j = 0; j < n; j++) {
        double best = -(double)FLT_MAX;
        best = best > x[2 * j] ? best : x[2 * j];
        best = best > x[2 * j + 1] ? best : x[2 * j + 1];
        best = best > below[2 * j] ? best : below[2 * j];
        y[j] = best > below[2 * j + 1] ? best : below[2 * j + 1];
    }
}
static void spread_twos_fp64(int64_t n, const double *restrict x, const double *restrict below,
                             const double *restrict y, const double *restrict dy, double *restrict dx,
                             double *restrict dbelow) {
    for (int64_t j = 0; j < n; j++) {
        double best = y[j], share = dy[j]; /* what nobody has taken */
        double first = x[2 * j] == best ? share : 0;
        share = x[2 * j] == best ? 0 : share;
        double second = x[2 * j + 1] == best ? share : 0;
        share = x[2 * j + 1] == best ? 0 : share;
        double third = below[2 * j] == best ? share : 0;
        share = below[2 * j] == best ? 0 : share;
        double fourth = below[2 * j + 1] == best ? share : 0;
        dx[2 * j] = first;
        dx[2 * j + 1] = second;
        dbelow[2 * j] = third;
        dbelow[2 * j + 1] = fourth;
    }
}

#define TEMPLATE "executor/kernels/pool/pool_real.h"
#include "executor/kernels/each_real.h"

static void run_channels(const kernel_call *c, parallel_part run_part, pool_job *job, const tensor *x) {
    int64_t nchannels = job->s->in.count * job->s->in.channels;
    int64_t nbytes = nchannels ? (int64_t)(tensor_nbytes(x) / (size_t)nchannels) : 1;
    parallel_for(c, nchannels, grain_of_bytes(nbytes), run_part, job);
}

static weft_status run(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X);
    pool_job job = {.s = c->state, .x = x->data, .to = arg_out(c, OUT)->data};
    run_channels(c, x->dtype == WEFT_FP64 ? pool_fp64 : pool_fp32, &job, x);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, GRAD_IN_OUT), *dy = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    pool_job job = {.s = c->state, .x = x->data, .y = y->data, .dy = dy->data, .to = dx->data};
    if (!job.s->all_in_twos) memset(dx->data, 0, tensor_nbytes(dx));
    run_channels(c, x->dtype == WEFT_FP64 ? spread_fp64 : spread_fp32, &job, x);
    return NULL;
}

const kernel kernel_pool2d = {prepare, run};
const kernel kernel_pool2d_double_grad = {prepare_second, run};
const kernel kernel_pool2d_grad = {prepare_grad, run_grad};
