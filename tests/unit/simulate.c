/* simulate.c: simulation: times on virtual clocks, who waits for whom, what a delay or a dead rank does, and
 * races. Every op takes 1 us and every message of a ring 1 us, so that times can be counted by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/failing_allocator.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/order.h"
#include "tests/support/training.h"
#include "weft/simulate.h"
#include "weft/verify.h"

enum { MOST_RANKS = 4 };

#define VARS                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    x: {float32: [8], persistable: true}\n    y: {float32: [8]}\n"                     \
    "    z: {float32: [8]}\n    u: {float32: [8]}\n  ops:\n"
#define SCALE(in, out) "  - {scale: {X: [" in "]}, out: {Out: [" out "]}, attrs: {scale: 1.0}}\n"
#define REDUCE_ON(v, ring, calc)                                                                                       \
    "  - {c_allreduce_sum: {X: [" v "]}, out: {Out: [" v "]}, attrs: {ring_id: " ring ", use_calc_stream: " calc "}}"  \
    "\n"
#define REDUCE(v, ring) REDUCE_ON(v, ring, "true")
#define REDUCE_ASIDE(v, ring) REDUCE_ON(v, ring, "false")

/* #0 makes y, #1 reduces it on a stream of its own, #2 and #3 do not need it, #4 does. */
static const char aside_text[] =
    VARS SCALE("x", "\"y\"") REDUCE_ASIDE("\"y\"", "0") SCALE("x", "z") SCALE("z", "u") SCALE("\"y\"", "z");

typedef struct session {
    counter count;
    weft_context *context;
    weft_plan *plans[MOST_RANKS];
    size_t nplans;
    weft_simulation *simulation;
} session;

static weft_simulation_options with(weft_cluster *cluster) {
    *cluster = (weft_cluster){.flops = 1e30, .bytes = 1e30, .op_seconds = 1e-6, .links = {{0, 1e30, 1e-6}}, .nlinks = 1};
    return (weft_simulation_options){.cluster = cluster, .trace_steps = 1, .unsafe = true};
}

static void plan(session *s, const char *yaml, weft_reading reading) {
    static const char *const fetches[] = {"z"};
    weft_program *p;
    weft_plan_order *order;
    must(weft_program_parse(s->context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "p.yaml", &p));
    must(weft_plan_order_create(p, &(weft_order_options){.reading = reading}, &order));
    weft_plan_options how = {.fetches = fetches, .nfetches = 1, .order = order};
    must(weft_plan_create(p, &how, &s->plans[s->nplans++]));
    weft_plan_order_destroy(order);
    weft_program_destroy(p);
}

/* Rank r runs texts[r]; of one text all run it. */
static void start(session *s, int nranks, size_t ntexts, const char *const *texts, weft_reading reading,
                  const weft_simulation_options *options) {
    memset(s, 0, sizeof *s);
    s->context = new_context(&s->count);
    for (size_t i = 0; i < ntexts; i++) plan(s, texts[i], reading);
    must(weft_simulation_create(s->context, (const weft_plan *const *)s->plans, ntexts, nranks, options, &s->simulation));
}

static void start_aside(session *s, int nranks, weft_reading reading, const weft_simulation_options *options) {
    const char *yaml = aside_text;
    start(s, nranks, 1, &yaml, reading, options);
}

static void stop(session *s) {
    weft_simulation_destroy(s->simulation);
    for (size_t i = 0; i < s->nplans; i++) weft_plan_destroy(s->plans[i]);
    weft_context_destroy(s->context);
    cr_expect_eq(s->count.nlive, 0, "blocks leaked");
}

static double step_us(session *s) {
    must(weft_simulation_run(s->simulation));
    return weft_simulation_step_seconds(s->simulation) * 1e6;
}

