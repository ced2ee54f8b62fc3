/* configure_nccl: what it writes is neutral, by proof and certificate, and wrong options are refused. What it chooses
 * is in tests/golden; that NCCL gets it, in tests/cli/cuda.sh. */
#include "tests/support/certified.h"
#include "weft/pass.h"

#define CONFIGURED ", configure_nccl: {algorithm: \"RING_LL128,TREE\", ctas: 32, ctas_beside: 4, policy: 1}"

TestSuite(passes_configure_nccl, .init = set_up, .fini = tear_down);

static size_t count_attr(const weft_program *p, const char *attr, int64_t value) {
    size_t n = 0;
    for (weft_op *op = weft_block_first_op(weft_program_block(p, 0)); op; op = weft_op_next(op))
        n += weft_op_attr_int(op, attr, -7) == value;
    return n;
}

Test(passes_configure_nccl, is_certified) {
    pair p = {0};
    make_golden(&p, DATA_PARALLEL CONFIGURED);
    expect(&p, WEFT_CERTIFIED, NULL, "a configuration");
    cr_expect_gt(count_attr(p.after, "nccl_ctas", 4), 0, "buckets are reduced beside compute");
    cr_expect_eq(count_attr(p.after, "nccl_ctas", 32), 0, "all of them are");
    cr_expect_eq(count_attr(p.after, "nccl_policy", 1), count_attr(p.after, "nccl_ctas", 4));
    destroy(&p);
}

/* The licence is for these attrs alone. */
Test(passes_configure_nccl, other_attrs_are_none_of_its_business) {
    pair p = {0};
    make_golden(&p, DATA_PARALLEL CONFIGURED);
    weft_op *op = weft_block_first_op(weft_program_block(p.after, 0));
    must(weft_op_set_attr_int(op, "nccl_other", 4));
    claim_digest(&p);
    expect(&p, WEFT_CERTIFICATE_BAD, "nccl_other", "an attr of another name");
    destroy(&p);
}

Test(passes_configure_nccl, is_proved) {
    weft_program *program;
    weft_pass_list *list;
    weft_report *report;
    static const char passes[] = "configure_nccl: {algorithm: RING, ctas: 1}";
    must(weft_program_load(context, "tests/golden/full_list/out.yaml", NULL, &program));
    must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_REQUIRE);
    must(weft_pass_list_run(list, program, &report));
    cr_expect_gt(weft_report_count(report, 0, "collectives configured"), 0);
    cr_expect_eq(weft_report_count(report, 0, "collectives configured"), (int64_t)count_attr(program, "nccl_ctas", 1));
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
}

/* --- what is refused ---------------------------------------------------------------------------------------------- */

Test(passes_configure_nccl, wrong_options_are_refused) {
    static const struct {
        const char *list, *words;
    } cases[] = {
        {"configure_nccl", "algorithm: auto: expected a cluster file"},
        {"configure_nccl: {algorithm: auto, ctas: 4}", "algorithm: auto: expected a cluster file"},
        {"configure_nccl: {algorithm: RINGLL}", "found \"RINGLL\""},
        {"configure_nccl: {algorithm: \"RING,\"}", "found \"RING,\""},
        {"configure_nccl: {algorithm: \"\"}", "found \"\""},
        {"configure_nccl: {ctas: 65}", "ctas: expected 0 to 64, found 65"},
        {"configure_nccl: {ctas_beside: -1}", "ctas_beside: expected 0 to 64, found -1"},
        {"configure_nccl: {policy: 4}", "policy: expected -1 to 3, found 4"},
        {"configure_nccl: {cluster: configs/clusters/threads.yaml}", "expected machine: v100, a100, h100 or b200"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_program *program;
        weft_pass_list *list;
        must(weft_program_load(context, "tests/golden/full_list/out.yaml", NULL, &program));
        must(weft_pass_list_parse(context, cases[i].list, strlen(cases[i].list), "list", &list));
        weft_status status = weft_pass_list_run(list, program, NULL);
        cr_expect(status && strstr(weft_status_message(status), cases[i].words), "%s: %s", cases[i].list,
                  weft_status_message(status));
        weft_status_free(status);
        weft_pass_list_destroy(list);
        weft_program_destroy(program);
    }
}

Test(passes_configure_nccl, nothing_to_do_is_said) {
    static const char *const lists[] = {"configure_nccl: {algorithm: any}",
                                        "configure_nccl: {algorithm: COLLNET_DIRECT, policy: 0}"};
    for (size_t i = 0; i < 2; i++) {
        weft_program *program;
        weft_pass_list *list;
        weft_report *report;
        const char *file = i ? "tests/golden/full_list/in.yaml" : "tests/golden/full_list/out.yaml", *words = "";
        must(weft_program_load(context, file, NULL, &program));
        must(weft_pass_list_parse(context, lists[i], strlen(lists[i]), "list", &list));
        must(weft_pass_list_run(list, program, &report));
        cr_expect_eq(weft_report_nleft(report, 0), 1);
        cr_expect_eq(weft_report_left(report, 0, 0, &words), WEFT_REASON_NOTHING, "%s", words);
        weft_report_destroy(report);
        weft_pass_list_destroy(list);
        weft_program_destroy(program);
    }
}
