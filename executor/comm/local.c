/* local.c: collectives between threads of one process.
 *
 * The idea: members post their requests, meet, check that all asked for the same, move data by reading and writing each
 * other's buffers directly, and meet again (local_move.c). There are no copies but the ones that the collective is.
 *
 * The invariant: between the two meetings every request of the ring is posted and does not change, and every buffer
 * named in one may be touched by any member; outside of them a member's buffers are its own. What a member writes
 * before a meeting is visible to all after it.
 *
 * Members wait for each other without a limit: the executor's watchdog has one. A world that is aborted ends
 * every wait in bounded time. */
#include "executor/comm/local.h"

#include <unistd.h>

static const comm_ring_engine local_engine;

/* --- rings -------------------------------------------------------------------------------------------------------- */

static size_t ring_nbytes(int nranks) {
    return sizeof(local_ring) + (size_t)nranks * sizeof(local_member);
}

static size_t parcels_nbytes(int nranks) {
    return (size_t)nranks * (size_t)nranks * sizeof(local_parcel);
}

void local_rings_free(local_world *world) {
    for (local_ring *r = world->rings, *next; r; r = next) {
        next = r->next;
        base_free(world->allocator, r->parcels, parcels_nbytes(r->nranks));
        base_free(world->allocator, r, ring_nbytes(r->nranks));
    }
}

void local_rings_wake(local_world *world) {
    pthread_mutex_lock(&world->mutex);
    for (local_ring *r = world->rings; r; r = r->next) {
        wait_wake(&r->generation);
        for (int i = 0; i < r->nranks; i++) {
            wait_wake(&r->members[i].given);
            wait_wake(&r->members[i].taken);
        }
    }
    pthread_mutex_unlock(&world->mutex);
}

static weft_status check_ranks(const local_world *world, int64_t id, int nranks, const int64_t *ranks) {
    if (nranks < 1 || nranks > world->nranks) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has %d ranks, the run has %d", (long long)id,
                                  nranks, world->nranks);
    }
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= world->nranks) {
            return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld has rank %lld, the run has ranks 0 to %d",
                                      (long long)id, (long long)ranks[i], world->nranks - 1);
        }
        for (int j = 0; j < i; j++) {
            if (ranks[j] == ranks[i]) {
                return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has rank %lld twice", (long long)id,
                                          (long long)ranks[i]);
            }
        }
    }
    return NULL;
}

static local_ring *find_ring(const local_world *world, int64_t id, int nranks, const int64_t *ranks) {
    for (local_ring *r = world->rings; r; r = r->next) {
        bool same = r->id == id && r->nranks == nranks;
        for (int i = 0; same && i < nranks; i++) same = r->members[i].rank == ranks[i];
        if (same) return r;
    }
    return NULL;
}

static local_ring *make_ring(local_world *world, int64_t id, int nranks, const int64_t *ranks) {
    local_ring *r = base_alloc(world->allocator, ring_nbytes(nranks));
    if (!r) return NULL;
    memset(r, 0, ring_nbytes(nranks));
    r->parcels = base_alloc(world->allocator, parcels_nbytes(nranks));
    if (!r->parcels) {
        base_free(world->allocator, r, ring_nbytes(nranks));
        return NULL;
    }
    memset(r->parcels, 0, parcels_nbytes(nranks));
    r->world = world;
    r->id = id;
    r->nranks = nranks;
    for (int i = 0; i < nranks; i++) {
        r->members[i].rank = ranks[i];
        r->members[i].view = (comm_ring){&local_engine, id, i, nranks, r};
    }
    r->next = world->rings;
    world->rings = r;
    return r;
}

weft_status local_ring_get(comm_world *w, int64_t id, int nranks, const int64_t *ranks, int64_t rank, comm_ring **out) {
    local_world *world = w->shared;
    TRY(check_ranks(world, id, nranks, ranks));
    int index = -1;
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] == rank) index = i;
    }
    if (index < 0) {
        return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld does not contain rank %lld", (long long)id,
                                  (long long)rank);
    }
    pthread_mutex_lock(&world->mutex);
    local_ring *r = find_ring(world, id, nranks, ranks);
    if (!r) r = make_ring(world, id, nranks, ranks);
    pthread_mutex_unlock(&world->mutex);
    if (!r) return base_out_of_memory();
    *out = &r->members[index].view;
    return NULL;
}

/* --- meetings ----------------------------------------------------------------------------------------------------- */

