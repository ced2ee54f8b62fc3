/* reading.h: what a plan is made by: bytes, or a reading of `weft verify`. */
#ifndef CLI_READING_H
#define CLI_READING_H

#include "cli/cli.h"
#include "weft/verify.h"

/* Rows of the options of commands that plan. */
#define READING_HELP                                                                                                   \
    "by_bytes: streams wait as bytes ask for (default); in_order: only as the program states (explicit events); "      \
    "by_name: as Paddle's executor derives from names (Paddle semantics)"
#define LATE_HELP "by_name: launch op number OP of block 0 as late as what depends on it allows; may be repeated"

typedef struct cli_reading {
    weft_order_options options;
    int64_t *late; /* what options.late is */
} cli_reading;

/* False after printing a usage error. */
bool cli_reading_init(cli_reading *r, const cli_args *args);
void cli_reading_fini(cli_reading *r);

#endif
