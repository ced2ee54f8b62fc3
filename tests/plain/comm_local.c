/* comm_local.c: the local engine against a naive reference: every kind, dtype and reduction on 1 to 16 ranks, out of
 * place and in place; disagreements and aborts. A plain main, because it runs under ThreadSanitizer too. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "executor/comm/comm.h"
#include "executor/comm/reduce.h"
#include "executor/comm/wait.h"
#include "executor/kernel.h"
#include "tests/support/plain.h"

enum { MOST_RANKS = 16, MOST_COUNT = 9000 };

#define REQUEST(kind_, dtype_, reduce_, root_, count_, src_, dst_, op_)                                                \
    {                                                                                                                  \
        .kind = kind_, .dtype = dtype_, .reduce = reduce_, .root = root_, .count = count_, .src = src_, .dst = dst_,   \
        .op = op_                                                                                                      \
    }

/* --- elements as doubles ------------------------------------------------------------------------------------------ */

static double load(weft_dtype dtype, const void *p, size_t i) {
    switch (dtype) {
    case WEFT_FP32: return (double)((const float *)p)[i];
    case WEFT_FP64: return ((const double *)p)[i];
    case WEFT_FP16: return (double)fp16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_BF16: return (double)bf16_to_f32(((const uint16_t *)p)[i]);
    case WEFT_INT64: return (double)((const int64_t *)p)[i];
    case WEFT_SIZE_T: return (double)((const uint64_t *)p)[i];
    case WEFT_INT32: return ((const int32_t *)p)[i];
    case WEFT_INT16: return ((const int16_t *)p)[i];
    case WEFT_INT8: return ((const int8_t *)p)[i];
    case WEFT_UINT8:
    case WEFT_BOOL: return ((const uint8_t *)p)[i];
    default: abort();
    }
}

static void store(weft_dtype dtype, void *p, size_t i, double v) {
    switch (dtype) {
    case WEFT_FP32: ((float *)p)[i] = (float)v; break;
    case WEFT_FP64: ((double *)p)[i] = v; break;
    case WEFT_FP16: ((uint16_t *)p)[i] = f32_to_fp16((float)v); break;
    case WEFT_BF16: ((uint16_t *)p)[i] = f32_to_bf16((float)v); break;
    case WEFT_INT64: ((int64_t *)p)[i] = (int64_t)v; break;
    case WEFT_SIZE_T: ((uint64_t *)p)[i] = (uint64_t)v; break;
    case WEFT_INT32: ((int32_t *)p)[i] = (int32_t)v; break;
    case WEFT_INT16: ((int16_t *)p)[i] = (int16_t)(int64_t)v; break;
    case WEFT_INT8: ((int8_t *)p)[i] = (int8_t)(int64_t)v; break;
    case WEFT_UINT8: ((uint8_t *)p)[i] = (uint8_t)(int64_t)v; break;
    case WEFT_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    default: abort();
    }
}

/* --- one case ----------------------------------------------------------------------------------------------------- */

typedef enum place { APART, IN_PLACE, OWN_PART } place;
static const char *const place_names[] = {"apart", "in place", "at its own part"};

typedef struct test_case {
    comm_kind kind;
    weft_dtype dtype;
    weft_reduce reduce;
    int64_t count;
    place place;
    int root;
} test_case;

/* The element that `rank` has at `i`: powers of two where they are multiplied, so that every result is exact. */
static double element(const test_case *c, int rank, int64_t i) {
    uint32_t h = (uint32_t)(i * 31 + rank * 17 + c->count) * 2654435761u >> 16;
    if (c->dtype == WEFT_BOOL) return h % 3 == 0;
    return c->reduce == WEFT_REDUCE_PROD ? 1 + h % 2 : h % 6;
}

