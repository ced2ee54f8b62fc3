/* mpi.h: what the files of the MPI engine share. The plugin weft_mpi.so is made of this folder; nothing else links MPI.
 */
#ifndef EXECUTOR_COMM_MPI_MPI_H
#define EXECUTOR_COMM_MPI_MPI_H

#include <mpi.h>
#include <pthread.h>

#include "executor/comm/plugin.h"
#include "executor/comm/reduce.h"
#include "executor/comm/request.h"

struct mpi_world;
struct mpi_ring;

/* A message of the listener's: what is not exchanged at a place that all processes come to. */
typedef enum mpi_control_kind { CONTROL_RING, CONTROL_ABORT, CONTROL_ALARM, CONTROL_END_CHANNEL } mpi_control_kind;
typedef struct mpi_control {
    int32_t kind;
    uint32_t world;  /* its number */
    int32_t tag;     /* CONTROL_RING: the first of its tags; CONTROL_END_CHANNEL: the channel */
    int32_t nranks;  /* CONTROL_RING */
    int64_t id;      /* CONTROL_RING */
    uint32_t nbytes; /* of text, of a ring's ranks */
    int32_t is_told; /* CONTROL_ABORT: a message follows */
} mpi_control;
/* What is behind a control. */
static inline const char *control_bytes(const mpi_control *control) {
    return (const char *)(control + 1);
}

/* A control message that waits for its world or ring to be made here, or for MPI to take it. */
typedef struct mpi_message {
    struct mpi_message *next;
    MPI_Request request;
    size_t nbytes; /* of the control */
    mpi_control control;
    char bytes[];
} mpi_message;

/* Where a process sleeps that waits for one of the same machine: whoever has done something for it rings. */
typedef struct mpi_doorbell {
    _Atomic uint32_t nrings;
    _Atomic uint32_t nsleepers;
    char padding[56];
} mpi_doorbell;

/* What processes of one machine count for one another. Counts never go back. */
typedef enum mpi_count { COUNT_MAILS, COUNT_HEARD, COUNT_STAGED, COUNT_REDUCED, COUNT_TAKEN, NCOUNTS } mpi_count;
enum { MOST_SLOTS = 8, MAIL_NBYTES = 128 << 10, ROOMS_NBYTES = 1024 << 10 };

/* What a process shows the others of its machine for one ring (near.c). */
typedef struct mpi_slot {
    struct {
        _Atomic uint64_t n;
        char padding[56];
    } counts[NCOUNTS];
    char mail[MAIL_NBYTES];
    char rooms[ROOMS_NBYTES];
} mpi_slot;

/* Memory of a process that the others of its machine see. */
typedef struct mpi_page {
    mpi_doorbell doorbell;
    mpi_slot slots[]; /* nslots */
} mpi_page;

/* This process among those that the launcher started. */
typedef struct mpi_host {
    const weft_allocator *allocator;
    int nprocs, proc;
    bool is_serial;        /* the library takes calls of one thread at a time */
    bool is_crowded;       /* this machine has more processes of the run than cores to spin on */
    pthread_mutex_t calls; /* then */
    MPI_Comm data, controls, gathers;
    MPI_Win pages_window;
    mpi_page **pages; /* by process; NULL: it is on another machine */
    int nslots;       /* of each */
    bool takes_slot[MOST_SLOTS];
    pthread_mutex_t mutex; /* of what follows, of slots, and of the rings of all worlds */
    int next_tag, end_tag; /* this process's share of the tags of rings */
    int most_tags;         /* tags of all processes */
    uint32_t nworlds;      /* made so far: the next one's number */
    struct mpi_world *worlds;
    mpi_message *waiting, *going; /* arrived before their world or ring; sent */
    pthread_t listener;
    _Atomic bool is_closing;
    MPI_Op add_fp16, add_bf16; /* library.c */
    _Atomic bool is_broken;    /* a collective of MPI's own is unfinished for ever: nothing may drive MPI any more */
} mpi_host;

typedef struct mpi_world {
    comm_world world;
    mpi_host *host;
    struct mpi_world *next;
    uint32_t number;
    int *first;        /* by process: its first rank; nprocs + 1 of them */
    comm_world *inner; /* for rings all of whose members are here */
    bool by_library;   /* MPI adds up */
    struct mpi_ring *rings;
    /* The message is of this world; false: it is for a ring that is not there yet. With host->mutex. */
    bool (*take_control)(struct mpi_world *w, const mpi_control *control);
    _Atomic bool aborted;
    char why[1000];
    _Atomic bool is_told;
    _Atomic bool has_ended[COMM_CHANNELS];
} mpi_world;

/* Whose a request of a batch is. */
typedef struct mpi_item {
    int proc, transfer; /* transfer -1: it is a whole message */
    bool is_receive;
} mpi_item;

/* A long message: it goes in pieces, of which a few are under way. */
typedef struct mpi_transfer {
    char *bytes; /* of what has not begun */
    size_t left;
    MPI_Comm comm;
    int proc, tag, nunder_way;
    bool is_receive;
} mpi_transfer;

