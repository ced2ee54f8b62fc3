/* settle.c: results of NCCL's calls, and waiting for those that go on by themselves. */
#include <sched.h>
#include <unistd.h>

#include "executor/comm/nccl/engine.h"

weft_status nccl_check(ncclResult_t result, const char *call) {
    if (result == ncclSuccess || result == ncclInProgress) return NULL;
    const char *last = nccl.GetLastError(NULL);
    return weft_status_create(WEFT_RUNTIME, NULL, "%s: %s%s%.200s", call, nccl.GetErrorString(result),
                              last && *last ? ": " : "", last ? last : "");
}

weft_status nccl_settle(ncclComm_t comm, ncclResult_t result, const comm_world *world, double timeout_seconds,
                        const char *call) {
    int64_t start = wait_clock_ns(), deadline = start + (int64_t)(timeout_seconds * 1e9);
    while (result == ncclSuccess || result == ncclInProgress) {
        ncclResult_t state = ncclSuccess;
        result = nccl.CommGetAsyncError(comm, &state);
        if (result == ncclSuccess) result = state;
        if (result == ncclSuccess) return NULL;
        if (world && comm_world_aborted(world)) return weft_status_create(WEFT_CANCELLED, NULL, "the run was stopped");
        int64_t now = wait_clock_ns();
        if (now > deadline)
            return weft_status_create(WEFT_RUNTIME, NULL, "%s: not complete after %g s", call, timeout_seconds);
        if (now - start < 1000000)
            sched_yield();
        else
            usleep(200);
    }
    return nccl_check(result, call);
}
