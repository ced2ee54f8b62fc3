/* world.c: worlds whose rings are of ranks on one GPU. */
#include "executor/comm/loopback/engine.h"

static loop_world *find_world(const comm_world *world) {
    return (loop_world *)(void *)comm_over_of(world);
}

static weft_status create(const weft_allocator *allocator, const comm_host *host, comm_world **out_world) {
    loop_world *w = base_alloc(allocator, sizeof *w);
    if (!w) return base_out_of_memory();
    *w = (loop_world){.device = host->on_device};
    weft_status status = comm_over_create(allocator, host, &w->over, out_world);
    if (status)
        base_free(allocator, w, sizeof *w);
    else
        pthread_mutex_init(&w->lock, NULL);
    return status;
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

static size_t ring_nbytes(int nranks) {
    return sizeof(loop_ring) + (size_t)nranks * sizeof(loop_member);
}
static size_t parcels_nbytes(int nranks) {
    return (size_t)nranks * (size_t)nranks * sizeof(loop_parcel);
}

static void free_ring(loop_ring *r) {
    const weft_allocator *allocator = r->world->allocator;
    for (loop_member *m = r->members; m < r->members + r->nranks; m++) {
        if (m->arrived) cuda.EventDestroy(m->arrived);
        if (m->moved) cuda.EventDestroy(m->moved);
    }
    pthread_mutex_destroy(&r->lock);
    base_free(allocator, r->parcels, parcels_nbytes(r->nranks));
    base_free(allocator, r, ring_nbytes(r->nranks));
}

static void destroy(comm_world *world) {
    loop_world *w = find_world(world);
    const weft_allocator *allocator = world->allocator;
    cuda_turn_to(0);
    for (loop_ring *r = w->rings, *next; r; r = next) {
        next = r->next;
        free_ring(r);
    }
    comm_over_destroy(&w->over);
    pthread_mutex_destroy(&w->lock);
    base_free(allocator, w, sizeof *w);
}

static bool is_same(const loop_ring *r, int64_t id, int nranks, const int64_t *ranks) {
    bool same = r->id == id && r->nranks == nranks;
    for (int i = 0; same && i < nranks; i++) same = r->members[i].rank == ranks[i];
    return same;
}

static weft_status make_events(loop_ring *r) {
    CUDA_TRY(SetDevice, 0);
    for (loop_member *m = r->members; m < r->members + r->nranks; m++) {
        CUDA_TRY(EventCreateWithFlags, &m->arrived, cudaEventDisableTiming);
        CUDA_TRY(EventCreateWithFlags, &m->moved, cudaEventDisableTiming);
    }
    return NULL;
}

static weft_status make_ring(loop_world *w, int64_t id, int nranks, const int64_t *ranks, loop_ring **out) {
    const weft_allocator *allocator = w->over.world->allocator;
    loop_ring *r = base_alloc(allocator, ring_nbytes(nranks));
    loop_parcel *parcels = base_alloc(allocator, parcels_nbytes(nranks));
    if (!r || !parcels) {
        base_free(allocator, r, r ? ring_nbytes(nranks) : 0);
        base_free(allocator, parcels, parcels ? parcels_nbytes(nranks) : 0);
        return base_out_of_memory();
    }
    memset(r, 0, ring_nbytes(nranks));
    memset(parcels, 0, parcels_nbytes(nranks));
    r->world = w->over.world;
    r->device = w->device;
    r->next = w->rings;
    r->id = id;
    r->nranks = nranks;
    r->parcels = parcels;
    pthread_mutex_init(&r->lock, NULL);
    for (int i = 0; i < nranks; i++) {
        r->members[i].rank = ranks[i];
        r->members[i].ring = r;
        r->members[i].view = (comm_ring){&loop_ring_engine, id, i, nranks, r};
    }
    weft_status status = make_events(r);
    if (status) {
        free_ring(r);
        return status;
    }
    w->rings = r;
    *out = r;
    return NULL;
}

static weft_status ring_get(comm_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                            comm_ring **out_ring) {
    loop_world *w = find_world(world);
    int index;
    TRY(comm_check_ranks(id, nranks, ranks, rank, world->nranks, &index));
    if (nranks > LOOP_MEMBERS)
        return weft_status_create(WEFT_LIMIT, NULL, "ring %lld has %d members on one GPU: expected at most %d",
                                  (long long)id, nranks, LOOP_MEMBERS);
    pthread_mutex_lock(&w->lock);
    loop_ring *r = w->rings;
    weft_status status = NULL;
    while (r && !is_same(r, id, nranks, ranks)) r = r->next;
    if (!r) status = make_ring(w, id, nranks, ranks, &r);
    pthread_mutex_unlock(&w->lock);
    if (!status) *out_ring = &r->members[index].view;
    return status;
}

static const comm_world_engine engine = {
    .name = "loopback", .create = create, .destroy = destroy, .ring_get = ring_get};

weft_status loop_host(cuda_device *d, comm_host *host) {
    if (host->nlocal < host->nranks)
        return weft_status_create(WEFT_UNSUPPORTED, NULL,
                                  "rings of engine loopback: %d of %d ranks are in this process: expected all",
                                  host->nlocal, host->nranks);
    TRY(cuda_use(d, host->first_rank));
    host->on_device = d;
    return comm_over_host(&engine, host);
}
