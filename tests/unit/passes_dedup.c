/* dedup_collectives: what is no duplicate stays, what cannot be renamed is copied or left, and a false claim of sameness
 * is refused. What it removes is in tests/golden. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/must.h"
#include "weft/certificate.h"
#include "weft/pass.h"

#define REDUCE(in, out, more)                                                                                          \
    "  - {c_allreduce_sum: {X: [" in "]}, out: {Out: [" out "]}, attrs: {ring_id: 0, use_calc_stream: true" more "}}\n"
#define REDUCE_LATER(in, out)                                                                                          \
    "  - {all_reduce: {x: [" in "]}, out: {out: [" out "]}, attrs: {ring_id: 0, reduce_type: 0, async_op: true}}\n"
#define RELU(in, out) "  - {relu: {X: [" in "]}, out: {Out: [" out "]}}\n"

static weft_context *context;
static weft_program *before, *after;
static weft_report *report;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_report_destroy(report);
    weft_program_destroy(before);
    weft_program_destroy(after);
    weft_context_destroy(context);
    report = NULL;
    before = after = NULL;
}
TestSuite(passes_dedup, .init = set_up, .fini = tear_down);

static void run_pass(void) {
    static const char passes[] = "dedup_collectives";
    weft_pass_list *list;
    must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_pass_list_set_certify(list, true);
    weft_pass_list_set_prove(list, WEFT_PROVE_REQUIRE);
    must(weft_program_clone(before, &after));
    must(weft_pass_list_run(list, after, &report));
    weft_pass_list_destroy(list);
}

/* How many collectives the pass removes of a program with these ops; proved, and with a certificate that holds. */
static int64_t count_removed(const char *ops) {
    char yaml[4096];
    snprintf(yaml, sizeof yaml,
             "weft: 1\nrings: {0: [0, 1]}\nblocks:\n- idx: 0\n  vars:\n    a: {float32: [4]}\n    b: {float32: [4]}\n"
             "    c: {float32: [4]}\n    d: {float32: [4]}\n    e: {float32: [4]}\n    kept: {float32: [4], "
             "persistable: true}\n  ops:\n%s",
             ops);
    must(weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "test", &before));
    run_pass();
    weft_certified verdict;
    char *bytes, *message;
    size_t nbytes, nmessage;
    must(weft_report_certificate(report, &bytes, &nbytes));
    must(weft_certificate_check(before, after, bytes, nbytes, "test", &verdict, &message, &nmessage));
    cr_expect_eq(verdict, WEFT_CERTIFIED, "%s", message);
    weft_bytes_free(context, bytes, nbytes);
    weft_bytes_free(context, message, nmessage);
    return weft_report_count(report, 0, "collectives removed");
}

static size_t count_ops(const char *type) {
    size_t n = 0;
    for (weft_op *op = weft_block_first_op(weft_program_block(after, 0)); op; op = weft_op_next(op))
        n += strcmp(weft_op_type(op), type) == 0;
    return n;
}

Test(passes_dedup, of_three_two_go) {
    cr_expect_eq(count_removed(REDUCE("a", "b", "") REDUCE("a", "c", "") REDUCE("a", "d", "") RELU("d", "e")), 2);
    cr_expect_eq(count_ops("assign"), 0);
}

Test(passes_dedup, other_attrs_are_no_duplicate) {
    cr_expect_eq(count_removed(REDUCE("a", "b", "") "  - {c_allreduce_max: {X: [a]}, out: {Out: [c]}, attrs: "
                                                    "{ring_id: 0, use_calc_stream: true}}\n"),
                 0);
}

Test(passes_dedup, a_value_that_changed_is_no_duplicate) {
    cr_expect_eq(count_removed(REDUCE("a", "b", "") RELU("a", "a") REDUCE("a", "c", "")), 0);
}

