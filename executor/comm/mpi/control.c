/* control.c: what processes tell one another at any time: the tags of a ring, that a run is over, an alarm.
 *
 * A thread listens: it looks for control messages, which also drives MPI for whoever waits in between. While they come
 * it looks every millisecond, later more rarely: each look takes a core from who computes there. The invariant: a
 * control message is taken when its world and ring are there, else kept until they are made; worlds are numbered in the
 * order of their making, which is equal in all processes. */
#include <time.h>

#include "executor/comm/mpi/mpi.h"

static const long least_period_ns = 1000000, most_period_ns = 16000000;
enum { LOOKS_OF_EACH = 64 }; /* before the period doubles */

static mpi_message *message_create(const mpi_host *host, size_t nbytes) {
    mpi_message *message = base_alloc(host->allocator, offsetof(mpi_message, control) + nbytes);
    if (message) *message = (mpi_message){.nbytes = nbytes, .request = MPI_REQUEST_NULL};
    return message;
}

static void message_free(const mpi_host *host, mpi_message *message) {
    base_free(host->allocator, message, offsetof(mpi_message, control) + message->nbytes);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

weft_status control_send(mpi_host *host, const mpi_control *head, const void *bytes, const int *procs, int nprocs) {
    weft_status status = NULL;
    for (int i = 0; i < nprocs && !status; i++) {
        if (procs[i] == host->proc) continue;
        mpi_message *message = message_create(host, sizeof *head + head->nbytes);
        if (!message) return base_out_of_memory();
        message->control = *head;
        if (head->nbytes) memcpy(message->bytes, bytes, head->nbytes);
        mpi_enter(host);
        int code = MPI_Isend(&message->control, (int)message->nbytes, MPI_BYTE, procs[i], 0, host->controls,
                             &message->request);
        mpi_exit(host);
        status = mpi_check(code, "MPI_Isend");
        pthread_mutex_lock(&host->mutex);
        message->next = host->going;
        host->going = message;
        pthread_mutex_unlock(&host->mutex);
    }
    return status;
}

/* Forgets the control messages that have gone. */
static void collect(mpi_host *host) {
    pthread_mutex_lock(&host->mutex);
    for (mpi_message **at = &host->going; *at;) {
        mpi_message *message = *at;
        int done = 1;
        mpi_enter(host);
        MPI_Test(&message->request, &done, MPI_STATUS_IGNORE);
        mpi_exit(host);
        if (!done) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        message_free(host, message);
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
static bool take(mpi_host *host, const mpi_control *control) {
    mpi_world *w = find_world(host, control->world);
    if (w) return w->take_control(w, control);
    return control->world < host->nworlds; /* it is over */
}

void control_claim(mpi_host *host) {
    for (mpi_message **at = &host->waiting; *at;) {
        mpi_message *message = *at;
        if (!take(host, &message->control)) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        message_free(host, message);
    }
}

/* The next control that has come, or NULL. */
static mpi_message *receive(mpi_host *host) {
    MPI_Status from;
    int has_come = 0, nbytes = 0;
    mpi_message *message = NULL;
    mpi_enter(host);
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, host->controls, &has_come, &from) == MPI_SUCCESS && has_come) {
        MPI_Get_count(&from, MPI_BYTE, &nbytes);
        message = message_create(host, (size_t)nbytes);
        if (message) /* it has come, so this does not wait for anyone */
            MPI_Recv(&message->control, nbytes, MPI_BYTE, from.MPI_SOURCE, 0, host->controls, MPI_STATUS_IGNORE);
    }
    mpi_exit(host);
    return message;
}

static void *listen_to_all(void *arg) {
    mpi_host *host = arg;
    long period_ns = least_period_ns;
    for (uint32_t nlooks = 1; !atomic_load(&host->is_closing); nlooks++) {
        mpi_message *message = receive(host);
        if (message) {
            period_ns = least_period_ns;
            nlooks = 0;
            pthread_mutex_lock(&host->mutex);
            message->next = host->waiting;
            host->waiting = message;
            control_claim(host);
            pthread_mutex_unlock(&host->mutex);
            continue;
        }
        collect(host);
        if (nlooks % LOOKS_OF_EACH == 0 && period_ns < most_period_ns) period_ns *= 2;
        nanosleep(&(struct timespec){.tv_nsec = period_ns}, NULL);
    }
    return NULL;
}

weft_status control_start(mpi_host *host) {
    int failed = pthread_create(&host->listener, NULL, listen_to_all, host);
    if (!failed) return NULL;
    return weft_status_create(WEFT_IO, NULL, "cannot start a thread: %s", strerror(failed));
}

void control_stop(mpi_host *host) {
    atomic_store(&host->is_closing, true);
    pthread_join(host->listener, NULL);
    collect(host);
    for (mpi_message *message = host->waiting, *next; message; message = next) {
        next = message->next;
        message_free(host, message);
    }
    host->waiting = NULL;
}
