/* cuda_halves.c: kernels on fp16 and bf16 tensors take the elements as they are, and nothing is cast. Results are those
 * of CPUs, which round once too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/types.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/must.h"
#include "tests/support/plain.h"
#include "weft/trainer.h"

/* TYPE becomes the type; a and b are matrices, r is a row; i are images, of which s, t, u, v are rows of fp32. */
static const char vars_of[] =
    "weft: 1\nversion: 2006002\nblocks:\n- idx: 0\n  parent: -1\n  vars:\n"
    "    a: {TYPE: [6, 70], persistable: false}\n    b: {TYPE: [6, 70], persistable: false}\n"
    "    r: {TYPE: [70], persistable: false}\n"
    "    o0: {TYPE: [6, 70], persistable: false}\n    o1: {TYPE: [6, 70], persistable: false}\n"
    "    o2: {TYPE: [6, 70], persistable: false}\n    o3: {TYPE: [6, 70], persistable: false}\n"
    "    o4: {TYPE: [6, 70], persistable: false}\n    o5: {TYPE: [6], persistable: false}\n"
    "    o6: {TYPE: [70], persistable: false}\n    o7: {TYPE: [6, 70], persistable: false}\n"
    "    o8: {TYPE: [6, 70], persistable: false}\n    o9: {bool: [6, 70], persistable: false}\n"
    "    l: {int64: [6, 1], persistable: false}\n    i: {TYPE: [2, 3, 5, 8], persistable: false}\n"
    "    s: {float32: [3], persistable: false}\n    t: {float32: [3], persistable: false}\n"
    "    u: {float32: [3], persistable: false}\n    v: {float32: [3], persistable: false}\n"
    "    softmax: {TYPE: [6, 70], persistable: false}\n    softmax_grad: {TYPE: [6, 70], persistable: false}\n"
    "    loss: {TYPE: [6, 1], persistable: false}\n    shares: {TYPE: [6, 70], persistable: false}\n"
    "    loss_grad: {TYPE: [6, 70], persistable: false}\n"
    "    mean: {float32: [6], persistable: false}\n    variance: {float32: [6], persistable: false}\n"
    "    norm: {TYPE: [6, 70], persistable: false}\n    norm_dx: {TYPE: [6, 70], persistable: false}\n"
    "    norm_dscale: {TYPE: [70], persistable: false}\n    norm_dbias: {TYPE: [70], persistable: false}\n"
    "    pool: {TYPE: [2, 3, 2, 4], persistable: false}\n    pool_dx: {TYPE: [2, 3, 5, 8], persistable: false}\n"
    "    means: {TYPE: [2, 3, 2, 4], persistable: false}\n    means_dx: {TYPE: [2, 3, 5, 8], persistable: false}\n"
    "    rows: {TYPE: [6, 1, 70], persistable: false}\n    rows_dw: {TYPE: [6, 70], persistable: false}\n"
    "    batch: {TYPE: [2, 3, 5, 8], persistable: false}\n    batch_dx: {TYPE: [2, 3, 5, 8], persistable: false}\n"
    "    m2: {float32: [3], persistable: false}\n    v2: {float32: [3], persistable: false}\n"
    "    sm: {float32: [3], persistable: false}\n    sv: {float32: [3], persistable: false}\n"
    "    ds: {float32: [3], persistable: false}\n    db: {float32: [3], persistable: false}\n"
    "    p1: {TYPE: [70], persistable: true}\n    p2: {TYPE: [70], persistable: true}\n"
    "    p3: {TYPE: [70], persistable: true}\n    q1: {float32: [70], persistable: true}\n"
    "    p4: {TYPE: [70], persistable: true}\n    q4: {float32: [70], persistable: true}\n"
    "    q2: {float32: [70], persistable: true}\n    q3: {float32: [70], persistable: true}\n"
    "    filter: {TYPE: [4, 3, 3, 2], persistable: false}\n    conv: {TYPE: [2, 4, 5, 7], persistable: false}\n"
    "    conv_dx: {TYPE: [2, 3, 5, 8], persistable: false}\n"
    "    conv_df: {TYPE: [4, 3, 3, 2], persistable: false}\n"
    "    back: {TYPE: [3, 2, 3, 2], persistable: false}\n    wide: {TYPE: [2, 2, 7, 9], persistable: false}\n"
    "    wide_dx: {TYPE: [2, 3, 5, 8], persistable: false}\n    wide_df: {TYPE: [3, 2, 3, 2], persistable: false}\n"
    "    rate: {float32: [1], persistable: true}\n    velocity: {float32: [70], persistable: true}\n"
    "    first: {float32: [70], persistable: true}\n    second: {float32: [70], persistable: true}\n"
    "    pow1: {float32: [1], persistable: true}\n    pow2: {float32: [1], persistable: true}\n";
