/* comm.h: ranks that communicate, behind two tables: a world is all ranks of a run, of which some are in this process;
 * a ring is some of them that run collectives together. An engine (local: ranks as threads; later mpi, nccl) implements
 * comm_world_engine and comm_ring_engine. */
#ifndef EXECUTOR_COMM_COMM_H
#define EXECUTOR_COMM_COMM_H

#include <stdatomic.h>
#include <string.h>

#include "base/base.h"
#include "executor/comm/wait.h"
#include "weft/types.h"

typedef enum comm_kind {
    COMM_ALL_REDUCE,
    COMM_REDUCE,
    COMM_BROADCAST,
    COMM_ALL_GATHER,
    COMM_REDUCE_SCATTER,
    COMM_ALL_TO_ALL,
    COMM_SCATTER,
    COMM_BARRIER,
    /* Of two members; the others take no part. The n-th send of one to another is the n-th that this one receives. */
    COMM_SEND, /* complete when the peer has the elements: it may wait for the peer to receive */
    COMM_RECV,
    COMM_GROUP, /* sends and receives at once: none waits for another of the group */
    COMM_KINDS
} comm_kind;

/* Which fields of a request a kind uses, and the elements of its buffers. */
typedef enum comm_extent { COMM_NOTHING, COMM_PART, COMM_WHOLE } comm_extent; /* none, count, nranks * count */
typedef struct comm_kind_row {
    const char *name; /* "all_reduce", ... */
    comm_extent src, dst;
    bool has_root, has_reduce, has_peer;
    bool only_root_reads, only_root_writes;
} comm_kind_row;
extern const comm_kind_row comm_kinds[COMM_KINDS];
/* "unknown" out of range. */
const char *comm_kind_name(comm_kind kind);

/* What one member asks for. All members of the ring must ask for the same, in the same order; of sends and receives
 * the two members of each.
 *
 * Buffers may be given in parts, in place of src and dst. An all_reduce, all_gather or reduce_scatter then has several
 * tensors at once (nparts). A kind whose buffers are larger than `count` elements has one for each member of the ring.
 * Parts lie apart from one another and from the other side. Only the result of part k of an all_reduce may be where its
 * source is. */
typedef struct comm_request {
    comm_kind kind;
    weft_dtype dtype;
    weft_reduce reduce;
    int root;      /* index in the ring */
    int64_t count; /* elements, see comm_kind */
    const void *src;
    void *dst;      /* may equal src */
    const char *op; /* for messages: type of the op */
    const void *const
        *srcs;         /* parts of the source, or NULL: all_reduce, reduce_scatter, all_to_all, the root's scatter */
    void *const *dsts; /* parts of the result, or NULL: all_reduce, all_gather, all_to_all */
    /* Elements of each part where they differ, else NULL; both where srcs and dsts are given. Of an all_to_all: what i
     * sends to j must be as much as what j receives from i. Of several tensors: those that a plain request of tensor k
     * would count, the same in both; `count` is their sum. */
    const int64_t *src_counts, *dst_counts;
    int64_t nparts;                   /* several tensors: how many; else 0 */
    int peer;                         /* send, recv: the other member, index in the ring; itself only within a group */
    const struct comm_request *group; /* of a group: ngroup sends and receives */
    int64_t ngroup;
} comm_request;

/* --- rings -------------------------------------------------------------------------------------------------------- */

/* A ring as one member sees it. */
typedef struct comm_ring {
    const struct comm_ring_engine *engine;
    int64_t id;
    int index, nranks; /* of this member */
    void *shared;      /* the engine's */
} comm_ring;