weft_status local_cancelled(const local_ring *r, int self) {
    return weft_status_create(WEFT_CANCELLED, NULL, "rank %lld left %s on ring %lld: the run was stopped",
                              (long long)r->members[self].rank, r->members[self].request.op, (long long)r->id);
}

weft_status local_meet(local_ring *r, int self) {
    if (atomic_load(&r->world->aborted)) return local_cancelled(r, self);
    uint32_t next = atomic_load(&r->generation.value) + 1;
    if (atomic_fetch_add(&r->narrived, 1) + 1 == (uint32_t)r->nranks) {
        atomic_store(&r->narrived, 0);
        wait_publish(&r->generation, next);
        return NULL;
    }
    wait_result result = wait_until(&r->generation, next, &r->world->aborted, 0);
    return result == WAIT_REACHED ? NULL : local_cancelled(r, self);
}

/* --- agreement ---------------------------------------------------------------------------------------------------- */

static bool uses_root(comm_kind kind) {
    return comm_kinds[kind].has_root;
}

static bool uses_reduce(comm_kind kind) {
    return comm_kinds[kind].has_reduce;
}

static int64_t source_count(const comm_request *q, int64_t k) {
    return q->src_counts ? q->src_counts[k] : q->count;
}

static int64_t result_count(const comm_request *q, int64_t k) {
    return q->dst_counts ? q->dst_counts[k] : q->count;
}

/* Whether members ai and bi ask for the same, `a` and `b`. */
static bool same_request(const comm_request *a, int ai, const comm_request *b, int bi) {
    if (a->kind != b->kind) return false;
    if (a->kind == COMM_BARRIER) return true;
    if (a->dtype != b->dtype || a->nparts != b->nparts) return false;
    if ((uses_reduce(a->kind) && a->reduce != b->reduce) || (uses_root(a->kind) && a->root != b->root)) return false;
    if (a->kind == COMM_ALL_TO_ALL)
        return source_count(a, bi) == result_count(b, ai) && source_count(b, ai) == result_count(a, bi);
    for (int64_t k = 0; k < a->nparts; k++)
        if (source_count(a, k) != source_count(b, k)) return false;
    return a->count == b->count;
}

