/* local_world.c: the worlds of the local engine: ranks as threads of one process.
 *
 * One executor has all ranks, mostly, and a world of its own. Of a hub several executors make worlds, each for some of
 * the ranks, as processes would: each sees its part through a comm_world, and all meet in the same local_world. */
#include "executor/comm/local.h"

struct local_hub {
    weft_allocator allocator;
    int nranks;
    pthread_mutex_t mutex; /* of the worlds: next, nusers, njoined, has_joined */
    local_world *worlds;   /* in the order of their making */
};

static void free_shared(local_world *shared) {
    for (int i = 0; i < COMM_CHANNELS; i++) local_board_fini(&shared->boards[i], shared->allocator, shared->nranks);
    local_rings_free(shared);
    pthread_mutex_destroy(&shared->mutex);
    base_free(shared->allocator, shared->has_joined, (size_t)shared->nranks * sizeof(bool));
    base_free(shared->allocator, shared, sizeof *shared);
}

static weft_status init_boards(local_world *shared) {
    for (int i = 0; i < COMM_CHANNELS; i++) {
        weft_status status = local_board_init(&shared->boards[i], shared->allocator, shared->nranks);
        if (!status) continue;
        while (i-- > 0) local_board_fini(&shared->boards[i], shared->allocator, shared->nranks);
        return status;
    }
    return NULL;
}

static weft_status make_shared(const weft_allocator *allocator, int nranks, local_world **out) {
    local_world *shared = base_alloc(allocator, sizeof *shared);
    if (!shared) return base_out_of_memory();
    *shared = (local_world){.allocator = allocator, .nranks = nranks};
    size_t nbytes = (size_t)nranks * sizeof *shared->has_joined;
    shared->has_joined = base_alloc(allocator, nbytes);
    if (!shared->has_joined || pthread_mutex_init(&shared->mutex, NULL) != 0) {
        base_free(allocator, shared->has_joined, shared->has_joined ? nbytes : 0);
        base_free(allocator, shared, sizeof *shared);
        return base_out_of_memory();
    }
    memset(shared->has_joined, 0, nbytes);
    weft_status status = init_boards(shared);
    if (!status) {
        *out = shared;
        return NULL;
    }
    pthread_mutex_destroy(&shared->mutex);
    base_free(allocator, shared->has_joined, nbytes);
    base_free(allocator, shared, sizeof *shared);
    return status;
}

/* --- hubs --------------------------------------------------------------------------------------------------------- */

/* The first world of the hub that these ranks have not joined. */
static weft_status join(local_hub *hub, int first_rank, int nlocal, local_world **out) {
    local_world **at = &hub->worlds;
    while (*at && (*at)->has_joined[first_rank]) at = &(*at)->next;
    if (!*at) {
        TRY(make_shared(&hub->allocator, hub->nranks, at));
        (*at)->hub = hub;
    }
    for (int r = first_rank; r < first_rank + nlocal; r++) (*at)->has_joined[r] = true;
    (*at)->njoined += nlocal;
    (*at)->nusers++;
    *out = *at;
    return NULL;
}

/* It goes with the last of those that it was made for. */
static void leave(local_hub *hub, local_world *shared) {
    pthread_mutex_lock(&hub->mutex);
    bool is_over = --shared->nusers == 0 && shared->njoined == hub->nranks;
    local_world **at = &hub->worlds;
    while (is_over && *at != shared) at = &(*at)->next;
    if (is_over) *at = shared->next;
    pthread_mutex_unlock(&hub->mutex);
    if (is_over) free_shared(shared);
}

weft_status local_hub_create(const weft_allocator *allocator, int nranks, local_hub **out_hub) {
    local_hub *hub = base_alloc(allocator, sizeof *hub);
    if (!hub) return base_out_of_memory();
    *hub = (local_hub){.allocator = *allocator, .nranks = nranks};
    if (pthread_mutex_init(&hub->mutex, NULL) != 0) {
        base_free(allocator, hub, sizeof *hub);
        return base_out_of_memory();
    }
    *out_hub = hub;
    return NULL;
}

