/* local_pair.c: sends and receives between threads of one process.
 *
 * The idea: a member lays its requests out for everyone it sends to; who takes one copies from the sender's buffer to
 * its own. A member lays out all its sends before it takes anything, and waits for its takers last. So the requests of
 * a group wait for none of each other.
 *
 * The invariant: a parcel is the taker's from when `requests` is set until the taker sets it to NULL. The taker does so
 * when it has taken every send to it. A member lays out anew only when all its parcels are its own again. */
#include "executor/comm/local.h"

static local_parcel *parcel_of(const local_ring *r, int from, int to) {
    return &r->parcels[(size_t)from * (size_t)r->nranks + (size_t)to];
}

static void announce(wait_word *w) {
    atomic_fetch_add(&w->value, 1);
    wait_wake(w);
}

/* Waits until parcel from -> to is full, or empty; `w` changes with it. */
static weft_status wait_parcel(local_ring *r, int self, const local_parcel *p, bool full, wait_word *w) {
    for (;;) {
        uint32_t seen = atomic_load(&w->value);
        if ((atomic_load(&p->requests) != NULL) == full) return NULL;
        if (atomic_load(&r->world->aborted)) return local_cancelled(r, self);
        if (wait_until(w, seen + 1, &r->world->aborted, WAIT_FOREVER) != WAIT_REACHED) return local_cancelled(r, self);
    }
}

static bool is_send_to(const comm_request *q, int to) {
    return q->kind == COMM_SEND && q->peer == to;
}

/* The next send to `to` from `at` on; nrequests: there is none. */
static int64_t next_send(const comm_request *requests, int64_t nrequests, int64_t at, int to) {
    while (at < nrequests && !is_send_to(&requests[at], to)) at++;
    return at;
}

static void lay_out(local_ring *r, int self, const comm_request *requests, int64_t nrequests) {
    for (int to = 0; to < r->nranks; to++) {
        int64_t first = next_send(requests, nrequests, 0, to);
        if (first == nrequests) continue;
        local_parcel *p = parcel_of(r, self, to);
        p->nrequests = nrequests;
        p->next = first;
        p->is_refused = false;
        atomic_store(&p->requests, requests);
        announce(&r->members[to].given);
    }
}

static comm_request without_addresses(const comm_request *q, const char *op) {
    return (comm_request){.kind = q->kind, .dtype = q->dtype, .count = q->count, .peer = q->peer, .op = op};
}

static weft_status take(local_ring *r, int self, const comm_request *q, const char *op) {
    local_parcel *p = parcel_of(r, q->peer, self);
    TRY(wait_parcel(r, self, p, true, &r->members[self].given));
    const comm_request *requests = atomic_load(&p->requests), *sent = &requests[p->next];
    weft_status status = NULL;
    if (sent->dtype != q->dtype || sent->count != q->count) {
        p->is_refused = true;
        p->refused_by = without_addresses(q, op);
        comm_request named = without_addresses(sent, sent->op ? sent->op : comm_kind_name(sent->kind));
        status = comm_disagreement(r->id, r->members[q->peer].rank, &named, r->members[self].rank, &p->refused_by);
    } else if (q->count && q->dst != sent->src) {
        memmove(q->dst, sent->src, (size_t)q->count * weft_dtype_nbytes(q->dtype));
    }
    if (!status) p->next = next_send(requests, p->nrequests, p->next + 1, self);
    if (p->next == p->nrequests || status) {
        atomic_store(&p->requests, NULL);
        announce(&r->members[q->peer].taken);
    }
    return status;
}

/* Waits for the takers. */
static weft_status collect(local_ring *r, int self, const comm_request *requests, int64_t nrequests, const char *op) {
    weft_status status = NULL;
    for (int to = 0; to < r->nranks; to++) {
        if (next_send(requests, nrequests, 0, to) == nrequests) continue;
        local_parcel *p = parcel_of(r, self, to);
        weft_status waited = wait_parcel(r, self, p, false, &r->members[self].taken);
        if (!waited && p->is_refused) {
            comm_request named = without_addresses(&requests[p->next], op);
            waited = comm_disagreement(r->id, r->members[self].rank, &named, r->members[to].rank, &p->refused_by);
        }
        if (status) weft_status_free(waited);
        if (!status) status = waited;
    }
    return status;
}

weft_status local_exchange(local_ring *r, int self, const comm_request *requests, int64_t nrequests) {
    const char *op = r->members[self].request.op;
    weft_status status = NULL;
    if (atomic_load(&r->world->aborted)) return local_cancelled(r, self);
    lay_out(r, self, requests, nrequests);
    for (int64_t i = 0; i < nrequests && !status; i++)
        if (requests[i].kind == COMM_RECV) status = take(r, self, &requests[i], op);
    weft_status waited = collect(r, self, requests, nrequests, op);
    if (!status) return waited;
    weft_status_free(waited);
    return status;
}