/* An engine runs collectives for a thread that waits for them, or puts them on a device's streams, or both. */
typedef struct comm_ring_engine {
    const char *name;
    /* Blocks until the collective is complete for this member; buffers are the host's. Summation is in ring order, so
     * that results do not depend on timing. A disagreement between members, or a failed peer, ends every member with a
     * status. NULL: the engine can only enqueue. */
    weft_status (*run)(comm_ring *ring, const comm_request *request);
    /* The device whose streams enqueue takes, by its name (executor/device.h). NULL: it has no enqueue. */
    const char *enqueues_on;
    /* Puts the collective on a stream, to run when what is there before has ended, and what comes after waits for it.
     * Buffers are the device's.
     * - A member's collectives are enqueued one at a time, in the order of its plan, which is equal on all members.
     * - It never waits for another member: one thread enqueues for several ranks, one after another.
     * - The request, and what it points to, may go when it returns (where there is `settle`: when that has said so).
     * A status: it is faulty in itself, and nothing was enqueued. What goes wrong later `error` says. The stream goes
     * on behind a collective that failed, so that buffers mean something only if `error` says nothing at its end. */
    weft_status (*enqueue)(comm_ring *ring, const comm_request *request, void *device_stream);
    /* Of an engine whose members meet on the host to join their streams: whether what this member enqueued is on its
     * stream. It never blocks, and is asked until it says so, or fails; what others have not enqueued yet takes time.
     * Until then the member enqueues nothing more, nothing else goes to the stream, and the request stays. NULL:
     * enqueue does it all. */
    weft_status (*settle)(comm_ring *ring, bool *out_is_there);
    /* What has gone wrong with collectives since they were enqueued; a NULL status: nothing so far. Once there is
     * something, that is said for ever. Never blocks. Any thread. */
    weft_status (*error)(comm_ring *ring);
    /* Ends what is in flight on the ring, here and at the other members. Waits until this member touches no buffer any
     * more. A status: it still may. The ring is good for nothing after. Any thread. One thread ends the rings of
     * several ranks one after another, all of a world that is aborted already (comm_world_abort): where an abort would
     * wait for those of other members, the world's abort begins them all. */
    weft_status (*abort)(comm_ring *ring, double timeout_seconds);
} comm_ring_engine;

static inline weft_status comm_run(comm_ring *r, const comm_request *request) {
    return r->engine->run(r, request);
}
/* On streams of the device of that name. */
static inline bool comm_can_enqueue(const comm_ring *r, const char *device_name) {
    return r->engine->enqueues_on && strcmp(r->engine->enqueues_on, device_name) == 0;
}
static inline weft_status comm_enqueue(comm_ring *r, const comm_request *request, void *device_stream) {
    return r->engine->enqueue(r, request, device_stream);
}
static inline weft_status comm_settle(comm_ring *r, bool *out_is_there) {
    *out_is_there = !r->engine->settle;
    return r->engine->settle ? r->engine->settle(r, out_is_there) : NULL;
}
static inline weft_status comm_error(comm_ring *r) {
    return r->engine->error(r);
}
static inline weft_status comm_abort(comm_ring *r, double timeout_seconds) {
    return r->engine->abort(r, timeout_seconds);
}

/* --- worlds ------------------------------------------------------------------------------------------------------- */

/* Which ranks a process runs, and how it meets the others. */
typedef struct comm_host {
    const struct comm_world_engine *engine;
    int nranks, first_rank, nlocal; /* ranks of the run; first_rank .. first_rank + nlocal - 1 are in this process */
    void *shared;                   /* the engine's; outlives the worlds that are made of it */
    struct flight_process *flight;  /* where they say what they are at (executor/flight.h); NULL: nowhere */
    bool by_library; /* sums may be the communication library's own: faster, and not of the same bits from run to run */
    void *on_device; /* of an engine whose rings run on a device's streams: that device; else NULL */
} comm_host;

/* One run's ranks as one process sees them. */
typedef struct comm_world {
    const struct comm_world_engine *engine;
    int nranks, first_rank, nlocal;
    const weft_allocator *allocator;
    wait_word alarm;             /* 1: some process has called comm_world_alarm, or has aborted the world */
    const _Atomic bool *aborted; /* for those who wait (executor/comm/wait.h) and must not outlast the world */
    void *shared;                /* the engine's */
} comm_world;

