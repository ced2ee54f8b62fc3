/* Kernels of convolution, normalisation, losses, embedding and optimizers beyond what recordings show: sizes that take
 * the paths of large tensors, gradients by rows, master copies, and values that must be refused. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/kernel_run.h"
#include "tests/support/table.h"

static void make_rows(tensor *t, int64_t *rows, int64_t height) {
    t->rows = rows;
    t->height = height;
}

static void with_four_dims(tensor *t, const int64_t *dims) {
    t->ndim = 4;
    memcpy(t->dims, dims, 4 * sizeof *dims);
    t->numel = dims[0] * dims[1] * dims[2] * dims[3];
}

/* Reproducible numbers in [-1, 1). */
static float *numbers(int64_t count, uint32_t seed) {
    float *x = malloc((size_t)count * sizeof *x);
    cr_assert_not_null(x);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

static void expect_near(const float *got, const double *want, int64_t count, double tolerance, const char *what) {
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(want[i]));
        worst = fmax(worst, fabs((double)got[i] - want[i]));
    }
    cr_expect(worst <= tolerance * largest, "%s: off by %g of %g", what, worst, largest);
}

/* --- convolution against its definition --------------------------------------------------------------------------- */

typedef struct conv_case {
    int64_t n, c, h, w, oc, kh, kw, stride, pad, dilation, groups;
    bool channels_last;
} conv_case;

static int64_t positions(int64_t extent, int64_t size, const conv_case *k) {
    return (extent + 2 * k->pad - (k->dilation * (size - 1) + 1)) / k->stride + 1;
}

static int64_t at(bool last, int64_t n, int64_t c, int64_t y, int64_t x, int64_t nc, int64_t h, int64_t w) {
    return last ? ((n * h + y) * w + x) * nc + c : ((n * nc + c) * h + y) * w + x;
}

/* Visits every product of the convolution: y += x * f, and with it dx += dy * f, df += dy * x. */
static void convolve(const conv_case *k, const float *x, const float *f, const float *dy, double *y, double *dx,
                     double *df) {
    int64_t oh = positions(k->h, k->kh, k), ow = positions(k->w, k->kw, k), ic = k->c / k->groups;
    for (int64_t n = 0; n < k->n; n++)
        for (int64_t o = 0; o < k->oc; o++)
            for (int64_t i = 0; i < oh * ow; i++)
                for (int64_t c = 0; c < ic; c++)
                    for (int64_t t = 0; t < k->kh * k->kw; t++) {
                        int64_t row = i / ow * k->stride - k->pad + t / k->kw * k->dilation;
                        int64_t column = i % ow * k->stride - k->pad + t % k->kw * k->dilation;
                        if (row < 0 || row >= k->h || column < 0 || column >= k->w) continue;
                        int64_t from = o / (k->oc / k->groups) * ic + c, w = (o * ic + c) * k->kh * k->kw + t;
                        int64_t xi = at(k->channels_last, n, from, row, column, k->c, k->h, k->w);
                        int64_t yi = at(k->channels_last, n, o, i / ow, i % ow, k->oc, oh, ow);
                        y[yi] += (double)x[xi] * (double)f[w];
                        dx[xi] += (double)dy[yi] * (double)f[w];
                        df[w] += (double)dy[yi] * (double)x[xi];
                    }
}

static void image_dims(const conv_case *k, int64_t c, int64_t h, int64_t w, int64_t *dims) {
    const int64_t first[] = {k->n, c, h, w}, last[] = {k->n, h, w, c};
    memcpy(dims, k->channels_last ? last : first, sizeof first);
}

static void put_conv_attrs(kernel_test *t, const conv_case *k) {
    kernel_put_longs(t, "strides", 2, (int64_t[]){k->stride, k->stride});
    kernel_put_longs(t, "paddings", 2, (int64_t[]){k->pad, k->pad});
    kernel_put_longs(t, "dilations", 2, (int64_t[]){k->dilation, k->dilation});
    kernel_put_int(t, "groups", k->groups);
    kernel_put_string(t, "data_format", k->channels_last ? "NHWC" : "NCHW");
}

