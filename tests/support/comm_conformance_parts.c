/* comm_conformance_parts.c: several tensors at once, a buffer for each member, parts of different sizes; sends and
 * receives, alone and in groups. */
#include "tests/support/comm_member.h"

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
        for (int64_t i = 0; i < counts[k]; i++) comm_store(dtype, parts[k], (size_t)i, part_element(rank, k, i));
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

static void run_parts(comm_member *m, comm_kind kind, weft_dtype dtype, int64_t count, bool in_place) {
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
    weft_status status = comm_perform(m, &q);
    bool good = !status;
    for (int64_t k = 0; good && k < (out_parts ? nparts : 1); k++)
        for (int64_t i = 0; good && i < got[k]; i++) {
            double want[2];
            comm_store(dtype, want, 0, part_expected(kind, n, root, m->rank, k, i));
            good = memcmp(want, (char *)dsts[k] + (size_t)i * size, size) == 0;
        }
    comm_check(good, "%s of %s in parts, %d ranks, rank %d, count %lld: %s", comm_kind_name(kind), weft_dtype_name(dtype), n,
          m->rank, (long long)count, weft_status_message(status));
    weft_status_free(status);
}

/* Several tensors at once: member i's part of tensor k holds part_element(i, k, .), or is the sum of those. */
static double several_element(comm_kind kind, int nranks, int64_t k, int64_t i, int64_t count) {
    double sum = 0;
    if (kind == COMM_ALL_GATHER) return part_element((int)(i / count), k, i % count);
    for (int r = 0; r < nranks; r++) sum += part_element(r, k, i);
    return sum;
}

static void run_several(comm_member *m, comm_kind kind, weft_dtype dtype, int64_t count) {
    enum { NTENSORS = 3 };
    int64_t n = m->nranks, counts[NTENSORS] = {count, 0, count + 3}, given[NTENSORS], got[NTENSORS];
    bool gathers = kind == COMM_ALL_GATHER;
    void *srcs[NTENSORS], *dsts[NTENSORS];
    size_t size = weft_dtype_nbytes(dtype);
    for (int k = 0; k < NTENSORS; k++) {
        given[k] = gathers ? counts[k] : n * counts[k];
        got[k] = gathers ? n * counts[k] : counts[k];
    }
    lay_out(m->a, NTENSORS, given, size, srcs);
    lay_out(m->b, NTENSORS, got, size, dsts);
    fill_parts(dtype, m->rank, NTENSORS, given, srcs);
    comm_request q = {.kind = kind,
                      .dtype = dtype,
                      .count = 2 * count + 3,
                      .srcs = (const void *const *)srcs,
                      .dsts = dsts,
                      .src_counts = counts,
                      .dst_counts = counts,
                      .nparts = NTENSORS,
                      .op = "several"};
    weft_status status = comm_perform(m, &q);
    bool good = !status;
    for (int k = 0; good && k < NTENSORS; k++)
        for (int64_t i = 0; good && i < got[k]; i++) {
            double want[2];
            int64_t first = gathers ? 0 : m->rank * counts[k];
            comm_store(dtype, want, 0, several_element(kind, m->nranks, k, first + i, counts[k]));
            good = memcmp(want, (char *)dsts[k] + (size_t)i * size, size) == 0;
        }
    comm_check(good, "%s of several %s, %d ranks, rank %d, count %lld: %s", comm_kind_name(kind),
               weft_dtype_name(dtype), m->nranks, m->rank, (long long)count, weft_status_message(status));
    weft_status_free(status);
}

static void *all_several(void *arg) {
    static const comm_kind kinds[] = {COMM_ALL_GATHER, COMM_REDUCE_SCATTER};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t d = 0; d < sizeof part_dtypes / sizeof *part_dtypes; d++)
            for (size_t c = 0; c < sizeof part_counts / sizeof *part_counts; c++)
                run_several(arg, kinds[k], part_dtypes[d], part_counts[c]);
    return NULL;
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
    for (int64_t i = 0; i < count; i++) comm_store(dtype, p, (size_t)i, part_element(from, to, i));
}

static bool holds(weft_dtype dtype, const void *p, int64_t count, int from, int to) {
    size_t size = weft_dtype_nbytes(dtype);
    for (int64_t i = 0; i < count; i++) {
        double want[2];
        comm_store(dtype, want, 0, part_element(from, to, i));
        if (memcmp(want, (const char *)p + (size_t)i * size, size) != 0) return false;
    }
    return true;
}

/* Every member sends every one, itself too, two messages of different sizes and receives theirs, all in one group. */
static void run_group(comm_member *m, weft_dtype dtype, int64_t count) {
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
    weft_status status = comm_perform(m, &q);
    bool good = !status;
    for (int64_t i = 0; good && i < at; i++)
        if (group[i].kind == COMM_RECV)
            good = holds(dtype, group[i].dst, group[i].count, group[i].peer, m->rank + (int)(group[i].count - count));
    comm_check(good, "group of %s, %d ranks, rank %d, count %lld: %s", weft_dtype_name(dtype), n, m->rank, (long long)count,
          weft_status_message(status));
    weft_status_free(status);
}

/* One after another, around the ring: 0 sends first, every other one passes on what it receives. */
static void run_around(comm_member *m, weft_dtype dtype, int64_t count) {
    int n = m->nranks, self = m->rank;
    comm_request send = {.kind = COMM_SEND, .dtype = dtype, .count = count, .src = m->a, .peer = (self + 1) % n};
    comm_request recv = {.kind = COMM_RECV, .dtype = dtype, .count = count, .dst = m->a, .peer = (self + n - 1) % n};
    if (self == 0) fill(dtype, m->a, count, 5, 2);
    weft_status status = comm_perform(m, self ? &recv : &send);
    if (self == 0) memset(m->a, 0x5a, (size_t)count * weft_dtype_nbytes(dtype));
    if (!status) status = comm_perform(m, self ? &send : &recv);
    comm_check(!status && holds(dtype, m->a, count, 5, 2), "around %d ranks, rank %d, %lld of %s: %s", n, self,
          (long long)count, weft_dtype_name(dtype), weft_status_message(status));
    weft_status_free(status);
}

static void *all_pairs(void *arg) {
    comm_member *m = arg;
    for (size_t d = 0; d < sizeof part_dtypes / sizeof *part_dtypes; d++)
        for (size_t c = 0; c < sizeof part_counts / sizeof *part_counts; c++) {
            run_group(m, part_dtypes[d], part_counts[c]);
            if (m->nranks > 1) run_around(m, part_dtypes[d], part_counts[c]);
        }
    return NULL;
}

void comm_test_parts(void) {
    for (int n = 1; n <= 4; n++) comm_run_ranks(n, all_parts);
    for (int n = 1; n <= 4; n++) comm_run_ranks(n, all_several);
    for (int n = 1; n <= 4; n++) comm_run_ranks(n, all_pairs);
}
