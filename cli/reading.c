/* reading.c: the options --reading and --late. */
#include "cli/reading.h"

#include <stdlib.h>
#include <string.h>

bool cli_reading_init(cli_reading *r, const cli_args *args) {
    const char *given = cli_value(args, "--reading");
    *r = (cli_reading){.options = {WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_BY_BYTES}};
    if (given && !weft_reading_parse(given, &r->options.reading)) {
        cli_usage_error(args->command, "--reading: expected by_bytes, in_order or by_name, found \"%s\"", given);
        return false;
    }
    r->options.late = r->late = calloc(args->ngiven + 1, sizeof *r->late);
    for (size_t i = 0; r->late && i < args->ngiven; i++) {
        char *end;
        if (strcmp(args->names[i], "--late") != 0) continue;
        r->late[r->options.nlate] = strtoll(args->values[i], &end, 10);
        if (end != args->values[i] && !*end && r->late[r->options.nlate++] >= 0) continue;
        cli_usage_error(args->command, "--late: expected the number of an op, found \"%s\"", args->values[i]);
        return false;
    }
    if (!r->late || !r->options.nlate || r->options.reading == WEFT_READING_BY_NAME) return r->late != NULL;
    cli_usage_error(args->command, "--late: expected --reading by_name: else ops are launched in program order");
    return false;
}

void cli_reading_fini(cli_reading *r) {
    free(r->late);
}