static void expect_failure(session *s, const char *const *parts, size_t nparts) {
    weft_status status = weft_simulation_run(s->simulation);
    cr_assert_eq(weft_status_code(status), WEFT_RUNTIME, "the step did not fail");
    for (size_t i = 0; i < nparts; i++)
        cr_expect(strstr(weft_status_message(status), parts[i]), "no \"%s\" in \"%s\"", parts[i],
                  weft_status_message(status));
    weft_status_free(status);
    status = weft_simulation_run(s->simulation);
    cr_expect(status != NULL, "a run that failed goes on");
    weft_status_free(status);
}
#define EXPECT_FAILURE(s, ...)                                                                                         \
    expect_failure(s, (const char *const[]){__VA_ARGS__}, sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *))

/* --- times ---------------------------------------------------------------------------------------------------------*/

Test(simulate, overlaps_what_does_not_wait) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_rank_times t;
    session s;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    /* 1 for #0; then a reduce of 2 messages and an op: 3, beside #2 and #3; then #4 */
    cr_expect_float_eq(step_us(&s), 5, 1e-6, "%g", weft_simulation_step_seconds(s.simulation) * 1e6);
    must(weft_simulation_rank_times(s.simulation, 1, &t));
    cr_expect_float_eq(t.compute_seconds * 1e6, 4, 1e-6);
    cr_expect_float_eq(t.collective_seconds * 1e6, 3, 1e-6);
    cr_expect_float_eq(t.exposed_seconds * 1e6, 1, 1e-6);
    cr_expect_eq(weft_simulation_nraces(s.simulation), 0);
    weft_status status = weft_simulation_rank_times(s.simulation, 2, &t);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    stop(&s);
}

Test(simulate, costs_flops_bytes_and_links) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    session s;
    cluster.bytes = 64e6; /* scale: 2 x 32 bytes, 1 us more; 4 of them */
    start_aside(&s, 1, WEFT_READING_BY_BYTES, &o);
    cr_expect_float_eq(step_us(&s), 2 + 2 * 3, 1e-6, "%g", weft_simulation_step_seconds(s.simulation) * 1e6);
    stop(&s);
    cluster.bytes = 1e30;
    cluster.links[0].bytes = 8e6; /* 4 ranks: 6 messages of 8 bytes, each 1 us more */
    start_aside(&s, 4, WEFT_READING_BY_BYTES, &o);
    cr_expect_float_eq(step_us(&s), 1 + (6 * 2 + 1) + 1, 1e-6, "%g", weft_simulation_step_seconds(s.simulation) * 1e6);
    stop(&s);
}

Test(simulate, collectives_end_when_the_last_member_has_come) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_delay late = {1, 0, 100e-6};
    weft_rank_times t[2];
    session s;
    o.delays = &late;
    o.ndelays = 1;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    cr_expect_float_eq(step_us(&s), 105, 1e-6);
    for (int r = 0; r < 2; r++) must(weft_simulation_rank_times(s.simulation, r, &t[r]));
    cr_expect_float_eq(t[0].collective_seconds * 1e6, 103, 1e-6, "rank 0 waits for the late one");
    cr_expect_float_eq(t[1].collective_seconds * 1e6, 3, 1e-6);
    cr_expect_float_eq(step_us(&s), 105, 1e-6, "steps are alike");
    stop(&s);
}

Test(simulate, a_step_allocates_nothing) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    session s;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    step_us(&s);
    long before = s.count.nallocations;
    step_us(&s);
    cr_expect_eq(s.count.nallocations, before, "a step allocates");
    stop(&s);
}

Test(simulate, refuses_what_it_cannot_do) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_fault fault = {0, 77};
    weft_simulation *x;
    session s;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    const weft_plan *const *plans = (const weft_plan *const *)s.plans;
    cluster.flops = -1;
    weft_status status = weft_simulation_create(s.context, plans, 1, 2, &o, &x);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    cluster.flops = 0;
    o.faults = &fault;
    o.nfaults = 1;
    status = weft_simulation_create(s.context, plans, 1, 2, &o, &x);
    cr_expect_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_free(status);
    o.nfaults = 0;
    status = weft_simulation_create(s.context, plans, 1, 0, &o, &x);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    stop(&s);
    start_aside(&s, 2, WEFT_READING_IN_ORDER, &o);
    o.unsafe = false;
    status = weft_simulation_create(s.context, (const weft_plan *const *)s.plans, 1, 2, &o, &x);
    cr_expect(strstr(weft_status_message(status), "unsafe"), "%s", weft_status_message(status));
    weft_status_free(status);
    stop(&s);
}

