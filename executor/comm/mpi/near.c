/* near.c: rings all of whose processes are on this machine: they see memory of each other, a window of MPI's.
 *
 * The idea: each process has a few slots there. A ring takes one in each of its processes when it is first used; the
 * first heads tell which, by messages. Behind that heads go through the slots, and so do elements (staged.c): a message
 * of MPI's costs two copies and, when it is long, answers that a sleeping process does not give.
 *
 * A process writes to its own slot alone and counts what it has done there; the others read. Counts go on from ring to
 * ring, so that nobody waits for a count that begins anew.
 *
 * The invariant of slots: one is given back when all others have ended the ring's last collective. After an abort it is
 * not given back at all: somebody may still read it. */
#include <sched.h>
#include <stdlib.h>

#include "executor/comm/mpi/mpi.h"

/* --- memory that all processes of this machine see ---------------------------------------------------------------- */

enum { MACHINE_NBYTES = 32 << 20 }; /* of all processes: containers often have no more than 64 MiB for it */

/* WEFT_MPI_SHARED=0: none, so that messages are used on one machine too. */
static int slots_of_each(int nprocs) {
    const char *given = getenv("WEFT_MPI_SHARED");
    size_t most = (size_t)MACHINE_NBYTES / sizeof(mpi_slot) / (size_t)nprocs;
    if (given && strcmp(given, "0") == 0) return 0;
    return most < MOST_SLOTS ? (int)most : MOST_SLOTS;
}

/* MPI aligns for its own elements; all processes map the window at pages, so they round alike. */
static mpi_page *aligned(void *base) {
    return (mpi_page *)(((uintptr_t)base + _Alignof(reduce_block) - 1) & ~(uintptr_t)(_Alignof(reduce_block) - 1));
}

static weft_status share_pages(mpi_host *host, MPI_Comm machine, int nprocs, const int *procs) {
    void *base = NULL;
    MPI_Aint nbytes = (MPI_Aint)(sizeof(mpi_page) + (size_t)host->nslots * sizeof(mpi_slot) + _Alignof(reduce_block));
    TRY(mpi_check(MPI_Win_allocate_shared(nbytes, 1, MPI_INFO_NULL, machine, (void *)&base, &host->pages_window),
                  "MPI_Win_allocate_shared"));
    mpi_page *own = aligned(base);
    memset(own, 0, sizeof *own);
    for (int s = 0; s < host->nslots; s++) memset(own->slots[s].counts, 0, sizeof own->slots[s].counts);
    for (int i = 0; i < nprocs; i++) {
        int unit;
        MPI_Win_shared_query(host->pages_window, i, &nbytes, &unit, (void *)&base);
        host->pages[procs[i]] = aligned(base);
    }
    return NULL;
}

weft_status near_open(mpi_host *host) {
    MPI_Comm machine;
    int nprocs, *procs = base_alloc(host->allocator, (size_t)host->nprocs * sizeof *procs);
    cpu_set_t cores;
    host->pages = base_alloc(host->allocator, (size_t)host->nprocs * sizeof *host->pages);
    weft_status status = host->pages && procs ? NULL : base_out_of_memory();
    if (status) goto done;
    memset(host->pages, 0, (size_t)host->nprocs * sizeof *host->pages);
    MPI_Comm_split_type(host->data, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &nprocs);
    host->nslots = slots_of_each(nprocs);
    TRY_DONE(mpi_check(MPI_Allgather(&host->proc, 1, MPI_INT, procs, 1, MPI_INT, machine), "MPI_Allgather"));
    TRY_DONE(share_pages(host, machine, nprocs, procs));
    MPI_Barrier(machine);
    MPI_Comm_free(&machine);
    host->is_crowded = sched_getaffinity(0, sizeof cores, &cores) != 0 || nprocs > CPU_COUNT(&cores);
done:
    base_free(host->allocator, procs, (size_t)host->nprocs * sizeof *procs);
    return status;
}

void near_close(mpi_host *host) {
    MPI_Win_free(&host->pages_window);
    base_free(host->allocator, host->pages, (size_t)host->nprocs * sizeof *host->pages);
}

/* --- a ring's slots ----------------------------------------------------------------------------------------------- */

bool near_reserve(mpi_ring *r) {
    const mpi_host *host = r->world->host;
    bool is_near = host->nslots > 0 && 2 * (size_t)r->nprocs * r->message_nbytes <= MAIL_NBYTES;
    for (int i = 0; i < r->nprocs; i++) is_near = is_near && host->pages[r->procs[i]];
    if (!is_near) return true;
    size_t nbytes = (size_t)r->nranks * sizeof *r->near;
    r->near = base_alloc(host->allocator, nbytes);
    if (r->near) memset(r->near, 0, nbytes);
    return r->near != NULL;
}

