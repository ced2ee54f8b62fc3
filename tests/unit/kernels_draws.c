/* What is drawn, by its distribution: Paddle's own draws are not repeated. And that draws repeat by the run's seed and
 * the op, and differ between ops. */
#include <criterion/criterion.h>
#include <math.h>

#include "tests/support/kernel_run.h"

enum { MANY = 20000, CLASSES = 4 };

static const float shares[CLASSES] = {0.1f, 0.2f, 0.3f, 0.4f};

/* `count` elements of type `dtype` from `rows` rows of shares. */
static weft_code draw(kernel_test *t, const float *in, int64_t rows, weft_dtype dtype, void *out, int64_t width,
                      uint64_t op_seed) {
    t->op_seed = op_seed;
    if (in) kernel_test_in(t, "X", WEFT_FP32, in, rows, CLASSES, -1);
    kernel_test_out(t, "Out", dtype, out, in ? rows : width, in ? width : -1, -1);
    return kernel_test_code(t);
}

static float *rows_of_shares(const float *row) {
    static float all[MANY * CLASSES];
    for (int i = 0; i < MANY * CLASSES; i++) all[i] = row[i % CLASSES];
    return all;
}

static void expect_share(const char *what, double count, double of, double expected) {
    double share = count / of, off = 5 * sqrt(expected * (1 - expected) / of) + 1e-9;
    cr_expect(fabs(share - expected) <= off, "%s: a share of %g, expected %g", what, share, expected);
}

Test(kernels_draws, bernoulli_is_1_with_the_share_of_its_element) {
    static float out[MANY * CLASSES], again[MANY * CLASSES];
    double count[CLASSES] = {0};
    kernel_test t;
    for (uint64_t op = 1; op <= 3; op++) {
        kernel_test_init(&t, "bernoulli");
        cr_assert_eq(
            draw(&t, rows_of_shares(shares), MANY, WEFT_FP32, op == 1 ? out : again, CLASSES, op == 2 ? 1 : op),
            WEFT_OK);
        kernel_test_fini(&t);
        if (op == 2) cr_expect_arr_eq(out, again, sizeof out);
    }
    cr_expect_neq(memcmp(out, again, sizeof out), 0);
    for (int i = 0; i < MANY * CLASSES; i++) {
        cr_assert(out[i] == 0 || out[i] == 1);
        count[i % CLASSES] += (double)out[i];
    }
    for (int k = 0; k < CLASSES; k++) expect_share("bernoulli", count[k], MANY, (double)shares[k]);
}

Test(kernels_draws, shares_that_are_none_are_refused) {
    static const float wrong[][CLASSES] = {{0, 0.5f, 1.5f, 0}, {0, -0.1f, 0, 0}, {NAN, 0, 0, 0}};
    float out[CLASSES];
    int64_t classes[CLASSES];
    for (int i = 0; i < 3; i++) {
        kernel_test t;
        kernel_test_init(&t, "bernoulli");
        cr_expect_eq(draw(&t, wrong[i], 1, WEFT_FP32, out, CLASSES, 1), WEFT_RUNTIME, "bernoulli, row %d", i);
        kernel_test_fini(&t);
        if (i == 0) continue;
        kernel_test_init(&t, "multinomial");
        cr_expect_eq(draw(&t, wrong[i], 1, WEFT_INT64, classes, 1, 1), WEFT_RUNTIME, "multinomial, row %d", i);
        kernel_test_fini(&t);
    }
    kernel_test t; /* fewer classes than draws */
    kernel_test_init(&t, "multinomial");
    kernel_put_int(&t, "num_samples", 2);
    cr_expect_eq(draw(&t, (float[]){0, 0, 1, 0}, 1, WEFT_INT64, classes, 2, 1), WEFT_RUNTIME);
    kernel_test_fini(&t);
}

