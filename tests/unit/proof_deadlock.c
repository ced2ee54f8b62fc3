/* proof_deadlock.c: collectives that do not meet, by hand and each with a twin that is right; cycles of waits at random
 * against an execution that does whatever can be done until nothing can. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "proof/checks/checks.h"
#include "tests/support/draw.h"
#include "tests/support/judge.h"

/* --- programs ----------------------------------------------------------------------------------------------------- */

#define HEAD(rank)                                                                                                     \
    "weft: 1\nrank: " #rank "\nrings: {0: [0, 1], 1: [0, 1]}\nblocks:\n- vars:\n"                                      \
    "    x: {float32: [4], need_check_feed: true}\n    g: {float32: [4]}\n    h: {float32: [4]}\n"                     \
    "    w: {float32: [8]}\n    i: {int32: [4]}\n    c: {bool: [1]}\n    f: {float32: [128]}\n  ops:\n"                \
    "  - {scale: {X: x}, out: {Out: g}, attrs: {scale: 2.0}}\n"                                                        \
    "  - {scale: {X: x}, out: {Out: h}, attrs: {scale: 3.0}}\n"                                                        \
    "  - {fill_constant: {}, out: {Out: w}, attrs: {shape: !longs [8], dtype: 5}}\n"                                   \
    "  - {fill_constant: {}, out: {Out: i}, attrs: {shape: !longs [4], dtype: 2}}\n"
#define ON(type, ring, var)                                                                                            \
    "  - {" type ": {X: " var "}, out: {Out: " var "}, attrs: {ring_id: " #ring ", use_calc_stream: true}}\n"
#define ON_STREAM(type, ring, var, s)                                                                                  \
    "  - {" type ": {X: " var "}, out: {Out: " var "}, attrs: {ring_id: " #ring                                        \
    ", use_calc_stream: true}, dist: {stream: " s "}}\n"
#define SUM "c_allreduce_sum"
#define BUCKET(members)                                                                                                \
    "  - {coalesce_tensor: {Input: [" members "]}, out: {Output: [" members "], FusedOutput: f}, attrs: {dtype: 5, "   \
    "align_size: 256, use_align: true, copy_data: true}}\n"