/* Requests that are waited for together. */
typedef struct mpi_batch {
    const weft_allocator *allocator;
    MPI_Request *requests;
    mpi_item *items;
    int *indices; /* room for what is done of them */
    int count, capacity;
    mpi_transfer *transfers;
    int ntransfers, nbegun, transfer_capacity; /* nbegun: of the first so many all pieces have begun */
} mpi_batch;

/* What a member asks for, as it is told to other processes. */
typedef struct mpi_head {
    int32_t kind, dtype, reduce, root, peer, is_inline;
    int64_t count, nparts;
    uint64_t counts_hash;               /* of several tensors */
    int32_t slot;                       /* its process's for this ring; -1: none */
    uint64_t first_mail, first_segment; /* where the slot's counts stand */
    char op[64];
    int64_t counts[]; /* all_to_all: elements for each member, then of each: 2 * nranks */
} mpi_head;

typedef struct mpi_member {
    int64_t rank;
    int proc;
    int seat, place; /* its process in `procs`; itself among the members of its process */
    comm_ring view;  /* of members that are here */
    _Atomic bool busy;
    comm_request request; /* here: as it was asked; of others: as they said */
} mpi_member;

/* Bytes [at, at + nbytes) of all sources, reduced by process `owner` for member `to` (-1: all). */
typedef struct mpi_lane {
    int owner, to;
    size_t at, nbytes;
    size_t first_room; /* of flow.c */
} mpi_lane;

/* A process of a ring as another one of its machine sees it. */
typedef struct mpi_neighbour {
    mpi_slot *slot;
    uint64_t first_mail, first_segment;
} mpi_neighbour;

/* A ring with members in several processes, as one of these sees it. */
typedef struct mpi_ring {
    mpi_world *world;
    struct mpi_ring *next;
    int64_t id;
    int nranks;
    int nprocs, *procs;  /* that have members, ascending */
    int nlocal, *locals; /* members here, ascending */
    int most_members;    /* of one process */
    int own_seat;        /* in `procs` */
    mpi_neighbour *near; /* by process of `procs`; NULL: this ring's processes see no memory of each other */
    int slot;            /* own */
    bool is_settled;     /* it is known whether all have a slot */
    bool is_near;        /* all have */
    uint64_t nmails, nsegments;
    wait_word known; /* 1: `tag` is known */
    int tag;         /* collectives; tags of pairs follow */
    size_t head_nbytes;
    /* A meeting of the members here: the last one acts for all. */
    pthread_mutex_t mutex;
    int narrived;
    bool is_acting;
    wait_word generation; /* meetings that are over */
    weft_code code;       /* of the last one */
    char message[600];
    /* Of who acts: */
    char *heads;               /* by member */
    char *outgoing, *incoming; /* by process of `procs`: what goes there and what comes */
    size_t message_nbytes;     /* room of each */
    const char **inlined;      /* by process: what came with its heads */
    const char **srcs;         /* by member: what is reduced */
    const void **from;         /* the same, a block of it */
    comm_request *plain;       /* by member: requests as they are compared */
    mpi_lane *lanes;           /* as many as members */
    MPI_Comm comm;             /* of its processes, in the order of the ring; MPI_COMM_NULL: MPI adds up nothing */
    char *scratch;
    size_t scratch_nbytes;
    void *pieces; /* pieces.c: room in the scratch */
    mpi_batch batches[8];
    mpi_member members[];
} mpi_ring;

/* --- wire.c: requests and how they are waited for ----------------------------------------------------------------- */

/* Around calls of MPI. */
void mpi_enter(mpi_host *host);
void mpi_exit(mpi_host *host);
/* What an MPI call returned, as a status; NULL: success. */
weft_status mpi_check(int code, const char *call);

void batch_init(mpi_batch *b, const weft_allocator *allocator);
void batch_fini(mpi_batch *b);
WEFT_MUST_USE weft_status batch_send(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag, const void *bytes,
                                     size_t nbytes);
WEFT_MUST_USE weft_status batch_receive(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag, void *bytes,
                                        size_t nbytes);
/* The same of elements, which may be many. To another machine they go in pieces, so that both sides must call it, with
 * as many bytes. Those of one tag to one process go in order. Further ones may join the batch at once; another
 * batch may not before all pieces of the first have begun. The batch must be tested for that. */
WEFT_MUST_USE weft_status batch_send_long(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag,
                                          const void *bytes, size_t nbytes);
WEFT_MUST_USE weft_status batch_receive_long(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag,
                                             void *bytes, size_t nbytes);
bool batch_has_begun_all(const mpi_batch *b);
/* Waits until all are complete; then the batch is empty. WAIT_ABORTED: `stop` was set, WAIT_TIMED_OUT: they took longer
 * than timeout_seconds; the requests are still there. */
WEFT_MUST_USE weft_status batch_wait(mpi_host *host, mpi_batch *b, const _Atomic bool *stop, double timeout_seconds,
                                     wait_result *out_result);
/* Whether all are complete. */
WEFT_MUST_USE weft_status batch_test(mpi_host *host, mpi_batch *b, bool *out_done);
/* Takes receives back and waits a little for what cannot be taken back; then the batch is empty. */
void batch_cancel(mpi_host *host, mpi_batch *b);

