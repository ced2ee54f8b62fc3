/* request.c: what members ask of a ring: whether it can be done, whether they agree, and how it is called. For all
 * engines.
 */
#include "executor/comm/request.h"

#include <stdio.h>
#include <unistd.h>

#include "executor/comm/reduce.h"

static bool uses_root(comm_kind kind) {
    return comm_kinds[kind].has_root;
}

static bool uses_reduce(comm_kind kind) {
    return comm_kinds[kind].has_reduce;
}

int64_t comm_nparts(const comm_ring *r, const comm_request *q) {
    return q->nparts || q->kind == COMM_ALL_REDUCE ? q->nparts : r->nranks;
}

int64_t comm_source_count(const comm_request *q, int64_t k) {
    return q->src_counts ? q->src_counts[k] : q->count;
}

int64_t comm_result_count(const comm_request *q, int64_t k) {
    return q->dst_counts ? q->dst_counts[k] : q->count;
}

/* --- agreement ---------------------------------------------------------------------------------------------------- */

/* Whether members ai and bi ask for the same, `a` and `b`. */
static bool same_request(const comm_request *a, int ai, const comm_request *b, int bi) {
    if (a->kind != b->kind) return false;
    if (a->kind == COMM_BARRIER) return true;
    if (a->dtype != b->dtype || a->nparts != b->nparts) return false;
    if ((uses_reduce(a->kind) && a->reduce != b->reduce) || (uses_root(a->kind) && a->root != b->root)) return false;
    if (a->kind == COMM_ALL_TO_ALL)
        return comm_source_count(a, bi) == comm_result_count(b, ai) &&
               comm_source_count(b, ai) == comm_result_count(a, bi);
    for (int64_t k = 0; k < a->nparts; k++)
        if (comm_source_count(a, k) != comm_source_count(b, k)) return false;
    return a->count == b->count;
}

bool comm_find_different(const comm_request *first, size_t stride, int nranks, int *out_a, int *out_b) {
    bool each_pair = first->kind == COMM_ALL_TO_ALL;
    for (int a = 0; a < (each_pair ? nranks : 1); a++) {
        for (int b = each_pair ? a : 1; b < nranks; b++) {
            const comm_request *of_a = (const void *)((const char *)first + (size_t)a * stride);
            const comm_request *of_b = (const void *)((const char *)first + (size_t)b * stride);
            if (same_request(of_a, a, of_b, b)) continue;
            *out_a = a;
            *out_b = b;
            return true;
        }
    }
    return false;
}

/* "c_allreduce_sum: all_reduce sum of 12 float32" */
static void describe(const comm_request *q, char *out, size_t nbytes) {
    if (q->kind == COMM_BARRIER || q->kind == COMM_GROUP) {
        snprintf(out, nbytes, "%s: %s", q->op, comm_kind_name(q->kind));
        return;
    }
    const char *dtype = weft_dtype_name(q->dtype);
    char root[32] = "", parts[40] = "";
    if (uses_root(q->kind)) snprintf(root, sizeof root, ", root %d", q->root);
    if (comm_kinds[q->kind].has_peer)
        snprintf(root, sizeof root, " %s member %d", q->kind == COMM_SEND ? "to" : "from", q->peer);
    if (q->nparts) snprintf(parts, sizeof parts, ", %lld tensors", (long long)q->nparts);
    snprintf(out, nbytes, "%s: %s%s%s of %lld %s%s%s", q->op, comm_kind_name(q->kind), uses_reduce(q->kind) ? " " : "",
             uses_reduce(q->kind) ? reduce_name(q->reduce) : "", (long long)q->count, dtype ? dtype : "?", parts, root);
}

