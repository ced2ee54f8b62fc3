/* pool.c: the largest or the mean element of each window, and gradients.
 *
 * Windows are cut off at the image's border. The mean divides by what is left of the window where `exclusive`, else by
 * its part of the padded image, which Paddle (phi/kernels/funcs/pooling.cc) takes to end `before` elements after the
 * border, whatever the second padding. Adaptive windows tile the image: [floor(i H / n), ceil((i + 1) H / n)); adaptive
 * max is computed with plain windows, as Paddle's CPU kernel does. The gradient of max goes to the first largest
 * element of a window, in row-major order. */
#include <float.h>

#include "executor/kernels/window.h"

enum { IN_X, GRAD_IN_OUT, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct pool_state {
    images in, out;
    window w;
    bool max, adaptive, exclusive;
    bool by_rows; /* windows of a row lie side by side, and share their taps */
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
    return window_prepare(p, &s->in, &s->w);
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_pool(p, type_out(p, OUT));
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

#define DEFINE_POOL(dtype, suffix, real)                                                                               \
    static void max_taps_##suffix(span v, int64_t step, const real *restrict tap, real *restrict y) {                  \
        if (step == 1) {                                                                                               \
            for (int64_t j = v.first; j < v.end; j++) y[j] = y[j] < tap[j] ? tap[j] : y[j];                            \
        } else if (step == 2) {                                                                                        \
            for (int64_t j = v.first; j < v.end; j++) y[j] = y[j] < tap[2 * j] ? tap[2 * j] : y[j];                    \
        } else {                                                                                                       \
            for (int64_t j = v.first; j < v.end; j++) y[j] = y[j] < tap[step * j] ? tap[step * j] : y[j];              \
        }                                                                                                              \
    }                                                                                                                  \
    static void add_taps_##suffix(span v, int64_t step, const real *restrict tap, real *restrict y) {                  \
        for (int64_t j = v.first; j < v.end; j++) y[j] += tap[step * j];                                               \
    }                                                                                                                  \
    /* A row of windows at once, side by side in memory: one tap of all windows after another. */                      \
    static void pool_row_##suffix(const pool_state *s, const real *x, span r, int64_t rows, real *y) {                 \
        int64_t n = s->out.width, step = s->w.stride[1], columns;                                                      \
        real start = s->max ? -(real)FLT_MAX : 0;                                                                      \
        for (int64_t j = 0; j < n; j++) y[j] = start;                                                                  \
        for (int64_t i = r.first; i < r.end; i++)                                                                      \
            for (int64_t k = 0; k < s->w.size[1]; k++) {                                                               \
                span v = span_inside(n, step, k - s->w.before[1], s->in.width);                                        \
                const real *tap = x + i * s->in.row_step + k - s->w.before[1];                                         \
                if (s->max)                                                                                            \
                    max_taps_##suffix(v, step, tap, y);                                                                \
                else                                                                                                   \
                    add_taps_##suffix(v, step, tap, y);                                                                \
            }                                                                                                          \
        for (int64_t j = 0; !s->max && j < n; j++) {                                                                   \
            window_span(s, 1, j, &columns);                                                                            \
            y[j] /= (real)(rows * columns);                                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static real reduce_window_##suffix(const pool_state *s, const real *x, span r, span k, int64_t count) {            \
        real result = s->max ? -(real)FLT_MAX : 0;                                                                     \
        for (int64_t i = r.first; i < r.end; i++)                                                                      \
            for (int64_t j = k.first; j < k.end; j++) {                                                                \
                real e = x[i * s->in.row_step + j * s->in.column_step];                                                \
                result = s->max ? (result < e ? e : result) : result + e;                                              \
            }                                                                                                          \
        return s->max ? result : result / (real)count;                                                                 \
    }                                                                                                                  \
    static void spread_window_##suffix(const pool_state *s, const real *x, real y, real dy, span r, span k,            \
                                       int64_t count, real *dx) {                                                      \
        real share = s->max ? dy : dy / (real)count;                                                                   \
        for (int64_t i = r.first; i < r.end; i++)                                                                      \
            for (int64_t j = k.first; j < k.end; j++) {                                                                \
                int64_t at = i * s->in.row_step + j * s->in.column_step;                                               \
                if (s->max && x[at] != y) continue;                                                                    \
                dx[at] += share;                                                                                       \
                if (s->max) return;                                                                                    \
            }                                                                                                          \
    }                                                                                                                  \
    /* One channel of one image: windows in row-major order. */                                                        \
    static void pool_channel_##suffix(const pool_state *s, const real *x, real *y) {                                   \
        for (int64_t i = 0; i < s->out.height; i++) {                                                                  \
            int64_t rows, columns;                                                                                     \
            span r = window_span(s, 0, i, &rows);                                                                      \
            if (s->by_rows) {                                                                                          \
                pool_row_##suffix(s, x, r, rows, y + i * s->out.row_step);                                             \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t j = 0; j < s->out.width; j++) {                                                               \
                span k = window_span(s, 1, j, &columns);                                                               \
                y[i * s->out.row_step + j * s->out.column_step] = reduce_window_##suffix(s, x, r, k, rows * columns);  \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void spread_channel_##suffix(const pool_state *s, const real *x, const real *y, const real *dy, real *dx) { \
        for (int64_t i = 0; i < s->out.height; i++) {                                                                  \
            int64_t rows, columns;                                                                                     \
            span r = window_span(s, 0, i, &rows);                                                                      \
            for (int64_t j = 0; j < s->out.width; j++) {                                                               \
                span k = window_span(s, 1, j, &columns);                                                               \
                int64_t at = i * s->out.row_step + j * s->out.column_step;                                             \
                spread_window_##suffix(s, x, s->max ? y[at] : 0, dy[at], r, k, rows *columns, dx);                     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void pool_##suffix(const pool_state *s, const real *x, real *y) {                                           \
        for (int64_t n = 0; n < s->in.count; n++)                                                                      \
            for (int64_t c = 0; c < s->in.channels; c++)                                                               \
                pool_channel_##suffix(s, x + n * s->in.image + c * s->in.channel_step,                                 \
                                      y + n * s->out.image + c * s->out.channel_step);                                 \
    }                                                                                                                  \
    static void spread_##suffix(const pool_state *s, const real *x, const real *y, const real *dy, real *dx) {         \
        for (int64_t n = 0; n < s->in.count; n++)                                                                      \
            for (int64_t c = 0; c < s->in.channels; c++) {                                                             \
                int64_t from = n * s->in.image + c * s->in.channel_step;                                               \
                int64_t to = n * s->out.image + c * s->out.channel_step;                                               \
                spread_channel_##suffix(s, x + from, y + to, dy + to, dx + from);                                      \
            }                                                                                                          \
    }
REAL_TYPES(DEFINE_POOL)
#undef DEFINE_POOL

static weft_status run(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X);
    void *y = arg_out(c, OUT)->data;
    if (x->dtype == WEFT_FP64)
        pool_fp64(c->state, x->data, y);
    else
        pool_fp32(c->state, x->data, y);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, GRAD_IN_OUT), *dy = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    memset(dx->data, 0, tensor_nbytes(dx));
    if (x->dtype == WEFT_FP64)
        spread_fp64(c->state, x->data, y->data, dy->data, dx->data);
    else
        spread_fp32(c->state, x->data, y->data, dy->data, dx->data);
    return NULL;
}

const kernel kernel_pool2d = {prepare, run};
const kernel kernel_pool2d_grad = {prepare_grad, run_grad};
