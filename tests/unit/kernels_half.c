/* Half precision: whatever a kernel does on fp16 or bf16 is what it does in fp32 on the same numbers, rounded once to
 * nearest even. Every recorded op is run both ways; what recordings lack is made by hand. */
#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>

#include "executor/kernels/typed.h"
#include "tests/support/fixtures.h"
#include "tests/support/kernel_run.h"
#include "tests/support/ops_fixture.h"

/* --- conversions -------------------------------------------------------------------------------------------------- */

static float power(int exponent) {
    return ldexpf(1, exponent);
}

Test(kernels_half, every_fp16_and_bf16_survives_widening) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t bits = (uint16_t)h, back;
        for (int d = 0; d < 2; d++) {
            weft_dtype half = d ? WEFT_FP16 : WEFT_BF16;
            float wide;
            half_load(half, 1, &bits, 1, &wide);
            half_store(half, 1, &wide, &back);
            cr_assert(back == bits || isnan(wide), "%s %04x became %04x", weft_dtype_name(half), bits, back);
        }
    }
}

Test(kernels_half, rounds_to_nearest_even) {
    static const struct {
        float exact;
        uint16_t fp16, bf16;
    } rows[] = {
        {1, 0x3c00, 0x3f80},
        {-2.5f, 0xc100, 0xc020},
        {1 + 0x1p-11f, 0x3c00, 0x3f80}, /* fp16: half way, down to even */
        {1 + 0x3p-11f, 0x3c02, 0x3f80}, /* fp16: half way, up to even */
        {1 + 0x1p-8f, 0x3c04, 0x3f80},  /* bf16: half way, down to even */
        {1 + 0x3p-8f, 0x3c0c, 0x3f82},  /* bf16: half way, up to even */
        {65504, 0x7bff, 0x4780},
        {65519, 0x7bff, 0x4780},
        {65520, 0x7c00, 0x4780},
        {-INFINITY, 0xfc00, 0xff80},
        {0x1p-14f, 0x0400, 0x3880},
        {0x3p-25f, 0x0002, 0x33c0}, /* fp16: subnormal, half way, up to even */
        {0x1p-25f, 0x0000, 0x3300}, /* fp16: half of the least, to zero */
        {-0.0f, 0x8000, 0x8000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(f32_to_fp16(rows[i].exact), rows[i].fp16, "fp16 of %a: %04x", (double)rows[i].exact,
                     f32_to_fp16(rows[i].exact));
        cr_expect_eq(f32_to_bf16(rows[i].exact), rows[i].bf16, "bf16 of %a: %04x", (double)rows[i].exact,
                     f32_to_bf16(rows[i].exact));
    }
    cr_expect(isnan(fp16_to_f32(f32_to_fp16(NAN))) && isnan(bf16_to_f32(f32_to_bf16(NAN))));
    cr_expect_eq(fp16_to_f32(0x0001), power(-24));
}

/* --- every recorded op -------------------------------------------------------------------------------------------- */

/* fp16 with every var apart, or bf16 in place. */
static ops_result run_recording(weft_context *context, char *path, bool in_place, char *why, size_t why_nbytes) {
    char *variant = strrchr(path, '/') + 1;
    variant[strlen(variant) - strlen(".pdmodel")] = 0;
    variant[-1] = 0;
    return ops_fixture_run_halved(context, path, variant, in_place ? WEFT_BF16 : WEFT_FP16,
                                  in_place ? OPS_IN_PLACE : OPS_APART, why, why_nbytes);
}

Test(kernels_half, recorded_ops_round_what_fp32_computes) {
    char why[400];
    size_t passed = 0;
    weft_context *context;
    glob_t found;
    if (fixture_glob_ops("*/*.pdmodel", &found) != 0) cr_skip_test("no recordings here");
    cr_assert_null(weft_context_create(NULL, &context));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *path = found.gl_pathv[i], copy[600];
        for (int in_place = 0; in_place < 2; in_place++) {
            snprintf(copy, sizeof copy, "%s", path);
            ops_result result = run_recording(context, copy, in_place, why, sizeof why);
            passed += result == OPS_PASSED;
            cr_expect_neq(result, OPS_FAILED, "%s%s: %s", path, in_place ? " in place" : "", why);
        }
    }

    cr_expect_gt(passed, found.gl_pathc, "only %zu of %zu recordings were compared", passed, found.gl_pathc);
    weft_context_destroy(context);
    globfree(&found);
}

