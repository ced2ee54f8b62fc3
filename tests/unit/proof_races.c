/* proof_races.c: races in programs by hand, each with a twin that is right; random schedules against a closure over all
 * pairs of launches, which knows nothing of clocks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/checks/checks.h"
#include "tests/support/draw.h"
#include "tests/support/judge.h"

/* --- programs ----------------------------------------------------------------------------------------------------- */

#define VARS                                                                                                           \
    "weft: 1\nrank: -1\nrings: {0: [0, 1]}\nblocks:\n- vars:\n"                                                        \
    "    x: {float32: [4], need_check_feed: true}\n    g: {float32: [4]}\n    h: {float32: [4]}\n"                     \
    "    f: {float32: [128]}\n    a: {float32: [4]}\n    b: {float32: [4]}\n    y: {float32: [4]}\n  ops:\n"
#define MAKE(var, dist) "  - {scale: {X: x}, out: {Out: " var "}, attrs: {scale: 2.0}" dist "}\n"
#define REDUCE(var, dist)                                                                                              \
    "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0, use_calc_stream: true}" dist "}\n"
#define USE(var, dist) "  - {relu: {X: " var "}, out: {Out: y}" dist "}\n"
#define COALESCE                                                                                                       \
    "  - {coalesce_tensor: {Input: [a, b]}, out: {Output: [a, b], FusedOutput: f}, attrs: {dtype: 5, align_size: "     \
    "256, "                                                                                                            \
    "use_align: true}}\n"
#define WAIT(op) "  - {" op ": {}, attrs: {ring_id: 0}}\n"
#define RING(var)                                                                                                      \
    "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0, use_calc_stream: false}}\n"

static const struct {
    const char *what, *text, *in_order, *by_name;
} cases[] = {
    {"waits on both sides",
     VARS MAKE("g", ", dist: {record: e}") REDUCE("g", ", dist: {stream: s, wait: [e], record: r}")
         USE("g", ", dist: {wait: [r]}"),
     "safe", "safe"},
    {"no wait before the reduce",
     VARS MAKE("g", "") REDUCE("g", ", dist: {stream: s, record: r}") USE("g", ", dist: {wait: [r]}"), "race", "safe"},
    {"no wait behind it",
     VARS MAKE("g", ", dist: {record: e}") REDUCE("g", ", dist: {stream: s, wait: [e]}") USE("g", ""), "race", "safe"},
    {"a wait for the wrong event",
     VARS MAKE("g", ", dist: {record: e}") MAKE("h", ", dist: {record: k}")
         REDUCE("h", ", dist: {stream: s, wait: [e], record: r}") USE("h", ", dist: {wait: [r]}"),
     "race", "safe"},
    {"a later event of the stream covers it",
     VARS MAKE("g", "") MAKE("h", ", dist: {record: e}") REDUCE("g", ", dist: {stream: s, wait: [e], record: r}")
         USE("g", ", dist: {wait: [r]}"),
     "safe", "safe"},
    {"the event was recorded before the work",
     VARS MAKE("h", ", dist: {record: e}") MAKE("g", "") REDUCE("g", ", dist: {stream: s, wait: [e], record: r}")
         USE("g", ", dist: {wait: [r]}"),
     "race", "safe"},
    {"c_wait_compute before, c_wait_comm behind",
     VARS MAKE("g", "") WAIT("c_wait_compute") RING("g") WAIT("c_wait_comm") USE("g", ""), "safe", "safe"},
    {"c_wait_compute behind the reduce",
     VARS MAKE("g", "") RING("g") WAIT("c_wait_compute") WAIT("c_wait_comm") USE("g", ""), "race", "safe"},
    {"c_wait_* where the reduce is on another stream",
     VARS MAKE("g", "") WAIT("c_wait_compute") REDUCE("g", ", dist: {stream: s}") WAIT("c_wait_comm") USE("g", ""),
     "race race", "safe"},
    {"the host waits for the reduce",
     VARS MAKE("g", ", dist: {record: e}")
         REDUCE("g", ", dist: {stream: s, wait: [e]}") "  - {c_sync_comm_stream: {X: g}, out: {Out: g}, attrs: "
                                                       "{ring_id: 0}, dist: {stream: s}}\n" USE("g", ""),
     "safe", "safe"},
    {"the host waits for the wrong stream",
     VARS MAKE("g", ", dist: {record: e}")
         REDUCE("g", ", dist: {stream: s, wait: [e]}") "  - {c_sync_comm_stream: {X: h}, out: {Out: h}, attrs: "
                                                       "{ring_id: 0}}\n" USE("g", ""),
     "race", "safe"},
    {"a bucket: the reduce waits for its last producer",
     VARS COALESCE MAKE("a", "") MAKE("b", ", dist: {record: e}")
         REDUCE("f", ", dist: {stream: s, wait: [e], record: r}") USE("a", ", dist: {wait: [r]}"),
     "safe", "race"},
    {"a bucket: nobody waits",
     VARS COALESCE MAKE("a", "") MAKE("b", "") REDUCE("f", ", dist: {stream: s}") USE("b", ""), "race race", "race"},
    {"other bytes of one buffer",
     VARS COALESCE MAKE(
         "a", ", dist: {record: e}") "  - {assign: {X: a}, out: {Out: h}, dist: {stream: s, wait: [e]}}\n" MAKE("b",
                                                                                                                ""),
     "safe", "safe"},
    {"fetched before the reduce is complete",
     VARS MAKE("g", ", dist: {record: e}") REDUCE("g", ", dist: {stream: s, wait: [e]}") "  - {fetch: {X: g}}\n",
     "race", "safe"},
    {"fetched behind it",
     VARS MAKE("g", ", dist: {record: e}")
         REDUCE("g", ", dist: {stream: s, wait: [e], record: r}") "  - {fetch: {X: g}, dist: {wait: [r]}}\n",
     "safe", "safe"},
    {"an event recorded again before it is waited for",
     VARS MAKE("g", ", dist: {stream: t, record: e}") MAKE("h", ", dist: {record: e}")
         REDUCE("g", ", dist: {stream: s, wait: [e], record: r}") USE("g", ", dist: {wait: [r]}"),
     "race race", "safe"},
    {"an event each",
     VARS MAKE("g", ", dist: {stream: t, record: e}") MAKE("h", ", dist: {record: k}")
         REDUCE("g", ", dist: {stream: s, wait: [e], record: r}") USE("g", ", dist: {wait: [r]}"),
     "safe", "safe"},
    {"an event that nobody records", VARS MAKE("g", "") REDUCE("g", ", dist: {wait: [e]}"), "invalid_program",
     "invalid_program"},
};