weft_status comm_disagreement(int64_t ring, int64_t rank_a, const comm_request *a, int64_t rank_b,
                              const comm_request *b) {
    char first[160], second[160];
    describe(a, first, sizeof first);
    describe(b, second, sizeof second);
    return weft_status_create(WEFT_RUNTIME, NULL, "ring %lld: ranks disagree: rank %lld asks %s; rank %lld asks %s",
                              (long long)ring, (long long)rank_a, first, (long long)rank_b, second);
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

/* The same of buffers in parts: those that are needed are there, and tensors that are reduced are equal or apart. */
static bool parts_fit(const comm_ring *r, int self, const comm_request *q) {
    bool reads = q->kind != COMM_SCATTER || q->root == self, is_in_place = q->kind == COMM_ALL_REDUCE;
    size_t size = weft_dtype_nbytes(q->dtype), n = (size_t)r->nranks;
    size_t given = q->nparts && comm_kinds[q->kind].src == COMM_WHOLE ? n : 1;
    size_t got = q->nparts && comm_kinds[q->kind].dst == COMM_WHOLE ? n : 1;
    for (int64_t k = 0; k < comm_nparts(r, q); k++) {
        const char *src = q->srcs ? q->srcs[k] : q->src, *dst = q->dsts ? q->dsts[k] : q->dst;
        size_t read = (size_t)comm_source_count(q, k) * size * given;
        size_t written = (size_t)comm_result_count(q, k) * size * got;
        if ((reads && read && !src) || (written && !dst)) return false;
        bool overlap = q->nparts && src < dst + written && dst < src + read;
        if (overlap && !(is_in_place && src == dst)) return false;
    }
    return true;
}

/* Whether the bytes may be read and written as the kind does: the buffers that it needs are there, and they are equal,
 * or apart, or the smaller one is this member's part of the larger one. */
static bool buffers_fit(const comm_ring *r, int self, const comm_request *q) {
    const comm_kind_row *row = &comm_kinds[q->kind];
    size_t part = (size_t)q->count * weft_dtype_nbytes(q->dtype), whole = part * (size_t)r->nranks;
    bool larger_src = row->src == COMM_WHOLE, larger_dst = row->dst == COMM_WHOLE;
    bool is_root = !row->has_root || q->root == self;
    bool reads = row->src != COMM_NOTHING && (is_root || !row->only_root_reads);
    bool writes = row->dst != COMM_NOTHING && (is_root || !row->only_root_writes);
    const char *src = q->src, *dst = q->dst, *own = (size_t)self * part + (larger_dst ? dst : src);
    if (q->srcs || q->dsts) return parts_fit(r, self, q);
    if (q->count == 0) return true;
    if ((reads && !src) || (writes && !dst)) return false;
    if (!reads || !writes || src == dst) return true;
    if (larger_src != larger_dst && own == (larger_dst ? src : dst)) return true;
    return src + (larger_src ? whole : part) <= dst || dst + (larger_dst ? whole : part) <= src;
}

static bool counts_fit(const comm_ring *r, const comm_request *q) {
    int64_t most = INT64_MAX / 64 / r->nranks;
    bool takes_several = q->kind == COMM_ALL_REDUCE || q->kind == COMM_ALL_GATHER || q->kind == COMM_REDUCE_SCATTER;
    if (q->count < 0 || q->count > most || q->nparts < 0 || (q->nparts && !takes_several)) return false;
    for (int64_t k = 0; k < comm_nparts(r, q); k++) {
        int64_t read = comm_source_count(q, k), written = comm_result_count(q, k);
        if (read < 0 || read > most || written < 0 || written > most) return false;
        if ((q->nparts || q->kind == COMM_ALL_REDUCE) && read != written) return false;
    }
    return true;
}

/* What is wrong with a request in itself; looked at before it is posted. */
static const char *find_fault(const comm_ring *r, int self, const comm_request *q) {
    if ((unsigned)q->kind >= COMM_KINDS) return "unknown kind";
    if (q->kind == COMM_BARRIER || q->kind == COMM_GROUP) return NULL;
    if (!weft_dtype_nbytes(q->dtype)) return "unknown dtype";
    if (!counts_fit(r, q)) return "count out of range";
    if (uses_root(q->kind) && (q->root < 0 || q->root >= r->nranks)) return "the root is not in the ring";
    if (uses_reduce(q->kind) && !reduce_supports(q->dtype, q->reduce)) return "no such reduction of this dtype";
    if (comm_kinds[q->kind].has_peer && (q->peer < 0 || q->peer >= r->nranks)) return "the peer is not in the ring";
    if (!buffers_fit(r, self, q)) return "source and result are missing or overlap in part";
    return NULL;
}

static weft_status check(const comm_ring *r, int64_t rank, const comm_request *q) {
    for (int64_t i = 0; q->kind == COMM_GROUP && i < q->ngroup; i++) {
        bool fits = q->group[i].kind == COMM_SEND || q->group[i].kind == COMM_RECV;
        if (!fits) return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s: a group has sends and receives only", q->op);
        comm_request one = q->group[i];
        one.op = q->op;
        TRY(check(r, rank, &one));
    }
    const char *fault = find_fault(r, r->index, q);
    if (!fault) return NULL;
    char text[160];
    describe(q, text, sizeof text);
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "rank %lld, ring %lld, %s: %s", (long long)rank, (long long)r->id,
                              text, fault);
}

