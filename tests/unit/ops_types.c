/* Ops that ops.def marks as of one type (OP_ONE_TYPE): kernels refuse inputs of several, and so does inference. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/judge.h"
#include "tests/support/ops_folders.h"

/* The verdict on a sum of x and y; the caller frees. */
static char *judge_sum(const char *x, const char *y) {
    char program[600];
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_BYTES};
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
        const char *x, *y, *message;
    } cases[] = {
        {"float32", "float32", ""},
        {"float32", "float16", ""}, /* computed in float32 */
        {"float32", "float64", "elementwise_add #0: expected Y of float32, found float64"},
        {"int64", "int32", "elementwise_add #0: expected Y of int64, found int32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *found = judge_sum(cases[i].x, cases[i].y);
        cr_expect(*cases[i].message ? strstr(found, cases[i].message) != NULL : !*found, "%s and %s: %s", cases[i].x,
                  cases[i].y, found);
        free(found);
    }
}

Test(ops_types, kernels_refuse_several) {
    ops_folders_check_all(ops_fixture_run_types);
}