void local_describe(const comm_request *q, char *out, size_t nbytes) {
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

static weft_status disagreement(const local_ring *r, int a, int b) {
    char first[160], second[160];
    local_describe(&r->members[a].request, first, sizeof first);
    local_describe(&r->members[b].request, second, sizeof second);
    return weft_status_create(WEFT_RUNTIME, NULL, "ring %lld: ranks disagree: rank %lld asks %s; rank %lld asks %s",
                              (long long)r->id, (long long)r->members[a].rank, first, (long long)r->members[b].rank,
                              second);
}

/* A pair of members that do not ask for the same; false if there is none. Equal for all members that look. */
static bool find_different(const local_ring *r, int *out_a, int *out_b) {
    bool each_pair = r->members[0].request.kind == COMM_ALL_TO_ALL;
    for (int a = 0; a < (each_pair ? r->nranks : 1); a++) {
        for (int b = each_pair ? a : 1; b < r->nranks; b++) {
            if (same_request(&r->members[a].request, a, &r->members[b].request, b)) continue;
            *out_a = a;
            *out_b = b;
            return true;
        }
    }
    return false;
}

/* The same of buffers in parts: those that are needed are there, and tensors that are reduced are equal or apart. */
static bool parts_fit(const local_ring *r, int self, const comm_request *q) {
    bool is_all_reduce = q->kind == COMM_ALL_REDUCE, reads = q->kind != COMM_SCATTER || q->root == self;
    size_t size = weft_dtype_nbytes(q->dtype);
    int64_t nparts = is_all_reduce ? q->nparts : r->nranks;
    for (int64_t k = 0; k < nparts; k++) {
        const char *src = q->srcs ? q->srcs[k] : q->src, *dst = q->dsts ? q->dsts[k] : q->dst;
        size_t read = (size_t)source_count(q, k) * size, written = (size_t)result_count(q, k) * size;
        if ((reads && read && !src) || (written && !dst)) return false;
        if (is_all_reduce && src != dst && src < dst + written && dst < src + read) return false;
    }
    return true;
}

/* Whether the bytes may be read and written as the kind does: the buffers that it needs are there, and they are equal,
 * or apart, or the smaller one is this member's part of the larger one. */
static bool buffers_fit(const local_ring *r, int self, const comm_request *q) {
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

static bool counts_fit(const local_ring *r, const comm_request *q) {
    int64_t most = INT64_MAX / 64 / r->nranks, nparts = q->kind == COMM_ALL_REDUCE ? q->nparts : r->nranks;
    if (q->count < 0 || q->count > most || q->nparts < 0) return false;
    for (int64_t k = 0; k < nparts; k++) {
        int64_t read = source_count(q, k), written = result_count(q, k);
        if (read < 0 || read > most || written < 0 || written > most) return false;
        if (q->kind == COMM_ALL_REDUCE && read != written) return false;
    }
    return true;
}

/* What is wrong with a request in itself; looked at before it is posted. */
static const char *find_fault(const local_ring *r, int self, const comm_request *q) {
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

static weft_status check_request(const local_ring *r, int self, const comm_request *q) {
    for (int64_t i = 0; q->kind == COMM_GROUP && i < q->ngroup; i++) {
        bool fits = q->group[i].kind == COMM_SEND || q->group[i].kind == COMM_RECV;
        if (!fits) return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s: a group has sends and receives only", q->op);
        comm_request one = q->group[i];
        one.op = q->op;
        TRY(check_request(r, self, &one));
    }
    const char *fault = find_fault(r, self, q);
    if (!fault) return NULL;
    char text[160];
    local_describe(q, text, sizeof text);
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "rank %lld, ring %lld, %s: %s", (long long)r->members[self].rank,
                              (long long)r->id, text, fault);
}

/* Posts, meets, does this member's share and parts. Members that disagree part too: nobody posts anew while another one
 * still looks. */
static weft_status exchange(local_ring *r, int self, const comm_request *request) {
    r->members[self].request = *request;
    if (request->kind == COMM_GROUP) return local_exchange(r, self, request->group, request->ngroup);
    if (comm_kinds[request->kind].has_peer) return local_exchange(r, self, &r->members[self].request, 1);
    TRY(local_meet(r, self));
    int a, b;
    if (!find_different(r, &a, &b)) {
        TRY(local_move(r, self));
        return local_meet(r, self);
    }
    weft_status status = disagreement(r, a, b);
    weft_status_free(local_meet(r, self));
    return status;
}

static weft_status local_run(comm_ring *ring, const comm_request *asked) {
    local_ring *r = ring->shared;
    local_member *me = &r->members[ring->index];
    comm_request request = *asked;
    if (!request.op) request.op = comm_kind_name(request.kind);
    TRY(check_request(r, ring->index, &request));
    if (comm_kinds[request.kind].has_peer && request.peer == ring->index)
        return weft_status_create(WEFT_UNSUPPORTED, NULL, "rank %lld, ring %lld, %s: a member sends to itself",
                                  (long long)me->rank, (long long)r->id, request.op);
    if (atomic_exchange(&me->busy, true)) {
        return weft_status_create(WEFT_RUNTIME, NULL, "rank %lld runs %s on ring %lld inside another collective of it",
                                  (long long)me->rank, request.op, (long long)r->id);
    }
    weft_status status = exchange(r, ring->index, &request);
    atomic_store(&me->busy, false);
    return status;
}

/* run reports it, or the end of the world does. */
static weft_status local_error(comm_ring *ring) {
    const local_ring *r = ring->shared;
    if (!atomic_load(&r->world->aborted)) return NULL;
    return weft_status_create(WEFT_CANCELLED, NULL, "ring %lld: the run was stopped", (long long)r->id);
}

/* A ring cannot end alone: its members are threads of one run. */
static weft_status local_abort(comm_ring *ring, double timeout_seconds) {
    local_ring *r = ring->shared;
    local_member *me = &r->members[ring->index];
    int64_t deadline = wait_clock_ns() + (int64_t)(timeout_seconds * 1e9);
    atomic_store(&r->world->aborted, true);
    local_rings_wake(r->world);
    while (atomic_load(&me->busy)) {
        if (wait_clock_ns() > deadline)
            return weft_status_create(WEFT_RUNTIME, NULL, "rank %lld is still in %s on ring %lld, %g s after the stop",
                                      (long long)me->rank, me->request.op, (long long)r->id, timeout_seconds);
        usleep(100);
    }
    return NULL;
}

static const comm_ring_engine local_engine = {
    .name = "local", .run = local_run, .error = local_error, .abort = local_abort};
