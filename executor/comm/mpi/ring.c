/* ring.c: rings with members in several processes.
 *
 * The idea: members in this process meet; the last one acts for all of them. It sends to each other process what its
 * members ask for, with the bytes themselves where they are few, and gets the same from there. All processes then hold
 * the same requests, so they agree, or say the same of who does not, without another word. move.c moves what is large.
 *
 * A ring's messages carry tags that no other ring of the run has: the process of its first member takes them from its
 * share and tells the others (control.c). What processes exchange on one tag follows from the requests, so messages of
 * one ring are told apart by their order.
 *
 * The invariant of ends: a wait that is ended by the world's `aborted` takes its receives back before it returns. While
 * another member acts, a member leaves only when that one has left the buffers alone. */
#include <stdio.h>

#include "executor/comm/mpi/mpi.h"

static const comm_ring_engine ring_engine;

/* --- making ------------------------------------------------------------------------------------------------------- */

static size_t ring_nbytes(int nranks) {
    return sizeof(mpi_ring) + (size_t)nranks * sizeof(mpi_member);
}

static int64_t tags_of(const mpi_ring *r) {
    return 1 + 3 * (int64_t)r->most_members * r->most_members; /* pair.c: heads, answers, elements of each pair */
}

/* Gives the members of a process their place, in the next seat; returns how many they are. */
static int seat_members(mpi_ring *r, int proc) {
    int n = 0;
    for (int i = 0; i < r->nranks; i++) {
        if (r->members[i].proc != proc) continue;
        r->members[i].seat = r->nprocs;
        r->members[i].place = n++;
    }
    return n;
}

static bool is_ring(const mpi_ring *r, int64_t id, int nranks, const int64_t *ranks) {
    bool same = r->id == id && r->nranks == nranks;
    for (int i = 0; same && i < nranks; i++) same = r->members[i].rank == ranks[i];
    return same;
}

static void list_procs(mpi_ring *r) {
    const mpi_host *host = r->world->host;
    for (int p = 0; p < host->nprocs; p++) {
        int n = seat_members(r, p);
        if (p == host->proc) r->own_seat = r->nprocs;
        if (n) r->procs[r->nprocs++] = p;
        if (n > r->most_members) r->most_members = n;
    }
    for (int i = 0; i < r->nranks; i++)
        if (r->members[i].proc == host->proc) r->locals[r->nlocal++] = i;
}

static void ring_free(mpi_ring *r) {
    const weft_allocator *a = r->world->host->allocator;
    size_t n = (size_t)r->nranks;
    near_release(r);
    base_free(a, r->near, n * sizeof *r->near);
    base_free(a, r->procs, n * sizeof *r->procs);
    base_free(a, r->locals, n * sizeof *r->locals);
    base_free(a, r->heads, n * r->head_nbytes);
    base_free(a, r->outgoing, (size_t)r->nprocs * r->message_nbytes);
    base_free(a, r->incoming, (size_t)r->nprocs * r->message_nbytes);
    base_free(a, r->inlined, n * sizeof *r->inlined);
    base_free(a, r->srcs, n * sizeof *r->srcs);
    base_free(a, r->from, n * sizeof *r->from);
    base_free(a, r->plain, n * sizeof *r->plain);
    base_free(a, r->lanes, n * sizeof *r->lanes);
    base_free(a, r->scratch, r->scratch_nbytes);
    for (size_t i = 0; i < sizeof r->batches / sizeof *r->batches; i++) batch_fini(&r->batches[i]);
    pthread_mutex_destroy(&r->mutex);
    base_free(a, r, ring_nbytes(r->nranks));
}

/* Once `procs` and `locals` say who is where. */
static bool reserve_all(mpi_ring *r) {
    const weft_allocator *a = r->world->host->allocator;
    size_t n = (size_t)r->nranks;
    r->head_nbytes = sizeof(mpi_head) + 2 * n * sizeof(int64_t);
    r->message_nbytes = (size_t)r->most_members * r->head_nbytes + INLINE_NBYTES;
    size_t messages_nbytes = (size_t)r->nprocs * r->message_nbytes;
    r->heads = base_alloc(a, n * r->head_nbytes);
    r->outgoing = base_alloc(a, messages_nbytes);
    r->incoming = base_alloc(a, messages_nbytes);
    r->inlined = base_alloc(a, n * sizeof *r->inlined);
    r->srcs = base_alloc(a, n * sizeof *r->srcs);
    r->from = base_alloc(a, n * sizeof *r->from);
    r->plain = base_alloc(a, n * sizeof *r->plain);
    r->lanes = base_alloc(a, n * sizeof *r->lanes);
    if (r->outgoing) memset(r->outgoing, 0, messages_nbytes); /* what is sent has no holes that were never written */
    return r->heads && r->outgoing && r->incoming && r->inlined && r->srcs && r->from && r->plain && r->lanes;
}

