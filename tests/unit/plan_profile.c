/* plan_profile.c: profiles that are read back: whose times are taken, which are refused and where. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "plan/cost.h"
#include "plan/profile.h"
#include "tests/support/must.h"
#include "weft/costs.h"

static weft_context *context;
static arena memory;
static char words[1000];

static void keep_diagnostic(void *user, const weft_diagnostic *d) {
    (void)user;
    snprintf(words, sizeof words, "%d:%d: %s", d->line, d->column, d->message);
}

static void set_up(void) {
    *words = '\0';
    must(weft_context_create(&(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = keep_diagnostic},
                             &context));
    arena_init(&memory, &context->allocator);
}
static void tear_down(void) {
    arena_fini(&memory);
    weft_context_destroy(context);
}
TestSuite(plan_profile, .init = set_up, .fini = tear_down);

static weft_plan *plan_of(const char *ops) {
    char yaml[1000];
    weft_program *p;
    weft_plan *plan;
    int n = snprintf(
        yaml, sizeof yaml,
        "weft: 1\nrings: {0: [0, 1]}\nblocks:\n- vars: {x: {float32: [4], persistable: true}, y: {float32: [4], "
        "persistable: true}}\n  ops:\n%s",
        ops);
    must(weft_program_parse(context, WEFT_FORM_YAML, yaml, (size_t)n, NULL, 0, "program", &p));
    must(weft_plan_create(p, NULL, &plan));
    weft_program_destroy(p);
    return plan;
}

static weft_profile *profile_of(const char *json) {
    weft_profile *p;
    must(weft_profile_parse(context, json, strlen(json), "p.json", &p));
    return p;
}

static const char ops[] = "  - {relu: {X: x}, out: {Out: y}}\n  - {scale: {X: y}, out: {Out: y}, attrs: {scale: 2.0}}\n"
                          "  - {c_allreduce_sum: {X: y}, out: {Out: y}, attrs: {ring_id: 0}}\n"
                          "  - {relu: {X: y}, out: {Out: y}}\n";
static const char good[] =
    "{\"steps\":3,\"step_seconds\":0.5,\"median_step_seconds\":0.25,\n\"ranks\":[\n{\"rank\":0,\"ops\":[\n"
    "{\"op\":\"relu\",\"output\":\"y\",\"seconds\":1e-6,\"median_seconds\":2e-6},\n"
    "{\"op\":\"c_allreduce_sum\",\"output\":\"y\",\"seconds\":9e-6},\n"
    "{\"op\":\"relu\",\"output\":\"y\",\"seconds\":3e-6}]}]}\n";

/* By type, output and turn: the two relus are told apart; the scale, which the profile lacks, goes by the cluster. */
Test(plan_profile, says_what_ops_take) {
    weft_plan *plan = plan_of(ops);
    weft_profile *p = profile_of(good);
    weft_cluster cluster;
    int64_t ns[4];
    must(plan_cluster_settle(&(weft_cluster){.op_seconds = 1e-7, .profile = p}, &cluster));
    cr_assert_eq(plan->ninstrs, 4);
    must(plan_find_times(plan, &cluster, 2, 0, &memory, ns));
    cr_expect_eq(ns[0], 2000);
    cr_expect_eq(ns[1], 100);
    cr_expect_gt(ns[2], 9000, "a collective is never taken from the profile");
    cr_expect_eq(ns[3], 3000);
    cr_expect_eq(weft_profile_step_seconds(p), 0.25);
    weft_profile_destroy(p);
    weft_plan_destroy(plan);
}

/* A step takes 10 us besides its collectives, 5 of which the ops' medians say: ops are twice as long, so that they add
 * up. Where a stream runs beside them nothing is known of that. */
