/* comm_conformance.c: what every engine does: each kind, element type, count, reduction, root and place of buffers, on
 * rings of all ranks, of some, in another order and of one, against results computed naively; parts, sends and receives,
 * disagreements, aborts, gathers. Threads play the ranks of the worlds that the engine's factory opens here. */
#include "tests/support/comm_conformance.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "executor/comm/reduce.h"
#include "executor/comm/wait.h"
#include "executor/kernel.h"
#include "tests/support/must.h"

enum { MOST_RANKS = COMM_MOST_RANKS, MOST_COUNT = 9000 };

static const comm_factory *factory;
static _Atomic int npassed, nfailed;

static void check(bool good, const char *format, ...) WEFT_PRINTF(2, 3);
static void check(bool good, const char *format, ...) {
    if (good) {
        npassed++;
        return;
    }
    nfailed++;
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("FAIL %s: %s\n", factory->name, line);
}

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
    int rank, nranks; /* index in the ring, and its members */
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

/* The world that has the rank, or NULL: it is in a process elsewhere. */
static comm_world *world_of(comm_world *const *worlds, int nworlds, int64_t rank) {
    for (int i = 0; i < nworlds; i++)
        if (rank >= worlds[i]->first_rank && rank < worlds[i]->first_rank + worlds[i]->nlocal) return worlds[i];
    return NULL;
}

/* Runs `fn` as a thread for each member of ring 7 that is here: ranks[0 .. nmembers) of `nranks`. */
static void run_ring(int nranks, int nmembers, const int64_t *ranks, void *(*fn)(void *), const test_case *cases,
                     size_t ncases) {
    comm_world *worlds[MOST_RANKS];
    member members[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    int nworlds = 0, n = 0;
    weft_status status = factory->open(factory->user, nranks, worlds, &nworlds);
    check(!status, "world of %d: %s", nranks, weft_status_message(status));
    if (status) {
        weft_status_free(status);
        return;
    }
    for (int i = 0; i < nmembers; i++) {
        comm_world *world = world_of(worlds, nworlds, ranks[i]);
        if (!world) continue;
        size_t nbytes = ((size_t)MOST_COUNT + 64) * (size_t)nmembers * 8 + 64;
        members[n] = (member){world, NULL, i, nmembers, calloc(1, nbytes), calloc(1, nbytes), cases, ncases};
        must(comm_ring_get(world, 7, nmembers, ranks, ranks[i], &members[n++].ring));
    }
    for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, fn, &members[i]);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
        free(members[i].a);
        free(members[i].b);
    }
    factory->close(factory->user, worlds, nworlds);
}

static void run_ranks(int nranks, void *(*fn)(void *), const test_case *cases, size_t ncases) {
    int64_t ranks[MOST_RANKS];
    for (int r = 0; r < nranks; r++) ranks[r] = r;
    run_ring(nranks, nranks, ranks, fn, cases, ncases);
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

static test_case cases[4000];

static void test_all_kinds(void) {
    static const int sizes[] = {1, 2, 3, 4, 8, 16};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && sizes[s] <= factory->most_ranks; s++)
        run_ranks(sizes[s], run_cases, cases, add_cases(cases, sizes[s]));
}

static void test_all_rings(void) {
    static const struct {
        int nranks, n;
        int64_t ranks[4];
    } rings[] = {{4, 4, {3, 1, 0, 2}}, {4, 3, {0, 2, 3}}, {4, 2, {3, 0}}, {4, 1, {2}}};
    for (size_t i = 0; i < sizeof rings / sizeof *rings && rings[i].nranks <= factory->most_ranks; i++)
        run_ring(rings[i].nranks, rings[i].n, rings[i].ranks, run_cases, cases, add_cases(cases, rings[i].n));
}

/* --- buffers in parts --------------------------------------------------------------------------------------------- */

static const weft_dtype part_dtypes[] = {WEFT_FP32, WEFT_FP64, WEFT_BF16, WEFT_INT64, WEFT_UINT8};
static const int64_t part_counts[] = {0, 1, 37, 2500};

/* Part k of `n` starts 8 elements behind the end of the one before it. */
static void lay_out(char *base, int64_t n, const int64_t *counts, size_t size, void **parts) {
    for (int64_t k = 0; k < n; k++) {
        parts[k] = base;
        base += (size_t)(counts[k] + 8) * size;
    }
}

static double part_element(int rank, int64_t k, int64_t i) {
    return (double)((i * 5 + k * 3 + rank * 7) % 13);
}