static double reduced(const test_case *c, int nranks, int64_t i) {
    double acc = element(c, 0, i);
    for (int r = 1; r < nranks; r++) {
        double v = element(c, r, i);
        switch (c->reduce) {
        case WEFT_REDUCE_SUM:
        case WEFT_REDUCE_AVG: acc += v; break;
        case WEFT_REDUCE_MAX: acc = fmax(acc, v); break;
        case WEFT_REDUCE_MIN: acc = fmin(acc, v); break;
        case WEFT_REDUCE_PROD: acc *= v; break;
        case WEFT_REDUCE_ANY: acc = acc != 0 || v != 0; break;
        case WEFT_REDUCE_ALL: acc = acc != 0 && v != 0; break;
        }
    }
    if (c->reduce != WEFT_REDUCE_AVG) return acc;
    bool whole = c->dtype != WEFT_FP32 && c->dtype != WEFT_FP64 && c->dtype != WEFT_FP16 && c->dtype != WEFT_BF16;
    /* Floats are divided in the type that they are added in. */
    if (c->dtype == WEFT_FP64) return acc / nranks;
    return whole ? trunc(acc / nranks) : (double)((float)acc / (float)nranks);
}

static int64_t result_count(const test_case *c, int nranks) {
    return c->kind == COMM_ALL_GATHER || c->kind == COMM_ALL_TO_ALL ? c->count * nranks : c->count;
}

static int64_t source_count(const test_case *c, int nranks) {
    bool whole = c->kind == COMM_REDUCE_SCATTER || c->kind == COMM_ALL_TO_ALL || c->kind == COMM_SCATTER;
    return whole ? c->count * nranks : c->count;
}

static double expected(const test_case *c, int nranks, int rank, int64_t i) {
    switch (c->kind) {
    case COMM_ALL_REDUCE:
    case COMM_REDUCE: return reduced(c, nranks, i);
    case COMM_REDUCE_SCATTER: return reduced(c, nranks, rank * c->count + i);
    case COMM_BROADCAST: return element(c, c->root, i);
    case COMM_ALL_GATHER: return element(c, (int)(i / c->count), i % c->count);
    case COMM_ALL_TO_ALL: return element(c, (int)(i / c->count), rank * c->count + i % c->count);
    case COMM_SCATTER: return element(c, c->root, rank * c->count + i);
    default: break;
    }
    return 0;
}

typedef struct member {
    comm_world *world;
    comm_ring *ring;
    int rank, nranks;
    void *a, *b; /* room for MOST_COUNT * MOST_RANKS elements of 8 bytes */
    const test_case *cases;
    size_t ncases;
} member;

static void run_case(member *m, const test_case *c) {
    size_t es = weft_dtype_nbytes(c->dtype), own = (size_t)m->rank * (size_t)c->count * es;
    bool small_src = c->kind == COMM_ALL_GATHER;
    char *src = m->a, *dst = c->place == APART ? m->b : m->a;
    if (c->place == OWN_PART && small_src) src += own;
    if (c->place == OWN_PART && !small_src) dst += own;
    for (int64_t i = 0; i < source_count(c, m->nranks); i++) store(c->dtype, src, (size_t)i, element(c, m->rank, i));
    if (c->place == APART) memset(dst, 0x5a, (size_t)result_count(c, m->nranks) * es + 8);
    comm_request q = REQUEST(c->kind, c->dtype, c->reduce, c->root, c->count, src, dst, "test");
    weft_status status = comm_run(m->ring, &q);
    const char *where = comm_kind_name(c->kind), *type = weft_dtype_name(c->dtype), *how = reduce_name(c->reduce);
    if (status || (c->kind == COMM_REDUCE && m->rank != c->root)) {
        check(!status, "%s %s %s: %s", where, type, how, weft_status_message(status));
        weft_status_free(status);
        return;
    }
    union {
        double align;
        char bytes[16];
    } want;
    int64_t bad = -1;
    for (int64_t i = 0; i < result_count(c, m->nranks) && bad < 0; i++) {
        store(c->dtype, want.bytes, 0, expected(c, m->nranks, m->rank, i));
        if (memcmp(want.bytes, dst + (size_t)i * es, es) != 0) bad = i;
    }
    check(bad < 0, "%s %s %s, %d ranks, rank %d, count %lld, %s: element %lld is %g", where, type, how, m->nranks,
          m->rank, (long long)c->count, place_names[c->place], (long long)bad,
          load(c->dtype, dst, (size_t)(bad < 0 ? 0 : bad)));
    if (c->place == APART) {
        check((unsigned char)dst[(size_t)result_count(c, m->nranks) * es] == 0x5a, "%s wrote beyond its result", where);
    }
}