static const conv_case conv_cases[] = {
    {5, 3, 9, 7, 4, 3, 3, 1, 1, 1, 1, false},   /* several images a product, and fewer in the last */
    {3, 2, 40, 33, 5, 5, 3, 1, 2, 1, 1, false}, /* one image a product */
    {4, 6, 8, 8, 9, 3, 3, 2, 1, 2, 3, false},   /* strides, dilations, groups */
    {4, 6, 5, 6, 4, 1, 1, 1, 0, 1, 2, false},   /* no columns are made */
    {3, 4, 6, 6, 4, 3, 3, 1, 1, 1, 4, false},   /* one group a channel */
    {5, 4, 7, 6, 6, 3, 2, 2, 1, 1, 2, true},    /* channels last */
    {2, 3, 1, 1, 2, 3, 3, 1, 1, 1, 1, false},   /* windows larger than the image */
};
TABLE_ROWS(kernels_training, convolution, conv_cases);

TABLE_TEST(size_t *row, kernels_training, convolution) {
    const conv_case *k = &conv_cases[*row];
    int64_t oh = positions(k->h, k->kh, k), ow = positions(k->w, k->kw, k);
    int64_t x_dims[4], y_dims[4], f_dims[] = {k->oc, k->c / k->groups, k->kh, k->kw};
    image_dims(k, k->c, k->h, k->w, x_dims);
    image_dims(k, k->oc, oh, ow, y_dims);
    int64_t nx = k->n * k->c * k->h * k->w, ny = k->n * k->oc * oh * ow, nf = k->oc * f_dims[1] * k->kh * k->kw;
    float *x = numbers(nx, 1), *f = numbers(nf, 2), *dy = numbers(ny, 3);
    float *y = numbers(ny, 4), *dx = numbers(nx, 5), *df = numbers(nf, 6);
    double *want = calloc((size_t)(nx + ny + nf), sizeof *want);
    cr_assert_not_null(want);
    convolve(k, x, f, dy, want, want + ny, want + ny + nx);

    kernel_test t;
    kernel_test_init(&t, "conv2d");
    with_four_dims(kernel_test_in(&t, "Input", WEFT_FP32, x, 1, -1, -1), x_dims);
    with_four_dims(kernel_test_in(&t, "Filter", WEFT_FP32, f, 1, -1, -1), f_dims);
    with_four_dims(kernel_test_out(&t, "Output", WEFT_FP32, y, 1, -1, -1), y_dims);
    put_conv_attrs(&t, k);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(y, want, ny, 1e-5, "Output");
    kernel_test_fini(&t);

    kernel_test_init(&t, "conv2d_grad");
    with_four_dims(kernel_test_in(&t, "Input", WEFT_FP32, x, 1, -1, -1), x_dims);
    with_four_dims(kernel_test_in(&t, "Filter", WEFT_FP32, f, 1, -1, -1), f_dims);
    with_four_dims(kernel_test_in(&t, "Output@GRAD", WEFT_FP32, dy, 1, -1, -1), y_dims);
    with_four_dims(kernel_test_out(&t, "Input@GRAD", WEFT_FP32, dx, 1, -1, -1), x_dims);
    with_four_dims(kernel_test_out(&t, "Filter@GRAD", WEFT_FP32, df, 1, -1, -1), f_dims);
    put_conv_attrs(&t, k);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(dx, want + ny, nx, 1e-5, "Input@GRAD");
    expect_near(df, want + ny + nx, nf, 1e-5, "Filter@GRAD");
    kernel_test_fini(&t);
    free(x), free(f), free(dy), free(y), free(dx), free(df), free(want);
}

/* --- transposition: tiles and their remainders -------------------------------------------------------------------- */

Test(kernels_training, transpose_of_odd_matrices) {
    enum { B = 3, R = 37, C = 50 };
    kernel_test t;
    float *x = numbers(B * R * C, 9), *y = numbers(B * R * C, 10);
    kernel_test_init(&t, "transpose2");
    kernel_put_longs(&t, "axis", 3, (int64_t[]){0, 2, 1});
    kernel_test_in(&t, "X", WEFT_FP32, x, B, R, C);
    kernel_test_out(&t, "Out", WEFT_FP32, y, B, C, R);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < B * R * C; i++)
        cr_assert_eq(y[i / (R * C) * R * C + i % C * R + i / C % R], x[i], "element %d", i);
    kernel_test_fini(&t);
    free(x), free(y);
}

/* --- long rows
 * -------------------------------------------------------------------------------------------------------- */

