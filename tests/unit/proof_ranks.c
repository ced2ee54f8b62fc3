/* proof_ranks.c: ranks and classes that are looked at as one: what is said of them names each as it is. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "proof/checks/alike.h"
#include "tests/support/must.h"
#include "weft/verify.h"

enum { MOST_RANKS = 4 };

static weft_context *context;

static weft_program *make(int rank, const char *members, const char *ops) {
    char text_[2048];
    weft_program *p;
    snprintf(text_, sizeof text_,
             "weft: 1\nrank: %d\nrings: {0: %s}\nblocks:\n- vars:\n    x: {float32: [4], need_check_feed: true}\n"
             "    g: {float32: [4]}\n    h: {float32: [4]}\n    w: {float32: [8]}\n    a: {float32: [4]}\n"
             "    b: {float32: [4]}\n    f: {float32: [128]}\n  ops:\n%s",
             rank, members, ops);
    must(weft_program_parse(context, WEFT_FORM_YAML, text_, strlen(text_), NULL, 0, "ranks.yaml", &p));
    return p;
}

#define PRIVATE "  - {relu: {X: x}, out: {Out: h}}\n"
#define MAKE "  - {scale: {X: x}, out: {Out: g}, attrs: {scale: 2.0}}\n"
#define WIDE "  - {fill_constant: {}, out: {Out: w}, attrs: {shape: !longs [8], dtype: 5}}\n"
#define SUM(var)                                                                                                       \
    "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0, use_calc_stream: true}}\n"
#define ON_STREAM                                                                                                      \
    "  - {c_allreduce_sum: {X: g}, out: {Out: g}, attrs: {ring_id: 0, use_calc_stream: true}, dist: {stream: s}}\n"

#define MADE "  - {scale: {X: x}, out: {Out: g}, attrs: {scale: 2.0}, dist: {record: e}}\n"
#define BEHIND(dist)                                                                                                   \
    "  - {c_allreduce_sum: {X: g}, out: {Out: g}, attrs: {ring_id: 0, use_calc_stream: true}, dist: {stream: s, "      \
    "wait: [e]" dist "}}\n"
#define RECORD                                                                                                         \
    "  - {fill_constant: {}, out: {Out: w}, attrs: {shape: !longs [8], dtype: 5}, dist: {stream: s, record: r}}\n"
#define USE(event) "  - {relu: {X: g}, out: {Out: h}, dist: {wait: [" event "]}}\n"
#define BUCKET                                                                                                         \
    "  - {coalesce_tensor: {Input: [a, b]}, out: {Output: [a, b], FusedOutput: f}, attrs: {dtype: 5, align_size: "     \
    "256, use_align: true}}\n"
#define INTO(var, dist) "  - {scale: {X: x}, out: {Out: " var "}, attrs: {scale: 2.0}" dist "}\n"
#define S ", dist: {stream: s}"

/* Messages of all findings, one a line. */
static char *judge_ranks(const char *const *rings, const char *const *ops, int n) {
    weft_program *programs[MOST_RANKS];
    weft_findings *found;
    size_t nbytes = 0;
    char *message = calloc(1, 16384);
    for (int r = 0; r < n; r++) programs[r] = make(r, rings[r], ops[r]);
    must(weft_verify((const weft_program *const *)programs, (size_t)n, NULL, &found));
    for (size_t i = 0; i < weft_findings_count(found); i++)
        nbytes += (size_t)snprintf(message + nbytes, 16384 - nbytes, "%s\n", weft_finding_at(found, i)->message);
    weft_findings_destroy(found);
    for (int r = 0; r < n; r++) weft_program_destroy(programs[r]);
    return message;
}

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_ranks, .init = set_up, .fini = tear_down);

/* By the list of each the other is the first, so neither compares. */
Test(proof_ranks, two_lists_of_members) {
    static const char *const rings[] = {"[1, 0]", "[0, 1]"}, *const equal[] = {"[1, 0]", "[1, 0]"};
    static const char *const ops[] = {MAKE SUM("g"), MAKE SUM("g")};
    char *differ = judge_ranks(rings, ops, 2), *agree = judge_ranks(equal, ops, 2);
    cr_expect(strstr(differ, "do not agree on the list of its ranks"), "%s", differ);
    cr_expect_str_eq(agree, "");
    free(differ);
    free(agree);
}

