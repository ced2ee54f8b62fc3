/* collectives.c: collectives between processes, as Weft does them, by MPI's own function, and with --collectives
 * library: in turns, so that all have the same machine.
 *
 * usage: mpirun -n P collectives [KIND] [NBYTES...]   default all_reduce 16777216
 * A line a size: the median of each, GB/s, and of the ratios to MPI's; what process 0 took of processors, waits that
 * spin included. NBYTES are those of the larger of a process's two buffers. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "executor/comm/comm.h"
#include "weft/processes.h"

enum { NROUNDS = 21, NWAYS = 3, MPI_WAY = 1 };
static const char *const ways[NWAYS] = {"Weft", "MPI", "library"};
static const comm_kind kinds[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER, COMM_BROADCAST,
                                  COMM_ALL_TO_ALL};

static void must(weft_status status) {
    if (!status) return;
    fprintf(stderr, "collectives: %s\n", weft_status_message(status));
    exit(1);
}

static comm_ring *open_ring(const weft_allocator *allocator, const comm_host *given, bool by_library, int nranks,
                            comm_world **out_world) {
    comm_host host = *given;
    comm_ring *ring;
    int64_t ranks[1024];
    host.by_library = by_library;
    for (int r = 0; r < nranks; r++) ranks[r] = r;
    must(comm_world_create(allocator, &host, out_world));
    must(comm_ring_get(*out_world, 0, nranks, ranks, host.first_rank, &ring));
    must(comm_world_connect(*out_world));
    return ring;
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What MPI is asked for in place of a request. */
static void run_mpi(const comm_request *q) {
    int n = (int)q->count;
    void *x = (void *)(uintptr_t)q->src;
    switch (q->kind) {
    case COMM_ALL_GATHER: MPI_Allgather(x, n, MPI_FLOAT, q->dst, n, MPI_FLOAT, MPI_COMM_WORLD); break;
    case COMM_REDUCE_SCATTER: MPI_Reduce_scatter_block(x, q->dst, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case COMM_BROADCAST: MPI_Bcast(q->dst, n, MPI_FLOAT, 0, MPI_COMM_WORLD); break;
    case COMM_ALL_TO_ALL: MPI_Alltoall(x, n, MPI_FLOAT, q->dst, n, MPI_FLOAT, MPI_COMM_WORLD); break;
    default: MPI_Allreduce(MPI_IN_PLACE, q->dst, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    }
}

static double time_once(int way, comm_ring *const *rings, const comm_request *q, int ncalls, double *out_cpu) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), cpu = cpu_seconds();
    for (int i = 0; i < ncalls; i++) {
        if (way == MPI_WAY)
            run_mpi(q);
        else
            must(comm_run(rings[way], q));
    }
    *out_cpu = (cpu_seconds() - cpu) / ncalls;
    return (MPI_Wtime() - start) / ncalls;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, NROUNDS, sizeof *values, by_size);
    return values[NROUNDS / 2];
}

static void measure(comm_kind kind, comm_ring *const *rings, size_t nbytes, bool speaks) {
    static double seconds[NWAYS][NROUNDS], ratio[NWAYS][NROUNDS], cpu[NWAYS][NROUNDS];
    size_t room = (nbytes + 63) / 64 * 64;
    float *x = aligned_alloc(64, room), *y = aligned_alloc(64, room);
    int ncalls = nbytes < (1 << 20) ? 100 : 2;
    bool is_moved_apart = comm_kinds[kind].src != comm_kinds[kind].dst || kind == COMM_ALL_TO_ALL;
    int64_t parts = is_moved_apart ? rings[0]->nranks : 1;
    comm_request q = {.kind = kind,
                      .dtype = WEFT_FP32,
                      .count = (int64_t)(nbytes / 4) / parts,
                      .src = x,
                      .dst = is_moved_apart ? y : x,
                      .op = "bench"};
    memset(x, 0, room);
    memset(y, 0, room);
    for (int round = -2; round < NROUNDS; round++) {
        double took[NWAYS], used[NWAYS];
        for (int way = 0; way < NWAYS; way++) took[way] = time_once(way, rings, &q, ncalls, &used[way]);
        for (int way = 0; way < NWAYS && round >= 0; way++) {
            seconds[way][round] = took[way];
            cpu[way][round] = used[way];
            ratio[way][round] = took[MPI_WAY] / took[way];
        }
    }
    if (speaks) printf("%s, %9zu bytes", comm_kind_name(kind), nbytes);
    for (int way = 0; way < NWAYS && speaks; way++) {
        double s = median(seconds[way]);
        printf("   %s %.3f ms, %.2f GB/s (%.2f), cpu %.3f ms", ways[way], 1e3 * s, 1e-9 * (double)nbytes / s,
               median(ratio[way]), 1e3 * median(cpu[way]));
    }
    if (speaks) putchar('\n');
    free(x);
    free(y);
}

/* The kind that is named, else all_reduce. */
static comm_kind find_kind(const char *given) {
    for (size_t k = 0; given && k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(given, comm_kind_name(kinds[k])) == 0) return kinds[k];
    return COMM_BARRIER;
}

int main(int argc, char **argv) {
    const weft_allocator libc = base_libc_allocator();
    weft_context *context;
    weft_processes *processes;
    const comm_host *host;
    comm_world *worlds[2];
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    must(weft_context_create(NULL, &context));
    must(weft_processes_join(context, &processes));
    int nranks = weft_processes_count(processes);
    must(weft_processes_host(processes, nranks, &host));
    comm_ring *rings[NWAYS] = {open_ring(&libc, host, false, nranks, &worlds[0]), NULL,
                               open_ring(&libc, host, true, nranks, &worlds[1])};
    comm_kind kind = find_kind(argc > 1 ? argv[1] : NULL);
    int first = kind == COMM_BARRIER ? 1 : 2;
    if (kind == COMM_BARRIER) kind = COMM_ALL_REDUCE;
    for (int i = first; i < argc; i++) measure(kind, rings, (size_t)strtoull(argv[i], NULL, 10), host->first_rank == 0);
    if (first == argc) measure(kind, rings, (size_t)16 << 20, host->first_rank == 0);
    for (int i = 0; i < 2; i++) comm_world_destroy(worlds[i]);
    fflush(stdout);
    weft_processes_leave(processes, 0, 60);
    weft_context_destroy(context);
    return 0;
}
