/* world.c: the ranks of a run as one process sees them. */
#include <stdio.h>

#include "executor/comm/mpi/mpi.h"

static bool take_control(mpi_world *w, const mpi_control *control);

/* --- making and unmaking ------------------------------------------------------------------------------------------ */

static size_t firsts_nbytes(const mpi_host *host) {
    return ((size_t)host->nprocs + 1) * sizeof(int);
}

static void world_free(mpi_world *w) {
    rings_free(w);
    comm_world_destroy(w->inner);
    base_free(w->host->allocator, w->first, firsts_nbytes(w->host));
    base_free(w->host->allocator, w, sizeof *w);
}

/* Its number is taken even if it fails, so that those of the others stay the same. */
static void enlist(mpi_host *host, mpi_world *w) {
    pthread_mutex_lock(&host->mutex);
    uint32_t number = host->nworlds++;
    if (w) {
        w->number = number;
        w->next = host->worlds;
        host->worlds = w;
        control_claim(host);
    }
    pthread_mutex_unlock(&host->mutex);
}

static weft_status make(const weft_allocator *allocator, const comm_host *h, mpi_world **out) {
    mpi_host *host = h->shared;
    mpi_world *w = base_alloc(host->allocator, sizeof *w);
    if (!w) return base_out_of_memory();
    memset(w, 0, sizeof *w);
    w->host = host;
    w->take_control = take_control;
    w->by_library = h->by_library;
    w->first = base_alloc(host->allocator, firsts_nbytes(host));
    weft_status status = w->first ? NULL : base_out_of_memory();
    for (int p = 0; w->first && p <= host->nprocs; p++) w->first[p] = (int)((int64_t)h->nranks * p / host->nprocs);
    comm_host threads = comm_local_host(h->nranks);
    threads.nlocal = h->nlocal; /* its rings have members that are here */
    if (!status) status = comm_world_create(host->allocator, &threads, &w->inner);
    if (status) {
        world_free(w);
        return status;
    }
    w->world = (comm_world){.engine = h->engine,
                            .nranks = h->nranks,
                            .first_rank = h->first_rank,
                            .nlocal = h->nlocal,
                            .allocator = allocator,
                            .aborted = &w->aborted,
                            .shared = w};
    *out = w;
    return NULL;
}

static weft_status world_create(const weft_allocator *allocator, const comm_host *h, comm_world **out_world) {
    mpi_world *w = NULL;
    weft_status status = make(allocator, h, &w);
    enlist(h->shared, w);
    if (!status) *out_world = &w->world;
    return status;
}

static void world_destroy(comm_world *world) {
    mpi_world *w = world->shared;
    pthread_mutex_lock(&w->host->mutex);
    mpi_world **at = &w->host->worlds;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    pthread_mutex_unlock(&w->host->mutex);
    world_free(w);
}

/* --- ends and alarms ---------------------------------------------------------------------------------------------- */

static void tell_all(mpi_world *w, mpi_control_kind kind, const char *why) {
    mpi_host *host = w->host;
    mpi_control control = {.kind = kind, .world = w->number, .is_told = why != NULL};
    control.nbytes = why ? (uint32_t)strlen(why) + 1 : 0;
    for (int p = 0; p < host->nprocs; p++) weft_status_free(control_send(host, &control, why, &p, 1));
}

/* True: there was something new in it. With host->mutex. */
static bool stop(mpi_world *w, const char *why) {
    bool is_new = !atomic_load(&w->aborted);
    if (why && !atomic_load(&w->is_told)) {
        snprintf(w->why, sizeof w->why, "%s", why);
        atomic_store(&w->is_told, true);
        is_new = true;
    }
    atomic_store(&w->has_ended[COMM_MAIN], true); /* on COMM_WATCH processes may still find out why */
    atomic_store(&w->aborted, true);
    rings_wake(w);
    comm_world_abort(w->inner, NULL);
    wait_publish(&w->world.alarm, 1);
    return is_new;
}

static void world_abort(comm_world *world, const char *why) {
    mpi_world *w = world->shared;
    pthread_mutex_lock(&w->host->mutex);
    bool is_new = stop(w, why);
    pthread_mutex_unlock(&w->host->mutex);
    if (is_new) tell_all(w, CONTROL_ABORT, atomic_load(&w->is_told) ? w->why : NULL);
}

static const char *world_why(const comm_world *world) {
    const mpi_world *w = world->shared;
    return atomic_load(&w->is_told) ? w->why : NULL;
}

static void world_alarm(comm_world *world) {
    mpi_world *w = world->shared;
    wait_publish(&world->alarm, 1);
    tell_all(w, CONTROL_ALARM, NULL);
}

static bool take_control(mpi_world *w, const mpi_control *control) {
    switch (control->kind) {
    case CONTROL_RING: return rings_take_tag(w, control);
    case CONTROL_ABORT: stop(w, control->is_told ? control_bytes(control) : NULL); break;
    case CONTROL_ALARM: wait_publish(&w->world.alarm, 1); break;
    case CONTROL_END_CHANNEL: atomic_store(&w->has_ended[control->tag], true); break;
    default: break;
    }
    return true;
}

const comm_world_engine mpi_world_engine = {
    .name = "mpi",
    .create = world_create,
    .destroy = world_destroy,
    .ring_get = mpi_ring_get,
    .connect = library_connect,
    .gather = world_gather,
    .abort = world_abort,
    .why = world_why,
    .alarm = world_alarm,
};
