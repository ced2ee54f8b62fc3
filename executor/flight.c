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
#include "executor/comm/wait.h"
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

static size_t say_doing(const flight_rank *r, char *out, size_t nbytes) {
    static const char *const words[] = {"before its first collective", "in", "behind"};
    uint32_t state = atomic_load(&r->state);
    int n = snprintf(out, nbytes, "%s", words[state % 3]);
    if (state != FLIGHT_BEFORE && n > 0 && (size_t)n < nbytes)
        n += snprintf(out + n, nbytes - (size_t)n, " %.*s, ring %lld, step %llu", FLIGHT_OP_NBYTES - 1, r->op,
                      (long long)atomic_load(&r->ring), (unsigned long long)atomic_load(&r->step));
    return n < 0 ? 0 : (size_t)n;
}

static size_t say_rank(const flight_process *p, int i, char *out, size_t nbytes) {
    int n = snprintf(out, nbytes, "%srank %d, ", i ? "; " : "", p->first_rank + i);
    if (n < 0 || (size_t)n >= nbytes) return n < 0 ? 0 : (size_t)n;
    return (size_t)n + say_doing(&p->ranks[i], out + n, nbytes - (size_t)n);
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

/* --- who is late -------------------------------------------------------------------------------------------------- */

typedef struct flight_place {
    const flight_process *process;
    int at; /* among its ranks */
} flight_place;

static const flight_rank *rank_at(const flight_place *p) {
    return &p->process->ranks[p->at];
}

/* Those of a process that is not here, or has more than there is room for, are not known. */
static int nranks_of(const flight_process *p) {
    bool is_here = atomic_load(&p->pid) && !atomic_load(&p->has_left);
    return is_here && p->nlocal <= FLIGHT_MOST_RANKS ? p->nlocal : 0;
}

static bool is_in(const flight_rank *r) {
    return atomic_load(&r->state) == FLIGHT_IN;
}

/* The next rank; false: there is none. It begins with {NULL}. */
static bool next_rank(const weft_flights *f, flight_place *at) {
    const flight_process *end = f->processes + f->nprocesses;
    if (!at->process)
        *at = (flight_place){f->processes, 0};
    else
        at->at++;
    while (at->process < end && at->at >= nranks_of(at->process)) at->process++, at->at = 0;
    return at->process < end;
}

static bool is_awaited(const flight_rank *by, int rank) {
    return rank < FLIGHT_MOST_RANKS && atomic_load(&by->awaited[rank / 64]) >> rank % 64 & 1;
}

/* Who has waited longest of those that wait too long. */
static bool find_waiting(const weft_flights *f, int64_t now, flight_place *out) {
    bool found = false;
    for (flight_place at = {NULL}; next_rank(f, &at);) {
        int64_t late = atomic_load(&rank_at(&at)->late_ns);
        if (!is_in(rank_at(&at)) || !late || now < late) continue;
        if (found && atomic_load(&rank_at(out)->since_ns) <= atomic_load(&rank_at(&at)->since_ns)) continue;
        *out = at;
        found = true;
    }
    return found;
}

/* Those of this machine that it waits for; where there is none, why not. */
static void say_awaited(const weft_flights *f, const flight_rank *by, char *out, size_t nbytes) {
    size_t n = 0;
    int nelsewhere = 0; /* awaited ranks that no process of this machine has */
    for (int i = 0; i < FLIGHT_SET; i++) nelsewhere += __builtin_popcountll(atomic_load(&by->awaited[i]));
    for (flight_place at = {NULL}; next_rank(f, &at) && n + 1 < nbytes;) {
        const flight_rank *r = rank_at(&at);
        int rank = at.process->first_rank + at.at;
        char doing[FLIGHT_OP_NBYTES + 80];
        if (!is_awaited(by, rank)) continue;
        nelsewhere--;
        if (is_in(r) && atomic_load(&r->ring) == atomic_load(&by->ring)) continue;
        say_doing(r, doing, sizeof doing);
        int more = snprintf(out + n, nbytes - n, "%s rank %d (pid %lld on %.63s, %s)", n ? "," : " for", rank,
                            (long long)atomic_load(&at.process->pid), at.process->host, doing);
        n += more > 0 ? (size_t)more : 0;
    }
    if (!n)
        snprintf(out, nbytes, "%s", nelsewhere > 0 ? " for a rank of another host" : ", though all ranks have come");
}

bool weft_flights_late(const weft_flights *f, char *out, size_t nbytes) {
    flight_place by;
    int64_t now = wait_clock_ns();
    if (!find_waiting(f, now, &by)) return false;
    const flight_rank *r = rank_at(&by);
    int64_t since = atomic_load(&r->since_ns);
    int n = snprintf(out, nbytes, "rank %d, %.*s, ring %lld: has waited %.3g s (%.3g s are usual at most)",
                     by.process->first_rank + by.at, FLIGHT_OP_NBYTES - 1, r->op, (long long)atomic_load(&r->ring),
                     (double)(now - since) * 1e-9, (double)(atomic_load(&r->late_ns) - since) * 1e-9);
    if (n > 0 && (size_t)n < nbytes) say_awaited(f, r, out + n, nbytes - (size_t)n);
    return is_in(r) && atomic_load(&r->since_ns) == since; /* else it went on meanwhile */
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