/* A rank that is in no list but its own. */
Test(proof_ranks, a_list_that_leaves_one_out) {
    static const char *const rings[] = {"[0, 1]", "[0, 1]", "[0, 1, 2]"};
    static const char *const ops[] = {MAKE SUM("g"), MAKE SUM("g"), MAKE SUM("g")};
    char *found = judge_ranks(rings, ops, 3);
    cr_expect(strstr(found, "ranks 2 and 0 do not agree"), "%s", found);
    free(found);
}

/* Ranks 1 and 2 move alike; what is reported of rank 2 is reported of its own ops. */
Test(proof_ranks, findings_name_the_ops_of_their_rank) {
    static const char *const rings[] = {"[0, 1, 2]", "[0, 1, 2]", "[0, 1, 2]"};
    static const char *const ops[] = {MAKE SUM("g"), WIDE SUM("w"), PRIVATE WIDE SUM("w")};
    char *found = judge_ranks(rings, ops, 3);
    cr_expect(strstr(found, "c_allreduce_sum #1 on rank 1"), "%s", found);
    cr_expect(strstr(found, "c_allreduce_sum #2 on rank 2"), "%s", found);
    free(found);
}

Test(proof_ranks, races_are_told_of_each) {
    static const char *const rings[] = {"[0, 1]", "[0, 1]"};
    static const char *const ops[] = {MAKE ON_STREAM, PRIVATE MAKE ON_STREAM};
    char *found = judge_ranks(rings, ops, 2);
    cr_expect(strstr(found, "scale #0 on stream compute") && strstr(found, "(rank 0)"), "%s", found);
    cr_expect(strstr(found, "scale #1 on stream compute") && strstr(found, "(rank 1)"), "%s", found);
    free(found);
}

/* What no other stream touches may differ; what one does may not, nor may waits, streams or collectives. */
Test(proof_ranks, alike) {
    static const char *const like[] = {MAKE ON_STREAM, PRIVATE MAKE ON_STREAM, MAKE ON_STREAM PRIVATE PRIVATE};
    static const char *const unlike[] = {MAKE ON_STREAM, MAKE MAKE ON_STREAM, MAKE SUM("g"),
                                         MAKE ON_STREAM "  - {relu: {X: g}, out: {Out: h}, dist: {stream: s}}\n"};
    /* Waits for others, though as many; bytes of the same buffer. */
    static const char *const waits[] = {MADE BEHIND(", record: r") USE("r"), MADE BEHIND(", record: r") USE("e"),
                                        MADE BEHIND("") RECORD USE("r"), MADE RECORD BEHIND("") USE("r")};
    static const char *const bytes[] = {BUCKET INTO("a", "") INTO("b", S), BUCKET INTO("a", "") INTO("a", S),
                                        BUCKET INTO("b", "") INTO("b", S), BUCKET INTO("b", "") INTO("a", S)};
    const char *const *sets[] = {like, unlike, waits, bytes};
    for (size_t set = 0; set < 4; set++) {
        weft_program *programs[MOST_RANKS];
        proof_schedule schedules[MOST_RANKS];
        proof_class classes[MOST_RANKS];
        weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER};
        size_t n = set ? 4 : 3;
        uint32_t *first, *with_ops;
        arena a;
        arena_init(&a, &context->allocator);
        for (size_t i = 0; i < n; i++) {
            programs[i] = make(0, "[0, 1]", sets[set][i]);
            must(schedule_from_program(programs[i], &o, &a, &schedules[i]));
            classes[i] = (proof_class){.schedule = &schedules[i]};
        }
        must(alike_in_motion(classes, n, false, &a, &first));
        must(alike_in_motion(classes, n, true, &a, &with_ops));
        for (uint32_t i = 0; i < n; i++) {
            cr_expect_eq(first[i], set ? i : 0, "set %zu: program %u is like %u", set, i, first[i]);
            cr_expect_eq(with_ops[i], set || i == 1 ? i : 0, "set %zu: ops of %u are like %u", set, i, with_ops[i]);
        }
        arena_fini(&a);
        for (size_t i = 0; i < n; i++) weft_program_destroy(programs[i]);
    }
}