static mpi_ring *ring_make(mpi_world *w, int64_t id, int nranks, const int64_t *ranks) {
    const weft_allocator *a = w->host->allocator;
    mpi_ring *r = base_alloc(a, ring_nbytes(nranks));
    if (!r) return NULL;
    memset(r, 0, ring_nbytes(nranks));
    r->world = w;
    r->id = id;
    r->nranks = nranks;
    r->comm = MPI_COMM_NULL;
    r->slot = -1;
    pthread_mutex_init(&r->mutex, NULL);
    for (size_t i = 0; i < sizeof r->batches / sizeof *r->batches; i++) batch_init(&r->batches[i], a);
    for (int i = 0; i < nranks; i++) {
        r->members[i].rank = ranks[i];
        r->members[i].proc = world_proc_of(w, ranks[i]);
        r->members[i].view = (comm_ring){&ring_engine, id, i, nranks, r};
    }
    r->procs = base_alloc(a, (size_t)nranks * sizeof *r->procs);
    r->locals = base_alloc(a, (size_t)nranks * sizeof *r->locals);
    if (r->procs && r->locals) list_procs(r);
    if (!r->procs || !r->locals || !reserve_all(r) || !near_reserve(r)) {
        ring_free(r);
        return NULL;
    }
    r->next = w->rings;
    w->rings = r;
    return r;
}

/* Takes tags for a ring that this process numbers. With host->mutex. */
static weft_status take_tags(mpi_ring *r) {
    mpi_host *host = r->world->host;
    if (host->end_tag - host->next_tag < tags_of(r))
        return weft_status_create(WEFT_LIMIT, NULL, "ring %lld: MPI has no tags left for one more ring",
                                  (long long)r->id);
    r->tag = host->next_tag;
    host->next_tag += (int)tags_of(r);
    wait_publish(&r->known, 1);
    return NULL;
}

static weft_status tell_tag(mpi_ring *r, const int64_t *ranks) {
    mpi_control control = {.kind = CONTROL_RING,
                           .world = r->world->number,
                           .tag = r->tag,
                           .nranks = r->nranks,
                           .id = r->id,
                           .nbytes = (uint32_t)r->nranks * (uint32_t)sizeof *ranks};
    return control_send(r->world->host, &control, ranks, r->procs, r->nprocs);
}

static weft_status get(mpi_world *w, int64_t id, int nranks, const int64_t *ranks, int index, comm_ring **out,
                       mpi_ring **out_new) {
    mpi_ring *r = w->rings;
    while (r && !is_ring(r, id, nranks, ranks)) r = r->next;
    if (!r) {
        r = ring_make(w, id, nranks, ranks);
        if (!r) return base_out_of_memory();
        *out_new = r;
        if (r->members[0].proc == w->host->proc) TRY(take_tags(r));
        control_claim(w->host);
    }
    *out = &r->members[index].view;
    return NULL;
}

static bool is_inner(const mpi_world *w, int nranks, const int64_t *ranks) {
    bool inner = true;
    for (int i = 0; i < nranks; i++) inner = inner && world_proc_of(w, ranks[i]) == w->host->proc;
    return inner;
}

weft_status mpi_ring_get(comm_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                         comm_ring **out_ring) {
    mpi_world *w = world->shared;
    int index;
    TRY(comm_check_ranks(id, nranks, ranks, rank, world->nranks, &index));
    if (is_inner(w, nranks, ranks)) return comm_ring_get(w->inner, id, nranks, ranks, rank, out_ring);
    mpi_ring *made = NULL;
    pthread_mutex_lock(&w->host->mutex);
    weft_status status = get(w, id, nranks, ranks, index, out_ring, &made);
    pthread_mutex_unlock(&w->host->mutex);
    if (status || !made || made->members[0].proc != w->host->proc) return status;
    return tell_tag(made, ranks);
}

