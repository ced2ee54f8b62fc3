/* comm_programs.c: programs with each kind of collective, end to end: what the recorded processes computed with tensors
 * and with lists, asynchronous and not; parts of different sizes; several tensors at once; ranks that disagree. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/executor.h"
#include "tests/support/comm_conformance.h"
#include "tests/support/fixtures.h"
#include "tests/support/npz.h"
#include "tests/support/plain.h"
#include "weft/program.h"

enum { MOST_RANKS = 4 };

static const device_engine *device_at_hand;   /* NULL: cpu */
static const char *rings_at_hand;             /* NULL: the device's */
static comm_host (*host_at_hand)(int nranks); /* NULL: the default */

#define OP(type, in, out, attrs) "  - {" type ": {" in "}, out: {" out "}, attrs: {" attrs "}}\n"
#define WAIT(x, y) OP("wait_tensor", "X: [" x "]", "Out: [" y "]", "")
#define TWICE(x, y) OP("scale", "X: [" x "]", "Out: [" y "]", "scale: 2.0")
#define SPLIT OP("aten_split", "self: [y]", "out: [p, q]", "split_size: !longs [2]")
#define ASYNC "async_op: %s"

/* --- a run -------------------------------------------------------------------------------------------------------- */

typedef struct session {
    weft_context *context;
    weft_plan *plans[MOST_RANKS];
    weft_executor *executor;
    comm_host host;
    int nranks;
} session;

static weft_plan *plan_of(weft_context *context, const char *source, const char *const *fetches, size_t nfetches) {
    weft_program *program;
    weft_plan *plan;
    weft_plan_options options = {WEFT_PLAN_OPTIONS_INIT, .fetches = fetches, .nfetches = nfetches};
    must(weft_program_parse(context, WEFT_FORM_YAML, source, strlen(source), NULL, 0, "p.yaml", &program));
    must(weft_plan_create(program, &options, &plan));
    weft_program_destroy(program);
    return plan;
}

/* Rank r runs sources[r]. */
static weft_status start(session *s, int nranks, const char *const *sources, const char *const *fetches,
                         size_t nfetches) {
    *s = (session){.nranks = nranks};
    must(weft_context_create(NULL, &s->context));
    for (int r = 0; r < nranks; r++) s->plans[r] = plan_of(s->context, sources[r], fetches, nfetches);
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1, .watchdog_seconds = 60};
    if (device_at_hand) {
        must(device_register(s->context, device_at_hand));
        options.device = device_at_hand->name;
        options.rings = rings_at_hand;
    }
    if (host_at_hand) {
        s->host = host_at_hand(nranks);
        options.host = &s->host;
    }
    return weft_executor_create(s->context, (const weft_plan *const *)s->plans, (size_t)nranks, nranks, &options,
                                &s->executor);
}

static void stop(session *s) {
    weft_executor_destroy(s->executor);
    for (int r = 0; r < s->nranks; r++) weft_plan_destroy(s->plans[r]);
    weft_context_destroy(s->context);
}

static const float *values_of(const session *s, int rank, const char *n, size_t *out_count) {
    weft_tensor t;
    must(weft_executor_get(s->executor, rank, n, &t));
    *out_count = t.nbytes / sizeof(float);
    return t.data;
}

static void give_values(const session *s, int rank, const char *n, const float *values) {
    weft_tensor t;
    must(weft_executor_get(s->executor, rank, n, &t));
    t.data = (void *)values;
    must(weft_executor_set(s->executor, rank, n, &t));
}

/* --- what was recorded -------------------------------------------------------------------------------------------- */

#define VARS                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    x: {float32: [4, 6]}\n    y: {float32: [4, 6]}\n    p: {float32: [2, 6]}\n"        \
    "    q: {float32: [2, 6]}\n    r: {float32: [-1, 6]}\n    s: {float32: [-1, 6]}\n    v: {float32: [-1, 6]}\n"      \
    "    w: {float32: [-1, 6]}\n    z0: {float32: [-1, 6]}\n    z1: {float32: [-1, 6]}\n  ops:\n"                      \
    "  - {elementwise_add: {X: [x], \"Y\": [x]}, out: {Out: [y]}}\n"
