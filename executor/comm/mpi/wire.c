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

/* An MPI count is an int. */
enum { PIECE_NBYTES = 1 << 30 };

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

void batch_fini(mpi_batch *b) {
    size_t n = (size_t)b->capacity;
    base_free(b->allocator, b->items, n * (sizeof *b->items + sizeof *b->procs + sizeof *b->is_receive));
}

/* The three arrays are one block. */
static void place(mpi_batch *b, void *block, int capacity) {
    b->items = block;
    b->procs = (int *)(void *)(b->items + capacity);
    b->is_receive = (bool *)(b->procs + capacity);
    b->capacity = capacity;
}

static weft_status reserve_one(mpi_batch *b) {
    if (b->count < b->capacity) return NULL;
    mpi_batch old = *b;
    size_t n = (size_t)b->count;
    int capacity = old.capacity ? 2 * old.capacity : 16;
    void *block =
        base_alloc(b->allocator, (size_t)capacity * (sizeof *b->items + sizeof *b->procs + sizeof *b->is_receive));
    if (!block) return base_out_of_memory();
    place(b, block, capacity);
    for (size_t i = 0; i < n; i++) {
        b->items[i] = old.items[i];
        b->procs[i] = old.procs[i];
        b->is_receive[i] = old.is_receive[i];
    }
    batch_fini(&old);
    return NULL;
}

static weft_status start(mpi_host *host, mpi_batch *b, bool is_receive, MPI_Comm comm, int proc, int tag, void *bytes,
                         size_t nbytes) {
    for (size_t at = 0; at < nbytes; at += PIECE_NBYTES) {
        int n = (int)(nbytes - at < PIECE_NBYTES ? nbytes - at : PIECE_NBYTES);
        TRY(reserve_one(b));
        MPI_Request *item = &b->items[b->count];
        char *from = (char *)bytes + at;
        mpi_enter(host);
        int code = is_receive ? MPI_Irecv(from, n, MPI_BYTE, proc, tag, comm, item)
                              : MPI_Isend(from, n, MPI_BYTE, proc, tag, comm, item);
        mpi_exit(host);
        TRY(mpi_check(code, is_receive ? "MPI_Irecv" : "MPI_Isend"));
        b->procs[b->count] = proc;
        b->is_receive[b->count++] = is_receive;
        if (!is_receive) mpi_ring_doorbell(host, proc);
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

weft_status batch_test(mpi_host *host, mpi_batch *b, bool *out_done) {
    int done = 1;
    if (b->count) {
        mpi_enter(host);
        int code = MPI_Testall(b->count, b->items, &done, MPI_STATUSES_IGNORE);
        mpi_exit(host);
        TRY(mpi_check(code, "MPI_Testall"));
    }
    *out_done = done;
    if (!done) return NULL;
    for (int i = 0; i < b->count; i++)
        if (b->is_receive[i]) mpi_ring_doorbell(host, b->procs[i]);
    b->count = 0;
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
    if (!b->count) return;
    for (int i = 0; i < b->count; i++) {
        if (!b->is_receive[i] || b->items[i] == MPI_REQUEST_NULL) continue;
        mpi_enter(host);
        MPI_Cancel(&b->items[i]);
        mpi_exit(host);
    }
    weft_status_free(batch_wait(host, b, NULL, grace_seconds, &result));
    b->count = 0;
}
