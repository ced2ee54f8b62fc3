/* watchdog.c: collectives that wait too long end the run in bounded time, with words that name who is missing and what
 * it does instead; those that are only slow do not. A plain main, because ranks are threads. */
#include "executor/watchdog.h"
#include "executor/devices/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/plain.h"
#include "weft/program.h"

enum { MOST_RANKS = 4 };

#define VARS                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    x: {float32: [8], persistable: true}\n    y: {float32: [8]}\n"                     \
    "    z: {float32: [8]}\n    go: {bool: [1], persistable: true}\n  ops:\n"
#define SCALE(in, out) "  - {scale: {X: [" in "]}, out: {Out: [" out "]}, attrs: {scale: 1.0}}\n"
#define REDUCE(v, ring)                                                                                                \
    "  - {c_allreduce_sum: {X: [" v "]}, out: {Out: [" v "]}, attrs: {ring_id: " ring ", use_calc_stream: true}}\n"

/* scale #0, c_allreduce_sum #1, scale #2 */
static const char plain_text[] = VARS SCALE("x", "\"y\"") REDUCE("\"y\"", "0") SCALE("\"y\"", "z");

typedef struct session {
    weft_context *context;
    weft_plan *plans[MOST_RANKS];
    size_t nplans;
    weft_executor *executor;
} session;

/* Rank r runs texts[r]; of one text all run it. */
static void start(session *s, int nranks, size_t ntexts, const char *const *texts,
                  const weft_executor_options *options) {
    static const char *const fetches[] = {"z"};
    weft_plan_options how = {WEFT_PLAN_OPTIONS_INIT, .fetches = fetches, .nfetches = 1};
    *s = (session){.nplans = ntexts};
    must(weft_context_create(NULL, &s->context));
    for (size_t i = 0; i < ntexts; i++) {
        weft_program *program;
        must(weft_program_parse(s->context, WEFT_FORM_YAML, texts[i], strlen(texts[i]), NULL, 0, "p.yaml", &program));
        must(weft_plan_create(program, &how, &s->plans[i]));
        weft_program_destroy(program);
    }
    must(weft_executor_create(s->context, (const weft_plan *const *)s->plans, ntexts, nranks, options, &s->executor));
}

static void stop(session *s) {
    weft_executor_destroy(s->executor);
    for (size_t i = 0; i < s->nplans; i++) weft_plan_destroy(s->plans[i]);
    weft_context_destroy(s->context);
}

static double seconds_since(int64_t start_ns) {
    return (double)(wait_clock_ns() - start_ns) * 1e-9;
}

/* A step that the watchdog ends, after `least` seconds and not much more, with words that hold all that is given. */
static void expect_alarm(session *s, const char *what, double least, const char *const *parts, size_t nparts) {
    int64_t began = wait_clock_ns();
    weft_status status = weft_executor_run(s->executor);
    double seconds = seconds_since(began);
    check(weft_status_code(status) == WEFT_RUNTIME, "%s: no alarm", what);
    check(seconds >= least && seconds < least + 5, "%s: ended after %g s", what, seconds);
    for (size_t i = 0; i < nparts; i++)
        check(strstr(weft_status_message(status), parts[i]) != NULL, "%s: no \"%s\" in \"%s\"", what, parts[i],
              weft_status_message(status));
    weft_status_free(status);
}
#define EXPECT_ALARM(s, what, least, ...)                                                                              \
    expect_alarm(s, what, least, (const char *const[]){__VA_ARGS__},                                                   \
                 sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *))

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void note_step(watch_history *h, int64_t ns) {
    watch_note(h, ns / 2); /* the longest of a step counts */
    watch_note(h, ns);
    watch_note(h, 1);
    watch_end_step(h);
}

static void test_limits(void) {
    enum { LEAST = 150, FIRST = 50000 };
    watch_history h = {0};
    check(watch_limit(&h, LEAST, FIRST) == FIRST, "the first step has its own limit");
    watch_end_step(&h);
    check(watch_limit(&h, LEAST, FIRST) == FIRST, "a step in which it did not run is none");
    note_step(&h, 10);
    check(watch_limit(&h, LEAST, FIRST) == LEAST, "short waits are within the floor");
    for (int i = 0; i < WATCH_STEPS; i++) note_step(&h, i < 5 ? 9000 : 100);
    check(watch_limit(&h, LEAST, FIRST) == 1000, "5 of 100 do not show: %lld",
          (long long)watch_limit(&h, LEAST, FIRST));
    for (int i = 0; i < WATCH_STEPS; i++) note_step(&h, i < 6 ? 9000 : 100);
    check(watch_limit(&h, LEAST, FIRST) == 90000, "6 of 100 do");
    for (int i = 0; i < WATCH_STEPS; i++) note_step(&h, 10);
    check(watch_limit(&h, LEAST, FIRST) == LEAST, "only the last 100 steps count");
}