/* Exchanges of one channel are matched in the order of calls; those of different channels do not meet. */
typedef enum comm_channel { COMM_MAIN, COMM_WATCH, COMM_CHANNELS } comm_channel;

/* Every rank's bytes to every process, over no ring: what ranks exchange to find out whether they agree. */
typedef struct comm_gather {
    comm_channel channel;
    const void *mine;     /* of this process's ranks, one after another */
    void *all;            /* of all ranks, one after another */
    const size_t *nbytes; /* by rank of the world, the same in all processes; NULL: nbytes_each of every rank */
    size_t nbytes_each;
    double timeout_seconds;
    const char *when; /* for messages: "before the first step" */
} comm_gather;

typedef struct comm_world_engine {
    const char *name;
    /* A process makes its worlds in the same order as the others; may return before they do. */
    weft_status (*create)(const weft_allocator *allocator, const comm_host *host, comm_world **out_world);
    void (*destroy)(comm_world *world); /* no collective of its ranks may be running */
    /* The ring as `rank`, of this process, sees it. Called for every own rank before the first step, in any order.
     * `ranks` must be equal for all members; equal ids with other lists of ranks are different rings. Lives as long as
     * the world. */
    weft_status (*ring_get)(comm_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                            comm_ring **out_ring);
    /* All processes call it once, when their ranks have all rings and agree on what they communicate: makes what all
     * must make together. NULL: there is nothing. */
    weft_status (*connect)(comm_world *world);
    /* Blocks until all processes have called; one thread of each at a time and channel. Whoever waits too long gets a
     * status that names the ranks that are missing; so do all others, and all later calls of the channel. */
    weft_status (*gather)(comm_world *world, const comm_gather *g);
    /* Makes every waiting and future collective return WEFT_CANCELLED, in all processes, and ends gathers on COMM_MAIN.
     * Those on streams begin to end: comm_abort waits for it. The first message is kept; NULL: none yet. Any thread;
     * waits for nobody. */
    void (*abort)(comm_world *world, const char *why);
    /* Why the world was aborted, or NULL: not told. */
    const char *(*why)(const comm_world *world);
    /* Publishes 1 to the alarm of all processes. Any thread. */
    void (*alarm)(comm_world *world);
} comm_world_engine;

/* All `nranks` ranks as threads of this process. */
comm_host comm_local_host(int nranks);

static inline weft_status comm_world_create(const weft_allocator *allocator, const comm_host *host, comm_world **out) {
    return host->engine->create(allocator, host, out);
}
static inline void comm_world_destroy(comm_world *w) { /* NULL is fine */
    if (w) w->engine->destroy(w);
}
static inline weft_status comm_ring_get(comm_world *w, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                                        comm_ring **out_ring) {
    return w->engine->ring_get(w, id, nranks, ranks, rank, out_ring);
}
static inline weft_status comm_world_connect(comm_world *w) {
    return w->engine->connect ? w->engine->connect(w) : NULL;
}
static inline void comm_world_abort(comm_world *w, const char *why) {
    w->engine->abort(w, why);
}
static inline const char *comm_world_why(const comm_world *w) {
    return w->engine->why(w);
}
static inline void comm_world_alarm(comm_world *w) {
    w->engine->alarm(w);
}
static inline bool comm_world_aborted(const comm_world *w) {
    return atomic_load(w->aborted);
}
/* A process that has all ranks has all bytes. */
static inline weft_status comm_world_gather(comm_world *w, const comm_gather *g) {
    if (w->nlocal < w->nranks) return w->engine->gather(w, g);
    size_t nbytes = g->nbytes ? 0 : g->nbytes_each * (size_t)w->nranks;
    for (int r = 0; r < w->nranks && g->nbytes; r++) nbytes += g->nbytes[r];
    if (nbytes) memcpy(g->all, g->mine, nbytes);
    return NULL;
}

#endif