Test(passes_dedup, reduced_twice_in_place_is_no_duplicate) {
    cr_expect_eq(count_removed(REDUCE("a", "a", "") REDUCE("a", "a", "")), 0);
}

Test(passes_dedup, a_result_that_is_overwritten_is_left_with_a_reason) {
    const char *message;
    cr_expect_eq(count_removed(REDUCE("a", "b", "") RELU("b", "b") REDUCE("a", "c", "")), 0);
    cr_expect_eq(weft_report_left(report, 0, 0, &message), WEFT_REASON_IN_USE);
    cr_expect_not_null(strstr(message, "\"b\" is overwritten before"), "%s", message);
}

Test(passes_dedup, what_others_write_and_state_become_copies) {
    cr_expect_eq(count_removed(REDUCE("a", "b", "") REDUCE("a", "c", "") RELU("c", "c") REDUCE("a", "kept", "")), 2);
    cr_expect_eq(count_ops("assign"), 2);
}

Test(passes_dedup, a_changed_copy_is_no_duplicate) {
    cr_expect_eq(count_removed("  - {assign: {X: [a]}, out: {Out: [b]}}\n" REDUCE("a", "c", "") RELU("b", "b")
                                   REDUCE("b", "d", "")),
                 0);
}

Test(passes_dedup, a_copy_of_what_changed_since_is_a_duplicate) {
    cr_expect_eq(count_removed(REDUCE("a", "c", "") "  - {assign: {X: [a]}, out: {Out: [b]}}\n" RELU("a", "a")
                                   REDUCE("b", "d", "")),
                 1);
}

Test(passes_dedup, pending_results_that_others_write_are_left) {
    cr_expect_eq(count_removed(REDUCE_LATER("a", "b") REDUCE_LATER("a", "c") "  - {wait_tensor: {X: [c]}, out: {Out: "
                                                                             "[d]}}\n" RELU("d", "c")),
                 0);
}

/* --- claims that are not true ------------------------------------------------------------------------------------- */

static const struct {
    const char *what, *from, *to, *message;
} mutants[] = {
    {"another collective", "\"op\": 10, \"other\": 9}", "\"op\": 10, \"other\": 1}", "expected \"gathered_1\""},
    {"one behind it", "\"op\": 3, \"other\": 1}", "\"op\": 3, \"other\": 8}", "to give what no op before it gives"},
    {"another value's", "\"op\": 3, \"other\": 1}", "\"op\": 3, \"other\": 0}", "to give what op 0 gives"},
    {"a claim left out", "{\"claim\": \"same\", \"op\": 3, \"other\": 1},", "",
     "removed the c_allreduce_sum of number 3"},
    {"one that is no more before", "\"op\": 10, \"other\": 9}", "\"op\": 9, \"other\": 10}", "was not removed"},
};

Test(passes_dedup, false_claims_are_refused) {
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        char *bytes, *message, text[8192];
        size_t nbytes, nmessage;
        weft_certified verdict;
        must(weft_program_load(context, "tests/golden/dedup_renames_and_copies/in.yaml", NULL, &before));
        run_pass();
        must(weft_report_certificate(report, &bytes, &nbytes));
        const char *at = strstr(bytes, mutants[i].from);
        cr_assert_not_null(at, "no %s in %s", mutants[i].from, bytes);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - bytes), bytes, mutants[i].to, at + strlen(mutants[i].from));
        must(weft_certificate_check(before, after, text, strlen(text), "test", &verdict, &message, &nmessage));
        cr_expect_eq(verdict, WEFT_CERTIFICATE_BAD, "%s", mutants[i].what);
        cr_expect_not_null(strstr(message, mutants[i].message), "%s: %s", mutants[i].what, message);
        weft_bytes_free(context, bytes, nbytes);
        weft_bytes_free(context, message, nmessage);
        weft_report_destroy(report);
        weft_program_destroy(before);
        weft_program_destroy(after);
        report = NULL;
        before = after = NULL;
    }
}
