/* What kernels make of NaN and infinities: the values of the framework that the op is of, a table. Where Paddle's CPU
 * kernel depends on the order of vector lanes (reduce_max, arg_max), NaN wins, as in numpy.
 *
 * The input is NaN, inf, -inf, 0, -2, 3 for functions of one element; reductions have theirs in the row. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "executor/kernels/typed.h"
#include "tests/support/kernel_run.h"

enum { ELEMENTS = 6, MOST = 8 };
#define NO NAN
#define UP INFINITY
#define DOWN (-INFINITY)

/* --- functions of one element ------------------------------------------------------------------------------------- */

typedef struct function_case {
    const char *op, *in, *out;
    double expected[ELEMENTS];
    const char *attrs; /* "name=value name=value" */
} function_case;

static const function_case functions[] = {
    {"relu", "X", "Out", {0, UP, 0, 0, 0, 3}, ""}, /* Paddle asks x > 0 */
    {"aten_relu", "self", "out", {NO, UP, 0, 0, 0, 3}, ""},
    {"relu6", "X", "Out", {NO, 6, 0, 0, 0, 3}, "threshold=6"},
    {"leaky_relu", "X", "Out", {NO, UP, DOWN, 0, -1, 3}, "alpha=0.5"},
    {"clip", "X", "Out", {NO, 1, -1, 0, -1, 1}, "min=-1 max=1"},
    {"brelu", "X", "Out", {NO, 2, -1, 0, -1, 2}, "t_min=-1 t_max=2"},
    {"hard_sigmoid", "X", "Out", {NO, 1, 0, 0.5, 0, 1}, "slope=0.5 offset=0.5"},
    {"hard_swish", "X", "Out", {NO, UP, NO, 0, -1.0 / 3, 3}, "threshold=6 scale=6 offset=3"},
    {"hard_shrink", "X", "Out", {NO, UP, DOWN, 0, -2, 3}, "threshold=1"},
    {"softshrink", "X", "Out", {NO, UP, DOWN, 0, -1, 2}, "lambda=1"},
    {"sign", "X", "Out", {NO, 1, -1, 0, -1, 1}, ""},
    {"abs", "X", "Out", {NO, UP, UP, 0, 2, 3}, ""},
    {"square", "X", "Out", {NO, UP, UP, 0, 4, 9}, ""},
    {"sqrt", "X", "Out", {NO, UP, NO, 0, NO, 1.7320508}, ""},
    {"rsqrt", "X", "Out", {NO, 0, NO, UP, NO, 0.57735027}, ""},
    {"reciprocal", "X", "Out", {NO, 0, 0, UP, -0.5, 1.0 / 3}, ""},
    {"exp", "X", "Out", {NO, UP, 0, 1, 0.13533528, 20.085537}, ""},
    {"log", "X", "Out", {NO, UP, NO, DOWN, NO, 1.0986123}, ""},
    {"log1p", "X", "Out", {NO, UP, NO, 0, NO, 1.3862944}, ""},
    {"tanh", "X", "Out", {NO, 1, -1, 0, -0.9640276, 0.99505475}, ""},
    {"sigmoid", "X", "Out", {NO, 1, 0, 0.5, 0.11920292, 0.95257413}, ""},
    {"softplus", "X", "Out", {NO, UP, 0, 0.6931472, 0.126928, 3.0485874}, "beta=1 threshold=20"},
    {"elu", "X", "Out", {NO, UP, -1, 0, -0.86466473, 3}, "alpha=1"},
    {"silu", "X", "Out", {NO, UP, NO, 0, -0.23840584, 2.8577224}, ""},
    {"erf", "X", "Out", {NO, 1, -1, 0, -0.9953223, 0.9999779}, ""},
    {"floor", "X", "Out", {NO, UP, DOWN, 0, -2, 3}, ""},
    {"ceil", "X", "Out", {NO, UP, DOWN, 0, -2, 3}, ""},
    {"round", "X", "Out", {NO, UP, DOWN, 0, -2, 3}, ""},
    {"sin", "X", "Out", {NO, NO, NO, 0, -0.90929743, 0.14112001}, ""},
    {"pow", "X", "Out", {NO, UP, UP, 0, 4, 9}, "factor=2"},
    {"scale", "X", "Out", {NO, UP, DOWN, 0, -4, 6}, "scale=2"},
};