bool rings_take_tag(mpi_world *w, const mpi_control *control) {
    const int64_t *ranks = (const int64_t *)(const void *)control_bytes(control);
    for (mpi_ring *r = w->rings; r; r = r->next) {
        if (!is_ring(r, control->id, control->nranks, ranks)) continue;
        r->tag = control->tag;
        wait_publish(&r->known, 1);
        return true;
    }
    return false;
}

void rings_wake(mpi_world *w) {
    for (mpi_ring *r = w->rings; r; r = r->next) {
        wait_wake(&r->known);
        wait_wake(&r->generation);
    }
}

void rings_free(mpi_world *w) {
    for (mpi_ring *r = w->rings, *next; r; r = next) {
        next = r->next;
        library_disconnect(r);
        ring_free(r);
    }
}

/* --- acting ------------------------------------------------------------------------------------------------------- */

/* The heads of the members here, and what goes with them to that process; returns their bytes. */
static size_t write_message(mpi_ring *r, int to, char *out) {
    size_t n = 0;
    bool is_inline = move_is_inline(r, &r->members[r->locals[0]].request);
    for (int i = 0; i < r->nlocal; i++, n += r->head_nbytes) {
        head_of(r, &r->members[r->locals[i]].request, ring_head(r, out + n, 0));
        ring_head(r, out + n, 0)->is_inline = is_inline;
    }
    if (is_inline) n += move_pack(r, &r->members[r->locals[0]].request, r->world->host->proc, to, out + n);
    return n;
}

/* By messages; `out`: where they have come to. */
static weft_status exchange_messages(mpi_ring *r, int self, const char **out_messages) {
    mpi_host *host = r->world->host;
    mpi_batch *b = &r->batches[0];
    for (int i = 0; i < r->nprocs; i++) {
        if (i == r->own_seat) continue;
        char *out = r->outgoing + (size_t)i * r->message_nbytes, *in = r->incoming + (size_t)i * r->message_nbytes;
        TRY(batch_receive(host, b, host->data, r->procs[i], r->tag, in, r->message_nbytes));
        TRY(batch_send(host, b, host->data, r->procs[i], r->tag, out, write_message(r, r->procs[i], out)));
        out_messages[i] = in;
    }
    wait_result result;
    TRY(batch_wait(host, b, &r->world->aborted, WAIT_FOREVER, &result));
    return result == WAIT_REACHED ? NULL : ring_cancelled(r, self);
}

/* Through memory. */
static weft_status exchange_near(mpi_ring *r, int self, const char **out_messages) {
    r->nmails++;
    for (int i = 0; i < r->nprocs; i++)
        if (i != r->own_seat) (void)write_message(r, r->procs[i], near_mail(r, r->own_seat, i));
    return near_exchange(r, self, out_messages);
}

/* Heads of all members, in r->heads; the bytes that come with them, in r->inlined. */
static weft_status exchange_heads(mpi_ring *r, int self) {
    bool is_first = r->near && !r->is_settled;
    if (is_first) near_claim(r);
    TRY(r->is_near ? exchange_near(r, self, r->inlined) : exchange_messages(r, self, r->inlined));
    for (int i = 0; i < r->nranks; i++) {
        mpi_member *m = &r->members[i];
        if (m->seat == r->own_seat) continue;
        memcpy(ring_head(r, r->heads, i), r->inlined[m->seat], r->head_nbytes);
        m->request = head_request(r, ring_head(r, r->heads, i));
        r->inlined[m->seat] += r->head_nbytes;
    }
    if (is_first) near_learn(r);
    return NULL;
}

/* Requests of several tensors are equal in their counts if the hashes are. */
static bool find_other_parts(const mpi_ring *r, int *out_a, int *out_b) {
    uint64_t first = 0;
    for (int i = 0; i < r->nranks; i++) {
        const mpi_member *m = &r->members[i];
        bool here = m->proc == r->world->host->proc;
        uint64_t h = here ? head_hash_counts(&m->request) : ring_head(r, r->heads, i)->counts_hash;
        if (i == 0) first = h;
        if (h == first) continue;
        *out_a = 0;
        *out_b = i;
        return true;
    }
    return false;
}

/* All members' requests without counts of parts, which stay where they are. */
static bool find_different(const mpi_ring *r, int *out_a, int *out_b) {
    for (int i = 0; i < r->nranks; i++) {
        comm_request *plain = &r->plain[i];
        *plain = r->members[i].request;
        if (plain->nparts) plain->src_counts = plain->dst_counts = NULL;
    }
    return comm_find_different(r->plain, sizeof *r->plain, r->nranks, out_a, out_b) ||
           find_other_parts(r, out_a, out_b);
}