static void *run_cases(void *arg) {
    member *m = arg;
    for (size_t i = 0; i < m->ncases; i++) run_case(m, &m->cases[i]);
    return NULL;
}

static weft_status make_world(int nranks, comm_world **out) {
    static weft_allocator libc;
    comm_host host = comm_local_host(nranks);
    libc = base_libc_allocator();
    return comm_world_create(&libc, &host, out);
}

/* Runs `fn` as `nranks` threads, each with its member of ring 7. */
static void run_ranks(int nranks, void *(*fn)(void *), const test_case *cases, size_t ncases) {
    comm_world *world = NULL;
    weft_status status = make_world(nranks, &world);
    check(!status, "world of %d", nranks);
    member members[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    int64_t ranks[MOST_RANKS];
    for (int r = 0; r < nranks; r++) ranks[r] = r;
    for (int r = 0; r < nranks; r++) {
        size_t nbytes = (size_t)MOST_COUNT * (size_t)nranks * 8 + 64;
        members[r] = (member){world, NULL, r, nranks, calloc(1, nbytes), calloc(1, nbytes), cases, ncases};
        status = comm_ring_get(world, 7, nranks, ranks, r, &members[r].ring);
        check(!status, "ring of %d", nranks);
    }
    for (int r = 0; r < nranks; r++) pthread_create(&threads[r], NULL, fn, &members[r]);
    for (int r = 0; r < nranks; r++) {
        pthread_join(threads[r], NULL);
        free(members[r].a);
        free(members[r].b);
    }
    comm_world_destroy(world);
}

/* --- every kind, dtype and reduction ------------------------------------------------------------------------------ */

static size_t add_cases(test_case *out, int nranks) {
    static const weft_dtype dtypes[] = {WEFT_FP32,  WEFT_FP64, WEFT_FP16,  WEFT_BF16,   WEFT_INT64, WEFT_INT32,
                                        WEFT_INT16, WEFT_INT8, WEFT_UINT8, WEFT_SIZE_T, WEFT_BOOL};
    static const int64_t counts[] = {0, 1, 37, 5000, MOST_COUNT};
    size_t n = 0;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int kind = COMM_ALL_REDUCE; kind < COMM_BARRIER; kind++) {
            bool reduces = kind == COMM_ALL_REDUCE || kind == COMM_REDUCE || kind == COMM_REDUCE_SCATTER;
            for (int op = WEFT_REDUCE_SUM; op <= (reduces ? WEFT_REDUCE_ALL : WEFT_REDUCE_SUM); op++) {
                if (!reduce_supports(dtypes[d], (weft_reduce)op)) continue;
                for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
                    bool often = dtypes[d] == WEFT_FP32 || dtypes[d] == WEFT_BF16;
                    if (counts[k] > 37 && (!often || op != WEFT_REDUCE_SUM)) continue;
                    for (place p = APART; p <= OWN_PART; p++) {
                        bool sized = kind == COMM_ALL_GATHER || kind == COMM_REDUCE_SCATTER;
                        if (p == OWN_PART && !sized) continue;
                        out[n++] = (test_case){(comm_kind)kind, dtypes[d], (weft_reduce)op,
                                               counts[k],       p,         (int)(n % (size_t)nranks)};
                    }
                }
            }
        }
    }
    return n;
}

static void test_all_kinds(void) {
    static test_case cases[4000];
    static const int sizes[] = {1, 2, 3, 4, 8, 16};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        run_ranks(sizes[s], run_cases, cases, add_cases(cases, sizes[s]));
    }
}

/* --- the order of summation --------------------------------------------------------------------------------------- */

static float awkward(int rank, int64_t i) {
    return ldexpf(sinf((float)(i + 1) * (float)(rank + 1)), rank * 3 - 8);
}

