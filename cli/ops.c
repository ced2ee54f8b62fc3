/* ops.c: weft ops: the op table. */
#include <string.h>

#include "cli/json.h"
#include "weft/op_table.h"

static const cli_option options[] = {
    {"--markdown", 0, NULL, "the whole table as Markdown (docs/ops.md)"},
    JSON_OPTION,
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

/* "a, b" as a list. */
static json_t *words(const char *text) {
    json_t *list = json_array();
    while (*text) {
        size_t n = strcspn(text, ",");
        cli_json_put(&list, NULL, json_stringn(text, n));
        text += n;
        text += strspn(text, ", ");
    }
    return list;
}

static json_t *row_json(const weft_op_info *info) {
    char effects[256], devices[128];
    weft_op_effects_print(info->effects, effects, sizeof effects);
    weft_op_devices_print(info->type, devices, sizeof devices);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:b}", "type", info->type, "family", info->family,
                     "summary", info->summary, "inputs", info->inputs, "outputs", info->outputs, "attrs", info->attrs,
                     "effects", words(effects), "devices", words(devices), "has_inference", info->has_inference);
}

/* The whole table, or one row. */
static int print_json(const cli_args *args, const weft_op_info *one) {
    json_t *rows = json_array();
    if (one) cli_json_put(&rows, NULL, row_json(one));
    for (size_t i = 0; !one && i < weft_op_info_count(); i++) {
        weft_op_info info = weft_op_info_at(i);
        cli_json_put(&rows, NULL, row_json(&info));
    }
    weft_status status = cli_json_print(args, json_pack("{s:o}", "ops", rows), stdout);
    return status ? cli_fail(args, status) : EXIT_DONE;
}

static int run(cli_args *args) {
    bool as_json = cli_given(args, "--json");
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
        if (as_json) return print_json(args, &info);
        print_one(&info);
        return EXIT_DONE;
    }
    if (as_json) return print_json(args, NULL);
    for (size_t i = 0; i < weft_op_info_count(); i++) {
        weft_op_info info = weft_op_info_at(i);
        print_row(&info);
    }
    return EXIT_DONE;
}

const cli_command command_ops = {
    .name = "ops",
    .arguments = "[TYPE] [--markdown | --json]",
    .summary = "Prints the op table, or one row of it: slots, attrs with defaults, effects, devices that run it.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .max_positional = 1,
    .run = run,
};