/* From when on others are late. */
static void test_lateness(void) {
    const int64_t ms = 1000000;
    watch_history h = {0};
    watch_end_step(&h);
    check(!h.late_ns, "nothing is late before an op has ended once");
    note_step(&h, ms);
    check(h.late_ns == 50 * ms, "50 ms at least: %lld", (long long)h.late_ns);
    note_step(&h, 40 * ms);
    check(h.late_ns == 120 * ms, "three times what is usual: %lld", (long long)h.late_ns);
    for (int i = 0; i < 2 * WATCH_STEPS; i++) note_step(&h, i % WATCH_STEPS < 5 ? 900 * ms : 20 * ms);
    check(h.late_ns == 60 * ms, "5 of 100 do not show: %lld", (long long)h.late_ns);
}

/* Times that vary twofold never exceed the limit that those before them make, with no floor at all. */
static void test_jitter_is_within_limits(void) {
    watch_history h = {0};
    unsigned luck = 1;
    int nover = 0;
    for (int i = 0; i < 1000; i++) {
        luck = luck * 1103515245u + 12345u;
        int64_t ns = 1000000 + (int64_t)(luck >> 8) % 1000000;
        nover += ns > watch_limit(&h, 1, INT64_MAX);
        note_step(&h, ns);
    }
    check(!nover, "%d of 1000 steps with twofold jitter exceed their limits", nover);
    check(watch_limit(&h, 1, 1) < 25000000, "a limit that says nothing");
}

/* --- kernels that are late ---------------------------------------------------------------------------------------- */

static kernel_run_fn real_scale;
static weft_executor *running;
static int hang_at, hanging_rank; /* step and rank */
static _Thread_local unsigned jitter;

static weft_status jittery_scale(const kernel_call *c) {
    if (!jitter) jitter = (unsigned)c->rank * 7919u + 1;
    jitter = jitter * 1103515245u + 12345u;
    usleep(120 + (jitter >> 16) % 120);
    return real_scale(c);
}

/* Comes back when the run is stopped, as a kernel that waits for a peer does. */
static weft_status hanging_scale(const kernel_call *c) {
    while (c->rank == hanging_rank && (int)*c->step == hang_at && !comm_world_aborted(running->world)) usleep(1000);
    return real_scale(c);
}

static void put_scale(session *s, int32_t op_index, kernel_run_fn run) {
    running = s->executor;
    for (int r = 0; r < running->nranks; r++) {
        cpu_stream *stream = &cpu_run_of(running->run)->ranks[r][0];
        for (size_t i = 0; i < stream->ncalls; i++) {
            if (stream->calls[i].instr->op_index != op_index) continue;
            real_scale = stream->calls[i].run;
            stream->calls[i].run = run;
        }
    }
}

static void test_no_false_alarm(void) {
    session s;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.25, .first_step_seconds = 60,
                                     .no_fuse = true};
    start(&s, 3, 1, (const char *[]){plain_text}, &options);
    put_scale(&s, 0, jittery_scale);
    int64_t began = wait_clock_ns();
    weft_status status = NULL;
    for (int i = 0; i < 1000 && !status; i++) status = weft_executor_run(s.executor);
    check(!status, "after %llu steps: %s", (unsigned long long)s.executor->nsteps, weft_status_message(status));
    check(status || s.executor->ranks[2].rings[0].inflight->histories->nsteps == 1000, "steps that were noted");
    check(status || seconds_since(began) > 0.25, "too short to see a record that stays");
    weft_status_free(status);
    stop(&s);
}

/* --- alarms ------------------------------------------------------------------------------------------------------- */

static void test_hung_rank(void) {
    session s;
    const weft_delay late = {1, 0, 1000};
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 0.3,
                                     .delays = &late, .ndelays = 1};
    start(&s, 3, 1, (const char *[]){plain_text}, &options);
    EXPECT_ALARM(&s, "hung in the first step", 0.3, "c_allreduce_sum #1, ring 0: waited ", "(limit 0.3 s)",
                 " for rank 1 (at scale #0)");
    stop(&s);
    weft_executor_options later = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 60,
                                   .no_fuse = true};
    start(&s, 4, 1, (const char *[]){plain_text}, &later);
    put_scale(&s, 2, hanging_scale);
    hang_at = 4, hanging_rank = 2;
    for (int i = 0; i < 4; i++) must(weft_executor_run(s.executor));
    put_scale(&s, 2, real_scale);
    put_scale(&s, 0, hanging_scale);
    EXPECT_ALARM(&s, "hung in a later step", 0.2, "c_allreduce_sum #1, ring 0: waited ", " (limit ",
                 " for rank 2 (at scale #0)");
    weft_status again = weft_executor_run(s.executor);
    check(weft_status_code(again) == WEFT_INVALID_ARGUMENT, "a stopped executor ran again");
    weft_status_free(again);
    stop(&s);
}

