/* engine.h: rings over NCCL, whose collectives go to streams of device cuda. Part of the plugin weft_cuda.so.
 *
 * A world is that of another engine, which joins the ranks (local, mpi): it carries gathers, aborts and alarms. Its
 * rings are NCCL's. Once all ranks have their rings, comm_world_engine.connect makes a communicator of all ranks. It
 * splits that into one for each ring, in the order of ring ids: each rank takes part in each split. */
#ifndef EXECUTOR_COMM_NCCL_ENGINE_H
#define EXECUTOR_COMM_NCCL_ENGINE_H

#include <pthread.h>

#include "executor/comm/comm.h"
#include "executor/comm/nccl/library.h"
#include "executor/comm/over.h"
#include "executor/devices/cuda/library.h"

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
    void *barrier; /* device memory: what a barrier adds up */
    bool has_ended;
    bool has_failed;
    char words[400]; /* of the failure */
    ncclComm_t made; /* while it is split off: NCCL writes it when it likes; then it is `comm` */
    struct nccl_ring *next;
} nccl_ring;

/* What this engine keeps of a world. */
typedef struct nccl_world {
    comm_over over;
    nccl_ring *rings;
    ncclComm_t *all;  /* by rank of this process: the communicators that rings were split from */
    ncclComm_t *none; /* where NCCL writes that a rank has no part in a ring */
} nccl_world;

/* The engine of rings for the ranks of a host; they have `ngpus` GPUs, which they take in turn. */
WEFT_MUST_USE weft_status nccl_host(int ngpus, comm_host *host);
extern const comm_ring_engine nccl_ring_engine;

/* settle.c. How many GPUs there are, which ranks take in turn. */
void nccl_use_gpus(int ngpus);
int nccl_gpu_of(int64_t rank);
/* Waits until a non-blocking communicator has done what it was asked. Work that it has not launched yet would come
 * behind an event that is recorded meanwhile. `world`: gives up when it is aborted; NULL: by the deadline alone. */
WEFT_MUST_USE weft_status nccl_settle(ncclComm_t comm, ncclResult_t result, const comm_world *world,
                                      double timeout_seconds, const char *call);
WEFT_MUST_USE weft_status nccl_check(ncclResult_t result, const char *call);

/* connect.c */
WEFT_MUST_USE weft_status nccl_connect(nccl_world *w);

#endif
