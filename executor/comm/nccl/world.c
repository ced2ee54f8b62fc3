/* world.c: worlds whose rings are NCCL's. */

#include "executor/comm/nccl/engine.h"
#include "executor/comm/request.h"

static nccl_world *worlds;
static pthread_mutex_t worlds_lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */

/* --- an engine over another --------------------------------------------------------------------------------------- */

typedef struct wrapper {
    comm_world_engine engine; /* first */
    const comm_world_engine *inner;
} wrapper;

static const comm_world_engine *inner_of(const comm_world_engine *e) {
    return ((const wrapper *)(const void *)e)->inner;
}

static nccl_world *find_world(const comm_world *world) {
    pthread_mutex_lock(&worlds_lock);
    nccl_world *w = worlds;
    while (w && w->world != world) w = w->next;
    pthread_mutex_unlock(&worlds_lock);
    return w;
}

static void free_world(nccl_world *w) {
    const weft_allocator *allocator = w->world->allocator;
    base_free(allocator, w->all, (size_t)w->world->nlocal * sizeof *w->all);
    base_free(allocator, w, sizeof *w);
}

static weft_status create(const weft_allocator *allocator, const comm_host *host, comm_world **out_world) {
    comm_world *world;
    TRY(inner_of(host->engine)->create(allocator, host, &world));
    world->engine = host->engine;
    nccl_world *w = base_alloc(allocator, sizeof *w);
    ncclComm_t *all = base_alloc(allocator, (size_t)world->nlocal * sizeof *all);
    if (!w || !all) {
        base_free(allocator, w, w ? sizeof *w : 0);
        base_free(allocator, all, all ? (size_t)world->nlocal * sizeof *all : 0);
        inner_of(host->engine)->destroy(world);
        return base_out_of_memory();
    }
    memset(all, 0, (size_t)world->nlocal * sizeof *all);
    pthread_mutex_lock(&worlds_lock);
    *w = (nccl_world){.world = world, .all = all, .next = worlds};
    worlds = w;
    pthread_mutex_unlock(&worlds_lock);
    *out_world = world;
    return NULL;
}

static void free_ring(const comm_world *world, nccl_ring *r) {
    cuda.SetDevice(nccl_gpu_of(r->rank));
    if (r->comm) (comm_world_aborted(world) ? nccl.CommAbort : nccl.CommDestroy)(r->comm);
    if (r->barrier) cuda.Free(r->barrier);
    pthread_mutex_destroy(&r->lock);
    base_free(world->allocator, (void *)(uintptr_t)r->ranks, (size_t)r->view.nranks * sizeof *r->ranks);
    base_free(world->allocator, r, sizeof *r);
}

static void destroy(comm_world *world) {
    nccl_world *w = find_world(world);
    const comm_world_engine *inner = inner_of(world->engine);
    for (nccl_ring *r = w->rings, *next; r; r = next) {
        next = r->next;
        free_ring(world, r);
    }
    for (int i = 0; i < world->nlocal; i++) {
        cuda.SetDevice(nccl_gpu_of(world->first_rank + i));
        if (w->all[i]) (comm_world_aborted(world) ? nccl.CommAbort : nccl.CommDestroy)(w->all[i]);
    }
    pthread_mutex_lock(&worlds_lock);
    nccl_world **at = &worlds;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    pthread_mutex_unlock(&worlds_lock);
    free_world(w);
    inner->destroy(world);
}

static bool is_same(const nccl_ring *r, int64_t id, int nranks, const int64_t *ranks, int64_t rank) {
    return r->view.id == id && r->rank == rank && r->view.nranks == nranks &&
           memcmp(r->ranks, ranks, (size_t)nranks * sizeof *ranks) == 0;
}

static weft_status ring_get(comm_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                            comm_ring **out_ring) {
    nccl_world *w = find_world(world);
    int index;
    TRY(comm_check_ranks(id, nranks, ranks, rank, world->nranks, &index));
    nccl_ring *r = w->rings;
    while (r && !is_same(r, id, nranks, ranks, rank)) r = r->next;
    if (!r) {
        int64_t *copy = base_alloc(world->allocator, (size_t)nranks * sizeof *copy);
        r = base_alloc(world->allocator, sizeof *r);
        if (!r || !copy) {
            base_free(world->allocator, copy, copy ? (size_t)nranks * sizeof *copy : 0);
            base_free(world->allocator, r, r ? sizeof *r : 0);
            return base_out_of_memory();
        }
        memcpy(copy, ranks, (size_t)nranks * sizeof *copy);
        *r =
            (nccl_ring){.view = {&nccl_ring_engine, id, index, nranks, w}, .world = world, .rank = rank, .ranks = copy};
        pthread_mutex_init(&r->lock, NULL);
        r->next = w->rings;
        w->rings = r;
    }
    *out_ring = &r->view;
    return NULL;
}

static weft_status gather(comm_world *world, const comm_gather *g) {
    return inner_of(world->engine)->gather(world, g);
}
static void abort_world(comm_world *world, const char *why) {
    inner_of(world->engine)->abort(world, why);
}
static const char *why_of(const comm_world *world) {
    return inner_of(world->engine)->why(world);
}
static void alarm_all(comm_world *world) {
    inner_of(world->engine)->alarm(world);
}
static weft_status connect_world(comm_world *world) {
    return nccl_connect(find_world(world));
}

weft_status nccl_host(int ngpus, comm_host *host) {
    static wrapper wrappers[4]; /* one for each engine that joins ranks */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *why;
    if (!nccl_open(&why)) return weft_status_create(WEFT_UNSUPPORTED, NULL, "rings on GPUs need NCCL: %s", why);
    if (host->nlocal > ngpus)
        return weft_status_create(WEFT_UNSUPPORTED, NULL, "%d ranks on %d GPU%s: NCCL needs one for each", host->nlocal,
                                  ngpus, ngpus == 1 ? "" : "s");
    pthread_mutex_lock(&lock);
    nccl_use_gpus(ngpus);
    wrapper *at = wrappers;
    while (at->inner && at->inner != host->engine) at++;
    *at = (wrapper){{.name = "nccl",
                     .create = create,
                     .destroy = destroy,
                     .ring_get = ring_get,
                     .gather = gather,
                     .abort = abort_world,
                     .why = why_of,
                     .alarm = alarm_all,
                     .connect = connect_world},
                    host->engine};
    pthread_mutex_unlock(&lock);
    host->engine = &at->engine;
    return NULL;
}
