/* executor.h: the structs behind weft/executor.h, shared by the files of this folder.
 *
 * An executor has a rank_state per rank and in it a stream_state per stream of the rank's plan. What all devices need
 * is made by bind.c when the executor is created; the device records it in its own form (device.h), and runs it. */
#ifndef EXECUTOR_EXECUTOR_H
#define EXECUTOR_EXECUTOR_H

#include <stdatomic.h>

#include "dist_attr/slice.h"
#include "executor/clocks.h"
#include "executor/comm/comm.h"
#include "executor/device.h"

enum { PROFILE_SAMPLES = 32 }; /* turns of which a median is kept */

/* One stream of one rank: its instructions, and what is kept of when they ran. */
typedef struct stream_state {
    struct weft_executor *executor;
    struct rank_state *rank;
    int stream;
    device_instr *instrs;
    size_t ninstrs;
    profile_cell *cells; /* by instruction; then one for waiting. NULL: nothing is profiled */
    trace_event *turns;  /* with cells: by instruction PROFILE_SAMPLES of its last turns */
    trace_event *last;   /* with cells: room for a step's events, where there is no timeline */
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
    device_memory persistent, temporary; /* this executor's own: feeds and fetches; what lives within a step */
    tensor *values;                      /* by value of the plan: type, and address on the device */
    device_memory *copies;               /* by value: what the host sees of it (values.c); NULL: the value itself */
    bool *is_inherited;                  /* by value: an executor that was made before holds it in the same state */
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
    device *device;               /* the state's */
    device_run *run;
    int nranks;             /* of the run */
    int first_rank, nlocal; /* those of this process */
    rank_state *ranks;      /* nlocal of them: rank first_rank + i is ranks[i] */
    value_index *indices;   /* one per plan */
    size_t nplans;
    comm_world *world;
    size_t ninstrs; /* over all ranks */

    uint64_t nsteps;          /* run so far */
    uint64_t step;            /* number of the next one: what random ops draw by */
    int64_t start_ns, end_ns; /* of the last step */

    _Atomic(weft_status) failure;      /* the first one; of this run */
    _Atomic(weft_status) cancellation; /* only if there is no failure that says why */
    bool has_failed;
    bool is_stuck;             /* a stream did not end: destroying frees nothing that it may touch */
    struct watchdog *watchdog; /* NULL: there is nothing to watch, or none is wanted */
    size_t nwatched;           /* collectives with an in-flight record, over all ranks */

    timeline *timeline;               /* NULL: nothing is traced */
    clock_reading clock;              /* with a timeline or a profile: when it began */
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

/* --- values.c: values as the host sees them; `value` is a number of the rank's plan --------------------------------
 */
/* Copies to the value: the part of the whole tensor `whole` that the rank has. */
WEFT_MUST_USE weft_status executor_take(weft_executor *x, int rank, int32_t value, const slice *part,
                                        const void *whole);
/* The value's bytes, for reading; borrowed until the next run. */
WEFT_MUST_USE weft_status executor_lend(const weft_executor *x, int rank, int32_t value, const void **out_bytes);
/* Memory of the host to write all of the value's bytes to; then they become its. Allocates the first time. */
WEFT_MUST_USE weft_status executor_stage(const weft_executor *x, int rank, int32_t value, void **out_bytes);
WEFT_MUST_USE weft_status executor_unstage(weft_executor *x, int rank, int32_t value);

/* --- bind.c: plan and rank become instructions that only have to be run ------------------------------------------- */
WEFT_MUST_USE weft_status bind_rank(weft_executor *x, rank_state *rank);
WEFT_MUST_USE weft_status value_index_init(value_index *index, const weft_plan *plan, arena *a);
/* The value of that name; "NAME#rows" are its rows. -1 if there is none. */
int32_t value_index_find(const value_index *index, const char *n);

/* --- device_instr.c: for devices, while they record ----------------------------------------------------------------
 */
/* A fault of an instruction, with rank and op in front. */
weft_status bind_error(const rank_state *rank, weft_code code, const plan_instr *instr, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* That the device has a kernel for an instruction. */
WEFT_MUST_USE weft_status bind_check_kernel(const rank_state *rank, const device *d, const plan_instr *instr);
/* A kernel's refusal with rank and op in front; takes ownership. */
weft_status bind_refusal(const rank_state *rank, const plan_instr *instr, weft_status status);
/* Gives arguments their addresses, once the kernel has been prepared: that may look at types only. */
void device_instr_locate(const rank_state *rank, device_instr *i);

/* --- rings.c ------------------------------------------------------------------------------------------------------ */
/* Finds or makes every ring that the rank's plan communicates on. */
WEFT_MUST_USE weft_status rings_resolve(weft_executor *x, rank_state *rank);
/* The ring of an instruction, or NULL. */
const ring_use *rings_find(const rank_state *rank, int64_t id);

/* --- failure.c ---------------------------------------------------------------------------------------------------- */
/* Ends the step on all ranks with `status`, unless another one said why before. Any thread; takes ownership. */
void executor_abort(weft_executor *x, weft_status status);
/* For devices: the same, of an instruction that failed; it is named. */
void executor_fail(weft_executor *x, int rank, const plan_instr *instr, weft_status status);
/* The same of a collective that a device's stream has run. */
void executor_fail_ring(weft_executor *x, int rank, int64_t ring_id, weft_status status);
/* Whoever waits in a step looks whether the world is aborted. Any thread. */
void executor_wake(weft_executor *x);

/* --- world_clock.c ------------------------------------------------------------------------------------------------ */
/* Compares the clocks of processes, where there is a timeline or a profile. By all processes. */
WEFT_MUST_USE weft_status world_clock_begin(weft_executor *x);
/* How this process's clock goes by rank 0's, since world_clock_begin. By all processes. */
WEFT_MUST_USE weft_status world_clock_read(const weft_executor *x, timeline_clock *out);

/* --- profile.c ---------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status profile_init(weft_executor *x); /* where options ask for it */
/* Adds what the step that has just ended took, of one stream and as a whole. */
void profile_add_times(stream_state *s, const trace_event *events, profile_cell waiting);
void profile_add_step(weft_executor *x);

/* --- trace.c ------------------------------------------------------------------------------------------------------ */
WEFT_MUST_USE weft_status trace_init(weft_executor *x); /* where options ask for it */
/* Takes the times of the step that has just ended from the device, for the timeline and the profile. */
void trace_keep_step(weft_executor *x);

#endif
