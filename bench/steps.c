/* steps.c: the time of training steps of a serialized program, on command, so that runs can alternate with those of
 * other frameworks.
 *
 * usage: steps PROGRAM PARAMS.npz FEED.npz LOSS [THREADS [RANKS [profile]]]      default 1 1
 * Reads a number of steps from each line of stdin. For each it puts the parameters back, runs so many steps and prints
 * a line of JSON: {"seconds": [...], "cpu": [...], "losses": [...]}, a number a step; cpu is what all threads of the
 * process took, a loss the mean over ranks. A step is what a user waits for: feeds are copied in, the ranks run, the
 * loss is read. Starting and planning do not count. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft/trainer.h"

typedef struct bench {
    weft_context *context;
    weft_program *program;
    weft_tensors *params, *feed;
    weft_trainer *trainer;
} bench;

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status open_bench(bench *b, char **argv, int nthreads, int nranks, bool profile) {
    weft_status status = weft_context_create(NULL, &b->context);
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
        .executor = &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = nthreads, .profile = profile},
    };
    return weft_trainer_create(b->context, &options, &b->trainer);
}

static void close_bench(bench *b) {
    weft_trainer_destroy(b->trainer);
    weft_tensors_destroy(b->feed);
    weft_tensors_destroy(b->params);
    weft_program_destroy(b->program);
    weft_context_destroy(b->context);
}

/* Every rank's parameters and optimizer state as they were at the start. */
static weft_status restore(bench *b) {
    weft_executor *executor = weft_trainer_executor(b->trainer);
    weft_status status = NULL;
    for (size_t i = 0; !status && i < weft_tensors_count(b->params); i++) {
        const weft_tensor *param = weft_tensors_at(b->params, i);
        for (int rank = 0; !status && rank < weft_trainer_nranks(b->trainer); rank++) {
            weft_tensor held;
            status = weft_executor_get(executor, rank, param->name, &held);
            if (!status && held.data) status = weft_executor_set(executor, rank, param->name, param);
        }
    }
    return status;
}

static double mean_loss(const bench *b) {
    double sum = 0, value;
    int count = 0;
    for (int rank = 0; rank < weft_trainer_nranks(b->trainer); rank++)
        if (weft_trainer_fetch_scalar(b->trainer, rank, 0, &value)) sum += value, count++;
    return count ? sum / count : 0;
}

static void print_row(const char *head, const double *values, size_t count, const char *tail) {
    printf("%s[", head);
    for (size_t i = 0; i < count; i++) printf("%s%.9g", i ? ", " : "", values[i]);
    printf("]%s", tail);
}

static weft_status run(bench *b, size_t nsteps) {
    double *seconds = calloc(3 * nsteps, sizeof *seconds), *cpu = seconds + nsteps, *losses = cpu + nsteps;
    weft_status status = seconds ? restore(b) : weft_status_create(WEFT_OUT_OF_MEMORY, NULL, "%zu steps", nsteps);
    for (size_t i = 0; !status && i < nsteps; i++) {
        double cpu_start = now(CLOCK_PROCESS_CPUTIME_ID), start = now(CLOCK_MONOTONIC);
        status = weft_trainer_step(b->trainer, 0);
        losses[i] = status ? 0 : mean_loss(b);
        seconds[i] = now(CLOCK_MONOTONIC) - start;
        cpu[i] = now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    }
    if (!status) {
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
    bool profile = argc > 7 && strcmp(argv[7], "profile") == 0;
    weft_status status = open_bench(&b, argv, argc > 5 ? atoi(argv[5]) : 1, argc > 6 ? atoi(argv[6]) : 1, profile);
    while (!status && fgets(line, sizeof line, stdin)) {
        size_t nsteps = strtoumax(line, NULL, 10);
        if (nsteps) status = run(&b, nsteps);
    }
    if (status) fprintf(stderr, "steps: %s: %s\n", weft_status_place(status), weft_status_message(status));
    int result = status != NULL;
    weft_status_free(status);
    close_bench(&b);
    return result;
}
