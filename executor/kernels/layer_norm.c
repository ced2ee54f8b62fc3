/* layer_norm.c: normalisation of rows, and its gradients.
 *
 *   y = (x - mean) / sqrt(variance + epsilon) * scale + bias      per row of the dimensions from begin_norm_axis on
 *
 * With h = (x - mean) * r, r = 1 / sqrt(variance + epsilon), g = dy * scale, and means over a row:
 *   dx = r * (g - mean(g) - h * mean(g * h)),   dscale = sum over rows of dy * h,   dbias = sum over rows of dy
 *
 * Variance is the biased variance of two passes. Sums over rows are kept in blocks of ROWS_A_BLOCK, so that their error
 * does not grow with the number of rows. Paddle: phi/kernels/cpu/layer_norm_kernel.cc. */
#include "executor/kernels/lanes.h"
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_SCALE, IN_BIAS, OUT_Y = 0, OUT_MEAN, OUT_VARIANCE };
enum { GRAD_IN_X, GRAD_IN_SCALE, GRAD_IN_BIAS, GRAD_IN_MEAN, GRAD_IN_VARIANCE, GRAD_IN_DY };
enum { GRAD_OUT_DX, GRAD_OUT_DSCALE, GRAD_OUT_DBIAS };
enum { ROWS_A_BLOCK = 64 };

typedef struct layer_norm_state {
    int64_t nrows, width;
    double epsilon;
} layer_norm_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *x) {
    layer_norm_state *s = KERNEL_STATE(p, layer_norm_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    int64_t axis = attr_int(p->op, "begin_norm_axis", 1);
    if (axis < 0 || axis > x->ndim)
        return kernel_unsupported(p, "expected begin_norm_axis of 0 to %d, found %lld", x->ndim, (long long)axis);
    s->nrows = s->width = 1;
    for (int i = 0; i < x->ndim; i++) *(i < axis ? &s->nrows : &s->width) *= x->dims[i];
    s->epsilon = attr_float(p->op, "epsilon", 1e-5);
    return NULL;
}

/* An optional argument of `numel` elements of x's type. */
static weft_status check_like(kernel_prepare *p, const tensor *x, const tensor *t, int64_t numel, const char *what) {
    if (!t) return NULL;
    TRY(require_same_dtype(p, x, t, what));
    return require_numel(p, t, numel, what);
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_common(p, x));
    const layer_norm_state *s = p->state;
    TRY(require_present(p, type_out(p, OUT_Y), "Y"));
    TRY(check_like(p, x, type_in(p, IN_SCALE), s->width, "Scale"));
    TRY(check_like(p, x, type_in(p, IN_BIAS), s->width, "Bias"));
    TRY(check_like(p, x, type_out(p, OUT_Y), x->numel, "Y"));
    TRY(check_like(p, x, type_out(p, OUT_MEAN), s->nrows, "Mean"));
    return check_like(p, x, type_out(p, OUT_VARIANCE), s->nrows, "Variance");
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, GRAD_IN_X);
    TRY(prepare_common(p, x));
    const layer_norm_state *s = p->state;
    TRY(require_present(p, type_in(p, GRAD_IN_DY), "Y@GRAD"));
    TRY(check_like(p, x, type_in(p, GRAD_IN_SCALE), s->width, "Scale"));
    TRY(check_like(p, x, type_in(p, GRAD_IN_DY), x->numel, "Y@GRAD"));
    TRY(require_numel(p, type_in(p, GRAD_IN_MEAN), s->nrows, "Mean"));
    TRY(require_numel(p, type_in(p, GRAD_IN_VARIANCE), s->nrows, "Variance"));
    TRY(check_like(p, x, type_in(p, GRAD_IN_MEAN), s->nrows, "Mean"));
    TRY(check_like(p, x, type_in(p, GRAD_IN_VARIANCE), s->nrows, "Variance"));
    TRY(check_like(p, x, type_out(p, GRAD_OUT_DX), x->numel, "X@GRAD"));
    TRY(check_like(p, x, type_out(p, GRAD_OUT_DSCALE), s->width, "Scale@GRAD"));
    TRY(check_like(p, x, type_out(p, GRAD_OUT_DBIAS), s->width, "Bias@GRAD"));
    /* g of one row, and one block of rows of dscale and dbias. */
    p->workspace_nbytes = 3 * (size_t)s->width * weft_dtype_nbytes(x->dtype);
    return NULL;
}

static void *data_of(const tensor *t) {
    return t ? t->data : NULL;
}

