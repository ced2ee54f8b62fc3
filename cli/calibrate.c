/* calibrate.c: weft calibrate: measures this machine and writes what it found as a cluster file. */
#include <stdlib.h>
#include <string.h>

#include "cli/launch.h"
#include "weft/calibrate.h"

static const cli_option options[] = {
    {"--output", 'o', "FILE.yaml", "where to write the cluster file; default: stdout"},
    {"--ranks", 0, "N", "ranks, threads of this process; default: what the program's rings say, else 2"},
    LAUNCH_OPTIONS,
    {"--threads", 0, "T", "threads that each op of a rank may use; default 1"},
    {"--most-bytes", 0, "N", "the largest collective; default 16777216"},
    {"--steps", 0, "S", "steps of which each number is the median; default 15"},
    {"--dist", 0, "FILE", "the sidecar, if it is not where its name says"},
};

/* A calibration; where a launcher has started several processes, of all of them. */
typedef struct session {
    const cli_args *args;
    weft_calibrate_options options;
    weft_program *program;
    weft_processes *processes; /* NULL: this one has all ranks */
    bool speaks;               /* for all */
} session;

static weft_status load(session *s) {
    const cli_args *args = s->args;
    if (!args->npositional) return NULL;
    weft_status status = weft_program_load(args->context, args->positional[0], cli_value(args, "--dist"), &s->program);
    if (!status && !cli_given(args, "--ranks") && weft_program_nranks(s->program) > 0)
        s->options.nranks = (int)weft_program_nranks(s->program);
    s->options.program = s->program;
    return status;
}

static weft_status join_processes(session *s) {
    const char *how = cli_value(s->args, "--collectives");
    s->speaks = true;
    if (!weft_processes_launched()) return NULL;
    weft_status status = weft_processes_join(s->args->context, &s->processes);
    if (status) return status;
    s->speaks = weft_processes_index(s->processes) == 0;
    weft_processes_set_collectives(s->processes, how && strcmp(how, "library") == 0 ? WEFT_COLLECTIVES_LIBRARY
                                                                                    : WEFT_COLLECTIVES_ORDERED);
    return weft_processes_host(s->processes, s->options.nranks, &s->options.host);
}

static weft_status calibrate(session *s) {
    const cli_args *args = s->args;
    weft_cluster cluster;
    char *bytes;
    size_t nbytes;
    const char *path = cli_value(args, "--output");
    weft_status status = join_processes(s);
    if (!status) status = weft_calibrate(args->context, &s->options, &cluster);
    if (status || !s->speaks) return status;
    status = weft_cluster_print(args->context, &cluster, &bytes, &nbytes);
    return status ? status : cli_write_taken(args, path ? path : "-", bytes, nbytes);
}

/* With threads alone there is nothing of MPI's. */
static bool collectives_are_good(const cli_args *args) {
    const char *how = cli_value(args, "--collectives");
    if (!how || strcmp(how, "ordered") == 0 || strcmp(how, "library") == 0) return true;
    return cli_usage_error(args->command, "--collectives: expected ordered or library, found \"%s\"", how), false;
}

static int run(cli_args *args) {
    long long nranks = 2, nthreads = 1, most_nbytes = 16 << 20, nsteps = 15;
    int nprocesses = 0;
    if (launch_is_elsewhere()) return EXIT_DONE;
    if (!cli_int(args, "--ranks", 1, 1024, &nranks) || !cli_int(args, "--threads", 1, 1024, &nthreads) ||
        !cli_int(args, "--most-bytes", 4096, 1LL << 32, &most_nbytes) ||
        !cli_int(args, "--steps", 1, 100000, &nsteps) || !collectives_are_good(args))
        return EXIT_USAGE;
    session s = {.args = args,
                 .options = {WEFT_CALIBRATE_OPTIONS_INIT, .nranks = (int)nranks, .nthreads = (int)nthreads,
                             .most_nbytes = (size_t)most_nbytes, .nsteps = (int)nsteps}};
    weft_status status = load(&s);
    bool launches = !status && launch_wanted(args, s.options.nranks, &nprocesses);
    if (!status && !launches && nprocesses == 0) status = calibrate(&s);
    weft_program_destroy(s.program);
    if (launches) return launch(args, nprocesses);
    if (nprocesses < 0) return EXIT_USAGE;
    bool has_failed = status;
    int result = status ? cli_fail(args, status) : EXIT_DONE;
    fflush(stdout);
    weft_processes_leave(s.processes, result, has_failed ? 1 : 60);
    return result;
}

const cli_command command_calibrate = {
    .name = "calibrate",
    .arguments = "[PROGRAM] [--ranks N] [-o FILE.yaml]",
    .summary =
        "Measures this machine, and writes a cluster file that plan --costs, simulate and coalesce_grads read.\n"
        "Ranks are threads, or with --launch processes on one host or several. The file has what a rank computes\n"
        "(matrix products of the program's shapes), what collectives take by their bytes, and how much compute and a\n"
        "collective slow one another down: medians.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .max_positional = 1,
    .example = "weft calibrate dp.pdmodel --ranks 2 -o cluster.yaml",
    .run = run,
};