Test(simulate, same_input_same_timeline) {
    char *bytes[2];
    size_t nbytes[2];
    session s[2];
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    o.trace_steps = 0;
    for (int i = 0; i < 2; i++) {
        start_aside(&s[i], 3, WEFT_READING_BY_BYTES, &o);
        for (int step = 0; step < 3; step++) step_us(&s[i]);
        must(weft_simulation_trace_json(s[i].simulation, &bytes[i], &nbytes[i]));
    }
    cr_expect_eq(nbytes[0], nbytes[1]);
    cr_expect_eq(memcmp(bytes[0], bytes[1], nbytes[0]), 0);
    cr_expect(strstr(bytes[0], "\"ts\":13.000,\"dur\":1.000"), "the third step: its last op but one");
    for (int i = 0; i < 2; i++) {
        weft_bytes_free(s[i].context, bytes[i], nbytes[i]);
        stop(&s[i]);
    }
}

/* The first failure of an executor, a step and what is asked of it. */
static weft_status run_and_trace(weft_context *context, const weft_plan *const *plans, const weft_simulation_options *o) {
    weft_simulation *x = NULL;
    weft_rank_times t;
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_status status = weft_simulation_create(context, plans, 1, 2, o, &x);
    if (!status) status = weft_simulation_run(x);
    if (!status) status = weft_simulation_rank_times(x, 0, &t);
    if (!status) status = weft_simulation_trace_json(x, &bytes, &nbytes);
    weft_bytes_free(context, bytes, nbytes);
    weft_simulation_destroy(x);
    return status;
}

/* With a race; with a rank that dies. */
Test(simulate, every_allocation_may_fail) {
    weft_fault fault = {1, 0};
    for (size_t nfaults = 0; nfaults < 2; nfaults++) {
        weft_cluster cluster;
        weft_simulation_options o = with(&cluster);
        failing_allocator heap = {0};
        session s = {0};
        o.faults = &fault;
        o.nfaults = nfaults;
        must(weft_context_create(&(weft_context_options){.allocator = failing_allocator_on(&heap)}, &s.context));
        plan(&s, aside_text, WEFT_READING_IN_ORDER);
        size_t n = 0, held = heap.held;
        do {
            heap.failed = false;
            heap.fail_at = heap.nrequests + ++n;
            weft_status status = run_and_trace(s.context, (const weft_plan *const *)s.plans, &o);
            weft_code expected = heap.failed ? WEFT_OUT_OF_MEMORY : nfaults ? WEFT_RUNTIME : WEFT_OK;
            cr_expect_eq(weft_status_code(status), expected, "request %zu: %s", n, weft_status_message(status));
            weft_status_free(status);
            cr_expect_eq(heap.held, held, "request %zu: leaked", n);
        } while (heap.failed);
        cr_expect(n > 10);
        heap.fail_at = 0;
        weft_plan_destroy(s.plans[0]);
        weft_context_destroy(s.context);
    }
}

/* --- sends and receives --------------------------------------------------------------------------------------------*/

#define SEND(v, peer) "  - {send_v2: {X: [" v "]}, attrs: {ring_id: 0, peer: " peer ", use_calc_stream: true}}\n"
#define RECV(v, peer)                                                                                                  \
    "  - {recv_v2: {}, out: {Out: [" v "]}, attrs: {ring_id: 0, peer: " peer                                           \
    ", dtype: 5, out_shape: !ints [8], use_calc_stream: true}}\n"