static const char ops_of[] =
    "  ops:\n"
    "  - {sgd: {Grad: [r], LearningRate: [rate], MasterParam: [q1], Param: [p1]}, out: {MasterParamOut: [q1], "
    "ParamOut: "
    "[p1]}, attrs: {multi_precision: true}}\n"
    "  - {sgd: {Grad: [r], LearningRate: [rate], MasterParam: [q4], Param: [p4]}, out: {MasterParamOut: [q4], "
    "ParamOut: "
    "[p4]}, attrs: {multi_precision: true}}\n"
    "  - {momentum: {Grad: [r], LearningRate: [rate], MasterParam: [q2], Param: [p2], Velocity: [velocity]}, out: "
    "{MasterParamOut: [q2], ParamOut: [p2], VelocityOut: [velocity]}, attrs: {mu: 0.9, multi_precision: true}}\n"
    "  - {adam: {Beta1Pow: [pow1], Beta2Pow: [pow2], Grad: [r], LearningRate: [rate], MasterParam: [q3], Moment1: "
    "[first], Moment2: [second], Param: [p3]}, out: {Beta1PowOut: [pow1], Beta2PowOut: [pow2], MasterParamOut: [q3], "
    "Moment1Out: [first], Moment2Out: [second], ParamOut: [p3]}, attrs: {multi_precision: true}}\n"
    "  - {softmax: {X: [a]}, out: {Out: [softmax]}, attrs: {axis: -1}}\n"
    "  - {softmax_grad: {Out: [softmax], Out@GRAD: [b]}, out: {X@GRAD: [softmax_grad]}, attrs: {axis: -1}}\n"
    "  - {softmax_with_cross_entropy: {Label: [l], Logits: [a]}, out: {Loss: [loss], Softmax: [shares]}, attrs: {axis: "
    "-1, ignore_index: -100, soft_label: false}}\n"
    "  - {softmax_with_cross_entropy_grad: {Label: [l], Loss@GRAD: [loss], Softmax: [shares]}, out: {Logits@GRAD: "
    "[loss_grad]}, attrs: {axis: -1, ignore_index: -100, soft_label: false}}\n"
    "  - {layer_norm: {Bias: [r], Scale: [r], X: [a]}, out: {Mean: [mean], Variance: [variance], \"Y\": [norm]}, "
    "attrs: "
    "{begin_norm_axis: 1, epsilon: 1.0e-05}}\n"
    "  - {layer_norm_grad: {Bias: [r], Mean: [mean], Scale: [r], Variance: [variance], X: [a], Y@GRAD: [b]}, out: "
    "{Bias@GRAD: [norm_dbias], Scale@GRAD: [norm_dscale], X@GRAD: [norm_dx]}, attrs: {begin_norm_axis: 1, epsilon: "
    "1.0e-05}}\n"
    "  - {pool2d: {X: [i]}, out: {Out: [pool]}, attrs: {pooling_type: max, ksize: [2, 2], strides: [2, 2], paddings: "
    "[0, 0]}}\n"
    "  - {pool2d_grad: {Out: [pool], Out@GRAD: [pool], X: [i]}, out: {X@GRAD: [pool_dx]}, attrs: {pooling_type: max, "
    "ksize: [2, 2], strides: [2, 2], paddings: [0, 0]}}\n"
    "  - {pool2d: {X: [i]}, out: {Out: [means]}, attrs: {pooling_type: avg, ksize: [2, 2], strides: [2, 2], paddings: "
    "[0, 0]}}\n"
    "  - {pool2d_grad: {Out: [means], Out@GRAD: [means], X: [i]}, out: {X@GRAD: [means_dx]}, attrs: {pooling_type: "
    "avg, "
    "ksize: [2, 2], strides: [2, 2], paddings: [0, 0]}}\n"
    "  - {lookup_table_v2: {Ids: [l], W: [a]}, out: {Out: [rows]}, attrs: {padding_idx: -1}}\n"
    "  - {lookup_table_v2_grad: {Ids: [l], Out@GRAD: [rows], W: [a]}, out: {W@GRAD: [rows_dw]}, attrs: {padding_idx: "
    "-1}}\n"
    "  - {batch_norm: {Bias: [t], Mean: [u], Scale: [s], Variance: [v], X: [i]}, out: {MeanOut: [m2], SavedMean: [sm], "
    "SavedVariance: [sv], VarianceOut: [v2], \"Y\": [batch]}, attrs: {data_layout: NCHW, epsilon: 1.0e-05, momentum: "
    "0.9}}\n"
    "  - {batch_norm_grad: {Bias: [t], SavedMean: [sm], SavedVariance: [sv], Scale: [s], X: [i], Y@GRAD: [i]}, out: "
    "{Bias@GRAD: [db], Scale@GRAD: [ds], X@GRAD: [batch_dx]}, attrs: {data_layout: NCHW, epsilon: 1.0e-05, momentum: "
    "0.9}}\n"
    "  - {gelu: {X: [a]}, out: {Out: [o0]}, attrs: {approximate: false}}\n"
    "  - {tanh_grad: {Out: [a], Out@GRAD: [b]}, out: {X@GRAD: [o1]}, attrs: {}}\n"
    "  - {elementwise_add: {X: [a], \"Y\": [r]}, out: {Out: [o2]}, attrs: {axis: -1}}\n"
    "  - {elementwise_mul: {X: [a], \"Y\": [b]}, out: {Out: [o3]}, attrs: {axis: -1}}\n"
    "  - {scale: {X: [a]}, out: {Out: [o4]}, attrs: {scale: 0.3, bias: 1.5, "
    "bias_after_scale: true}}\n"
    "  - {reduce_sum: {X: [a]}, out: {Out: [o5]}, attrs: {dim: [1], keep_dim: false, "
    "reduce_all: false}}\n"
    "  - {elementwise_add_grad: {Out@GRAD: [b], X: [a], \"Y\": [r]}, out: {X@GRAD: [o7], Y@GRAD: "
    "[o6]}, attrs: {axis: -1}}\n"
    "  - {sum: {X: [a, b, o3]}, out: {Out: [o8]}, attrs: {}}\n"
    "  - {less_than: {X: [a], \"Y\": [b]}, out: {Out: [o9]}, attrs: {axis: -1}}\n";
