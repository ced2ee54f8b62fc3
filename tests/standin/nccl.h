/* nccl.h: what the files of the stand-in for NCCL share. */
#ifndef TESTS_STANDIN_NCCL_H
#define TESTS_STANDIN_NCCL_H

#include <nccl.h>
#include <pthread.h>

#include "tests/standin/queue.h"

enum { STANDIN_MOST_RANKS = 16, STANDIN_MOST_CALLS = 2 * STANDIN_MOST_RANKS, STANDIN_MOST_WINDOWS = 64 };

typedef enum standin_op { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, PAIR } standin_op;

struct standin_meeting;

/* How a collective is to run: ncclCollConfig_t of NCCL 2.31. */
typedef struct standin_config {
    size_t nbytes;
    unsigned magic, version;
    void *extension;
    int least_ctas, most_ctas, nvls_ctas, cluster;
    const char *algorithms;
    int is_forced, policy;
    uint64_t tag;
} standin_config;

typedef struct standin_call {
    standin_op kind;
    const void *src;
    void *dst;
    size_t count, nbytes; /* of one member */
    ncclDataType_t type;
    ncclRedOp_t op;
    int root;
    bool is_pair;          /* a send (src) or a receive (dst) */
    standin_config config; /* nbytes 0: none */
    int from, to;
    int64_t number;
    struct standin_meeting *meeting;
    cudaStream_t stream;
    bool is_pushed, has_arrived;
    struct standin_call *next;
} standin_call;

typedef struct standin_attendance {
    const standin_call *call;
    int rank;
} standin_attendance;

typedef struct standin_meeting {
    bool is_pair, is_done;
    int64_t number;
    int from, to;
    int nexpected, ncalls, narrived, nleft;
    int64_t begin_ns; /* virtual time: the last one arrives */
    standin_attendance calls[STANDIN_MOST_RANKS];
    struct standin_meeting *next;
} standin_meeting;

/* Memory that a communicator knows. */
typedef struct standin_known {
    const char *bytes;
    size_t nbytes;
    bool is_window;
    struct standin_known *next;
} standin_known;

typedef struct standin_comm {
    struct standin_team *team; /* NULL: of a split that is not complete */
    int rank;
    int color, key, nsplits; /* of the split at hand; how many there were */
    struct standin_comm *child;
    ncclComm_t *child_out; /* where the caller is told of it, when it is there */
    bool is_splitting, has_ended;
    ncclResult_t failure;
    int nsettles; /* so often it still says InProgress */
    int nin_flight;
    bool has_user; /* in an open group of this thread */
    pthread_t user;
    struct standin_launch *held; /* not on their streams yet */
    int ngraphs;                 /* nodes of them that have launches of it */
    standin_beside beside;       /* of the capture at hand */
    uint64_t bit;                /* a bit of its own among those that are there; 0: there are too many */
    standin_known *known;
    size_t window_nbytes[STANDIN_MOST_WINDOWS]; /* those that it has asked for */
    int nwindows;
    standin_known *window; /* the one at hand, and where the caller is told of it */
    void **window_out;
    int64_t ncollectives, nsent[STANDIN_MOST_RANKS], nreceived[STANDIN_MOST_RANKS];
} standin_comm;

/* A communicator as all members see it. */
typedef struct standin_team {
    char id[128];
    int nranks, njoined, nsplits, nsplitting; /* njoined: in this process */
    bool is_complete;                         /* with members of other processes */
    char gpus[STANDIN_MOST_RANKS][80];        /* by rank: which host, and which GPU there; "": not known */
    standin_comm *members[STANDIN_MOST_RANKS];
    standin_meeting *meetings;
    struct standin_team *next;
} standin_team;

/* What one member launches at once: calls on one communicator and stream. */
typedef struct standin_launch {
    standin_comm *comm;
    cudaStream_t stream;
    standin_call *calls, **end;
    bool hangs, is_in_graph;
    standin_item *held;
    struct standin_launch *next; /* in the open group; then of those that are held */
} standin_launch;

static inline standin_comm *standin_comm_of(ncclComm_t c) {
    return (standin_comm *)(void *)c;
}

ncclResult_t standin_launch_call(ncclComm_t comm, cudaStream_t stream, standin_call call);
/* Ends a communicator; the rules of that hold. */
ncclResult_t standin_end_comm(standin_comm *c, bool aborts);
/* nccl_register.c. With the lock. Whether no window is on its way; it may arrive now. */
bool standin_window_is_there(standin_comm *c);
/* An aborted communicator lets go of what it knows; a destroyed one should know nothing. */
void standin_forget_known(standin_comm *c, bool aborts);
/* Lets go of what it was told last, if anything. */
void standin_untell(standin_comm *c);
/* Registered buffers are all members' or nobody's, and those of windows at the same place. */
void standin_check_known(const standin_team *t, int rank_a, const standin_call *a, int rank_b, const standin_call *b);
/* NCCL takes no two ranks on one GPU. */
void standin_check_gpus(const standin_team *t);

/* nccl_calls.c: moves the data of a meeting at which all are there. */
void standin_move(const standin_team *t, const standin_meeting *m);
/* What a member's call of a collective touches of its memory. */
void standin_touch_call(const standin_item *item, const standin_team *t, int rank, const standin_call *c);
const char *standin_op_name(standin_op op);
bool standin_same_config(const standin_config *a, const standin_config *b);

/* --- nccl_far.c: members in other processes; without WEFT_STANDIN_SHARED there are none. With the lock. --- */
bool standin_is_far(void);
void standin_far_join(const standin_team *t, int rank);
bool standin_team_is_complete(standin_team *t);
/* A member asks for a split, and then whether all have: its rank among those of its color, and how many they are. */
void standin_far_ask_split(const standin_comm *c);
/* The same of a window: how large that of a member is, once it has asked; false: it has not. */
void standin_far_ask_window(const standin_comm *c, int number);
bool standin_far_window(const standin_comm *c, int number, int rank, size_t *out_nbytes);
bool standin_far_split(const standin_comm *c, int *out_rank, int *out_nranks);
/* How many members of this process take part in a call's meeting. */
int standin_far_expected(const standin_team *t, const standin_call *c);
/* What a member of this process brings to a meeting; whether the others of other processes have done so. */
void standin_far_bring(const standin_team *t, const standin_meeting *m, int rank, const standin_call *c);
bool standin_far_is_there(const standin_team *t, const standin_meeting *m);
/* standin_move, with their data; without the lock. */
void standin_far_move(const standin_team *t, standin_meeting *m);

#endif
