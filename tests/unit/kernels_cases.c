/* Kernels beyond what recordings show: rows (SelectedRows), half types, refusals, random numbers, set_value's boxes. */
#include <criterion/criterion.h>
#include <math.h>

#include "tests/support/kernel_run.h"

/* --- gradients that Paddle's executor does not run ---------------------------------------------------------------- */

/* As Paddle 3.3.1 computes it eagerly; Y is stretched. */
Test(kernels_cases, remainder_steps_where_the_quotient_does) {
    kernel_test t;
    float x[] = {5.5f, -7.25f, 3, -1, 2.5f, 0.5f, -9.75f, 8}, y[] = {2, -1.5f, 0.75f, 3};
    float g[] = {1, -0.5f, 0.25f, 2, 0.5f, 1.5f, -1, 3}, dx[8], dy[4];
    kernel_test_init(&t, "remainder_grad");
    kernel_test_in(&t, "X", WEFT_FP32, x, 2, 4, -1);
    kernel_test_in(&t, "Y", WEFT_FP32, y, 4, -1, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_FP32, g, 2, 4, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_FP32, dx, 2, 4, -1);
    kernel_test_out(&t, "Y@GRAD", WEFT_FP32, dy, 4, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(dx, g, sizeof dx);
    cr_expect_arr_eq(dy, ((float[]){-2.5f, 3.5f, -14, -4}), sizeof dy);
    kernel_test_fini(&t);
}

static void add_axis_of_one(tensor *t) {
    t->dims[t->ndim++] = 1;
}

/* Paddle shuffles once more, which goes back only where groups have as many channels as there are groups. */
Test(kernels_cases, shuffled_channels_go_back) {
    kernel_test t;
    float x[6] = {0, 1, 2, 3, 4, 5}, y[6], dx[6];
    kernel_test_init(&t, "shuffle_channel");
    add_axis_of_one(kernel_test_in(&t, "X", WEFT_FP32, x, 1, 6, 1));
    add_axis_of_one(kernel_test_out(&t, "Out", WEFT_FP32, y, 1, 6, 1));
    kernel_put_int(&t, "group", 2);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(y, ((float[]){0, 3, 1, 4, 2, 5}), sizeof y);
    kernel_test_fini(&t);
    kernel_test_init(&t, "shuffle_channel_grad");
    add_axis_of_one(kernel_test_in(&t, "Out@GRAD", WEFT_FP32, y, 1, 6, 1));
    add_axis_of_one(kernel_test_out(&t, "X@GRAD", WEFT_FP32, dx, 1, 6, 1));
    kernel_put_int(&t, "group", 2);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(dx, x, sizeof dx);
    kernel_test_fini(&t);
}

/* Level 0 fails, the others count. */
Test(kernels_cases, check_numerics_stops_at_level_0) {
    kernel_test t;
    float x[] = {1, NAN, 0}, values[3];
    int64_t stats[3];
    kernel_test_init(&t, "check_numerics");
    kernel_test_in(&t, "tensor", WEFT_FP32, x, 3, -1, -1);
    kernel_test_out(&t, "stats", WEFT_INT64, stats, 3, -1, -1);
    kernel_test_out(&t, "values", WEFT_FP32, values, 3, -1, -1);
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    kernel_put_int(&t, "check_nan_inf_level", 3);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(stats[0] == 1 && stats[1] == 0 && stats[2] == 1 && values[0] == 1 && values[1] == 0 && isnan(values[2]));
    kernel_test_fini(&t);
}

/* Three runs of a window of two: the largest goes, and what is left of the window is the scale. */
Test(kernels_cases, scales_of_a_window_go) {
    static const float runs[3][2] = {{1, -8}, {2, 3}, {-4, 0.5f}}, expected[] = {8, 8, 4};
    float out[2], scale = 0.001f, scales[2] = {0};
    for (int64_t run = 0; run < 3; run++) {
        kernel_test t;
        kernel_test_init(&t, "quantize_by_window");
        kernel_put_int(&t, "window_size", 2);
        kernel_test_in(&t, "X", WEFT_FP32, runs[run], 2, -1, -1);
        kernel_test_in(&t, "InScale", WEFT_FP32, &scale, 1, -1, -1);
        kernel_test_in(&t, "Iter", WEFT_INT64, &run, 1, -1, -1);
        kernel_test_in(&t, "InScales", WEFT_FP32, scales, 2, -1, -1);
        kernel_test_out(&t, "Out", WEFT_FP32, out, 2, -1, -1);
        kernel_test_out(&t, "OutScale", WEFT_FP32, &scale, 1, -1, -1);
        kernel_test_out(&t, "OutScales", WEFT_FP32, scales, 2, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
        cr_expect_eq(scale, expected[run], "run %d: %g", (int)run, (double)scale);
    }
    cr_expect(scales[0] == 4 && scales[1] == 3 && out[0] == -127 && out[1] == 16);
}

/* --- integers by way of fp64 -------------------------------------------------------------------------------------- */

/* An op of two integers. */
static weft_code run_pair(weft_dtype dtype, const void *x, const void *y, void *out, const char *type) {
    kernel_test t;
    kernel_test_init(&t, type);
    kernel_test_in(&t, "X", dtype, x, 1, -1, -1);
    kernel_test_in(&t, "Y", dtype, y, 1, -1, -1);
    kernel_test_out(&t, "Out", dtype, out, 1, -1, -1);
    weft_code code = kernel_test_code(&t);
    kernel_test_fini(&t);
    return code;
}

/* Integers that fp64 does not hold, and results that their type does not hold, end the step. */
Test(kernels_cases, integers_that_do_not_fit_are_told) {
    int64_t most = ((int64_t)1 << 53) - 1, more = (int64_t)1 << 53, one = 1, wide = 0;
    int32_t large = 70000, small = 0;
    cr_expect_eq(run_pair(WEFT_INT64, &most, &one, &wide, "elementwise_fmax"), WEFT_OK);
    cr_expect_eq(wide, most);
    cr_expect_eq(run_pair(WEFT_INT64, &more, &one, &wide, "elementwise_fmax"), WEFT_RUNTIME);
    cr_expect_eq(run_pair(WEFT_INT32, &large, &large, &small, "kron"), WEFT_RUNTIME);
    large = 40000;
    cr_expect_eq(run_pair(WEFT_INT32, &large, &large, &small, "elementwise_fmin"), WEFT_OK);
    cr_expect_eq(small, 40000);
}

/* A divisor of 0 gives no integer. */
Test(kernels_cases, short_integers_divided_by_zero_are_told) {
    int16_t x = 5, y = 0, out = 0;
    cr_expect_eq(run_pair(WEFT_INT16, &x, &y, &out, "elementwise_floordiv"), WEFT_RUNTIME);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static void make_rows(tensor *t, int64_t *rows, int64_t height) {
    t->rows = rows;
    t->height = height;
}

Test(kernels_cases, sum_of_rows_keeps_them_apart) {
    kernel_test t;
    float a[] = {1, 2}, b[] = {3, 4, 5, 6}, out[6];
    int64_t a_rows[] = {4}, b_rows[] = {0, 4}, out_rows[3], want_rows[] = {4, 0, 4};
    kernel_test_init(&t, "sum");
    make_rows(kernel_test_in(&t, "X", WEFT_FP32, a, 1, 2, -1), a_rows, 5);
    make_rows(kernel_test_in(&t, "X", WEFT_FP32, b, 2, 2, -1), b_rows, 5);
    make_rows(kernel_test_out(&t, "Out", WEFT_FP32, out, 3, 2, -1), out_rows, 5);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((float[]){1, 2, 3, 4, 5, 6}), sizeof out);
    cr_expect_arr_eq(out_rows, want_rows, sizeof out_rows);
    kernel_test_fini(&t);
}

Test(kernels_cases, sum_of_rows_and_dense_is_dense) {
    kernel_test t;
    float rows_of[] = {1, 2, 10, 20}, dense[] = {1, 1, 1, 1, 1, 1}, out[6];
    int64_t rows[] = {2, 2};
    kernel_test_init(&t, "sum");
    make_rows(kernel_test_in(&t, "X", WEFT_FP32, rows_of, 2, 2, -1), rows, 3);
    kernel_test_in(&t, "X", WEFT_FP32, dense, 3, 2, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 3, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((float[]){1, 1, 1, 1, 12, 23}), sizeof out);
    rows[1] = 3; /* beyond the tensor */
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    kernel_test_fini(&t);
}

Test(kernels_cases, scale_of_rows_keeps_the_rows) {
    kernel_test t;
    float x[] = {1, 2}, out[2];
    int64_t rows[] = {7}, out_rows[] = {0};
    kernel_test_init(&t, "scale");
    kernel_put_float(&t, "scale", 0.5);
    make_rows(kernel_test_in(&t, "X", WEFT_FP32, x, 1, 2, -1), rows, 9);
    make_rows(kernel_test_out(&t, "Out", WEFT_FP32, out, 1, 2, -1), out_rows, 9);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(out[0] == 0.5f && out[1] == 1.0f && out_rows[0] == 7);
    kernel_test_fini(&t);
}

Test(kernels_cases, collectives_refuse_rows) {
    kernel_test t;
    float x[] = {1, 2};
    int64_t rows[] = {7};
    kernel_test_init(&t, "c_allreduce_sum");
    make_rows(kernel_test_in(&t, "X", WEFT_FP32, x, 1, 2, -1), rows, 9);
    make_rows(kernel_test_out(&t, "Out", WEFT_FP32, x, 1, 2, -1), rows, 9);
    weft_status status = kernel_test_run(&t);
    cr_expect_eq(weft_status_code(status), WEFT_UNSUPPORTED);
    cr_expect(strstr(weft_status_message(status), "SelectedRows"), "%s", weft_status_message(status));
    weft_status_free(status);
    kernel_test_fini(&t);
}

/* --- half types --------------------------------------------------------------------------------------------------- */

Test(kernels_cases, bf16_matmul_rounds_once) {
    enum { K = 300 };
    kernel_test t;
    uint16_t x[K], y[K], out[1];
    double want = 0;
    for (int i = 0; i < K; i++) {
        x[i] = f32_to_bf16((float)(i % 13) * 0.25f - 1);
        y[i] = f32_to_bf16((float)(i % 7) * 0.125f);
        want += (double)bf16_to_f32(x[i]) * (double)bf16_to_f32(y[i]);
    }
    kernel_test_init(&t, "matmul_v2");
    kernel_test_in(&t, "X", WEFT_BF16, x, 1, K, -1);
    kernel_test_in(&t, "Y", WEFT_BF16, y, K, 1, -1);
    kernel_test_out(&t, "Out", WEFT_BF16, out, 1, 1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(out[0], f32_to_bf16((float)want), "%g, not %g", (double)bf16_to_f32(out[0]), want);
    kernel_test_fini(&t);
}

Test(kernels_cases, fp16_bias_gradient_adds_up_in_double) {
    enum { ROWS = 3000 };
    kernel_test t;
    static uint16_t x[ROWS * 2], dout[ROWS * 2];
    uint16_t y[2] = {0, 0}, dy[2];
    for (int i = 0; i < ROWS * 2; i++) dout[i] = f32_to_fp16(i % 2 ? 0.5f : 1.0f);
    kernel_test_init(&t, "elementwise_add_grad");
    kernel_test_in(&t, "X", WEFT_FP16, x, ROWS, 2, -1);
    kernel_test_in(&t, "Y", WEFT_FP16, y, 2, -1, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_FP16, dout, ROWS, 2, -1);
    kernel_test_out(&t, "Y@GRAD", WEFT_FP16, dy, 2, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(fp16_to_f32(dy[0]), 3000.0f);
    cr_expect_eq(fp16_to_f32(dy[1]), 1500.0f);
    kernel_test_fini(&t);
}

/* --- refusals and failures ---------------------------------------------------------------------------------------- */

Test(kernels_cases, integer_division_by_zero_fails) {
    kernel_test t;
    int64_t x[] = {4, INT64_MIN}, y[] = {2, -1}, out[2];
    kernel_test_init(&t, "elementwise_div");
    kernel_test_in(&t, "X", WEFT_INT64, x, 2, -1, -1);
    kernel_test_in(&t, "Y", WEFT_INT64, y, 2, -1, -1);
    kernel_test_out(&t, "Out", WEFT_INT64, out, 2, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(out[0] == 2 && out[1] == INT64_MIN);
    y[0] = 0;
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    kernel_test_fini(&t);
}

Test(kernels_cases, a_type_without_loops_is_refused_in_prepare) {
    kernel_test t;
    uint8_t x[2] = {0}, out[2];
    kernel_test_init(&t, "gelu");
    kernel_test_in(&t, "X", WEFT_UINT8, x, 2, -1, -1);
    kernel_test_out(&t, "Out", WEFT_UINT8, out, 2, -1, -1);
    weft_status status = kernel_test_run(&t);
    cr_expect_eq(weft_status_code(status), WEFT_UNSUPPORTED);
    cr_expect(strstr(weft_status_message(status), "uint8"), "%s", weft_status_message(status));
    weft_status_free(status);
    kernel_test_fini(&t);
}

Test(kernels_cases, mixed_types_are_refused) {
    kernel_test t;
    float x[2] = {0}, out[2];
    double y[2] = {0};
    kernel_test_init(&t, "elementwise_add");
    kernel_test_in(&t, "X", WEFT_FP32, x, 2, -1, -1);
    kernel_test_in(&t, "Y", WEFT_FP64, y, 2, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 2, -1, -1);
    cr_expect_eq(kernel_test_code(&t), WEFT_UNSUPPORTED);
    kernel_test_fini(&t);
}

/* --- random numbers ----------------------------------------------------------------------------------------------- */

enum { MANY = 40001 };

static void draw(const char *op_type, int64_t seed, uint64_t op_seed, float *out) {
    kernel_test t;
    kernel_test_init(&t, op_type);
    kernel_put_int(&t, "seed", seed);
    t.op_seed = op_seed;
    kernel_test_out(&t, "Out", WEFT_FP32, out, MANY, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    kernel_test_fini(&t);
}

Test(kernels_cases, normals_have_mean_0_and_deviation_1) {
    static float x[MANY];
    double mean = 0, square = 0;
    draw("gaussian_random", 0, 5, x);
    for (int i = 0; i < MANY; i++) mean += (double)x[i] / MANY, square += (double)x[i] * (double)x[i] / MANY;
    cr_expect(fabs(mean) < 0.02 && fabs(square - 1) < 0.03, "mean %g, variance %g", mean, square);
}

/* A program with one seed for all still starts every weight with numbers of its own. */
/* A program with one seed for all still starts every weight with numbers of its own. */
Test(kernels_cases, random_numbers_repeat_and_ops_differ) {
    static float a[MANY], b[MANY];
    for (int64_t own_seed = 0; own_seed <= 7; own_seed += 7) {
        draw("uniform_random", own_seed, 1, a);
        draw("uniform_random", own_seed, 1, b);
        cr_expect_arr_eq(a, b, sizeof a);
        draw("uniform_random", own_seed, 2, b);
        cr_expect_neq(memcmp(a, b, sizeof a), 0);
    }
    for (int i = 0; i < MANY; i++) cr_assert(a[i] >= -1 && a[i] < 1);
}

Test(kernels_cases, dropout_keeps_the_expected_share) {
    static float x[MANY], out[MANY];
    static uint8_t mask[MANY];
    kernel_test t;
    int kept = 0;
    for (int i = 0; i < MANY; i++) x[i] = i == 3 ? INFINITY : 2;
    kernel_test_init(&t, "dropout");
    kernel_put_float(&t, "dropout_prob", 0.25);
    cr_assert_null(weft_op_set_attr_string(t.op, "dropout_implementation", "upscale_in_train"));
    kernel_test_in(&t, "X", WEFT_FP32, x, MANY, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, MANY, -1, -1);
    kernel_test_out(&t, "Mask", WEFT_UINT8, mask, MANY, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < MANY; i++) {
        kept += mask[i];
        if (i != 3) cr_assert_float_eq(out[i], mask[i] ? 2 / 0.75f : 0, 1e-6);
    }
    cr_expect(abs(kept - MANY * 3 / 4) < 400, "%d of %d kept", kept, MANY);
    kernel_test_fini(&t);
}

/* --- set_value ---------------------------------------------------------------------------------------------------- */

Test(kernels_cases, set_value_writes_backwards_and_broadcasts) {
    kernel_test t;
    float in[12] = {0}, value[] = {1, 2}, out[12];
    /* rows 3 and 1 (a step of -2), columns 0 and 2; the value has no row axis */
    kernel_test_init(&t, "set_value");
    kernel_put_longs(&t, "axes", 2, (int64_t[]){0, 1});
    kernel_put_longs(&t, "starts", 2, (int64_t[]){-1, 0});
    kernel_put_longs(&t, "ends", 2, (int64_t[]){-100, 3});
    kernel_put_longs(&t, "steps", 2, (int64_t[]){-2, 2});
    kernel_test_in(&t, "Input", WEFT_FP32, in, 4, 3, -1);
    kernel_test_in(&t, "ValueTensor", WEFT_FP32, value, 2, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 4, 3, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((float[]){0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 2}), sizeof out);
    kernel_test_fini(&t);
}

Test(kernels_cases, set_value_drops_decreased_axes) {
    kernel_test t;
    float x[6] = {0}, value[] = {5, 6, 7};
    int64_t start = 1, end = 2, step = 1;
    kernel_test_init(&t, "set_value");
    kernel_put_longs(&t, "axes", 1, (int64_t[]){0});
    kernel_put_longs(&t, "decrease_axes", 1, (int64_t[]){0});
    kernel_test_in(&t, "Input", WEFT_FP32, x, 2, 3, -1);
    kernel_test_in(&t, "ValueTensor", WEFT_FP32, value, 3, -1, -1);
    kernel_test_in(&t, "StartsTensorList", WEFT_INT64, &start, 1, -1, -1);
    kernel_test_in(&t, "EndsTensorList", WEFT_INT64, &end, 1, -1, -1);
    kernel_test_in(&t, "StepsTensorList", WEFT_INT64, &step, 1, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, x, 2, 3, -1); /* in place */
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(x, ((float[]){0, 0, 0, 5, 6, 7}), sizeof x);
    step = 0;
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    kernel_test_fini(&t);
}

/* --- memory and rings of one -------------------------------------------------------------------------------------- */

Test(kernels_cases, coalesce_zeroes_what_lies_between_members) {
    kernel_test t;
    float fused[8] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, a[] = {1, 2, 3}, b[] = {4};
    kernel_test_init(&t, "coalesce_tensor");
    kernel_put_bool(&t, "copy_data", true);
    kernel_test_in(&t, "Input", WEFT_FP32, a, 3, -1, -1);
    kernel_test_in(&t, "Input", WEFT_FP32, b, 1, -1, -1);
    kernel_test_out(&t, "Output", WEFT_FP32, fused, 3, -1, -1);
    kernel_test_out(&t, "Output", WEFT_FP32, fused + 4, 1, -1, -1);
    kernel_test_out(&t, "FusedOutput", WEFT_FP32, fused, 8, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(fused, ((float[]){1, 2, 3, 0, 4, 0, 0, 0}), sizeof fused);
    kernel_test_fini(&t);
}

Test(kernels_cases, c_split_takes_this_ranks_columns) {
    kernel_test t;
    float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, out[4];
    kernel_test_init(&t, "c_split");
    kernel_put_int(&t, "nranks", 2);
    kernel_put_int(&t, "rank", 1);
    kernel_test_in(&t, "X", WEFT_FP32, x, 2, 4, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 2, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((float[]){3, 4, 7, 8}), sizeof out);
    kernel_test_fini(&t);
}

Test(kernels_cases, a_ring_of_one_copies) {
    static const char *const types[] = {"all_reduce", "reduce",         "broadcast",
                                        "all_gather", "reduce_scatter", "all_to_all"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        kernel_test t;
        float x[] = {1, 2}, out[2] = {0};
        kernel_test_init(&t, types[i]);
        kernel_test_in(&t, "x", WEFT_FP32, x, 2, -1, -1);
        kernel_test_out(&t, "out", WEFT_FP32, out, 2, -1, -1);
        cr_expect_eq(kernel_test_code(&t), WEFT_OK, "%s", types[i]);
        cr_expect_arr_eq(out, x, sizeof x, "%s", types[i]);
        kernel_test_fini(&t);
    }
}

/* --- what nobody asked for, branches, counting -------------------------------------------------------------------- */

Test(kernels_cases, gradients_of_parts_skip_those_not_wanted) {
    kernel_test t;
    float x[] = {0, 0}, whole[] = {1, 2, 3, 4}, out[2];
    kernel_test_init(&t, "concat_grad");
    kernel_test_in(&t, "X", WEFT_FP32, x, 2, -1, -1);
    kernel_test_in(&t, "X", WEFT_FP32, x, 2, -1, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_FP32, whole, 4, -1, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_DTYPE_NONE, NULL, -1, -1, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_FP32, out, 2, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((float[]){3, 4}), sizeof out);
    kernel_test_fini(&t);

    kernel_test_init(&t, "stack_grad");
    kernel_test_in(&t, "X", WEFT_FP32, x, 2, -1, -1);
    kernel_test_in(&t, "X", WEFT_FP32, x, 2, -1, -1);
    kernel_test_in(&t, "Y@GRAD", WEFT_FP32, whole, 2, 2, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_DTYPE_NONE, NULL, -1, -1, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_FP32, out, 2, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((float[]){3, 4}), sizeof out);
    kernel_test_fini(&t);
}

Test(kernels_cases, select_input_takes_the_branch_that_ran) {
    kernel_test t;
    float no[] = {1, 2}, yes[] = {3, 4}, out[2];
    int32_t mask = 1;
    kernel_test_init(&t, "select_input");
    kernel_test_in(&t, "X", WEFT_FP32, no, 2, -1, -1);
    kernel_test_in(&t, "X", WEFT_FP32, yes, 2, -1, -1);
    kernel_test_in(&t, "Mask", WEFT_INT32, &mask, 1, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 2, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, yes, sizeof out);
    mask = 2;
    cr_expect_eq(kernel_test_code(&t), WEFT_RUNTIME);
    kernel_test_fini(&t);
}

Test(kernels_cases, range_counts_by_its_step) {
    kernel_test t;
    int64_t start = 5, end = -2, step = -3, out[3];
    kernel_test_init(&t, "range");
    kernel_test_in(&t, "Start", WEFT_INT64, &start, 1, -1, -1);
    kernel_test_in(&t, "End", WEFT_INT64, &end, 1, -1, -1);
    kernel_test_in(&t, "Step", WEFT_INT64, &step, 1, -1, -1);
    kernel_test_out(&t, "Out", WEFT_INT64, out, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((int64_t[]){5, 2, -1}), sizeof out);
    kernel_test_fini(&t);
}

/* In programs of Paddle 2 end -1 is before the beginning, where steps are below 0. */
Test(kernels_cases, set_value_to_the_beginning) {
    for (int older = 0; older < 2; older++) {
        kernel_test t;
        float in[] = {1, 2, 3, 4}, value[] = {7}, out[4];
        kernel_test_init(&t, "set_value");
        if (older) weft_program_set_version(t.program, 2006002);
        kernel_put_longs(&t, "axes", 1, (int64_t[]){0});
        kernel_put_longs(&t, "starts", 1, (int64_t[]){2});
        kernel_put_longs(&t, "ends", 1, (int64_t[]){-1});
        kernel_put_longs(&t, "steps", 1, (int64_t[]){-1});
        kernel_test_in(&t, "Input", WEFT_FP32, in, 4, -1, -1);
        kernel_test_in(&t, "ValueTensor", WEFT_FP32, value, 1, -1, -1);
        kernel_test_out(&t, "Out", WEFT_FP32, out, 4, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        cr_expect_arr_eq(out, older ? ((float[]){7, 7, 7, 4}) : in, sizeof out, "older %d", older);
        kernel_test_fini(&t);
    }
}

/* --- put_along_axis: values 2 and 3 for element 0, 4 for element 2 -------------------------------------------------
 */

Test(kernels_cases, put_along_axis_reduces) {
    static const struct {
        const char *reduce;
        bool with_self;
        float out[3], dx[3], dv[3];
    } cases[] = {
        {"assign", true, {3, 5, 4}, {0, 1, 0}, {0, 1, 1}},
        {"add", true, {6, 5, 10}, {1, 1, 1}, {1, 1, 1}},
        {"add", false, {5, 5, 4}, {0, 1, 0}, {1, 1, 1}},
        {"mul", true, {6, 5, 24}, {6, 1, 4}, {3, 2, 6}},
        {"multiply", false, {6, 5, 4}, {0, 1, 0}, {3, 2, 1}},
        {"mean", true, {2, 5, 5}, {1 / 3.f, 1, .5f}, {1 / 3.f, 1 / 3.f, .5f}},
        {"mean", false, {2.5f, 5, 4}, {0, 1, 0}, {.5f, .5f, 1}},
        {"amax", true, {3, 5, 6}, {0, 1, 1}, {0, 1, 0}},
        {"amin", true, {1, 5, 4}, {1, 1, 0}, {0, 0, 1}},
        {"amin", false, {2, 5, 4}, {0, 1, 0}, {1, 0, 1}},
    };
    float x[] = {1, 5, 6}, values[] = {2, 3, 4}, ones[] = {1, 1, 1}, out[3], dx[3], dv[3];
    int64_t index[] = {0, 0, 2};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int back = 0; back < 2; back++) {
            kernel_test t;
            kernel_test_init(&t, back ? "put_along_axis_grad" : "put_along_axis");
            kernel_put_string(&t, "Reduce", cases[i].reduce);
            kernel_put_bool(&t, "Include_self", cases[i].with_self);
            kernel_test_in(&t, "Input", WEFT_FP32, x, 3, -1, -1);
            kernel_test_in(&t, "Index", WEFT_INT64, index, 3, -1, -1);
            kernel_test_in(&t, "Value", WEFT_FP32, values, 3, -1, -1);
            if (back) kernel_test_in(&t, "Result@GRAD", WEFT_FP32, ones, 3, -1, -1);
            if (back) kernel_test_in(&t, "Result", WEFT_FP32, out, 3, -1, -1);
            if (back) kernel_test_out(&t, "Input@GRAD", WEFT_FP32, dx, 3, -1, -1);
            if (back) kernel_test_out(&t, "Value@GRAD", WEFT_FP32, dv, 3, -1, -1);
            if (!back) kernel_test_out(&t, "Result", WEFT_FP32, out, 3, -1, -1);
            cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", cases[i].reduce);
            kernel_test_fini(&t);
            for (int k = 0; k < 3 && !back; k++)
                cr_expect_float_eq(out[k], cases[i].out[k], 1e-6, "%s, element %d: %g", cases[i].reduce, k,
                                   (double)out[k]);
            for (int k = 0; k < 3 && back; k++) {
                cr_expect_float_eq(dx[k], cases[i].dx[k], 1e-6, "%s, dx %d: %g", cases[i].reduce, k, (double)dx[k]);
                cr_expect_float_eq(dv[k], cases[i].dv[k], 1e-6, "%s, dv %d: %g", cases[i].reduce, k, (double)dv[k]);
            }
        }
}

/* The largest difference is rounded to float when it becomes the norm, and is found again. */
Test(kernels_cases, dist_by_the_largest_difference) {
    kernel_test t;
    float x[] = {0.1f, 1.7f, -0.3f}, y[] = {0.2f, -1.1f, 0.4f}, out[1], g[] = {2}, dx[3];
    kernel_test_init(&t, "dist");
    kernel_put_float(&t, "p", (double)INFINITY);
    kernel_test_in(&t, "X", WEFT_FP32, x, 3, -1, -1);
    kernel_test_in(&t, "Y", WEFT_FP32, y, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, out, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    kernel_test_fini(&t);
    kernel_test_init(&t, "dist_grad");
    kernel_put_float(&t, "p", (double)INFINITY);
    kernel_test_in(&t, "X", WEFT_FP32, x, 3, -1, -1);
    kernel_test_in(&t, "Y", WEFT_FP32, y, 3, -1, -1);
    kernel_test_in(&t, "Out", WEFT_FP32, out, 1, -1, -1);
    kernel_test_in(&t, "Out@GRAD", WEFT_FP32, g, 1, -1, -1);
    kernel_test_out(&t, "X@GRAD", WEFT_FP32, dx, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(dx, ((float[]){0, 2, 0}), sizeof dx);
    kernel_test_fini(&t);
}

/* --- adadelta and adamax: a step by hand -------------------------------------------------------------------------- */

Test(kernels_cases, adadelta_scales_by_past_steps) {
    kernel_test t;
    float param = 1, grad = 2, square = 1, step = 3, rate = 0.5f;
    kernel_test_init(&t, "adadelta");
    kernel_put_float(&t, "rho", 0.5);
    kernel_put_float(&t, "epsilon", 1.0);
    kernel_test_in(&t, "Param", WEFT_FP32, &param, 1, -1, -1);
    kernel_test_in(&t, "Grad", WEFT_FP32, &grad, 1, -1, -1);
    kernel_test_in(&t, "AvgSquaredGrad", WEFT_FP32, &square, 1, -1, -1);
    kernel_test_in(&t, "AvgSquaredUpdate", WEFT_FP32, &step, 1, -1, -1);
    kernel_test_in(&t, "LearningRate", WEFT_FP32, &rate, 1, -1, -1);
    kernel_test_out(&t, "ParamOut", WEFT_FP32, &param, 1, -1, -1);
    kernel_test_out(&t, "AvgSquaredGradOut", WEFT_FP32, &square, 1, -1, -1);
    kernel_test_out(&t, "AvgSquaredUpdateOut", WEFT_FP32, &step, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    double moved = 2 * sqrt(4 / 3.5);
    cr_expect_float_eq(square, 2.5, 1e-6);
    cr_expect_float_eq(step, 1.5 + 0.5 * moved * moved, 1e-5);
    cr_expect_float_eq(param, 1 - 0.5 * moved, 1e-6);
    kernel_test_fini(&t);
}

Test(kernels_cases, adamax_divides_by_the_largest_gradient) {
    kernel_test t;
    float param = 1, grad = -2, moment = 1, norm = 5, power = 0.5f, rate = 0.1f;
    kernel_test_init(&t, "adamax");
    kernel_put_float(&t, "beta1", 0.5);
    kernel_put_float(&t, "beta2", 0.5);
    kernel_put_float(&t, "epsilon", 0.25);
    kernel_test_in(&t, "Param", WEFT_FP32, &param, 1, -1, -1);
    kernel_test_in(&t, "Grad", WEFT_FP32, &grad, 1, -1, -1);
    kernel_test_in(&t, "LearningRate", WEFT_FP32, &rate, 1, -1, -1);
    kernel_test_in(&t, "Moment", WEFT_FP32, &moment, 1, -1, -1);
    kernel_test_in(&t, "InfNorm", WEFT_FP32, &norm, 1, -1, -1);
    kernel_test_in(&t, "Beta1Pow", WEFT_FP32, &power, 1, -1, -1);
    kernel_test_out(&t, "ParamOut", WEFT_FP32, &param, 1, -1, -1);
    kernel_test_out(&t, "MomentOut", WEFT_FP32, &moment, 1, -1, -1);
    kernel_test_out(&t, "InfNormOut", WEFT_FP32, &norm, 1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_float_eq(moment, -0.5, 1e-6);
    cr_expect_float_eq(norm, 2.75, 1e-6); /* 0.5 * 5 + 0.25 is larger than 2 */
    cr_expect_float_eq(param, 1 + 0.1 / 0.5 * 0.5 / 2.75, 1e-6);
    kernel_test_fini(&t);
}

/* --- element types ------------------------------------------------------------------------------------------------ */

Test(kernels_cases, bits_of_small_integers) {
    kernel_test t;
    int8_t a[] = {-128, 127, 5}, b[] = {-1, 15, 3}, out[3];
    int16_t wide_a[] = {-32768, 0x1234, 5}, wide_b[] = {-1, 0x0ff0, 3}, wide[3];
    kernel_test_init(&t, "bitwise_and");
    kernel_test_in(&t, "X", WEFT_INT8, a, 3, -1, -1);
    kernel_test_in(&t, "Y", WEFT_INT8, b, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_INT8, out, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((int8_t[]){-128, 15, 1}), sizeof out);
    kernel_test_fini(&t);
    kernel_test_init(&t, "bitwise_xor");
    kernel_test_in(&t, "X", WEFT_INT16, wide_a, 3, -1, -1);
    kernel_test_in(&t, "Y", WEFT_INT16, wide_b, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_INT16, wide, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(wide, ((int16_t[]){32767, 0x1dc4, 6}), sizeof wide);
    kernel_test_fini(&t);
}

/* A complex number is true unless both parts are 0. */
Test(kernels_cases, truths_of_complex_numbers) {
    kernel_test t;
    float a[] = {0, 0, 0, 1, 2, 0}, b[] = {0, 1, 0, 1, 0, 0};
    uint8_t out[3];
    kernel_test_init(&t, "logical_and");
    kernel_test_in(&t, "X", WEFT_COMPLEX64, a, 3, -1, -1);
    kernel_test_in(&t, "Y", WEFT_COMPLEX64, b, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_BOOL, out, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((uint8_t[]){0, 1, 0}), sizeof out);
    kernel_test_fini(&t);
}

Test(kernels_cases, products_of_complex_numbers_run) {
    kernel_test t;
    double x[] = {1, 1, 0, 2, 3, 0}, out[6];
    kernel_test_init(&t, "cumprod");
    kernel_test_in(&t, "X", WEFT_COMPLEX128, x, 3, -1, -1);
    kernel_test_out(&t, "Out", WEFT_COMPLEX128, out, 3, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_arr_eq(out, ((double[]){1, 1, -2, 2, -6, 6}), sizeof out);
    kernel_test_fini(&t);
}

/* Put, or added: then either holds. */
Test(kernels_cases, truths_are_put) {
    uint8_t x[] = {1, 0, 1, 0}, value[] = {0, 1}, out[4];
    int64_t at[] = {0, 3};
    for (int adds = 0; adds < 2; adds++) {
        kernel_test t;
        kernel_test_init(&t, "index_put");
        kernel_test_in(&t, "x", WEFT_BOOL, x, 4, -1, -1);
        kernel_test_in(&t, "indices", WEFT_INT64, at, 2, -1, -1);
        kernel_test_in(&t, "value", WEFT_BOOL, value, 2, -1, -1);
        kernel_test_out(&t, "out", WEFT_BOOL, out, 4, -1, -1);
        kernel_put_bool(&t, "accumulate", adds);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        cr_expect_arr_eq(out, ((uint8_t[]){(uint8_t)adds, 0, 1, 1}), sizeof out);
        kernel_test_fini(&t);
    }
}