#define ONE_RESULT WAIT("r", "v") TWICE("v", "z0")
#define TWO_RESULTS WAIT("r", "v") TWICE("v", "z0") WAIT("s", "w") TWICE("w", "z1")

static const struct {
    const char *kind, *program;
    int nresults;
} recorded[] = {
    {"all_reduce", VARS OP("all_reduce", "x: [y]", "out: [r]", ASYNC) ONE_RESULT, 1},
    {"all_gather", VARS OP("all_gather_list", "x: [y]", "out: [r, s]", ASYNC) TWO_RESULTS, 2},
    {"all_gather_into_tensor", VARS OP("all_gather", "x: [y]", "out: [r]", "nranks: 2, " ASYNC) ONE_RESULT, 1},
    {"reduce_scatter", VARS SPLIT OP("reduce_scatter_list", "x: [p, q]", "out: [r]", ASYNC) ONE_RESULT, 1},
    {"reduce_scatter_tensor", VARS OP("reduce_scatter", "x: [y]", "out: [r]", "nranks: 2, " ASYNC) ONE_RESULT, 1},
    {"broadcast", VARS OP("broadcast", "x: [y]", "out: [r]", ASYNC) ONE_RESULT, 1},
    {"scatter", VARS SPLIT OP("scatter_list", "x: [p, q]", "out: [r]", "root: 0, " ASYNC) ONE_RESULT, 1},
    {"all_to_all", VARS SPLIT OP("all_to_all_list", "x: [p, q]", "out: [r, s]", ASYNC) TWO_RESULTS, 2},
    {"all_to_all_single", VARS OP("all_to_all", "x: [y]", "out: [r]", ASYNC) ONE_RESULT, 1},
};

static const npz_array *array_of(const npz *z, char set, int rank, const char *what) {
    char n[64];
    snprintf(n, sizeof n, "%c.rank%d.%s", set, rank, what);
    return npz_find(z, "", n);
}

static void compare(const session *s, const npz *z, char set, const char *kind, int nresults) {
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < nresults; k++) {
            char what[16], n[16];
            size_t count, nwrong = 0;
            snprintf(what, sizeof what, "out.%d", k);
            snprintf(n, sizeof n, "z%d", k);
            const npz_array *want = array_of(z, set, r, what);
            const float *got = values_of(s, r, n, &count), *expected = want ? want->data : NULL;
            bool same = want && count == (size_t)want->numel;
            for (size_t i = 0; same && i < count; i++)
                nwrong += !(fabsf(got[i] - expected[i]) <= 1e-6f * (1 + fabsf(expected[i])));
            check(same && !nwrong, "%s, inputs %c, rank %d, output %d: %zu elements, %zu wrong", kind, set, r, k, count,
                  nwrong);
        }
}

static void run_recorded(const npz *z, const char *kind, const char *program, int nresults, const char *async) {
    static const char *const fetches[] = {"z0", "z1"};
    char source[2000];
    session s;
    snprintf(source, sizeof source, program, async);
    must(start(&s, 2, (const char *[]){source, source}, fetches, (size_t)nresults));
    check(s.plans[0]->nstreams == (async[0] == 't' ? 2 : 1), "%s: %d streams", kind, s.plans[0]->nstreams);
    for (char set = 'a'; set <= 'b'; set++) {
        for (int r = 0; r < 2; r++) {
            const npz_array *x = array_of(z, set, r, "in.x");
            weft_tensor t = {.dtype = WEFT_FP32, .ndim = 2, .dims = {4, 6}, .nbytes = 96, .data = (void *)x->data};
            must(weft_executor_set(s.executor, r, "x", &t));
        }
        must(weft_executor_run(s.executor));
        compare(&s, z, set, kind, nresults);
    }
    stop(&s);
}

static void test_recorded(void) {
    weft_allocator libc = base_libc_allocator();
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
        char relative[100], path[300], why[200];
        npz z;
        snprintf(relative, sizeof relative, "torch/commtensor/%s/numeric.npz", recorded[i].kind);
        bool found = fixture_path(path, sizeof path, relative) && npz_open(&z, &libc, path, why, sizeof why);
        check(found, "%s: no recording", relative);
        if (!found) continue;
        run_recorded(&z, recorded[i].kind, recorded[i].program, recorded[i].nresults, "false");
        run_recorded(&z, recorded[i].kind, recorded[i].program, recorded[i].nresults, "true");
        npz_close(&z);
    }
}