static void test_several_missing(void) {
    session s;
    const weft_delay late[] = {{0, 0, 1000}, {2, 1, 1000}};
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 0.2,
                                     .delays = late, .ndelays = 2};
    start(&s, 4, 1, (const char *[]){plain_text}, &options);
    EXPECT_ALARM(&s, "two are missing", 0.2, " for rank 0 (at scale #0), rank 2 (at c_allreduce_sum #1)");
    stop(&s);
}

static void set_go(session *s, int rank, bool go) {
    weft_tensor t = {.dtype = WEFT_BOOL, .ndim = 1, .dims = {1}, .nbytes = 1, .data = &go};
    must(weft_executor_set(s->executor, rank, "go", &t));
}

#define CONDITIONAL                                                                                                    \
    "  - {conditional_block: {Cond: [go], Input: [\"y\"]}, out: {Out: [\"y\"]}, attrs: {is_scalar_condition: true, "   \
    "sub_block: !block 1}}\n"
#define BLOCK_1 "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n"

/* A condition that only rank 0 meets. */
static void test_ended_early(void) {
    session s;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 60};
    static const char last[] = VARS SCALE("x", "\"y\"") SCALE("\"y\"", "z") CONDITIONAL BLOCK_1 REDUCE("\"y\"", "0");
    start(&s, 2, 1, (const char *[]){last}, &options);
    for (int step = 0; step < 2; step++) {
        for (int r = 0; r < 2; r++) set_go(&s, r, true);
        must(weft_executor_run(s.executor));
    }
    set_go(&s, 1, false);
    EXPECT_ALARM(&s, "ended early", 0.2, "rank 0, c_allreduce_sum #", ", ring 0: waited ",
                 " for rank 1 (has ended its step)");
    stop(&s);
    const weft_delay late = {1, 3, 1000};
    options = (weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 0.2,
                                      .delays = &late, .ndelays = 1};
    static const char middle[] =
        VARS SCALE("x", "\"y\"") CONDITIONAL SCALE("\"y\"", "z") SCALE("z", "z") BLOCK_1 REDUCE("\"y\"", "0");
    start(&s, 2, 1, (const char *[]){middle}, &options);
    set_go(&s, 0, true);
    EXPECT_ALARM(&s, "went past", 0.2, " for rank 1 (past it, at scale #3)");
    stop(&s);
}

/* Each ring's collectives agree; together they wait in a circle. */
static void test_circle(void) {
    session s;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 0.2};
    static const char one[] = VARS SCALE("x", "\"y\"") SCALE("x", "z") REDUCE("\"y\"", "1") REDUCE("z", "2");
    static const char other[] = VARS SCALE("x", "\"y\"") SCALE("x", "z") REDUCE("z", "2") REDUCE("\"y\"", "1");
    start(&s, 2, 2, (const char *[]){one, other}, &options);
    /* from whichever rank came first */
    EXPECT_ALARM(&s, "a circle", 0.2, " for rank 0 (in c_allreduce_sum #2 on ring 1",
                 " for rank 1 (in c_allreduce_sum #2 on ring 2");
    stop(&s);
}

/* What brings a rank to its collective may be another stream. */
static void test_other_stream(void) {
    session s;
    const weft_delay late = {0, 0, 1000};
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 0.2,
                                     .delays = &late, .ndelays = 1};
    static const char two_streams[] =
        VARS SCALE("x", "\"y\"") "  - {all_reduce: {x: [\"y\"]}, out: {out: [z]}, attrs: {async_op: true}}\n"
                                 "  - {wait_tensor: {X: [z]}, out: {Out: [z]}}\n";
    start(&s, 2, 1, (const char *[]){two_streams}, &options);
    check(s.plans[0]->nstreams == 2, "%d streams", s.plans[0]->nstreams);
    EXPECT_ALARM(&s, "another stream", 0.2, "rank 1, all_reduce #1, ring 0", " for rank 0 (at scale #0)");
    stop(&s);
}

static void test_off(void) {
    session s;
    const weft_delay late = {1, 0, 0.3};
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.05, .first_step_seconds = 0.05,
                                     .delays = &late, .ndelays = 1};
    options.no_watchdog = true;
    start(&s, 2, 1, (const char *[]){plain_text}, &options);
    check(!s.executor->watchdog, "a watchdog that nobody wants");
    must(weft_executor_run(s.executor));
    stop(&s);
    options = (weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 1e300};
    start(&s, 2, 1, (const char *[]){plain_text}, &options);
    check(s.executor->options.first_step_seconds >= s.executor->options.watchdog_seconds, "limits of the options");
    must(weft_executor_run(s.executor));
    stop(&s);
    start(&s, 1, 1, (const char *[]){plain_text}, NULL);
    check(!s.executor->watchdog, "one rank waits for nobody");
    stop(&s);
}

int main(void) {
    test_limits();
    test_lateness();
    test_jitter_is_within_limits();
    test_no_false_alarm();
    test_hung_rank();
    test_several_missing();
    test_ended_early();
    test_circle();
    test_other_stream();
    test_off();
    return report_checks();
}
