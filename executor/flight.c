/* flight.c: the memory in which processes say what they are at: made by the launcher, found by its processes.
 *
 * It is no file that could be left behind: an unnamed file of the launcher's, which processes of the same machine open
 * below its folder in /proc. Processes of other machines do not find it, and write nothing. */
#include "executor/flight.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "weft/processes.h"

static const char *const variable = "WEFT_FLIGHT"; /* "PATH:MARK" */

typedef struct flight_head {
    uint64_t mark; /* so that an equal path of another machine is not taken for it */
    int64_t nprocesses;
    _Atomic uint64_t told[FLIGHT_MOST_TOLD]; /* hashes of errors; 0: none yet */
} flight_head;

struct weft_flights {
    flight_head *head;
    flight_process *processes;
    int nprocesses, file;
};

static size_t nbytes_of(int64_t nprocesses) {
    return sizeof(flight_head) + (size_t)nprocesses * sizeof(flight_process);
}

static flight_process *processes_of(flight_head *head) {
    return (flight_process *)(void *)(head + 1);
}

/* --- the launcher's side ------------------------------------------------------------------------------------------ */

weft_status weft_flights_create(int nprocesses, weft_flights **out_flights) {
    weft_flights *f = calloc(1, sizeof *f);
    if (!f) return base_out_of_memory();
    f->nprocesses = nprocesses;
    f->file = (int)syscall(SYS_memfd_create, "weft", 1U /* closed in children */);
    void *bytes = MAP_FAILED;
    if (f->file >= 0 && ftruncate(f->file, (off_t)nbytes_of(nprocesses)) == 0)
        bytes = mmap(NULL, nbytes_of(nprocesses), PROT_READ | PROT_WRITE, MAP_SHARED, f->file, 0);
    if (bytes == MAP_FAILED) {
        if (f->file >= 0) close(f->file);
        free(f);
        return weft_status_create(WEFT_IO, NULL, "cannot make memory that processes share");
    }
    f->head = bytes;
    f->processes = processes_of(f->head);
    f->head->mark = (uint64_t)time(NULL) << 24 ^ (uint64_t)getpid();
    f->head->nprocesses = nprocesses;
    *out_flights = f;
    return NULL;
}

void weft_flights_destroy(weft_flights *f) {
    if (!f) return;
    munmap(f->head, nbytes_of(f->nprocesses));
    close(f->file);
    free(f);
}

size_t weft_flights_variable(const weft_flights *f, char *out, size_t nbytes) {
    int n = snprintf(out, nbytes, "%s=/proc/%ld/fd/%d:%llu", variable, (long)getpid(), f->file,
                     (unsigned long long)f->head->mark);
    return n < 0 ? 0 : (size_t)n;
}

static size_t say_rank(const flight_process *p, int i, char *out, size_t nbytes) {
    static const char *const words[] = {"before its first collective", "in", "behind"};
    const flight_rank *r = &p->ranks[i];
    uint32_t state = atomic_load(&r->state);
    int n = snprintf(out, nbytes, "%srank %d, %s", i ? "; " : "", p->first_rank + i, words[state % 3]);
    if (state != FLIGHT_BEFORE && n > 0 && (size_t)n < nbytes)
        n += snprintf(out + n, nbytes - (size_t)n, " %.*s, ring %lld, step %llu", FLIGHT_OP_NBYTES - 1, r->op,
                      (long long)atomic_load(&r->ring), (unsigned long long)atomic_load(&r->step));
    return n < 0 ? 0 : (size_t)n;
}

bool weft_flights_get(const weft_flights *f, int index, weft_flight *out) {
    const flight_process *p = &f->processes[index];
    *out = (weft_flight){.pid = (long)atomic_load(&p->pid)};
    if (!out->pid) return false;
    snprintf(out->host, sizeof out->host, "%.63s", p->host);
    out->has_left = atomic_load(&p->has_left);
    out->exit_status = atomic_load(&p->exit_status);
    size_t n = 0;
    for (int i = 0; i < p->nlocal && i < 4 && n < sizeof out->doing; i++)
        n += say_rank(p, i, out->doing + n, sizeof out->doing - n);
    return true;
}

void weft_flights_set_seen(weft_flights *f, int index) {
    atomic_store(&f->processes[index].is_seen, 1);
}

/* --- the processes' side ------------------------------------------------------------------------------------------ */

static flight_process *find(const char *path, uint64_t mark, int index) {
    flight_head head = {0};
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return NULL;
    void *bytes = MAP_FAILED;
    if (read(file, &head, sizeof head) == (ssize_t)sizeof head && head.mark == mark && index < head.nprocesses)
        bytes = mmap(NULL, nbytes_of(head.nprocesses), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return bytes == MAP_FAILED ? NULL : processes_of(bytes) + index; /* mapped until the process ends */
}

flight_process *flight_join(int index) {
    char path[100];
    const char *given = getenv(variable), *colon = given ? strrchr(given, ':') : NULL;
    if (!colon || (size_t)(colon - given) >= sizeof path) return NULL;
    memcpy(path, given, (size_t)(colon - given));
    path[colon - given] = '\0';
    flight_process *f = find(path, strtoull(colon + 1, NULL, 10), index);
    if (!f) return NULL;
    gethostname(f->host, sizeof f->host - 1);
    atomic_store(&f->pid, getpid());
    return f;
}

void flight_await_launcher(const flight_process *f) {
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int ms = 0; f && ms < FLIGHT_LAUNCHER_MS && !atomic_load(&f->is_seen); ms++) nanosleep(&pause, NULL);
}

bool flight_tells_first(flight_process *f, int index, const char *text) {
    flight_head *head = (flight_head *)(void *)(f - index) - 1;
    size_t n = strlen(text);
    uint64_t key = (uint64_t)base_hash(text, n) << 32 | (n + 1);
    for (int i = 0; i < FLIGHT_MOST_TOLD; i++) {
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&head->told[i], &found, key)) return true;
        if (found == key) return false;
    }
    return true;
}

void flight_leave(flight_process *f, int exit_status) {
    if (!f) return;
    atomic_store(&f->exit_status, exit_status);
    atomic_store(&f->has_left, 1);
}