Test(kernels_draws, multinomial_takes_classes_by_their_shares) {
    static int64_t out[2 * MANY];
    for (int again = 0; again < 2; again++) {
        double first[CLASSES] = {0}, second[CLASSES] = {0};
        kernel_test t;
        kernel_test_init(&t, "multinomial");
        kernel_put_int(&t, "num_samples", 2);
        kernel_put_bool(&t, "replacement", again);
        cr_assert_eq(draw(&t, rows_of_shares(shares), MANY, WEFT_INT64, out, 2, 7), WEFT_OK);
        kernel_test_fini(&t);
        for (int i = 0; i < MANY; i++) {
            cr_assert(out[2 * i] >= 0 && out[2 * i] < CLASSES && out[2 * i + 1] >= 0 && out[2 * i + 1] < CLASSES);
            if (!again) cr_assert_neq(out[2 * i], out[2 * i + 1]);
            first[out[2 * i]]++;
            second[out[2 * i + 1]]++;
        }
        for (int k = 0; k < CLASSES; k++) {
            double p = (double)shares[k], of_second = again ? p : 0;
            for (int j = 0; j < CLASSES && !again; j++)
                if (j != k) of_second += (double)shares[j] * p / (1 - (double)shares[j]);
            expect_share("the first of two", first[k], MANY, p);
            expect_share("the second of two", second[k], MANY, of_second);
        }
    }
}

