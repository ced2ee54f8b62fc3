/* notes.c: what processes tell one another at any time: the tags of a ring, that a run is over, an alarm.
 *
 * A thread listens: it looks for notes every millisecond, which also drives MPI for whoever waits in between. The
 * invariant: a note is taken when its world and ring are there, else kept until they are made; worlds are numbered in
 * the order of their making, which is equal in all processes. */
#include <time.h>

#include "executor/comm/mpi/mpi.h"

static const long period_ns = 1000000;

static mpi_letter *letter_create(const mpi_host *host, size_t nbytes) {
    mpi_letter *letter = base_alloc(host->allocator, offsetof(mpi_letter, note) + nbytes);
    if (letter) *letter = (mpi_letter){.nbytes = nbytes, .request = MPI_REQUEST_NULL};
    return letter;
}

static void letter_free(const mpi_host *host, mpi_letter *letter) {
    base_free(host->allocator, letter, offsetof(mpi_letter, note) + letter->nbytes);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

weft_status notes_send(mpi_host *host, const mpi_note *head, const void *bytes, const int *procs, int nprocs) {
    weft_status status = NULL;
    for (int i = 0; i < nprocs && !status; i++) {
        if (procs[i] == host->proc) continue;
        mpi_letter *letter = letter_create(host, sizeof *head + head->nbytes);
        if (!letter) return base_out_of_memory();
        letter->note = *head;
        if (head->nbytes) memcpy(letter->bytes, bytes, head->nbytes);
        mpi_enter(host);
        int code = MPI_Isend(&letter->note, (int)letter->nbytes, MPI_BYTE, procs[i], 0, host->notes, &letter->request);
        mpi_exit(host);
        status = mpi_check(code, "MPI_Isend");
        pthread_mutex_lock(&host->mutex);
        letter->next = host->going;
        host->going = letter;
        pthread_mutex_unlock(&host->mutex);
    }
    return status;
}

/* Forgets the notes that have gone. */
static void collect(mpi_host *host) {
    pthread_mutex_lock(&host->mutex);
    for (mpi_letter **at = &host->going; *at;) {
        mpi_letter *letter = *at;
        int done = 1;
        mpi_enter(host);
        MPI_Test(&letter->request, &done, MPI_STATUS_IGNORE);
        mpi_exit(host);
        if (!done) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        letter_free(host, letter);
    }
    pthread_mutex_unlock(&host->mutex);
}

/* --- taking ------------------------------------------------------------------------------------------------------- */

static mpi_world *find_world(const mpi_host *host, uint32_t number) {
    mpi_world *w = host->worlds;
    while (w && w->number != number) w = w->next;
    return w;
}

/* True: it is not needed any more. */
static bool take(mpi_host *host, const mpi_note *note) {
    mpi_world *w = find_world(host, note->world);
    if (w) return w->take_note(w, note);
    return note->world < host->nworlds; /* it is over */
}

void notes_claim(mpi_host *host) {
    for (mpi_letter **at = &host->waiting; *at;) {
        mpi_letter *letter = *at;
        if (!take(host, &letter->note)) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        letter_free(host, letter);
    }
}

/* The next note that has come, or NULL. */
static mpi_letter *receive(mpi_host *host) {
    MPI_Status from;
    int has_come = 0, nbytes = 0;
    mpi_letter *letter = NULL;
    mpi_enter(host);
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, host->notes, &has_come, &from) == MPI_SUCCESS && has_come) {
        MPI_Get_count(&from, MPI_BYTE, &nbytes);
        letter = letter_create(host, (size_t)nbytes);
        if (letter) /* it has come, so this does not wait for anyone */
            MPI_Recv(&letter->note, nbytes, MPI_BYTE, from.MPI_SOURCE, 0, host->notes, MPI_STATUS_IGNORE);
    }
    mpi_exit(host);
    return letter;
}

static void *listen_to_all(void *arg) {
    mpi_host *host = arg;
    while (!atomic_load(&host->is_closing)) {
        mpi_letter *letter = receive(host);
        if (letter) {
            pthread_mutex_lock(&host->mutex);
            letter->next = host->waiting;
            host->waiting = letter;
            notes_claim(host);
            pthread_mutex_unlock(&host->mutex);
            continue;
        }
        if (host->going) collect(host);
        nanosleep(&(struct timespec){.tv_nsec = period_ns}, NULL);
    }
    return NULL;
}

weft_status notes_start(mpi_host *host) {
    int failed = pthread_create(&host->listener, NULL, listen_to_all, host);
    if (!failed) return NULL;
    return weft_status_create(WEFT_IO, NULL, "cannot start a thread: %s", strerror(failed));
}

void notes_stop(mpi_host *host) {
    atomic_store(&host->is_closing, true);
    pthread_join(host->listener, NULL);
    collect(host);
    for (mpi_letter *letter = host->waiting, *next; letter; letter = next) {
        next = letter->next;
        letter_free(host, letter);
    }
    host->waiting = NULL;
}
