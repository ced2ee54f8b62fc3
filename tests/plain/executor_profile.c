/* executor_profile.c: the profile of a run: what is counted, what the forms say, what it costs. A plain main, because
 * it runs under ThreadSanitizer too. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "executor/devices/cpu/cpu.h"
#include "executor/profile.h"
#include "tests/support/plain.h"
#include "tests/support/training.h"

enum { NRANKS = 2, NSTEPS = 5 };

static void run_steps(fixture *f, int nsteps) {
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .profile = true};
    open_fixture(f, NRANKS, &options);
    for (int i = 0; i < nsteps; i++) must(weft_executor_run(f->executor));
}

static char *report(const fixture *f, weft_profile_form form, size_t most_ops) {
    char *bytes;
    size_t nbytes;
    must(weft_executor_profile(f->executor, form, most_ops, &bytes, &nbytes));
    check(strlen(bytes) == nbytes, "form %d: %zu bytes, a text of %zu", form, nbytes, strlen(bytes));
    return bytes;
}

static size_t count_lines(const char *s) {
    size_t n = 0;
    for (; *s; s++) n += *s == '\n';
    return n;
}

static void finish(fixture *f) {
    long leaked = close_fixture(f);
    check(leaked == 0, "%ld blocks leaked", leaked);
}

/* Rows add up to a step of each stream, and every instruction ran once in each step that counts. */
static void test_rows(void) {
    fixture f;
    arena scratch;
    profile_report r;
    run_steps(&f, NSTEPS);
    arena_init(&scratch, &f.context->allocator);
    must(profile_compute(f.executor, &scratch, &r));
    check(r.ngroups == 1 && r.groups[0].nranks == NRANKS, "ranks with one plan are one group");
    check(r.profile.nsteps == NSTEPS - 1, "%lld steps: the first one warms up", (long long)r.profile.nsteps);
    const profile_group *g = &r.groups[0];
    double seconds = 0;
    for (size_t i = 0; i < g->nops; i++) {
        const profile_row *row = &g->ops[i];
        check(row->calls > 0.999 && row->calls < 1.001, "%s: %g calls a step", row->type, row->calls);
        check(row->seconds > 0 && row->nbytes > 0, "%s: %g s, %g bytes", row->type, row->seconds, row->nbytes);
        if (strcmp(row->type, "elementwise_mul") == 0)
            check(row->flops == NELEMENTS && row->nbytes == 12.0 * NELEMENTS, "%g flops, %g bytes", row->flops,
                  row->nbytes);
    }
    for (size_t i = 0; i < g->ntypes; i++) {
        seconds += g->types[i].seconds;
        check(i == 0 || g->types[i].seconds <= g->types[i - 1].seconds, "types come in order of time");
    }
    check(seconds > 0 && seconds < 2 * 1.05 * r.step_seconds, "two streams: %g s in a step of %g s", seconds,
          r.step_seconds);
    check(g->peak != NULL && f.plan->live_nbytes > 0, "there is a peak");
    arena_fini(&scratch);
    finish(&f);
}

/* Collectives on the compute stream: a step is what they take, from the last rank's start to the last rank's end, and
 * the rest. */
static void test_rest(void) {
    fixture f;
    arena scratch;
    profile_report r;
    double collectives;
    run_steps(&f, NSTEPS);
    arena_init(&scratch, &f.context->allocator);
    must(profile_compute(f.executor, &scratch, &r));
    must(profile_collective_seconds(f.executor, &scratch, &collectives));
    const profile_group *g = &r.groups[0];
    double all = 0;
    for (size_t i = 0; i < g->nops; i++) all += g->ops[i].instr->ring_id >= 0 ? g->ops[i].median_seconds : 0;
    check(collectives > 0 && collectives < 4 * all + 1e-6, "%g s, with the waiting %g", collectives, all);
    check(g->rest_seconds >= 0 && g->rest_seconds < r.median_step_seconds, "a rest of %g s in a step of %g",
          g->rest_seconds, r.median_step_seconds);
    arena_fini(&scratch);
    finish(&f);
}

static void test_forms(void) {
    fixture f;
    json_t *root = NULL;
    run_steps(&f, NSTEPS);
    char *some = report(&f, WEFT_PROFILE_TEXT, 3), *all = report(&f, WEFT_PROFILE_TEXT, 0);
    char *csv = report(&f, WEFT_PROFILE_CSV, 0), *json = report(&f, WEFT_PROFILE_JSON, 0);
    check(strstr(some, "profile: 4 steps") && strstr(some, "machine: 1 thread reaches"), "the head:\n%s", some);
    check(strstr(some, "c_allreduce_sum") && strstr(some, "ops more)"), "types, and some ops:\n%s", some);
    check(count_lines(all) == count_lines(some) + 3 * NPARAMS - 3 - 1, "all ops:\n%s", all);
    check(count_lines(csv) == 1 + 3 * NPARAMS, "a line an op:\n%s", csv);
    must(json_read(f.context, json, strlen(json), "profile", &root));
    json_t *rank = json_array_get(json_object_get(root, "ranks"), 0);
    check(json_array_size(json_object_get(rank, "ops")) == 3 * NPARAMS, "ops:\n%s", json);
    check(json_array_size(json_object_get(rank, "types")) >= 3, "types:\n%s", json);
    check(json_number_value(json_object_get(json_object_get(root, "machine"), "flops_per_second")) > 1e6, "machine");
    json_decref(root);
    weft_bytes_free(f.context, some, strlen(some));
    weft_bytes_free(f.context, all, strlen(all));
    weft_bytes_free(f.context, csv, strlen(csv));
    weft_bytes_free(f.context, json, strlen(json));
    finish(&f);
}

static void test_nothing_to_report(void) {
    for (int asked = 0; asked < 2; asked++) {
        fixture f;
        weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .profile = asked};
        char *bytes = NULL;
        size_t nbytes;
        open_fixture(&f, 1, &options);
        if (!asked) must(weft_executor_run(f.executor));
        weft_status status = weft_executor_profile(f.executor, WEFT_PROFILE_TEXT, 0, &bytes, &nbytes);
        check(weft_status_code(status) == WEFT_INVALID_ARGUMENT && !bytes, "\"%s\"", weft_status_message(status));
        weft_status_free(status);
        finish(&f);
    }
}

static void test_roofline(void) {
    weft_allocator libc = base_libc_allocator();
    roofline one, two;
    device cpu = {&device_cpu, &libc, 1};
    must(device_cpu.measure(&cpu, 1, &one));
    must(device_cpu.measure(&cpu, 2, &two));
    check(one.flops > 1e6 && one.bandwidth[0] > 1e6 && one.bandwidth[2] > 1e6, "%g flops, %g, %g bytes a second",
          one.flops, one.bandwidth[0], one.bandwidth[2]);
    check(two.nbytes[0] == 2 * one.nbytes[0], "two threads have two caches");
    double small = roofline_floor(&one, 0, 1000), large = roofline_floor(&one, 0, 1e9);
    check(small > 0 && large > small && roofline_floor(&one, 1e15, 1000) > large, "floors %g and %g s", small, large);
}

int main(void) {
    test_roofline();
    test_rows();
    test_rest();
    test_forms();
    test_nothing_to_report();
    return report_checks();
}
