/* local.c: collectives between threads of one process.
 *
 * The idea: members post their requests, meet, and check that all asked for the same. They move data by reading and
 * writing each other's buffers directly, and meet again (local_move.c). There are no copies but the ones that the
 * collective is.
 *
 * The invariant: between the two meetings every request of the ring is posted and does not change. Any member may then
 * touch every buffer that is named in one; outside of them a member's buffers are its own. What a member writes before
 * a meeting is visible to all after it.
 *
 * Members wait for each other without a limit: the executor's watchdog has one. A world that is aborted ends
 * every wait in bounded time. */
#include "executor/comm/local.h"

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
    int index;
    TRY(comm_check_ranks(id, nranks, ranks, rank, world->nranks, &index));
    if (nranks > LOCAL_MAX_RANKS)
        return weft_status_create(WEFT_LIMIT, NULL, "ring %lld has %d members in one process: expected at most %d",
                                  (long long)id, nranks, LOCAL_MAX_RANKS);
    pthread_mutex_lock(&world->mutex);
    local_ring *r = find_ring(world, id, nranks, ranks);
    if (!r) r = make_ring(world, id, nranks, ranks);
    pthread_mutex_unlock(&world->mutex);
    if (!r) return base_out_of_memory();
    *out = &r->members[index].view;
    return NULL;
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

/* Posts, meets, does this member's share and parts. Members that disagree part too: nobody posts anew while another one
 * still looks. */
static weft_status exchange(local_ring *r, int self, const comm_request *request) {
    r->members[self].request = *request;
    if (request->kind == COMM_GROUP) return local_exchange(r, self, request->group, request->ngroup);
    if (comm_kinds[request->kind].has_peer) return local_exchange(r, self, &r->members[self].request, 1);
    TRY(local_meet(r, self));
    int a, b;
    if (!comm_find_different(&r->members[0].request, sizeof r->members[0], r->nranks, &a, &b)) {
        TRY(local_move(r, self));
        return local_meet(r, self);
    }
    weft_status status = comm_disagreement(r->id, r->members[a].rank, &r->members[a].request, r->members[b].rank,
                                           &r->members[b].request);
    weft_status_free(local_meet(r, self));
    return status;
}

static weft_status local_run(comm_ring *ring, const comm_request *asked) {
    local_ring *r = ring->shared;
    local_member *me = &r->members[ring->index];
    comm_request request;
    TRY(comm_begin(ring, me->rank, asked, &me->busy, &request));
    weft_status status = exchange(r, ring->index, &request);
    atomic_store(&me->busy, false);
    return status;
}

/* run reports it, or the end of the world does. */
static weft_status local_error(comm_ring *ring) {
    const local_ring *r = ring->shared;
    return atomic_load(&r->world->aborted) ? comm_stopped(ring) : NULL;
}

/* A ring cannot end alone: its members are threads of one run. */
static weft_status local_abort(comm_ring *ring, double timeout_seconds) {
    local_ring *r = ring->shared;
    local_member *me = &r->members[ring->index];
    atomic_store(&r->world->aborted, true);
    local_rings_wake(r->world);
    return comm_wait_idle(ring, me->rank, &me->busy, &me->request, timeout_seconds);
}

static const comm_ring_engine local_engine = {
    .name = "local", .run = local_run, .error = local_error, .abort = local_abort};
