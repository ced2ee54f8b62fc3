/* plan_chunks.h: the chunk plans in a program. */
#ifndef CLI_PLAN_CHUNKS_H
#define CLI_PLAN_CHUNKS_H

#include "cli/cli.h"

/* Prints those that micro_pipeline_tp wrote, a step a line. */
WEFT_MUST_USE weft_status plan_chunks(const cli_args *args, const char *path);

#endif