static const char *const fetches[] = {
    "o0",      "o1",    "o2",       "o3",       "o4",          "o5",         "o6",           "o7",
    "o8",      "o9",    "softmax",  "loss",     "shares",      "loss_grad",  "mean",         "norm",
    "pool",    "means", "variance", "norm_dx",  "norm_dscale", "norm_dbias", "softmax_grad", "rows",
    "pool_dx", "batch", "rows_dw",  "means_dx", "batch_dx",    "m2",         "v2",           "sm",
    "sv",      "ds",    "db",       "p1",       "p2",          "p3",         "q1",           "q2",
    "q3",      "p4",    "q4",       "velocity", "first",       "second"};
static const char *const conv_fetches[] = {"conv", "conv_dx", "conv_df", "wide", "wide_dx", "wide_df"};
enum { OF_TYPE = -1 };

static const char convolutions_of[] =
    "  ops:\n"
    "  - {conv2d: {Filter: [filter], Input: [i]}, out: {Output: [conv]}, attrs: {strides: [1, 1], paddings: [1, 0], "
    "dilations: [1, 1], groups: 1}}\n"
    "  - {conv2d_grad: {Filter: [filter], Input: [i], Output@GRAD: [conv]}, out: {Filter@GRAD: [conv_df], Input@GRAD: "
    "[conv_dx]}, attrs: {strides: [1, 1], paddings: [1, 0], dilations: [1, 1], groups: 1}}\n"
    "  - {conv2d_transpose: {Filter: [back], Input: [i]}, out: {Output: [wide]}, attrs: {strides: [1, 1], paddings: "
    "[0, 0], dilations: [1, 1], groups: 1}}\n"
    "  - {conv2d_transpose_grad: {Filter: [back], Input: [i], Output@GRAD: [wide]}, out: {Filter@GRAD: [wide_df], "
    "Input@GRAD: [wide_dx]}, attrs: {strides: [1, 1], paddings: [0, 0], dilations: [1, 1], groups: 1}}\n";