static void *sum_in_order(void *arg) {
    member *m = arg;
    float *x = m->a, *y = m->b;
    int64_t count = 6001;
    for (int64_t i = 0; i < count; i++) x[i] = awkward(m->rank, i);
    comm_request whole = REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, count, x, y, "whole");
    weft_status status = comm_run(m->ring, &whole);
    for (int64_t at = 0; at < count && !status; at += 97) { /* other buckets, in place */
        int64_t n = count - at < 97 ? count - at : 97;
        comm_request part = REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, n, x + at, x + at, "part");
        if (m->rank == (int)(at % m->nranks)) usleep(100);
        status = comm_run(m->ring, &part);
    }
    check(!status, "%s", weft_status_message(status));
    weft_status_free(status);
    bool ordered = true;
    for (int64_t i = 0; i < count; i++) {
        float want = awkward(0, i);
        for (int r = 1; r < m->nranks; r++) want += awkward(r, i);
        ordered = ordered && memcmp(&want, &y[i], 4) == 0;
    }
    check(ordered, "rank %d of %d: not summed in ring order", m->rank, m->nranks);
    check(memcmp(x, y, (size_t)count * 4) == 0, "rank %d of %d: the bucket size shows in the result", m->rank,
          m->nranks);
    return NULL;
}

static void *nan_wins(void *arg) {
    member *m = arg;
    for (int i = 0; i < 2; i++) {
        float x = m->rank == 1 ? NAN : 1;
        comm_request q =
            REQUEST(COMM_ALL_REDUCE, WEFT_FP32, i ? WEFT_REDUCE_MAX : WEFT_REDUCE_MIN, 0, 1, &x, &x, "nan");
        weft_status status = comm_run(m->ring, &q);
        check(!status && isnan(x), "max and min of a NaN");
        weft_status_free(status);
    }
    float z[4] = {1, 2, 3, 4};
    comm_request q = REQUEST(COMM_ALL_REDUCE, WEFT_COMPLEX64, WEFT_REDUCE_AVG, 0, 2, z, z, "complex");
    weft_status status = comm_run(m->ring, &q);
    check(!status && z[0] == 1 && z[3] == 4, "mean of complex numbers");
    weft_status_free(status);
    return NULL;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static bool says(weft_status status, const char *part) {
    return strstr(weft_status_message(status), part) != NULL;
}

static void *disagree(void *arg) {
    member *m = arg;
    float x[64] = {0};
    int odd = m->rank == 2;
    comm_request variants[6][2] = {
        {REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         REQUEST(COMM_BARRIER, 0, 0, 0, 0, x, x, "b")},
        {REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         REQUEST(COMM_ALL_REDUCE, WEFT_INT32, WEFT_REDUCE_SUM, 0, 12, x, x, "b")},
        {REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_MAX, 0, 12, x, x, "b")},
        {REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 13, x, x, "b")},
        {REQUEST(COMM_BROADCAST, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         REQUEST(COMM_BROADCAST, WEFT_FP32, WEFT_REDUCE_SUM, 1, 12, x, x, "b")},
        {REQUEST(COMM_ALL_TO_ALL, WEFT_FP32, WEFT_REDUCE_SUM, 0, 12, x, x, "a"),
         REQUEST(COMM_ALL_TO_ALL, WEFT_FP32, WEFT_REDUCE_SUM, 0, 13, x, x, "b")},
    };
    for (int v = 0; v < 6; v++) {
        weft_status status = comm_run(m->ring, &variants[v][odd]);
        check(weft_status_code(status) == WEFT_RUNTIME && says(status, "ring 7") && says(status, "rank 0 asks a: ") &&
                  says(status, "rank 2 asks b: "),
              "variant %d, rank %d: \"%s\"", v, m->rank, weft_status_message(status));
        weft_status_free(status);
    }
    /* The ring is still good. */
    comm_request barrier = {.kind = COMM_BARRIER, .op = "barrier"};
    weft_status status = comm_run(m->ring, &barrier);
    check(!status, "after disagreements: %s", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static void *refuse(void *arg) {
    member *m = arg;
    float x[64] = {0};
    comm_request bad[] = {
        REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 8, x, x + 4, "overlap"),
        REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, -1, x, x, "count"),
        REQUEST(COMM_BROADCAST, WEFT_FP32, WEFT_REDUCE_SUM, 3, 8, x, x, "root"),
        REQUEST(COMM_ALL_REDUCE, WEFT_COMPLEX64, WEFT_REDUCE_MAX, 0, 8, x, x, "complex"),
        REQUEST(COMM_ALL_REDUCE, (weft_dtype)55, WEFT_REDUCE_SUM, 0, 8, x, x, "dtype"),
        REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, 8, NULL, x, "missing"),
        REQUEST(COMM_ALL_GATHER, WEFT_FP32, WEFT_REDUCE_SUM, 0, 8, x + 1, x, "shifted"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_status status = comm_run(m->ring, &bad[i]);
        check(weft_status_code(status) == WEFT_UNSUPPORTED && says(status, bad[i].op), "%s: \"%s\"", bad[i].op,
              weft_status_message(status));
        weft_status_free(status);
    }
    return NULL;
}

