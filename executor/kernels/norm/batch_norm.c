/* batch_norm.c: normalisation of channels over the batch, and its gradients.
 *
 *   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
 *
 * In training mean and variance (biased) are the batch's, kept in SavedMean and SavedVariance, the latter as 1 /
 * sqrt(variance + epsilon), and blended into the running ones; in testing the running ones are used. With r = 1 /
 * sqrt(variance + epsilon), d = x - mean: dscale = r * sum(dy * d),  dbias = sum(dy),  dx = scale * r * (dy - mean(dy)
 * - d * r * r * mean(dy * d)) or, where mean and variance are constants, dx = scale * r * dy.
 *
 * Channels lie as planes ([batch, channel, plane]) or as columns ([row, channel]). Sums go into doubles, a plane or a
 * block of rows at a time. Paddle: phi/kernels/cpu/batch_norm_kernel.cc; it passes x through where a channel has one
 * element. */
#include <math.h>

#include "executor/kernels/lanes.h"
#include "executor/kernels/layout.h"

enum { IN_X, IN_SCALE, IN_BIAS, IN_MEAN, IN_VARIANCE, IN_MOMENTUM };
enum { OUT_Y, OUT_MEAN, OUT_VARIANCE, OUT_SAVED_MEAN, OUT_SAVED_VARIANCE };
enum {
    GRAD_IN_X,
    GRAD_IN_SCALE,
    GRAD_IN_BIAS,
    GRAD_IN_SAVED_MEAN,
    GRAD_IN_SAVED_VARIANCE,
    GRAD_IN_MEAN,
    GRAD_IN_VARIANCE
};
enum { GRAD_IN_DY = 8, GRAD_OUT_DX = 0, GRAD_OUT_DSCALE, GRAD_OUT_DBIAS };
enum { ROWS_A_BLOCK = 64 };

/* Elements of channel c are x[(b * channels + c) * plane + i]. Columns: plane 1, a row a batch. */
typedef struct norm_state {
    int64_t batch, channels, plane;
    double epsilon, momentum;
    bool use_running; /* mean and variance are the running ones, and constants */
} norm_state;

/* Scratch: two sums a channel in double, then reals: a block of sums, and four coefficients a channel. */
static size_t workspace_nbytes(const norm_state *s) {
    return (size_t)s->channels * (2 + 5) * sizeof(double);
}

static weft_status prepare_common(kernel_prepare *p, const tensor *x) {
    norm_state *s = KERNEL_STATE(p, norm_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    if (x->ndim < 2) return kernel_unsupported(p, "expected X of at least 2 dimensions, found %d", x->ndim);
    bool last = x->ndim == 2 || strcmp(attr_string(p->op, "data_layout", "NCHW"), "NHWC") == 0;
    s->channels = x->dims[last ? x->ndim - 1 : 1];
    s->batch = last ? 1 : x->dims[0];
    s->plane = 1;
    for (int i = last ? 0 : 2; i < (last ? x->ndim - 1 : x->ndim); i++) *(last ? &s->batch : &s->plane) *= x->dims[i];
    s->epsilon = attr_float(p->op, "epsilon", 1e-5);
    s->momentum = attr_float(p->op, "momentum", 0.9);
    bool testing = attr_bool(p->op, "is_test", false) && !attr_bool(p->op, "trainable_statistics", false);
    s->use_running = testing || attr_bool(p->op, "use_global_stats", false);
    p->workspace_nbytes = workspace_nbytes(s);
    return NULL;
}

/* An argument with one real a channel. */
static weft_status check_channels(kernel_prepare *p, const tensor *x, const tensor *t, const char *what,
                                  bool optional) {
    if (!t && optional) return NULL;
    TRY(require_numel(p, t, ((const norm_state *)p->state)->channels, what));
    return require_same_dtype(p, x, t, what);
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_common(p, x));
    TRY(require_numel(p, type_out(p, OUT_Y), x->numel, "Y"));
    TRY(check_channels(p, x, type_in(p, IN_SCALE), "Scale", true));
    TRY(check_channels(p, x, type_in(p, IN_BIAS), "Bias", true));
    TRY(check_channels(p, x, type_in(p, IN_MEAN), "Mean", false));
    TRY(check_channels(p, x, type_in(p, IN_VARIANCE), "Variance", false));
    TRY(check_channels(p, x, type_out(p, OUT_MEAN), "MeanOut", false));
    TRY(check_channels(p, x, type_out(p, OUT_VARIANCE), "VarianceOut", false));
    TRY(check_channels(p, x, type_out(p, OUT_SAVED_MEAN), "SavedMean", true));
    return check_channels(p, x, type_out(p, OUT_SAVED_VARIANCE), "SavedVariance", true);
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, GRAD_IN_X);
    TRY(prepare_common(p, x));
    norm_state *s = p->state;
    s->use_running = attr_bool(p->op, "is_test", false) || attr_bool(p->op, "use_global_stats", false);
    TRY(require_numel(p, type_in(p, GRAD_IN_DY), x->numel, "Y@GRAD"));
    TRY(require_same_dtype(p, x, type_in(p, GRAD_IN_DY), "Y@GRAD"));
    TRY(check_channels(p, x, type_in(p, GRAD_IN_SCALE), "Scale", true));
    TRY(check_channels(p, x, type_in(p, s->use_running ? GRAD_IN_MEAN : GRAD_IN_SAVED_MEAN), "the mean", false));
    TRY(check_channels(p, x, type_in(p, s->use_running ? GRAD_IN_VARIANCE : GRAD_IN_SAVED_VARIANCE), "the variance",
                       false));
    if (type_out(p, GRAD_OUT_DX)) TRY(require_numel(p, type_out(p, GRAD_OUT_DX), x->numel, "X@GRAD"));
    TRY(check_channels(p, x, type_out(p, GRAD_OUT_DSCALE), "Scale@GRAD", true));
    return check_channels(p, x, type_out(p, GRAD_OUT_DBIAS), "Bias@GRAD", true);
}

