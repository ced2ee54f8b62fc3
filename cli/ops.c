/* ops.c: weft ops: the op table. */
#include <string.h>

#include "cli/cli.h"
#include "weft/op_table.h"

static const cli_option options[] = {
    {"--markdown", 0, NULL, "the whole table as Markdown (docs/ops.md)"},
};

static weft_status print_markdown(const cli_args *args) {
    char *bytes;
    size_t nbytes;
    weft_status status = weft_op_table_markdown(args->context, &bytes, &nbytes);
    return status ? status : cli_write_taken(args, "-", bytes, nbytes);
}

static void print_row(const weft_op_info *info) {
    char devices[128];
    bool any = weft_op_devices_print(info->type, devices, sizeof devices) > 0;
    printf("%-32s %-12s %-9s %s\n", info->type, info->family, any ? devices : "no kernel", info->summary);
}

static void print_one(const weft_op_info *info) {
    char effects[128], devices[128];
    weft_op_effects_print(info->effects, effects, sizeof effects);
    weft_op_devices_print(info->type, devices, sizeof devices);
    printf("%s: %s\n  inputs   %s\n  outputs  %s\n  attrs    %s\n  effects  %s\n  family   %s\n  devices  %s\n",
           info->type, info->summary, info->inputs, info->outputs, info->attrs, effects[0] ? effects : "none",
           info->family, devices[0] ? devices : "none");
}

static int run(cli_args *args) {
    if (cli_given(args, "--markdown")) {
        weft_status status = print_markdown(args);
        return status ? cli_fail(args, status) : EXIT_DONE;
    }
    if (args->npositional) {
        weft_op_info info;
        if (!weft_op_info_find(args->positional[0], &info)) {
            fprintf(stderr, "weft ops: no op type \"%s\" in the table\n", args->positional[0]);
            return EXIT_WORK_FAILED;
        }
        print_one(&info);
        return EXIT_DONE;
    }
    for (size_t i = 0; i < weft_op_info_count(); i++) {
        weft_op_info info = weft_op_info_at(i);
        print_row(&info);
    }
    return EXIT_DONE;
}

const cli_command command_ops = {
    .name = "ops",
    .arguments = "[TYPE] [--markdown]",
    .summary = "Prints the op table, or one row of it: slots, attrs with defaults, effects, devices that run it.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .max_positional = 1,
    .run = run,
};
