/* wire.c: requests of MPI and how they are waited for.
 *
 * The idea: whoever needs a message drives MPI itself (MPI_THREAD_MULTIPLE: 0.4 us a call dearer in Open MPI, nothing
 * in MPICH, where a hand-over to a thread that owns MPI is 8 us and more). Waits are loops of tests, never blocking
 * calls: a blocking call burns its core while the process that it waits for needs it, and cannot be ended. A library
 * that takes calls of one thread at a time gets a lock around each; none of them blocks.
 *
 * MPI has no way to sleep until a message comes. Processes of one machine share a page with a doorbell each: whoever
 * has sent something, or has taken something, rings at the other side, which costs a system call only where somebody
 * sleeps. A doorbell that nobody rang is looked after every half millisecond: so messages of other machines are
 * noticed. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "executor/comm/mpi/mpi.h"

/* An MPI count is an int. Long messages to other machines go in pieces that libraries send at once. Of a longer one
 * they first send a question. Its answer would stand in line behind all that goes the other way. Then a link would
 * carry one way after the other. */
enum { PIECE_NBYTES = 1 << 30, LONG_PIECE_NBYTES = 60 << 10, MOST_UNDER_WAY = 16 };

void mpi_enter(mpi_host *host) {
    if (host->is_serial) pthread_mutex_lock(&host->calls);
}

void mpi_exit(mpi_host *host) {
    if (host->is_serial) pthread_mutex_unlock(&host->calls);
}

weft_status mpi_check(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (code == MPI_SUCCESS) return NULL;
    MPI_Error_string(code, text, &n);
    return weft_status_create(WEFT_IO, NULL, "%s: %s", call, text);
}

/* --- doorbells ---------------------------------------------------------------------------------------------------- */

static const long sleep_ns = 500000;