static const struct {
    const char *what, *rank0, *rank1, *expected;
} cases[] = {
    {"equal", HEAD(0) ON(SUM, 0, "g") ON(SUM, 0, "h"), HEAD(1) ON(SUM, 0, "g") ON(SUM, 0, "h"), "safe"},
    {"one rank has one more", HEAD(0) ON(SUM, 0, "g") ON(SUM, 0, "h"), HEAD(1) ON(SUM, 0, "g"), "deadlock"},
    {"only one rank has any", HEAD(0), HEAD(1) ON(SUM, 0, "g"), "deadlock"},
    {"counts", HEAD(0) ON(SUM, 0, "g"), HEAD(1) ON(SUM, 0, "w"), "deadlock"},
    {"element types", HEAD(0) ON(SUM, 0, "g"), HEAD(1) ON(SUM, 0, "i"), "deadlock"},
    {"kinds", HEAD(0) ON(SUM, 0, "g"), HEAD(1) ON("c_broadcast", 0, "g"), "deadlock"},
    {"reductions", HEAD(0) ON(SUM, 0, "g"), HEAD(1) ON("c_allreduce_max", 0, "g"), "wrong_data"},
    {"swapped, of one size", HEAD(0) ON(SUM, 0, "g") ON(SUM, 0, "h"), HEAD(1) ON(SUM, 0, "h") ON(SUM, 0, "g"),
     "wrong_data"},
    {"members of a bucket swapped", HEAD(0) BUCKET("g, h") ON(SUM, 0, "f"), HEAD(1) BUCKET("h, g") ON(SUM, 0, "f"),
     "wrong_data"},
    {"a bucket of the same members", HEAD(0) BUCKET("g, h") ON(SUM, 0, "f"), HEAD(1) BUCKET("g, h") ON(SUM, 0, "f"),
     "safe"},
    {"two rings in one order", HEAD(0) ON(SUM, 0, "g") ON(SUM, 1, "h"), HEAD(1) ON(SUM, 0, "g") ON(SUM, 1, "h"),
     "safe"},
    {"two rings in opposite order", HEAD(0) ON(SUM, 0, "g") ON(SUM, 1, "h"), HEAD(1) ON(SUM, 1, "h") ON(SUM, 0, "g"),
     "deadlock"},
    {"opposite order on two streams", HEAD(0) ON(SUM, 0, "g") ON_STREAM(SUM, 1, "w", "s"),
     HEAD(1) ON_STREAM(SUM, 1, "w", "s") ON(SUM, 0, "g"), "race race"},
    {"the host waits in between", HEAD(0) ON(SUM, 0, "g") "  - {fetch: {X: g}}\n" ON_STREAM(SUM, 1, "h", "s"),
     HEAD(1) ON_STREAM(SUM, 1, "h",
                       "s") "  - {c_sync_comm_stream: {X: h}, out: {Out: h}, dist: {stream: s}}\n" ON(SUM, 0, "g"),
     "race deadlock"},
    {"send and receive", HEAD(0) "  - {send_v2: {X: g}, attrs: {ring_id: 0, peer: 1}}\n",
     HEAD(1) "  - {recv_v2: {}, out: {Out: g}, attrs: {ring_id: 0, peer: 0}}\n", "safe"},
    {"both send first",
     HEAD(0) "  - {send_v2: {X: g}, attrs: {ring_id: 0, peer: 1}}\n  - {recv_v2: {}, out: {Out: h}, attrs: {ring_id: "
             "0, peer: 1}}\n",
     HEAD(1) "  - {send_v2: {X: g}, attrs: {ring_id: 0, peer: 0}}\n  - {recv_v2: {}, out: {Out: h}, attrs: {ring_id: "
             "0, peer: 0}}\n",
     "deadlock"},
    {"a part of a tensor, and one of another era",
     HEAD(0) "  - {partial_send: {X: g}, attrs: {ring_id: 0, peer: 1, num: 2, id: 0}}\n  - {p_send: {x: h}, attrs: "
             "{ring_id: 0, peer: 1}}\n",
     HEAD(1) "  - {partial_recv: {}, out: {Out: g}, attrs: {ring_id: 0, peer: 0, num: 2, id: 1}}\n  - {p_recv: {}, out: "
             "{out: h}, attrs: {ring_id: 0, peer: 0}}\n",
     "safe"},
    {"both receive first",
     HEAD(0) "  - {p_recv: {}, out: {out: h}, attrs: {ring_id: 0, peer: 1}}\n  - {p_send: {x: g}, attrs: {ring_id: 0, "
             "peer: 1}}\n",
     HEAD(1) "  - {p_recv: {}, out: {out: h}, attrs: {ring_id: 0, peer: 0}}\n  - {p_send: {x: g}, attrs: {ring_id: 0, "
             "peer: 0}}\n",
     "deadlock"},
    {"nobody receives", HEAD(0) "  - {send_v2: {X: g}, attrs: {ring_id: 0, peer: 1}}\n", HEAD(1), "deadlock"},
    {"wrong data first, then one rank has one more", HEAD(0) ON(SUM, 0, "g") ON(SUM, 0, "h"),
     HEAD(1) ON("c_allreduce_max", 0, "g"), "wrong_data deadlock"},
    {"wrong data on one ring, a cycle over two", HEAD(0) ON("c_allreduce_max", 2, "w") ON(SUM, 0, "g") ON(SUM, 1, "h"),
     HEAD(1) ON(SUM, 2, "w") ON(SUM, 1, "h") ON(SUM, 0, "g"), "wrong_data deadlock"},
};

Test(proof_deadlock, programs_by_hand) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER};
        char *found = judge(cases[i].rank0, cases[i].rank1, &o);
        cr_expect_str_eq(found, cases[i].expected, "%s: expected %s, found %s", cases[i].what, cases[i].expected,
                         found);
        free(found);
    }
}