static void fill_parts(weft_dtype dtype, int rank, int64_t n, const int64_t *counts, void *const *parts) {
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < counts[k]; i++) store(dtype, parts[k], (size_t)i, part_element(rank, k, i));
}

/* The value of element i of part k of the result of member `rank`. */
static double part_expected(comm_kind kind, int nranks, int root, int rank, int64_t k, int64_t i) {
    double sum = 0;
    switch (kind) {
    case COMM_ALL_REDUCE:
        for (int r = 0; r < nranks; r++) sum += part_element(r, k, i);
        return sum;
    case COMM_REDUCE_SCATTER:
        for (int r = 0; r < nranks; r++) sum += part_element(r, rank, i);
        return sum;
    case COMM_ALL_GATHER: return part_element((int)k, 0, i);
    case COMM_ALL_TO_ALL: return part_element((int)k, rank, i);
    default: return part_element(root, rank, i);
    }
}

static void run_parts(member *m, comm_kind kind, weft_dtype dtype, int64_t count, bool in_place) {
    int n = m->nranks, root = n - 1;
    bool in_parts = kind != COMM_ALL_GATHER, out_parts = kind != COMM_REDUCE_SCATTER && kind != COMM_SCATTER;
    int64_t nparts = kind == COMM_ALL_REDUCE ? 3 : n, given[MOST_RANKS], got[MOST_RANKS];
    void *srcs[MOST_RANKS], *dsts[MOST_RANKS];
    size_t size = weft_dtype_nbytes(dtype);
    for (int64_t k = 0; k < nparts; k++) {
        given[k] = got[k] = kind == COMM_ALL_REDUCE ? (k == 1 ? 0 : count + k) : count;
        if (kind == COMM_ALL_TO_ALL) {
            given[k] = count + (m->rank + 2 * k) % 3;
            got[k] = count + (k + 2 * m->rank) % 3;
        }
    }
    lay_out(m->a, in_parts ? nparts : 1, given, size, srcs);
    lay_out(in_place ? m->a : m->b, out_parts ? nparts : 1, got, size, dsts);
    fill_parts(dtype, m->rank, in_parts ? nparts : 1, given, srcs);
    bool uneven = kind == COMM_ALL_REDUCE || kind == COMM_ALL_TO_ALL;
    comm_request q = {.kind = kind,
                      .dtype = dtype,
                      .root = root,
                      .count = count,
                      .src = in_parts ? NULL : srcs[0],
                      .dst = out_parts ? NULL : dsts[0],
                      .srcs = in_parts ? (const void *const *)srcs : NULL,
                      .dsts = out_parts ? dsts : NULL,
                      .src_counts = uneven ? given : NULL,
                      .dst_counts = uneven ? got : NULL,
                      .nparts = kind == COMM_ALL_REDUCE ? nparts : 0,
                      .op = "parts"};
    weft_status status = comm_run(m->ring, &q);
    bool good = !status;
    for (int64_t k = 0; good && k < (out_parts ? nparts : 1); k++)
        for (int64_t i = 0; good && i < got[k]; i++) {
            double want[2];
            store(dtype, want, 0, part_expected(kind, n, root, m->rank, k, i));
            good = memcmp(want, (char *)dsts[k] + (size_t)i * size, size) == 0;
        }
    check(good, "%s of %s in parts, %d ranks, rank %d, count %lld: %s", comm_kind_name(kind), weft_dtype_name(dtype), n,
          m->rank, (long long)count, weft_status_message(status));
    weft_status_free(status);
}

static void *all_parts(void *arg) {
    static const comm_kind kinds[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_ALL_TO_ALL,
                                      COMM_SCATTER};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t d = 0; d < sizeof part_dtypes / sizeof *part_dtypes; d++)
            for (size_t c = 0; c < sizeof part_counts / sizeof *part_counts; c++) {
                run_parts(arg, kinds[k], part_dtypes[d], part_counts[c], false);
                if (kinds[k] == COMM_ALL_REDUCE) run_parts(arg, kinds[k], part_dtypes[d], part_counts[c], true);
            }
    return NULL;
}

/* --- sends and receives ------------------------------------------------------------------------------------------- */

static void fill(weft_dtype dtype, void *p, int64_t count, int from, int to) {
    for (int64_t i = 0; i < count; i++) store(dtype, p, (size_t)i, part_element(from, to, i));
}

static bool holds(weft_dtype dtype, const void *p, int64_t count, int from, int to) {
    size_t size = weft_dtype_nbytes(dtype);
    for (int64_t i = 0; i < count; i++) {
        double want[2];
        store(dtype, want, 0, part_element(from, to, i));
        if (memcmp(want, (const char *)p + (size_t)i * size, size) != 0) return false;
    }
    return true;
}

