/* local.h: what the files of the local engine share. */
#ifndef EXECUTOR_COMM_LOCAL_H
#define EXECUTOR_COMM_LOCAL_H

#include <pthread.h>
#include <stdio.h>

#include "executor/comm/comm.h"
#include "executor/comm/reduce.h"
#include "executor/comm/request.h"
#include "executor/comm/wait.h"

/* Ranks of one process are threads: more than this is a mistake. Bounds the pointers and pieces that a member keeps on
 * its stack. */
enum { LOCAL_MAX_RANKS = 256 };

/* One member of a ring. Its request is written by itself before a meeting and read by all until the next one. */
typedef struct local_member {
    int64_t rank;
    wait_word given, taken; /* change when a peer has something for it, or has taken what it gave (local_pair.c) */
    comm_ring view;
    _Atomic bool busy; /* inside a collective: only one at a time */
    comm_request request;
    char padding[64];
} local_member;

/* What a member has for another one: the sends to it among `requests`, which it takes one after another. */
typedef struct local_parcel {
    _Atomic(const comm_request *) requests; /* NULL: nothing */
    int64_t nrequests;
    int64_t next; /* the taker's: where it looks for the next send to it */
    bool is_refused;
    comm_request refused_by; /* with no addresses */
} local_parcel;

typedef struct local_ring {
    struct local_world *world;
    struct local_ring *next;
    int64_t id;
    int nranks;
    wait_word generation; /* meetings so far */
    _Atomic uint32_t narrived;
    local_parcel *parcels; /* nranks of each member, by who takes them */
    char padding[64];
    local_member members[];
} local_ring;

/* What processes exchange on one channel (local_gather.c). */
typedef struct local_board {
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t changed;
    struct local_page {
        char *bytes;
        size_t capacity;
        size_t nbytes; /* of all ranks */
    } pages[2];
    unsigned nrounds; /* that are complete */
    int narrived;     /* ranks, in the one at hand */
    bool has_ended;
    bool *has_come; /* by rank, in the one at hand */
} local_board;

/* The world as one process sees it. */
typedef struct local_view {
    comm_world world;
    struct local_view *next;
} local_view;

/* What all processes of a run meet in: mostly there is but one. */
typedef struct local_world {
    const weft_allocator *allocator;
    int nranks;
    pthread_mutex_t mutex; /* of rings, why, views */
    local_ring *rings;
    _Atomic bool aborted;
    char why[1000];
    _Atomic bool is_told;     /* why holds the message */
    struct local_view *views; /* of the processes that are there */
    local_board boards[COMM_CHANNELS];
    /* Of a hub: */
    struct local_hub *hub; /* NULL: it has one user */
    struct local_world *next;
    int nusers, njoined; /* njoined: ranks of all that ever joined */
    bool *has_joined;    /* by rank */
} local_world;

/* --- local_world.c ------------------------------------------------------------------------------------------------ */

/* Processes that are threads of one: each makes its worlds of a host of the same hub, and the n-th world that one makes
 * is also the n-th of the others. */
typedef struct local_hub local_hub;
WEFT_MUST_USE weft_status local_hub_create(const weft_allocator *allocator, int nranks, local_hub **out_hub);
void local_hub_destroy(local_hub *hub); /* after its worlds; NULL is fine */
comm_host local_hub_host(local_hub *hub, int first_rank, int nlocal);

/* --- local.c ------------------------------------------------------------------------------------------------------ */

WEFT_MUST_USE weft_status local_ring_get(comm_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                                         comm_ring **out);
void local_rings_free(local_world *world);
void local_rings_wake(local_world *world); /* whoever waits looks at `aborted` */

/* --- local_gather.c ----------------------------------------------------------------------------------------------- */

WEFT_MUST_USE weft_status local_board_init(local_board *board, const weft_allocator *allocator, int nranks);
void local_board_fini(local_board *board, const weft_allocator *allocator, int nranks);
WEFT_MUST_USE weft_status local_gather(comm_world *world, const comm_gather *g);
void local_board_end(local_board *board); /* whoever waits there, or comes, gives up */

/* --- local_meet.c ------------------------------------------------------------------------------------------------- */

/* Blocks until all members have come. */
WEFT_MUST_USE weft_status local_meet(local_ring *r, int self);
weft_status local_cancelled(const local_ring *r, int self);

/* --- local_pair.c ------------------------------------------------------------------------------------------------- */

/* Sends and receives, in a group or alone; returns when all are complete. */
WEFT_MUST_USE weft_status local_exchange(local_ring *r, int self, const comm_request *requests, int64_t nrequests);

/* --- local_move.c ------------------------------------------------------------------------------------------------- */

/* This member's share of the collective that all have posted. */
WEFT_MUST_USE weft_status local_move(local_ring *r, int self);

#endif
