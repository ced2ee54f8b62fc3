/* send_recv.c: programs that send and receive, end to end: a pipeline of two stages, parts of tensors, one ring and
 * several; what ranks disagree on; who is missing where a peer does not come. A plain main, because ranks are threads. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/executor.h"
#include "tests/support/plain.h"
#include "weft/program.h"

enum { MOST_RANKS = 3 };

#define OP(type, in, out, attrs) "  - {" type ": {" in "}, out: {" out "}, attrs: {" attrs "}}\n"
#define VARS                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    x: {float32: [4, 6]}\n    w: {float32: [6, 6], persistable: true}\n"               \
    "    y: {float32: [4, 6]}\n    z: {float32: [4, 6]}\n    a: {float32: [4, 6]}\n    b: {float32: [4, 6]}\n"         \
    "    s: {float32: [3, 3]}\n    i: {int32: [4, 6]}\n  ops:\n"
#define MATMUL(x, y) OP("matmul_v2", "X: [" x "], \"Y\": [w]", "Out: [" y "]", "")
#define SEND(x, peer, more) OP("send_v2", "X: [" x "]", "", "ring_id: 0, peer: " peer ", use_calc_stream: true" more)
#define RECV(y, peer, more)                                                                                            \
    OP("recv_v2", "", "Out: [" y "]",                                                                                  \
       "ring_id: 0, peer: " peer ", dtype: 5, out_shape: !ints [4, 6], use_calc_stream: true" more)

typedef struct session {
    weft_context *context;
    weft_plan *plans[MOST_RANKS];
    weft_executor *executor;
    int nranks;
} session;

static weft_plan *plan_of(weft_context *context, const char *source) {
    static const char *const fetches[] = {"z"};
    weft_program *program;
    weft_plan *plan;
    weft_plan_options options = {WEFT_PLAN_OPTIONS_INIT, .fetches = fetches, .nfetches = 1};
    must(weft_program_parse(context, WEFT_FORM_YAML, source, strlen(source), NULL, 0, "p.yaml", &program));
    must(weft_plan_create(program, &options, &plan));
    weft_program_destroy(program);
    return plan;
}

static weft_status start(session *s, int nranks, const char *const *sources, double watchdog_seconds) {
    *s = (session){.nranks = nranks};
    must(weft_context_create(NULL, &s->context));
    for (int r = 0; r < nranks; r++) s->plans[r] = plan_of(s->context, sources[r]);
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1, .watchdog_seconds = watchdog_seconds,
                                     .first_step_seconds = watchdog_seconds};
    return weft_executor_create(s->context, (const weft_plan *const *)s->plans, (size_t)nranks, nranks, &options,
                                &s->executor);
}

static void stop(session *s) {
    weft_executor_destroy(s->executor);
    for (int r = 0; r < s->nranks; r++) weft_plan_destroy(s->plans[r]);
    weft_context_destroy(s->context);
}

static void fill(session *s, int rank, const char *n, int seed) {
    weft_tensor t;
    must(weft_executor_get(s->executor, rank, n, &t));
    float *x = t.data;
    for (size_t i = 0; i < t.nbytes / 4; i++) x[i] = (float)((int)(i * 7 + (size_t)seed * 13) % 11 - 5);
}

static bool same_values(const session *s, const session *t, int rank, int other) {
    weft_tensor a, b;
    must(weft_executor_get(s->executor, rank, "z", &a));
    must(weft_executor_get(t->executor, other, "z", &b));
    return a.nbytes == b.nbytes && a.nbytes == 96 && memcmp(a.data, b.data, a.nbytes) == 0;
}

/* Two stages of a chain of four products, there and back, compute what one rank computes. */
static void test_pipeline(void) {
    static const char first[] = VARS MATMUL("x", "a") SEND("a", "1", "") RECV("b", "1", "") MATMUL("b", "z");
    static const char second[] = VARS RECV("a", "0", "") MATMUL("a", "y") MATMUL("y", "b") SEND("b", "0", "")
        OP("scale", "X: [b]", "Out: [z]", "scale: 1.0");
    static const char serial[] = VARS MATMUL("x", "a") MATMUL("a", "y") MATMUL("y", "b") MATMUL("b", "z");
    session two, one;
    must(start(&two, 2, (const char *[]){first, second}, 60));
    must(start(&one, 1, (const char *[]){serial}, 60));
    fill(&one, 0, "w", 1);
    for (int r = 0; r < 2; r++) fill(&two, r, "w", 1);
    for (int step = 0; step < 20; step++) {
        fill(&two, 0, "x", step);
        fill(&one, 0, "x", step);
        must(weft_executor_run(two.executor));
        must(weft_executor_run(one.executor));
        check(same_values(&two, &one, 0, 0), "pipeline, step %d", step);
    }
    stop(&two);
    stop(&one);
}

