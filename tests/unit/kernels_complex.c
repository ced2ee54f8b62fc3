/* Kernels on complex numbers: what they compute by parts is what C computes with whole numbers, and what flows back
 * through a product is d Out times the conjugate of the other factor. */
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "tests/support/kernel_run.h"

enum { N = 6 };

static void draw(float complex *x, int n, uint32_t seed) {
    float *noise = kernel_noise((size_t)n * 2, seed);
    for (int i = 0; i < n; i++) x[i] = noise[2 * i] + I * noise[2 * i + 1];
    free(noise);
}

static void expect_near(const float complex *got, const float complex *want, int n, const char *what) {
    for (int i = 0; i < n; i++)
        cr_expect(cabsf(got[i] - want[i]) < 1e-5f, "%s: element %d is %g + %gi, not %g + %gi", what, i,
                  (double)crealf(got[i]), (double)cimagf(got[i]), (double)crealf(want[i]), (double)cimagf(want[i]));
}

static void run_pair(const char *type, const float complex *x, const float complex *y, float complex *out) {
    kernel_test t;
    kernel_test_init(&t, type);
    kernel_test_in(&t, "X", WEFT_COMPLEX64, x, 2, 3, -1);
    kernel_test_in(&t, "Y", WEFT_COMPLEX64, y, 2, 3, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX64, out, 2, 3, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", type);
    kernel_test_fini(&t);
}

Test(kernels_complex, arithmetic) {
    float complex x[N], y[N], out[N], want[4][N];
    static const char *const types[] = {"elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div"};
    draw(x, N, 1);
    draw(y, N, 2);
    for (int i = 0; i < N; i++) {
        want[0][i] = x[i] + y[i];
        want[1][i] = x[i] - y[i];
        want[2][i] = x[i] * y[i];
        want[3][i] = x[i] / y[i];
    }
    for (int k = 0; k < 4; k++) {
        run_pair(types[k], x, y, out);
        expect_near(out, want[k], N, types[k]);
    }
}

Test(kernels_complex, sums_and_scales) {
    float complex x[N], y[N], out[N], want[N], total[2];
    kernel_test t;
    draw(x, N, 3);
    draw(y, N, 4);
    kernel_test_init(&t, "sum");
    kernel_test_in(&t, "X", WEFT_COMPLEX64, x, N, -1, -1);
    kernel_test_in(&t, "X", WEFT_COMPLEX64, y, N, -1, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX64, x, N, -1, -1); /* in place */
    for (int i = 0; i < N; i++) want[i] = x[i] + y[i];
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(x, want, N, "sum");
    kernel_test_fini(&t);

    kernel_test_init(&t, "scale");
    kernel_put_float(&t, "scale", 2);
    kernel_put_float(&t, "bias", 3);
    kernel_test_in(&t, "X", WEFT_COMPLEX64, x, N, -1, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX64, out, N, -1, -1);
    for (int i = 0; i < N; i++) want[i] = 2 * x[i] + 3;
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(out, want, N, "scale");
    kernel_test_fini(&t);

    kernel_test_init(&t, "reduce_sum");
    kernel_put_longs(&t, "dim", 1, (int64_t[]){1});
    kernel_test_in(&t, "X", WEFT_COMPLEX64, x, 2, 3, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX64, total, 2, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(total, (float complex[]){x[0] + x[1] + x[2], x[3] + x[4] + x[5]}, 2, "reduce_sum");
    kernel_test_fini(&t);
}

Test(kernels_complex, gradients_of_a_product_have_conjugates) {
    float complex x[N], y[3], g[N], dx[N], dy[3], want_x[N], want_y[3] = {0};
    kernel_test t;
    draw(x, N, 5);
    draw(y, 3, 6);
    draw(g, N, 7);
    for (int i = 0; i < N; i++) {
        want_x[i] = g[i] * conjf(y[i % 3]);
        want_y[i % 3] += g[i] * conjf(x[i]);
    }
    kernel_test_init(&t, "elementwise_mul_grad");
    kernel_test_in(&t, "X", WEFT_COMPLEX64, x, 2, 3, -1);
    kernel_test_in(&t, "Y", WEFT_COMPLEX64, y, 3, -1, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_COMPLEX64, g, 2, 3, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_COMPLEX64, dx, 2, 3, -1);
    kernel_test_out(&t, "Y@GRAD", WEFT_COMPLEX64, dy, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(dx, want_x, N, "X@GRAD");
    expect_near(dy, want_y, 3, "Y@GRAD");
    kernel_test_fini(&t);
}

Test(kernels_complex, matrix_products_and_their_gradients) {
    float complex x[N], y[N], g[4], out[4], want[4] = {0}, dx[N], dy[N], want_x[N] = {0}, want_y[N] = {0};
    kernel_test t;
    draw(x, N, 8);
    draw(y, N, 9);
    draw(g, 4, 10);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 3; k++) {
                want[2 * i + j] += x[3 * i + k] * y[2 * k + j];
                want_x[3 * i + k] += g[2 * i + j] * conjf(y[2 * k + j]);
                want_y[2 * k + j] += conjf(x[3 * i + k]) * g[2 * i + j];
            }
    kernel_test_init(&t, "matmul_v2");
    kernel_test_in(&t, "X", WEFT_COMPLEX64, x, 2, 3, -1);
    kernel_test_in(&t, "Y", WEFT_COMPLEX64, y, 3, 2, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX64, out, 2, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(out, want, 4, "matmul_v2");
    kernel_test_fini(&t);

    kernel_test_init(&t, "matmul_v2_grad");
    kernel_test_in(&t, "X", WEFT_COMPLEX64, x, 2, 3, -1);
    kernel_test_in(&t, "Y", WEFT_COMPLEX64, y, 3, 2, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_COMPLEX64, g, 2, 2, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_COMPLEX64, dx, 2, 3, -1);
    kernel_test_out(&t, "Y@GRAD", WEFT_COMPLEX64, dy, 3, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(dx, want_x, N, "X@GRAD");
    expect_near(dy, want_y, N, "Y@GRAD");
    kernel_test_fini(&t);
}

Test(kernels_complex, casts) {
    kernel_test t;
    float real[] = {1, -2, 0}, back[3];
    float complex z[3];
    double complex wide[3];
    kernel_test_init(&t, "cast");
    kernel_test_in(&t, "X", WEFT_FP32, real, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX64, z, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    expect_near(z, (float complex[]){1, -2, 0}, 3, "from real numbers");
    kernel_test_fini(&t);
    z[1] += 5 * I;
    kernel_test_init(&t, "cast");
    kernel_test_in(&t, "X", WEFT_COMPLEX64, z, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX128, wide, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(creal(wide[1]) == -2 && cimag(wide[1]) == 5);
    kernel_test_fini(&t);
    kernel_test_init(&t, "cast");
    kernel_test_in(&t, "X", WEFT_COMPLEX128, wide, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, back, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(back[0] == 1 && back[1] == -2 && back[2] == 0, "the real part");
    kernel_test_fini(&t);
}

/* --- functions of one number -------------------------------------------------------------------------------------- */

static double complex sigmoid(double complex z) {
    return 1 / (1 + cexp(-z));
}
static double complex square(double complex z) {
    return z * z;
}
static double complex reciprocal(double complex z) {
    return 1 / z;
}
static double complex inverse_root(double complex z) {
    return 1 / csqrt(z);
}
static double complex log_of_1_more(double complex z) {
    return clog(1 + z);
}
static double complex exp_less_1(double complex z) {
    return cexp(z) - 1;
}
static double complex log_base_2(double complex z) {
    return clog(z) / log(2);
}
static double complex log_base_10(double complex z) {
    return clog(z) / log(10);
}
static double complex silu(double complex z) {
    return z * sigmoid(z);
}
static double complex log_sigmoid(double complex z) {
    return clog(sigmoid(z));
}
static double complex tanh_shrink(double complex z) {
    return z - ctanh(z);
}

static const struct {
    const char *type;
    double complex (*of)(double complex z);
    bool by_out; /* its gradient is made from Out */
} functions[] = {
    {"exp", cexp, true},
    {"expm1", exp_less_1, true},
    {"log", clog, false},
    {"log2", log_base_2, false},
    {"log10", log_base_10, false},
    {"log1p", log_of_1_more, false},
    {"sqrt", csqrt, true},
    {"rsqrt", inverse_root, true},
    {"square", square, false},
    {"sin", csin, false},
    {"cos", ccos, false},
    {"tan", ctan, false},
    {"asin", casin, false},
    {"acos", cacos, false},
    {"atan", catan, false},
    {"sinh", csinh, false},
    {"cosh", ccosh, false},
    {"tanh", ctanh, true},
    {"asinh", casinh, false},
    {"acosh", cacosh, false},
    {"atanh", catanh, false},
    {"sigmoid", sigmoid, true},
    {"silu", silu, false},
    {"logsigmoid", log_sigmoid, false},
    {"tanh_shrink", tanh_shrink, false},
    {"reciprocal", reciprocal, true},
};

static void expect_function(const char *type, const char *slot_name, double complex *in, double complex *g,
                            const double complex *want) {
    kernel_test t;
    double complex out[N];
    kernel_test_init(&t, type);
    kernel_test_in(&t, slot_name, WEFT_COMPLEX128, in, N, -1, -1);
    if (g) kernel_test_in(&t, "Out@GRAD", WEFT_COMPLEX128, g, N, -1, -1);
    kernel_test_out(&t, g ? "X@GRAD" : "Out", WEFT_COMPLEX128, out, N, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", type);
    for (int i = 0; i < N; i++)
        cr_expect(cabs(out[i] - want[i]) < 1e-6 * (1 + cabs(want[i])), "%s: element %d is %g + %gi, not %g + %gi", type,
                  i, creal(out[i]), cimag(out[i]), creal(want[i]), cimag(want[i]));
    kernel_test_fini(&t);
}

/* A gradient is d Out times the conjugate of the slope, which differences show. */
Test(kernels_complex, functions_and_their_gradients) {
    const double step = 1e-5;
    double complex z[N], g[N], out[N], slope[N];
    for (int i = 0; i < N; i++) {
        z[i] = CMPLX(0.3 + 0.1 * i, 0.7 - 0.3 * i);
        g[i] = CMPLX(1 - 0.2 * i, 0.5 + 0.1 * i);
    }
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        char gradient[32];
        snprintf(gradient, sizeof gradient, "%s_grad", functions[k].type);
        for (int i = 0; i < N; i++) {
            out[i] = functions[k].of(z[i]);
            slope[i] = g[i] * conj((functions[k].of(z[i] + step) - functions[k].of(z[i] - step)) / (2 * step));
        }
        expect_function(functions[k].type, "X", z, NULL, out);
        expect_function(gradient, functions[k].by_out ? "Out" : "X", functions[k].by_out ? out : z, g, slope);
    }
}

Test(kernels_complex, gradients_of_quotients_and_powers) {
    static const char *const types[] = {"elementwise_div_grad", "elementwise_pow_grad"};
    float complex x[N], y[3], g[N], out[N], dx[N], dy[3];
    draw(x, N, 11);
    draw(y, 3, 12);
    draw(g, N, 13);
    for (int k = 0; k < 2; k++) {
        float complex want_x[N], want_y[3] = {0};
        kernel_test t;
        for (int i = 0; i < N; i++) {
            double complex a = x[i], b = y[i % 3];
            out[i] = (float complex)(k ? cpow(a, b) : a / b);
            want_x[i] = (float complex)(g[i] * conj(k ? b * cpow(a, b - 1) : 1 / b));
            want_y[i % 3] += (float complex)(g[i] * conj(k ? clog(a) * cpow(a, b) : -a / (b * b)));
        }
        kernel_test_init(&t, types[k]);
        kernel_test_in(&t, "X", WEFT_COMPLEX64, x, 2, 3, -1);
        kernel_test_in(&t, "Y", WEFT_COMPLEX64, y, 3, -1, -1);
        if (!k) kernel_test_in(&t, "Out", WEFT_COMPLEX64, out, 2, 3, -1);
        kernel_test_in(&t, "Out@GRAD", WEFT_COMPLEX64, g, 2, 3, -1);
        kernel_test_out(&t, "X@GRAD", WEFT_COMPLEX64, dx, 2, 3, -1);
        kernel_test_out(&t, "Y@GRAD", WEFT_COMPLEX64, dy, 3, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", types[k]);
        for (int i = 0; i < N; i++)
            cr_expect(cabsf(dx[i] - want_x[i]) < 1e-4f * (1 + cabsf(want_x[i])), "%s: X@GRAD", types[k]);
        for (int i = 0; i < 3; i++)
            cr_expect(cabsf(dy[i] - want_y[i]) < 1e-4f * (1 + cabsf(want_y[i])), "%s: Y@GRAD", types[k]);
        kernel_test_fini(&t);
    }
}
