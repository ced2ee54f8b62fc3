/* cpu.h: the form that a plan has on this machine's cores, shared by the files of this folder.
 *
 * A stream is an array of calls and a thread that walks it. Everything that a step needs is made by record.c; worker.c
 * runs steps and allocates nothing. */
#ifndef EXECUTOR_DEVICES_CPU_CPU_H
#define EXECUTOR_DEVICES_CPU_CPU_H

#include <stdatomic.h>

#include "executor/comm/wait.h"
#include "executor/executor.h"
#include "executor/thread.h"

/* An instruction as a call. */
typedef struct cpu_call {
    kernel_call call;
    weft_status (*run)(const kernel_call *);
    const plan_instr *instr;
    const uint8_t *guard, *outer_guard; /* NULL: always */
    struct cpu_group *group;            /* group.c: it is fused with its neighbours; NULL: it is not */
    size_t workspace_nbytes;            /* that the kernel asked for */
    uint32_t nwaits;                    /* instr's */
    bool signals;                       /* another stream waits for this one */
} cpu_call;

/* One stream of one rank: its calls and the thread that runs them. */
typedef struct cpu_stream {
    wait_word done; /* instructions completed in this step, as far as anyone waits for them */
    struct cpu_run *run;
    const stream_state *state;
    struct cpu_stream *of_rank; /* the streams of its rank, by number */
    _Atomic uint32_t at; /* the instruction that it has begun, or waits to begin; ncalls: it has ended the step */
    cpu_call *calls;
    size_t ncalls;
    device_memory workspace;
    executor_thread thread;
    trace_event *events; /* of the step at hand; NULL: it is not timed */
    profile_cell waiting;
} cpu_stream;

/* Steps: the caller publishes `go`, workers count down `nrunning`, the last one publishes `finished`. */
typedef struct cpu_run {
    device_run head;
    cpu_stream **ranks; /* streams, by rank of this process and number */
    int nranks;         /* recorded so far */
    wait_word go, finished;
    _Atomic uint32_t nrunning;
    uint32_t nworkers;        /* streams with instructions: that many threads run, one of them the caller */
    cpu_stream *callers;      /* the stream that the caller's thread runs; NULL without instructions */
    bool caller_has_run;      /* its part of the step at hand */
    bool shares_cores;        /* more workers than cores */
    struct thread_pool *pool; /* helps kernels; NULL where each call has one thread */
    _Atomic bool stopping;
    wait_word late; /* what delayed instructions sleep on; never published */
} cpu_run;

static inline cpu_run *cpu_run_of(device_run *run) {
    return (cpu_run *)(void *)run;
}
static inline int cpu_nstreams(const cpu_run *run, int rank) {
    return run->head.executor->ranks[rank].plan->nstreams;
}

extern const device_engine device_cpu;

/* --- memory.c ----------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status cpu_alloc(device *d, int rank, device_space space, size_t nbytes, device_memory *out_memory);
void cpu_free(device *d, device_memory *m);

/* --- record.c: a rank's instructions become calls ----------------------------------------------------------------- */
WEFT_MUST_USE weft_status cpu_record(device_run *run, rank_state *rank);

/* --- finite.c ----------------------------------------------------------------------------------------------------- */
/* A status that names the first output of a call that has just run which is not finite; NULL: all are. */
WEFT_MUST_USE weft_status cpu_check_finite(const kernel_call *c, const rank_state *rank, const plan_instr *instr);

/* --- group.c: row-tiled fusion: calls that run tile by tile, a few rows at a time -----------------------------------
 */
typedef struct cpu_group cpu_group;
/* Makes the groups of a stream whose calls are ready: the first one of a group then runs all of them. */
WEFT_MUST_USE weft_status cpu_groups_make(weft_executor *x, cpu_stream *s);
/* How many calls this one runs, itself included; 0: it is not the first of a group. */
size_t cpu_group_count(const cpu_call *b);
/* Runs a group by its first call; how long each member took, in nanoseconds. */
const int64_t *cpu_group_run_timed(cpu_call *head);

/* --- worker.c: threads and steps ---------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status cpu_start(device_run *run);
void cpu_stop(cpu_run *run); /* the threads end */
void cpu_submit(device_run *run);
bool cpu_wait(device_run *run, double timeout_seconds);
void cpu_abort(device_run *run);

/* --- roofline.c --------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status cpu_measure(device *d, int nthreads, struct roofline *out_roofline);

#endif
