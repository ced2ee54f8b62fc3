/* lp_pool.c: the norm of each window: (sum of x^p)^(1/p), of windows cut off at the image's border, and its gradient,
 * (x / norm)^(p - 1) times what came down. Powers of elements below 0 are NaN where p is not whole, as in Paddle. */
#include <math.h>

#include "executor/kernels/window.h"

enum { IN_X, IN_OUT, IN_OUT_GRAD };

typedef struct lp_state {
    images in, out;
    window w;
    double p;
} lp_state;

static weft_status prepare_lp(kernel_prepare *p, const tensor *y) {
    lp_state *s = KERNEL_STATE(p, lp_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    const char *format = attr_string(p->op, "data_format", "NCHW");
    size_t nsizes;
    const int64_t *size = attr_ints(p->op, "kernel_size", &nsizes);
    TRY(require_real(p, x, "x"));
    TRY(images_prepare(p, x, format, &s->in));
    TRY(images_prepare(p, y, format, &s->out));
    TRY(require_same_dtype(p, x, y, "out"));
    if (s->in.count != s->out.count || s->in.channels != s->out.channels)
        return kernel_unsupported(p, "expected out of x's batch and channels");
    s->p = attr_float(p->op, "norm_type", 0);
    if (s->p == 0 || attr_bool(p->op, "adaptive", false))
        return kernel_unsupported(p, "expected a norm_type other than 0, and windows that are not adaptive");
    if (attr_bool(p->op, "global_pooling", false)) {
        s->w = (window){.size = {s->in.height, s->in.width}, .stride = {1, 1}, .dilation = {1, 1}};
        return NULL;
    }
    if (nsizes != 2) return kernel_unsupported(p, "expected 2 extents in kernel_size, found %zu", nsizes);
    s->w.size[0] = size[0], s->w.size[1] = size[1];
    return window_prepare(p, &s->in, &s->w);
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_lp(p, type_out(p, 0));
}
static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_OUT);
    TRY(prepare_lp(p, y));
    TRY(require_like(p, x, type_in(p, IN_OUT_GRAD), y->numel, "out@GRAD"));
    TRY(require_like(p, x, type_out(p, 0), x->numel, "x@GRAD"));
    p->workspace_nbytes = (size_t)x->numel * sizeof(double);
    return NULL;
}

static span inside(const lp_state *s, int d, int64_t at) {
    int64_t first = at * s->w.stride[d] - s->w.before[d], end = first + s->w.size[d];
    int64_t extent = d ? s->in.width : s->in.height;
    return (span){first < 0 ? 0 : first, end > extent ? extent : end};
}

/* One window: where its result lies, and which rows and columns it has of which channel. */
typedef struct place {
    int64_t out, channel;
    span rows, columns;
} place;

static place place_of(const lp_state *s, int64_t item) {
    int64_t j = item % s->out.width, i = item / s->out.width % s->out.height;
    int64_t k = item / (s->out.width * s->out.height), n = k / s->in.channels, c = k % s->in.channels;
    return (place){.out = n * s->out.image + c * s->out.channel_step + i * s->out.row_step + j * s->out.column_step,
                   .channel = n * s->in.image + c * s->in.channel_step,
                   .rows = inside(s, 0, i),
                   .columns = inside(s, 1, j)};
}

/* Every element of a window; `at` is its place in the image. */
#define FOR_EACH_TAP(s, w, at)                                                                                         \
    for (int64_t y_ = (w).rows.first; y_ < (w).rows.end; y_++)                                                         \
        for (int64_t x_ = (w).columns.first, at = (w).channel + y_ * (s)->in.row_step + x_ * (s)->in.column_step;      \
             x_ < (w).columns.end; x_++, at += (s)->in.column_step)

static void pool_part(void *arg, int64_t first, int64_t end, int part) {
    const kernel_call *c = arg;
    const lp_state *s = c->state;
    (void)part;
    for (int64_t item = first; item < end; item++) {
        place w = place_of(s, item);
        double sum = 0;
        FOR_EACH_TAP(s, w, at) {
            double x = tensor_real(arg_in(c, IN_X), at);
            sum += s->p == 2 ? x * x : pow(x, s->p);
        }
        tensor_set_real(arg_out(c, 0), w.out, s->p == 2 ? sqrt(sum) : pow(sum, 1 / s->p));
    }
}

static weft_status run(const kernel_call *c) {
    const lp_state *s = c->state;
    int64_t taps = s->w.size[0] * s->w.size[1];
    parallel_for(c, arg_out(c, 0)->numel, grain_of_products(taps * (s->p == 2 ? 2 : 40)), pool_part, (void *)c);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const lp_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_OUT), *dy = arg_in(c, IN_OUT_GRAD);
    double *sums = c->workspace;
    for (int64_t i = 0; i < x->numel; i++) sums[i] = 0;
    for (int64_t item = 0; item < y->numel; item++) {
        place w = place_of(s, item);
        double norm = tensor_real(y, w.out), down = tensor_real(dy, w.out);
        FOR_EACH_TAP(s, w, at) {
            double share = tensor_real(x, at) / norm;
            sums[at] += down * (s->p == 2 ? share : pow(share, s->p - 1));
        }
    }
    for (int64_t i = 0; i < x->numel; i++) tensor_set_real(arg_out(c, 0), i, sums[i]);
    return NULL;
}

const kernel kernel_lp_pool2d = {prepare, run};
const kernel kernel_lp_pool2d_grad = {prepare_grad, run_grad};