void local_hub_destroy(local_hub *hub) {
    if (!hub) return;
    weft_allocator allocator = hub->allocator;
    for (local_world *w = hub->worlds, *next; w; w = next) {
        next = w->next;
        free_shared(w);
    }
    pthread_mutex_destroy(&hub->mutex);
    base_free(&allocator, hub, sizeof *hub);
}

/* --- worlds ------------------------------------------------------------------------------------------------------- */

static weft_status local_create(const weft_allocator *allocator, const comm_host *host, comm_world **out_world) {
    local_hub *hub = host->shared;
    if (host->nranks < 1 || host->nlocal > LOCAL_MAX_RANKS)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks in one process: expected 1 to %d",
                                  host->nlocal, LOCAL_MAX_RANKS);
    local_view *view = base_alloc(allocator, sizeof *view);
    if (!view) return base_out_of_memory();
    local_world *shared = NULL;
    if (hub) pthread_mutex_lock(&hub->mutex);
    weft_status status =
        hub ? join(hub, host->first_rank, host->nlocal, &shared) : make_shared(allocator, host->nranks, &shared);
    if (hub) pthread_mutex_unlock(&hub->mutex);
    if (status) {
        base_free(allocator, view, sizeof *view);
        return status;
    }
    view->world = (comm_world){.engine = host->engine,
                               .allocator = allocator,
                               .nranks = host->nranks,
                               .first_rank = host->first_rank,
                               .nlocal = host->nlocal,
                               .aborted = &shared->aborted,
                               .shared = shared};
    pthread_mutex_lock(&shared->mutex);
    view->next = shared->views;
    shared->views = view;
    pthread_mutex_unlock(&shared->mutex);
    *out_world = &view->world;
    return NULL;
}

static void local_destroy(comm_world *world) {
    local_world *shared = world->shared;
    pthread_mutex_lock(&shared->mutex);
    local_view **at = &shared->views;
    while (&(*at)->world != world) at = &(*at)->next;
    local_view *view = *at;
    *at = view->next;
    pthread_mutex_unlock(&shared->mutex);
    base_free(world->allocator, view, sizeof *view);
    if (shared->hub)
        leave(shared->hub, shared);
    else
        free_shared(shared);
}

static void local_alarm(comm_world *world) {
    local_world *shared = world->shared;
    pthread_mutex_lock(&shared->mutex);
    for (local_view *v = shared->views; v; v = v->next) wait_publish(&v->world.alarm, 1);
    pthread_mutex_unlock(&shared->mutex);
}

static void local_abort(comm_world *world, const char *why) {
    local_world *shared = world->shared;
    pthread_mutex_lock(&shared->mutex);
    if (why && !atomic_load(&shared->is_told)) {
        snprintf(shared->why, sizeof shared->why, "%s", why);
        atomic_store(&shared->is_told, true);
    }
    pthread_mutex_unlock(&shared->mutex);
    atomic_store(&shared->aborted, true);
    local_rings_wake(shared);
    local_board_end(&shared->boards[COMM_MAIN]); /* on COMM_WATCH processes may still find out why */
    local_alarm(world);
}

static const char *local_why(const comm_world *world) {
    const local_world *shared = world->shared;
    return atomic_load(&shared->is_told) ? shared->why : NULL;
}

static const comm_world_engine local_engine = {
    .name = "local",
    .create = local_create,
    .destroy = local_destroy,
    .ring_get = local_ring_get,
    .gather = local_gather,
    .abort = local_abort,
    .why = local_why,
    .alarm = local_alarm,
};

comm_host comm_local_host(int nranks) {
    return (comm_host){&local_engine, nranks, 0, nranks, NULL, NULL, false, NULL};
}

comm_host local_hub_host(local_hub *hub, int first_rank, int nlocal) {
    return (comm_host){&local_engine, hub->nranks, first_rank, nlocal, hub, NULL, false, NULL};
}
