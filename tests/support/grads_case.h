/* grads_case.h: the fixture of a suite that runs gradient passes over one small program a test (grads.h): `g` is the
 * program, `before` what it was before `run`, `report` what the passes said. Include it once in a suite's file. */
#ifndef TESTS_SUPPORT_GRADS_CASE_H
#define TESTS_SUPPORT_GRADS_CASE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/grads.h"

static grads g;
static weft_program *before;
static weft_report *report;
static char why[256], ops[4096]; /* ops: grads_text of the program after them */

static void set_up(void) {
    grads_create(&g);
    before = NULL;
    report = NULL;
}
static void tear_down(void) {
    weft_report_destroy(report);
    weft_program_destroy(before);
    grads_destroy(&g);
}

/* Runs the list and checks that the program computes what it computed. */
static inline void run(const char *list) {
    cr_assert_null(weft_program_clone(g.p, &before));
    report = grads_passes(&g, list);
    cr_assert(grads_same(before, g.p, why, sizeof why), "%s", why);
    grads_text(&g, ops, sizeof ops);
}

/* Appends sgd of parameters p0, p1, ... by gradients w0, w1, ... */
static inline void optimizers(int count) {
    char n[16], p[16];
    for (int i = 0; i < count; i++) {
        snprintf(n, sizeof n, "w%d", i);
        snprintf(p, sizeof p, "p%d", i);
        grads_sgd(&g, p, n);
    }
}

/* The op of that type that `index` others of it come before. */
static inline weft_op *find(const char *type, size_t index) {
    FOR_EACH_OP(op, g.b) {
        if (op_is(op, type) && index-- == 0) return op;
    }
    cr_assert_fail("no %s", type);
    return NULL;
}

#endif