Test(proof_deadlock, a_cycle_is_told_with_ops_and_ranks) {
    char *message = judge_message(cases[11].rank0, cases[11].rank1, &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT});
    cr_expect(strstr(message,
                     "rank 0: c_allreduce_sum #5 (ring 1) on stream compute starts only after c_allreduce_sum #4 "
                     "(ring 0)"),
              "%s", message);
    cr_expect(strstr(message,
                     "rank 1: c_allreduce_sum #5 (ring 0) on stream compute starts only after c_allreduce_sum #4 "
                     "(ring 1)"),
              "%s", message);
    free(message);
}

/* One in flight is too few where each rank begins with another ring, though streams of their own would do. */
Test(proof_deadlock, launches_in_flight_are_limited) {
    static const char first[] = HEAD(0) ON_STREAM(SUM, 0, "g", "s1") ON_STREAM(SUM, 1, "h", "s2"),
                      second[] = HEAD(1) ON_STREAM(SUM, 1, "h", "s2") ON_STREAM(SUM, 0, "g", "s1");
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .max_in_flight = 1};
    char *one = judge(first, second, &o);
    o.max_in_flight = 2;
    char *two = judge(first, second, &o);
    cr_expect(strstr(one, "resource_deadlock") != NULL, "%s", one);
    cr_expect(strstr(two, "deadlock") == NULL, "%s", two);
    free(one);
    free(two);
}

/* Each rank fills the stream of the ring that the other comes to last: the host waits with the second op there. */
Test(proof_deadlock, streams_that_take_no_more) {
    static const char first[] =
        HEAD(0) ON_STREAM(SUM, 0, "g", "s1") ON_STREAM(SUM, 0, "h", "s1") ON_STREAM(SUM, 1, "w", "s2"),
                      second[] = HEAD(1) ON_STREAM(SUM, 1, "w", "s2") "  - {relu: {X: w}, out: {Out: w}, dist: "
                                                                      "{stream: s2}}\n" ON_STREAM(SUM, 0, "g", "s1")
                                                                          ON_STREAM(SUM, 0, "h", "s1");
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .max_queued = 1};
    char *one = judge(first, second, &o), *message = judge_message(first, second, &o);
    o.max_queued = 2;
    char *two = judge(first, second, &o);
    cr_expect_str_eq(one, "resource_deadlock", "%s", one);
    cr_expect(strstr(message, "rank 0 cannot launch c_allreduce_sum #"), "%s", message);
    cr_expect_str_eq(two, "safe", "%s", two);
    free(one);
    free(message);
    free(two);
}

/* What the host waits for keeps it from launching too: rank 0 launches nothing more before ring 0's first is complete,
 * which rank 1 launches only when one of its two in flight is. */
Test(proof_deadlock, a_host_that_waits_launches_nothing) {
#define SYNC(stream) "  - {c_sync_comm_stream: {X: g}, out: {Out: g}, dist: {stream: " stream "}}\n"
    static const char first[] =
        HEAD(0) ON_STREAM(SUM, 0, "g", "s1") SYNC("s1") ON_STREAM(SUM, 1, "h", "s2") ON_STREAM(SUM, 2, "w", "s3"),
                      second[] = HEAD(1) ON_STREAM(SUM, 1, "h", "s2") ON_STREAM(SUM, 2, "w", "s3")
                          ON_STREAM(SUM, 0, "g", "s1");
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .max_in_flight = 2};
    char *two = judge(first, second, &o);
    o.max_in_flight = 3;
    char *three = judge(first, second, &o);
    cr_expect(strstr(two, "resource_deadlock") != NULL, "%s", two);
    cr_expect(strstr(three, "deadlock") == NULL, "%s", three);
    free(two);
    free(three);
}

