/* plan_readings.c: a plan by a reading races where the program does under it, and nowhere else: recorded programs, and
 * such with a nop, a wait or an event taken away. The plans are judged by a closure over all pairs
 * (tests/support/order), the programs by `weft_verify`. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ops/ops.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/order.h"
#include "weft/pass.h"
#include "weft/verify.h"

static weft_program *load(weft_context *context, const char *relative) {
    char path[512];
    weft_program *p;
    if (!fixture_path(path, sizeof path, relative)) return NULL;
    must(weft_program_load(context, path, NULL, &p));
    return p;
}

static bool make_plan(const weft_program *p, const weft_order_options *how, weft_plan **out) {
    weft_plan_order *order;
    must(weft_plan_order_create(p, how, &order));
    weft_status status = weft_plan_create(p, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .order = order}, out);
    weft_plan_order_destroy(order);
    weft_status_free(status);
    return status == NULL;
}

/* Steps of a plan do not overlap. */
static bool is_of_step_before(const weft_finding *f) {
    return strstr(f->remedy, "of the step before") != NULL;
}

/* The instructions of two ops touch the same bytes in any order. */
static bool races_in_plan(const weft_plan *plan, const order_verdict *v, int64_t x, int64_t y) {
    for (size_t i = 0; i < v->npairs; i++) {
        int64_t a = plan->instrs[v->pairs[i].earlier].op_index, b = plan->instrs[v->pairs[i].later].op_index;
        if ((a == x && b == y) || (a == y && b == x)) return true;
    }
    return false;
}

/* Whether the step races; all races that are reported must be in the plan. */
static bool compare(const weft_program *p, const weft_order_options *how, const char *what) {
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = how->reading, .nranks = 2};
    weft_findings *found;
    weft_plan *plan;
    order_verdict v;
    size_t nreported = 0;
    cr_assert(make_plan(p, how, &plan), "%s cannot be planned", what);
    order_of_plan(plan, &v);
    must(weft_verify(&p, 1, &o, &found));
    for (size_t i = 0; i < weft_findings_count(found); i++) {
        const weft_finding *f = weft_finding_at(found, i);
        if (f->verdict != WEFT_VERDICT_RACE || is_of_step_before(f)) continue;
        nreported++;
        cr_expect(races_in_plan(plan, &v, f->ops[0].index, f->ops[1].index), "%s %s: not in the plan: %s", what,
                  weft_reading_name(how->reading), f->message);
    }
    cr_expect_eq(nreported > 0, v.npairs > 0, "%s %s: %zu races are reported, %zu are in the plan", what,
                 weft_reading_name(how->reading), nreported, v.npairs);
    order_free(&v);
    weft_findings_destroy(found);
    weft_plan_destroy(plan);
    return nreported > 0;
}

/* Takes away op number `index`, if it only orders others, or what it waits for. */
static bool weaken(weft_program *p, size_t index) {
    size_t i = 0;
    FOR_EACH_OP(op, p->blocks[0]) {
        if (i++ < index) continue;
        if (op_is(op, "nop") || op_is(op, "depend") || op_is(op, "c_wait_compute") || op_is(op, "c_wait_comm"))
            return weft_op_remove(op), true;
        if (!op->dist || !op_dist_nwaits(op->dist)) return false;
        op->dist->waits = NULL;
        return true;
    }
    return false;
}

/* Both readings of the program and of all that it can be weakened to; how many of these race. */
static size_t compare_mutants(const weft_program *p, const char *what) {
    size_t nracy = 0;
    for (int r = 0; r < 2; r++) {
        weft_order_options how = {WEFT_ORDER_OPTIONS_INIT, .reading = r ? WEFT_READING_BY_NAME : WEFT_READING_IN_ORDER};
        compare(p, &how, what);
        for (size_t i = 0; i < p->blocks[0]->nops; i++) {
            char message[200];
            weft_program *mutant;
            must(weft_program_clone(p, &mutant));
            snprintf(message, sizeof message, "%s without #%zu", what, i);
            if (weaken(mutant, i)) nracy += compare(mutant, &how, message);
            weft_program_destroy(mutant);
        }
    }
    return nracy;
}

Test(plan_readings, plans_race_where_programs_do) {
    static const char *const files[] = {"paddle26/mlp_sgd_dp2/rank0.after.default.pdmodel",
                                        "paddle26/mlp_sgd_dp2/rank0.after.overlap.pdmodel",
                                        "paddle26/mlp_dp2_gradmerge/rank0.after.group4k.pdmodel",
                                        "paddle26/mlp_dp2_sharding/rank0.after.default.pdmodel",
                                        "paddle26/lenet_momentum_dp2/rank0.after.group4k.pdmodel"};
    weft_context *context;
    size_t n = 0, nracy = 0;
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        weft_program *p = load(context, files[i]);
        if (p) nracy += compare_mutants(p, files[i]);
        n += p != NULL;
        weft_program_destroy(p);
    }
    weft_context_destroy(context);
    if (!n) cr_skip_test("no fixtures");
    cr_expect_gt(nracy, 2 * n, "%zu weakened programs race", nracy);
}