weft_status comm_check_request(const comm_ring *r, int64_t rank, const comm_request *q) {
    TRY(check(r, rank, q));
    if (!comm_kinds[q->kind].has_peer || q->peer != r->index) return NULL;
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "rank %lld, ring %lld, %s: a member sends to itself",
                              (long long)rank, (long long)r->id, q->op);
}

weft_status comm_check_ranks(int64_t id, int nranks, const int64_t *ranks, int64_t rank, int nranks_of_run,
                             int *out_index) {
    *out_index = -1;
    if (nranks < 1 || nranks > nranks_of_run) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has %d ranks, the run has %d", (long long)id,
                                  nranks, nranks_of_run);
    }
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] == rank) *out_index = i;
        if (ranks[i] < 0 || ranks[i] >= nranks_of_run) {
            return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld has rank %lld, the run has ranks 0 to %d",
                                      (long long)id, (long long)ranks[i], nranks_of_run - 1);
        }
        for (int j = 0; j < i; j++) {
            if (ranks[j] == ranks[i]) {
                return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has rank %lld twice", (long long)id,
                                          (long long)ranks[i]);
            }
        }
    }
    if (*out_index >= 0) return NULL;
    return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld does not contain rank %lld", (long long)id,
                              (long long)rank);
}

/* --- a member, one collective at a time --------------------------------------------------------------------------- */

weft_status comm_begin(const comm_ring *r, int64_t rank, const comm_request *asked, _Atomic bool *busy,
                       comm_request *out) {
    *out = *asked;
    if (!out->op) out->op = comm_kind_name(out->kind);
    TRY(comm_check_request(r, rank, out));
    if (!atomic_exchange(busy, true)) return NULL;
    return weft_status_create(WEFT_RUNTIME, NULL, "rank %lld runs %s on ring %lld inside another collective of it",
                              (long long)rank, out->op, (long long)r->id);
}

weft_status comm_stopped(const comm_ring *r) {
    return weft_status_create(WEFT_CANCELLED, NULL, "ring %lld: the run was stopped", (long long)r->id);
}

weft_status comm_wait_idle(const comm_ring *r, int64_t rank, const _Atomic bool *busy, const comm_request *q,
                           double timeout_seconds) {
    int64_t deadline = wait_deadline_ns(timeout_seconds);
    while (atomic_load(busy)) {
        if (wait_clock_ns() > deadline)
            return weft_status_create(WEFT_RUNTIME, NULL, "rank %lld is still in %s on ring %lld, %g s after the stop",
                                      (long long)rank, q->op, (long long)r->id, timeout_seconds);
        usleep(100);
    }
    return NULL;
}