/* A pipeline: each stage begins when it has been sent what the one before made. A message takes 1 us, and an op 1. */
Test(simulate, a_send_ends_with_its_receive) {
    static const char *const texts[] = {VARS SCALE("x", "z") SEND("z", "1"),
                                        VARS RECV("z", "0") SCALE("z", "u") SEND("u", "2"), VARS RECV("z", "1")};
    static const double waiting[] = {2, 3 + 2, 6};
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    session s;
    start(&s, 3, 3, texts, WEFT_READING_BY_BYTES, &o);
    cr_expect_float_eq(step_us(&s), 6, 1e-6, "%g", weft_simulation_step_seconds(s.simulation) * 1e6);
    for (int r = 0; r < 3; r++) {
        weft_rank_times t;
        must(weft_simulation_rank_times(s.simulation, r, &t));
        cr_expect_float_eq(t.collective_seconds * 1e6, waiting[r], 1e-6, "rank %d: %g", r, t.collective_seconds * 1e6);
    }
    cr_expect_float_eq(step_us(&s), 6, 1e-6);
    stop(&s);
}

Test(simulate, tells_who_waits_for_a_peer) {
    static const char *const crossed[] = {VARS SEND("x", "1") RECV("z", "1"), VARS SEND("x", "0") RECV("z", "0")};
    static const char *const pair[] = {VARS SCALE("x", "z") SEND("z", "1"), VARS SCALE("x", "u") RECV("z", "0")};
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_fault fault = {1, 0};
    session s;
    start(&s, 2, 2, crossed, WEFT_READING_BY_BYTES, &o);
    EXPECT_FAILURE(&s, "rank 0, send_v2 #0, ring 0: waits for ever, since 0 ms, for rank 1 (in send_v2 #0 on ring 0)",
                   "; rank 1, send_v2 #0, ring 0: waits for ever, since 0 ms, for rank 0 (in send_v2 #0 on ring 0)");
    stop(&s);
    o.faults = &fault;
    o.nfaults = 1;
    start(&s, 2, 2, pair, WEFT_READING_BY_BYTES, &o);
    EXPECT_FAILURE(
        &s, "rank 0, send_v2 #1, ring 0: waits for ever, since 0.001 ms, for rank 1 (died before scale #0 at 0 ms)");
    stop(&s);
}

/* --- what hangs ----------------------------------------------------------------------------------------------------*/

Test(simulate, tells_who_waits_for_the_dead) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_fault fault = {1, 0};
    session s;
    o.faults = &fault;
    o.nfaults = 1;
    o.trace_steps = 0;
    start_aside(&s, 3, WEFT_READING_BY_BYTES, &o);
    EXPECT_FAILURE(&s, "rank 0, c_allreduce_sum #1, ring 0: waits for ever, since 0.001 ms, for rank 1 (died before ",
                   "(died before scale #0 at 0 ms); so does 1 more rank");
    char *bytes;
    size_t nbytes;
    must(weft_simulation_trace_json(s.simulation, &bytes, &nbytes)); /* what had happened by then */
    cr_expect(strstr(bytes, "c_allreduce_sum"));
    weft_bytes_free(s.context, bytes, nbytes);
    stop(&s);
}

Test(simulate, a_death_leaves_collectives_that_are_not_complete) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_fault fault = {0, 3};
    weft_delay late = {1, 0, 1};
    session s;
    o.faults = &fault;
    o.nfaults = 1;
    o.delays = &late;
    o.ndelays = 1;
    start_aside(&s, 3, WEFT_READING_BY_BYTES, &o); /* rank 0 is in the reduce since 1 us and dies at 2 us */
    EXPECT_FAILURE(
        &s, "rank 2, c_allreduce_sum #1, ring 0: waits for ever, since 0.001 ms, for rank 0 (died before scale #3",
        "at 0.002 ms); so does 1 more rank");
    stop(&s);
}

Test(simulate, a_death_that_nobody_waits_for) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_fault fault = {1, 4};
    session s;
    o.faults = &fault;
    o.nfaults = 1;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    EXPECT_FAILURE(&s, "rank 1 died before scale #4 at 0.004 ms; no other rank waits for it");
    stop(&s);
}