Test(kernels_training, softmax_of_long_rows) {
    enum { N = 1003 };
    kernel_test t;
    float *x = numbers(N, 11), *y = numbers(N, 12);
    double want[N], sum = 0;
    for (int i = 0; i < N; i++) x[i] *= 20;
    x[5] = -INFINITY;
    float top = x[0];
    for (int i = 1; i < N; i++) top = x[i] > top ? x[i] : top;
    for (int i = 0; i < N; i++) sum += want[i] = exp(fmax((double)x[i] - (double)top, -64));
    for (int i = 0; i < N; i++) want[i] /= sum;
    kernel_test_init(&t, "softmax");
    kernel_test_in(&t, "X", WEFT_FP32, x, 1, N, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, y, 1, N, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(y, want, N, 1e-6, "Out");
    cr_expect(y[5] > 0, "a masked element is clamped at exp(-64), not 0");
    kernel_test_fini(&t);
    free(x), free(y);
}

Test(kernels_training, layer_norm_gradients_over_many_rows) {
    enum { R = 515, C = 67 };
    kernel_test t;
    float *x = numbers(R * C, 13), *dy = numbers(R * C, 14), *dx = numbers(R * C, 15), *scale = numbers(C, 16);
    float mean[R], variance[R], dscale[C], dbias[C];
    static double want_dx[R * C];
    double want_scale[C] = {0}, want_bias[C] = {0};
    for (int r = 0; r < R; r++) {
        double m = 0, v = 0, g = 0, gh = 0;
        for (int i = 0; i < C; i++) m += (double)x[r * C + i] / C;
        for (int i = 0; i < C; i++) v += pow((double)x[r * C + i] - m, 2) / C;
        mean[r] = (float)m, variance[r] = (float)v;
        double inverse = 1 / sqrt(v + 1e-5);
        for (int i = 0; i < C; i++) {
            double h = ((double)x[r * C + i] - m) * inverse, d = (double)dy[r * C + i];
            want_scale[i] += d * h, want_bias[i] += d;
            g += d * (double)scale[i] / C, gh += d * (double)scale[i] * h / C;
        }
        for (int i = 0; i < C; i++) {
            double h = ((double)x[r * C + i] - m) * inverse;
            want_dx[r * C + i] = inverse * ((double)dy[r * C + i] * (double)scale[i] - g - h * gh);
        }
    }
    kernel_test_init(&t, "layer_norm_grad");
    kernel_test_in(&t, "X", WEFT_FP32, x, R, C, -1);
    kernel_test_in(&t, "Scale", WEFT_FP32, scale, C, -1, -1);
    kernel_test_in(&t, "Mean", WEFT_FP32, mean, R, -1, -1);
    kernel_test_in(&t, "Variance", WEFT_FP32, variance, R, -1, -1);
    kernel_test_in(&t, "Y@GRAD", WEFT_FP32, dy, R, C, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_FP32, dx, R, C, -1);
    kernel_test_out(&t, "Scale@GRAD", WEFT_FP32, dscale, C, -1, -1);
    kernel_test_out(&t, "Bias@GRAD", WEFT_FP32, dbias, C, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(dx, want_dx, R * C, 1e-5, "X@GRAD");
    expect_near(dscale, want_scale, C, 1e-5, "Scale@GRAD");
    expect_near(dbias, want_bias, C, 1e-5, "Bias@GRAD");
    kernel_test_fini(&t);
    free(x), free(dy), free(dx), free(scale);
}

/* --- values that must be refused
 * ------------------------------------------------------------------------------------------ */

Test(kernels_training, labels_and_ids_out_of_range_are_errors) {
    kernel_test t;
    float logits[6] = {0}, softmax[6], loss[2], table[6] = {1, 2, 3, 4, 5, 6}, rows[4];
    int64_t labels[] = {1, 3}, ids[] = {0, 2};
    kernel_test_init(&t, "softmax_with_cross_entropy");
    kernel_test_in(&t, "Logits", WEFT_FP32, logits, 2, 3, -1);
    kernel_test_in(&t, "Label", WEFT_INT64, labels, 2, 1, -1);
    kernel_test_out(&t, "Softmax", WEFT_FP32, softmax, 2, 3, -1);
    kernel_test_out(&t, "Loss", WEFT_FP32, loss, 2, 1, -1);
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    labels[1] = -100; /* ignored by default */
    cr_expect_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(loss[1], 0.0f);
    kernel_test_fini(&t);

    kernel_test_init(&t, "lookup_table_v2");
    kernel_test_in(&t, "W", WEFT_FP32, table, 3, 2, -1);
    kernel_test_in(&t, "Ids", WEFT_INT64, ids, 2, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, rows, 2, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(rows, ((float[]){1, 2, 5, 6}), sizeof rows);
    ids[0] = 3;
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    ids[0] = -1; /* padding_idx -1 is none: an error too */
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    kernel_test_fini(&t);
}

/* --- optimizers
 * --------------------------------------------------------------------------------------------------------------- */

Test(kernels_training, sgd_adds_up_rows_named_twice) {
    kernel_test t;
    float param[] = {1, 1, 2, 2, 3, 3}, grad[] = {1, 2, 4, 8, 16, 32}, rate = 0.5f;
    int64_t rows[] = {2, 0, 2};
    kernel_test_init(&t, "sgd");
    kernel_test_in(&t, "Param", WEFT_FP32, param, 3, 2, -1);
    kernel_test_in(&t, "LearningRate", WEFT_FP32, &rate, 1, -1, -1);
    make_rows(kernel_test_in(&t, "Grad", WEFT_FP32, grad, 3, 2, -1), rows, 3);
    kernel_test_out(&t, "ParamOut", WEFT_FP32, param, 3, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(param, ((float[]){-1, -3, 2, 2, -5.5f, -14}), sizeof param);
    rows[1] = 3;
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    kernel_test_fini(&t);
}

/* One step of Adam on 3 rows of 2; the gradient is dense, or has `nrows` rows. Moments start at 1 and 2. Rows are
 * corrected by the powers behind the step, as Paddle's are; a dense step that is to be equal starts one power later. */
static void adam_step(const float *grad, int64_t *rows, int64_t nrows, bool lazy, float *param, float *m, float *v) {
    kernel_test t;
    float rate = 0.1f, pow1 = rows ? 0.9f : 0.9f * 0.9f, pow2 = rows ? 0.999f : 0.999f * 0.999f;
    float next1 = pow1 * 0.9f;
    for (int i = 0; i < 6; i++) param[i] = (float)i, m[i] = 1, v[i] = 2;
    kernel_test_init(&t, "adam");
    kernel_put_bool(&t, "lazy_mode", lazy);
    kernel_test_in(&t, "Param", WEFT_FP32, param, 3, 2, -1);
    tensor *g = kernel_test_in(&t, "Grad", WEFT_FP32, grad, rows ? nrows : 3, 2, -1);
    if (rows) make_rows(g, rows, 3);
    kernel_test_in(&t, "LearningRate", WEFT_FP32, &rate, 1, -1, -1);
    kernel_test_in(&t, "Moment1", WEFT_FP32, m, 3, 2, -1);
    kernel_test_in(&t, "Moment2", WEFT_FP32, v, 3, 2, -1);
    kernel_test_in(&t, "Beta1Pow", WEFT_FP32, &pow1, 1, -1, -1);
    kernel_test_in(&t, "Beta2Pow", WEFT_FP32, &pow2, 1, -1, -1);
    kernel_test_out(&t, "ParamOut", WEFT_FP32, param, 3, 2, -1);
    kernel_test_out(&t, "Moment1Out", WEFT_FP32, m, 3, 2, -1);
    kernel_test_out(&t, "Moment2Out", WEFT_FP32, v, 3, 2, -1);
    kernel_test_out(&t, "Beta1PowOut", WEFT_FP32, &pow1, 1, -1, -1);
    kernel_test_out(&t, "Beta2PowOut", WEFT_FP32, &pow2, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_float_eq(pow1, next1, 1e-6f);
    kernel_test_fini(&t);
}

Test(kernels_training, adam_by_rows_is_adam_with_zeros) {
    float dense[] = {0, 0, 5, 7, 0, 0}, by_rows[] = {2, 3, 3, 4}, a[3][6], b[3][6];
    int64_t rows[] = {1, 1};
    adam_step(dense, NULL, 0, false, a[0], a[1], a[2]);
    adam_step(by_rows, rows, 2, false, b[0], b[1], b[2]);
    cr_expect_arr_eq(a[1], b[1], sizeof a[1]);
    cr_expect_arr_eq(a[2], b[2], sizeof a[2]);
    for (int i = 0; i < 6; i++) cr_expect_float_eq(a[0][i], b[0][i], 1e-6f, "a power is stored as a float");
    cr_expect_lt(b[1][0], 1.0f, "moments of rows without gradient decay");
    adam_step(by_rows, rows, 2, true, b[0], b[1], b[2]);
    for (int i = 2; i < 4; i++) cr_expect_float_eq(a[0][i], b[0][i], 1e-6f, "a lazy step changes the same row alike");
    cr_expect(b[0][0] == 0 && b[1][0] == 1 && b[2][5] == 2, "and leaves the others as they were");
}

Test(kernels_training, momentum_updates_the_master_copy) {
    enum { N = 700 };
    kernel_test t;
    uint16_t param[N], grad[N];
    float master[N], velocity[N], rate = 0.25f;
    for (int i = 0; i < N; i++) {
        master[i] = 1 + (float)i / 1024; /* not all exact in bf16 */
        param[i] = f32_to_bf16(master[i]);
        grad[i] = f32_to_bf16((float)(i % 3));
        velocity[i] = 0;
    }
    kernel_test_init(&t, "momentum");
    kernel_put_bool(&t, "multi_precision", true);
    kernel_test_in(&t, "Param", WEFT_BF16, param, N, -1, -1);
    kernel_test_in(&t, "Grad", WEFT_BF16, grad, N, -1, -1);
    kernel_test_in(&t, "Velocity", WEFT_FP32, velocity, N, -1, -1);
    kernel_test_in(&t, "LearningRate", WEFT_FP32, &rate, 1, -1, -1);
    kernel_test_out(&t, "ParamOut", WEFT_BF16, param, N, -1, -1);
    kernel_test_out(&t, "VelocityOut", WEFT_FP32, velocity, N, -1, -1);
    cr_expect_eq(kernel_test_code(&t), WEFT_UNSUPPORTED, "half precision without a master copy");
    kernel_test_in(&t, "MasterParam", WEFT_FP32, master, N, -1, -1);
    kernel_test_out(&t, "MasterParamOut", WEFT_FP32, master, N, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < N; i++) {
        cr_assert_eq(master[i], 1 + (float)i / 1024 - 0.25f * (float)(i % 3), "element %d", i);
        cr_assert_eq(param[i], f32_to_bf16(master[i]), "element %d", i);
    }
    kernel_test_fini(&t);
}

/* --- radam, nadam: what Paddle 3.3.1 computed in the one element where it read no memory that it had freed ---------
 */

static void check_rectified(const char *op, const char *const *scalars, const float *values, float expected) {
    static const float param = 0.8163722f, grad = 0.12477912f, rate = 0.1f;
    static const float first = -0.60385793f, second = 0.96036494f;
    float out, m1, m2, powers[3];
    char names[3][40];
    kernel_test t;
    kernel_test_init(&t, op);
    kernel_test_in(&t, "param", WEFT_FP32, &param, 1, -1, -1);
    kernel_test_in(&t, "grad", WEFT_FP32, &grad, 1, -1, -1);
    kernel_test_in(&t, "learning_rate", WEFT_FP32, &rate, 1, -1, -1);
    kernel_test_in(&t, "moment1", WEFT_FP32, &first, 1, -1, -1);
    kernel_test_in(&t, "moment2", WEFT_FP32, &second, 1, -1, -1);
    kernel_test_out(&t, "param_out", WEFT_FP32, &out, 1, -1, -1);
    kernel_test_out(&t, "moment1_out", WEFT_FP32, &m1, 1, -1, -1);
    kernel_test_out(&t, "moment2_out", WEFT_FP32, &m2, 1, -1, -1);
    for (int k = 0; k < 3; k++) {
        kernel_test_in(&t, scalars[k], WEFT_FP32, &values[k], 1, -1, -1);
        snprintf(names[k], sizeof names[k], "%s_out", scalars[k]);
        kernel_test_out(&t, names[k], WEFT_FP32, &powers[k], 1, -1, -1);
    }
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", op);
    cr_expect(fabsf(out - expected) < 2e-6f, "%s: %.9g, expected %.9g", op, (double)out, (double)expected);
    kernel_test_fini(&t);
}

Test(kernels_training, rectified_adam_and_nadam_are_paddles) {
    static const char *const radam[] = {"beta1_pow", "beta2_pow", "rho"};
    static const char *const nadam[] = {"momentum_decay_pow", "beta2_pow", "mu_product"};
    check_rectified("radam", radam, (const float[]){0.9f, 0.999f, 4}, 0.8253653f);
    check_rectified("radam", radam, (const float[]){0.38742048f, 0.99103594f, 7.5f}, 0.82422173f);
    check_rectified("nadam", nadam, (const float[]){0.96f, 0.999f, 0.9f}, 0.8171804f);
}
