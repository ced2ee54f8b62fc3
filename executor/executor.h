/* executor.h: the structs behind weft/executor.h, shared by the files of this folder.
 *
 * An executor has a rank_state per rank and in it a stream_state per stream of the rank's plan. Everything that a step
 * needs is made by bind.c when the executor is created; worker.c runs steps and allocates nothing. */
#ifndef EXECUTOR_EXECUTOR_H
#define EXECUTOR_EXECUTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "executor/comm/comm.h"
#include "executor/comm/wait.h"
#include "executor/kernel.h"
#include "plan/plan.h"
#include "plan/timeline/timeline.h"
#include "weft/executor.h"

/* Memory on a cache line boundary, zeroed. */
typedef struct memory {
    unsigned char *bytes; /* 64-byte aligned; NULL where nbytes is 0 */
    void *block;
    size_t block_nbytes;
} memory;

/* With options.profile: what one instruction took in all steps that count (profile.c). */
typedef struct profile_cell {
    int64_t ns, count;
} profile_cell;

/* An instruction with everything resolved for one rank. */
typedef struct bound_instr {
    kernel_call call;
    weft_status (*run)(const kernel_call *);
    const plan_instr *instr;
    const uint8_t *guard, *outer_guard; /* NULL: always */
    struct bound_group *group;          /* group.c: it is fused with its neighbours; NULL: it is not */
    size_t workspace_nbytes;            /* that the kernel asked for */
    uint32_t nwaits;                    /* instr's */
    bool signals;                       /* another stream waits for this one */
} bound_instr;

/* One stream of one rank: its instructions and the thread that runs them. */
typedef struct stream_state {
    wait_word done; /* instructions completed in this step, as far as anyone waits for them */
    struct weft_executor *executor;
    struct rank_state *rank;
    int stream;
    _Atomic uint32_t at; /* the instruction that it has begun, or waits to begin; ninstrs: it has ended the step */
    bound_instr *instrs;
    size_t ninstrs;
    memory workspace;
    pthread_t thread;
    bool has_thread;
    profile_cell *cells; /* by instruction; then one for waiting. NULL: nothing is profiled */
} stream_state;

/* A ring of the plan as this rank sees it: the collectives of all members in order, and sends and receives in order. */
typedef struct ring_use {
    int64_t id;
    comm_ring *comm;
    const int64_t *ranks;
    const plan_instr **instrs, **pairs;
    size_t ninstrs, npairs;
    struct inflight_record *inflight; /* watchdog.c */
} ring_use;

typedef struct rank_state {
    int rank;
    const weft_plan *plan;
    const struct value_index *index;
    memory persistent, temporary; /* this executor's own: feeds and fetches; what lives within a step */
    tensor *values;               /* by value of the plan: type and address */
    bool *is_inherited;           /* by value: an executor that was made before holds it in the same state */
    ring_use *rings;
    size_t nrings;
    stream_state *streams; /* plan->nstreams of them */
} rank_state;

/* Values of a plan by name: the first of each. */
typedef struct value_index {
    const weft_plan *plan;
    hash_table table;
} value_index;

struct weft_executor {
    weft_context *context;
    arena arena;
    weft_executor_options options;
    struct executor_state *state; /* persistables, which other executors may share */
    int nranks;             /* of the run */
    int first_rank, nlocal; /* those of this process */
    rank_state *ranks;      /* nlocal of them: rank first_rank + i is ranks[i] */
    value_index *indices; /* one per plan */
    size_t nplans;
    comm_world *world;
    size_t ninstrs; /* over all ranks */

    /* Steps: the caller publishes `go`, workers count down `nrunning`, the last one publishes `finished`. */
    wait_word go, finished;
    _Atomic uint32_t nrunning;
    uint32_t nworkers;        /* streams with instructions: that many threads run, one of them the caller */
    stream_state *callers;    /* the stream that the caller's thread runs; NULL without instructions */
    bool shares_cores;        /* more workers than cores */
    struct thread_pool *pool; /* helps kernels; NULL where each call has one thread */
    _Atomic bool stopping;
    uint64_t nsteps;          /* run so far */
    uint64_t step;            /* number of the next one: what random ops draw by */
    int64_t start_ns, end_ns; /* of the last step */

    _Atomic(weft_status) failure;      /* the first one; of this run */
    _Atomic(weft_status) cancellation; /* only if there is no failure that says why */
    bool has_failed;
    wait_word late;            /* what delayed instructions sleep on; never published */
    struct watchdog *watchdog; /* NULL: there is nothing to watch, or none is wanted */
    size_t nwatched;           /* collectives with an in-flight record, over all ranks */

    timeline *timeline;               /* NULL: nothing is traced */
    struct executor_profile *profile; /* NULL: nothing is profiled */
};

/* --- executor.c --------------------------------------------------------------------------------------------------- */
/* weft_executor_create with the persistables of `state`, or with a state of its own where that is NULL. */
WEFT_MUST_USE weft_status executor_create(weft_context *context, const weft_plan *const *plans, size_t nplans,
                                          int nranks, const weft_executor_options *options,
                                          struct executor_state *state, weft_executor **out_executor);
/* Bytes that go away with the executor: not those of its state. */
int64_t executor_own_nbytes(const weft_executor *x);

/* A rank of this process. */
static inline rank_state *executor_rank(const weft_executor *x, int64_t rank) {
    return &x->ranks[rank - x->first_rank];
}
static inline bool executor_has_rank(const weft_executor *x, int64_t rank) {
    return rank >= x->first_rank && rank < x->first_rank + x->nlocal;
}

/* --- memory.c ----------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status memory_init(memory *m, const weft_allocator *allocator, size_t nbytes);
void memory_fini(memory *m, const weft_allocator *allocator);

/* --- bind.c: plan and rank become instructions that only have to be run ------------------------------------------- */
WEFT_MUST_USE weft_status bind_rank(weft_executor *x, rank_state *rank);
WEFT_MUST_USE weft_status value_index_init(value_index *index, const weft_plan *plan, arena *a);
/* The value of that name; "NAME#rows" are its rows. -1 if there is none. */
int32_t value_index_find(const value_index *index, const char *n);

/* --- rings.c ------------------------------------------------------------------------------------------------------ */
/* Finds or makes every ring that the rank's plan communicates on. */
WEFT_MUST_USE weft_status rings_resolve(weft_executor *x, rank_state *rank);
/* The ring of an instruction, or NULL. */
const ring_use *rings_find(const rank_state *rank, int64_t id);

/* --- worker.c ----------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status workers_start(weft_executor *x);
void workers_stop(weft_executor *x);
/* Ends the step on all ranks with `status`, unless another one said why before. Any thread; takes ownership. */
void workers_abort(weft_executor *x, weft_status status);
void workers_wake(weft_executor *x); /* whoever waits in a step looks whether the world is aborted */

/* --- profile.c ---------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status profile_init(weft_executor *x); /* where options ask for it; measures the machine */
void profile_begin_step(weft_executor *x);
void profile_count_step(weft_executor *x); /* the one that has just ended */

/* --- trace.c ------------------------------------------------------------------------------------------------------ */
WEFT_MUST_USE weft_status trace_init(weft_executor *x); /* where options ask for it */

#endif
