/* proof_fixtures.c: recorded programs: correct ones are found safe as they are and after our passes, under every
 * reading; wrong ones are found wrong; what Paddle's pass made races where it is known to. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/fixtures.h"
#include "weft/pass.h"
#include "weft/verify.h"

enum { MOST_RANKS = 4 };

static void must(weft_status status, const char *path) {
    cr_assert_null(status, "%s: %s", path, weft_status_message(status));
}

static const char passes[] = "passes: [prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies]\n";

typedef struct ranks {
    weft_context *context;
    weft_program *programs[MOST_RANKS];
    size_t count;
} ranks;

/* rank0 and its siblings; none if the case is not there. */
static void load(ranks *r, const char *case_name, const char *variant) {
    char path[512], relative[256];
    must(weft_context_create(NULL, &r->context), case_name);
    for (r->count = 0; r->count < MOST_RANKS; r->count++) {
        snprintf(relative, sizeof relative, "%s/rank%zu%s.pdmodel", case_name, r->count, variant);
        if (!fixture_path(path, sizeof path, relative)) break;
        must(weft_program_load(r->context, path, NULL, &r->programs[r->count]), path);
    }
}

static void unload(ranks *r) {
    for (size_t i = 0; i < r->count; i++) weft_program_destroy(r->programs[i]);
    weft_context_destroy(r->context);
}

static void rewrite(ranks *r, const char *case_name) {
    weft_pass_list *list;
    must(weft_pass_list_parse(r->context, passes, sizeof passes - 1, "passes", &list), case_name);
    for (size_t i = 0; i < r->count; i++) {
        weft_report *report = NULL;
        must(weft_pass_list_run(list, r->programs[i], &report), case_name);
        weft_report_destroy(report);
    }
    weft_pass_list_destroy(list);
}

/* "missing_reduce: adam #12 ..." of the first finding, or "safe", in `out`. */
static size_t judge_ranks(const ranks *r, const weft_verify_options *o, char *out, size_t room) {
    weft_findings *found;
    must(weft_verify((const weft_program *const *)r->programs, r->count, o, &found), "verify");
    size_t n = weft_findings_count(found);
    const weft_finding *first = weft_finding_at(found, 0);
    if (first)
        snprintf(out, room, "%s: %s", weft_verdict_name(first->verdict), first->message);
    else
        snprintf(out, room, "safe");
    weft_findings_destroy(found);
    return n;
}

static void expect_all_readings(const ranks *r, const char *case_name, const char *when, const char *expected) {
    for (int reading = WEFT_READING_IN_ORDER; reading <= WEFT_READING_BY_BYTES; reading++) {
        weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = (weft_reading)reading};
        char found[1024];
        judge_ranks(r, &o, found, sizeof found);
        cr_expect(strncmp(found, expected, strlen(expected)) == 0, "%s %s, %s: expected %s, found %s", case_name, when,
                  weft_reading_name(o.reading), expected, found);
    }
}

Test(proof_fixtures, as_recorded_and_after_our_passes) {
    static const char *const cases[][2] = {
        {"paddle26/mlp_sgd_dp2", "safe"},
        {"paddle26/mlp_adam_dp2_amp", "safe"},
        {"paddle26/mlp_adam_dp2_lossscale", "safe"},
        {"paddle26/mlp_dp2_sharding", "safe"},
        {"paddle26/mlp_dp2_gradmerge", "safe"},
        {"paddle26/bert_tiny_adamw_dp4", "safe"},
        {"paddle26/gpt_tiny_dp2_mp2", "safe"},
        {"paddle3/gpt_tiny_adamw_dp2", "safe"},
        {"paddle26/lenet_bias_dp2", "missing_reduce: momentum"},
    };
    size_t n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ranks r;
        load(&r, cases[i][0], "");
        if (r.count) {
            expect_all_readings(&r, cases[i][0], "as recorded", cases[i][1]);
            rewrite(&r, cases[i][0]);
            expect_all_readings(&r, cases[i][0], "after our passes", cases[i][1]);
            n++;
        }
        unload(&r);
    }
    if (!n) cr_skip_test("no fixtures");
}

/* Its reduce reads a bucket before the last producers are done, in order; names order it, unless workers launch one of
 * them late: lookup_table_v2_grad (op 143) against the reduce (op 146). */
Test(proof_fixtures, what_paddles_pass_made_of_gpt_tiny) {
    ranks r;
    char found[1024];
    load(&r, "paddle26/gpt_tiny_adamw_dp2", ".after.default");
    if (!r.count) {
        unload(&r);
        cr_skip_test("no fixtures");
    }
    cr_expect_gt(judge_ranks(&r, &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER},
                             found, sizeof found),
                 1);
    cr_expect_eq(judge_ranks(&r, &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME},
                             found, sizeof found),
                 0, "%s", found);
    cr_expect_eq(judge_ranks(&r, &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_BYTES},
                             found, sizeof found),
                 0, "%s", found);
    weft_verify_options any = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .launch_any = true};
    cr_expect_eq(judge_ranks(&r, &any, found, sizeof found), 1);
    cr_expect(strstr(found, "race: lookup_table_v2_grad #143") && strstr(found, "c_allreduce_sum #146"), "%s", found);
    unload(&r);
}