static weft_status act(mpi_ring *r, int self) {
    int a, b;
    TRY(ring_know_tag(r, self));
    TRY(exchange_heads(r, self));
    if (find_different(r, &a, &b))
        return comm_disagreement(r->id, r->members[a].rank, &r->members[a].request, r->members[b].rank,
                                 &r->members[b].request);
    return move_run(r, move_is_inline(r, &r->members[self].request));
}

/* --- meetings ----------------------------------------------------------------------------------------------------- */

static weft_status act_for_all(mpi_ring *r, int self) {
    weft_status status = act(r, self);
    for (size_t i = 0; status && i < sizeof r->batches / sizeof *r->batches; i++)
        batch_cancel(r->world->host, &r->batches[i]);
    if (r->is_near) near_end(r);
    return status;
}

static weft_status result_of(const mpi_ring *r, int self) {
    if (r->code == WEFT_CANCELLED) return ring_cancelled(r, self);
    return r->code == WEFT_OK ? NULL : weft_status_create(r->code, NULL, "%s", r->message);
}

/* Waits for who acts. False: the world was aborted before all had come. */
static bool wait_for_act(mpi_ring *r, uint32_t generation) {
    if (wait_until(&r->generation, generation, &r->world->aborted, WAIT_FOREVER) == WAIT_REACHED) return true;
    pthread_mutex_lock(&r->mutex);
    bool is_over = atomic_load(&r->generation.value) == generation;
    bool leaves = !r->is_acting && !is_over;
    if (leaves) r->narrived--;
    pthread_mutex_unlock(&r->mutex);
    if (leaves) return false;
    return wait_until(&r->generation, generation, NULL, WAIT_FOREVER) == WAIT_REACHED;
}

static weft_status meet(mpi_ring *r, int self) {
    if (r->nlocal == 1) return act_for_all(r, self);
    pthread_mutex_lock(&r->mutex);
    uint32_t generation = atomic_load(&r->generation.value) + 1;
    bool is_last = ++r->narrived == r->nlocal;
    r->is_acting = is_last;
    pthread_mutex_unlock(&r->mutex);
    if (!is_last) return wait_for_act(r, generation) ? result_of(r, self) : ring_cancelled(r, self);
    weft_status status = act_for_all(r, self);
    pthread_mutex_lock(&r->mutex);
    r->code = weft_status_code(status);
    snprintf(r->message, sizeof r->message, "%s", weft_status_message(status));
    r->narrived = 0;
    r->is_acting = false;
    wait_publish(&r->generation, generation);
    pthread_mutex_unlock(&r->mutex);
    return status;
}

static weft_status exchange(mpi_ring *r, int self) {
    const comm_request *q = &r->members[self].request;
    if (atomic_load(&r->world->aborted)) return ring_cancelled(r, self);
    if (q->kind == COMM_GROUP) return pair_run(r, self, q->group, q->ngroup, q->op);
    if (comm_kinds[q->kind].has_peer) return pair_run(r, self, q, 1, q->op);
    return meet(r, self);
}

/* --- the engine --------------------------------------------------------------------------------------------------- */

static weft_status ring_run(comm_ring *ring, const comm_request *asked) {
    mpi_ring *r = ring->shared;
    mpi_member *me = &r->members[ring->index];
    comm_request request;
    TRY(comm_begin(ring, me->rank, asked, &me->busy, &request));
    me->request = request;
    weft_status status = exchange(r, ring->index);
    atomic_store(&me->busy, false);
    return status;
}

static weft_status ring_error(comm_ring *ring) {
    const mpi_ring *r = ring->shared;
    return atomic_load(&r->world->aborted) ? comm_stopped(ring) : NULL;
}

/* A ring does not end alone: what its other members wait for is in other processes. */
static weft_status ring_abort(comm_ring *ring, double timeout_seconds) {
    mpi_ring *r = ring->shared;
    mpi_member *me = &r->members[ring->index];
    comm_world_abort(&r->world->world, NULL);
    return comm_wait_idle(ring, me->rank, &me->busy, &me->request, timeout_seconds);
}

static const comm_ring_engine ring_engine = {.name = "mpi", .run = ring_run, .error = ring_error, .abort = ring_abort};