Test(proof_races, programs_by_hand) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int reading = 0; reading < 2; reading++) {
            weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT,
                                     .reading = reading ? WEFT_READING_BY_NAME : WEFT_READING_IN_ORDER};
            char *found = judge(cases[i].text, NULL, &o);
            const char *expected = reading ? cases[i].by_name : cases[i].in_order;
            cr_expect_str_eq(found, expected, "%s, %s: expected %s, found %s", cases[i].what,
                             weft_reading_name(o.reading), expected, found);
            free(found);
        }
        char *found = judge(cases[i].text, NULL,
                            &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_BYTES});
        if (strcmp(cases[i].in_order, "invalid_program") != 0)
            cr_expect_str_eq(found, "safe", "%s, by_bytes: found %s", cases[i].what, found);
        free(found);
    }
}

Test(proof_races, a_race_is_told_with_ops_bytes_and_remedy) {
    char *message = judge_message(cases[1].text, NULL,
                                  &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER});
    cr_expect_str_eq(message,
                     "scale #0 on stream compute writes \"g\", c_allreduce_sum #1 on stream s reads \"g\": bytes 0 to "
                     "16 of \"g\", and nothing orders the two (rank 0)");
    free(message);
}

#define BOTH MAKE("g", "") MAKE("h", ", dist: {record: e}")
#define APART                                                                                                          \
    BOTH REDUCE("g", ", dist: {stream: s, wait: [e]}") REDUCE("h", ", dist: {stream: t, wait: [e], record: r}")        \
        USE("g", ", dist: {wait: [r]}")

/* The reduce of h is complete only when rank 1 has reduced g. */
Test(proof_races, other_ranks_order_too) {
    static const char first[] = VARS APART, second[] = VARS BOTH REDUCE("g", "") REDUCE("h", "") USE("g", "");
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER};
    char *in_order = judge(first, second, &o), *apart = judge(first, NULL, &o);
    cr_expect_str_eq(in_order, "safe");
    cr_expect_str_eq(apart, "race");
    free(in_order);
    free(apart);
}

