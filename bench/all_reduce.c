/* all_reduce.c: an all_reduce between processes, as Weft does it, by MPI_Allreduce itself, and with --collectives
 * library: in turns, so that all three have the same machine. usage: mpirun -n P all_reduce [NBYTES...]       a line a
 * size: the median of each, GB/s, and of the ratios to MPI's; what process 0 took of processors, waits that spin
 * included */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "executor/comm/comm.h"
#include "weft/processes.h"

enum { NROUNDS = 21, NWAYS = 3, MPI_WAY = 1 };
static const char *const ways[NWAYS] = {"Weft", "MPI_Allreduce", "library"};

static void must(weft_status status) {
    if (!status) return;
    fprintf(stderr, "all_reduce: %s\n", weft_status_message(status));
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

static double time_once(int way, comm_ring *const *rings, float *x, size_t nbytes, int ncalls, double *out_cpu) {
    comm_request q = {.kind = COMM_ALL_REDUCE, .dtype = WEFT_FP32, .count = (int64_t)(nbytes / 4), .src = x, .dst = x};
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), cpu = cpu_seconds();
    for (int i = 0; i < ncalls; i++) {
        if (way == MPI_WAY)
            MPI_Allreduce(MPI_IN_PLACE, x, (int)(nbytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else
            must(comm_run(rings[way], &q));
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

static void measure(comm_ring *const *rings, size_t nbytes, bool speaks) {
    static double seconds[NWAYS][NROUNDS], ratio[NWAYS][NROUNDS], cpu[NWAYS][NROUNDS];
    float *x = aligned_alloc(64, (nbytes + 63) / 64 * 64);
    int ncalls = nbytes < (1 << 20) ? 100 : 2;
    memset(x, 0, nbytes);
    for (int round = -2; round < NROUNDS; round++) {
        double took[NWAYS], used[NWAYS];
        for (int way = 0; way < NWAYS; way++) took[way] = time_once(way, rings, x, nbytes, ncalls, &used[way]);
        for (int way = 0; way < NWAYS && round >= 0; way++) {
            seconds[way][round] = took[way];
            cpu[way][round] = used[way];
            ratio[way][round] = took[MPI_WAY] / took[way];
        }
    }
    if (speaks) printf("%9zu bytes", nbytes);
    for (int way = 0; way < NWAYS && speaks; way++) {
        double s = median(seconds[way]);
        printf("   %s %.3f ms, %.2f GB/s (%.2f), cpu %.3f ms", ways[way], 1e3 * s, 1e-9 * (double)nbytes / s,
               median(ratio[way]), 1e3 * median(cpu[way]));
    }
    if (speaks) putchar('\n');
    free(x);
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
    for (int i = 1; i < argc; i++) measure(rings, (size_t)strtoull(argv[i], NULL, 10), host->first_rank == 0);
    if (argc == 1) measure(rings, (size_t)16 << 20, host->first_rank == 0);
    for (int i = 0; i < 2; i++) comm_world_destroy(worlds[i]);
    fflush(stdout);
    weft_processes_leave(processes, 0, 60);
    weft_context_destroy(context);
    return 0;
}
