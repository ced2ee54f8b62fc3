/* local_meet.c: how the members of a ring meet. */
#include "executor/comm/local.h"

weft_status local_cancelled(const local_ring *r, int self) {
    return weft_status_create(WEFT_CANCELLED, NULL, "rank %lld left %s on ring %lld: the run was stopped",
                              (long long)r->members[self].rank, r->members[self].request.op, (long long)r->id);
}

weft_status local_meet(local_ring *r, int self) {
    if (atomic_load(&r->world->aborted)) return local_cancelled(r, self);
    uint32_t next = atomic_load(&r->generation.value) + 1;
    if (atomic_fetch_add(&r->narrived, 1) + 1 == (uint32_t)r->nranks) {
        atomic_store(&r->narrived, 0);
        wait_publish(&r->generation, next);
        return NULL;
    }
    wait_result result = wait_until(&r->generation, next, &r->world->aborted, WAIT_FOREVER);
    return result == WAIT_REACHED ? NULL : local_cancelled(r, self);
}