/* Streams that launch by themselves: two collectives of a ring need a wait between them. */
Test(proof_deadlock, a_ring_on_two_streams) {
    weft_context *context;
    cr_assert_null(weft_context_create(NULL, &context));
    for (uint32_t with_wait = 0; with_wait < 2; with_wait++) {
        weft_findings found = {.context = context, .max = 10};
        proof_schedule s;
        proof_collective *c;
        proof_class class;
        arena a;
        uint32_t stream, event;
        arena_init(&a, &context->allocator);
        arena_init(&found.arena, &context->allocator);
        cr_assert_null(schedule_init(&s, context, &a));
        s.launches_freely = true;
        cr_assert_null(schedule_stream(&s, "s", &stream));
        for (uint32_t i = 0; i < 2; i++) {
            cr_assert_null(schedule_event(&s, NULL, i, i ? stream : 0, &event));
            if (i && with_wait) cr_assert_null(schedule_wait(&s, 0));
            cr_assert_null(schedule_collective(&s, 0, WEFT_FP32, 4, &c));
        }
        cr_assert_null(schedule_end(&s));
        cr_assert_null(sequences_list(&s, &a, &class));
        cr_assert_null(check_ring_order(&class, 0, &found));
        cr_expect_eq(found.count, 1 - with_wait);
        arena_fini(&found.arena);
        arena_fini(&a);
    }
    weft_context_destroy(context);
}

/* --- replicas and bytes that nothing wrote ------------------------------------------------------------------------ */

#define TRAIN                                                                                                          \
    "weft: 1\nrank: -1\nrings: {0: [0, 1]}\nblocks:\n- vars:\n    x: {float32: [4], need_check_feed: true}\n"          \
    "    w: {float32: [4], persistable: true}\n    r: {float32: [1], persistable: true}\n    g: {float32: [4]}\n"      \
    "    h: {float32: [4]}\n    v: {float32: [4]}\n    f: {float32: [128]}\n    n: {float32: [1]}\n  ops:\n"
#define SCALE(from, to) "  - {scale: {X: " from "}, out: {Out: " to "}, attrs: {scale: 2.0}}\n"
#define SGD "  - {sgd: {Grad: g, LearningRate: r, Param: w}, out: {ParamOut: w}}\n"
#define VIEWS                                                                                                          \
    "  - {coalesce_tensor: {Input: [g, h]}, out: {Output: [g, h], FusedOutput: f}, attrs: {dtype: 5, align_size: "     \
    "256, use_align: true}}\n"

static const struct {
    const char *what, *text, *expected;
} states[] = {
    {"reduced", TRAIN SCALE("x", "g") ON(SUM, 0, "g") SGD, "safe"},
    {"not reduced", TRAIN SCALE("x", "g") SGD, "missing_reduce"},
    {"another gradient is reduced", TRAIN SCALE("x", "g") SCALE("x", "h") ON(SUM, 0, "h") SGD, "missing_reduce"},
    {"written again behind the reduce", TRAIN SCALE("x", "g") ON(SUM, 0, "g") SCALE("x", "g") SGD, "missing_reduce"},
    {"equal on all ranks without a reduce", TRAIN SCALE("w", "g") SGD, "safe"},
    {"named again as an output by an op that leaves it alone",
     TRAIN "  - {hierarchical_sigmoid: {X: x, W: w, Label: x}, out: {Out: h, PreOut: v, W_Out: w}}\n" SCALE("w", "g")
         SGD,
     "safe"},
    {"a bucket", TRAIN VIEWS SCALE("x", "g") SCALE("x", "h") ON(SUM, 0, "f") SGD, "safe"},
    {"the reduce comes before the last producer", TRAIN VIEWS SCALE("x", "h") ON(SUM, 0, "f") SCALE("x", "g") SGD,
     "uninitialised_read missing_reduce"},
    {"coalesced behind the first producer", TRAIN SCALE("x", "g") VIEWS SCALE("x", "h") ON(SUM, 0, "f") SGD,
     "uninitialised_read"},
    {"a member is never produced", TRAIN VIEWS SCALE("x", "g") ON(SUM, 0, "f") SGD, "uninitialised_read"},
    {"a member is produced twice, the other never", TRAIN VIEWS SCALE("x", "g") SCALE("x", "g") ON(SUM, 0, "f") SGD,
     "uninitialised_read"},
    {"written under a condition that differs",
     TRAIN SCALE("w", "g") "  - {greater_than: {X: x, Y: w}, out: {Out: c}}\n"
                           "  - {conditional_block: {Cond: [c]}, out: {Out: [g]}, attrs: {sub_block: !block 1}}\n" SGD
                           "- parent: 0\n  vars: {c: {bool: [1]}}\n  ops:\n" SCALE("r", "g"),
     "missing_reduce"},
    {"a norm over padding",
     TRAIN VIEWS SCALE("x", "g") SCALE("x", "h") ON(SUM, 0, "f") "  - {squared_l2_norm: {X: f}, out: {Out: n}}\n" SGD,
     "uninitialised_read"},
    {"a collective under a condition that differs",
     TRAIN
     "  - {greater_than: {X: x, Y: w}, out: {Out: c}}\n"
     "  - {conditional_block: {Cond: [c]}, out: {Out: [w]}, attrs: {sub_block: !block 1, is_scalar_condition: true}}\n"
     "- parent: 0\n  vars: {c: {bool: [1]}}\n  ops:\n" ON(SUM, 0, "w"),
     "deadlock"},
};