/* Ops, and what is fetched of them. */
typedef struct op_list {
    const char *ops;
    const char *const *fetches;
    size_t nfetches;
    bool is_strict, joins_updates;
} op_list;

/* Positive where `lowest` says so. */
static const struct feed {
    const char *name;
    int dtype, ndim;
    int64_t dims[4];
    float lowest;
} fed[] = {{"filter", OF_TYPE, 4, {4, 3, 3, 2}, -2},
           {"back", OF_TYPE, 4, {3, 2, 3, 2}, -2},
           {"a", OF_TYPE, 2, {6, 70}, -2},
           {"b", OF_TYPE, 2, {6, 70}, -2},
           {"r", OF_TYPE, 1, {70}, -2},
           {"i", OF_TYPE, 4, {2, 3, 5, 8}, -2},
           {"s", WEFT_FP32, 1, {3}, -2},
           {"t", WEFT_FP32, 1, {3}, -2},
           {"u", WEFT_FP32, 1, {3}, -2},
           {"v", WEFT_FP32, 1, {3}, 1},
           {"p1", OF_TYPE, 1, {70}, -2},
           {"p2", OF_TYPE, 1, {70}, -2},
           {"p3", OF_TYPE, 1, {70}, -2},
           {"q1", WEFT_FP32, 1, {70}, -2},
           {"q2", WEFT_FP32, 1, {70}, -2},
           {"p4", OF_TYPE, 1, {70}, -2},
           {"q4", WEFT_FP32, 1, {70}, -2},
           {"q3", WEFT_FP32, 1, {70}, -2},
           {"rate", WEFT_FP32, 1, {1}, 0.01f},
           {"velocity", WEFT_FP32, 1, {70}, -2},
           {"first", WEFT_FP32, 1, {70}, -2},
           {"second", WEFT_FP32, 1, {70}, 0},
           {"pow1", WEFT_FP32, 1, {1}, 0},
           {"pow2", WEFT_FP32, 1, {1}, 0}};

static void add(weft_tensors *feeds, const struct feed *f, weft_dtype type, unsigned seed) {
    weft_dtype dtype = f->dtype == OF_TYPE ? type : (weft_dtype)f->dtype;
    weft_tensor *t;
    must(weft_tensors_add(feeds, f->name, dtype, (size_t)f->ndim, f->dims, &t));
    void *to = (void *)(uintptr_t)t->data;
    for (size_t i = 0; i < t->nbytes / weft_dtype_nbytes(dtype); i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)(int)(seed >> 16) / 16384.f + f->lowest;
        if (strncmp(f->name, "pow", 3) == 0 || strcmp(f->name, "rate") == 0) x /= 8; /* below 1 */
        if (dtype == WEFT_FP32)
            ((float *)to)[i] = x;
        else
            ((uint16_t *)to)[i] = dtype == WEFT_BF16 ? f32_to_bf16(x) : f32_to_fp16(x);
    }
}

/* Classes, and ids of rows: some twice. */
static void add_labels(weft_tensors *feeds) {
    static const int64_t labels[6] = {3, 0, 5, 3, 1, 5};
    weft_tensor *t;
    must(weft_tensors_add(feeds, "l", WEFT_INT64, 2, (const int64_t[]){6, 1}, &t));
    memcpy((void *)(uintptr_t)t->data, labels, sizeof labels);
}

static void write_part(FILE *f, const char *part, const char *type) {
    for (const char *at = part; *at;) {
        const char *next = strstr(at, "TYPE");
        fwrite(at, 1, next ? (size_t)(next - at) : strlen(at), f);
        if (next) fputs(type, f);
        at = next ? next + 4 : at + strlen(at);
    }
}

static void write_text(const char *path, const op_list *of, const char *type) {
    FILE *f = fopen(path, "w");
    check(f != NULL, "%s: not written", path);
    if (!f) return;
    write_part(f, vars_of, type);
    write_part(f, of->ops, type);
    fclose(f);
}