static int abort_at; /* set before the threads start */

static void *abort_at_nth(void *arg) {
    member *m = arg;
    float x[4] = {1, 2, 3, 4};
    for (int i = 1; i <= 6; i++) {
        if (m->rank == m->nranks - 1 && i == abort_at) {
            if (i % 2) usleep(20000); /* the others sleep already, or still spin */
            comm_world_abort(m->world, NULL);
        }
        comm_request q = REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_AVG, 0, 4, x, x, "all_reduce");
        weft_status status = comm_run(m->ring, &q);
        check(status ? weft_status_code(status) == WEFT_CANCELLED && i >= abort_at - 1 : i <= abort_at,
              "abort at %d, collective %d: \"%s\"", abort_at, i, weft_status_message(status));
        if (status) {
            weft_status_free(status);
            return NULL;
        }
    }
    check(false, "abort at %d was not seen", abort_at);
    return NULL;
}

static void test_rings(void) {
    comm_world *world = NULL;
    weft_status status = make_world(4, &world);
    check(!status, "world");
    comm_ring *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    static const int64_t low[] = {0, 1}, high[] = {2, 3}, swapped[] = {1, 0}, outside[] = {0, 4}, twice[] = {1, 1};
    check(!comm_ring_get(world, 3, 2, low, 0, &a) && !comm_ring_get(world, 3, 2, low, 1, &b) &&
              !comm_ring_get(world, 3, 2, high, 3, &c) && !comm_ring_get(world, 3, 2, swapped, 1, &d),
          "four rings");
    check(a->shared == b->shared && a->shared != c->shared && a->shared != d->shared,
          "rings are distinguished by ranks");
    check(a->index == 0 && b->index == 1 && c->index == 1 && d->index == 0, "indices");
    status = comm_ring_get(world, 3, 2, low, 2, &a);
    check(weft_status_code(status) == WEFT_NOT_FOUND && says(status, "ring 3 does not contain rank 2"), "\"%s\"",
          weft_status_message(status));
    weft_status_free(status);
    status = comm_ring_get(world, 5, 2, outside, 0, &a);
    check(says(status, "ring 5 has rank 4, the run has ranks 0 to 3"), "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    status = comm_ring_get(world, 5, 2, twice, 1, &a);
    check(says(status, "twice"), "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    comm_world_destroy(world);
}

/* --- two streams of one rank on one ring -------------------------------------------------------------------------- */

static void *wait_in_barrier(void *arg) {
    comm_request q = {.kind = COMM_BARRIER, .op = "first"};
    weft_status status = comm_run(arg, &q);
    check(weft_status_code(status) == WEFT_CANCELLED, "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static void test_busy_ring_is_refused(void) {
    comm_world *world = NULL;
    comm_ring *member_ring = NULL;
    static const int64_t ranks[] = {0, 1};
    check(!make_world(2, &world) && !comm_ring_get(world, 1, 2, ranks, 0, &member_ring), "world");
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_barrier, member_ring);
    usleep(50000);
    comm_request q = {.kind = COMM_BARRIER, .op = "second"};
    weft_status status = comm_run(member_ring, &q);
    check(says(status, "rank 0 runs second on ring 1 inside another"), "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    comm_world_abort(world, NULL);
    pthread_join(thread, NULL);
    comm_world_destroy(world);
}

int main(void) {
    test_all_kinds();
    for (int n = 2; n <= 16; n *= 2) run_ranks(n, sum_in_order, NULL, 0);
    run_ranks(3, nan_wins, NULL, 0);
    test_rings();
    run_ranks(3, disagree, NULL, 0);
    run_ranks(2, refuse, NULL, 0);
    for (abort_at = 1; abort_at <= 6; abort_at++) run_ranks(4, abort_at_nth, NULL, 0);
    test_busy_ring_is_refused();
    return report_checks();
}
