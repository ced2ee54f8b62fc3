/* layer_norm.c: normalisation of rows, and its gradients.
 *
 *   y = (x - mean) / sqrt(variance + epsilon) * scale + bias      per row of the dimensions from begin_norm_axis on
 *
 * With h = (x - mean) * r, r = 1 / sqrt(variance + epsilon), g = dy * scale, and means over a row:
 *   dx = r * (g - mean(g) - h * mean(g * h)),   dscale = sum over rows of dy * h,   dbias = sum over rows of dy
 *
 * Variance is the biased variance of two passes. Sums over rows are kept in blocks of ROWS_A_BLOCK, so that their error
 * does not grow with the number of rows. Paddle: phi/kernels/cpu/layer_norm_kernel.cc. ATen's native_layer_norm is the
 * same but that it keeps r where Paddle keeps the variance. */
#include "executor/kernels/lanes.h"
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/rows.h"

enum { IN_X, IN_SCALE, IN_BIAS, OUT_Y = 0, OUT_MEAN, OUT_VARIANCE };
enum { GRAD_IN_X, GRAD_IN_SCALE, GRAD_IN_BIAS, GRAD_IN_MEAN, GRAD_IN_VARIANCE, GRAD_IN_DY };
enum { GRAD_OUT_DX, GRAD_OUT_DSCALE, GRAD_OUT_DBIAS };
enum { ROWS_A_BLOCK = 64 };

typedef struct layer_norm_state {
    int64_t nrows, width;
    double epsilon;
    bool keeps_r; /* the second statistic is 1 / sqrt(variance + epsilon) */
} layer_norm_state;

/* Dimensions from this one on are normalised. */
static int64_t first_axis(const kernel_prepare *p, const tensor *x, bool aten) {
    size_t count;
    if (!aten) return attr_int(p->op, "begin_norm_axis", 1);
    attr_ints(p->op, "normalized_shape", &count);
    return count <= (size_t)x->ndim ? x->ndim - (int64_t)count : -1;
}

