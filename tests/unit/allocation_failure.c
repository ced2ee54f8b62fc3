/* Every allocation of load, pass list and plan fails once: a clean status each time, nothing leaked, and in the end
 * success. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/fixtures.h"
#include "weft/certificate.h"
#include "weft/pass.h"
#include "weft/plan.h"
#include "weft/verify.h"

/* Fails its n-th allocation and counts the bytes that are alive. */
typedef struct failing_allocator {
    size_t until_failure; /* 0: never fails again */
    long long live_nbytes;
    bool failed;
} failing_allocator;

static void *resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    failing_allocator *a = user;
    if (new_nbytes > old_nbytes && a->until_failure && --a->until_failure == 0) {
        a->failed = true;
        return NULL;
    }
    a->live_nbytes += (long long)new_nbytes - (long long)old_nbytes;
    if (new_nbytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_nbytes);
}

typedef weft_status (*work_fn)(weft_context *context, const char *path);

static weft_status load(weft_context *context, const char *path) {
    weft_program *program = NULL;
    weft_status status = weft_program_load(context, path, NULL, &program);
    weft_program_destroy(program);
    return status;
}

static weft_status print_yaml_and_parse(weft_context *context, const char *path) {
    weft_program *program = NULL, *again = NULL;
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_status status = weft_program_load(context, path, NULL, &program);
    if (!status) status = weft_program_print(program, WEFT_FORM_YAML, &bytes, &nbytes);
    if (!status) status = weft_program_parse(context, WEFT_FORM_YAML, bytes, nbytes, NULL, 0, "again", &again);
    weft_bytes_free(context, bytes, nbytes);
    weft_program_destroy(again);
    weft_program_destroy(program);
    return status;
}

static weft_status optimize(weft_context *context, const char *path) {
    static const char passes[] = "data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm, coalesce_grads, "
                                 "insert_dependencies";
    weft_program *program = NULL;
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    char *text = NULL;
    size_t ntext = 0;
    weft_status status = weft_program_load(context, path, NULL, &program);
    if (!status) status = weft_pass_list_parse(context, passes, sizeof passes - 1, "passes", &list);
    if (!status) weft_pass_list_set_prove(list, WEFT_PROVE_REQUIRE);
    if (!status) status = weft_pass_list_run(list, program, &report);
    if (!status) status = weft_report_print(report, true, &text, &ntext);
    weft_bytes_free(context, text, ntext);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    return status;
}

static weft_status certify(weft_context *context, const char *path) {
    static const char passes[] = "data_parallel: {ranks: 2}, overlap_comm, coalesce_grads";
    weft_program *before = NULL, *after = NULL;
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    weft_certified verdict;
    char *text = NULL, *message = NULL;
    size_t ntext = 0, message_nbytes = 0;
    weft_status status = weft_program_load(context, path, NULL, &before);
    if (!status) status = weft_program_clone(before, &after);
    if (!status) status = weft_pass_list_parse(context, passes, sizeof passes - 1, "passes", &list);
    if (!status) weft_pass_list_set_certify(list, true);
    if (!status) status = weft_pass_list_run(list, after, &report);
    if (!status) status = weft_report_certificate(report, &text, &ntext);
    if (!status)
        status = weft_certificate_check(before, after, text, ntext, "text", &verdict, &message, &message_nbytes);
    weft_bytes_free(context, message, message_nbytes);
    weft_bytes_free(context, text, ntext);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(after);
    weft_program_destroy(before);
    return status;
}

static weft_status compare_with_serial(weft_context *context, const char *path) {
    weft_program *serial = NULL, *ranks[2] = {NULL, NULL};
    char rank_path[512];
    weft_equivalence *verdict = NULL;
    weft_status status = weft_program_load(context, path, NULL, &serial);
    for (int i = 0; i < 2 && !status; i++) {
        int folder_nbytes = (int)(strrchr(path, '/') - path);
        snprintf(rank_path, sizeof rank_path, "%.*s/rank%d.pdmodel", folder_nbytes, path, i);
        status = weft_program_load(context, rank_path, NULL, &ranks[i]);
    }
    if (!status) status = weft_equivalent_to_serial(serial, (const weft_program *const *)ranks, 2, NULL, &verdict);
    weft_equivalence_destroy(verdict);
    for (int i = 0; i < 2; i++) weft_program_destroy(ranks[i]);
    weft_program_destroy(serial);
    return status;
}

static weft_status plan(weft_context *context, const char *path) {
    weft_program *program = NULL;
    weft_plan *made = NULL, *again = NULL;
    char *text = NULL;
    size_t ntext = 0;
    weft_status status = weft_program_load(context, path, NULL, &program);
    if (!status) status = weft_plan_create(program, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .batch = 4}, &made);
    if (!status) status = weft_plan_print(made, &text, &ntext);
    if (!status) status = weft_plan_parse(context, text, ntext, "plan", &again);
    weft_bytes_free(context, text, ntext);
    weft_plan_destroy(again);
    weft_plan_destroy(made);
    weft_program_destroy(program);
    return status;
}

