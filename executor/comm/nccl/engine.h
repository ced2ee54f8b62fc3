/* engine.h: rings over NCCL, whose collectives go to streams of device cuda. Part of the plugin weft_cuda.so.
 *
 * A world is that of another engine, which joins the ranks (local, mpi): it carries gathers, aborts and alarms. Its
 * rings are NCCL's. Once all ranks have their rings, comm_world_engine.connect makes a communicator of all ranks. It
 * splits that into one for each ring, in the order of ring ids: each rank takes part in each split. */
#ifndef EXECUTOR_COMM_NCCL_ENGINE_H
#define EXECUTOR_COMM_NCCL_ENGINE_H

#include <pthread.h>

#include "executor/comm/comm.h"
#include "executor/comm/nccl/config.h"
#include "executor/comm/nccl/library.h"
#include "executor/comm/over.h"
#include "executor/devices/cuda/cuda.h"

/* A block of memory in which buffers of a ring's collectives lie. */
typedef struct nccl_buffer {
    void *bytes;
    size_t nbytes;
    void *window, *handle; /* NCCL's; NULL: it has none. It writes the window when it likes */
    struct nccl_buffer *next;
} nccl_buffer;

/* Memory of a ring's collectives that goes behind its communicator. */
typedef struct nccl_kept {
    device_memory memory;
    struct nccl_kept *next;
} nccl_kept;

/* A ring as one member sees it. */
typedef struct nccl_ring {
    comm_ring view;
    const comm_world *world;
    int64_t rank;         /* of the member, in the run */
    const int64_t *ranks; /* nranks of them */
    pthread_mutex_t lock; /* of what follows */
    ncclComm_t comm;      /* NULL: not yet, or no more */
    pthread_t aborter;    /* which tells kernels to end, and waits until no graph has them any more */
    bool has_aborter;
    ncclComm_t aborted; /* by it */
    _Atomic bool is_gone;
    bool was_awaited;          /* the aborter's end */
    uint64_t configs;          /* of its collectives: a hash */
    const nccl_config *config; /* of the collective at hand; NULL: as NCCL likes */
    void *barrier;             /* device memory: what a barrier adds up */
    nccl_kept *kept;
    nccl_buffer *buffers; /* in the order in which collectives use them (register.c) */
    uint64_t places;      /* where in them buffers lie: a hash */
    bool has_others;      /* some lie elsewhere */
    bool has_ended;
    bool has_failed;
    char words[400]; /* of the failure */
    ncclComm_t made; /* while it is split off: NCCL writes it when it likes; then it is `comm` */
    struct nccl_ring *next;
} nccl_ring;

/* What this engine keeps of a world. */
typedef struct nccl_world {
    comm_over over; /* first */
    cuda_device *device;
    nccl_ring *rings;
    ncclComm_t *all;  /* by rank of this process: the communicators that rings were split from */
    ncclComm_t *none; /* where NCCL writes that a rank has no part in a ring */
} nccl_world;

/* The engine of rings for the ranks of this process, each of which has a GPU of the device. */
WEFT_MUST_USE weft_status nccl_host(cuda_device *d, comm_host *host);
extern const comm_ring_engine nccl_ring_engine;

/* place.c. Gives each rank of this process its GPU. By all processes. */
WEFT_MUST_USE weft_status nccl_place(const nccl_world *w);

/* settle.c. Waits until a non-blocking communicator has done what it was asked. Work that it has not launched yet would
 * come behind an event that is recorded meanwhile. `world`: gives up when it is aborted; NULL: by the deadline alone.
 */
WEFT_MUST_USE weft_status nccl_settle(ncclComm_t comm, ncclResult_t result, const comm_world *world,
                                      double timeout_seconds, const char *call);
WEFT_MUST_USE weft_status nccl_check(ncclResult_t result, const char *call);

/* ring.c. NULL: another engine's. */
nccl_ring *nccl_ring_of(comm_ring *view);
/* For what is enqueued from now on; it stays. Other engines' rings have no use for it. */
void nccl_configure(comm_ring *view, const nccl_config *config);
/* With the ring's lock: begins to abort its communicator. */
void nccl_ring_end(nccl_ring *r);
/* Waits for the end of the abort, where one has begun; false: it has not come, and the ring is its thread's. */
bool nccl_ring_has_ended(nccl_ring *r);

/* register.c. While a member is recorded: of what it will ask for, in the order of its plan. Others' rings are passed
 * over. */
WEFT_MUST_USE weft_status nccl_announce(comm_ring *view, const comm_request *q, const nccl_config *config);
/* What members have to agree on so that the ring's buffers are registered; 0: they are not. */
uint64_t nccl_buffers_word(const nccl_ring *r);
/* By all members, when they have the communicator. */
WEFT_MUST_USE weft_status nccl_register(nccl_ring *r);
/* Before a member's memory goes, and after its graphs. True: NCCL puts nothing more on its streams; false: the abort of
 * its communicator has not come to an end. */
bool nccl_release(comm_ring *view);
/* The same of a ring whose neighbours may be gone: it begins no abort. */
bool nccl_ring_release(nccl_ring *r);

/* world.c. Takes memory that collectives of the ring had: it goes when the communicator has. NCCL lets go of what
 * graphs had registered by and by, at the latest when it is destroyed. Of no ring, or another engine's, it goes at
 * once. */
void nccl_keep(device *d, comm_ring *view, device_memory *m);

/* connect.c */
WEFT_MUST_USE weft_status nccl_connect(nccl_world *w);

#endif
