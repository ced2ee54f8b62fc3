/* gather.c: every process's bytes to every process. Each sends its own to all others; a message that does not come in
 * time names its ranks. */
#include <stdio.h>

#include "executor/comm/mpi/mpi.h"

/* One exchange as this process takes part. */
typedef struct visit {
    mpi_world *world;
    const comm_gather *asked;
    mpi_batch *receives; /* a batch a process, so that those that are missing are known */
    mpi_batch sends;
    int tag;
} visit;

static size_t nbytes_of(const visit *v, int proc) {
    const mpi_world *w = v->world;
    if (!v->asked->nbytes) return v->asked->nbytes_each * (size_t)(w->first[proc + 1] - w->first[proc]);
    size_t nbytes = 0;
    for (int r = w->first[proc]; r < w->first[proc + 1]; r++) nbytes += v->asked->nbytes[r];
    return nbytes;
}

static weft_status given_up(const visit *v) {
    const char *why = comm_world_why(&v->world->world);
    if (why) return weft_status_create(WEFT_RUNTIME, NULL, "%s", why);
    return weft_status_create(WEFT_CANCELLED, NULL, "rank %d: what ranks exchange %s was given up",
                              v->world->world.first_rank, v->asked->when);
}

/* "2, 5, 7": up to 8 of the ranks that have not come. */
static void list_missing(const visit *v, char *out, size_t nbytes) {
    const mpi_world *w = v->world;
    size_t n = 0, listed = 0;
    *out = '\0';
    for (int p = 0; p < w->host->nprocs; p++)
        for (int r = w->first[p]; v->receives[p].count && r < w->first[p + 1] && n < nbytes; r++) {
            if (listed++ == 8) {
                snprintf(out + n, nbytes - n, " and others");
                return;
            }
            n += (size_t)snprintf(out + n, nbytes - n, "%s%d", listed > 1 ? ", " : "", r);
        }
}

/* To the others, and to later calls. */
static weft_status end_channel(const visit *v, weft_status status) {
    mpi_host *host = v->world->host;
    if (!atomic_exchange(&v->world->has_ended[v->asked->channel], true)) {
        mpi_control control = {.kind = CONTROL_END_CHANNEL, .world = v->world->number, .tag = v->asked->channel};
        for (int p = 0; p < host->nprocs; p++) weft_status_free(control_send(host, &control, NULL, &p, 1));
    }
    return status;
}

static weft_status start(visit *v) {
    mpi_host *host = v->world->host;
    char *at = v->asked->all;
    for (int p = 0; p < host->nprocs; at += nbytes_of(v, p++)) {
        size_t nbytes = nbytes_of(v, p), own = nbytes_of(v, host->proc);
        if (p == host->proc && nbytes) memcpy(at, v->asked->mine, nbytes);
        if (p == host->proc) continue;
        TRY(batch_receive(host, &v->receives[p], host->gathers, p, v->tag, at, nbytes));
        TRY(batch_send(host, &v->sends, host->gathers, p, v->tag, v->asked->mine, own));
    }
    return NULL;
}

static weft_status wait_for_all(visit *v) {
    mpi_host *host = v->world->host;
    int64_t deadline = wait_deadline_ns(v->asked->timeout_seconds);
    const _Atomic bool *ended = &v->world->has_ended[v->asked->channel];
    for (int p = 0; p <= host->nprocs; p++) {
        mpi_batch *b = p < host->nprocs ? &v->receives[p] : &v->sends;
        double left = (double)(deadline - wait_clock_ns()) * 1e-9;
        wait_result result;
        TRY(batch_wait(host, b, ended, left, &result));
        if (result == WAIT_ABORTED) return given_up(v);
        if (result == WAIT_REACHED) continue;
        char missing[120];
        for (int q = p + 1; q < host->nprocs; q++) {
            bool done;
            TRY(batch_test(host, &v->receives[q], &done));
        }
        list_missing(v, missing, sizeof missing);
        return weft_status_create(WEFT_RUNTIME, NULL, "rank %d waited %g s %s for rank %s", v->world->world.first_rank,
                                  v->asked->timeout_seconds, v->asked->when, missing);
    }
    return NULL;
}

weft_status world_gather(comm_world *world, const comm_gather *g) {
    mpi_world *w = world->shared;
    mpi_host *host = w->host;
    visit v = {
        .world = w, .asked = g, .tag = (int)((w->number * COMM_CHANNELS + g->channel) % (uint32_t)host->most_tags)};
    if (atomic_load(&w->has_ended[g->channel])) return given_up(&v);
    size_t nbytes = (size_t)host->nprocs * sizeof *v.receives;
    v.receives = base_alloc(world->allocator, nbytes);
    if (!v.receives) return end_channel(&v, base_out_of_memory());
    for (int p = 0; p < host->nprocs; p++) batch_init(&v.receives[p], world->allocator);
    batch_init(&v.sends, world->allocator);
    weft_status status = start(&v);
    if (!status) status = wait_for_all(&v);
    if (status) status = end_channel(&v, status);
    for (int p = 0; p < host->nprocs; p++) {
        batch_cancel(host, &v.receives[p]);
        batch_fini(&v.receives[p]);
    }
    batch_cancel(host, &v.sends);
    batch_fini(&v.sends);
    base_free(world->allocator, v.receives, nbytes);
    return status;
}
