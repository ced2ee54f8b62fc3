/* run_null.c: weft run --device null: its options, and what it tells: where each rank's time went, and races. */
#include <stdlib.h>
#include <string.h>

#include "cli/run.h"

enum { SHOWN_RANKS = 8 };

/* "OP[:RANK]" */
static bool parse_fault(const char *given, weft_fault *out) {
    long long op;
    int rank = -1, end = 0;
    if (sscanf(given, "%lld%n", &op, &end) != 1 || op < 0) return false;
    if (given[end]) {
        given += end;
        if (sscanf(given, ":%d%n", &rank, &end) != 1 || rank < 0 || given[end]) return false;
    }
    *out = (weft_fault){rank, op};
    return true;
}

static bool read_faults(null_run *n, const cli_args *args) {
    n->options.faults = n->faults = calloc(args->ngiven + 1, sizeof *n->faults);
    for (size_t i = 0; n->faults && i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--fault") != 0) continue;
        if (parse_fault(args->values[i], &n->faults[n->options.nfaults++])) continue;
        cli_usage_error(args->command, "--fault: expected OP or OP:RANK, found \"%s\"", args->values[i]);
        return false;
    }
    return n->faults != NULL;
}

static const char *const of_null[] = {"--fault",      "--rate-flops",   "--rate-bytes",     "--op-time",
                                      "--link-bytes", "--link-latency", "--steps-in-flight"};
static const char *const not_of_null[] = {"--save", "--expect", "--profile"};

/* The first of the options that was given; NULL: none. */
static const char *any_given(const cli_args *args, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (cli_given(args, names[i])) return names[i];
    return NULL;
}

static bool check_device(null_run *n, const cli_args *args) {
    const char *device = cli_value(args, "--device"), *wrong;
    n->is_given = device && strcmp(device, "null") == 0;
    if (device && !n->is_given && strcmp(device, "cpu") != 0)
        return cli_usage_error(args->command, "--device: expected cpu or null, found \"%s\"", device), false;
    if (!n->is_given && (wrong = any_given(args, of_null, sizeof of_null / sizeof *of_null)))
        return cli_usage_error(args->command, "%s: expected --device null", wrong), false;
    if (n->is_given && (wrong = any_given(args, not_of_null, sizeof not_of_null / sizeof *not_of_null)))
        return cli_usage_error(args->command, "%s: the null device computes nothing", wrong), false;
    return true;
}

bool null_run_init(null_run *n, const cli_args *args) {
    weft_rates *r = &n->options.rates;
    double op_us = 0, link_us = 0;
    *n = (null_run){0};
    if (!check_device(n, args) || !read_faults(n, args)) return false;
    if (!cli_double(args, "--rate-flops", &r->flops) || !cli_double(args, "--rate-bytes", &r->bytes) ||
        !cli_double(args, "--link-bytes", &r->link_bytes) || !cli_double(args, "--op-time", &op_us) ||
        !cli_double(args, "--link-latency", &link_us))
        return false;
    long long nsteps = 1;
    if (!cli_int(args, "--steps-in-flight", 1, 64, &nsteps)) return false;
    n->nsteps = (size_t)nsteps;
    r->op_seconds = op_us * 1e-6;
    r->link_seconds = link_us * 1e-6;
    return true;
}

void null_run_fini(null_run *n) {
    free(n->faults);
    free(n->nops);
}

weft_status null_run_repeat(null_run *n, weft_program *const *programs, size_t nprograms) {
    if (n->nsteps < 2) return NULL;
    n->nprograms = nprograms;
    if (!(n->nops = calloc(nprograms, sizeof *n->nops))) return cli_no_memory();
    weft_status status = NULL;
    for (size_t i = 0; !status && i < nprograms; i++) {
        n->nops[i] = weft_block_nops(weft_program_block(programs[i], 0));
        status = weft_program_repeat(programs[i], n->nsteps);
    }
    return status;
}

static void print_rank(const char *whose, const weft_rank_times *t) {
    fprintf(stderr,
            "summary: %s: compute %.3f ms, collectives %.3f ms, of which %.3f hidden behind compute and %.3f "
            "exposed\n",
            whose, 1e3 * t->compute_seconds, 1e3 * t->collective_seconds,
            1e3 * (t->collective_seconds - t->exposed_seconds), 1e3 * t->exposed_seconds);
}

/* Of the last step: all ranks where they are few, else the first and the one that is exposed most. */
static weft_status print_ranks(const weft_executor *executor, int nranks) {
    weft_rank_times worst = {.exposed_seconds = -1};
    int worst_rank = 0;
    char whose[64];
    for (int r = 0; r < nranks; r++) {
        weft_rank_times t;
        weft_status status = weft_executor_rank_times(executor, r, &t);
        if (status) return status;
        snprintf(whose, sizeof whose, "rank %d", r);
        if (nranks <= SHOWN_RANKS || r == 0) print_rank(whose, &t);
        if (t.exposed_seconds > worst.exposed_seconds) worst = t, worst_rank = r;
    }
    snprintf(whose, sizeof whose, "rank %d, the most exposed of %d", worst_rank, nranks);
    if (nranks > SHOWN_RANKS) print_rank(whose, &worst);
    return NULL;
}

/* Which of the steps in flight an op is of, and its number there. */
static void print_access(const null_run *n, int rank, const weft_seen_access *a) {
    long long nops = n->nops ? (long long)n->nops[n->nprograms > 1 ? (size_t)rank : 0] : 0, index = a->op_index;
    printf("%s #%lld", a->type, nops ? index % nops : index);
    if (nops) printf(" (step %lld of those in flight)", index / nops);
    printf(" on %s %s \"%s\" from %.6f to %.6f ms", a->stream, a->is_write ? "writes" : "reads", a->value,
           1e3 * a->start_seconds, 1e3 * a->end_seconds);
}

static void print_race(const null_run *n, const weft_seen_race *race) {
    printf("race: ");
    print_access(n, race->rank, &race->first);
    printf(", and after it in the program ");
    print_access(n, race->rank, &race->second);
    printf(" (rank %d", race->rank);
    if (race->count > 1) printf(" and %zu more", race->count - 1);
    printf(", step %llu)\n", (unsigned long long)race->step);
}

void null_run_print_races(null_run *n, const weft_executor *executor, size_t step) {
    for (size_t i = 0; i < weft_executor_nraces(executor); i++) {
        weft_seen_race race;
        weft_executor_race_at(executor, i, &race);
        if (race.step != step) continue;
        print_race(n, &race);
        n->nraces++;
    }
}

weft_status null_run_report(const null_run *n, const weft_trainer *trainer) {
    weft_status status = print_ranks(weft_trainer_executor(trainer), weft_trainer_nranks(trainer));
    if (status) return status;
    fprintf(stderr, "summary: null device: nothing was computed, times are those of a model; %zu race%s seen\n",
            n->nraces, n->nraces == 1 ? "" : "s");
    return NULL;
}
