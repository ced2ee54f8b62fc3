/* comm_conformance_kinds.c: each kind, element type, count, reduction, root and place of buffers, against results
 * computed naively. Rings are of all ranks, of some, in another order and of one; the order of summation. */
#include <math.h>
#include <unistd.h>

#include "executor/comm/reduce.h"
#include "tests/support/comm_member.h"

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

static void run_case(comm_member *m, const test_case *c) {
    size_t es = weft_dtype_nbytes(c->dtype), own = (size_t)m->rank * (size_t)c->count * es;
    bool small_src = c->kind == COMM_ALL_GATHER;
    char *src = m->a, *dst = c->place == APART ? m->b : m->a;
    if (c->place == OWN_PART && small_src) src += own;
    if (c->place == OWN_PART && !small_src) dst += own;
    for (int64_t i = 0; i < source_count(c, m->nranks); i++)
        comm_store(c->dtype, src, (size_t)i, element(c, m->rank, i));
    if (c->place == APART) memset(dst, 0x5a, (size_t)result_count(c, m->nranks) * es + 8);
    comm_request q = COMM_REQUEST(c->kind, c->dtype, c->reduce, c->root, c->count, src, dst, "test");
    weft_status status = comm_perform(m, &q);
    const char *where = comm_kind_name(c->kind), *type = weft_dtype_name(c->dtype), *how = reduce_name(c->reduce);
    if (status || (c->kind == COMM_REDUCE && m->rank != c->root)) {
        comm_check(!status, "%s %s %s: %s", where, type, how, weft_status_message(status));
        weft_status_free(status);
        return;
    }
    union {
        double align;
        char bytes[16];
    } want;
    int64_t bad = -1;
    for (int64_t i = 0; i < result_count(c, m->nranks) && bad < 0; i++) {
        comm_store(c->dtype, want.bytes, 0, expected(c, m->nranks, m->rank, i));
        if (memcmp(want.bytes, dst + (size_t)i * es, es) != 0) bad = i;
    }
    comm_check(bad < 0, "%s %s %s, %d ranks, rank %d, count %lld, %s: element %lld is %g", where, type, how, m->nranks,
               m->rank, (long long)c->count, place_names[c->place], (long long)bad,
               comm_load(c->dtype, dst, (size_t)(bad < 0 ? 0 : bad)));
    if (c->place == APART) {
        comm_check((unsigned char)dst[(size_t)result_count(c, m->nranks) * es] == 0x5a, "%s wrote beyond its result",
                   where);
    }
}

static test_case cases[4000]; /* set before the threads start */
static size_t ncases;

static void *run_cases(void *arg) {
    for (size_t i = 0; i < ncases; i++) run_case(arg, &cases[i]);
    return NULL;
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
    static const int sizes[] = {1, 2, 3, 4, 8, 16};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && sizes[s] <= comm_factory_at_hand->most_ranks; s++) {
        ncases = add_cases(cases, sizes[s]);
        comm_run_ranks(sizes[s], run_cases);
    }
}

static void test_all_rings(void) {
    static const struct {
        int nranks, n;
        int64_t ranks[4];
    } rings[] = {{4, 4, {3, 1, 0, 2}}, {4, 3, {0, 2, 3}}, {4, 2, {3, 0}}, {4, 1, {2}}};
    for (size_t i = 0; i < sizeof rings / sizeof *rings && rings[i].nranks <= comm_factory_at_hand->most_ranks; i++) {
        ncases = add_cases(cases, rings[i].n);
        comm_run_ring(rings[i].nranks, rings[i].n, rings[i].ranks, run_cases);
    }
}

/* --- the order of summation --------------------------------------------------------------------------------------- */

static float awkward(int rank, int64_t i) {
    return ldexpf(sinf((float)(i + 1) * (float)(rank + 1)), rank * 3 - 8);
}

static void *sum_in_order(void *arg) {
    comm_member *m = arg;
    float *x = m->a, *y = m->b;
    int64_t count = 6001;
    for (int64_t i = 0; i < count; i++) x[i] = awkward(m->rank, i);
    comm_request whole = COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, count, x, y, "whole");
    weft_status status = comm_perform(m, &whole);
    for (int64_t at = 0; at < count && !status; at += 97) { /* other buckets, in place */
        int64_t n = count - at < 97 ? count - at : 97;
        comm_request part = COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, WEFT_REDUCE_SUM, 0, n, x + at, x + at, "part");
        if (m->rank == (int)(at % m->nranks)) usleep(100);
        status = comm_perform(m, &part);
    }
    comm_check(!status, "%s", weft_status_message(status));
    weft_status_free(status);
    bool ordered = true;
    for (int64_t i = 0; i < count; i++) {
        float want = awkward(0, i);
        for (int r = 1; r < m->nranks; r++) want += awkward(r, i);
        ordered = ordered && memcmp(&want, &y[i], 4) == 0;
    }
    comm_check(ordered, "rank %d of %d: not summed in ring order", m->rank, m->nranks);
    comm_check(memcmp(x, y, (size_t)count * 4) == 0, "rank %d of %d: the bucket size shows in the result", m->rank,
               m->nranks);
    return NULL;
}

static void *nan_wins(void *arg) {
    comm_member *m = arg;
    for (int i = 0; i < 2; i++) {
        float x = m->rank == 1 ? NAN : 1;
        comm_request q =
            COMM_REQUEST(COMM_ALL_REDUCE, WEFT_FP32, i ? WEFT_REDUCE_MAX : WEFT_REDUCE_MIN, 0, 1, &x, &x, "nan");
        weft_status status = comm_perform(m, &q);
        comm_check(!status && isnan(x), "max and min of a NaN");
        weft_status_free(status);
    }
    float z[4] = {1, 2, 3, 4};
    comm_request q = COMM_REQUEST(COMM_ALL_REDUCE, WEFT_COMPLEX64, WEFT_REDUCE_AVG, 0, 2, z, z, "complex");
    weft_status status = comm_perform(m, &q);
    comm_check(!status && z[0] == 1 && z[3] == 4, "mean of complex numbers");
    weft_status_free(status);
    return NULL;
}

void comm_test_kinds(void) {
    test_all_kinds();
    test_all_rings();
    for (int n = 2; n <= comm_factory_at_hand->most_ranks; n *= 2) comm_run_ranks(n, sum_in_order);
    comm_run_ranks(3, nan_wins);
}