Test(proof_deadlock, state_and_bytes) {
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        char *found = judge(states[i].text, NULL, &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT});
        cr_expect_str_eq(found, states[i].expected, "%s: expected %s, found %s", states[i].what, states[i].expected,
                         found);
        free(found);
    }
}

/* --- cycles at random --------------------------------------------------------------------------------------------- */

enum { MOST_RANKS = 3, MOST_EVENTS = 8, NRINGS = 3 };

static void must_not_fail(weft_status status) {
    cr_assert_null(status, "%s", weft_status_message(status));
}

/* Ring i is without rank i, ring 2 too where there are two ranks only. Each rank issues one collective a ring, in an
 * order of its own. */
static void make_rank(proof_schedule *s, int64_t rank, int64_t nranks, uint64_t *r) {
    uint32_t id, nstreams = 1 + draw_below(r, 3), n = 2 + draw_below(r, MOST_EVENTS - 1);
    bool issued[NRINGS] = {false};
    for (uint32_t t = 1; t < nstreams; t++) must_not_fail(schedule_stream(s, (const char *[]){"s1", "s2"}[t - 1], &id));
    s->launches_freely = draw_below(r, 2);
    for (uint32_t i = 0; i < n + NRINGS; i++) {
        must_not_fail(schedule_event(s, NULL, i, draw_below(r, nstreams), &id));
        s->events[i].blocks_host = draw_below(r, 6) == 0;
        for (unsigned k = draw_below(r, 2); k > 0 && i; k--) must_not_fail(schedule_wait(s, draw_below(r, i + 1)));
        int64_t ring_id = draw_below(r, NRINGS);
        for (int k = 0; i >= n && k < NRINGS && issued[ring_id]; k++) ring_id = (ring_id + 1) % NRINGS;
        bool is_member = nranks == 2 || ring_id != rank;
        if (issued[ring_id] || !is_member || (i < n && draw_below(r, 2))) continue;
        proof_collective *c;
        issued[ring_id] = true;
        must_not_fail(schedule_collective(s, ring_id, WEFT_FP32, 4, &c));
    }
    must_not_fail(schedule_end(s));
}

static const proof_collective *collective_on(const proof_schedule *s, int64_t ring_id) {
    for (size_t i = 0; i < s->ncollectives; i++)
        if (s->collectives[i].ring == ring_id) return &s->collectives[i];
    return NULL;
}

/* Whether all that stands before launch `i` of a rank is complete. */
static bool is_ready(const proof_schedule *s, const bool *done, size_t i) {
    for (size_t x = 0; x < i; x++) {
        bool before = s->events[x].stream == s->events[i].stream || (s->events[x].blocks_host && !s->launches_freely);
        if (before && !done[x]) return false;
    }
    for (size_t k = 0; k < proof_nwaits(s, i); k++) {
        uint32_t x = s->waits[s->events[i].first_wait + k];
        if (x < i && !done[x]) return false;
    }
    return true;
}

