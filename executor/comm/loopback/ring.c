/* ring.c: a collective of ranks on one GPU, from when it is enqueued until it is on the stream. */
#include <stdio.h>

#include "executor/comm/loopback/engine.h"

static loop_ring *ring_of(comm_ring *view) {
    return view->shared;
}

static bool is_of_pairs(const comm_request *q) {
    return q->kind == COMM_GROUP || comm_kinds[q->kind].has_peer;
}

/* --- the two meetings --------------------------------------------------------------------------------------------- */

static bool have_all(const loop_ring *r, int self, loop_stage stage) {
    const loop_member *me = &r->members[self];
    for (int i = 0; i < r->nranks; i++)
        if (stage == LOOP_ARRIVED ? r->members[i].narrived < me->narrived : r->members[i].nmoved < me->nmoved)
            return false;
    return true;
}

static weft_status wait_for_others(const loop_ring *r, int self, loop_stage stage) {
    for (int i = 0; i < r->nranks; i++) {
        const loop_member *other = &r->members[i];
        if (i != self)
            CUDA_TRY(StreamWaitEvent, r->members[self].stream, stage == LOOP_ARRIVED ? other->arrived : other->moved,
                     0);
    }
    return NULL;
}

static weft_status check_agreement(const loop_ring *r) {
    int a, b;
    if (!comm_find_different(&r->members[0].request, sizeof r->members[0], r->nranks, &a, &b)) return NULL;
    return comm_disagreement(r->id, r->members[a].rank, &r->members[a].request, r->members[b].rank,
                             &r->members[b].request);
}

static weft_status do_share(loop_ring *r, int self) {
    loop_member *me = &r->members[self];
    TRY(check_agreement(r));
    TRY(wait_for_others(r, self, LOOP_ARRIVED));
    TRY(loop_move(r, self));
    CUDA_TRY(EventRecord, me->moved, me->stream);
    me->nmoved++;
    me->stage = LOOP_MOVED;
    return NULL;
}

static weft_status settle_collective(loop_ring *r, int self, bool *out_is_there) {
    loop_member *me = &r->members[self];
    if (me->stage == LOOP_ARRIVED && have_all(r, self, LOOP_ARRIVED)) TRY(do_share(r, self));
    if (me->stage != LOOP_MOVED || !have_all(r, self, LOOP_MOVED)) return NULL;
    TRY(wait_for_others(r, self, LOOP_MOVED));
    *out_is_there = true;
    return NULL;
}

/* --- the engine --------------------------------------------------------------------------------------------------- */

/* Of one member, which all others are told: they would wait for it. */
static void keep(loop_ring *r, weft_status status) {
    if (!status || r->has_failed) return;
    r->has_failed = true;
    snprintf(r->words, sizeof r->words, "%s", weft_status_message(status));
}

/* NULL: the ring goes on. */
static weft_status what_ended(const loop_ring *r, const comm_ring *view) {
    if (r->has_failed) return weft_status_create(WEFT_RUNTIME, NULL, "%s", r->words);
    return r->has_ended || comm_world_aborted(r->world) ? comm_stopped(view) : NULL;
}

static weft_status arrive(loop_ring *r, int self, const comm_request *q, cudaStream_t stream) {
    loop_member *me = &r->members[self];
    if (me->stage != LOOP_IDLE)
        return weft_status_create(WEFT_RUNTIME, NULL, "rank %lld enqueues %s on ring %lld inside another collective",
                                  (long long)me->rank, q->op, (long long)r->id);
    CUDA_TRY(EventRecord, me->arrived, stream);
    me->request = *q;
    me->stream = stream;
    me->stage = LOOP_ARRIVED;
    if (is_of_pairs(q))
        loop_lay_out(r, self);
    else
        me->narrived++;
    return NULL;
}

static weft_status enqueue(comm_ring *view, const comm_request *request, void *device_stream) {
    loop_ring *r = ring_of(view);
    comm_request q = *request;
    if (!q.op) q.op = comm_kind_name(q.kind);
    TRY(comm_check_request(view, r->members[view->index].rank, &q));
    pthread_mutex_lock(&r->lock);
    weft_status status = what_ended(r, view);
    if (!status) status = arrive(r, view->index, &q, device_stream);
    pthread_mutex_unlock(&r->lock);
    return status;
}

static weft_status settle(comm_ring *view, bool *out_is_there) {
    loop_ring *r = ring_of(view);
    loop_member *me = &r->members[view->index];
    *out_is_there = false;
    pthread_mutex_lock(&r->lock);
    weft_status status = what_ended(r, view);
    if (!status) {
        status = is_of_pairs(&me->request) ? loop_settle_pairs(r, view->index, out_is_there)
                                           : settle_collective(r, view->index, out_is_there);
        keep(r, status);
    }
    if (*out_is_there) me->stage = LOOP_IDLE;
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* What goes wrong on a stream its device finds. */
static weft_status error(comm_ring *view) {
    loop_ring *r = ring_of(view);
    pthread_mutex_lock(&r->lock);
    weft_status status = what_ended(r, view);
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* Streams end by themselves: nothing on them waits for what others have not launched yet. Their device waits for all
 * of them before it lets go of buffers. */
static weft_status end(comm_ring *view, double timeout_seconds) {
    (void)timeout_seconds;
    loop_ring *r = ring_of(view);
    pthread_mutex_lock(&r->lock);
    r->has_ended = true;
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

const comm_ring_engine loop_ring_engine = {
    .name = "loopback", .enqueues_on = "cuda", .enqueue = enqueue, .settle = settle, .error = error, .abort = end};