/* Programs that differ in what no race depends on are looked at once, and told each. */
Test(proof_races, ranks_that_move_alike) {
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER};
    for (size_t i = 0; i < 2; i++) {
        const char *expected = i ? "race race" : "safe";
        char *other = strdup(cases[i].text);
        for (char *at = other; (at = strstr(at, "scale: 2.0")) != NULL; at++) memcpy(at, "scale: 3.0", 10);
        char *found = judge(cases[i].text, other, &o);
        cr_expect_str_eq(found, expected, "expected %s, found %s", expected, found);
        free(found);
        free(other);
    }
}

#define ASYNC(var, ring)                                                                                               \
    "  - {all_reduce: {x: " var "}, out: {out: " var "}, attrs: {ring_id: " ring ", async_op: true}}\n"
#define WAIT_FOR(var, dist) "  - {wait_tensor: {X: " var "}, out: {Out: " var "}" dist "}\n"

/* Of a bucket's members each is waited for by itself, and a wait can record an event. */
Test(proof_races, a_wait_for_a_value) {
#define STARTED VARS COALESCE MAKE("a", "") MAKE("b", "") ASYNC("a", "0") ASYNC("b", "1")
    static const struct {
        const char *text, *expected;
    } waits[] = {{STARTED WAIT_FOR("a", "") USE("a", ""), "safe"},
                 {STARTED WAIT_FOR("b", "") USE("a", ""), "race"},
                 {STARTED WAIT_FOR("f", "") USE("a", "") USE("b", ""), "safe"},
                 {STARTED WAIT_FOR("a", ", dist: {stream: s, record: w}") USE("a", ", dist: {wait: [w]}"), "safe"},
                 {STARTED WAIT_FOR("a", ", dist: {stream: s}") USE("a", ""), "race"}};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        char *found = judge(waits[i].text, NULL,
                            &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER});
        cr_expect_str_eq(found, waits[i].expected, "%zu: expected %s, found %s", i, waits[i].expected, found);
        free(found);
    }
}

/* Only one order of launches is usual; worker pools allow others. */
Test(proof_races, any_order_of_launches) {
    static const char program[] =
        VARS COALESCE MAKE("a", "") MAKE("b", "") "  - {nop: {X: b}, out: {Out: f}, dist: {stream: s}}\n" REDUCE(
            "f", ", dist: {stream: s}") "  - {nop: {X: f}, out: {Out: [a, b]}, dist: {stream: s}}\n" USE("a", "");
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME};
    char *usual = judge(program, NULL, &o);
    o.launch_any = true;
    char *any = judge(program, NULL, &o);
    cr_expect_str_eq(usual, "safe");
    cr_expect_str_eq(any, "race");
    free(usual);
    free(any);
}

/* --- schedules at random ------------------------------------------------------------------------------------------ */

enum { MOST_EVENTS = 10, MOST_NODES = 2 * MOST_EVENTS };

static void must_not_fail(weft_status status) {
    cr_assert_null(status, "%s", weft_status_message(status));
}

static void make_schedule(proof_schedule *s, uint64_t *r) {
    uint32_t id, nstreams = 1 + draw_below(r, 4), nbuffers = 1 + draw_below(r, 3), n = 1 + draw_below(r, MOST_EVENTS);
    for (uint32_t t = 1; t < nstreams; t++)
        must_not_fail(schedule_stream(s, (const char *[]){"s1", "s2", "s3"}[t - 1], &id));
    for (uint32_t b = 0; b < nbuffers; b++) must_not_fail(schedule_buffer(s, "buffer", false, &id));
    s->joins_steps = draw_below(r, 2);
    s->launches_freely = draw_below(r, 2);
    for (uint32_t i = 0; i < n; i++) {
        must_not_fail(schedule_event(s, NULL, i, draw_below(r, nstreams), &id));
        s->events[i].blocks_host = draw_below(r, 8) == 0;
        for (unsigned k = draw_below(r, 3); k > 0; k--) {
            int64_t begin = draw_below(r, 6);
            proof_access x = {.name = "v", .begin = begin, .buffer = draw_below(r, nbuffers)};
            x.end = begin + 1 + draw_below(r, 4);
            x.is_write = draw_below(r, 2);
            must_not_fail(schedule_access(s, &x));
        }
        for (unsigned k = draw_below(r, 3); k > 0; k--)
            must_not_fail(schedule_wait(s, draw_below(r, 4) || !i ? draw_below(r, n) : draw_below(r, i)));
    }
    must_not_fail(schedule_end(s));
}