static void run(weft_context *context, const op_list *of, const weft_program *program, const weft_tensors *feeds,
                const char *on, weft_trainer **out_trainer, weft_tensors **out_result) {
    weft_executor_options how = {WEFT_EXECUTOR_OPTIONS_INIT, .device = on, .strict_device = on && of->is_strict,
                                 .unsafe = true};
    weft_trainer_options options = {
        WEFT_TRAINER_OPTIONS_INIT, .programs = &program,     .nprograms = 1, .feeds = &feeds,
        .fetches = of->fetches,    .nfetches = of->nfetches, .nsteps = 1,    .executor = &how};
    must(weft_trainer_create(context, &options, out_trainer));
    must(weft_trainer_step(*out_trainer, 0));
    must(weft_trainer_result(*out_trainer, out_result));
}

static double element(const weft_tensor *t, size_t i) {
    if (t->dtype == WEFT_BOOL) return ((const uint8_t *)t->data)[i];
    if (t->dtype == WEFT_FP32) return (double)((const float *)t->data)[i];
    uint16_t half = ((const uint16_t *)t->data)[i];
    return (double)(t->dtype == WEFT_BF16 ? bf16_to_f32(half) : fp16_to_f32(half));
}

/* One rounding apart at most: libraries of maths differ in the last bit of fp32. */
static void compare(const char *type, const weft_tensor *want, const weft_tensor *got) {
    double step = want->dtype == WEFT_BF16 ? 1.0 / 128 : want->dtype == WEFT_FP16 ? 1.0 / 1024 : 1e-5;
    check(got && want->nbytes == got->nbytes, "%s %s: missing", type, want->name);
    for (size_t i = 0; got && i < want->nbytes / weft_dtype_nbytes(want->dtype); i++) {
        double a = element(want, i), b = element(got, i);
        check(fabs(a - b) <= step * fabs(a) + 1e-6, "%s %s[%zu]: %g, not %g", type, want->name, i, b, a);
    }
}

static void test_type(const op_list *of, const char *type, weft_dtype dtype) {
    char path[] = "/tmp/weft-halves-XXXXXX.yaml";
    weft_context *context;
    weft_program *program;
    weft_tensors *feeds, *near_result, *far_result;
    weft_trainer *near, *far;
    int file = mkstemps(path, 5);
    check(file >= 0, "no file");
    close(file);
    write_text(path, of, type);
    must(weft_context_create(NULL, &context));
    must(weft_program_load(context, path, NULL, &program));
    unlink(path);
    must(weft_tensors_create(context, &feeds));
    for (unsigned i = 0; i < sizeof fed / sizeof *fed; i++) add(feeds, &fed[i], dtype, i + 1);
    add_labels(feeds);
    run(context, of, program, feeds, NULL, &near, &near_result);
    bool counts = !cuda_standin_is_left_out();
    int before = counts ? cuda_standin_launches("cast_elements_of") : 0;
    int joined = counts ? cuda_standin_launches("update_sgd_many") : 0;
    run(context, of, program, feeds, "cuda", &far, &far_result);
    if (counts) check(cuda_standin_launches("cast_elements_of") == before, "%s: elements are cast", type);
    if (counts && of->joins_updates)
        check(cuda_standin_launches("update_sgd_many") == joined + 1, "%s: updates are launched apart", type);
    for (size_t i = 0; i < weft_tensors_count(near_result); i++) {
        const weft_tensor *want = weft_tensors_at(near_result, i);
        compare(type, want, weft_tensors_find(far_result, want->name));
    }
    check(weft_tensors_count(near_result) >= of->nfetches, "%s: %zu results", type, weft_tensors_count(near_result));
    weft_tensors_destroy(near_result);
    weft_tensors_destroy(far_result);
    weft_trainer_destroy(near);
    weft_trainer_destroy(far);
    weft_tensors_destroy(feeds);
    weft_program_destroy(program);
    weft_context_destroy(context);
}

int main(void) {
    if (!cuda_standin_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    const op_list most = {ops_of, fetches, sizeof fetches / sizeof *fetches, true, true};
    op_list convolutions = {convolutions_of, conv_fetches, sizeof conv_fetches / sizeof *conv_fetches, true, false};
    test_type(&most, "float16", WEFT_FP16);
    test_type(&most, "bfloat16", WEFT_BF16);
    if (cuda_standin_is_left_out())
        convolutions.is_strict = false; /* its cuDNN may have no algorithm for them, or not be there */
    else if (!cuda_standin_library("libcudnn.so.9"))
        return report_checks();
    test_type(&convolutions, "float16", WEFT_FP16);
    test_type(&convolutions, "bfloat16", WEFT_BF16);
    return report_checks();
}