static void put_attrs(kernel_test *t, const char *attrs) {
    char attr[32];
    double value;
    int used;
    while (sscanf(attrs, " %31[^=]=%lf%n", attr, &value, &used) == 2) {
        kernel_put_float(t, attr, value);
        attrs += used;
    }
}

static bool same(double a, double b) {
    if (isnan(b)) return isnan(a);
    if (isinf(b)) return isinf(a) && (a > 0) == (b > 0);
    return fabs(a - b) <= 1e-6 * fmax(1, fabs(b));
}

/* In a tensor long enough for vector loops and their rest. */
static void check_function(const function_case *f, weft_dtype dtype) {
    enum { REPEATS = 37, COUNT = REPEATS * ELEMENTS };
    static const double values[ELEMENTS] = {NO, UP, DOWN, 0, -2, 3};
    static double wide_in[COUNT], wide_out[COUNT];
    static float in[COUNT], out[COUNT];
    kernel_test t;
    for (int i = 0; i < COUNT; i++) {
        wide_in[i] = values[i % ELEMENTS];
        in[i] = (float)values[i % ELEMENTS];
    }
    kernel_test_init(&t, f->op);
    put_attrs(&t, f->attrs);
    bool wide = dtype == WEFT_FP64;
    kernel_test_in(&t, f->in, dtype, wide ? (void *)wide_in : (void *)in, COUNT, -1, -1);
    kernel_test_out(&t, f->out, dtype, wide ? (void *)wide_out : (void *)out, COUNT, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", f->op);
    for (int i = 0; i < COUNT; i++) {
        double got = wide ? wide_out[i] : (double)out[i], expected = f->expected[i % ELEMENTS];
        cr_expect(same(got, expected), "%s(%g) of %s at %d: %g, expected %g", f->op, values[i % ELEMENTS],
                  dtype_text(dtype), i, got, expected);
    }
    kernel_test_fini(&t);
}

Test(kernels_not_finite, functions_of_one_element) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        check_function(&functions[i], WEFT_FP32);
        check_function(&functions[i], WEFT_FP64);
    }
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

typedef struct reduction_case {
    const char *op;
    double in[4], expected;
} reduction_case;

static const reduction_case reductions[] = {
    {"reduce_max", {1, NO, 3, 2}, NO},       {"reduce_max", {1, 2, 3, NO}, NO},    {"reduce_max", {NO, UP, 3, 2}, NO},
    {"reduce_max", {DOWN, DOWN, 3, UP}, UP}, {"reduce_min", {1, NO, 3, 2}, NO},    {"reduce_min", {1, DOWN, 3, 2}, DOWN},
    {"reduce_amax", {1, NO, 3, 2}, NO},      {"reduce_amin", {1, NO, 3, 2}, NO},   {"reduce_sum", {1, UP, 3, DOWN}, NO},
    {"reduce_sum", {1, UP, 3, 2}, UP},       {"reduce_mean", {1, NO, 3, 2}, NO},   {"reduce_prod", {0, UP, 3, 2}, NO},
    {"logsumexp", {1, UP, NO, 2}, NO},       {"logsumexp", {NO, UP, 1, 2}, NO},    {"logsumexp", {DOWN, DOWN, DOWN, DOWN}, DOWN},
    {"logsumexp", {1, UP, 3, 2}, UP},        {"p_norm_inf", {1, NO, 3, 2}, NO},    {"p_norm_inf", {NO, 1, DOWN, 2}, NO},
    {"p_norm_inf", {1, DOWN, 3, 2}, UP},
};

static void check_reduction(const reduction_case *r) {
    float in[4], out = 0;
    kernel_test t;
    bool norm = strcmp(r->op, "p_norm_inf") == 0;
    for (int i = 0; i < 4; i++) in[i] = (float)r->in[i];
    kernel_test_init(&t, norm ? "p_norm" : r->op);
    kernel_put_bool(&t, "reduce_all", true);
    kernel_put_bool(&t, "asvector", true);
    kernel_put_float(&t, "porder", INFINITY);
    kernel_test_in(&t, "X", WEFT_FP32, in, 4, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, &out, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", r->op);
    cr_expect(same((double)out, r->expected), "%s of %g %g %g %g: %g, expected %g", r->op, r->in[0], r->in[1], r->in[2],
              r->in[3], (double)out, r->expected);
    kernel_test_fini(&t);
}

Test(kernels_not_finite, reductions) {
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) check_reduction(&reductions[i]);
}

