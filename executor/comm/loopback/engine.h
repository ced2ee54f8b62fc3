/* engine.h: rings of ranks that share one GPU. Part of the plugin weft_cuda.so.
 *
 * The idea: a member that enqueues a collective sets an event on its stream, and leaves its request for the others.
 * When all members have, each makes its stream wait for the others' events, does its share, and sets a second event.
 * When all members have done that, each makes its stream wait for these. Both waits of the host are settle's, which
 * asks and does not block. A stream waits only for what has been launched, so that it ends whatever becomes of others.
 *
 * The invariant: between a member's two events its buffers are everyone's, and its request does not change. */
#ifndef EXECUTOR_COMM_LOOPBACK_ENGINE_H
#define EXECUTOR_COMM_LOOPBACK_ENGINE_H

#include <pthread.h>

#include "executor/comm/over.h"
#include "executor/comm/request.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"

/* How far a member is with what it has enqueued. */
typedef enum loop_stage { LOOP_IDLE, LOOP_ARRIVED, LOOP_MOVED } loop_stage;

typedef struct loop_member {
    comm_ring view;
    int64_t rank;
    struct loop_ring *ring;
    cudaEvent_t arrived, moved; /* set when its stream comes to the collective, and when it has done its share */
    cudaStream_t stream;
    loop_stage stage;
    uint64_t narrived, nmoved; /* collectives of the whole ring */
    comm_request request;      /* at hand */
    int64_t nreceived;         /* of a group: what has been received so far */
} loop_member;

/* Sends of one member to another that this one has yet to receive: those to it among `requests`. */
typedef struct loop_parcel {
    const comm_request *requests; /* NULL: nothing, or all was received */
    int64_t nrequests, next;
    bool is_touched; /* some were received, for which the sender's stream does not wait yet */
} loop_parcel;

typedef struct loop_ring {
    const comm_world *world;
    const cuda_device *device;
    struct loop_ring *next;
    int64_t id;
    int nranks;
    pthread_mutex_t lock; /* of what follows */
    bool has_ended;       /* by an abort, of the world or of the ring */
    bool has_failed;
    char words[600];      /* of the failure */
    loop_parcel *parcels; /* nranks of each member, by who takes them */
    loop_member members[];
} loop_ring;

typedef struct loop_world {
    comm_over over; /* first */
    const cuda_device *device;
    loop_ring *rings;
    pthread_mutex_t lock; /* of the list */
} loop_world;

/* The engine of rings for a host whose ranks are all in this process, and on one GPU. */
WEFT_MUST_USE weft_status loop_host(cuda_device *d, comm_host *host);
extern const comm_ring_engine loop_ring_engine;

/* pair.c. All with the ring's lock. Lays out what the member sends; then, whether all of its request has been done. */
void loop_lay_out(loop_ring *r, int self);
WEFT_MUST_USE weft_status loop_settle_pairs(loop_ring *r, int self, bool *out_is_there);

/* move.c. This member's share of the collective that all have enqueued, on its stream. */
WEFT_MUST_USE weft_status loop_move(const loop_ring *r, int self);
/* Bytes copied on the stream; and the time that a link of options.rings_gb_per_second would take. */
WEFT_MUST_USE weft_status loop_copy(void *to, const void *from, size_t nbytes, cudaStream_t stream);
WEFT_MUST_USE weft_status loop_delay(const loop_ring *r, double nbytes, cudaStream_t stream);

#endif