/* Does whatever can be done; true if something is left. */
static bool gets_stuck(const proof_schedule *s, int64_t nranks) {
    bool done[MOST_RANKS][MOST_EVENTS + 1 + NRINGS] = {{false}}, any = true;
    while (any) {
        any = false;
        for (int64_t r = 0; r < nranks; r++)
            for (size_t i = 0; i < s[r].nevents; i++) {
                bool ready = !done[r][i] && is_ready(&s[r], done[r], i);
                uint32_t c = s[r].events[i].collective;
                for (int64_t q = 0; c != PROOF_NONE && q < nranks && ready; q++) {
                    const proof_collective *theirs = collective_on(&s[q], s[r].collectives[c].ring);
                    if (theirs) ready = done[q][theirs->event] || is_ready(&s[q], done[q], theirs->event);
                }
                if (ready) done[r][i] = any = true;
            }
    }
    for (int64_t r = 0; r < nranks; r++)
        for (size_t i = 0; i < s[r].nevents; i++)
            if (!done[r][i]) return true;
    return false;
}

static weft_program *program_with_rings(weft_context *context, int64_t nranks) {
    weft_program *p;
    must_not_fail(weft_program_create(context, &p));
    for (int64_t i = 0; i < NRINGS; i++) {
        int64_t ranks[MOST_RANKS], n = 0;
        for (int64_t r = 0; r < nranks; r++)
            if (nranks == 2 || r != i) ranks[n++] = r;
        must_not_fail(weft_program_set_ring(p, i, (size_t)n, ranks));
    }
    return p;
}

static bool is_found(weft_context *context, const proof_schedule *s, const weft_program *p, int64_t nranks, arena *a) {
    static const int64_t all[] = {0, 1, 2};
    static const uint32_t class_of[] = {0, 1, 2};
    const weft_program *programs[] = {p, p, p};
    proof_class classes[MOST_RANKS];
    weft_findings found = {.context = context, .max = 10};
    arena_init(&found.arena, &context->allocator);
    for (int64_t r = 0; r < nranks; r++) must_not_fail(sequences_list(&s[r], a, &classes[r]));
    proof_ranks ranks = {.context = context,
                         .classes = classes,
                         .nclasses = (size_t)nranks,
                         .programs = programs,
                         .class_of = class_of,
                         .all = all,
                         .nranks = nranks};
    must_not_fail(check_deadlock(&ranks, &found));
    bool any = found.count > 0;
    arena_fini(&found.arena);
    return any;
}

Test(proof_deadlock, random_ranks_against_an_execution) {
    weft_context *context;
    must_not_fail(weft_context_create(NULL, &context));
    weft_program *programs[] = {program_with_rings(context, 2), program_with_rings(context, 3)};
    uint64_t state = 7;
    int nstuck = 0, nfree = 0;
    int ncases = getenv("WEFT_LONG_TESTS") ? 100000 : 2000;
    for (int i = 0; i < ncases; i++) {
        proof_schedule s[MOST_RANKS];
        int64_t nranks = 2 + draw_below(&state, 2);
        arena a;
        arena_init(&a, &context->allocator);
        for (int64_t r = 0; r < nranks; r++) {
            must_not_fail(schedule_init(&s[r], context, &a));
            make_rank(&s[r], r, nranks, &state);
        }
        bool stuck = gets_stuck(s, nranks);
        cr_assert_eq(is_found(context, s, programs[nranks - 2], nranks, &a), stuck, "case %d: an execution %s", i,
                     stuck ? "gets stuck" : "ends");
        *(stuck ? &nstuck : &nfree) += 1;
        arena_fini(&a);
    }
    cr_expect(nstuck > 200 && nfree > 200, "%d get stuck, %d do not: too few of a kind", nstuck, nfree);
    for (int i = 0; i < 2; i++) weft_program_destroy(programs[i]);
    weft_context_destroy(context);
}