/* A wait that has seen nothing happen `n` times, since before the doorbell stood at `nrings`: spin, yield, sleep. */
void mpi_back_off(const mpi_host *host, uint32_t n, uint32_t nrings);
uint32_t mpi_nrings(const mpi_host *host);
/* Wakes who sleeps in that process, if it is of this machine. */
void mpi_ring_doorbell(const mpi_host *host, int proc);

/* --- control.c: the listener, which takes what others say at any time --------------------------------------------- */

WEFT_MUST_USE weft_status control_start(mpi_host *host);
void control_stop(mpi_host *host);
/* To all other processes of `procs`. */
WEFT_MUST_USE weft_status control_send(mpi_host *host, const mpi_control *head, const void *bytes, const int *procs,
                                       int nprocs);
/* Hands over those that came before the world, or before the ring. With host->mutex. */
void control_claim(mpi_host *host);

/* --- world.c ------------------------------------------------------------------------------------------------------ */

extern const comm_world_engine mpi_world_engine;
static inline int world_proc_of(const mpi_world *w, int64_t rank) {
    int proc = 0;
    while (rank >= w->first[proc + 1]) proc++;
    return proc;
}
weft_status world_gather(comm_world *world, const comm_gather *g); /* gather.c */

/* --- ring.c ------------------------------------------------------------------------------------------------------- */

weft_status mpi_ring_get(comm_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                         comm_ring **out_ring);
/* With host->mutex. */
bool rings_take_tag(mpi_world *w, const mpi_control *control);
void rings_wake(mpi_world *w);
void rings_free(mpi_world *w);

static inline mpi_head *ring_head(const mpi_ring *r, char *heads, int index) {
    return (mpi_head *)(void *)(heads + (size_t)index * r->head_nbytes);
}
/* --- near.c: rings all of whose processes are on this machine ----------------------------------------------------- */

WEFT_MUST_USE weft_status near_open(mpi_host *host);
void near_close(mpi_host *host);
/* r->near, where all processes are on this machine. False: out of memory. */
bool near_reserve(mpi_ring *r);
/* Takes a slot for such a ring, before its first heads are written. */
void near_claim(mpi_ring *r);
/* Whether all have taken one, once all heads are here. */
void near_learn(mpi_ring *r);
void near_release(mpi_ring *r);
/* Where the message of collective r->nmails lies, from a process of `procs` to another. */
char *near_mail(const mpi_ring *r, int from, int to);
/* Own messages are written: those of all processes, in out[0 .. nprocs), in their slots. */
WEFT_MUST_USE weft_status near_exchange(mpi_ring *r, int self, const char **out);
/* Nothing of the others' slots is needed any more. */
void near_end(mpi_ring *r);
void near_count(mpi_ring *r, mpi_count count, uint64_t n);
/* Until all others have counted n since this ring's first collective. */
WEFT_MUST_USE weft_status near_wait(mpi_ring *r, int self, mpi_count count, uint64_t n);
/* The same of one process. */
WEFT_MUST_USE weft_status near_wait_for(mpi_ring *r, int self, int seat, mpi_count count, uint64_t n);

/* --- heads.c ------------------------------------------------------------------------------------------------------ */

weft_status ring_cancelled(const mpi_ring *r, int self);
WEFT_MUST_USE weft_status ring_know_tag(mpi_ring *r, int self);
/* Room for so many bytes that are kept until the next call. */
WEFT_MUST_USE weft_status ring_reserve(mpi_ring *r, size_t nbytes);
uint64_t head_hash_counts(const comm_request *q);
void head_of(const mpi_ring *r, const comm_request *q, mpi_head *out);
/* The request that a head tells of; its op and counts are the head's. */
comm_request head_request(const mpi_ring *r, const mpi_head *head);

/* --- move.c: what the collective that all have agreed on moves ---------------------------------------------------- */

/* What goes with the heads, so that small collectives are one message each way. */
enum { INLINE_NBYTES = 8192 };
bool move_is_inline(const mpi_ring *r, const comm_request *q);
/* Bytes from process `from` to process `to`; with `out`, from this process, the bytes themselves. */
size_t move_pack(const mpi_ring *r, const comm_request *q, int from, int to, char *out);
/* is_inline: it has come with the heads (r->inlined). */
WEFT_MUST_USE weft_status move_run(mpi_ring *r, bool is_inline);

/* --- library.c ---------------------------------------------------------------------------------------------------- */

WEFT_MUST_USE weft_status library_open(mpi_host *host);
void library_close(mpi_host *host);
WEFT_MUST_USE weft_status library_connect(comm_world *world);
void library_disconnect(mpi_ring *r);
bool library_takes(const mpi_ring *r, const comm_request *q);
WEFT_MUST_USE weft_status library_run(mpi_ring *r);

/* --- pair.c ------------------------------------------------------------------------------------------------------- */

WEFT_MUST_USE weft_status pair_run(mpi_ring *r, int self, const comm_request *requests, int64_t nrequests,
                                   const char *op);

#endif