static weft_status verify(weft_context *context, const char *path) {
    weft_program *program = NULL;
    weft_status status = weft_program_load(context, path, NULL, &program);
    for (int i = WEFT_READING_IN_ORDER; i <= WEFT_READING_BY_BYTES + 1 && !status; i++) {
        weft_verify_options any = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .launch_any = true,
                                   .nranks = 2},
                            o = any;
        weft_findings *findings = NULL;
        if (i <= WEFT_READING_BY_BYTES)
            o = (weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = (weft_reading)i, .nranks = 2};
        status = weft_verify((const weft_program *const *)&program, 1, &o, &findings);
        weft_findings_destroy(findings);
    }
    weft_program_destroy(program);
    return status;
}

static weft_status plan_by_name(weft_context *context, const char *path) {
    static const int64_t late = 12;
    weft_order_options how = {WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .late = &late, .nlate = 1};
    weft_program *program = NULL;
    weft_plan_order *order = NULL;
    weft_plan *made = NULL;
    weft_status status = weft_program_load(context, path, NULL, &program);
    if (!status) status = weft_plan_order_create(program, &how, &order);
    if (!status)
        status = weft_plan_create(program, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .order = order}, &made);
    weft_plan_destroy(made);
    weft_plan_order_destroy(order);
    weft_program_destroy(program);
    return status;
}

/* Somebody who is told: so gradients of loops are checked. */
static void count(void *user, const weft_diagnostic *d) {
    *(size_t *)user += d->severity == WEFT_WARNING;
}

/* Runs `work` with its n-th allocation failing, for n = 1, 2, ... until none fails; the warnings of the last. */
static size_t fail_each_at(work_fn work, const char *path) {
    bool failed = true;
    size_t nwarnings = 0;
    /* Under AddressSanitizer every object is an allocation: the later ones are sampled there, all are taken otherwise.
     */
    bool sampled = getenv("WEFT_SANITIZED") != NULL;
    for (size_t n = 1; failed; n += sampled ? 1 + n / 64 : 1) {
        failing_allocator a = {.until_failure = n};
        weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = {resize, &a}, .on_diagnostic = count,
                                        .diagnostic_user = &nwarnings};
        weft_context *context = NULL;
        nwarnings = 0;
        weft_status status = weft_context_create(&options, &context);
        if (!status) status = work(context, path);
        if (a.failed)
            cr_assert_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY,
                         "allocation %zu: expected out of memory, found %s (%s)", n,
                         weft_code_name(weft_status_code(status)), weft_status_message(status));
        else
            cr_assert_null(status, "%s", weft_status_message(status));
        weft_status_free(status);
        weft_context_destroy(context);
        cr_assert_eq(a.live_nbytes, 0, "allocation %zu: %lld bytes leaked", n, a.live_nbytes);
        failed = a.failed;
    }
    return nwarnings;
}

static void fail_each(work_fn work, const char *relative) {
    char path[512];
    if (!fixture_path(path, sizeof path, relative)) cr_skip_test("no fixtures");
    fail_each_at(work, path);
}

Test(allocation_failure, load_pdmodel, .timeout = 300) {
    fail_each(load, "paddle26/mlp_sgd_dp2/rank0.pdmodel");
}
Test(allocation_failure, yaml_round_trip, .timeout = 300) {
    fail_each(print_yaml_and_parse, "paddle26/mlp_sgd_dp2/rank0.pdmodel");
}
Test(allocation_failure, full_pass_list, .timeout = 300) {
    fail_each(optimize, "paddle26/mlp_sgd_dp2/serial.pdmodel");
}
Test(allocation_failure, certificate, .timeout = 300) {
    fail_each(certify, "paddle26/mlp_sgd_dp2/serial.pdmodel");
}
Test(allocation_failure, ranks_and_serial, .timeout = 300) {
    fail_each(compare_with_serial, "paddle26/mlp_sgd_dp2/serial.pdmodel");
}
Test(allocation_failure, verify, .timeout = 300) {
    fail_each(verify, "paddle26/mlp_sgd_dp2/rank0.after.default.pdmodel");
}
Test(allocation_failure, plan_by_name, .timeout = 300) {
    fail_each(plan_by_name, "paddle26/mlp_sgd_dp2/rank0.after.default.pdmodel");
}
Test(allocation_failure, plan, .timeout = 300) {
    fail_each(plan, "paddle26/mlp_sgd_dp2/rank0.after.default.pdmodel");
}
Test(allocation_failure, plan_of_conditions, .timeout = 300) {
    cr_assert_eq(fail_each_at(plan, "tests/data/loops/cond_grad/serial.yaml"), 0);
}
Test(allocation_failure, plan_that_tells, .timeout = 300) {
    cr_assert_eq(fail_each_at(plan, "tests/data/loops/while_loop/serial.yaml"), 1);
}