/* --- what recordings lack ----------------------------------------------------------------------------------------- */

enum { N = 4, C = 3 };

/* The running statistics and the scale of a network in half precision stay fp32, and absent arguments absent. */
Test(kernels_half, batch_norm_keeps_its_statistics) {
    static const float exact[N * C] = {1, 2, 3, -1, 0.5f, 7, 2, 2, -4, 3, 1, 0};
    float scale[C] = {1, 2, 3}, bias[C] = {0, 1, -1}, wide[N * C];
    float mean[2][C] = {{0}}, variance[2][C] = {{1, 1, 1}, {1, 1, 1}}, saved[4][C];
    uint16_t half[N * C];
    half_store(WEFT_BF16, N * C, exact, half);
    for (int run = 0; run < 2; run++) {
        kernel_test t;
        weft_dtype dtype = run ? WEFT_BF16 : WEFT_FP32;
        kernel_test_init(&t, "batch_norm");
        kernel_test_in(&t, "X", dtype, run ? (const void *)half : exact, N, C, -1);
        kernel_test_in(&t, "Scale", WEFT_FP32, scale, C, -1, -1);
        kernel_test_in(&t, "Bias", WEFT_FP32, bias, C, -1, -1);
        kernel_test_in(&t, "Mean", WEFT_FP32, mean[run], C, -1, -1);
        kernel_test_in(&t, "Variance", WEFT_FP32, variance[run], C, -1, -1);
        kernel_test_out(&t, "Y", dtype, run ? (void *)half : wide, N, C, -1);
        kernel_test_out(&t, "MeanOut", WEFT_FP32, mean[run], C, -1, -1);
        kernel_test_out(&t, "VarianceOut", WEFT_FP32, variance[run], C, -1, -1);
        kernel_test_out(&t, "SavedMean", WEFT_FP32, saved[2 * run], C, -1, -1);
        kernel_test_out(&t, "SavedVariance", WEFT_FP32, saved[2 * run + 1], C, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
    }
    cr_expect_arr_eq(mean[0], mean[1], sizeof *mean);
    cr_expect_arr_eq(variance[0], variance[1], sizeof *variance);
    cr_expect_arr_eq(saved[0], saved[2], 2 * sizeof *saved);
    for (int i = 0; i < N * C; i++) cr_expect_eq(half[i], f32_to_bf16(wide[i]), "element %d", i);
}

/* An index is an index, whatever the type that was sorted. */
Test(kernels_half, top_k_gives_indices) {
    static const float exact[2 * N] = {0.5f, 3, -2, 1, 4, -8, 0, 6};
    uint16_t x[2 * N], values[4];
    int64_t indices[4];
    kernel_test t;
    half_store(WEFT_FP16, 2 * N, exact, x);
    kernel_test_init(&t, "top_k_v2");
    cr_assert_null(weft_op_set_attr_int(t.op, "k", 2));
    kernel_test_in(&t, "X", WEFT_FP16, x, 2, N, -1);
    kernel_test_out(&t, "Out", WEFT_FP16, values, 2, 2, -1);
    kernel_test_out(&t, "Indices", WEFT_INT64, indices, 2, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(indices[0] == 1 && indices[1] == 3 && indices[2] == 3 && indices[3] == 0);
    cr_expect(values[0] == x[1] && values[1] == x[3] && values[2] == x[7] && values[3] == x[4]);
    kernel_test_fini(&t);
}

/* Without a master copy a half parameter is updated in fp32 and rounded; one that is asked for must be there. */
Test(kernels_half, sgd_without_a_master_copy) {
    static const float exact[N] = {1, 2, -3, 0.25f};
    uint16_t param[N], grad[N];
    float rate = 0.01f;
    kernel_test t;
    half_store(WEFT_FP16, N, exact, param);
    half_store(WEFT_FP16, N, exact, grad);
    kernel_test_init(&t, "sgd");
    kernel_test_in(&t, "Param", WEFT_FP16, param, N, -1, -1);
    kernel_test_in(&t, "Grad", WEFT_FP16, grad, N, -1, -1);
    kernel_test_in(&t, "LearningRate", WEFT_FP32, &rate, 1, -1, -1);
    kernel_test_out(&t, "ParamOut", WEFT_FP16, param, N, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < N; i++) cr_expect_eq(param[i], f32_to_fp16(exact[i] - rate * exact[i]), "element %d", i);
    cr_assert_null(weft_op_set_attr_bool(t.op, "multi_precision", true));
    cr_expect_eq(kernel_test_code(&t), WEFT_UNSUPPORTED, "a master copy is missing");
    kernel_test_fini(&t);
}

/* A kernel that knows nothing of master copies updates them all the same: as fp32 parameters, rounded after. */
Test(kernels_half, lamb_on_a_master_copy) {
    static const float gradient[N] = {1, -2, 0.5f, 4};
    float param[2][N], moments[2][2][N] = {{{0}}}, pow[2] = {0.9f, 0.999f}, rate = 0.1f;
    uint16_t half[N], grad[N];
    half_store(WEFT_BF16, N, gradient, grad);
    for (int run = 0; run < 2; run++) {
        kernel_test t;
        weft_dtype dtype = run ? WEFT_BF16 : WEFT_FP32;
        for (int i = 0; i < N; i++) param[run][i] = 1 + (float)i / 1024; /* more than bf16 holds */
        kernel_test_init(&t, "lamb");
        cr_assert_null(weft_op_set_attr_float(t.op, "weight_decay", 0.01));
        cr_assert_null(weft_op_set_attr_bool(t.op, "multi_precision", run));
        kernel_test_in(&t, "Param", dtype, run ? (void *)half : param[run], N, -1, -1);
        kernel_test_in(&t, "Grad", dtype, run ? (const void *)grad : gradient, N, -1, -1);
        kernel_test_in(&t, "LearningRate", WEFT_FP32, &rate, 1, -1, -1);
        kernel_test_in(&t, "Moment1", WEFT_FP32, moments[run][0], N, -1, -1);
        kernel_test_in(&t, "Moment2", WEFT_FP32, moments[run][1], N, -1, -1);
        kernel_test_in(&t, "Beta1Pow", WEFT_FP32, &pow[0], 1, -1, -1);
        kernel_test_in(&t, "Beta2Pow", WEFT_FP32, &pow[1], 1, -1, -1);
        kernel_test_out(&t, "ParamOut", dtype, run ? (void *)half : param[run], N, -1, -1);
        kernel_test_out(&t, "Moment1Out", WEFT_FP32, moments[run][0], N, -1, -1);
        kernel_test_out(&t, "Moment2Out", WEFT_FP32, moments[run][1], N, -1, -1);
        if (run) cr_expect_eq(kernel_test_code(&t), WEFT_UNSUPPORTED, "a master copy is missing");
        if (run) kernel_test_in(&t, "MasterParam", WEFT_FP32, param[run], N, -1, -1);
        if (run) kernel_test_out(&t, "MasterParamOut", WEFT_FP32, param[run], N, -1, -1);
        cr_assert_eq(kernel_test_code(&t), WEFT_OK);
        kernel_test_fini(&t);
    }
    cr_expect_arr_eq(param[0], param[1], sizeof *param);
    cr_expect_arr_eq(moments[0], moments[1], sizeof *moments);
    cr_expect_neq(param[0][0], 1);
    for (int i = 0; i < N; i++) cr_expect_eq(half[i], f32_to_bf16(param[0][i]), "element %d", i);
}

/* The words of a refusal are those of the kernel that would compute. */
Test(kernels_half, what_fp32_refuses_is_refused) {
    uint16_t x[N] = {0}, out[N];
    kernel_test t;
    kernel_test_init(&t, "softmax");
    cr_assert_null(weft_op_set_attr_int(t.op, "axis", 7));
    kernel_test_in(&t, "X", WEFT_BF16, x, N, -1, -1);
    kernel_test_out(&t, "Out", WEFT_BF16, out, N, -1, -1);
    weft_status status = kernel_test_run(&t);
    cr_expect_eq(weft_status_code(status), WEFT_UNSUPPORTED);
    cr_expect(strstr(weft_status_message(status), "found 7"), "%s", weft_status_message(status));
    weft_status_free(status);
    kernel_test_fini(&t);
}