/* --- parts of different sizes ------------------------------------------------------------------------------------- */

/* Rank i sends (i + j) % 3 rows to rank j: row r of what it has is 100 * i + r. */
static int sent(int i, int j) {
    return (i + j) % 3;
}

static void write_uneven(char *out, size_t nbytes, int i, bool as_lists) {
    size_t n = (size_t)snprintf(out, nbytes,
                                "weft: 1\nblocks:\n- vars:\n    x: {float32: [3, 2]}\n    z: {float32: [3, 2]}\n");
    for (int j = 0; as_lists && j < 3; j++)
        n += (size_t)snprintf(out + n, nbytes - n, "    a%d: {float32: [%d, 2]}\n    b%d: {float32: [%d, 2]}\n", j,
                              sent(i, j), j, sent(j, i));
    if (!as_lists)
        snprintf(out + n, nbytes - n,
                 "  ops:\n" OP("all_to_all", "x: [x]", "out: [z]",
                               "in_splits: !longs [%d, %d, %d], out_splits: !longs [%d, %d, %d], async_op: true"),
                 sent(i, 0), sent(i, 1), sent(i, 2), sent(0, i), sent(1, i), sent(2, i));
    else
        snprintf(out + n, nbytes - n,
                 "  ops:\n" OP("aten_split", "self: [x]", "out: [a0, a1, a2]", "split_size: !longs [%d, %d, %d]")
                     OP("all_to_all_list", "x: [a0, a1, a2]", "out: [b0, b1, b2]", "async_op: true")
                         OP("aten_cat", "tensors: [b0, b1, b2]", "out: [z]", ""),
                 sent(i, 0), sent(i, 1), sent(i, 2));
}

static void test_uneven(bool as_lists) {
    char sources[3][1200];
    session s;
    for (int i = 0; i < 3; i++) write_uneven(sources[i], sizeof sources[i], i, as_lists);
    must(start(&s, 3, (const char *[]){sources[0], sources[1], sources[2]}, (const char *[]){"z"}, 1));
    for (int i = 0; i < 3; i++) {
        float x[6];
        for (int r = 0; r < 3; r++) x[2 * r] = x[2 * r + 1] = (float)(100 * i + r);
        give_values(&s, i, "x", x);
    }
    must(weft_executor_run(s.executor));
    for (int j = 0; j < 3; j++) {
        size_t count, at = 0;
        const float *z = values_of(&s, j, "z", &count);
        for (int i = 0; i < 3; i++)
            for (int r = 0, first = j > 0 ? sent(i, 0) + (j > 1 ? sent(i, 1) : 0) : 0; r < sent(i, j); r++, at += 2)
                check(z[at] == (float)(100 * i + first + r) && z[at + 1] == z[at], "%s: rank %d, from %d, row %d: %g",
                      as_lists ? "lists" : "splits", j, i, r, (double)z[at]);
        check(at == count, "rank %d: %zu of %zu elements", j, at, count);
    }
    stop(&s);
}

/* --- several at once ---------------------------------------------------------------------------------------------- */

#define SEVERAL                                                                                                        \
    "weft: 1\nblocks:\n- vars:\n    a: {float32: [1]}\n    b: {float32: [5000]}\n    c: {float32: [7]}\n"              \
    "    d: {float32: [1]}\n    e: {float32: [5000]}\n    f: {float32: [7]}\n    g: {float32: [5000]}\n  ops:\n"