/* Every member sends every one, itself too, two messages of different sizes and receives theirs, all in one group. */
static void run_group(member *m, weft_dtype dtype, int64_t count) {
    int n = m->nranks;
    size_t size = weft_dtype_nbytes(dtype), room = ((size_t)count + 3) * 2 * size;
    comm_request group[4 * MOST_RANKS];
    int64_t at = 0;
    for (int p = 0; p < n; p++)
        for (int k = 0; k < 2; k++) {
            char *src = (char *)m->a + (size_t)p * room + (k ? ((size_t)count + 1) * size : 0);
            char *dst = (char *)m->b + (size_t)p * room + (k ? ((size_t)count + 1) * size : 0);
            fill(dtype, src, count + k, m->rank, p + k);
            group[at++] = (comm_request){.kind = COMM_RECV, .dtype = dtype, .count = count + k, .dst = dst, .peer = p};
            group[at++] = (comm_request){.kind = COMM_SEND, .dtype = dtype, .count = count + k, .src = src, .peer = p};
        }
    comm_request q = {.kind = COMM_GROUP, .group = group, .ngroup = at, .op = "group"};
    weft_status status = comm_run(m->ring, &q);
    bool good = !status;
    for (int64_t i = 0; good && i < at; i++)
        if (group[i].kind == COMM_RECV)
            good = holds(dtype, group[i].dst, group[i].count, group[i].peer, m->rank + (int)(group[i].count - count));
    check(good, "group of %s, %d ranks, rank %d, count %lld: %s", weft_dtype_name(dtype), n, m->rank, (long long)count,
          weft_status_message(status));
    weft_status_free(status);
}

/* One after another, around the ring: 0 sends first, every other one passes on what it receives. */
static void run_around(member *m, weft_dtype dtype, int64_t count) {
    int n = m->nranks, self = m->rank;
    comm_request send = {.kind = COMM_SEND, .dtype = dtype, .count = count, .src = m->a, .peer = (self + 1) % n};
    comm_request recv = {.kind = COMM_RECV, .dtype = dtype, .count = count, .dst = m->a, .peer = (self + n - 1) % n};
    if (self == 0) fill(dtype, m->a, count, 5, 2);
    weft_status status = comm_run(m->ring, self ? &recv : &send);
    if (self == 0) memset(m->a, 0x5a, (size_t)count * weft_dtype_nbytes(dtype));
    if (!status) status = comm_run(m->ring, self ? &send : &recv);
    check(!status && holds(dtype, m->a, count, 5, 2), "around %d ranks, rank %d, %lld of %s: %s", n, self,
          (long long)count, weft_dtype_name(dtype), weft_status_message(status));
    weft_status_free(status);
}

static void *all_pairs(void *arg) {
    member *m = arg;
    for (size_t d = 0; d < sizeof part_dtypes / sizeof *part_dtypes; d++)
        for (size_t c = 0; c < sizeof part_counts / sizeof *part_counts; c++) {
            run_group(m, part_dtypes[d], part_counts[c]);
            if (m->nranks > 1) run_around(m, part_dtypes[d], part_counts[c]);
        }
    return NULL;
}

