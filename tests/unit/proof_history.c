/* proof_history.c: on a grid of 2 x 2 ranks a value is summed along both axes: right if all ranks begin with the same
 * axis, wrong if one begins with the other. Every ring moves the same in the same order. And collectives that say how
 * many ranks they are made for. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/must.h"
#include "weft/verify.h"

#define SUM(ring) "  - {c_allreduce_sum: {X: g}, out: {Out: g}, attrs: {ring_id: " ring ", use_calc_stream: true}}\n"
#define MAKE "  - {scale: {X: x}, out: {Out: g}, attrs: {scale: 2.0}}\n"
#define DOUBLE "  - {scale: {X: g}, out: {Out: g}, attrs: {scale: 2.0}}\n"
#define GATHER(n)                                                                                                      \
    "  - {c_allgather: {X: g}, out: {Out: f}, attrs: {ring_id: 0, nranks: " n ", use_calc_stream: true}}\n"

/* What is found first in four ranks' programs, of which the last is another. */
static const char *judge_grid(const char *ops, const char *last, weft_reading reading) {
    weft_context *context;
    weft_program *p[4];
    weft_findings *found;
    must(weft_context_create(NULL, &context));
    for (int r = 0; r < 4; r++) {
        char message[2000];
        snprintf(message, sizeof message,
                 "weft: 1\nrank: %d\nrings: {0: [%d, %d], 1: [%d, %d], 2: [%d]}\nblocks:\n- vars:\n"
                 "    x: {float32: [4], need_check_feed: true}\n    g: {float32: [4]}\n    f: {float32: [8]}\n"
                 "  ops:\n%s",
                 r, r & ~1, r | 1, r & 1, (r & 1) + 2, r, r == 3 ? last : ops);
        must(weft_program_parse(context, WEFT_FORM_YAML, message, strlen(message), NULL, 0, "grid.yaml", &p[r]));
    }
    must(weft_verify((const weft_program *const *)p, 4,
                     &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = reading}, &found));
    const weft_finding *f = weft_finding_at(found, 0);
    const char *verdict = f ? weft_verdict_name(f->verdict) : "safe";
    weft_findings_destroy(found);
    for (int r = 0; r < 4; r++) weft_program_destroy(p[r]);
    weft_context_destroy(context);
    return verdict;
}

static const struct {
    const char *what, *ops, *last, *expected;
} cases[] = {
    {"one order", MAKE SUM("0") SUM("1"), MAKE SUM("0") SUM("1"), "safe"},
    {"one rank begins with the other axis", MAKE SUM("0") SUM("1"), MAKE SUM("1") SUM("0"), "wrong_data"},
    {"the same, and a factor between", MAKE SUM("0") DOUBLE SUM("1"), MAKE SUM("1") DOUBLE SUM("0"), "wrong_data"},
    {"made anew between", MAKE SUM("0") MAKE SUM("1"), MAKE SUM("1") MAKE SUM("0"), "safe"},
    {"a rank alone", MAKE SUM("2") SUM("0"), MAKE SUM("0") SUM("2"), "safe"},
    {"gathered from two", MAKE GATHER("2"), MAKE GATHER("2"), "safe"},
    {"gathered from one", MAKE GATHER("1"), MAKE GATHER("1"), "invalid_program"},
};

Test(proof_history, a_grid) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int reading = WEFT_READING_IN_ORDER; reading <= WEFT_READING_BY_BYTES; reading++) {
            const char *found = judge_grid(cases[i].ops, cases[i].last, (weft_reading)reading);
            cr_expect_str_eq(found, cases[i].expected, "%s, %s: expected %s, found %s", cases[i].what,
                             weft_reading_name((weft_reading)reading), cases[i].expected, found);
        }
}