Test(simulate, tells_a_circle_of_rings) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    const char *const texts[] = {VARS SCALE("x", "\"y\"") REDUCE("\"y\"", "1") SCALE("\"y\"", "z") REDUCE("z", "2"),
                                 VARS SCALE("x", "z") REDUCE("z", "2") SCALE("z", "\"y\"") REDUCE("\"y\"", "1")};
    session s;
    start(&s, 2, 2, texts, WEFT_READING_BY_BYTES, &o);
    EXPECT_FAILURE(&s,
                   "rank 0, c_allreduce_sum #1, ring 1: waits for ever, since 0.001 ms, for rank 1 (in c_allreduce_sum "
                   "#1 on ring 2)",
                   "; rank 1, c_allreduce_sum #1, ring 2: waits for ever, since 0.001 ms, for rank 0 (in "
                   "c_allreduce_sum #1 on ring 1)");
    stop(&s);
}

/* As on the cpu: before anything runs. */
Test(simulate, ranks_that_disagree_are_refused) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    const char *const texts[] = {VARS SCALE("x", "z") REDUCE("z", "1"), VARS SCALE("x", "z")};
    weft_simulation *x;
    session s;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    for (size_t i = 0; i < 2; i++) plan(&s, texts[i], WEFT_READING_BY_BYTES);
    weft_status status = weft_simulation_create(s.context, (const weft_plan *const *)s.plans + 1, 2, 2, &o, &x);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_PROGRAM);
    cr_expect(
        strstr(weft_status_message(status), "ring 1: ranks disagree on collective 0: rank 0 runs c_allreduce_sum"),
        "%s", weft_status_message(status));
    weft_status_free(status);
    stop(&s);
}

/* --- races ---------------------------------------------------------------------------------------------------------*/

Test(simulate, sees_a_race_and_not_its_twin) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_seen_race race;
    session s;
    start_aside(&s, 2, WEFT_READING_IN_ORDER, &o); /* nothing says that #1 comes after #0, or #4 after #1 */
    step_us(&s);
    cr_assert_eq(weft_simulation_nraces(s.simulation), 1); /* #4 begins at 3 us, as the reduce ends: just in time */
    weft_simulation_race_at(s.simulation, 0, &race);
    cr_expect_eq(race.first.op_index, 0);
    cr_expect_eq(race.second.op_index, 1);
    cr_expect(race.first.is_write);
    cr_expect_str_eq(race.second.type, "c_allreduce_sum");
    cr_expect_str_eq(race.second.stream, "ring_0");
    cr_expect_str_eq(race.second.value, "y");
    cr_expect_float_eq(race.first.end_seconds * 1e6, 1, 1e-9);
    cr_expect_float_eq(race.second.start_seconds, 0, 1e-9);
    cr_expect_eq(race.count, 2, "on both ranks");
    step_us(&s);
    weft_simulation_race_at(s.simulation, 0, &race);
    cr_expect_eq(race.count, 4);
    stop(&s);
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    step_us(&s);
    cr_expect_eq(weft_simulation_nraces(s.simulation), 0);
    stop(&s);
}

/* #1 takes x while #0 still reads it. */
Test(simulate, sees_a_write_that_comes_before_a_read) {
    static const char *const texts[] = {VARS SCALE("x", "z") REDUCE_ASIDE("x", "0")};
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_seen_race race;
    session s;
    start(&s, 2, 1, texts, WEFT_READING_IN_ORDER, &o);
    step_us(&s);
    cr_assert_eq(weft_simulation_nraces(s.simulation), 1);
    weft_simulation_race_at(s.simulation, 0, &race);
    cr_expect_eq(race.first.op_index, 0);
    cr_expect(!race.first.is_write);
    cr_expect(race.second.is_write);
    stop(&s);
}

static bool is_claimed(const weft_plan *made, const order_verdict *v, const weft_seen_race *race) {
    for (size_t i = 0; i < v->npairs; i++)
        if (made->instrs[v->pairs[i].earlier].op_index == race->first.op_index &&
            made->instrs[v->pairs[i].later].op_index == race->second.op_index)
            return true;
    return false;
}

/* Runs the plans with one op late. How many races are seen, all of which `v` must claim; whether `later` is in one:
 * with the op that is late, or with one that it made even later. */