static void test_coalesced(void) {
    static const char *const names[] = {"d", "e", "f", "g"};
    const char *source = SEVERAL OP("all_reduce", "x: [b]", "out: [g]", "")
        OP("all_reduce_coalesced", "x: [a, b, c]", "out: [d, e, f]", "reduce_type: 0, async_op: true");
    session s;
    must(start(&s, 4, (const char *[]){source, source, source, source}, names, 4));
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 3; k++) {
            float x[5000];
            for (size_t i = 0; i < 5000; i++) x[i] = sinf((float)(i + 1) * (float)(r + 1) + (float)k);
            give_values(&s, r, (const char *[]){"a", "b", "c"}[k], x);
        }
    for (int step = 0; step < 3; step++) must(weft_executor_run(s.executor));
    for (int r = 0; r < 4; r++) {
        size_t count;
        const float *e = values_of(&s, r, "e", &count), *g = values_of(&s, r, "g", &count);
        const float *d = values_of(&s, r, "d", &count), *f = values_of(&s, r, "f", &count);
        float one = 0, last = 0;
        for (int k = 0; k < 4; k++) one += sinf((float)(k + 1));
        for (int k = 0; k < 4; k++) last += sinf(7.f * (float)(k + 1) + 2.f);
        check(memcmp(e, g, 5000 * sizeof *e) == 0, "rank %d: coalesced and alone are not the same bits", r);
        check(fabsf(*d - one) < 1e-5f && fabsf(f[6] - last) < 1e-5f, "rank %d: %g and %g", r, (double)*d, (double)f[6]);
    }
    stop(&s);
}

/* Two tensors scattered at once, and gathered, have the bits of each alone. */
static void test_scattered(void) {
    static const char *const names[] = {"p", "q", "v", "w", "r", "s", "y", "z"};
    const char *source = "weft: 1\nblocks:\n- vars:\n    a: {float32: [4, 700]}\n    b: {float32: [8, 3]}\n"
                         "    p: {float32: [1, 700]}\n    q: {float32: [2, 3]}\n    r: {float32: [1, 700]}\n"
                         "    s: {float32: [2, 3]}\n    v: {float32: [4, 700]}\n    w: {float32: [8, 3]}\n"
                         "    y: {float32: [4, 700]}\n    z: {float32: [8, 3]}\n  ops:\n" OP(
                             "reduce_scatter_coalesced", "x: [a, b]", "out: [p, q]", "nranks: 4, async_op: true")
                             OP("reduce_scatter", "x: [a]", "out: [r]", "nranks: 4")
                                 OP("reduce_scatter", "x: [b]", "out: [s]", "nranks: 4")
                                     OP("all_gather_coalesced", "x: [r, s]", "out: [v, w]", "nranks: 4")
                                         OP("all_gather", "x: [r]", "out: [y]", "nranks: 4")
                                             OP("all_gather", "x: [s]", "out: [z]", "nranks: 4");
    session s;
    must(start(&s, 4, (const char *[]){source, source, source, source}, names, 8));
    for (int r = 0; r < 4; r++) {
        float x[2800];
        for (size_t i = 0; i < 2800; i++) x[i] = sinf((float)(i + 1) * (float)(r + 1));
        give_values(&s, r, "a", x);
        give_values(&s, r, "b", x);
    }
    for (int step = 0; step < 3; step++) must(weft_executor_run(s.executor));
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 4; k++) {
            size_t n, m;
            const float *several = values_of(&s, r, names[k], &n), *alone = values_of(&s, r, names[k + 4], &m);
            check(n == m && memcmp(several, alone, n * sizeof *alone) == 0, "rank %d: %s and %s are not the same bits",
                  r, names[k], names[k + 4]);
            check(several[0] != 0, "rank %d: %s is empty", r, names[k]);
        }
    stop(&s);
}

/* --- other names of Paddle ---------------------------------------------------------------------------------------- */