static void set_slot(mpi_ring *r, int slot, bool is_taken) {
    mpi_host *host = r->world->host;
    pthread_mutex_lock(&host->mutex);
    host->takes_slot[slot] = is_taken;
    pthread_mutex_unlock(&host->mutex);
}

void near_claim(mpi_ring *r) {
    mpi_host *host = r->world->host;
    pthread_mutex_lock(&host->mutex);
    for (int s = 0; s < host->nslots && r->slot < 0; s++) {
        if (host->takes_slot[s]) continue;
        host->takes_slot[s] = true;
        r->slot = s;
    }
    pthread_mutex_unlock(&host->mutex);
    if (r->slot < 0) return;
    mpi_slot *slot = &host->pages[host->proc]->slots[r->slot];
    r->near[r->own_seat] =
        (mpi_neighbour){slot, atomic_load(&slot->counts[COUNT_MAILS].n), atomic_load(&slot->counts[COUNT_STAGED].n)};
}

void near_learn(mpi_ring *r) {
    const mpi_host *host = r->world->host;
    r->is_settled = true;
    r->is_near = r->slot >= 0;
    for (int i = 0; i < r->nranks; i++) {
        const mpi_head *head = ring_head(r, r->heads, i);
        const mpi_member *m = &r->members[i];
        if (m->seat == r->own_seat) continue;
        if (head->slot < 0)
            r->is_near = false;
        else
            r->near[m->seat] =
                (mpi_neighbour){&host->pages[m->proc]->slots[head->slot], head->first_mail, head->first_segment};
    }
    if (r->is_near || r->slot < 0) return;
    set_slot(r, r->slot, false);
    r->slot = -1;
}

/* --- counts ------------------------------------------------------------------------------------------------------- */

static uint64_t first_of(const mpi_neighbour *n, mpi_count count) {
    return count == COUNT_MAILS || count == COUNT_HEARD ? n->first_mail : n->first_segment;
}

void near_count(mpi_ring *r, mpi_count count, uint64_t n) {
    const mpi_neighbour *own = &r->near[r->own_seat];
    atomic_store(&own->slot->counts[count].n, first_of(own, count) + n);
    for (int i = 0; i < r->nprocs; i++)
        if (i != r->own_seat) mpi_ring_doorbell(r->world->host, r->procs[i]);
}

static wait_result wait_for(const mpi_ring *r, int seat, mpi_count count, uint64_t n, double timeout_seconds) {
    const mpi_host *host = r->world->host;
    const mpi_neighbour *other = &r->near[seat];
    int64_t deadline = wait_deadline_ns(timeout_seconds);
    for (uint32_t i = 0;; i += i < UINT32_MAX) {
        uint32_t nrings = mpi_nrings(host);
        if (atomic_load(&other->slot->counts[count].n) >= first_of(other, count) + n) return WAIT_REACHED;
        if (atomic_load(&r->world->aborted)) return WAIT_ABORTED;
        if (wait_clock_ns() > deadline) return WAIT_TIMED_OUT;
        mpi_back_off(host, i, nrings);
    }
}

weft_status near_wait_for(mpi_ring *r, int self, int seat, mpi_count count, uint64_t n) {
    return wait_for(r, seat, count, n, WAIT_FOREVER) == WAIT_REACHED ? NULL : ring_cancelled(r, self);
}

weft_status near_wait(mpi_ring *r, int self, mpi_count count, uint64_t n) {
    for (int i = 0; i < r->nprocs; i++)
        if (i != r->own_seat) TRY(near_wait_for(r, self, i, count, n));
    return NULL;
}

void near_release(mpi_ring *r) {
    bool is_over = r->slot >= 0 && r->is_settled && !atomic_load(&r->world->aborted);
    for (int i = 0; is_over && i < r->nprocs; i++)
        is_over = i == r->own_seat || wait_for(r, i, COUNT_HEARD, r->nmails, 1) == WAIT_REACHED;
    if (is_over) set_slot(r, r->slot, false);
}

/* --- heads -------------------------------------------------------------------------------------------------------- */

/* Of the last two collectives: who writes the next heads has those of the others before, so they have read older ones.
 */
char *near_mail(const mpi_ring *r, int from, int to) {
    return r->near[from].slot->mail + (r->nmails % 2 * (size_t)r->nprocs + (size_t)to) * r->message_nbytes;
}

weft_status near_exchange(mpi_ring *r, int self, const char **out) {
    near_count(r, COUNT_MAILS, r->nmails);
    TRY(near_wait(r, self, COUNT_MAILS, r->nmails));
    for (int i = 0; i < r->nprocs; i++) out[i] = near_mail(r, i, r->own_seat);
    return NULL;
}

void near_end(mpi_ring *r) {
    const mpi_neighbour *own = &r->near[r->own_seat];
    atomic_store(&own->slot->counts[COUNT_HEARD].n, own->first_mail + r->nmails);
}