/* before[x][y]: launch x is complete before y starts. Nodes are launches of two steps. */
static void close_over(const proof_schedule *s, bool before[MOST_NODES][MOST_NODES]) {
    size_t n = s->nevents;
    memset(before, 0, sizeof(bool[MOST_NODES][MOST_NODES]));
    for (size_t y = 0; y < 2 * n; y++) {
        const proof_event *e = &s->events[y % n];
        for (size_t x = 0; x < y; x++) {
            const proof_event *d = &s->events[x % n];
            before[x][y] |= d->stream == e->stream;
            before[x][y] |= d->blocks_host && !s->launches_freely;
            before[x][y] |= s->joins_steps && x < n && y >= n;
        }
        for (size_t k = 0; k < proof_nwaits(s, y % n); k++) {
            size_t x = s->waits[e->first_wait + k];
            if (y >= n && x < y % n) x += n; /* the latest launch before this one */
            if (x < y) before[x][y] = true;
        }
    }
    for (size_t k = 0; k < 2 * n; k++)
        for (size_t x = 0; x < 2 * n; x++)
            for (size_t y = 0; y < 2 * n; y++) before[x][y] |= before[x][k] && before[k][y];
}

static bool conflict(const proof_schedule *s, size_t x, size_t y) {
    for (size_t i = 0; i < proof_naccesses(s, x); i++)
        for (size_t k = 0; k < proof_naccesses(s, y); k++) {
            const proof_access *a = &s->accesses[s->events[x].first_access + i];
            const proof_access *b = &s->accesses[s->events[y].first_access + k];
            if (a->buffer == b->buffer && a->begin < b->end && b->begin < a->end && (a->is_write || b->is_write))
                return true;
        }
    return false;
}

/* Each finding is a race, and each launch that races with an earlier one is in a finding. */
static bool compare(const proof_schedule *s, const weft_findings *found) {
    static bool before[MOST_NODES][MOST_NODES];
    bool races[MOST_EVENTS][MOST_EVENTS] = {{false}}, is_later[MOST_EVENTS] = {false},
         is_reported[MOST_EVENTS] = {false};
    size_t n = s->nevents;
    close_over(s, before);
    for (size_t y = 0; y < 2 * n; y++)
        for (size_t x = 0; x < y && x < n; x++)
            if (!before[x][y] && conflict(s, x, y % n)) races[x][y % n] = races[y % n][x] = is_later[y % n] = true;
    for (size_t i = 0; i < weft_findings_count(found); i++) {
        const weft_finding *f = weft_finding_at(found, i);
        if (f->nops != 2 || !races[f->ops[0].index][f->ops[1].index]) return false;
        is_reported[f->ops[0].index] = is_reported[f->ops[1].index] = true;
    }
    for (size_t i = 0; i < n; i++)
        if (is_later[i] && !is_reported[i]) return false;
    return true;
}

Test(proof_races, random_schedules_against_a_closure) {
    weft_context *context;
    must_not_fail(weft_context_create(NULL, &context));
    uint64_t state = 42;
    int nracy = 0, nsafe = 0;
    int ncases = getenv("WEFT_LONG_TESTS") ? 100000 : 3000;
    for (int i = 0; i < ncases; i++) {
        weft_findings found = {.context = context, .max = 100};
        proof_schedule s;
        arena a;
        arena_init(&a, &context->allocator);
        arena_init(&found.arena, &context->allocator);
        must_not_fail(schedule_init(&s, context, &a));
        make_schedule(&s, &state);
        must_not_fail(check_races(&s, 0, &found));
        cr_assert(compare(&s, &found), "schedule %d: the closure and the clocks do not agree", i);
        *(found.count ? &nracy : &nsafe) += 1;
        arena_fini(&found.arena);
        arena_fini(&a);
    }
    cr_expect(nracy > 300 && nsafe > 300, "%d race, %d do not: too few of a kind", nracy, nsafe);
    weft_context_destroy(context);
}
