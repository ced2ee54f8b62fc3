/* pair.c: sends and receives between ranks on one GPU. Who receives copies from the sender's buffer, on its own stream.
 *
 * The invariant: a parcel is the taker's from when it is laid out until the taker empties it. It does so when it has
 * copied every send to it. Each time that it has copied some it sets its event, and does nothing else until the
 * sender's stream waits for that. */
#include "executor/comm/loopback/engine.h"

static loop_parcel *parcel_of(const loop_ring *r, int from, int to) {
    return &r->parcels[(size_t)from * (size_t)r->nranks + (size_t)to];
}

static const comm_request *requests_of(const loop_member *m, int64_t *out_n) {
    bool is_group = m->request.kind == COMM_GROUP;
    *out_n = is_group ? m->request.ngroup : 1;
    return is_group ? m->request.group : &m->request;
}

/* The next send to `to` from `at` on; the number of requests: there is none. */
static int64_t next_send(const comm_request *requests, int64_t n, int64_t at, int to) {
    while (at < n && !(requests[at].kind == COMM_SEND && requests[at].peer == to)) at++;
    return at;
}

void loop_lay_out(loop_ring *r, int self) {
    loop_member *me = &r->members[self];
    int64_t n;
    const comm_request *requests = requests_of(me, &n);
    me->nreceived = 0;
    for (int to = 0; to < r->nranks; to++) {
        int64_t first = next_send(requests, n, 0, to);
        if (first < n) *parcel_of(r, self, to) = (loop_parcel){requests, n, first, false};
    }
}

/* --- receiving ---------------------------------------------------------------------------------------------------- */

static comm_request named(const comm_request *q, const comm_request *of) {
    comm_request one = *q;
    one.op = of->op;
    return one;
}

static weft_status take(loop_ring *r, int self, const comm_request *q) {
    loop_member *me = &r->members[self], *peer = &r->members[q->peer];
    loop_parcel *p = parcel_of(r, q->peer, self);
    const comm_request *sent = &p->requests[p->next];
    size_t nbytes = (size_t)q->count * weft_dtype_nbytes(q->dtype);
    if (sent->dtype != q->dtype || sent->count != q->count) {
        comm_request a = named(sent, &peer->request), b = named(q, &me->request);
        return comm_disagreement(r->id, peer->rank, &a, me->rank, &b);
    }
    if (peer != me) CUDA_TRY(StreamWaitEvent, me->stream, peer->arrived, 0);
    TRY(loop_copy(q->dst, sent->src, nbytes, me->stream));
    TRY(loop_delay(r, peer == me ? 0 : (double)nbytes, me->stream));
    CUDA_TRY(EventRecord, me->moved, me->stream);
    p->next = next_send(p->requests, p->nrequests, p->next + 1, self);
    if (p->next == p->nrequests) p->requests = NULL;
    p->is_touched = true;
    return NULL;
}

/* In their order; false: the next one's sender is not there yet. */
static weft_status receive(loop_ring *r, int self, bool *out_all) {
    loop_member *me = &r->members[self];
    int64_t n;
    const comm_request *requests = requests_of(me, &n);
    *out_all = false;
    for (; me->nreceived < n; me->nreceived++) {
        const comm_request *q = &requests[me->nreceived];
        if (q->kind != COMM_RECV) continue;
        if (!parcel_of(r, q->peer, self)->requests) return NULL;
        TRY(take(r, self, q));
    }
    *out_all = true;
    return NULL;
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* The stream waits for who has taken something since it was asked last. */
static weft_status wait_for_takers(loop_ring *r, int self) {
    for (int to = 0; to < r->nranks; to++) {
        loop_parcel *p = parcel_of(r, self, to);
        if (p->is_touched && to != self) CUDA_TRY(StreamWaitEvent, r->members[self].stream, r->members[to].moved, 0);
        p->is_touched = false;
    }
    return NULL;
}

static bool is_settled(const loop_ring *r, int self) {
    for (int other = 0; other < r->nranks; other++)
        if (parcel_of(r, self, other)->requests || parcel_of(r, other, self)->is_touched) return false;
    return true;
}

weft_status loop_settle_pairs(loop_ring *r, int self, bool *out_is_there) {
    bool all;
    TRY(receive(r, self, &all));
    TRY(wait_for_takers(r, self));
    *out_is_there = all && is_settled(r, self);
    return NULL;
}
