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

/* Of `count` rows, n elements each: means and biased variances; sums of g = dy * scale (NULL: dy) and of (x - mean) *
 * g. */
static void row_means_fp64(int64_t n, int64_t count, const double *x, double *mean, double *variance) {
    for (int64_t k = 0; k < count; k++, x += n) {
        mean[k] = sum_fp64(n, x) / (double)n;
        variance[k] = sum_squares_fp64(n, x, mean[k]) / (double)n;
    }
}
static void row_means_fp32(int64_t n, int64_t count, const float *x, float *mean, float *variance) {
    lanes16 sums[SIDE_BY_SIDE];
    for (int64_t k = 0; k < count; k++) sums[k] = sum_lanes(n, x + k * n);
    fold_rows(sums, count, mean);
    for (int64_t k = 0; k < count; k++) mean[k] /= (float)n;
    for (int64_t k = 0; k < count; k++) sums[k] = sum_squares_lanes(n, x + k * n, mean[k]);
    fold_rows(sums, count, variance);
    for (int64_t k = 0; k < count; k++) variance[k] /= (float)n;
}
static void row_sums_fp64(int64_t n, int64_t count, const double *x, const double *mean, const double *scale,
                          const double *dy, double *out_sum, double *out_dot) {
    for (int64_t k = 0; k < count; k++, x += n, dy += n) {
        double sum[LANES] = {0}, dot[LANES] = {0};
        for (int64_t i = 0; i < n; i++) {
            double g = scale ? dy[i] * scale[i] : dy[i];
            sum[i % LANES] += g;
            dot[i % LANES] += (x[i] - mean[k]) * g;
        }
        out_sum[k] = fold_sum_fp64(sum);
        out_dot[k] = fold_sum_fp64(dot);
    }
}
/* Of LANES elements, or the first n. */
static inline __attribute__((always_inline)) void add_lanes(int64_t n, const float *x, float mean, const float *scale,
                                                            const float *dy, vec sum[PARTS], vec dot[PARTS]) {
    EACH_PART(j) {
        int64_t at = j * VEC;
        vec g = lanes_load(dy + at, n - at, 0);
        if (scale) g *= lanes_load(scale + at, n - at, 0);
        sum[j] += g;
        dot[j] += (lanes_load(x + at, n - at, mean) - mean) * g;
    }
}
static void row_sums_fp32(int64_t n, int64_t count, const float *x, const float *mean, const float *scale,
                          const float *dy, float *out_sum, float *out_dot) {
    lanes16 sums[SIDE_BY_SIDE], dots[SIDE_BY_SIDE];
    for (int64_t k = 0; k < count; k++, x += n, dy += n) {
        vec sum[PARTS] = {{0}}, dot[PARTS] = {{0}};
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) add_lanes(LANES, x + i, mean[k], scale ? scale + i : NULL, dy + i, sum, dot);
        if (i < n) add_lanes(n - i, x + i, mean[k], scale ? scale + i : NULL, dy + i, sum, dot);
        sums[k] = lanes_halve(sum);
        dots[k] = lanes_halve(dot);
    }
    fold_rows(sums, count, out_sum);
    fold_rows(dots, count, out_dot);
}

#define TEMPLATE "executor/kernels/norm/layer_norm_real.h"
#include "executor/kernels/each_real.h"

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
    /* One block of rows of dscale and dbias, and g of rows side by side. */
    p->workspace_nbytes =
        (2 + (size_t)rows_at_a_time(s->width, SIDE_BY_SIDE)) * (size_t)s->width * weft_dtype_nbytes(x->dtype);
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
