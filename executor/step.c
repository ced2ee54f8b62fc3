/* step.c: a step on all ranks. */
#include "executor/comm/wait.h"
#include "executor/flight.h"
#include "executor/watchdog.h"

/* How long a device is waited for before somebody asks the rings how they are; and what is given to rings on streams
 * to let go of their buffers. */
static const double slice_seconds = 0.05, let_go_seconds = 10;

static const device_engine *engine_of(const weft_executor *x) {
    return x->device->engine;
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

static bool is_on_stream(const weft_executor *x, const ring_use *u) {
    return comm_can_enqueue(u->comm, x->device->engine->name);
}

/* What has gone wrong with collectives that a device runs by itself. */
static void ask_rings(weft_executor *x) {
    for (int r = 0; r < x->nlocal; r++)
        for (size_t i = 0; i < x->ranks[r].nrings; i++) {
            const ring_use *u = &x->ranks[r].rings[i];
            weft_status status = is_on_stream(x, u) ? comm_error(u->comm) : NULL;
            if (status) executor_fail_ring(x, x->ranks[r].rank, u->id, status);
        }
}

/* Streams end once their collectives have ended. All rings of the world begin to with its abort; here they are waited
 * for, one after another. */
static weft_status end_rings(const weft_executor *x) {
    int64_t deadline = wait_deadline_ns(let_go_seconds);
    for (int r = 0; r < x->nlocal; r++)
        for (size_t i = 0; i < x->ranks[r].nrings; i++) {
            const ring_use *u = &x->ranks[r].rings[i];
            double left = (double)(deadline - wait_clock_ns()) * 1e-9;
            if (is_on_stream(x, u)) TRY(comm_abort(u->comm, left > 0 ? left : 0));
        }
    return NULL;
}

/* For a launcher that outlives this process. */
static void tell_step(const weft_executor *x) {
    struct flight_process *f = x->options.host ? x->options.host->flight : NULL;
    for (int i = 0; f && i < x->nlocal && i < FLIGHT_MOST_RANKS; i++) atomic_store(&f->ranks[i].step, x->step);
}

/* A status: some ring does not let go of its buffers, so that the step has no end. */
static weft_status run_step(weft_executor *x) {
    tell_step(x);
    bool are_ended = false;
    x->start_ns = wait_clock_ns();
    engine_of(x)->submit(x->run);
    while (!engine_of(x)->wait(x->run, slice_seconds)) {
        ask_rings(x);
        if (are_ended || !comm_world_aborted(x->world)) continue;
        executor_wake(x);
        TRY(end_rings(x));
        are_ended = true;
    }
    ask_rings(x); /* streams go on behind a collective that failed */
    x->end_ns = wait_clock_ns();
    return NULL;
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

/* Streams may still touch the run's memory: it stays until the process ends. */
static weft_status keep_for_ever(weft_executor *x, weft_status failure, weft_status stuck) {
    x->is_stuck = true;
    weft_status worded =
        weft_status_create(WEFT_RUNTIME, NULL, "%s%s%s; the memory of the run is not freed",
                           weft_status_message(failure), failure ? "; " : "", weft_status_message(stuck));
    weft_status_free(failure);
    weft_status_free(stuck);
    return worded;
}

weft_status weft_executor_run(weft_executor *x) {
    if (x->has_failed) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "the executor failed in an earlier step: destroy it");
    }
    if (x->timeline) TRY(timeline_reserve(x->timeline));
    weft_status stuck = run_step(x);
    weft_status failure = atomic_exchange(&x->failure, NULL), cancelled = atomic_exchange(&x->cancellation, NULL);
    if (!failure && comm_world_aborted(x->world)) failure = stopped_elsewhere(x);
    if (stuck) failure = keep_for_ever(x, failure, stuck);
    x->has_failed = failure || cancelled || x->is_stuck;
    if (!x->has_failed) end_step(x);
    if (!failure) return cancelled;
    weft_status_free(cancelled);
    return failure;
}
