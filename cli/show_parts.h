/* show_parts.h: what the files of weft show share. */
#ifndef CLI_SHOW_PARTS_H
#define CLI_SHOW_PARTS_H

#include "cli/cli.h"
#include "weft/program.h"

const char *role_word(int role);
bool op_mentions(const weft_op *op, const char *var);
/* Whether --type and --var, where given, take this op. */
bool op_is_shown(const cli_args *args, const weft_op *op);

/* show_json.c: --json. */
WEFT_MUST_USE weft_status show_json(const cli_args *args, const weft_program *program);
/* show_picture.c: --dot and --svg; false after printing a usage error about their options. */
bool picture_options_are_good(const cli_args *args);
WEFT_MUST_USE weft_status show_picture(const cli_args *args, const weft_program *program);

#endif