Test(plan_profile, ops_add_up_to_the_step) {
    static const char one[] =
        "{\"median_step_seconds\":1.3e-5,\"ranks\":[{\"rank\":0,\"rest_seconds\":1e-5,\"ops\":["
        "{\"op\":\"relu\",\"stream\":\"compute\",\"output\":\"y\",\"seconds\":1e-6,\"median_seconds\":2e-6},"
        "{\"op\":\"c_allreduce_sum\",\"stream\":\"%s\",\"output\":\"y\",\"seconds\":7e-6},"
        "{\"op\":\"relu\",\"stream\":\"compute\",\"output\":\"y\",\"seconds\":3e-6}]}]}";
    static const char *const streams[] = {"compute", "beside"};
    for (size_t i = 0; i < 2; i++) {
        char json[1000];
        double *seconds, *measured;
        snprintf(json, sizeof json, one, streams[i]);
        weft_plan *plan = plan_of(ops);
        weft_profile *p = profile_of(json);
        must(plan_profile_times(p, plan, 0, false, &memory, &seconds));
        must(plan_profile_times(p, plan, 0, true, &memory, &measured));
        cr_expect_float_eq(seconds[0], i ? 2e-6 : 4e-6, 1e-12);
        cr_expect_float_eq(seconds[3], i ? 3e-6 : 6e-6, 1e-12);
        cr_expect_float_eq(measured[0], 2e-6, 1e-12);
        cr_expect_float_eq(measured[2], 7e-6, 1e-12);
        weft_profile_destroy(p);
        weft_plan_destroy(plan);
    }
}

Test(plan_profile, stands_beside_the_model) {
    weft_plan *plan = plan_of(ops);
    weft_profile *p = profile_of(good);
    weft_costs *costs;
    must(weft_costs_create(context, plan, NULL, p, 0, 0, &costs));
    cr_expect_eq(weft_costs_at(costs, 0).measured_seconds, 2e-6);
    cr_expect_lt(weft_costs_at(costs, 1).measured_seconds, 0);
    cr_expect_eq(weft_costs_at(costs, 2).measured_seconds, 9e-6);
    cr_expect_str_eq(weft_costs_at(costs, 2).source, "links");
    weft_costs_destroy(costs);
    weft_profile_destroy(p);
    weft_plan_destroy(plan);
}

static void expect_refused(const char *json, const char *program, const char *found) {
    weft_plan *plan = plan_of(program);
    weft_profile *p = NULL;
    double *seconds;
    *words = '\0';
    weft_status status = weft_profile_parse(context, json, strlen(json), "p.json", &p);
    if (!status) status = plan_profile_times(p, plan, 0, false, &memory, &seconds);
    cr_expect(status, "\"%s\" is taken", json);
    cr_expect(strstr(words, found), "no \"%s\" in \"%s\"", found, words);
    weft_status_free(status);
    weft_profile_destroy(p);
    weft_plan_destroy(plan);
}

Test(plan_profile, of_another_program_is_refused) {
    expect_refused(good, "  - {relu: {X: x}, out: {Out: y}}\n",
                   "6:1: the profile is of another program: this one has no relu that writes \"y\"");
    expect_refused(
        good,
        "  - {relu: {X: x}, out: {Out: y}}\n  - {relu: {X: y}, out: {Out: y}}\n  - {tanh: {X: y}, out: {Out: x}}\n",
        "the profile is of another program: it has no tanh #2, which writes \"x\"");
}

Test(plan_profile, that_is_none_is_refused) {
    static const struct {
        const char *json, *found;
    } cases[] = {
        {"", "1:1: expected '{'"},
        {"[]", "1:1: expected '{'"},
        {"{}", "no profile of a run"},
        {"{\"ranks\":[]}", "no profile of a run"},
        {"{\"step_seconds\":-1}", "1:17: expected seconds"},
        {"{\"ranks\":[{\"ops\":[\n{\"op\":\"relu\"}]}]}", "2:1: expected an op of a profile"},
        {"{\"ranks\":[{\"ops\":[\n\n{\"op\":\"relu\",\"output\":\"y\",\"seconds\":-1e-3}]}]}",
         "3:1: relu: expected seconds"},
        {"{\"ranks\":[{\"ops\":[{\"op\":", "expected JSON"},
        {"{\"ranks\":[{\"ops\":[{\"op\":\"relu\",\"output\":\"y\",\"seconds\":1.0}]}]} x", "expected the end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) expect_refused(cases[i].json, ops, cases[i].found);
}
