/* world.c: worlds whose rings are NCCL's. */
#include <stdlib.h>

#include "executor/comm/nccl/engine.h"
#include "executor/comm/request.h"

static nccl_world *find_world(const comm_world *world) {
    return (nccl_world *)(void *)comm_over_of(world);
}

static void end_comm(const comm_world *world, ncclComm_t comm) {
    if (comm) (comm_world_aborted(world) ? nccl.CommAbort : nccl.CommDestroy)(comm);
}

static void free_kept(nccl_ring *r) {
    const nccl_world *w = r->view.shared;
    for (nccl_kept *k = r->kept, *next; k; k = next) {
        next = k->next;
        cuda_free(&w->device->head, &k->memory);
        base_free(r->world->allocator, k, sizeof *k);
    }
}

void nccl_keep(device *d, comm_ring *view, device_memory *m) {
    nccl_ring *r = view && m->bytes ? nccl_ring_of(view) : NULL;
    nccl_kept *k = r ? base_alloc(r->world->allocator, sizeof *k) : NULL;
    if (k) {
        *k = (nccl_kept){*m, r->kept};
        r->kept = k;
        *m = (device_memory){0};
    }
    cuda_free(d, m);
}

/* When graphs have gone: NCCL waits for them. */
static void free_ring(const comm_world *world, nccl_ring *r) {
    const nccl_world *w = r->view.shared;
    cuda_turn_to(cuda_gpu_of(w->device, r->rank));
    if (!nccl_ring_release(r)) return;
    end_comm(world, r->comm);
    if (r->made) nccl.CommAbort(r->made); /* no member has got it */
    if (r->barrier) cuda.Free(r->barrier);
    free_kept(r);
    pthread_mutex_destroy(&r->lock);
    base_free(world->allocator, (void *)(uintptr_t)r->ranks, (size_t)r->view.nranks * sizeof *r->ranks);
    base_free(world->allocator, r, sizeof *r);
}

static void end_all(const nccl_world *w, const comm_world *world) {
    for (int i = 0; i < world->nlocal; i++) {
        cuda_turn_to(cuda_gpu_of(w->device, world->first_rank + i));
        end_comm(world, w->all[i]);
    }
}

static void destroy(comm_world *world) {
    nccl_world *w = find_world(world);
    const weft_allocator *allocator = world->allocator;
    size_t nbytes = 2 * (size_t)world->nlocal * sizeof *w->all;
    bool is_aborted = comm_world_aborted(world);
    if (is_aborted) end_all(w, world); /* first: then no split goes on */
    for (nccl_ring *r = w->rings, *next; r; r = next) {
        next = r->next;
        free_ring(world, r);
    }
    if (!is_aborted) end_all(w, world);
    comm_over_destroy(&w->over);
    base_free(allocator, w->all, nbytes);
    base_free(allocator, w, sizeof *w);
}

/* Before any memory of the ranks. */
static weft_status take_gpus(const nccl_world *w, comm_world **world) {
    weft_status status = nccl_place(w);
    if (!status) return NULL;
    comm_world_abort(*world, weft_status_message(status)); /* other processes wait for it */
    destroy(*world);
    *world = NULL;
    return status;
}

static weft_status create(const weft_allocator *allocator, const comm_host *host, comm_world **out_world) {
    size_t nbytes = 2 * (size_t)host->nlocal * sizeof(ncclComm_t);
    nccl_world *w = base_alloc(allocator, sizeof *w);
    ncclComm_t *all = base_alloc(allocator, nbytes);
    weft_status status = w && all ? NULL : base_out_of_memory();
    if (!status) {
        *w = (nccl_world){.device = host->on_device, .all = all, .none = all + host->nlocal};
        memset(all, 0, nbytes);
        status = comm_over_create(allocator, host, &w->over, out_world);
    }
    if (!status) return take_gpus(w, out_world);
    base_free(allocator, w, w ? sizeof *w : 0);
    base_free(allocator, all, all ? nbytes : 0);
    return status;
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

static weft_status connect_world(comm_world *world) {
    return nccl_connect(find_world(world));
}

static const comm_world_engine engine = {
    .name = "nccl", .create = create, .destroy = destroy, .ring_get = ring_get, .connect = connect_world};

weft_status nccl_host(cuda_device *d, comm_host *host) {
    const char *why;
    if (!nccl_open(&why)) return weft_status_create(WEFT_UNSUPPORTED, NULL, "rings on GPUs need NCCL: %s", why);
    if (host->nlocal > d->ngpus)
        return weft_status_create(WEFT_UNSUPPORTED, NULL,
                                  "%d ranks on %d GPU%s: NCCL needs one for each (--rings loopback runs all on one)",
                                  host->nlocal, d->ngpus, d->ngpus == 1 ? "" : "s");
    host->on_device = d;
    d->is_for_nccl = true;
    /* Kernels of two rings that wait for other ranks might fill a GPU in different orders. NCCL then starts them in the
     * order in which they were launched, which is the same on all ranks. */
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    return comm_over_host(&engine, host);
}
