/* comm.h: collectives behind one table. An engine (local: ranks as threads; later mpi, nccl) implements comm_engine. */
#ifndef EXECUTOR_COMM_COMM_H
#define EXECUTOR_COMM_COMM_H

#include "base/base.h"
#include "weft/types.h"

typedef enum comm_kind {
    COMM_ALL_REDUCE,
    COMM_REDUCE,
    COMM_BROADCAST,
    COMM_ALL_GATHER,     /* dst: nranks * count elements, in ring order */
    COMM_REDUCE_SCATTER, /* src: nranks * count elements; dst: count */
    COMM_ALL_TO_ALL,     /* src and dst: nranks * count elements */
    COMM_SCATTER,        /* root's src: nranks * count elements; dst: count */
    COMM_BARRIER
} comm_kind;

/* What one member asks for. All members of the ring must ask for the same, in the same order.
 *
 * Buffers may be given in parts, in place of src and dst: an all_reduce of several tensors at once, or a buffer for
 * each member of the ring where a kind has larger buffers than `count` elements. Parts lie apart from one another and
 * from the other side, but for part k of an all_reduce, whose result may be where its source is. */
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
    /* Elements of each part where they differ, else NULL; both where srcs and dsts are given. Of an all_reduce, and of
     * an all_to_all: what i sends to j must be as much as what j receives from i. */
    const int64_t *src_counts, *dst_counts;
    int64_t nparts; /* all_reduce: of srcs; else 0 */
} comm_request;

/* A ring as one member sees it. */
typedef struct comm_ring {
    const struct comm_engine *engine;
    int64_t id;
    int index, nranks; /* of this member */
    void *shared;      /* the engine's */
} comm_ring;

typedef struct comm_engine {
    const char *name;
    /* Blocks until the collective is complete for this member. Summation is in ring order, so that results do not
     * depend on timing. A disagreement between members, or a failed peer, ends every member with a status. */
    weft_status (*run)(comm_ring *ring, const comm_request *request);
} comm_engine;

static inline weft_status comm_run(comm_ring *r, const comm_request *request) {
    return r->engine->run(r, request);
}
const char *comm_kind_name(comm_kind kind); /* "all_reduce", ... */

/* --- local engine: ranks are threads of this process -------------------------------------------------------------- */

typedef struct local_world local_world;

/* A world of `nranks` ranks. */
WEFT_MUST_USE weft_status local_world_create(const weft_allocator *allocator, int nranks, local_world **out);
void local_world_destroy(local_world *world);
/* Every member of ring `id` calls this once before the first step (in any order); `ranks` must be equal for all
 * members, and equal ids with disjoint rank lists are different rings. */
WEFT_MUST_USE weft_status local_ring_get(local_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                                         comm_ring **out);
/* Makes every waiting and future collective return WEFT_CANCELLED. Any thread. */
void local_world_abort(local_world *world);
bool local_world_aborted(const local_world *world);
/* The flag behind it, for others who wait (executor/comm/wait.h) and must not outlast the world. */
const _Atomic bool *local_world_abort_flag(const local_world *world);

#endif
