/* comm.c: what an all_reduce takes, between threads of this process or, started by mpirun, between processes.
 * usage: comm [RANKS]              a line a size: bytes, microseconds (best of several rounds), GB/s
 *        comm RANKS beside MS      16 MiB beside so many ms of computing: ms until both are done (best of several
 * rounds), and how much of the shorter one the other hides */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/comm/comm.h"
#include "weft/processes.h"

enum { MOST_RANKS = 16, NROUNDS = 5 };

static const size_t sizes[] = {64, 4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20};

typedef struct member {
    comm_ring *ring;
    bool speaks;
    pthread_t thread;
} member;

static void must(weft_status status) {
    if (!status) return;
    fprintf(stderr, "comm: %s\n", weft_status_message(status));
    exit(1);
}

static double time_once(comm_ring *ring, const comm_request *q, int ncalls) {
    must(comm_run(ring, &(comm_request){.kind = COMM_BARRIER}));
    int64_t start = wait_clock_ns();
    for (int i = 0; i < ncalls; i++) must(comm_run(ring, q));
    return (double)(wait_clock_ns() - start) * 1e-3 / ncalls;
}

static void *measure(void *arg) {
    const member *m = arg;
    float *x = aligned_alloc(64, sizes[6]);
    memset(x, 0, sizes[6]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        comm_request q = {
            .kind = COMM_ALL_REDUCE, .dtype = WEFT_FP32, .count = (int64_t)(sizes[i] / 4), .src = x, .dst = x};
        int ncalls = sizes[i] < 1 << 20 ? 200 : 8;
        double best = 1e30;
        for (int round = 0; round < NROUNDS; round++) {
            double us = time_once(m->ring, &q, ncalls);
            if (us < best) best = us;
        }
        if (m->speaks) printf("%9zu bytes %10.1f us %7.2f GB/s\n", sizes[i], best, (double)sizes[i] * 1e-3 / best);
    }
    free(x);
    return NULL;
}

/* Computes for so long, by the clock. */
static void *compute(void *arg) {
    int64_t end = wait_clock_ns() + (int64_t)(*(const double *)arg * 1e6);
    volatile double x = 1;
    while (wait_clock_ns() < end)
        for (int i = 0; i < 1000; i++) x = x * 1.0000001 + 1e-9;
    return NULL;
}

static double beside_ms;

static void *measure_beside(void *arg) {
    const member *m = arg;
    size_t nbytes = (size_t)16 << 20;
    float *x = aligned_alloc(64, nbytes);
    memset(x, 0, nbytes);
    comm_request q = {.kind = COMM_ALL_REDUCE, .dtype = WEFT_FP32, .count = (int64_t)(nbytes / 4), .src = x, .dst = x};
    double best = 1e30, alone = 1e30;
    for (int round = 0; round < 2 * NROUNDS; round++) {
        pthread_t thread;
        bool computes = round % 2;
        must(comm_run(m->ring, &(comm_request){.kind = COMM_BARRIER}));
        int64_t start = wait_clock_ns();
        if (computes) pthread_create(&thread, NULL, compute, &beside_ms);
        must(comm_run(m->ring, &q));
        if (computes) pthread_join(thread, NULL);
        double ms = (double)(wait_clock_ns() - start) * 1e-6, *of = computes ? &best : &alone;
        if (ms < *of) *of = ms;
    }
    double hidden = (alone + beside_ms - best) / (alone < beside_ms ? alone : beside_ms);
    if (m->speaks)
        printf("Weft, 16 MiB: %.1f ms; beside %.0f ms of computing: %.1f ms, %.0f%% hidden\n", alone, beside_ms, best,
               100 * hidden);
    free(x);
    return NULL;
}

int main(int argc, char **argv) {
    weft_allocator libc = base_libc_allocator();
    weft_context *context;
    weft_processes *processes = NULL;
    comm_world *world;
    int64_t ranks[MOST_RANKS];
    member members[MOST_RANKS];
    must(weft_context_create(NULL, &context));
    bool launched = weft_processes_launched();
    if (launched) must(weft_processes_join(context, &processes));
    int nranks = argc > 1 ? atoi(argv[1]) : launched ? weft_processes_count(processes) : 2;
    bool is_beside = argc == 4 && strcmp(argv[2], "beside") == 0;
    if (is_beside) beside_ms = atof(argv[3]);
    if (nranks < 1 || nranks > MOST_RANKS) return 2;
    comm_host threads = comm_local_host(nranks);
    const comm_host *host = &threads;
    if (launched) must(weft_processes_host(processes, nranks, &host));
    must(comm_world_create(&libc, host, &world));
    for (int r = 0; r < nranks; r++) ranks[r] = r;
    for (int i = 0; i < host->nlocal; i++) {
        members[i].speaks = host->first_rank + i == 0;
        must(comm_ring_get(world, 0, nranks, ranks, host->first_rank + i, &members[i].ring));
    }
    for (int i = 0; i < host->nlocal; i++)
        pthread_create(&members[i].thread, NULL, is_beside ? measure_beside : measure, &members[i]);
    for (int i = 0; i < host->nlocal; i++) pthread_join(members[i].thread, NULL);
    comm_world_destroy(world);
    fflush(stdout);
    weft_processes_leave(processes, 0, 60);
    weft_context_destroy(context);
    return 0;
}
