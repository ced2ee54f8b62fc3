/* step.c: a step on all ranks, and how it fails.
 *
 * The invariant of failures: the first status that says why wins; it aborts the communicator's world and the device's
 * run, which then ends in bounded time. A status that only says "stopped because another failed" is kept apart: the one
 * that caused it may be worded a moment later. */
#include <stdio.h>

#include "executor/comm/wait.h"
#include "executor/watchdog.h"

/* How long a device is waited for before somebody asks the rings how they are. */
static const double slice_seconds = 0.2;

static const device_engine *engine_of(const weft_executor *x) {
    return x->device->engine;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static void keep_first(_Atomic(weft_status) *kept, weft_status status) {
    weft_status none = NULL;
    if (!atomic_compare_exchange_strong(kept, &none, status)) weft_status_free(status);
}

void executor_wake(weft_executor *x) {
    engine_of(x)->abort(x->run);
}

/* `status` may be freed as soon as it is kept: its message is copied before. */
static void stop_all(weft_executor *x, _Atomic(weft_status) *kept, weft_status status) {
    char message[1000];
    bool is_cause = kept == &x->failure;
    snprintf(message, sizeof message, "%s", weft_status_message(status));
    keep_first(kept, status);
    comm_world_abort(x->world, is_cause ? message : NULL);
    executor_wake(x);
}

void executor_abort(weft_executor *x, weft_status status) {
    stop_all(x, &x->failure, status);
}

/* `status` with rank, op and ring in front of its message. */
static weft_status name_culprit(int rank, const plan_instr *instr, weft_status status) {
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    char op[200], on_ring[40] = "";
    if (instr->ring_id >= 0) snprintf(on_ring, sizeof on_ring, ", ring %lld", (long long)instr->ring_id);
    weft_status worded = weft_status_create(weft_status_code(status), NULL, "rank %d, %s%s: %s", rank,
                                            instr_place(instr, op, sizeof op), on_ring, weft_status_message(status));
    weft_status_free(status);
    return worded;
}

void executor_fail(weft_executor *x, int rank, const plan_instr *instr, weft_status status) {
    bool secondary = weft_status_code(status) == WEFT_CANCELLED;
    stop_all(x, secondary ? &x->cancellation : &x->failure, name_culprit(rank, instr, status));
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
