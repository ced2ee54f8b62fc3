/* json.h: what --json prints: a document made with jansson, of one schema a command (docs/json.md). */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <jansson.h>

#include "cli/cli.h"

/* For commands whose text goes to stdout; and for those whose stdout may have something else. */
#define JSON_OPTION                                                                                                    \
    { "--json", 0, NULL, "the same as JSON (docs/json.md)" }
#define JSON_REPORT_OPTION(where)                                                                                      \
    { "--json", 0, "[=F]", "the report as JSON (docs/json.md) in place of text, " where ", or in F" }

/* Sets a member of *into, or where `key` is NULL appends to it; takes `value` over. Without memory *into becomes NULL
 * and stays so: one look at the end is enough. */
void cli_json_put(json_t **into, const char *key, json_t *value);
/* A string. Of one that is not UTF-8, bytes beyond ASCII become U+FFFD. */
json_t *cli_json_text(const char *text);
/* A number, or null where it is not finite. */
json_t *cli_json_real(double value);
/* The value that JSON text of the library holds; frees the bytes. */
json_t *cli_json_taken(const cli_args *args, char *bytes, size_t nbytes);

/* Prints a document in one go and frees it: into the file that --json=F names, else to `otherwise`. */
WEFT_MUST_USE weft_status cli_json_print(const cli_args *args, json_t *root, FILE *otherwise);

#endif
