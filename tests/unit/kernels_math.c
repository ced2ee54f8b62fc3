/* The maths that kernels share: half types, exp and its kin, Philox, matrix products, loops. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "executor/kernels/accumulate.h"
#include "executor/kernels/fill/random.h"
#include "executor/kernels/vector_math.h"
#include "tests/support/kernel_run.h"
#include "tests/support/table.h"

/* --- half types --------------------------------------------------------------------------------------------------- */

Test(kernels_math, every_fp16_survives_fp32) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
        uint16_t back = f32_to_fp16(fp16_to_f32((uint16_t)h));
        if (nan) {
            cr_assert((back & 0x7c00) == 0x7c00 && (back & 0x3ff), "NaN %04x became %04x", h, back);
        } else {
            cr_assert_eq(back, h, "%04x became %04x", h, back);
        }
    }
}

Test(kernels_math, every_bf16_survives_fp32) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        bool nan = (h & 0x7f80) == 0x7f80 && (h & 0x7f);
        uint16_t back = f32_to_bf16(bf16_to_f32((uint16_t)h));
        cr_assert(nan ? (back & 0x7f) != 0 : back == h, "%04x became %04x", h, back);
    }
}

typedef struct rounding {
    float value;
    uint16_t bf16, fp16;
} rounding;

static const rounding roundings[] = {
    {1.0f, 0x3f80, 0x3c00},       {0x1.01p0f, 0x3f80, 0x3c04},  /* bf16: a tie, to even below */
    {0x1.03p0f, 0x3f82, 0x3c0c},                                /* bf16: a tie, to even above */
    {0x1.002p0f, 0x3f80, 0x3c00},                               /* fp16: a tie, to even below */
    {0x1.006p0f, 0x3f80, 0x3c02},                               /* fp16: a tie, to even above */
    {65519.0f, 0x4780, 0x7bff},                                 /* the last that does not round to infinity */
    {65520.0f, 0x4780, 0x7c00},   {0x1.8p-24f, 0x33c0, 0x0002}, /* subnormal fp16, a tie */
    {0x1.0p-25f, 0x3300, 0x0000},                               /* half of the smallest */
    {-0.0f, 0x8000, 0x8000},      {0x1.fffffep127f, 0x7f80, 0x7c00},
};