static int64_t index_of(const char *op, const float *in) {
    int64_t out = -1;
    kernel_test t;
    kernel_test_init(&t, op);
    kernel_test_in(&t, "X", WEFT_FP32, in, 4, -1, -1);
    kernel_test_out(&t, "Out", WEFT_INT64, &out, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", op);
    kernel_test_fini(&t);
    return out;
}

Test(kernels_not_finite, the_index_of_the_largest_is_that_of_the_first_nan) {
    cr_expect_eq(index_of("arg_max", (float[]){1, NAN, 9, NAN}), 1);
    cr_expect_eq(index_of("arg_min", (float[]){1, 0, NAN, -9}), 2);
    cr_expect_eq(index_of("arg_max", (float[]){NAN, 1, 2, 3}), 0);
    cr_expect_eq(index_of("arg_max", (float[]){-INFINITY, 1, INFINITY, 3}), 2);
}

/* --- of two tensors, sequences, order, windows -------------------------------------------------------------------- */

static void run_two(const char *op, float x, float y, float *out) {
    kernel_test t;
    kernel_test_init(&t, op);
    kernel_test_in(&t, "X", WEFT_FP32, &x, 1, -1, -1);
    kernel_test_in(&t, "Y", WEFT_FP32, &y, 1, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", op);
    kernel_test_fini(&t);
}

/* Paddle's are comparisons: the second operand where either is NaN. */
Test(kernels_not_finite, the_larger_of_two) {
    static const struct {
        const char *op;
        float x, y;
        double expected;
    } cases[] = {{"elementwise_max", NAN, 2, NO}, {"elementwise_max", 2, NAN, NO},          {"elementwise_min", NAN, 2, NO},
                 {"elementwise_min", 2, NAN, NO}, {"elementwise_fmax", NAN, 2, 2},          {"elementwise_fmax", 2, NAN, 2},
                 {"elementwise_fmin", NAN, 2, 2}, {"elementwise_max", -INFINITY, 2, 2},     {"elementwise_sub", INFINITY, INFINITY, NO},
                 {"elementwise_div", 0, 0, NO},   {"elementwise_mul", 0, INFINITY, NO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float out = 0;
        run_two(cases[i].op, cases[i].x, cases[i].y, &out);
        cr_expect(same((double)out, cases[i].expected), "%s(%g, %g): %g, expected %g", cases[i].op, (double)cases[i].x,
                  (double)cases[i].y, (double)out, cases[i].expected);
    }
}

static void run_row(const char *op, const float *in, float *out) {
    kernel_test t;
    kernel_test_init(&t, op);
    kernel_test_in(&t, "X", WEFT_FP32, in, 1, 4, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 1, 4, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", op);
    kernel_test_fini(&t);
}

Test(kernels_not_finite, rows) {
    static const struct {
        const char *op;
        float in[4];
        double expected[4];
    } cases[] = {{"softmax", {NAN, 1, 2, 3}, {NO, NO, NO, NO}},
                 {"log_softmax", {1, NAN, 2, 3}, {NO, NO, NO, NO}},
                 {"softmax", {0, 0, INFINITY, 0}, {NO, NO, NO, NO}},
                 {"cumsum", {1, NAN, 2, 3}, {1, NO, NO, NO}},
                 {"cumsum", {1, INFINITY, 2, 3}, {1, UP, UP, UP}},
                 {"logcumsumexp", {1, NAN, 2, INFINITY}, {1, NO, NO, NO}},
                 {"logcumsumexp", {-INFINITY, 1, INFINITY, 2}, {DOWN, 1, UP, UP}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float out[4] = {0};
        run_row(cases[i].op, cases[i].in, out);
        for (int k = 0; k < 4; k++)
            cr_expect(same((double)out[k], cases[i].expected[k]), "%s, row %zu, %d: %g, expected %g", cases[i].op, i, k,
                      (double)out[k], cases[i].expected[k]);
    }
}

/* NaN counts as the largest. */
Test(kernels_not_finite, sorting) {
    static const float in[4] = {2, NAN, INFINITY, -INFINITY};
    for (int descending = 0; descending < 2; descending++) {
        static const int64_t expected[2][4] = {{3, 0, 2, 1}, {1, 2, 0, 3}};
        float out[4];
        int64_t indices[4];
        kernel_test t;
        kernel_test_init(&t, "argsort");
        kernel_put_bool(&t, "descending", descending);
        kernel_test_in(&t, "X", WEFT_FP32, in, 4, -1, -1);
        kernel_test_out(&t, "Out", WEFT_FP32, out, 4, -1, -1);
        kernel_test_out(&t, "Indices", WEFT_INT64, indices, 4, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        cr_expect_arr_eq(indices, expected[descending], sizeof indices);
        kernel_test_fini(&t);
    }
}

/* Paddle keeps the largest so far where it is larger, else takes the next element: NaN unless a later one follows. */
Test(kernels_not_finite, the_largest_of_a_window) {
    enum { WIDTH = 64 };
    static const struct {
        float window[4];
        double expected;
    } cases[] = {{{1, 2, 3, NAN}, NO}, {{NAN, 1, 2, 3}, 3}, {{1, INFINITY, 2, 3}, UP}, {{-5, -6, -7, -8}, -5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float in[2 * WIDTH], out[WIDTH / 2];
        for (int k = 0; k < 2 * WIDTH; k++) in[k] = cases[i].window[2 * (k / WIDTH) + k % 2];
        tensor *x, *y;
        kernel_test t;
        kernel_test_init(&t, "pool2d");
        kernel_put_string(&t, "pooling_type", "max");
        kernel_put_longs(&t, "ksize", 2, (int64_t[]){2, 2});
        kernel_put_longs(&t, "strides", 2, (int64_t[]){2, 2});
        kernel_put_longs(&t, "paddings", 2, (int64_t[]){0, 0});
        x = kernel_test_in(&t, "X", WEFT_FP32, in, 1, 1, 2 * WIDTH);
        *x = (tensor){.data = in, .dtype = WEFT_FP32, .ndim = 4, .dims = {1, 1, 2, WIDTH}, .numel = 2 * WIDTH, .height = -1};
        y = kernel_test_out(&t, "Out", WEFT_FP32, out, 1, 1, WIDTH / 2);
        *y = (tensor){.data = out, .dtype = WEFT_FP32, .ndim = 4, .dims = {1, 1, 1, WIDTH / 2}, .numel = WIDTH / 2, .height = -1};
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        for (int k = 0; k < WIDTH / 2; k++)
            cr_expect(same((double)out[k], cases[i].expected), "window %zu: %g, expected %g", i, (double)out[k],
                      cases[i].expected);
        kernel_test_fini(&t);
    }
}

/* Gradients at a bend: Paddle's slope at 0 is 1, torch's is the slope below. */
Test(kernels_not_finite, leaky_relu_at_0) {
    float x[4] = {0, -0.0f, -1, NAN}, g[4] = {8, 8, 8, 8}, out[4];
    kernel_test t;
    kernel_test_init(&t, "leaky_relu_grad");
    kernel_put_float(&t, "alpha", 0.25);
    kernel_test_in(&t, "X", WEFT_FP32, x, 4, -1, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_FP32, g, 4, -1, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_FP32, out, 4, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(out[0] == 8 && out[1] == 8 && out[2] == 2 && isnan(out[3]), "%g %g %g %g", (double)out[0],
              (double)out[1], (double)out[2], (double)out[3]);
    kernel_test_fini(&t);
    kernel_test_init(&t, "aten_leaky_relu_backward");
    kernel_put_float(&t, "negative_slope", 0.25);
    kernel_test_in(&t, "grad_output", WEFT_FP32, g, 4, -1, -1);
    kernel_test_in(&t, "self", WEFT_FP32, x, 4, -1, -1);
    kernel_test_out(&t, "grad_input", WEFT_FP32, out, 4, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(out[0] == 2 && out[1] == 2 && out[2] == 2 && out[3] == 2);
    kernel_test_fini(&t);
}

Test(kernels_not_finite, torch_passes_a_gradient_where_the_input_is_nan) {
    float x[3] = {NAN, -1, 1}, g[3] = {5, 6, 7}, out[3];
    kernel_test t;
    kernel_test_init(&t, "aten_threshold_backward");
    kernel_test_in(&t, "grad_output", WEFT_FP32, g, 3, -1, -1);
    kernel_test_in(&t, "self", WEFT_FP32, x, 3, -1, -1);
    kernel_test_out(&t, "grad_input", WEFT_FP32, out, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(out[0], 5);
    cr_expect_eq(out[1], 0);
    cr_expect_eq(out[2], 7);
    kernel_test_fini(&t);
}
