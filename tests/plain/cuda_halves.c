/* cuda_halves.c: pointwise ops on fp16 and bf16 tensors take the elements as they are, and nothing is cast. Results
 * are those of CPUs, which round once too. */
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

enum { ROWS = 6, COLUMNS = 70, NELEMENTS = ROWS * COLUMNS };

/* TYPE becomes the type; a and b are matrices, r is a row. */
static const char text_of[] =
    "weft: 1\nversion: 2006002\nblocks:\n- idx: 0\n  parent: -1\n  vars:\n"
    "    a: {TYPE: [6, 70], persistable: false}\n    b: {TYPE: [6, 70], persistable: false}\n"
    "    r: {TYPE: [70], persistable: false}\n"
    "    o0: {TYPE: [6, 70], persistable: false}\n    o1: {TYPE: [6, 70], persistable: false}\n"
    "    o2: {TYPE: [6, 70], persistable: false}\n    o3: {TYPE: [6, 70], persistable: false}\n"
    "    o4: {TYPE: [6, 70], persistable: false}\n    o5: {TYPE: [6], persistable: false}\n"
    "    o6: {TYPE: [70], persistable: false}\n    o7: {TYPE: [6, 70], persistable: false}\n"
    "    o8: {TYPE: [6, 70], persistable: false}\n    o9: {bool: [6, 70], persistable: false}\n"
    "  ops:\n"
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
static const char *const fetches[] = {"o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8", "o9"};
enum { NFETCHES = sizeof fetches / sizeof *fetches };

static void add(weft_tensors *feeds, const char *its_name, weft_dtype dtype, int ndim, unsigned seed) {
    int64_t dims[2] = {ROWS, COLUMNS};
    weft_tensor *t;
    must(weft_tensors_add(feeds, its_name, dtype, (size_t)ndim, ndim == 2 ? dims : dims + 1, &t));
    uint16_t *to = (uint16_t *)(uintptr_t)t->data;
    for (size_t i = 0; i < t->nbytes / 2; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)(int)(seed >> 16) / 16384.f - 2;
        to[i] = dtype == WEFT_BF16 ? f32_to_bf16(x) : f32_to_fp16(x);
    }
}

static void write_text(const char *path, const char *type) {
    FILE *f = fopen(path, "w");
    check(f != NULL, "%s: not written", path);
    for (const char *at = text_of; f && *at;) {
        const char *next = strstr(at, "TYPE");
        fwrite(at, 1, next ? (size_t)(next - at) : strlen(at), f);
        if (next) fputs(type, f);
        at = next ? next + 4 : at + strlen(at);
    }
    if (f) fclose(f);
}

static void run(weft_context *context, const weft_program *program, const weft_tensors *feeds, const char *on,
                weft_trainer **out_trainer, weft_tensors **out_result) {
    weft_executor_options how = {WEFT_EXECUTOR_OPTIONS_INIT, .device = on, .strict_device = on != NULL, .unsafe = true};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT, .programs = &program, .nprograms = 1, .feeds = &feeds,
                                    .fetches = fetches,        .nfetches = NFETCHES, .nsteps = 1,    .executor = &how};
    must(weft_trainer_create(context, &options, out_trainer));
    must(weft_trainer_step(*out_trainer, 0));
    must(weft_trainer_result(*out_trainer, out_result));
}

static double element(const weft_tensor *t, size_t i) {
    if (t->dtype == WEFT_BOOL) return ((const uint8_t *)t->data)[i];
    uint16_t half = ((const uint16_t *)t->data)[i];
    return (double)(t->dtype == WEFT_BF16 ? bf16_to_f32(half) : fp16_to_f32(half));
}

/* One rounding apart at most: libraries of maths differ in the last bit of fp32. */
static void compare(const char *type, const weft_tensor *want, const weft_tensor *got) {
    double step = want->dtype == WEFT_BF16 ? 1.0 / 128 : 1.0 / 1024;
    check(got && want->nbytes == got->nbytes, "%s %s: missing", type, want->name);
    for (size_t i = 0; got && i < want->nbytes / weft_dtype_nbytes(want->dtype); i++) {
        double a = element(want, i), b = element(got, i);
        check(fabs(a - b) <= step * fabs(a) + 1e-7, "%s %s[%zu]: %g, not %g", type, want->name, i, b, a);
    }
}

static void test_type(const char *type, weft_dtype dtype) {
    char path[] = "/tmp/weft-halves-XXXXXX.yaml";
    weft_context *context;
    weft_program *program;
    weft_tensors *feeds, *near_result, *far_result;
    weft_trainer *near, *far;
    int file = mkstemps(path, 5);
    check(file >= 0, "no file");
    close(file);
    write_text(path, type);
    must(weft_context_create(NULL, &context));
    must(weft_program_load(context, path, NULL, &program));
    unlink(path);
    must(weft_tensors_create(context, &feeds));
    add(feeds, "a", dtype, 2, 1);
    add(feeds, "b", dtype, 2, 2);
    add(feeds, "r", dtype, 1, 3);
    run(context, program, feeds, NULL, &near, &near_result);
    bool counts = !cuda_standin_is_left_out();
    int before = counts ? cuda_standin_launches("cast_elements_of") : 0;
    run(context, program, feeds, "cuda", &far, &far_result);
    if (counts) check(cuda_standin_launches("cast_elements_of") == before, "%s: elements are cast", type);
    for (size_t i = 0; i < weft_tensors_count(near_result); i++) {
        const weft_tensor *want = weft_tensors_at(near_result, i);
        compare(type, want, weft_tensors_find(far_result, want->name));
    }
    check(weft_tensors_count(near_result) >= NFETCHES, "%s: %zu results", type, weft_tensors_count(near_result));
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
    test_type("float16", WEFT_FP16);
    test_type("bfloat16", WEFT_BF16);
    return report_checks();
}