#define DEFINE_LAYER_NORM(dtype, suffix, real)                                                                         \
    static void affine_##suffix(int64_t n, const real *x, real mean, real r, const real *scale, const real *bias,      \
                                real *y) {                                                                             \
        if (scale && bias) {                                                                                           \
            INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r * scale[i] + bias[i];                 \
        } else if (scale) {                                                                                            \
            INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r * scale[i];                           \
        } else if (bias) {                                                                                             \
            INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r + bias[i];                            \
        } else {                                                                                                       \
            INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * r;                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void forward_##suffix(const kernel_call *c, const layer_norm_state *s) {                                    \
        const real *x = arg_in(c, IN_X)->data, *scale = data_of(arg_in(c, IN_SCALE));                                  \
        const real *bias = data_of(arg_in(c, IN_BIAS));                                                                \
        real *y = arg_out(c, OUT_Y)->data, *means = data_of(arg_out(c, OUT_MEAN));                                     \
        real *variances = data_of(arg_out(c, OUT_VARIANCE));                                                           \
        for (int64_t row = 0; row < s->nrows; row++, x += s->width, y += s->width) {                                   \
            real mean = sum_##suffix(s->width, x) / (real)s->width;                                                    \
            real variance = sum_squares_##suffix(s->width, x, mean) / (real)s->width;                                  \
            real r = (real)(1 / sqrt((double)variance + s->epsilon));                                                  \
            affine_##suffix(s->width, x, mean, r, scale, bias, y);                                                     \
            if (means) means[row] = mean;                                                                              \
            if (variances) variances[row] = variance;                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void grad_row_##suffix(int64_t n, const real *x, real mean, real r, const real *scale, const real *dy,      \
                                  real *g, real *dx) {                                                                 \
        if (scale)                                                                                                     \
            for (int64_t i = 0; i < n; i++) g[i] = dy[i] * scale[i];                                                   \
        const real *from = scale ? g : dy;                                                                             \
        real mean_g = sum_##suffix(n, from) / (real)n, mean_gh = dot_##suffix(n, x, mean, from) * r / (real)n;         \
        INDEPENDENT for (int64_t i = 0; i < n; i++) dx[i] = r * (from[i] - mean_g - (x[i] - mean) * r * mean_gh);      \
    }                                                                                                                  \
    static void add_params_##suffix(int64_t n, const real *x, real mean, real r, const real *dy, real *dscale,         \
                                    real *dbias) {                                                                     \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            dscale[i] += dy[i] * ((x[i] - mean) * r);                                                                  \
            dbias[i] += dy[i];                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void add_##suffix(int64_t n, const real *x, real *y) {                                                      \
        for (int64_t i = 0; i < n; i++) y[i] += x[i];                                                                  \
    }                                                                                                                  \
    static void grad_##suffix(const kernel_call *c, const layer_norm_state *s) {                                       \
        int64_t n = s->width;                                                                                          \
        const real *x = arg_in(c, GRAD_IN_X)->data, *scale = data_of(arg_in(c, GRAD_IN_SCALE));                        \
        const real *means = arg_in(c, GRAD_IN_MEAN)->data, *variances = arg_in(c, GRAD_IN_VARIANCE)->data;             \
        const real *dy = arg_in(c, GRAD_IN_DY)->data;                                                                  \
        real *dx = data_of(arg_out(c, GRAD_OUT_DX)), *dscale = data_of(arg_out(c, GRAD_OUT_DSCALE));                   \
        real *dbias = data_of(arg_out(c, GRAD_OUT_DBIAS)), *g = c->workspace, *block = g + n;                          \
        if (dscale) memset(dscale, 0, (size_t)n * sizeof *dscale);                                                     \
        if (dbias) memset(dbias, 0, (size_t)n * sizeof *dbias);                                                        \
        for (int64_t first = 0; first < s->nrows; first += ROWS_A_BLOCK) {                                             \
            int64_t end = first + ROWS_A_BLOCK < s->nrows ? first + ROWS_A_BLOCK : s->nrows;                           \
            memset(block, 0, 2 * (size_t)n * sizeof *block);                                                           \
            for (int64_t row = first; row < end; row++) {                                                              \
                real mean = means[row], r = (real)(1 / sqrt((double)variances[row] + s->epsilon));                     \
                const real *xr = x + row * n, *dyr = dy + row * n;                                                     \
                if (dscale || dbias) add_params_##suffix(n, xr, mean, r, dyr, block, block + n);                       \
                if (dx) grad_row_##suffix(n, xr, mean, r, scale, dyr, g, dx + row * n);                                \
            }                                                                                                          \
            if (dscale) add_##suffix(n, block, dscale);                                                                \
            if (dbias) add_##suffix(n, block + n, dbias);                                                              \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_LAYER_NORM)
#undef DEFINE_LAYER_NORM

static weft_status run(const kernel_call *c) {
    if (arg_in(c, IN_X)->dtype == WEFT_FP64)
        forward_fp64(c, c->state);
    else
        forward_fp32(c, c->state);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    if (arg_in(c, GRAD_IN_X)->dtype == WEFT_FP64)
        grad_fp64(c, c->state);
    else
        grad_fp32(c, c->state);
    return NULL;
}

const kernel kernel_layer_norm = {prepare, run};
const kernel kernel_layer_norm_grad = {prepare_grad, run_grad};