/* Every part on its own, in any order; p_send and p_recv; a third rank that has other work on the same ring. */
static void test_parts(void) {
    static const char first[] = VARS SEND("x", "2", "") OP("partial_send", "X: [x]", "", "ring_id: 0, peer: 1, num: 3, id: 1")
        OP("p_send", "x: [x]", "", "ring_id: 0, peer: 1") OP("scale", "X: [x]", "Out: [z]", "scale: 1.0");
    static const char second[] =
        VARS OP("partial_recv", "", "Out: [z]",
                "ring_id: 0, peer: 0, num: 3, id: 2, dtype: 5, out_shape: !ints [4, 6]")
            OP("p_recv", "", "out: [y]", "ring_id: 0, peer: 0, dtype: 5");
    static const char third[] = VARS RECV("z", "0", "");
    session s;
    must(start(&s, 3, (const char *[]){first, second, third}, 60));
    fill(&s, 0, "x", 3);
    must(weft_executor_run(s.executor));
    weft_tensor x, part;
    must(weft_executor_get(s.executor, 0, "z", &x));
    must(weft_executor_get(s.executor, 1, "z", &part));
    const float *from = x.data, *to = part.data;
    bool zero = true;
    for (int i = 0; i < 16; i++) zero = zero && to[i] == 0;
    check(zero && memcmp(to + 16, from + 8, 32) == 0, "part 1 of 3 as part 2 of 3");
    check(same_values(&s, &s, 0, 2), "the whole tensor");
    stop(&s);
}

static void expect(const char *what, weft_status status, const char *expected) {
    check(status && strstr(weft_status_message(status), expected), "%s: expected \"%s\", found \"%s\"", what, expected,
          weft_status_message(status));
    weft_status_free(status);
}

static void test_refused(const char *what, const char *one, const char *other, const char *expected) {
    session s;
    weft_status status = start(&s, 2, (const char *[]){one, other}, 60);
    expect(what, status, expected);
    stop(&s);
}

static void test_disagreements(void) {
    static const char sends[] = VARS SEND("x", "1", "") SEND("x", "1", "");
    test_refused("one less", sends, VARS RECV("z", "0", ""),
                 "ring 0: ranks disagree on send 1 of rank 0 to rank 1: rank 0 runs send_v2 #1 of 24 float32, peer 1, "
                 "rank 1 runs none");
    test_refused(
        "elements", sends,
        VARS RECV("z", "0", "") OP("recv_v2", "", "Out: [s]", "peer: 0, dtype: 5, out_shape: !ints [3, 3]"),
        "on send 1 of rank 0 to rank 1: rank 0 runs send_v2 #1 of 24 float32, peer 1, rank 1 runs recv_v2 #1 of "
        "9 float32, peer 0");
    test_refused("element types", VARS SEND("x", "1", ""),
                 VARS OP("recv_v2", "", "Out: [i]", "peer: 0, dtype: 2, out_shape: !ints [4, 6]"),
                 "on send 0 of rank 0 to rank 1: rank 0 runs send_v2 #0 of 24 float32, peer 1, rank 1 runs recv_v2 #0 "
                 "of 24 int32");
    test_refused("nobody sends", VARS OP("scale", "X: [x]", "Out: [z]", "scale: 1.0"), VARS RECV("z", "0", ""),
                 "ranks disagree");
    test_refused("itself", VARS SEND("x", "0", ""), VARS RECV("z", "0", ""),
                 "expected another member of a ring of 2 ranks as peer of member 0, found 0");
}

/* Each waits for the other to receive: found by time, and both are named. */
static void test_both_send_first(void) {
    session s;
    must(start(&s, 2,
               (const char *[]){VARS SEND("x", "1", "") RECV("z", "1", ""), VARS SEND("x", "0", "") RECV("z", "0", "")},
               0.2));
    weft_status status = weft_executor_run(s.executor);
    expect("both send first", status, "for rank 1 (in send_v2 #0 on ring 0 for rank 0 (in send_v2 #0 on ring 0))");
    stop(&s);
}

static void test_late_peer(void) {
    session s = {.nranks = 2};
    weft_executor *x;
    must(weft_context_create(NULL, &s.context));
    s.plans[0] = plan_of(s.context, VARS RECV("z", "1", ""));
    s.plans[1] = plan_of(s.context, VARS OP("scale", "X: [x]", "Out: [z]", "scale: 1.0") SEND("z", "0", ""));
    weft_delay late = {.rank = 1, .op_index = 0, .seconds = 20};
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .watchdog_seconds = 0.2, .first_step_seconds = 0.2,
                                     .delays = &late, .ndelays = 1};
    must(weft_executor_create(s.context, (const weft_plan *const *)s.plans, 2, 2, &options, &x));
    s.executor = x;
    expect("a peer that is late", weft_executor_run(x), "rank 0, recv_v2 #0, ring 0: waited");
    stop(&s);
}

int main(void) {
    test_pipeline();
    test_parts();
    test_disagreements();
    test_both_send_first();
    test_late_peer();
    return report_checks();
}