static void *data_of(const tensor *t) {
    return t ? t->data : NULL;
}

/* What is summed over a channel, x and y elements, m the mean: X x, SQUARE (x - m)^2, PRODUCT (x - m) * y. */
typedef enum summand { SUM_X, SUM_SQUARE, SUM_PRODUCT } summand;

/* Channels [first, end). */
typedef struct span {
    int64_t first, end;
} span;

/* Channels that take 8 KiB. */
static int64_t few_channels(const norm_state *s, size_t nbytes) {
    int64_t channel = s->batch * s->plane * (int64_t)nbytes;
    return channel > 0 && channel < 8192 ? 8192 / channel : 1;
}

#define DEFINE_BATCH_NORM(dtype, suffix, real)                                                                         \
    static void sum_planes_##suffix(const norm_state *s, summand what, const real *x, const real *mean, const real *y, \
                                    double *sum, span r) {                                                             \
        int64_t n = s->plane;                                                                                          \
        for (int64_t b = 0; b < s->batch; b++)                                                                         \
            for (int64_t c = r.first; c < r.end; c++) {                                                                \
                int64_t at = (b * s->channels + c) * n;                                                                \
                if (what == SUM_X) sum[c] += (double)sum_##suffix(n, x + at);                                          \
                if (what == SUM_SQUARE) sum[c] += (double)sum_squares_##suffix(n, x + at, mean[c]);                    \
                if (what == SUM_PRODUCT) sum[c] += (double)dot_##suffix(n, x + at, mean[c], y + at);                   \
            }                                                                                                          \
    }                                                                                                                  \
    static void sum_row_##suffix(int64_t n, summand what, const real *x, const real *mean, const real *y,              \
                                 real *block) {                                                                        \
        if (what == SUM_X)                                                                                             \
            for (int64_t c = 0; c < n; c++) block[c] += x[c];                                                          \
        if (what == SUM_SQUARE)                                                                                        \
            for (int64_t c = 0; c < n; c++) block[c] += (x[c] - mean[c]) * (x[c] - mean[c]);                           \
        if (what == SUM_PRODUCT)                                                                                       \
            for (int64_t c = 0; c < n; c++) block[c] += (x[c] - mean[c]) * y[c];                                       \
    }                                                                                                                  \
    static void sum_columns_##suffix(const norm_state *s, summand what, const real *x, const real *mean,               \
                                     const real *y, double *sum, real *block) {                                        \
        int64_t n = s->channels;                                                                                       \
        for (int64_t first = 0; first < s->batch; first += ROWS_A_BLOCK) {                                             \
            int64_t end = first + ROWS_A_BLOCK < s->batch ? first + ROWS_A_BLOCK : s->batch;                           \
            memset(block, 0, (size_t)n * sizeof *block);                                                               \
            for (int64_t b = first; b < end; b++)                                                                      \
                sum_row_##suffix(n, what, x + b * n, mean, y ? y + b * n : NULL, block);                               \
            for (int64_t c = 0; c < n; c++) sum[c] += (double)block[c];                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void sum_channels_##suffix(const norm_state *s, summand what, const real *x, const real *mean,              \
                                      const real *y, double *sum, real *block, span r) {                               \
        for (int64_t c = r.first; c < r.end; c++) sum[c] = 0;                                                          \
        if (s->plane == 1)                                                                                             \
            sum_columns_##suffix(s, what, x, mean, y, sum, block);                                                     \
        else                                                                                                           \
            sum_planes_##suffix(s, what, x, mean, y, sum, r);                                                          \
    }                                                                                                                  \
    /* y = (x - mean) * factor + bias */                                                                               \
    static void normalize_##suffix(const norm_state *s, const real *x, const real *mean, const real *factor,           \
                                   const real *bias, real *y, span r) {                                                \
        int64_t n = s->plane, channels = s->channels;                                                                  \
        for (int64_t b = 0; b < s->batch; b++) {                                                                       \
            const real *xb = x + b * channels * n;                                                                     \
            real *yb = y + b * channels * n;                                                                           \
            if (n == 1) {                                                                                              \
                INDEPENDENT for (int64_t c = 0; c < channels; c++) yb[c] = (xb[c] - mean[c]) * factor[c] + bias[c];    \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t c = r.first; c < r.end; c++) {                                                                \
                real m = mean[c], f = factor[c], e = bias[c];                                                          \
                INDEPENDENT for (int64_t i = c * n; i < (c + 1) * n; i++) yb[i] = (xb[i] - m) * f + e;                 \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* dx = factor * dy - d * slope - offset */                                                                        \
    static void propagate_##suffix(const norm_state *s, const real *x, const real *dy, const real *mean,               \
                                   const real *factor, const real *slope, const real *offset, real *dx, span r) {      \
        int64_t n = s->plane, channels = s->channels;                                                                  \
        for (int64_t b = 0; b < s->batch; b++) {                                                                       \
            int64_t at = b * channels * n;                                                                             \
            const real *xb = x + at, *gb = dy + at;                                                                    \
            real *db = dx + at;                                                                                        \
            if (n == 1) {                                                                                              \
                INDEPENDENT for (int64_t c = 0; c < channels; c++) db[c] =                                             \
                    factor[c] * gb[c] - (xb[c] - mean[c]) * slope[c] - offset[c];                                      \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t c = r.first; c < r.end; c++) {                                                                \
                real m = mean[c], f = factor[c], k = slope[c], e = offset[c];                                          \
                INDEPENDENT for (int64_t i = c * n; i < (c + 1) * n; i++) db[i] = f * gb[i] - (xb[i] - m) * k - e;     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* The batch's mean and 1 / sqrt(variance + epsilon), blended into the running mean and variance. */               \
    static void measure_##suffix(const kernel_call *call, const norm_state *s, real *mean, real *inverse, double *sum, \
                                 real *block, span r) {                                                                \
        const tensor *x = arg_in(call, IN_X), *blend = arg_in(call, IN_MOMENTUM);                                      \
        double count = (double)(s->batch * s->plane), momentum = blend ? tensor_scalar(blend) : s->momentum;           \
        const real *old_mean = arg_in(call, IN_MEAN)->data, *old_variance = arg_in(call, IN_VARIANCE)->data;           \
        real *new_mean = arg_out(call, OUT_MEAN)->data, *new_variance = arg_out(call, OUT_VARIANCE)->data;             \
        sum_channels_##suffix(s, SUM_X, x->data, NULL, NULL, sum, block, r);                                           \
        for (int64_t c = r.first; c < r.end; c++) mean[c] = (real)(sum[c] / count);                                    \
        sum_channels_##suffix(s, SUM_SQUARE, x->data, mean, NULL, sum, block, r);                                      \
        for (int64_t c = r.first; c < r.end; c++) {                                                                    \
            double variance = sum[c] / count;                                                                          \
            inverse[c] = (real)(1 / sqrt(variance + s->epsilon));                                                      \
            new_mean[c] = (real)((double)old_mean[c] * momentum + (double)mean[c] * (1 - momentum));                   \
            new_variance[c] = (real)((double)old_variance[c] * momentum + variance * (1 - momentum));                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void forward_##suffix(const kernel_call *call, const norm_state *s, span r) {                               \
        int64_t n = s->channels;                                                                                       \
        double *sum = call->workspace;                                                                                 \
        real *block = (real *)(sum + 2 * n), *mean = block + n, *inverse = mean + n, *factor = inverse + n;            \
        real *offset = factor + n;                                                                                     \
        if (s->use_running) {                                                                                          \
            const real *variance = arg_in(call, IN_VARIANCE)->data;                                                    \
            memcpy(mean + r.first, (const real *)arg_in(call, IN_MEAN)->data + r.first,                                \
                   (size_t)(r.end - r.first) * sizeof *mean);                                                          \
            for (int64_t c = r.first; c < r.end; c++) inverse[c] = (real)(1 / sqrt((double)variance[c] + s->epsilon)); \
        } else {                                                                                                       \
            measure_##suffix(call, s, mean, inverse, sum, block, r);                                                   \
        }                                                                                                              \
        const real *scale = data_of(arg_in(call, IN_SCALE)), *bias = data_of(arg_in(call, IN_BIAS));                   \
        real *saved_mean = data_of(arg_out(call, OUT_SAVED_MEAN));                                                     \
        real *saved_variance = data_of(arg_out(call, OUT_SAVED_VARIANCE));                                             \
        for (int64_t c = r.first; c < r.end; c++) {                                                                    \
            factor[c] = scale ? scale[c] * inverse[c] : inverse[c];                                                    \
            offset[c] = bias ? bias[c] : 0;                                                                            \
            if (saved_mean) saved_mean[c] = s->use_running ? 0 : mean[c];                                              \
            if (saved_variance) saved_variance[c] = s->use_running ? 0 : inverse[c];                                   \
        }                                                                                                              \
        normalize_##suffix(s, arg_in(call, IN_X)->data, mean, factor, offset, arg_out(call, OUT_Y)->data, r);          \
    }                                                                                                                  \
    static void backward_##suffix(const kernel_call *call, const norm_state *s, span range) {                          \
        int64_t n = s->channels;                                                                                       \
        double *sum = call->workspace, *product = sum + n, count = (double)(s->batch * s->plane);                      \
        real *block = (real *)(product + n), *factor = block + n, *slope = factor + n;                                 \
        real *offset = slope + n;                                                                                      \
        const real *x = arg_in(call, GRAD_IN_X)->data, *dy = arg_in(call, GRAD_IN_DY)->data;                           \
        const real *scale = data_of(arg_in(call, GRAD_IN_SCALE));                                                      \
        const real *mean = arg_in(call, s->use_running ? GRAD_IN_MEAN : GRAD_IN_SAVED_MEAN)->data;                     \
        const real *spread = arg_in(call, s->use_running ? GRAD_IN_VARIANCE : GRAD_IN_SAVED_VARIANCE)->data;           \
        real *dscale = data_of(arg_out(call, GRAD_OUT_DSCALE)), *dbias = data_of(arg_out(call, GRAD_OUT_DBIAS));       \
        sum_channels_##suffix(s, SUM_X, dy, NULL, NULL, sum, block, range);                                            \
        sum_channels_##suffix(s, SUM_PRODUCT, x, mean, dy, product, block, range);                                     \
        for (int64_t c = range.first; c < range.end; c++) {                                                            \
            double r = s->use_running ? 1 / sqrt((double)spread[c] + s->epsilon) : (double)spread[c];                  \
            double f = scale ? (double)scale[c] * r : r;                                                               \
            factor[c] = (real)f;                                                                                       \
            slope[c] = s->use_running ? 0 : (real)(f * r * r * product[c] / count);                                    \
            offset[c] = s->use_running ? 0 : (real)(f * sum[c] / count);                                               \
            if (dscale) dscale[c] = (real)(product[c] * r);                                                            \
            if (dbias) dbias[c] = (real)sum[c];                                                                        \
        }                                                                                                              \
        real *dx = data_of(arg_out(call, GRAD_OUT_DX));                                                                \
        if (dx) propagate_##suffix(s, x, dy, mean, factor, slope, offset, dx, range);                                  \
    }                                                                                                                  \
    /* Items are channels, a few at a time: all that is read of them lies in the nearest cache. */                     \
    static void forward_channels_##suffix(void *arg, int64_t first, int64_t end, int part) {                           \
        const kernel_call *call = arg;                                                                                 \
        int64_t few = few_channels(call->state, sizeof(real));                                                         \
        (void)part;                                                                                                    \
        for (int64_t c = first; c < end; c += few)                                                                     \
            forward_##suffix(call, call->state, (span){c, c + few < end ? c + few : end});                             \
    }                                                                                                                  \
    static void backward_channels_##suffix(void *arg, int64_t first, int64_t end, int part) {                          \
        const kernel_call *call = arg;                                                                                 \
        int64_t few = few_channels(call->state, sizeof(real));                                                         \
        (void)part;                                                                                                    \
        for (int64_t c = first; c < end; c += few)                                                                     \
            backward_##suffix(call, call->state, (span){c, c + few < end ? c + few : end});                            \
    }                                                                                                                  \
    static void run_##suffix(const kernel_call *call, bool gradient) {                                                 \
        const norm_state *s = call->state;                                                                             \
        kernel_call copy = *call;                                                                                      \
        if (s->plane == 1)                                                                                             \
            (gradient ? backward_##suffix : forward_##suffix)(call, s, (span){0, s->channels});                        \
        else                                                                                                           \
            parallel_for(call, s->channels, grain_of_bytes(4 * s->batch * s->plane * (int64_t)sizeof(real)),           \
                         gradient ? backward_channels_##suffix : forward_channels_##suffix, &copy);                    \
    }
REAL_TYPES(DEFINE_BATCH_NORM)
#undef DEFINE_BATCH_NORM

/* One element a channel in training: there is nothing to normalise with. */
static bool passes_through(const norm_state *s) {
    return !s->use_running && s->batch * s->plane == 1;
}

static void zero(const tensor *t) {
    if (t) memset(t->data, 0, tensor_nbytes(t));
}

static weft_status run(const kernel_call *c) {
    const norm_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    if (passes_through(s) || s->use_running) {
        copy_bytes(arg_out(c, OUT_MEAN)->data, arg_in(c, IN_MEAN)->data, tensor_nbytes(arg_in(c, IN_MEAN)));
        copy_bytes(arg_out(c, OUT_VARIANCE)->data, arg_in(c, IN_VARIANCE)->data, tensor_nbytes(arg_in(c, IN_VARIANCE)));
    }
    if (passes_through(s)) {
        zero(arg_out(c, OUT_SAVED_MEAN));
        zero(arg_out(c, OUT_SAVED_VARIANCE));
        copy_bytes(arg_out(c, OUT_Y)->data, x->data, tensor_nbytes(x));
        return NULL;
    }
    if (x->dtype == WEFT_FP64)
        run_fp64(c, false);
    else
        run_fp32(c, false);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const norm_state *s = c->state;
    const tensor *dy = arg_in(c, GRAD_IN_DY), *dx = arg_out(c, GRAD_OUT_DX);
    if (passes_through(s)) {
        zero(arg_out(c, GRAD_OUT_DSCALE));
        zero(arg_out(c, GRAD_OUT_DBIAS));
        if (dx) copy_bytes(dx->data, dy->data, tensor_nbytes(dy));
        return NULL;
    }
    if (dy->dtype == WEFT_FP64)
        run_fp64(c, true);
    else
        run_fp32(c, true);
    return NULL;
}

const kernel kernel_batch_norm = {prepare, run};
const kernel kernel_batch_norm_grad = {prepare_grad, run_grad};
