/* gather.c: the local engine of gather.h: a board to which every participant copies its ranks' bytes.
 *
 * The invariant: a round is written to one of two pages until all ranks have come, and read from it after. The page is
 * written again two rounds later, when everyone has begun the round between and so has read it. Nobody looks at another
 * one's memory, so a participant that gives up can go. One that speaks for all ranks never waits. This is no part of a
 * step: a mutex does. */
#include "executor/comm/gather.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct page {
    char *bytes;
    size_t capacity;
    size_t nbytes; /* of each rank */
} page;

struct local_gather {
    const weft_allocator *allocator;
    int nranks;
    double timeout_seconds;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t changed;
    page pages[2];
    unsigned nrounds; /* that are complete */
    int narrived;     /* ranks, in the one at hand */
    bool has_ended;
    bool has_come[]; /* by rank, in the one at hand */
};

static size_t shared_nbytes(int nranks) {
    return sizeof(local_gather) + (size_t)nranks * sizeof(bool);
}

static bool init_sync(local_gather *shared) {
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0) return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    bool good = pthread_cond_init(&shared->changed, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    if (good && pthread_mutex_init(&shared->mutex, NULL) == 0) return true;
    if (good) pthread_cond_destroy(&shared->changed);
    return false;
}

weft_status local_gather_create(const weft_allocator *allocator, int nranks, double timeout_seconds,
                                local_gather **out) {
    if (nranks < 1) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", nranks);
    local_gather *shared = base_alloc(allocator, shared_nbytes(nranks));
    if (!shared) return base_out_of_memory();
    memset(shared, 0, shared_nbytes(nranks));
    shared->allocator = allocator;
    shared->nranks = nranks;
    shared->timeout_seconds = timeout_seconds;
    if (!init_sync(shared)) {
        base_free(allocator, shared, shared_nbytes(nranks));
        return base_out_of_memory();
    }
    *out = shared;
    return NULL;
}

void local_gather_destroy(local_gather *shared) {
    if (!shared) return;
    for (int i = 0; i < 2; i++) base_free(shared->allocator, shared->pages[i].bytes, shared->pages[i].capacity);
    pthread_mutex_destroy(&shared->mutex);
    pthread_cond_destroy(&shared->changed);
    base_free(shared->allocator, shared, shared_nbytes(shared->nranks));
}

/* "2, 5, 7": up to 8 of the ranks that have not come. */
static void list_missing(const local_gather *shared, char *out, size_t nbytes) {
    size_t n = 0, listed = 0;
    *out = '\0';
    for (int r = 0; r < shared->nranks && n < nbytes; r++) {
        if (shared->has_come[r]) continue;
        if (listed++ == 8) {
            snprintf(out + n, nbytes - n, " and others");
            return;
        }
        n += (size_t)snprintf(out + n, nbytes - n, "%s%d", listed > 1 ? ", " : "", r);
    }
}

static weft_status given_up(const comm_gather *g) {
    return weft_status_create(WEFT_CANCELLED, NULL, "rank %d: what ranks exchange before the first step was given up",
                              g->first);
}

static weft_status reserve(local_gather *shared, page *p, size_t nbytes) {
    size_t total;
    if (!base_mul(nbytes, (size_t)shared->nranks, &total)) return base_out_of_memory();
    p->nbytes = nbytes;
    if (total <= p->capacity) return NULL;
    char *bytes = base_resize(shared->allocator, p->bytes, p->capacity, total);
    if (!bytes) return base_out_of_memory();
    p->bytes = bytes;
    p->capacity = total;
    return NULL;
}

static weft_status post(local_gather *shared, const comm_gather *g, page *p, const void *mine, size_t nbytes) {
    if (shared->narrived == 0) TRY(reserve(shared, p, nbytes));
    if (p->nbytes != nbytes)
        return weft_status_create(WEFT_RUNTIME, NULL, "rank %d gives %zu bytes before the first step, others %zu",
                                  g->first, nbytes, p->nbytes);
    if (nbytes) memcpy(p->bytes + (size_t)g->first * nbytes, mine, nbytes * (size_t)g->count);
    for (int r = g->first; r < g->first + g->count; r++) shared->has_come[r] = true;
    shared->narrived += g->count;
    return NULL;
}

static weft_status wait_for_all(local_gather *shared, const comm_gather *g) {
    unsigned round = shared->nrounds;
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    double whole = (double)(long long)shared->timeout_seconds;
    deadline.tv_nsec += (long)((shared->timeout_seconds - whole) * 1e9);
    deadline.tv_sec += (time_t)whole + deadline.tv_nsec / 1000000000;
    deadline.tv_nsec %= 1000000000;
    while (shared->nrounds == round && !shared->has_ended) {
        if (pthread_cond_timedwait(&shared->changed, &shared->mutex, &deadline) != ETIMEDOUT) continue;
        if (shared->nrounds != round) return NULL;
        char missing[120];
        list_missing(shared, missing, sizeof missing);
        return weft_status_create(WEFT_RUNTIME, NULL, "rank %d waited %g s before the first step for rank %s", g->first,
                                  shared->timeout_seconds, missing);
    }
    if (shared->nrounds != round) return NULL;
    return given_up(g);
}

static weft_status exchange(local_gather *shared, const comm_gather *g, const void *mine, size_t nbytes, void *all) {
    page *p = &shared->pages[shared->nrounds % 2];
    if (shared->has_ended) return given_up(g);
    TRY(post(shared, g, p, mine, nbytes));
    if (shared->narrived == shared->nranks) {
        shared->narrived = 0;
        shared->nrounds++;
        memset(shared->has_come, 0, (size_t)shared->nranks * sizeof *shared->has_come);
        pthread_cond_broadcast(&shared->changed);
    } else {
        TRY(wait_for_all(shared, g));
    }
    if (nbytes) memcpy(all, p->bytes, nbytes * (size_t)shared->nranks);
    return NULL;
}

static weft_status run(comm_gather *g, const void *mine, size_t nbytes, void *all) {
    local_gather *shared = g->shared;
    pthread_mutex_lock(&shared->mutex);
    weft_status status = exchange(shared, g, mine, nbytes, all);
    if (status) { /* for everyone */
        shared->has_ended = true;
        pthread_cond_broadcast(&shared->changed);
    }
    pthread_mutex_unlock(&shared->mutex);
    return status;
}

static const comm_gather_engine local_engine = {"local", run};

comm_gather local_gather_join(local_gather *shared, int first, int count) {
    return (comm_gather){&local_engine, shared->nranks, first, count, shared};
}
