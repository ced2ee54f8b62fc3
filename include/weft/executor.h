/* weft/executor.h: runs plans on ranks, each with a thread per stream; the first of all is the one that calls run. */
#ifndef WEFT_EXECUTOR_H
#define WEFT_EXECUTOR_H

#include "weft/plan.h"
#include "weft/tensor.h"
#include "weft/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_executor weft_executor;

typedef struct weft_executor_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_EXECUTOR_OPTIONS_INIT */
    const char *device;   /* NULL: "cpu". Of executors that share a state, the first one's counts */
    int nthreads;         /* intra-op threads a stream may use; 0 means 1 */
    uint64_t seed;        /* of random ops */
    bool trace;           /* keep start and end of every instruction */
    int trace_steps;      /* how many steps from the last are kept; 0 means all */
    bool profile; /* keep what each instruction takes, summed over steps; creation measures the machine (40 ms) */
    bool no_fuse; /* every instruction alone, though the plan lets some be fused; results are the same */
    /* The watchdog ends a run in which a collective takes too long. Too long is more than watchdog_seconds, and more
     * than 10 times what it took in 95 of the last 100 steps. In the first step it is more than first_step_seconds. 0
     * means 5 and 300. */
    double watchdog_seconds, first_step_seconds;
    bool no_watchdog; /* collectives wait without a limit */
    bool unsafe;      /* takes plans with a given order, which may race */
    /* Of a communicator: which of the ranks this process runs; NULL: all. All processes trace and profile, or none. */
    const struct comm_host *host;
    /* Threads of the host's: has `run(arg)` called on one of them, which it returns when the executor is destroyed, or
     * says that it cannot. A thread a stream of a rank but the first, nthreads - 1 helpers, one for the watchdog: each
     * must have one at once, since they wait for one another. NULL: the executor makes its own. */
    weft_status (*spawn)(void *user, void (*run)(void *arg), void *arg);
    void *spawn_user;
    const weft_delay *delays; /* borrowed: must outlive the executor, and the cache or trainer that makes it */
    size_t ndelays;
    /* Each so many steps the outputs of every op are looked at. The first that holds NaN or an infinity ends the run;
     * the status names rank, op, var, element and step. 0: never, which costs nothing. Ops run one by one then. Needs a
     * device whose memory the host can read. */
    uint64_t check_finite_every;
    bool strict_device; /* refuses ops that a device would leave to the host's kernels, with copies there and back */
    bool no_graph; /* a device that could launch whole steps as graphs launches each instruction: the same results */
    /* Which engine joins ranks on device cuda: "nccl", a GPU for each rank; "loopback", all ranks of this process on
     * one GPU, whose streams events join. NULL: nccl, for one rank none. Other devices have one each: NULL. */
    const char *rings;
    double rings_gb_per_second; /* loopback: collectives take as long as over links of that bandwidth; 0: no longer than
                                 * they do */
} weft_executor_options;
#define WEFT_EXECUTOR_OPTIONS_INIT .struct_nbytes = sizeof(weft_executor_options)

/* An executor for `nranks` ranks, of which it runs those of options->host. `plans` has 1 plan (shared by all ranks) or
 * one for each rank that it runs; they must outlive it. Every process creates and runs its own at the same time. All
 * memory that steps need is allocated here; persistables start as zero. */
WEFT_MUST_USE weft_status weft_executor_create(weft_context *context, const weft_plan *const *plans, size_t nplans,
                                               int nranks, const weft_executor_options *options,
                                               weft_executor **out_executor);
void weft_executor_destroy(weft_executor *executor);

/* Copies `tensor` (this rank's part: dims and dtype must match) into the value of that name on `rank`. */
WEFT_MUST_USE weft_status weft_executor_set(weft_executor *executor, int rank, const char *name,
                                            const weft_tensor *tensor);
/* Type and bytes of a persistable, feed or fetch on `rank`; borrowed until the next run. NULL data in `out_tensor`
 * means the rank has no such value. "NAME#rows" are the row indices of a SelectedRows value. */
WEFT_MUST_USE weft_status weft_executor_get(const weft_executor *executor, int rank, const char *name,
                                            weft_tensor *out_tensor);
/* The number of the next step, counted on by each: random ops draw by it and the seed. 0 at first. A run that goes on
 * where another ended gives the same numbers if it starts with the other's next step. */
void weft_executor_set_step(weft_executor *executor, uint64_t step);
/* One step on all ranks. Allocates nothing. On failure the status names rank, op and ring. Of a collective that waits
 * too long it names the ranks that are missing and what they do instead. The executor can then only be destroyed. */
WEFT_MUST_USE weft_status weft_executor_run(weft_executor *executor);

/* Seconds of the last step, from the first rank's start to the last rank's end. */
double weft_executor_step_seconds(const weft_executor *executor);
/* Seconds of traced collectives: of this process's ranks, on other streams than compute. And seconds of these during
 * which the same rank's compute stream was running an instruction. */
void weft_executor_overlap(const weft_executor *executor, double *out_collective_seconds, double *out_hidden_seconds);
/* Of a rank of this process in the last step. Needs options.trace. */
WEFT_MUST_USE weft_status weft_executor_rank_times(const weft_executor *executor, int rank, weft_rank_times *out_times);
/* Number of traced collectives of this process's ranks, and of those that were hidden for at least half of their time.
 */
void weft_executor_hidden(const weft_executor *executor, size_t *out_ncollectives, size_t *out_nhidden);
/* The timeline: Chrome trace JSON (Perfetto opens it), or a self-contained HTML page, a lane per rank and stream. The
 * caller owns the bytes. Needs options.trace. In a run of several processes all of them call these, in the same order,
 * and all get the whole. Times are by the clock of rank 0's process; the others compare theirs with it. */
WEFT_MUST_USE weft_status weft_executor_trace_json(const weft_executor *executor, char **out_bytes, size_t *out_nbytes);
WEFT_MUST_USE weft_status weft_executor_trace_html(const weft_executor *executor, const char *title, char **out_bytes,
                                                   size_t *out_nbytes);

/* Where a step's time went, of the mean step of one rank. It has time, flops, bytes and share of the roofline per op
 * type and per op, and live memory at each op. The first of several steps is left out. Text has the `most_ops` ops that
 * took longest (0: all, in order); CSV is a line an op; JSON has everything. Needs options.profile. In a run of several
 * processes all of them call it, with the same form, and all get the profile of all ranks. Step and machine are those
 * of rank 0's process. */
typedef enum weft_profile_form { WEFT_PROFILE_TEXT, WEFT_PROFILE_CSV, WEFT_PROFILE_JSON } weft_profile_form;
WEFT_MUST_USE weft_status weft_executor_profile(const weft_executor *executor, weft_profile_form form, size_t most_ops,
                                                char **out_bytes, size_t *out_nbytes);

#ifdef __cplusplus
}
#endif
#endif