static void *disagree_on_pairs(void *arg) {
    member *m = arg;
    float x[16] = {0};
    comm_request requests[2] = {
        {.kind = COMM_SEND, .dtype = WEFT_FP32, .count = 12, .src = x, .peer = 1, .op = "a"},
        {.kind = COMM_RECV, .dtype = WEFT_FP32, .count = 13, .dst = x, .peer = 0, .op = "b"},
    };
    weft_status status = comm_run(m->ring, &requests[m->rank]);
    check(weft_status_code(status) == WEFT_RUNTIME &&
              strstr(weft_status_message(status), "rank 0 asks a: send of 12 float32 to member 1") &&
              strstr(weft_status_message(status), "rank 1 asks b: recv of 13 float32 from member 0"),
          "a send of 12 and a receive of 13: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    comm_request itself = {.kind = COMM_SEND, .dtype = WEFT_FP32, .count = 1, .src = x, .peer = m->rank, .op = "c"};
    status = comm_run(m->ring, &itself);
    check(weft_status_code(status) == WEFT_UNSUPPORTED, "to itself: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

/* --- aborts of a ring, and gathers -------------------------------------------------------------------------------- */

/* Member 0 ends the ring while the others wait for it. */
static void *abort_ring(void *arg) {
    member *m = arg;
    comm_request barrier = {.kind = COMM_BARRIER, .op = "barrier"};
    if (m->rank == 0) {
        usleep(10000);
        weft_status none = comm_error(m->ring), status = comm_abort(m->ring, 5);
        check(!none && !status, "abort of a ring: %s", weft_status_message(status));
        weft_status_free(status);
    }
    weft_status status = comm_run(m->ring, &barrier);
    check(weft_status_code(status) == WEFT_CANCELLED, "in an aborted ring: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    status = comm_error(m->ring);
    check(status != NULL, "an aborted ring has no error");
    weft_status_free(status);
    return NULL;
}

typedef struct visitor {
    comm_world *world;
    pthread_t thread;
} visitor;

/* Rank r gives r + round bytes, in several rounds and on both channels. */
static void *gather_rounds(void *arg) {
    comm_world *w = ((visitor *)arg)->world;
    for (int round = 0; round < 20; round++) {
        size_t nbytes[MOST_RANKS], n = 0, at = 0;
        char mine[4000], all[4000];
        for (int r = 0; r < w->nranks; r++) nbytes[r] = (size_t)(r + round);
        for (int r = w->first_rank; r < w->first_rank + w->nlocal; r++)
            for (size_t i = 0; i < nbytes[r]; i++) mine[n++] = (char)(r * 16 + round);
        weft_status status = comm_world_gather(
            w, &(comm_gather){round % 3 ? COMM_MAIN : COMM_WATCH, mine, all, nbytes, 0, 20, "in a test"});
        bool good = !status;
        for (int r = 0; r < w->nranks; r++)
            for (size_t i = 0; i < nbytes[r]; i++) good = good && all[at++] == (char)(r * 16 + round);
        check(good, "gather %d of rank %d: %s", round, w->first_rank, weft_status_message(status));
        weft_status_free(status);
    }
    return NULL;
}

/* The last world does not come: the others are told, and which ranks are missing. */
static void *gather_alone(void *arg) {
    comm_world *w = ((visitor *)arg)->world;
    char mine[MOST_RANKS] = {0}, all[MOST_RANKS];
    weft_status status =
        comm_world_gather(w, &(comm_gather){COMM_MAIN, mine, all, NULL, 1, 0.1, "in a test"});
    check(status && (strstr(weft_status_message(status), "waited 0.1 s in a test for rank ") ||
                     strstr(weft_status_message(status), "given up")),
          "gather without the last ranks: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static void test_gathers(void *(*fn)(void *), bool last_comes) {
    comm_world *worlds[MOST_RANKS];
    visitor visitors[MOST_RANKS];
    int nworlds = 0;
    must(factory->open(factory->user, 4, worlds, &nworlds));
    int n = last_comes ? nworlds : nworlds - 1;
    for (int i = 0; i < n; i++) {
        visitors[i].world = worlds[i];
        pthread_create(&visitors[i].thread, NULL, fn, &visitors[i]);
    }
    for (int i = 0; i < n; i++) pthread_join(visitors[i].thread, NULL);
    factory->close(factory->user, worlds, nworlds);
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
    comm_world *worlds[MOST_RANKS], *world;
    int nworlds = 0;
    must(factory->open(factory->user, 4, worlds, &nworlds));
    world = worlds[0];
    weft_status status;
    if (nworlds > 1) {
        factory->close(factory->user, worlds, nworlds);
        return;
    }
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
    factory->close(factory->user, worlds, nworlds);
}

void comm_conformance(const comm_factory *engine, int *out_passed, int *out_failed) {
    factory = engine;
    npassed = nfailed = 0;
    test_all_kinds();
    test_all_rings();
    for (int n = 1; n <= 4; n++) run_ranks(n, all_parts, NULL, 0);
    for (int n = 1; n <= 4; n++) run_ranks(n, all_pairs, NULL, 0);
    run_ranks(2, disagree_on_pairs, NULL, 0);
    for (int n = 2; n <= factory->most_ranks; n *= 2) run_ranks(n, sum_in_order, NULL, 0);
    run_ranks(3, nan_wins, NULL, 0);
    test_rings();
    run_ranks(3, disagree, NULL, 0);
    run_ranks(2, refuse, NULL, 0);
    for (abort_at = 1; abort_at <= 6; abort_at++) run_ranks(4, abort_at_nth, NULL, 0);
    run_ranks(3, abort_ring, NULL, 0);
    test_gathers(gather_rounds, true);
    test_gathers(gather_alone, false);
    *out_passed = npassed;
    *out_failed = nfailed;
}
