/* run_options.c: the options of weft run, and those that are more than a number or a name. */
#include <string.h>

#include "cli/json.h"
#include "cli/launch.h"
#include "cli/run_parts.h"
#include "cli/simulate.h"

static const cli_option options[] = {
    {"--ranks", 0, "N",
     "number of ranks; default: the number of programs, or what one program's\n"
     "                               rings say"},
    LAUNCH_OPTIONS,
    {"--startup", 0, "F", "a program that initialises what no file gives; {rank}: one per rank"},
    {"--params", 0, "F", "parameters: .npz or .pdiparams; a rank's slice follows from its dist attrs"},
    {"--load", 0, "F", "go on from what --save wrote; {rank}: a file per rank"},
    {"--resume", 0, "F", "the same as --load"},
    {"--feed", 0, "F", "feeds: .npz with keys step/name, or name for every step; {rank}: a file per rank"},
    {"--steps", 0, "S", "number of steps; default: those in the feed, else 1"},
    {"--first-step", 0, "K", "number of the first step; default: where the run that --load reads ended, else 0"},
    {"--fetch", 0, "VAR,...", "vars to fetch; default: the program's fetch ops; those of several elements need --save"},
    {"--save", 0, "F",
     "persistables, in .npz also fetches, after the last step; {rank}: a file per rank; {step}: steps done"},
    {"--save-every", 0, "N",
     "write --save after every N steps too: the file anew, or with {step} in its name one more"},
    {"--plans", 0, "N", "shapes of the feeds that are kept planned; default 8"},
    {"--threads", 0, "T", "threads that one stream's kernels may use; default 1"},
    {"--check-finite", 0, "[=N]",
     "end at the first op whose output holds NaN or an infinity, and name it: in every step, or every Nth"},
    {"--no-fuse", 0, NULL,
     "run every op alone: none is fused with its neighbours by tiles of rows (slower, the same results)"},
    {"--reading", 0, "R", READING_HELP},
    {"--late", 0, "OP", LATE_HELP},
    {"--unsafe", 0, NULL,
     "run although replicas drift apart, or ops may race, as they may under any --reading but by_bytes"},
    {"--delay", 0, "OP:MS[:RANK]", "start op number OP of block 0 so many ms late; may be repeated"},
    {"--strict-device", 0, NULL, "with --device cuda: refuse ops that would run on the host, with copies"},
    {"--no-graph", 0, NULL,
     "with --device cuda: launch every op alone, not whole steps as graphs (slower, the same results)"},
    {"--rings", 0, "E[:GB]",
     "with --device cuda: nccl (default), a GPU for each rank; loopback: all ranks on one GPU, GB: as if over links "
     "of\n"
     "                               so many GB/s"},
    {"--device", 0, "D", "cpu (default); cuda: GPUs; null: weft simulate, with these options and"},
    SIMULATE_OPTIONS("null: "),
    {"--watchdog", 0, "S[:F]",
     "end a run in which a collective takes S seconds, and 10 times what is usual; F in the first step; default 5:300"},
    {"--no-watchdog", 0, NULL, "let collectives wait without a limit"},
    {"--trace", 0, "F", "a timeline: F.json (Chrome trace) or F.html; may be repeated"},
    {"--trace-steps", 0, "N", "steps that it has, from the last; default 20; 0: all, and memory for them"},
    {"--replan", 0, "N[:CLUSTER]",
     "after N steps plan the buckets of gradients again from what was measured, prove them, and go on with the same "
     "bits;\n"
     "                               CLUSTER: what collectives take; default: weft calibrate, meanwhile"},
    {"--profile", 0, "[=F]",
     "time per op type and op, against the machine's roofline, and memory; F.csv, F.json or text"},
    JSON_REPORT_OPTION("on stderr"),
    {"--seed", 0, "K", "seed of random ops; default: that of the run that --load reads, else 0"},
    {"--expect", 0, "F", "compare the first fetch, averaged over ranks, with `losses` in F.npz"},
    {"--tolerance", 0, "E", "largest relative difference for --expect; default 1e-4"},
};

