/* Ops that ops.def marks as of one type (OP_ONE_TYPE): kernels refuse inputs of several, and so does inference. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fixtures.h"
#include "tests/support/judge.h"
#include "tests/support/must.h"
#include "tests/support/ops_fixture.h"

/* The verdict on a sum of x and y; the caller frees. */
static char *judge_sum(const char *x, const char *y) {
    char program[600];
    weft_verify_options o = {.reading = WEFT_READING_BY_BYTES};
    snprintf(program, sizeof program,
             "weft: 1\nblocks:\n- vars:\n    x: {%s: [4], need_check_feed: true}\n"
             "    y: {%s: [4], need_check_feed: true}\n    z: {%s: [4]}\n  ops:\n"
             "  - {elementwise_add: {X: x, \"Y\": y}, out: {Out: z}, attrs: {axis: -1}}\n",
             x, y, x);
    return judge_message(program, NULL, &o);
}

/* Also where nothing reads the result. */
Test(ops_types, verify_names_the_op) {
    static const struct {
        const char *x, *y, *words;
    } cases[] = {
        {"float32", "float32", ""},
        {"float32", "float16", ""}, /* computed in float32 */
        {"float32", "float64", "elementwise_add #0: expected Y of float32, found float64"},
        {"int64", "int32", "elementwise_add #0: expected Y of int64, found int32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = judge_sum(cases[i].x, cases[i].y);
        cr_expect(*cases[i].words ? strstr(found, cases[i].words) != NULL : !*found, "%s and %s: %s", cases[i].x,
                  cases[i].y, found);
        free(found);
    }
}

static size_t check_folder(weft_context *context, char *dir) {
    char pattern[640], why[400] = "";
    size_t nops = 0;
    glob_t found;
    const char *op = strrchr(dir, '/') + 1;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", dir);
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *variant = strrchr(found.gl_pathv[i], '/') + 1;
        size_t n = 0;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        if (ops_fixture_is_known(context, "ops", op, variant)) continue;
        ops_result result = ops_fixture_run_types(context, dir, variant, &n, why, sizeof why);
        cr_expect_neq(result, OPS_FAILED, "%s/%s: %s", op, variant, why);
        nops += n;
    }
    globfree(&found);
    return nops;
}

Test(ops_types, kernels_refuse_several) {
    char pattern[600];
    weft_context *context;
    size_t nfolders = 0;
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/ops/*", fixture_root());
    if (glob(pattern, 0, NULL, &found) != 0) cr_skip_test("no recordings here");
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < found.gl_pathc; i++) nfolders += check_folder(context, found.gl_pathv[i]) > 0;
    weft_context_destroy(context);
    globfree(&found);
    cr_assert_gt(nfolders, 20, "only %zu ops were tried", nfolders);
}
