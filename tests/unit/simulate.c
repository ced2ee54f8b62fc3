/* simulate.c: simulation: times on virtual clocks, who waits for whom, what a delay or a dead rank does. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/failing_allocator.h"
#include "tests/support/simulated.h"

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

Test(simulate, compute_and_collectives_slow_one_another_down) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_delay late = {1, 2, 1e-6};
    session s;
    cluster.compute_beside_collective = 2;
    cluster.collective_beside_compute = 1.5;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    /* #2 and #3 beside the reduce from 1 on: 4 in place of 2. Of the reduce 4 / 1.5 are done at 5, the rest follows at
     * full speed, then #4. */
    cr_expect_float_eq(step_us(&s), 5 + (3 - 4 / 1.5) + 1, 2e-3, "%g",
                       weft_simulation_step_seconds(s.simulation) * 1e6);
    stop(&s);
    /* Rank 1 begins #2 at 2: the reduce is slow as long as any of its members computes, so until 5.5. By then #3 of
     * rank 1 has done 0.75; the rest and #4 follow at full speed. */
    o.delays = &late;
    o.ndelays = 1;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    cr_expect_float_eq(step_us(&s), 5.5 + 0.25 + 1, 2e-3, "%g", weft_simulation_step_seconds(s.simulation) * 1e6);
    stop(&s);
    cluster.compute_beside_collective = 0.5;
    weft_simulation *x;
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &(weft_simulation_options){WEFT_SIMULATION_OPTIONS_INIT});
    weft_status status = weft_simulation_create(s.context, (const weft_plan *const *)s.plans, 1, 2, &o, &x);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT, "a factor below 1");
    weft_status_free(status);
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
static weft_status run_and_trace(weft_context *context, const weft_plan *const *plans,
                                 const weft_simulation_options *o) {
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
        must(weft_context_create(
            &(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&heap)}, &s.context));
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