/* A part of each rank's tensor, the same in place; the sum; the parts of rank 2's. */
static void test_parts(void) {
    static const char *const names[] = {"p", "q", "r", "s"};
    char sources[3][900];
    session s;
    for (int k = 0; k < 3; k++)
        snprintf(
            sources[k], sizeof sources[k],
            "weft: 1\nblocks:\n- vars:\n    x: {float32: [6, 2]}\n    p: {float32: [6, 2]}\n    q: {float32: [6, 2]}\n"
            "    r: {float32: [6, 2]}\n    s: {float32: [2, 2]}\n  ops:\n" OP("partial_allgather", "X: [x]", "Out: [p]",
                                                                              "nranks: 3, rank: %d")
                OP("scale", "X: [x]", "Out: [q]", "scale: 1.0")
                    OP("partial_allgather", "X: [q]", "Out: [q]", "nranks: 3, rank: %d")
                        OP("mp_allreduce_sum", "X: [x]", "Out: [r]", "use_calc_stream: true")
                            OP("c_scatter", "X: [x]", "Out: [s]", "root: 2, nranks: 3, use_calc_stream: true"),
            k, k);
    must(start(&s, 3, (const char *[]){sources[0], sources[1], sources[2]}, names, 4));
    for (int k = 0; k < 3; k++) {
        float x[12];
        for (int i = 0; i < 12; i++) x[i] = (float)(100 * (k + 1) + i);
        give_values(&s, k, "x", x);
    }
    must(weft_executor_run(s.executor));
    for (int k = 0; k < 3; k++) {
        size_t count;
        const float *p = values_of(&s, k, "p", &count), *q = values_of(&s, k, "q", &count);
        const float *r = values_of(&s, k, "r", &count), *part = values_of(&s, k, "s", &count);
        check(count == 4, "rank %d: a part of %zu elements", k, count);
        for (int i = 0; i < 12; i++) {
            float from = (float)(100 * (i / 4 + 1) + i);
            check(p[i] == from && q[i] == from && r[i] == (float)(600 + 3 * i), "rank %d, element %d: %g, %g, %g", k, i,
                  (double)p[i], (double)q[i], (double)r[i]);
        }
        for (int i = 0; i < 4; i++)
            check(part[i] == (float)(300 + 4 * k + i), "rank %d, element %d of its part: %g", k, i, (double)part[i]);
    }
    stop(&s);
}

/* --- refusals ----------------------------------------------------------------------------------------------------- */

static void test_refused(const char *one, const char *other, const char *expected) {
    session s;
    weft_status status = start(&s, 2, (const char *[]){one, other}, NULL, 0);
    if (!status) status = weft_executor_run(s.executor);
    check(status && strstr(weft_status_message(status), expected), "expected \"%s\", found \"%s\"", expected,
          weft_status_message(status));
    weft_status_free(status);
    stop(&s);
}

static void test_refusals(void) {
    const char *three = SEVERAL OP("all_reduce_coalesced", "x: [a, b, c]", "out: [d, e, f]", "");
    test_refused(three, SEVERAL OP("all_reduce_coalesced", "x: [b, a, c]", "out: [e, d, f]", ""),
                 "ranks disagree: rank 0 asks all_reduce_coalesced: all_reduce sum of 5008 float32, 3 tensors");
    test_refused(
        three, SEVERAL OP("all_reduce_coalesced", "x: [a, b]", "out: [d, e]", ""),
        "ranks disagree on collective 0: rank 0 runs all_reduce_coalesced #0 of 5008 float32, sum, rank 1 runs "
        "all_reduce_coalesced #0 of 5001 float32, sum");
    const char *mixed = "weft: 1\nblocks:\n- vars:\n    a: {float32: [2]}\n    b: {int32: [2]}\n  ops:\n" OP(
        "all_reduce_coalesced", "x: [a, b]", "out: [a, b]", "");
    test_refused(mixed, mixed, "expected one element type for all tensors, found float32 and int32");
    const char *few = SEVERAL OP("all_gather_list", "x: [b]", "out: [e]", "");
    test_refused(few, few, "expected an argument of out for each of the 2 ranks, found 1");
    const char *uneven = "weft: 1\nblocks:\n- vars:\n    x: {float32: [4]}\n    z: {float32: [4]}\n  ops:\n" OP(
        "all_to_all", "x: [x]", "out: [z]", "in_splits: !longs [1, 3], out_splits: !longs [1, 3]");
    const char *other = SEVERAL OP("partial_allgather", "X: [c]", "Out: [f]", "nranks: 2, rank: 1");
    test_refused(other, other, "expected part 0 of 2 of the elements, found part 1 of 2 of 7");
    test_refused(uneven, uneven,
                 "ring 0: ranks disagree on collective 0: rank 0 runs all_to_all #0 of float32 and sends 3 elements to "
                 "rank 1, which runs all_to_all #0 of float32 and takes 1");
}

void comm_programs(const device_engine *engine, const char *rings, comm_host (*host)(int nranks),
                   bool compares_requests, int *out_passed, int *out_failed) {
    device_at_hand = engine;
    rings_at_hand = rings;
    host_at_hand = host;
    npassed = nfailed = 0;
    test_recorded();
    test_uneven(false);
    test_uneven(true);
    test_coalesced();
    test_scattered();
    test_parts();
    if (compares_requests) test_refusals();
    *out_passed = npassed;
    *out_failed = nfailed;
}