static size_t run_late(session *s, const order_verdict *v, int64_t op_index, int64_t later, bool *out_has) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_delay late = {-1, op_index, 1};
    weft_simulation *x;
    o.delays = &late;
    o.ndelays = 1;
    must(weft_simulation_create(s->context, (const weft_plan *const *)s->plans, s->nplans, (int)s->nplans, &o, &x));
    must(weft_simulation_run(x));
    size_t n = weft_simulation_nraces(x);
    *out_has = false;
    for (size_t i = 0; i < n; i++) {
        weft_seen_race race;
        weft_simulation_race_at(x, i, &race);
        *out_has |= race.first.end_seconds > 1 && race.second.op_index == later;
        cr_expect(is_claimed(s->plans[race.rank], v, &race), "nobody claims a race of #%lld and #%lld",
                  (long long)race.first.op_index, (long long)race.second.op_index);
    }
    weft_simulation_destroy(x);
    return n;
}

/* Plans of a recorded program of two ranks; false if it is not there. */
static bool plan_recorded(session *s, const char *folder, const char *stage, weft_reading reading) {
    memset(s, 0, sizeof *s);
    s->context = new_context(&s->count);
    for (int r = 0; r < 2; r++) {
        char relative[200], path[600];
        weft_program *p;
        weft_plan_order *order;
        snprintf(relative, sizeof relative, "%s/rank%d.%s.pdmodel", folder, r, stage);
        if (!fixture_path(path, sizeof path, relative)) return false;
        must(weft_program_load(s->context, path, NULL, &p));
        must(weft_plan_order_create(p, &(weft_order_options){.reading = reading}, &order));
        must(weft_plan_create(p, &(weft_plan_options){.order = order}, &s->plans[s->nplans++]));
        weft_plan_order_destroy(order);
        weft_program_destroy(p);
    }
    return true;
}

static const struct recorded {
    const char *folder, *stage;
    size_t stride; /* every so many ops are late, one a run */
} recorded[] = {{"paddle26/mlp_sgd_dp2", "after.default", 1},
                {"paddle26/mlp_sgd_dp2", "after.overlap", 1},
                {"paddle26/mlp_dp2_gradmerge", "after.default", 3},
                {"paddle26/gpt_tiny_adamw_dp2", "after.default", 19}};
enum { NRECORDED = sizeof recorded / sizeof *recorded };

Test(simulate, plans_by_bytes_never_race_however_late_an_op_is) {
    for (size_t k = 0; k < NRECORDED; k++) {
        static const order_verdict none;
        session s;
        bool has;
        if (plan_recorded(&s, recorded[k].folder, recorded[k].stage, WEFT_READING_BY_BYTES)) {
            for (size_t i = 0; i < s.plans[0]->ninstrs; i += recorded[k].stride) {
                int64_t op = s.plans[0]->instrs[i].op_index;
                cr_expect_eq(run_late(&s, &none, op, -1, &has), 0, "%s %s races with op #%lld late", recorded[k].folder,
                             recorded[k].stage, (long long)op);
            }
        }
        stop(&s);
    }
}

/* Pairs that a closure over all pairs finds unordered show when the earlier op is late, and no others do. */
Test(simulate, races_that_are_claimed_show) {
    for (size_t k = 0; k < NRECORDED; k++) {
        session s;
        size_t nshown = 0;
        if (!plan_recorded(&s, recorded[k].folder, recorded[k].stage, WEFT_READING_IN_ORDER)) {
            stop(&s);
            continue;
        }
        order_verdict v;
        order_of_plan(s.plans[0], &v);
        cr_expect(v.npairs > 0, "%s %s is right in order", recorded[k].folder, recorded[k].stage);
        for (size_t i = 0; i < v.npairs; i += recorded[k].stride) {
            const plan_instr *a = &s.plans[0]->instrs[v.pairs[i].earlier], *b = &s.plans[0]->instrs[v.pairs[i].later];
            bool has;
            run_late(&s, &v, a->op_index, b->op_index, &has);
            nshown += has;
            cr_expect(has, "%s %s: #%d and #%d do not show", recorded[k].folder, recorded[k].stage, a->op_index,
                      b->op_index);
        }
        cr_expect(nshown > 0);
        order_free(&v);
        stop(&s);
    }
}