static weft_status prepare_common(kernel_prepare *p, const tensor *x, bool aten) {
    layer_norm_state *s = KERNEL_STATE(p, layer_norm_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    int64_t axis = first_axis(p, x, aten);
    if (axis < 0 || axis > x->ndim)
        return kernel_unsupported(p, "expected to normalise from a dimension of 0 to %d on, found %lld", x->ndim,
                                  (long long)axis);
    s->keeps_r = aten;
    s->nrows = s->width = 1;
    for (int i = 0; i < x->ndim; i++) *(i < axis ? &s->nrows : &s->width) *= x->dims[i];
    s->epsilon = attr_float(p->op, aten ? "eps" : "epsilon", 1e-5);
    return NULL;
}

#define DEFINE_LAYER_NORM(dtype, suffix, real)                                                                         \
    static inline real r_##suffix(const layer_norm_state *s, real kept) {                                              \
        return s->keeps_r ? kept : (real)(1 / sqrt((double)kept + s->epsilon));                                        \
    }                                                                                                                  \
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
    static void forward_##suffix(const kernel_call *c, const layer_norm_state *s, int64_t first, int64_t end) {        \
        const real *x = arg_in(c, IN_X)->data, *scale = data_or_null(arg_in(c, IN_SCALE));                             \
        const real *bias = data_or_null(arg_in(c, IN_BIAS));                                                           \
        real *y = arg_out(c, OUT_Y)->data, *means = data_or_null(arg_out(c, OUT_MEAN));                                \
        real *variances = data_or_null(arg_out(c, OUT_VARIANCE));                                                      \
        x += first * s->width;                                                                                         \
        y += first * s->width;                                                                                         \
        for (int64_t row = first; row < end; row++, x += s->width, y += s->width) {                                    \
            real mean = sum_##suffix(s->width, x) / (real)s->width;                                                    \
            real variance = sum_squares_##suffix(s->width, x, mean) / (real)s->width;                                  \
            real r = (real)(1 / sqrt((double)variance + s->epsilon));                                                  \
            affine_##suffix(s->width, x, mean, r, scale, bias, y);                                                     \
            if (means) means[row] = mean;                                                                              \
            if (variances) variances[row] = s->keeps_r ? r : variance;                                                 \
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
    static void grad_##suffix(const kernel_call *c, const layer_norm_state *s, int64_t from, int64_t to) {             \
        int64_t n = s->width;                                                                                          \
        const real *x = arg_in(c, GRAD_IN_X)->data, *scale = data_or_null(arg_in(c, GRAD_IN_SCALE));                   \
        const real *means = arg_in(c, GRAD_IN_MEAN)->data, *variances = arg_in(c, GRAD_IN_VARIANCE)->data;             \
        const real *dy = arg_in(c, GRAD_IN_DY)->data;                                                                  \
        real *dx = data_or_null(arg_out(c, GRAD_OUT_DX)), *dscale = data_or_null(arg_out(c, GRAD_OUT_DSCALE));         \
        real *dbias = data_or_null(arg_out(c, GRAD_OUT_DBIAS)), *g = c->workspace, *block = g + n;                     \
        if (dscale && from == 0) memset(dscale, 0, (size_t)n * sizeof *dscale);                                        \
        if (dbias && from == 0) memset(dbias, 0, (size_t)n * sizeof *dbias);                                           \
        for (int64_t first = from; first < to; first += ROWS_A_BLOCK) {                                                \
            int64_t end = first + ROWS_A_BLOCK < to ? first + ROWS_A_BLOCK : to;                                       \
            memset(block, 0, 2 * (size_t)n * sizeof *block);                                                           \
            for (int64_t row = first; row < end; row++) {                                                              \
                real mean = means[row], r = r_##suffix(s, variances[row]);                                             \
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

static void rows(const kernel_call *c, int64_t first, int64_t end) {
    if (arg_in(c, IN_X)->dtype == WEFT_FP64)
        forward_fp64(c, c->state, first, end);
    else
        forward_fp32(c, c->state, first, end);
}

/* Rows of the split are blocks of rows where scale or bias have gradients: their sums go block by block. */
static void grad_rows(const kernel_call *c, int64_t first, int64_t end) {
    const layer_norm_state *s = c->state;
    int64_t each = s->nrows / c->split.nrows;
    if (arg_in(c, GRAD_IN_X)->dtype == WEFT_FP64)
        grad_fp64(c, s, first * each, end * each);
    else
        grad_fp32(c, s, first * each, end * each);
}

static void split_grad(kernel_prepare *p, const layer_norm_state *s) {
    bool divides = s->nrows > 0 && s->nrows % ROWS_A_BLOCK == 0;
    split_rows(p, grad_rows, divides ? s->nrows / ROWS_A_BLOCK : 1);
    p->split.in_order = true;
}

static weft_status prepare_forward(kernel_prepare *p, bool aten) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_common(p, x, aten));
    const layer_norm_state *s = p->state;
    TRY(require_present(p, type_out(p, OUT_Y), "Y"));
    TRY(require_like(p, x, type_in(p, IN_SCALE), s->width, "Scale"));
    TRY(require_like(p, x, type_in(p, IN_BIAS), s->width, "Bias"));
    TRY(require_like(p, x, type_out(p, OUT_Y), x->numel, "Y"));
    TRY(require_like(p, x, type_out(p, OUT_MEAN), s->nrows, "Mean"));
    split_rows(p, rows, x->numel ? s->nrows : 0);
    return require_like(p, x, type_out(p, OUT_VARIANCE), s->nrows, "Variance");
}

static weft_status prepare_backward(kernel_prepare *p, bool aten) {
    const tensor *x = type_in(p, GRAD_IN_X);
    TRY(prepare_common(p, x, aten));
    const layer_norm_state *s = p->state;
    TRY(require_present(p, type_in(p, GRAD_IN_DY), "Y@GRAD"));
    TRY(require_like(p, x, type_in(p, GRAD_IN_SCALE), s->width, "Scale"));
    TRY(require_like(p, x, type_in(p, GRAD_IN_DY), x->numel, "Y@GRAD"));
    TRY(require_numel(p, type_in(p, GRAD_IN_MEAN), s->nrows, "Mean"));
    TRY(require_numel(p, type_in(p, GRAD_IN_VARIANCE), s->nrows, "Variance"));
    TRY(require_like(p, x, type_in(p, GRAD_IN_MEAN), s->nrows, "Mean"));
    TRY(require_like(p, x, type_in(p, GRAD_IN_VARIANCE), s->nrows, "Variance"));
    TRY(require_like(p, x, type_out(p, GRAD_OUT_DX), x->numel, "X@GRAD"));
    TRY(require_like(p, x, type_out(p, GRAD_OUT_DSCALE), s->width, "Scale@GRAD"));
    TRY(require_like(p, x, type_out(p, GRAD_OUT_DBIAS), s->width, "Bias@GRAD"));
    /* g of one row, and one block of rows of dscale and dbias. */
    p->workspace_nbytes = 3 * (size_t)s->width * weft_dtype_nbytes(x->dtype);
    split_grad(p, s);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_forward(p, false);
}
static weft_status prepare_aten(kernel_prepare *p) {
    return prepare_forward(p, true);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_backward(p, false);
}
static weft_status prepare_aten_grad(kernel_prepare *p) {
    return prepare_backward(p, true);
}

const kernel kernel_aten_native_layer_norm = {prepare_aten, kernel_run_rows};
const kernel kernel_aten_native_layer_norm_backward = {prepare_aten_grad, kernel_run_rows};
const kernel kernel_layer_norm = {prepare, kernel_run_rows};
const kernel kernel_layer_norm_grad = {prepare_grad, kernel_run_rows};
