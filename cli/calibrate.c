/* calibrate.c: weft calibrate: measures this machine and writes what it found as a cluster file. */
#include <stdlib.h>

#include "cli/cli.h"
#include "weft/calibrate.h"

static const cli_option options[] = {
    {"--output", 'o', "FILE.yaml", "where to write the cluster file; default: stdout"},
    {"--ranks", 0, "N", "ranks, threads of this process; default: what the program's rings say, else 2"},
    {"--threads", 0, "T", "threads that each op of a rank may use; default 1"},
    {"--most-bytes", 0, "N", "the largest collective; default 16777216"},
    {"--steps", 0, "S", "steps of which each number is the median; default 15"},
    {"--dist", 0, "FILE", "the sidecar, if it is not where its name says"},
};

static weft_status calibrate(const cli_args *args, weft_calibrate_options *o, bool has_ranks) {
    weft_program *program = NULL;
    weft_cluster cluster;
    char *bytes;
    size_t nbytes;
    const char *path = cli_value(args, "--output");
    weft_status status = NULL;
    if (args->npositional)
        status = weft_program_load(args->context, args->positional[0], cli_value(args, "--dist"), &program);
    if (!status && program && !has_ranks && weft_program_nranks(program) > 0)
        o->nranks = (int)weft_program_nranks(program);
    o->program = program;
    if (!status) status = weft_calibrate(args->context, o, &cluster);
    if (!status) status = weft_cluster_print(args->context, &cluster, &bytes, &nbytes);
    if (!status) status = cli_write_taken(args, path ? path : "-", bytes, nbytes);
    weft_program_destroy(program);
    return status;
}

static int run(cli_args *args) {
    long long nranks = 2, nthreads = 1, most_nbytes = 16 << 20, nsteps = 15;
    if (!cli_int(args, "--ranks", 1, 1024, &nranks) || !cli_int(args, "--threads", 1, 1024, &nthreads) ||
        !cli_int(args, "--most-bytes", 4096, 1LL << 32, &most_nbytes) || !cli_int(args, "--steps", 1, 100000, &nsteps))
        return EXIT_USAGE;
    weft_calibrate_options o = {WEFT_CALIBRATE_OPTIONS_INIT, .nranks = (int)nranks, .nthreads = (int)nthreads,
                                .most_nbytes = (size_t)most_nbytes, .nsteps = (int)nsteps};
    weft_status status = calibrate(args, &o, cli_given(args, "--ranks"));
    return status ? cli_fail(args, status) : EXIT_DONE;
}

const cli_command command_calibrate = {
    .name = "calibrate",
    .arguments = "[PROGRAM] [--ranks N] [-o FILE.yaml]",
    .summary =
        "Measures this machine with ranks that are threads, and writes a cluster file that weft plan --costs,\n"
        "weft simulate and coalesce_grads read: what a rank computes (matrix products of the program's shapes), what\n"
        "collectives take by their bytes, how much compute and a collective slow one another down. Medians.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .max_positional = 1,
    .example = "weft calibrate dp.pdmodel --ranks 2 -o cluster.yaml",
    .run = run,
};