/* `count` numbers that an op draws for equal elements; of an exponential its lambda is the element. */
static void draw_from(const char *op, const char *from, const char *to, float element, float *out, int64_t rows,
                      int64_t columns) {
    static float in[MANY * CLASSES];
    kernel_test t;
    for (int64_t i = 0; i < rows * columns; i++) in[i] = element;
    kernel_test_init(&t, op);
    kernel_put_float(&t, "lambda", element);
    kernel_test_in(&t, from, WEFT_FP32, in, rows, columns, -1);
    kernel_test_out(&t, to, WEFT_FP32, out, rows, columns, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", op);
    kernel_test_fini(&t);
}
static void draw_equal(const char *op, const char *from, float element, float *out, int64_t rows, int64_t columns) {
    draw_from(op, from, "Out", element, out, rows, columns);
}

static void expect_moments(const char *what, const float *x, int count, double mean, double variance) {
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) sum += (double)x[i];
    for (int i = 0; i < count; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    cr_expect(fabs(sum / count - mean) <= 5 * sqrt(variance / count), "%s: mean %g, expected %g", what, sum / count,
              mean);
    cr_expect(fabs(squares / count - variance) <= 0.1 * variance, "%s: variance %g, expected %g", what, squares / count,
              variance);
}

Test(kernels_draws, an_exponential_has_the_mean_and_the_tail_of_lambda) {
    static float out[MANY];
    int beyond = 0;
    draw_equal("exponential", "X", 2.5f, out, MANY, 1);
    expect_moments("exponential", out, MANY, 0.4, 0.16);
    for (int i = 0; i < MANY; i++) beyond += out[i] > 0.8f;
    for (int i = 0; i < MANY; i++) cr_assert_gt(out[i], 0);
    expect_share("exponential beyond two means", beyond, MANY, exp(-2));
}

/* Small means are drawn in one way, large ones in another. */
Test(kernels_draws, counts_of_events_are_whole_and_have_their_mean_for_variance) {
    static const float means[] = {0.3f, 4, 12, 300};
    static float out[MANY];
    for (int k = 0; k < 4; k++) {
        int none = 0;
        double mean = (double)means[k];
        draw_equal("poisson", "X", means[k], out, MANY, 1);
        expect_moments("poisson", out, MANY, mean, mean);
        for (int i = 0; i < MANY; i++) cr_assert(out[i] >= 0 && floorf(out[i]) == out[i]);
        for (int i = 0; i < MANY; i++) none += out[i] == 0;
        expect_share("no event", none, MANY, exp(-mean));
    }
    draw_equal("poisson", "X", 0, out, 100, 1);
    for (int i = 0; i < 100; i++) cr_expect_eq(out[i], 0);
}

Test(kernels_draws, dirichlet_shares_add_up_and_spread_as_their_weights_say) {
    static const float weights[] = {0.2f, 1, 5};
    static float out[MANY * CLASSES];
    for (int k = 0; k < 3; k++) {
        double n = CLASSES, all = n * (double)weights[k];
        draw_equal("dirichlet", "Alpha", weights[k], out, MANY, CLASSES);
        for (int i = 0; i < MANY; i++) {
            double sum = 0;
            for (int j = 0; j < CLASSES; j++) sum += (double)out[i * CLASSES + j];
            cr_assert_float_eq(sum, 1, 1e-5);
        }
        for (int i = 0; i < MANY; i++) out[i] = out[i * CLASSES + i % CLASSES];
        expect_moments("dirichlet", out, MANY, 1 / n, 1 / n * (1 - 1 / n) / (all + 1));
    }
}

Test(kernels_draws, gamma_numbers_have_their_shape_for_mean_and_variance) {
    static const float shapes[] = {0.3f, 1, 7.5f};
    static float out[MANY];
    for (int k = 0; k < 3; k++) {
        draw_from("standard_gamma", "x", "out", shapes[k], out, MANY, 1);
        expect_moments("standard_gamma", out, MANY, (double)shapes[k], (double)shapes[k]);
        for (int i = 0; i < MANY; i++) cr_assert(out[i] > 0);
    }
}

/* Few and many that hold, rare and frequent; none of none, and all where they must. */
Test(kernels_draws, tries_hold_as_often_as_their_probability_says) {
    static const struct {
        int64_t count;
        float share;
    } cases[] = {{5, 0.3f}, {20, 0.9f}, {40, 0.5f}, {1000, 0.03f}, {1000, 0.7f}, {0, 0.5f}, {9, 0}, {9, 1}};
    static int64_t counts[MANY], drawn[MANY];
    static float shares_of[MANY], out[MANY];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double n = (double)cases[k].count, p = (double)cases[k].share;
        kernel_test t;
        for (int i = 0; i < MANY; i++) counts[i] = cases[k].count, shares_of[i] = cases[k].share;
        kernel_test_init(&t, "binomial");
        kernel_test_in(&t, "count", WEFT_INT64, counts, MANY, -1, -1);
        kernel_test_in(&t, "prob", WEFT_FP32, shares_of, MANY, -1, -1);
        kernel_test_out(&t, "out", WEFT_INT64, drawn, MANY, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        for (int i = 0; i < MANY; i++) {
            cr_assert(drawn[i] >= 0 && drawn[i] <= cases[k].count);
            out[i] = (float)drawn[i];
        }
        expect_moments("binomial", out, MANY, n * p, n * p * (1 - p));
    }
}

/* Labels' own classes come first, in order; no class comes twice; labels are their classes' numbers. */
Test(kernels_draws, sampled_classes_hold_those_of_labels) {
    enum { ALL = 30, SAMPLES = 8, RUNS = 500 };
    const int64_t labels[] = {17, 4, 17, 9};
    double taken[ALL] = {0};
    for (uint64_t run = 0; run < RUNS; run++) {
        int64_t numbers[4], classes[SAMPLES];
        bool seen[ALL] = {false};
        kernel_test t;
        kernel_test_init(&t, "class_center_sample");
        kernel_put_int(&t, "num_classes", ALL);
        kernel_put_int(&t, "num_samples", SAMPLES);
        t.op_seed = run;
        kernel_test_in(&t, "Label", WEFT_INT64, labels, 4, -1, -1);
        kernel_test_out(&t, "RemappedLabel", WEFT_INT64, numbers, 4, -1, -1);
        kernel_test_out(&t, "SampledLocalClassCenter", WEFT_INT64, classes, SAMPLES, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        cr_assert(classes[0] == 4 && classes[1] == 9 && classes[2] == 17);
        for (int i = 0; i < 4; i++) cr_assert_eq(classes[numbers[i]], labels[i]);
        for (int i = 0; i < SAMPLES; i++) {
            cr_assert(classes[i] >= 0 && classes[i] < ALL && !seen[classes[i]]);
            seen[classes[i]] = true;
            taken[classes[i]]++;
        }
    }
    expect_share("another class", taken[0], RUNS, (SAMPLES - 3.0) / (ALL - 3));
    expect_share("another class", taken[29], RUNS, (SAMPLES - 3.0) / (ALL - 3));
}

/* Windows whose borders are drawn: each result is where the mask says, and what is largest of all is found. */
Test(kernels_draws, fractional_windows_lie_side_by_side) {
    enum { N = 11, OUT = 4, RUNS = 200 };
    bool differs = false;
    int32_t first[OUT * OUT];
    for (uint64_t run = 0; run < RUNS; run++) {
        float x[N * N], out[OUT * OUT];
        int32_t mask[OUT * OUT];
        kernel_test t;
        kernel_test_init(&t, "fractional_max_pool2d");
        kernel_put_longs(&t, "output_size", 2, (const int64_t[]){OUT, OUT});
        t.op_seed = run;
        for (int i = 0; i < N * N; i++) x[i] = (float)(i * 37 % 101);
        *kernel_test_in(&t, "x", WEFT_FP32, x, 1, 1, N) =
            (tensor){.data = x, .dtype = WEFT_FP32, .ndim = 4, .dims = {1, 1, N, N}, .numel = N * N, .height = -1};
        *kernel_test_out(&t, "out", WEFT_FP32, out, 1, 1, OUT) = (tensor){
            .data = out, .dtype = WEFT_FP32, .ndim = 4, .dims = {1, 1, OUT, OUT}, .numel = OUT * OUT, .height = -1};
        *kernel_test_out(&t, "mask", WEFT_INT32, mask, 1, 1, OUT) = (tensor){
            .data = mask, .dtype = WEFT_INT32, .ndim = 4, .dims = {1, 1, OUT, OUT}, .numel = OUT * OUT, .height = -1};
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        float most = 0;
        for (int i = 0; i < OUT * OUT; i++) {
            cr_assert(mask[i] >= 0 && mask[i] < N * N && out[i] == x[mask[i]]);
            if (out[i] > most) most = out[i];
        }
        cr_assert_eq(most, 100, "windows cover all");
        if (run == 0) memcpy(first, mask, sizeof mask);
        differs |= memcmp(first, mask, sizeof mask) != 0;
    }
    cr_expect(differs, "borders are drawn anew");
}

Test(kernels_draws, a_permutation_has_each_number_once_at_any_place) {
    enum { N = 5, RUNS = 4000 };
    double at[N][N] = {{0}};
    for (uint64_t run = 0; run < RUNS; run++) {
        int64_t out[N];
        int seen = 0;
        kernel_test t;
        kernel_test_init(&t, "randperm");
        kernel_put_int(&t, "n", N);
        cr_assert_eq(draw(&t, NULL, 0, WEFT_INT64, out, N, run), WEFT_OK);
        kernel_test_fini(&t);
        for (int i = 0; i < N; i++) {
            cr_assert(out[i] >= 0 && out[i] < N);
            seen |= 1 << out[i];
            at[i][out[i]]++;
        }
        cr_assert_eq(seen, (1 << N) - 1);
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) expect_share("a number's place", at[i][k], RUNS, 1.0 / N);
}

/* No row stays where it was; each other place is as likely. The next seed is Paddle's. */
Test(kernels_draws, shuffled_rows_are_all_elsewhere) {
    enum { N = 4, RUNS = 4000 };
    static const float x[2 * N] = {0, 0, 1, 10, 2, 20, 3, 30};
    static const int64_t seed = 7;
    double at[N][N] = {{0}};
    for (uint64_t run = 0; run < RUNS; run++) {
        float out[2 * N], back[2 * N];
        int64_t order[N], next = 0;
        kernel_test t;
        kernel_test_init(&t, "shuffle_batch");
        t.op_seed = run;
        kernel_test_in(&t, "X", WEFT_FP32, x, N, 2, -1);
        kernel_test_in(&t, "Seed", WEFT_INT64, &seed, 1, -1, -1);
        kernel_test_out(&t, "Out", WEFT_FP32, out, N, 2, -1);
        kernel_test_out(&t, "ShuffleIdx", WEFT_INT64, order, N, -1, -1);
        kernel_test_out(&t, "SeedOut", WEFT_INT64, &next, 1, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        cr_assert_eq(next, 117649);
        for (int i = 0; i < N; i++) {
            cr_assert(order[i] >= 0 && order[i] < N && order[i] != i);
            cr_assert(out[2 * i] == (float)order[i] && out[2 * i + 1] == 10 * (float)order[i]);
            at[i][order[i]]++;
        }
        kernel_test_init(&t, "shuffle_batch_grad");
        kernel_test_in(&t, "Out@GRAD", WEFT_FP32, out, N, 2, -1);
        kernel_test_in(&t, "ShuffleIdx", WEFT_INT64, order, N, -1, -1);
        kernel_test_out(&t, "X@GRAD", WEFT_FP32, back, N, 2, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        cr_assert_eq(memcmp(back, x, sizeof x), 0);
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            if (k != i) expect_share("a row's place", at[i][k], RUNS, 1.0 / (N - 1));
}

/* With noise of Gumbel's distribution the largest is a class with its share of the softmax. */
Test(kernels_draws, gumbel_softmax_is_hard_where_softmax_says) {
    static float out[MANY * CLASSES];
    float logits[CLASSES];
    for (int k = 0; k < CLASSES; k++) logits[k] = logf(shares[k]) + 3;
    for (int hard = 0; hard < 2; hard++) {
        double count[CLASSES] = {0};
        kernel_test t;
        kernel_test_init(&t, "gumbel_softmax");
        kernel_put_bool(&t, "hard", hard);
        kernel_put_float(&t, "temperature", 0.5);
        cr_assert_eq(draw(&t, rows_of_shares(logits), MANY, WEFT_FP32, out, CLASSES, 3), WEFT_OK);
        kernel_test_fini(&t);
        for (int i = 0; i < MANY; i++) {
            int best = 0;
            double sum = 0;
            for (int k = 0; k < CLASSES; k++) {
                sum += (double)out[i * CLASSES + k];
                if (out[i * CLASSES + k] > out[i * CLASSES + best]) best = k;
            }
            cr_assert(fabs(sum - 1) < 1e-5 && (!hard || out[i * CLASSES + best] == 1));
            count[best]++;
        }
        for (int k = 0; k < CLASSES; k++) expect_share("the largest", count[k], MANY, (double)shares[k]);
    }
}

/* One number for all elements, of deviation sigma / batch_size. */
Test(kernels_draws, private_steps_have_noise) {
    enum { RUNS = 4000 };
    double mean = 0, square = 0, rate = 1;
    for (uint64_t run = 0; run < RUNS; run++) {
        float zero[3] = {0}, out[3], one = (float)rate;
        kernel_test t;
        kernel_test_init(&t, "dpsgd");
        kernel_put_float(&t, "sigma", 6);
        kernel_put_float(&t, "batch_size", 3);
        t.op_seed = run;
        kernel_test_in(&t, "Param", WEFT_FP32, zero, 3, -1, -1);
        kernel_test_in(&t, "Grad", WEFT_FP32, zero, 3, -1, -1);
        kernel_test_in(&t, "LearningRate", WEFT_FP32, &one, 1, -1, -1);
        kernel_test_out(&t, "ParamOut", WEFT_FP32, out, 3, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        cr_assert(out[0] == out[1] && out[1] == out[2]);
        mean += (double)out[0] / RUNS;
        square += (double)out[0] * (double)out[0] / RUNS;
    }
    cr_expect(fabs(mean) < 0.16 && fabs(square - 4) < 0.5, "mean %g, variance %g", mean, square);
}