Test(plan_readings, events_of_our_passes) {
    static const char list[] = "passes: [prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: 0.002}]\n";
    weft_context *context;
    weft_pass_list *passes;
    weft_report *report;
    must(weft_context_create(NULL, &context));
    weft_program *p = load(context, "paddle26/mlp_sgd_dp2/rank0.pdmodel");
    if (!p) {
        weft_context_destroy(context);
        cr_skip_test("no fixtures");
    }
    must(weft_pass_list_parse(context, list, sizeof list - 1, "passes", &passes));
    must(weft_pass_list_run(passes, p, &report));
    weft_report_destroy(report);
    weft_pass_list_destroy(passes);
    cr_expect_gt(compare_mutants(p, "overlapped"), 2);
    weft_program_destroy(p);
    weft_context_destroy(context);
}

/* An op that becomes no instruction hands on what it waited for: by its event, and through c_wait_comm. */
Test(plan_readings, waits_of_ops_without_instructions) {
    static const char form[] =
        "weft: 1\nrank: -1\nrings:\n  0: [0]\nblocks:\n- idx: 0\n  parent: -1\n  vars:\n    a: {float32: [8]}\n"
        "    b: {float32: [8]}\n    c: {float32: [8]}\n  ops:\n"
        "  - {fill_constant: {}, out: {Out: [a]}, attrs: {shape: !longs [8], dtype: 5, value: 1.0}, dist: {record: "
        "e0}}\n"
        "  - {scale: {X: [a]}, out: {Out: [b]}, dist: {stream: s, wait: [e0]%s}}\n"
        "  - {nop: {X: [c]}, out: {Out: [c]}, dist: {stream: %s, wait: [e1], record: e2}}\n"
        "  - {c_wait_comm: {}, attrs: {ring_id: 0}}\n"
        "  - {scale: {X: [b]}, out: {Out: [c]}, dist: {stream: %s}}\n";
    static const struct {
        const char *record, *of_nop, *of_reader;
        bool races;
    } cases[] = {{", record: e1", "t", "t", false},
                 {", record: e1", "ring_0", "compute", false},
                 {", record: e3", "ring_0", "compute", true},
                 {", record: e1", "t", "compute", true}};
    weft_context *context;
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[1200];
        weft_program *p;
        snprintf(bytes, sizeof bytes, form, cases[i].record, cases[i].of_nop, cases[i].of_reader);
        must(weft_program_parse(context, WEFT_FORM_YAML, bytes, strlen(bytes), NULL, 0, "case", &p));
        bool races =
            compare(p, &(weft_order_options){WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER}, bytes);
        cr_expect_eq(races, cases[i].races, "case %zu", i);
        weft_program_destroy(p);
    }
    weft_context_destroy(context);
}

/* What races only in another order of launches races in the plan that takes it. */
Test(plan_readings, late_ops) {
    static const char *const files[] = {"paddle26/gpt_tiny_adamw_dp2/rank0.after.default.pdmodel",
                                        "paddle26/gpt_tiny_dp2_mp2/rank0.after.group4k.pdmodel"};
    weft_context *context;
    size_t n = 0;
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        weft_program *p = load(context, files[i]);
        weft_verify_options any = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .nranks = 1,
                                   .launch_any = true};
        weft_findings *found;
        if (!p) continue;
        must(weft_verify((const weft_program *const *)&p, 1, &any, &found));
        for (size_t k = 0; k < weft_findings_count(found); k++) {
            const weft_finding *f = weft_finding_at(found, k);
            weft_order_options how = {WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME,
                                      .late = &f->ops[0].index, .nlate = 1};
            weft_plan *plan;
            order_verdict v;
            if (f->verdict != WEFT_VERDICT_RACE || is_of_step_before(f)) continue;
            cr_assert(make_plan(p, &how, &plan), "%s", files[i]);
            order_of_plan(plan, &v);
            cr_expect(races_in_plan(plan, &v, f->ops[0].index, f->ops[1].index), "%s: %s", files[i], f->message);
            order_free(&v);
            weft_plan_destroy(plan);
            n++;
        }
        weft_findings_destroy(found);
        weft_program_destroy(p);
    }
    weft_context_destroy(context);
    if (!n) cr_skip_test("no fixtures");
}

Test(plan_readings, refused) {
    static const int64_t late[] = {1000000};
    weft_context *context;
    weft_plan_order *order;
    must(weft_context_create(NULL, &context));
    weft_program *p = load(context, "paddle26/mlp_sgd_dp2/rank0.pdmodel");
    weft_program *other = load(context, "paddle26/mlp_dp2_sharding/rank0.pdmodel");
    if (!p || !other) cr_skip_test("no fixtures");
    weft_order_options how = {WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .late = late, .nlate = 1};
    weft_status status = weft_plan_order_create(p, &how, &order);
    cr_expect(status && strstr(weft_status_message(status), "expected the reading by_name, found in_order"));
    weft_status_free(status);
    how.reading = WEFT_READING_BY_NAME;
    status = weft_plan_order_create(p, &how, &order);
    cr_expect(status && strstr(weft_status_message(status), "found 1000000"));
    weft_status_free(status);
    how.nlate = 0;
    must(weft_plan_order_create(other, &how, &order));
    weft_plan *plan;
    status = weft_plan_create(p, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .order = order}, &plan);
    cr_expect(status && strstr(weft_status_message(status), "order is one of a program of"));
    weft_status_free(status);
    weft_plan_order_destroy(order);
    weft_program_destroy(other);
    weft_program_destroy(p);
    weft_context_destroy(context);
}
