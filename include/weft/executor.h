/* weft/executor.h: runs plans on ranks, each with a worker thread per stream. */
#ifndef WEFT_EXECUTOR_H
#define WEFT_EXECUTOR_H

#include "weft/plan.h"
#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_executor weft_executor;

typedef struct weft_executor_options {
    int nthreads;  /* intra-op threads a stream may use; 0 means 1 */
    uint64_t seed; /* of random ops */
    bool trace;    /* keep start and end of every instruction */
    int trace_steps; /* how many steps from the last are kept; 0 means all */
    double timeout_seconds; /* a collective that waits longer fails; 0 means 300 */
} weft_executor_options;

/* An executor for `nranks` ranks. `plans` has 1 plan (shared by all ranks) or nranks plans; they must outlive it. All
 * memory that steps need is allocated here; persistables start as zero. */
WEFT_MUST_USE weft_status weft_executor_create(weft_context *context, const weft_plan *const *plans, size_t nplans,
                                               int nranks, const weft_executor_options *options,
                                               weft_executor **out_executor);
void weft_executor_destroy(weft_executor *executor);

/* Copies `tensor` (this rank's part: dims and dtype must match) into the value of that name on `rank`. */
WEFT_MUST_USE weft_status weft_executor_set(weft_executor *executor, int rank, const char *name,
                                            const weft_tensor *tensor);
/* Type and bytes of a persistable, feed or fetch on `rank`; borrowed until the next run. NULL data in `out_tensor` means
 * the rank has no such value. "NAME#rows" are the row indices of a SelectedRows value. */
WEFT_MUST_USE weft_status weft_executor_get(const weft_executor *executor, int rank, const char *name,
                                            weft_tensor *out_tensor);
/* One step on all ranks. Allocates nothing. On failure the status names rank, op and ring; the executor can then only be
 * destroyed. */
WEFT_MUST_USE weft_status weft_executor_run(weft_executor *executor);

/* Seconds of the last step, from the first rank's start to the last rank's end. */
double weft_executor_step_seconds(const weft_executor *executor);
/* Of the traced collectives on other streams than compute: seconds in all, and seconds during which the same rank's
 * compute stream was running an instruction. */
void weft_executor_overlap(const weft_executor *executor, double *out_collective_seconds, double *out_hidden_seconds);
/* Number of traced collectives, and of those that were hidden for at least half of their time. */
void weft_executor_hidden(const weft_executor *executor, size_t *out_ncollectives, size_t *out_nhidden);
/* The timeline: Chrome trace JSON (Perfetto opens it), or a self-contained HTML page, a lane per rank and stream. The
 * caller owns the bytes. Needs options.trace. */
WEFT_MUST_USE weft_status weft_executor_trace_json(const weft_executor *executor, char **out_bytes, size_t *out_nbytes);
WEFT_MUST_USE weft_status weft_executor_trace_html(const weft_executor *executor, const char *title, char **out_bytes,
                                                   size_t *out_nbytes);

#ifdef __cplusplus
}
#endif
#endif
