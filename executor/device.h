/* device.h: what runs instructions, behind a table. devices/cpu/ is the first.
 *
 * The shape is that of IREE's HAL. A device has memory. The plans of an executor's ranks are recorded once into the
 * device's own form, a run: arrays of calls, or what was enqueued, or a captured graph. A step submits the run and
 * waits for its end. Streams order themselves, by the waits of the plan.
 *
 * Nothing outside executor/devices/ knows what a device, a run or its memory is made of. Addresses (`data` and `rows`
 * of a tensor, guards) are the device's: others add to them, and never follow them. What the device is told, a
 * device_instr each, is ready when it records; what does not depend on the device (plan checks, rings, agreement, the
 * watchdog, failures, timelines, profiles) stays outside.
 *
 * One device serves all ranks of this process, and outlives the executors that share its memory (state.h). Functions
 * are called by the thread that owns the executor, but where they say otherwise. */
#ifndef EXECUTOR_DEVICE_H
#define EXECUTOR_DEVICE_H

#include "executor/kernel.h"
#include "plan/timeline/timeline.h"
#include "weft/executor.h"

struct comm_host;
struct rank_state;
struct ring_use;
struct stream_state;
struct watched;

/* Every device begins with this. */
typedef struct device {
    const struct device_engine *engine;
    const weft_allocator *allocator; /* for the host's side of it */
    int nranks;
} device;

/* Every run begins with this. */
typedef struct device_run {
    device *device;
    struct weft_executor *executor;
    bool timed; /* times() will be asked for */
} device_run;

typedef enum device_space {
    DEVICE_OWN, /* where kernels compute */
    DEVICE_HOST /* the host may touch it, and copies to and from it are fast: pinned, where that means something */
} device_space;

typedef struct device_memory {
    void *bytes; /* an address in the space; NULL: there are none */
    void *block; /* the device's */
    size_t block_nbytes;
    device_space space;
} device_memory;

/* An instruction of one rank with everything resolved that does not depend on the device. */
typedef struct device_instr {
    const plan_instr *instr;
    tensor *in, *out;                /* by argument: types; addresses once device_instr_locate has run */
    const void *guard, *outer_guard; /* addresses of a byte each; NULL: always */
    const struct ring_use *ring;     /* of a collective; else NULL */
    struct watched *watched;         /* to be told when the collective begins and ends (watchdog.h); or NULL */
    uint64_t op_seed;                /* as kernel_call's */
    double delay_seconds;            /* it is to begin so much later (options.delays) */
    bool signals;                    /* another stream waits for this one */
} device_instr;

/* What one instruction, or waiting, took in so many turns; the median of some of them. */
typedef struct profile_cell {
    int64_t ns, count, median_ns;
} profile_cell;

struct roofline;

typedef struct device_engine {
    const char *name;
    bool has_host_memory; /* the host may touch DEVICE_OWN: values are lent without a copy */
    /* NULL: it has a kernel for this row of ops.def; else what it lacks, a phrase that goes before "for op X on this
     * device": "no kernel". Any thread. */
    const char *(*lacks)(int row);

    /* Of an op that it takes: why the host's kernel runs it, with copies there and back; NULL: it has one of its own.
     * Types of arguments may be another reason. No such function: it leaves nothing to the host. Any thread. */
    const char *(*hosts)(int row);

    weft_status (*open)(const weft_allocator *allocator, int nranks, device **out_device);
    /* Puts an engine whose rings run on the device's streams in the place of the host's, which joins the ranks: the one
     * of options.rings. Before any memory of the ranks. NULL: rings are the host's. */
    weft_status (*rings)(device *d, struct comm_host *host, const weft_executor_options *options);
    void (*close)(device *d); /* all its runs and memory are gone */

    /* --- memory: of one rank --- */
    weft_status (*alloc)(device *d, int rank, device_space space, size_t nbytes,
                         device_memory *out_memory); /* zeroed */
    void (*free)(device *d, device_memory *memory);
    /* Between DEVICE_OWN and the host, in no step; complete when they return. */
    weft_status (*copy_in)(device *d, int rank, void *to, const void *from, size_t nbytes);
    weft_status (*copy_out)(device *d, int rank, void *to, const void *from, size_t nbytes);

    /* --- runs --- */
    /* A run of an executor; then every rank is recorded, in order: kernels are prepared and refuse what they cannot
     * compute, in messages without rank and op (bind_refusal adds these). Then what runs it is started. */
    weft_status (*begin)(device *d, struct weft_executor *x, device_run **out_run);
    weft_status (*record)(device_run *run, struct rank_state *rank);
    weft_status (*start)(device_run *run);
    void (*discard)(device_run *run);        /* in no step; may not have been started */
    size_t (*nbytes)(const device_run *run); /* that it has beside the executor's */

    /* --- a step: submit, then wait until it says that all ranks have ended ---
     * An instruction that fails is reported by executor_fail; the run then ends soon, as after abort.
     *
     * A device whose streams run by themselves gives them the collectives of rings that can take them: where
     * comm_can_enqueue(ring, its name), the rounds of the kernel (kernel.h) go to comm_enqueue with the stream, and are
     * there once comm_settle says so. It
     * launches a rank's instructions in the order of the plan. What becomes of such collectives is not the device's:
     * while it waits, and at the end of a step, step.c asks comm_error, and after an abort it calls comm_abort with a
     * deadline. Streams wait for nothing else then, so that the step ends. */
    void (*submit)(device_run *run);
    bool (*wait)(device_run *run, double timeout_seconds); /* false: not yet. It may do a part of the work itself */
    void (*abort)(device_run *run); /* no further instruction begins, all waits end. Any thread, and more than once */
    /* How many instructions of the stream have ended in this step, as far as the device knows. Any thread. */
    size_t (*position)(const device_run *run, const struct stream_state *s);
    /* Of the last step, if it succeeded: when each instruction ran, and time spent waiting for other streams. */
    void (*times)(const device_run *run, const struct stream_state *s, trace_event *out_events,
                  profile_cell *out_waiting);
    /* What it can do at best, by `nthreads` threads of the host; where it has none. */
    weft_status (*measure)(device *d, int nthreads, struct roofline *out_roofline);
} device_engine;

/* --- devices/devices.c: which there are --------------------------------------------------------------------------- */

/* For devices that are found at run time: `engine` outlives the context. Its name hides an equal one. */
WEFT_MUST_USE weft_status device_register(weft_context *context, const device_engine *engine);
/* The device of that name; NULL: cpu. An unknown name is an error that lists those that are known. */
WEFT_MUST_USE weft_status device_find(weft_context *context, const char *name, const device_engine **out_engine);

#endif
