/* pair.c: sends and receives between members, through MPI also where both are in this process.
 *
 * Each pair of members has three tags in each direction: the sender's head (with the elements, if they are few), the
 * receiver's head, and the elements. Both sides hold both heads, so both find a disagreement and word it alike;
 * elements follow only where they agree. The requests of a group go on side by side: none waits for another. */
#include "executor/comm/mpi/mpi.h"

typedef enum talk_state { AT_HEADS, AT_ELEMENTS, AT_END } talk_state;

/* One send or receive. */
typedef struct talk {
    const comm_request *asked;
    talk_state state;
    mpi_batch batch;
    char *mine, *theirs; /* heads; that of the sender has room for elements behind it */
} talk;

typedef struct visit {
    mpi_ring *r;
    mpi_host *host;
    int self;
    const char *op;
    talk *talks;
    int64_t count;
    char *heads;
    size_t message_nbytes;
} visit;

enum { TAG_SENDER, TAG_RECEIVER, TAG_ELEMENTS };

/* MPI tells processes apart: tags only have to tell their members. */
static int tag_of(const visit *v, const comm_request *q, int which) {
    bool sends = q->kind == COMM_SEND;
    int self = v->r->members[v->self].place, peer = v->r->members[q->peer].place;
    int from = sends ? self : peer, to = sends ? peer : self;
    return v->r->tag + 1 + 3 * (from * v->r->most_members + to) + which;
}

static size_t elements_nbytes(const comm_request *q) {
    return (size_t)q->count * weft_dtype_nbytes(q->dtype);
}

static bool is_inline(const comm_request *q) {
    return elements_nbytes(q) <= INLINE_NBYTES;
}

static weft_status begin(const visit *v, talk *t) {
    const comm_request *q = t->asked;
    bool sends = q->kind == COMM_SEND;
    int proc = v->r->members[q->peer].proc, mine = sends ? TAG_SENDER : TAG_RECEIVER;
    size_t head = v->r->head_nbytes;
    comm_request named = *q;
    named.op = v->op;
    head_of(v->r, &named, (mpi_head *)(void *)t->mine);
    bool takes_along = sends && is_inline(q) && q->count;
    if (takes_along) memcpy(t->mine + head, q->src, elements_nbytes(q));
    TRY(batch_receive(v->host, &t->batch, v->host->data, proc, tag_of(v, q, TAG_SENDER + TAG_RECEIVER - mine),
                      t->theirs, v->message_nbytes));
    return batch_send(v->host, &t->batch, v->host->data, proc, tag_of(v, q, mine), t->mine,
                      head + (takes_along ? elements_nbytes(q) : 0));
}

static weft_status compare(const visit *v, const talk *t) {
    const mpi_member *members = v->r->members;
    const comm_request *q = t->asked;
    comm_request mine = head_request(v->r, (const mpi_head *)(void *)t->mine);
    comm_request theirs = head_request(v->r, (const mpi_head *)(void *)t->theirs);
    if (mine.dtype == theirs.dtype && mine.count == theirs.count) return NULL;
    if (q->kind == COMM_SEND)
        return comm_disagreement(v->r->id, members[v->self].rank, &mine, members[q->peer].rank, &theirs);
    return comm_disagreement(v->r->id, members[q->peer].rank, &theirs, members[v->self].rank, &mine);
}

/* Both heads are here: takes the elements, or starts on them. */
static weft_status follow(const visit *v, talk *t) {
    const comm_request *q = t->asked;
    size_t nbytes = elements_nbytes(q);
    int proc = v->r->members[q->peer].proc, tag = tag_of(v, q, TAG_ELEMENTS);
    TRY(compare(v, t));
    t->state = AT_ELEMENTS;
    if (is_inline(q)) {
        if (q->kind == COMM_RECV && nbytes) memcpy(q->dst, t->theirs + v->r->head_nbytes, nbytes);
        return NULL;
    }
    return q->kind == COMM_SEND ? batch_send_long(v->host, &t->batch, v->host->data, proc, tag, q->src, nbytes)
                                : batch_receive_long(v->host, &t->batch, v->host->data, proc, tag, q->dst, nbytes);
}

/* Elements of one pair and direction go in the order of the requests. */
static bool is_first(const visit *v, const talk *t) {
    for (const talk *before = v->talks; before < t; before++) {
        bool has_begun = before->state != AT_HEADS && batch_has_begun_all(&before->batch);
        if (!has_begun && before->asked->kind == t->asked->kind && before->asked->peer == t->asked->peer) return false;
    }
    return true;
}

static weft_status advance(const visit *v, talk *t, bool *out_moved) {
    bool done;
    if (t->state == AT_END || (t->state == AT_HEADS && !is_first(v, t))) return NULL;
    TRY(batch_test(v->host, &t->batch, &done));
    if (!done) return NULL;
    *out_moved = true;
    if (t->state == AT_HEADS) return follow(v, t);
    t->state = AT_END;
    return NULL;
}

static weft_status advance_all(const visit *v) {
    int64_t nended = 0;
    for (uint32_t idle = 0; nended < v->count; idle += idle < UINT32_MAX) {
        bool moved = false;
        uint32_t nrings = mpi_nrings(v->host);
        nended = 0;
        for (int64_t i = 0; i < v->count; i++) {
            TRY(advance(v, &v->talks[i], &moved));
            nended += v->talks[i].state == AT_END;
        }
        if (moved) idle = 0;
        if (nended == v->count) break;
        if (atomic_load(&v->r->world->aborted)) return ring_cancelled(v->r, v->self);
        if (!moved) mpi_back_off(v->host, idle, nrings);
    }
    return NULL;
}

static weft_status reserve(visit *v) {
    const weft_allocator *a = v->host->allocator;
    v->message_nbytes = v->r->head_nbytes + INLINE_NBYTES;
    v->talks = base_alloc(a, (size_t)v->count * sizeof *v->talks);
    v->heads = base_alloc(a, 2 * (size_t)v->count * v->message_nbytes);
    if (!v->talks || !v->heads) return base_out_of_memory();
    memset(v->heads, 0, 2 * (size_t)v->count * v->message_nbytes);
    return NULL;
}

static void release(visit *v) {
    const weft_allocator *a = v->host->allocator;
    for (int64_t i = 0; v->talks && i < v->count; i++) {
        batch_cancel(v->host, &v->talks[i].batch);
        batch_fini(&v->talks[i].batch);
    }
    base_free(a, v->talks, (size_t)v->count * sizeof *v->talks);
    base_free(a, v->heads, 2 * (size_t)v->count * v->message_nbytes);
}

weft_status pair_run(mpi_ring *r, int self, const comm_request *requests, int64_t nrequests, const char *op) {
    visit v = {.r = r, .host = r->world->host, .self = self, .op = op, .count = nrequests};
    TRY(ring_know_tag(r, self));
    weft_status status = reserve(&v);
    for (int64_t i = 0; i < nrequests && v.talks; i++) {
        char *at = v.heads ? v.heads + 2 * (size_t)i * v.message_nbytes : NULL;
        v.talks[i] = (talk){.asked = &requests[i], .mine = at, .theirs = at ? at + v.message_nbytes : NULL};
        batch_init(&v.talks[i].batch, v.host->allocator);
    }
    for (int64_t i = 0; i < nrequests && !status; i++) status = begin(&v, &v.talks[i]);
    if (!status) status = advance_all(&v);
    release(&v);
    return status;
}