void mpi_ring_doorbell(const mpi_host *host, int proc) {
    if (!host->pages[proc]) return;
    mpi_doorbell *doorbell = &host->pages[proc]->doorbell;
    atomic_fetch_add(&doorbell->nrings, 1);
    if (atomic_load(&doorbell->nsleepers)) syscall(SYS_futex, &doorbell->nrings, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

uint32_t mpi_nrings(const mpi_host *host) {
    return atomic_load(&host->pages[host->proc]->doorbell.nrings);
}

void mpi_back_off(const mpi_host *host, uint32_t n, uint32_t nrings) {
    uint32_t nspins = host->is_crowded ? 8 : 100, nyields = nspins + 24;
    if (n < nspins) {
        wait_pause();
    } else if (n < nyields) {
        sched_yield();
    } else {
        mpi_doorbell *doorbell = &host->pages[host->proc]->doorbell;
        atomic_fetch_add(&doorbell->nsleepers, 1);
        syscall(SYS_futex, &doorbell->nrings, FUTEX_WAIT, nrings, &(struct timespec){.tv_nsec = sleep_ns}, NULL, 0);
        atomic_fetch_sub(&doorbell->nsleepers, 1);
    }
}

/* --- batches ------------------------------------------------------------------------------------------------------ */

void batch_init(mpi_batch *b, const weft_allocator *allocator) {
    *b = (mpi_batch){.allocator = allocator};
}

static size_t room_nbytes(int capacity) {
    mpi_batch b;
    return (size_t)capacity * (sizeof *b.requests + sizeof *b.items + sizeof *b.indices);
}

void batch_fini(mpi_batch *b) {
    base_free(b->allocator, b->requests, room_nbytes(b->capacity));
    base_free(b->allocator, b->transfers, (size_t)b->transfer_capacity * sizeof *b->transfers);
}

/* The three arrays are one block. */
static weft_status reserve_one(mpi_batch *b) {
    if (b->count < b->capacity) return NULL;
    size_t n = (size_t)b->count;
    int capacity = b->capacity ? 2 * b->capacity : 16;
    MPI_Request *requests = base_alloc(b->allocator, room_nbytes(capacity));
    if (!requests) return base_out_of_memory();
    mpi_item *items = (mpi_item *)(void *)(requests + capacity);
    if (n) memcpy(requests, b->requests, n * sizeof *requests);
    if (n) memcpy(items, b->items, n * sizeof *items);
    base_free(b->allocator, b->requests, room_nbytes(b->capacity));
    b->requests = requests;
    b->items = items;
    b->indices = (int *)(items + capacity);
    b->capacity = capacity;
    return NULL;
}

static weft_status post(mpi_host *host, mpi_batch *b, mpi_item item, MPI_Comm comm, int tag, char *bytes,
                        size_t nbytes) {
    TRY(reserve_one(b));
    MPI_Request *request = &b->requests[b->count];
    mpi_enter(host);
    int code = item.is_receive ? MPI_Irecv(bytes, (int)nbytes, MPI_BYTE, item.proc, tag, comm, request)
                               : MPI_Isend(bytes, (int)nbytes, MPI_BYTE, item.proc, tag, comm, request);
    mpi_exit(host);
    TRY(mpi_check(code, item.is_receive ? "MPI_Irecv" : "MPI_Isend"));
    b->items[b->count++] = item;
    if (!item.is_receive) mpi_ring_doorbell(host, item.proc);
    return NULL;
}

static weft_status start(mpi_host *host, mpi_batch *b, bool is_receive, MPI_Comm comm, int proc, int tag, void *bytes,
                         size_t nbytes) {
    for (size_t at = 0; at < nbytes; at += PIECE_NBYTES) {
        size_t n = nbytes - at < PIECE_NBYTES ? nbytes - at : PIECE_NBYTES;
        TRY(post(host, b, (mpi_item){proc, -1, is_receive}, comm, tag, (char *)bytes + at, n));
    }
    return NULL;
}

weft_status batch_send(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag, const void *bytes,
                       size_t nbytes) {
    return start(host, b, false, comm, proc, tag, (void *)(uintptr_t)bytes, nbytes);
}

weft_status batch_receive(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag, void *bytes, size_t nbytes) {
    return start(host, b, true, comm, proc, tag, bytes, nbytes);
}

/* --- long messages ------------------------------------------------------------------------------------------------ */

/* Whether an earlier one to or from that process has pieces that have not begun. */
static bool must_wait(const mpi_batch *b, const mpi_transfer *t) {
    for (const mpi_transfer *before = b->transfers + b->nbegun; before < t; before++)
        if (before->left && before->proc == t->proc && before->is_receive == t->is_receive) return true;
    return false;
}

static weft_status go_on(mpi_host *host, mpi_batch *b) {
    for (int i = b->nbegun; i < b->ntransfers; i++) {
        mpi_transfer *t = &b->transfers[i];
        while (t->left && t->nunder_way < MOST_UNDER_WAY && !must_wait(b, t)) {
            size_t n = t->left < LONG_PIECE_NBYTES ? t->left : LONG_PIECE_NBYTES;
            TRY(post(host, b, (mpi_item){t->proc, i, t->is_receive}, t->comm, t->tag, t->bytes, n));
            t->bytes += n;
            t->left -= n;
            t->nunder_way++;
        }
        if (!t->left && i == b->nbegun) b->nbegun++;
    }
    return NULL;
}

static weft_status add_transfer(mpi_batch *b, const mpi_transfer *t) {
    if (b->ntransfers == b->transfer_capacity) {
        int capacity = b->transfer_capacity ? 2 * b->transfer_capacity : 4;
        mpi_transfer *room = base_alloc(b->allocator, (size_t)capacity * sizeof *room);
        if (!room) return base_out_of_memory();
        if (b->ntransfers) memcpy(room, b->transfers, (size_t)b->ntransfers * sizeof *room);
        base_free(b->allocator, b->transfers, (size_t)b->transfer_capacity * sizeof *room);
        b->transfers = room;
        b->transfer_capacity = capacity;
    }
    b->transfers[b->ntransfers++] = *t;
    return NULL;
}

bool batch_has_begun_all(const mpi_batch *b) {
    return b->nbegun == b->ntransfers;
}

static weft_status start_long(mpi_host *host, mpi_batch *b, bool is_receive, MPI_Comm comm, int proc, int tag,
                              char *bytes, size_t nbytes) {
    bool shares_memory = host->pages[proc] && host->nslots, is_short = nbytes <= LONG_PIECE_NBYTES;
    if (shares_memory || (is_short && batch_has_begun_all(b)))
        return start(host, b, is_receive, comm, proc, tag, bytes, nbytes);
    mpi_transfer t = {.bytes = bytes, .left = nbytes, .comm = comm, .proc = proc, .tag = tag, .is_receive = is_receive};
    TRY(add_transfer(b, &t));
    return go_on(host, b);
}

weft_status batch_send_long(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag, const void *bytes,
                            size_t nbytes) {
    return start_long(host, b, false, comm, proc, tag, (char *)(uintptr_t)bytes, nbytes);
}

weft_status batch_receive_long(mpi_host *host, mpi_batch *b, MPI_Comm comm, int proc, int tag, void *bytes,
                               size_t nbytes) {
    return start_long(host, b, true, comm, proc, tag, bytes, nbytes);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* A request is done. */
static void note_done(const mpi_host *host, mpi_batch *b, const mpi_item *item) {
    if (item->is_receive) mpi_ring_doorbell(host, item->proc);
    if (item->transfer >= 0) b->transfers[item->transfer].nunder_way--;
}

/* What is done makes room for further pieces. */
static weft_status take_some(mpi_host *host, mpi_batch *b) {
    int ndone = 0, n = 0;
    mpi_enter(host);
    int code = MPI_Testsome(b->count, b->requests, &ndone, b->indices, MPI_STATUSES_IGNORE);
    mpi_exit(host);
    TRY(mpi_check(code, "MPI_Testsome"));
    if (ndone <= 0) return NULL; /* MPI_UNDEFINED is negative */
    for (int i = 0; i < b->count; i++) {
        if (b->requests[i] == MPI_REQUEST_NULL) {
            note_done(host, b, &b->items[i]);
            continue;
        }
        b->requests[n] = b->requests[i];
        b->items[n++] = b->items[i];
    }
    b->count = n;
    return go_on(host, b);
}

weft_status batch_test(mpi_host *host, mpi_batch *b, bool *out_done) {
    int done = 1;
    *out_done = false;
    if (!batch_has_begun_all(b)) return take_some(host, b);
    if (b->count) {
        mpi_enter(host);
        int code = MPI_Testall(b->count, b->requests, &done, MPI_STATUSES_IGNORE);
        mpi_exit(host);
        TRY(mpi_check(code, "MPI_Testall"));
    }
    *out_done = done;
    if (!done) return NULL;
    for (int i = 0; i < b->count; i++) note_done(host, b, &b->items[i]);
    b->count = b->ntransfers = b->nbegun = 0;
    return NULL;
}

weft_status batch_wait(mpi_host *host, mpi_batch *b, const _Atomic bool *stop, double timeout_seconds,
                       wait_result *out_result) {
    int64_t deadline = wait_deadline_ns(timeout_seconds);
    *out_result = WAIT_REACHED;
    for (uint32_t n = 0;; n += n < UINT32_MAX) {
        bool done;
        uint32_t nrings = mpi_nrings(host);
        TRY(batch_test(host, b, &done));
        if (done) return NULL;
        if (stop && atomic_load(stop)) {
            *out_result = WAIT_ABORTED;
            return NULL;
        }
        if (wait_clock_ns() > deadline) {
            *out_result = WAIT_TIMED_OUT;
            return NULL;
        }
        mpi_back_off(host, n, nrings);
    }
}

/* What is left after that goes to or comes from a process that has stopped: this run is over. */
static const double grace_seconds = 0.5;

void batch_cancel(mpi_host *host, mpi_batch *b) {
    wait_result result;
    b->ntransfers = b->nbegun; /* no further pieces */
    if (!b->count) return;
    for (int i = 0; i < b->count; i++) {
        if (!b->items[i].is_receive || b->requests[i] == MPI_REQUEST_NULL) continue;
        mpi_enter(host);
        MPI_Cancel(&b->requests[i]);
        mpi_exit(host);
    }
    weft_status_free(batch_wait(host, b, NULL, grace_seconds, &result));
    b->count = b->ntransfers = b->nbegun = 0;
}