TABLE_ROWS(kernels_math, halves_round_to_nearest_even, roundings);
TABLE_TEST(size_t *row, kernels_math, halves_round_to_nearest_even) {
    const rounding *r = &roundings[*row];
    cr_expect_eq(f32_to_bf16(r->value), r->bf16, "bf16 of %a is %04x", (double)r->value, f32_to_bf16(r->value));
    cr_expect_eq(f32_to_fp16(r->value), r->fp16, "fp16 of %a is %04x", (double)r->value, f32_to_fp16(r->value));
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

typedef struct approximation {
    const char *name;
    float (*f)(float);
    double (*exact)(double);
    float low, high;
    double ulps;
} approximation;

static float normal_below(float x) {
    return vm_normal_below(x, vm_exp(-0.5f * x * x));
}
static double exact_normal_below(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

static const approximation approximations[] = {
    {"exp", vm_exp, exp, -87.0f, 88.7f, 3},
    {"tanh", vm_tanh, tanh, -20.0f, 20.0f, 3},
    {"tanh near 0", vm_tanh, tanh, -1.0f, 1.0f, 3},
    {"normal", normal_below, exact_normal_below, -2.0f, 6.0f, 8},
};

TABLE_ROWS(kernels_math, approximations_are_close, approximations);
TABLE_TEST(size_t *row, kernels_math, approximations_are_close) {
    const approximation *a = &approximations[*row];
    for (int i = 0; i <= 200000; i++) {
        float x = a->low + (a->high - a->low) * (float)i / 200000.0f, y = a->f(x);
        double want = a->exact((double)x),
               ulp = (double)(nextafterf(fabsf((float)want), INFINITY) - fabsf((float)want));
        cr_assert(fabs((double)y - want) <= a->ulps * ulp, "%s(%g) is %.9g, not %.9g", a->name, (double)x, (double)y,
                  want);
    }
}

Test(kernels_math, exp_has_its_limits) {
    cr_expect_eq(vm_exp(0.0f), 1.0f);
    cr_expect_eq(vm_exp(100.0f), INFINITY);
    cr_expect_eq(vm_exp(INFINITY), INFINITY);
    cr_expect_eq(vm_exp(-INFINITY), 0.0f);
    cr_expect(isnan(vm_exp(NAN)));
    cr_expect(isnan(vm_tanh(NAN)));
    cr_expect_eq(vm_tanh(-INFINITY), -1.0f);
    cr_expect_eq(vm_exp(-100.0f), 0.0f); /* e^-87 is the least */
}

static double exact_gelu_slope(double x) {
    return exact_normal_below(x) + x * exp(-0.5 * x * x) * 0.39894228040143267794;
}

/* gelu and its gradient as kernels, which take another way where there are wide vectors. */
Test(kernels_math, gelu_is_close) {
    enum { N = 20011 };
    static float x[N], one[N], y[N], slope[N];
    for (int i = 0; i < N; i++) x[i] = -9.0f + 18.0f * (float)i / (N - 1), one[i] = 1;
    const float special[] = {NAN, INFINITY, 100.0f, -100.0f, 0.0f, 1e-30f, -1e-30f};
    memcpy(x, special, sizeof special);
    kernel_test t;
    kernel_test_init(&t, "gelu");
    kernel_test_in(&t, "X", WEFT_FP32, x, N, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, y, N, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    kernel_test_fini(&t);
    kernel_test_init(&t, "gelu_grad");
    kernel_test_in(&t, "X", WEFT_FP32, x, N, -1, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_FP32, one, N, -1, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_FP32, slope, N, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    kernel_test_fini(&t);
    cr_expect(isnan(y[0]) && isnan(slope[0]) && y[1] == INFINITY && fabsf(slope[2] - 1) < 1e-6f && y[2] == 100.0f);
    for (int i = 2; i < N; i++) {
        double a = (double)x[i], share = exact_normal_below(a), want = a * share, want_slope = exact_gelu_slope(a);
        double error = fabs(a) * (a > -4 && a < 0 ? 6e-6 * share : 1e-7) + 6e-7 * fabs(want);
        cr_assert(fabs((double)y[i] - want) <= error, "gelu(%g) is %.9g, not %.9g", a, (double)y[i], want);
        cr_assert(fabs((double)slope[i] - want_slope) <= 3e-7, "gelu'(%g) is %.9g, not %.9g", a, (double)slope[i],
                  want_slope);
    }
}

/* --- random bits: the vectors that the authors of Philox publish (Random123, kat_vectors) ------------------------- */

static uint64_t inverse(uint64_t odd) { /* modulo 2^64, by Newton's iteration */
    uint64_t x = odd;
    for (int i = 0; i < 6; i++) x *= 2 - odd * x;
    return x;
}

Test(kernels_math, philox_gives_blocks_as_one_by_one) {
    uint32_t blocks[4 * PHILOX_BLOCKS], one[4];
    random_key key = {0x1234567812345678ull, 99, 7};
    uint64_t first = 0xfffffff8ull; /* the low word of the counter overflows on the way */
    philox_blocks(key, first, blocks);
    for (uint64_t i = 0; i < PHILOX_BLOCKS; i++) {
        philox(key.seed, key.op_seed, key.step, first + i, one);
        cr_expect_arr_eq(one, blocks + 4 * i, sizeof one);
    }
}

Test(kernels_math, philox_gives_the_published_words) {
    static const uint32_t zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    static const uint32_t digits_of_pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    uint32_t words[4];
    philox(0, 0, 0, 0, words);
    cr_expect_arr_eq(words, zeros, sizeof words);
    uint64_t op_seed = 0x0370734413198a2eull * inverse(0x9E3779B97F4A7C15ull);
    philox(0x299f31d0a4093822ull, op_seed, 0, 0x85a308d3243f6a88ull, words);
    cr_expect_arr_eq(words, digits_of_pi, sizeof words);
}

/* --- matrix products ---------------------------------------------------------------------------------------------- */

typedef struct product {
    int m, n, k;
    bool ta, tb;
    double alpha, beta;
} product;

static const product products[] = {
    {1, 1, 1, false, false, 1, 0},     {5, 3, 7, true, false, 1, 0},     {7, 17, 6, false, true, 1, 1},
    {73, 65, 193, false, false, 1, 0}, {73, 65, 193, true, false, 2, 0}, {80, 130, 200, false, true, 1, 0.5},
    {66, 40, 385, true, true, -1, 1},  {3, 300, 1, false, false, 1, 0},  {4, 4, 0, false, false, 1, 0},
};

static double noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 0x1p24 - 0.5;
}

TABLE_ROWS(kernels_math, products_are_right, products);
TABLE_TEST(size_t *row, kernels_math, products_are_right) {
    const product *p = &products[*row];
    size_t na = (size_t)p->m * (size_t)p->k, nb = (size_t)p->n * (size_t)p->k, nc = (size_t)p->m * (size_t)p->n;
    double *a = calloc(na + 1, 8), *b = calloc(nb + 1, 8), *c = calloc(nc, 8), *want = calloc(nc, 8);
    float *fa = calloc(na + 1, 4), *fb = calloc(nb + 1, 4), *fc = calloc(nc, 4);
    uint32_t seed = 1;
    for (size_t i = 0; i < na; i++) fa[i] = (float)(a[i] = noise(&seed));
    for (size_t i = 0; i < nb; i++) fb[i] = (float)(b[i] = noise(&seed));
    for (size_t i = 0; i < nc; i++) fc[i] = (float)(c[i] = noise(&seed));
    int lda = p->ta ? p->m : p->k, ldb = p->tb ? p->k : p->n;
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->n; j++) {
            double sum = 0;
            for (int k = 0; k < p->k; k++)
                sum += (p->ta ? a[k * lda + i] : a[i * lda + k]) * (p->tb ? b[j * ldb + k] : b[k * ldb + j]);
            want[i * p->n + j] = p->alpha * sum + p->beta * c[i * p->n + j];
        }
    gemm_f64(p->ta, p->tb, p->m, p->n, p->k, p->alpha, a, lda, b, ldb, p->beta, c, p->n);
    gemm_f32(NULL, p->ta, p->tb, p->m, p->n, p->k, (float)p->alpha, fa, lda, fb, ldb, (float)p->beta, fc, p->n);
    for (size_t i = 0; i < nc; i++) {
        cr_assert_float_eq(c[i], want[i], 1e-12, "fp64 element %zu is %g, not %g", i, c[i], want[i]);
        cr_assert_float_eq((double)fc[i], want[i], 2e-5, "fp32 element %zu is %g, not %g", i, (double)fc[i], want[i]);
    }
    free(a), free(b), free(c), free(want), free(fa), free(fb), free(fc);
}

/* --- loops -------------------------------------------------------------------------------------------------------- */

static tensor dims_only(int ndim, const int64_t *dims) {
    tensor t = {.ndim = ndim, .numel = 1};
    for (int i = 0; i < ndim; i++) t.numel *= t.dims[i] = dims[i];
    return t;
}

Test(kernels_math, loops_merge_what_is_contiguous) {
    const int64_t dims[] = {2, 3, 4, 5}, tail[] = {4, 5};
    tensor x = dims_only(4, dims), y = dims_only(2, tail);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    loops l;
    cr_assert(strides_broadcast(&x, -1, 4, dims, strides[0]));
    cr_assert(strides_broadcast(&y, -1, 4, dims, strides[1]));
    loops_init(&l, 4, dims, 2, strides);
    cr_expect_eq(l.naxes, 2, "%d axes", l.naxes);
    cr_expect_eq(loops_run(&l), 20);
    cr_expect_eq(l.extent[0], 6);
}

Test(kernels_math, broadcasting_refuses_what_does_not_fit) {
    const int64_t dims[] = {2, 3}, two[] = {2};
    tensor y = dims_only(1, two);
    int64_t strides[WEFT_MAX_RANK];
    cr_expect_not(strides_broadcast(&y, -1, 2, dims, strides));
    cr_expect(strides_broadcast(&y, 0, 2, dims, strides));
    cr_expect_not(strides_broadcast(&y, 2, 2, dims, strides));
}

/* A column sum is the same whether four rows at a time or one. */
Test(kernels_math, column_sums_are_exact) {
    enum { ROWS = 7, COLUMNS = 600 };
    static float x[ROWS * COLUMNS];
    double acc[COLUMNS] = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = (float)(i % 977);
    const int64_t dims[] = {ROWS, COLUMNS};
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK] = {{COLUMNS, 1}, {0, 1}};
    loops l;
    loops_init(&l, 2, dims, 2, strides);
    accumulate_loops(&l, WEFT_FP32, x, acc);
    for (int j = 0; j < COLUMNS; j++) {
        double want = 0;
        for (int i = 0; i < ROWS; i++) want += (double)x[i * COLUMNS + j];
        cr_assert_eq(acc[j], want, "column %d", j);
    }
}

/* --- of integers -------------------------------------------------------------------------------------------------- */

Test(kernels_math, functions_of_integers_are_floats) {
    static const struct {
        const char *type;
        float want;
    } of_4[] = {{"exp", 54.59815f}, {"log", 1.3862944f}, {"log2", 2}, {"log10", 0.60206f}, {"log1p", 1.6094379f}};
    int64_t x[] = {1, 4};
    float out[2];
    for (size_t k = 0; k < sizeof of_4 / sizeof *of_4; k++) {
        kernel_test t;
        kernel_test_init(&t, of_4[k].type);
        kernel_test_in(&t, "X", WEFT_INT64, x, 2, -1, -1);
        kernel_test_out(&t, "Out", WEFT_FP32, out, 2, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", of_4[k].type);
        cr_expect(fabsf(out[1] - of_4[k].want) < 1e-4f, "%s of 4 is %g", of_4[k].type, (double)out[1]);
        kernel_test_fini(&t);
    }
}

Test(kernels_math, products_of_integers_are_exact) {
    kernel_test t;
    int64_t x[] = {3, 3037000500, 3037000499, 2}, out[4], want[] = {3, 9111001500, 3037000499, 6074000998};
    kernel_test_init(&t, "cumprod");
    kernel_put_int(&t, "dim", 1);
    kernel_test_in(&t, "X", WEFT_INT64, x, 2, 2, -1);
    kernel_test_out(&t, "Out", WEFT_INT64, out, 2, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, want, sizeof out);
    kernel_test_fini(&t);
}
