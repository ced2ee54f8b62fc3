/* failure.c: how a step fails on all ranks.
 *
 * The invariant: the first status that says why wins; it aborts the communicator's world and the device's run, which
 * then ends in bounded time. A status that only says "stopped because another failed" is kept apart: the one that
 * caused it may be worded a moment later. */
#include <stdio.h>

#include "executor/executor.h"

static void keep_first(_Atomic(weft_status) *kept, weft_status status) {
    weft_status none = NULL;
    if (!atomic_compare_exchange_strong(kept, &none, status)) weft_status_free(status);
}

void executor_wake(weft_executor *x) {
    x->device->engine->abort(x->run);
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

/* By what the status is: a cause, or that another failed. */
static void stop_for(weft_executor *x, weft_status status) {
    bool secondary = weft_status_code(status) == WEFT_CANCELLED;
    stop_all(x, secondary ? &x->cancellation : &x->failure, status);
}

void executor_fail(weft_executor *x, int rank, const plan_instr *instr, weft_status status) {
    stop_for(x, name_culprit(rank, instr, status));
}

void executor_fail_ring(weft_executor *x, int rank, int64_t ring_id, weft_status status) {
    weft_status worded = weft_status_create(weft_status_code(status), NULL, "rank %d, ring %lld: %s", rank,
                                            (long long)ring_id, weft_status_message(status));
    weft_status_free(status);
    stop_for(x, worded);
}
