/* costs.h: weft plan --costs. */
#ifndef CLI_COSTS_H
#define CLI_COSTS_H

#include "cli/cli.h"
#include "weft/plan.h"

#define COSTS_OPTIONS                                                                                                  \
    {"--costs", 0, NULL, "what each instruction takes by a model, and where that comes from"},                         \
        {"--cluster", 0, "F", "with --costs: how fast ranks compute and how they are linked (YAML)"},                  \
        {"--times", 0, "F.json", "with --costs: a profile of the program (weft run --profile=F.json), to compare"}, {  \
        "--ranks", 0, "N", "with --costs: number of ranks; default: what the program's rings say, else 2"              \
    }

bool costs_options_are_good(const cli_args *args); /* false after printing a usage error */
WEFT_MUST_USE weft_status costs_print(const cli_args *args, const weft_plan *plan);

#endif
