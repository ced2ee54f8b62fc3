/* run_command.c: weft run among the commands: its options, and what --help says. */
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
    {"--fetch", 0, "VAR,...",
     "vars to fetch, may be repeated; default: the fetch ops' vars; those of several elements need --save"},
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
        "SIGINT, SIGTERM and SIGHUP end it behind the step at hand: --save is written, the exit status is 130, 143 or\n"
        "129. A second one ends it at once.\n"
        "--device null is weft simulate, which computes nothing.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = -1,
    .example = "weft run dp.pdmodel --ranks 4 --params params.npz --feed feeds.npz --fetch mean_0.tmp_0",
    .run = run_command,
};
