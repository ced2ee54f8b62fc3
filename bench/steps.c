/* steps.c: the time of training steps of a serialized program, on command, so that runs can alternate with those of
 * other frameworks.
 *
 * usage: steps PROGRAM PARAMS.npz FEED.npz LOSS [THREADS [RANKS [profile]]]      default 1 1
 * Reads a number of steps from each line of stdin. For each it puts the parameters back, runs so many steps and prints
 * a line of JSON: {"seconds": [...], "cpu": [...], "losses": [...]}, a number a step; cpu is what all threads of the
 * process took, a loss the mean over ranks. A step is what a user waits for: feeds are copied in, the ranks run, the
 * loss is read. Starting and planning do not count. Started by mpirun, ranks are in its processes: process 0 reads
 * stdin, and prints its own times. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "train/gather.h"
#include "weft/processes.h"

enum { MOST_RANKS = 64 };

typedef struct bench {
    weft_context *context;
    weft_program *program;
    weft_tensors *params, *feed;
    weft_trainer *trainer;
    weft_processes *processes; /* NULL: this one has all ranks */
    const struct comm_host *host;
    int nranks;
    bool speaks;
} bench;

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status join(bench *b) {
    b->speaks = true;
    if (!weft_processes_launched()) return NULL;
    weft_status status = weft_processes_join(b->context, &b->processes);
    if (!status) status = weft_processes_host(b->processes, b->nranks, &b->host);
    b->speaks = !status && weft_processes_index(b->processes) == 0;
    return status;
}

static weft_status open_bench(bench *b, char **argv, int nthreads, int nranks, bool profile) {
    b->nranks = nranks;
    weft_status status = weft_context_create(NULL, &b->context);
    if (!status) status = join(b);
    if (!status) status = weft_program_load(b->context, argv[1], NULL, &b->program);
    if (!status) status = weft_tensors_load(b->context, argv[2], b->program, &b->params);
    if (!status) status = weft_tensors_load(b->context, argv[3], b->program, &b->feed);
    if (status) return status;
    const weft_program *programs[] = {b->program};
    const weft_tensors *feeds[] = {b->feed};
    const char *fetches[] = {argv[4]};
    weft_trainer_options options = {
        WEFT_TRAINER_OPTIONS_INIT,
        .programs = programs,
        .nprograms = 1,
        .nranks = nranks,
        .params = b->params,
        .params_place = argv[2],
        .feeds = feeds,
        .fetches = fetches,
        .nfetches = 1,
        .executor = &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = nthreads, .profile = profile,
                                             .host = b->host,
                                             .watchdog_seconds =
                                                 b->host ? 600 : 0 /* others wait while process 0 reads stdin */},
    };
    return weft_trainer_create(b->context, &options, &b->trainer);
}

static void close_bench(bench *b, int result) {
    weft_trainer_destroy(b->trainer);
    weft_tensors_destroy(b->feed);
    weft_tensors_destroy(b->params);
    weft_program_destroy(b->program);
    weft_processes_leave(b->processes, result, result ? 1 : 60);
    weft_context_destroy(b->context);
}

/* Parameters and optimizer state as they were at the start; ranks whose updates are cut take their parts. */
static weft_status restore(bench *b) {
    weft_executor *executor = weft_trainer_executor(b->trainer);
    weft_status status = NULL;
    for (size_t i = 0; !status && i < weft_tensors_count(b->params); i++) {
        const weft_tensor *param = weft_tensors_at(b->params, i);
        bool held = false;
        for (int rank = 0; !status && !held && rank < weft_trainer_nranks(b->trainer); rank++) {
            weft_tensor value;
            if (!weft_trainer_has_rank(b->trainer, rank)) continue;
            status = weft_executor_get(executor, rank, param->name, &value);
            held = !status && value.data;
        }
        if (!status && held) status = weft_trainer_set(b->trainer, param->name, param);
    }
    return status;
}

/* Reads the loss of the ranks here, as whoever trains does. */
static void read_loss(const bench *b) {
    double value;
    for (int rank = 0; rank < b->nranks; rank++)
        if (weft_trainer_has_rank(b->trainer, rank)) (void)weft_trainer_fetch_scalar(b->trainer, rank, 0, &value);
}

static weft_status mean_loss(const bench *b, weft_scalar *room, double *out) {
    double sum = 0;
    int count = 0;
    weft_status status = weft_trainer_fetch_scalars(b->trainer, room);
    for (int rank = 0; !status && rank < b->nranks; rank++)
        if (room[rank].is_there) sum += room[rank].value, count++;
    *out = count ? sum / count : 0;
    return status;
}

/* What process 0 says, to all. */
static weft_status tell_all(const bench *b, size_t *nsteps) {
    size_t mine[MOST_RANKS], all[MOST_RANKS];
    if (!b->processes) return NULL;
    for (int i = 0; i < b->nranks; i++) mine[i] = *nsteps;
    weft_status status = gather_each(b->trainer, mine, sizeof *mine, all);
    if (!status) *nsteps = all[0];
    return status;
}

static void print_row(const char *head, const double *values, size_t count, const char *tail) {
    printf("%s[", head);
    for (size_t i = 0; i < count; i++) printf("%s%.9g", i ? ", " : "", values[i]);
    printf("]%s", tail);
}

static weft_status run(bench *b, size_t nsteps) {
    double *seconds = calloc(3 * nsteps, sizeof *seconds), *cpu = seconds + nsteps, *losses = cpu + nsteps;
    weft_scalar scalars[MOST_RANKS];
    weft_status status = seconds ? restore(b) : weft_status_create(WEFT_OUT_OF_MEMORY, NULL, "%zu steps", nsteps);
    for (size_t i = 0; !status && i < nsteps; i++) {
        double cpu_start = now(CLOCK_PROCESS_CPUTIME_ID), start = now(CLOCK_MONOTONIC);
        status = weft_trainer_step(b->trainer, 0);
        if (!status) read_loss(b);
        seconds[i] = now(CLOCK_MONOTONIC) - start;
        cpu[i] = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
        if (!status) status = mean_loss(b, scalars, &losses[i]);
    }
    if (!status && b->speaks) {
        print_row("{\"seconds\": ", seconds, nsteps, ", ");
        print_row("\"cpu\": ", cpu, nsteps, ", ");
        print_row("\"losses\": ", losses, nsteps, "}\n");
        fflush(stdout);
    }
    free(seconds);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fputs("usage: steps PROGRAM PARAMS.npz FEED.npz LOSS [THREADS [RANKS [profile]]]\n", stderr);
        return 2;
    }
    bench b = {0};
    char line[32];
    int nranks = argc > 6 ? atoi(argv[6]) : 1;
    if (nranks < 1 || nranks > MOST_RANKS) return 2;
    bool profile = argc > 7 && strcmp(argv[7], "profile") == 0;
    weft_status status = open_bench(&b, argv, argc > 5 ? atoi(argv[5]) : 1, nranks, profile);
    for (size_t nsteps = 1; !status && nsteps;) {
        nsteps = b.speaks && fgets(line, sizeof line, stdin) ? strtoumax(line, NULL, 10) : 0;
        status = tell_all(&b, &nsteps);
        if (!status && nsteps) status = run(&b, nsteps);
    }
    if (status) fprintf(stderr, "steps: %s: %s\n", weft_status_place(status), weft_status_message(status));
    int result = status != NULL;
    weft_status_free(status);
    close_bench(&b, result);
    return result;
}
