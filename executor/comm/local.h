/* local.h: what the files of the local engine share. */
#ifndef EXECUTOR_COMM_LOCAL_H
#define EXECUTOR_COMM_LOCAL_H

#include <stdio.h>

#include "executor/comm/comm.h"
#include "executor/comm/reduce.h"
#include "executor/comm/wait.h"

/* Ranks are threads: more than this is a mistake. Bounds the pointers and pieces that a member keeps on its stack. */
enum { LOCAL_MAX_RANKS = 256 };

/* One member of a ring. Its request is written by itself before a meeting and read by all until the next one. */
typedef struct local_member {
    int64_t rank;
    comm_ring view;
    _Atomic bool busy; /* inside a collective: only one at a time */
    comm_request request;
    char padding[64];
} local_member;

typedef struct local_ring {
    struct local_world *world;
    struct local_ring *next;
    int64_t id;
    int nranks;
    wait_word generation; /* meetings so far */
    _Atomic uint32_t narrived;
    char padding[64];
    local_member members[];
} local_ring;

/* Blocks until all members have come. */
WEFT_MUST_USE weft_status local_meet(local_ring *r, int self);

/* This member's share of the collective that all have posted. */
WEFT_MUST_USE weft_status local_move(local_ring *r, int self);

#endif
