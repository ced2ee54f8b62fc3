/* simulate.h: what weft run has of weft simulate: it takes the same options with --device null, and hands them on. */
#ifndef CLI_SIMULATE_H
#define CLI_SIMULATE_H

#include "cli/cli.h"
#include "weft/cluster.h"
#include "weft/feeds.h"

/* Options of a simulation alone; `of` stands before what they say. */
#define SIMULATE_OPTIONS(of)                                                                                           \
    {"--cluster", 0, "F", of "how fast ranks compute and how they are linked (YAML)"},                                 \
        {"--times", 0, "F.json", of "a profile (weft run --profile=F.json) that says what ops take; else --cluster"},  \
        {"--fault", 0, "OP[:RANK]", of "a rank dies before op number OP of block 0; may be repeated"},                 \
        {"--steps-in-flight", 0, "N",                                                                                  \
         of "N steps of the program one right after the other, as one; with --reading by_name"},                       \
        {"--rate-flops", 0, "N", of "flops a second; default: the cluster's, else 1e14"},                              \
        {"--rate-bytes", 0, "N", of "bytes a second, read or written; default: the cluster's, else 2e12"},             \
        {"--op-time", 0, "US", of "microseconds of every op beside that; default: the cluster's, else 2"},             \
        {"--link-bytes", 0, "N",                                                                                       \
         of "bytes a second from one member of a ring to the next, on all links; default: the cluster's, else 5e10"},  \
    {                                                                                                                  \
        "--link-latency", 0, "US",                                                                                     \
            of "microseconds of each of their messages beside that; default: the cluster's, else 5"                    \
    }

/* The options above, for those who refuse them. */
extern const cli_option simulate_options[];
extern const size_t nsimulate_options;

extern const cli_command command_simulate;

/* --- simulate_buckets.c --------------------------------------------------------------------------------------------
 */

/* What --buckets compares: one program, each gradient with a reduce of its own. All are borrowed. */
typedef struct bucket_comparison {
    const weft_program *program;
    int nranks;
    const weft_cluster *cluster;
    const weft_feeds *feeds;
} bucket_comparison;

bool simulate_buckets_good(const cli_args *args); /* false after printing a usage error */
WEFT_MUST_USE weft_status simulate_buckets(const cli_args *args, const bucket_comparison *c);

#endif