const cli_command command_run = {
    .name = "run",
    .arguments =
        "PROGRAM... [--ranks N] [--startup F] [--params F] [--load F] [--feed F] [--steps S] [--fetch VAR,...] "
        "[--save F] [--save-every N]",
    .summary =
        "Trains a program on ranks that are threads, or processes (--launch): one program for all, or one each.\n"
        "Prints step,rank,name,value for every fetched var of one element.\n"
        "A program that would let replicas drift apart, as a serial one on several ranks does, is refused.\n"
        "SIGINT and SIGTERM end it behind the step at hand: --save is written, the exit status is 130 or 143. A\n"
        "second one ends it at once.\n"
        "--device null is weft simulate, which computes nothing.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = -1,
    .example = "weft run dp.pdmodel --ranks 4 --params params.npz --feed feeds.npz --fetch mean_0.tmp_0",
    .run = run_command,
};

bool run_read_watchdog(const cli_args *args, double *out_least, double *out_first) {
    const char *given = cli_value(args, "--watchdog");
    int end = 0;
    *out_least = *out_first = 0;
    if (!given) return true;
    bool good = sscanf(given, "%lf%n", out_least, &end) == 1 && *out_least > 0;
    if (good && given[end]) {
        int from = end;
        good = sscanf(given + from, ":%lf%n", out_first, &end) == 1 && *out_first > 0 && !given[from + end];
    }
    if (!good) cli_usage_error(args->command, "--watchdog: expected seconds, S or S:F, found \"%s\"", given);
    return good;
}

bool run_read_rings(const cli_args *args, run_rings *out) {
    const char *given = cli_value(args, "--rings");
    *out = (run_rings){0};
    if (!given) return true;
    size_t n = strcspn(given, ":");
    int end = 0;
    bool good = n > 0 && n < sizeof out->engine;
    if (good) memcpy(out->engine, given, n);
    if (good && given[n])
        good = sscanf(given + n, ":%lf%n", &out->gb_per_second, &end) == 1 && out->gb_per_second > 0 &&
               !given[n + (size_t)end] && strcmp(out->engine, "loopback") == 0;
    if (!good) cli_usage_error(args->command, "--rings: expected nccl, loopback or loopback:GB, found \"%s\"", given);
    return good;
}

bool run_read_check_finite(const cli_args *args, long long *out) {
    const char *given = cli_value(args, "--check-finite");
    *out = given != NULL;
    if (!given || !*given) return true;
    return cli_int(args, "--check-finite", 1, 1LL << 40, out);
}

bool run_read_collectives(const cli_args *args, weft_collectives *out) {
    static const char *const names[] = {[WEFT_COLLECTIVES_ORDERED] = "ordered", [WEFT_COLLECTIVES_LIBRARY] = "library"};
    const char *given = cli_value(args, "--collectives");
    *out = given && strcmp(given, "library") == 0 ? WEFT_COLLECTIVES_LIBRARY : WEFT_COLLECTIVES_ORDERED;
    if (!given || strcmp(given, names[*out]) == 0) return true;
    return cli_usage_error(args->command, "--collectives: expected ordered or library, found \"%s\"", given), false;
}

/* An option that was given and makes no sense on this device; NULL: none. */
static const char *find_misplaced(const cli_args *args, bool simulates) {
    static const char *const of_results[] = {"--save",    "--save-every",   "--expect",
                                             "--profile", "--check-finite", "--replan"};
    for (size_t i = 0; simulates && i < sizeof of_results / sizeof *of_results; i++)
        if (cli_given(args, of_results[i])) return of_results[i];
    for (size_t i = 0; !simulates && i < nsimulate_options; i++)
        if (cli_given(args, simulate_options[i].name)) return simulate_options[i].name;
    return NULL;
}

bool run_read_device(const cli_args *args, bool *out_simulates) {
    const char *device = cli_value(args, "--device");
    *out_simulates = device && strcmp(device, "null") == 0;
    if (device && !*out_simulates && strcmp(device, "cpu") != 0 && strcmp(device, "cuda") != 0)
        return cli_usage_error(args->command, "--device: expected cpu, cuda or null, found \"%s\"", device), false;
    const char *wrong = find_misplaced(args, *out_simulates);
    if (wrong)
        cli_usage_error(args->command,
                        *out_simulates ? "%s: the null device computes nothing" : "%s: expected --device null", wrong);
    return !wrong;
}
