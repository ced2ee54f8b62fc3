/* weft/simulate.h: plans played on virtual clocks: how long a step takes by a model, which ops race in it, who waits
 * for whom. Nothing is computed.
 *
 * A simulation allocates no tensors and starts no threads; it needs no parameters and no feeds beyond what plans were
 * made for. Conditions count as true. Virtual time begins at 0 and goes on from step to step. The same input gives the
 * same output to the bit. */
#ifndef WEFT_SIMULATE_H
#define WEFT_SIMULATE_H

#include "weft/cluster.h"
#include "weft/plan.h"
#include "weft/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_simulation weft_simulation;

/* A rank that dies just before op number `op_index` of block 0, in the first step. */
typedef struct weft_fault {
    int rank; /* -1: all */
    int64_t op_index;
} weft_fault;

/* Faults and delays are borrowed while the simulation lives. */
typedef struct weft_simulation_options {
    size_t struct_nbytes;        /* weft/status.h: begin with WEFT_SIMULATION_OPTIONS_INIT */
    const weft_cluster *cluster; /* NULL: the defaults; copied */
    const weft_fault *faults;
    size_t nfaults;
    const weft_delay *delays;
    size_t ndelays;
    int trace_steps; /* steps from the last that timelines show; 0: all */
    bool unsafe;     /* takes plans with a given order, which may race */
} weft_simulation_options;
#define WEFT_SIMULATION_OPTIONS_INIT .struct_nbytes = sizeof(weft_simulation_options)

/* A simulation of `nranks` ranks. `plans` has 1 plan (shared by all ranks) or nranks; they must outlive it. `options`
 * may be NULL. Errors name the thing, as those of weft_executor_create do. Examples are a ring without the rank that
 * uses it, ranks that disagree on collectives, and a fault before an op that is not there. */
WEFT_MUST_USE weft_status weft_simulation_create(weft_context *context, const weft_plan *const *plans, size_t nplans,
                                                 int nranks, const weft_simulation_options *options,
                                                 weft_simulation **out_simulation);
void weft_simulation_destroy(weft_simulation *simulation); /* NULL is fine */

/* The number of the next step, by which races are told; 0 at first, and counted on by each. */
void weft_simulation_set_step(weft_simulation *simulation, uint64_t step);
/* One step on all ranks. A step in which ranks would wait for ever fails, and the status says who waits for whom. The
 * timeline has what had happened by then. Later runs then fail. Cost: O(n log n) for n instructions of all ranks. A
 * step allocates nothing but room for its times, and for the first race. */
WEFT_MUST_USE weft_status weft_simulation_run(weft_simulation *simulation);

/* Seconds of the last step, from its start to the last rank's end. */
double weft_simulation_step_seconds(const weft_simulation *simulation);
/* As weft_executor_rank_times, weft_executor_overlap and weft_executor_hidden, of the steps that timelines show. */
WEFT_MUST_USE weft_status weft_simulation_rank_times(const weft_simulation *simulation, int rank,
                                                     weft_rank_times *out_times);
void weft_simulation_overlap(const weft_simulation *simulation, double *out_collective_seconds,
                             double *out_hidden_seconds);
void weft_simulation_hidden(const weft_simulation *simulation, size_t *out_ncollectives, size_t *out_nhidden);
/* The timeline in the forms of weft_executor_trace_json and _html. The caller owns the bytes (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_simulation_trace_json(const weft_simulation *simulation, char **out_bytes,
                                                     size_t *out_nbytes);
WEFT_MUST_USE weft_status weft_simulation_trace_html(const weft_simulation *simulation, const char *title,
                                                     char **out_bytes, size_t *out_nbytes);

/* The first ranks of several simulations in one timeline, one below the other, from the same moment on: of programs
 * that are to be compared. `labels`, as many, stand where ranks' names do. */
typedef enum weft_trace_form { WEFT_TRACE_JSON, WEFT_TRACE_HTML } weft_trace_form;
WEFT_MUST_USE weft_status weft_simulation_trace_beside(const weft_simulation *const *simulations,
                                                       const char *const *labels, size_t count, weft_trace_form form,
                                                       const char *title, char **out_bytes, size_t *out_nbytes);

/* One side of a race. Names are borrowed from the plan. Seconds are those of the virtual clock. */
typedef struct weft_seen_access {
    const char *type; /* of the op */
    int64_t op_index;
    const char *stream, *value;
    bool is_write;
    double start_seconds, end_seconds;
} weft_seen_access;

/* Two accesses to the same bytes of one rank, one of them a write. The one that comes later in the program began before
 * the other one had ended. Rank and step are those that showed it first. */
typedef struct weft_seen_race {
    int rank;
    uint64_t step;
    size_t count;                   /* so often in all: by ranks that share the plan, and steps */
    weft_seen_access first, second; /* in program order */
} weft_seen_race;

/* Races that the steps so far have shown: for each access that came too early, the one that it most ran into. */
size_t weft_simulation_nraces(const weft_simulation *simulation);
/* The race at `index` < weft_simulation_nraces. */
void weft_simulation_race_at(const weft_simulation *simulation, size_t index, weft_seen_race *out_race);

#ifdef __cplusplus
}
#endif
#endif
