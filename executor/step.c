/* step.c: a step on all ranks. */
#include "executor/comm/wait.h"
#include "executor/watchdog.h"

/* How long a device is waited for before somebody asks the rings how they are. */
static const double slice_seconds = 0.2;

static const device_engine *engine_of(const weft_executor *x) {
    return x->device->engine;
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* What has gone wrong with collectives that a device runs by itself. */
static void ask_rings(weft_executor *x) {
    for (int r = 0; r < x->nlocal; r++)
        for (size_t i = 0; i < x->ranks[r].nrings; i++) {
            comm_ring *member = x->ranks[r].rings[i].comm;
            weft_status status = comm_can_enqueue(member) ? comm_error(member) : NULL;
            if (status) executor_abort(x, status);
        }
}

static void run_step(weft_executor *x) {
    x->start_ns = wait_clock_ns();
    engine_of(x)->submit(x->run);
    while (!engine_of(x)->wait(x->run, slice_seconds)) ask_rings(x);
    x->end_ns = wait_clock_ns();
}

static void end_step(weft_executor *x) {
    trace_keep_step(x);
    x->nsteps++;
    x->step++;
    profile_add_step(x);
    watchdog_end_step(x);
}

/* The message of the process that stopped the run, if it left one. */
static weft_status stopped_elsewhere(const weft_executor *x) {
    const char *why = comm_world_why(x->world);
    if (!why && x->nlocal == x->nranks) return NULL;
    return weft_status_create(WEFT_RUNTIME, NULL, "%s", why ? why : "another process stopped the run");
}

weft_status weft_executor_run(weft_executor *x) {
    if (x->has_failed) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "the executor failed in an earlier step: destroy it");
    }
    if (x->timeline) TRY(timeline_reserve(x->timeline));
    run_step(x);
    weft_status failure = atomic_exchange(&x->failure, NULL), cancelled = atomic_exchange(&x->cancellation, NULL);
    if (!failure && comm_world_aborted(x->world)) failure = stopped_elsewhere(x);
    x->has_failed = failure || cancelled;
    if (!x->has_failed) end_step(x);
    if (!failure) return cancelled;
    weft_status_free(cancelled);
    return failure;
}
