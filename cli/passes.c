/* passes.c: weft passes: the pass table with options and defaults. */
#include <string.h>

#include "cli/json.h"
#include "weft/pass.h"

static const cli_option options[] = {JSON_OPTION};

static const char *type_word(weft_option_type type) {
    static const char *const words[] = {"bool", "int", "float", "string", "strings"};
    return words[type];
}

/* "a|b" as a list; null: any value. */
static json_t *choices_json(const char *choices) {
    json_t *list = choices ? json_array() : json_null();
    for (const char *at = choices; at && *at; at += strspn(at, "|")) {
        size_t n = strcspn(at, "|");
        cli_json_put(&list, NULL, json_stringn(at, n));
        at += n;
    }
    return list;
}

static json_t *pass_json(const weft_pass *pass) {
    json_t *list = json_array();
    for (size_t i = 0; i < pass->noptions; i++) {
        const weft_option *o = &pass->options[i];
        cli_json_put(&list, NULL,
                     json_pack("{s:s, s:s, s:s?, s:o, s:s}", "name", o->name, "type", type_word(o->type), "default",
                               o->default_value, "choices", choices_json(o->choices), "summary", o->summary));
    }
    return json_pack("{s:s, s:s, s:s?, s:o}", "name", pass->name, "summary", pass->summary, "changes_meaning",
                     pass->changes_meaning, "options", list);
}

static int print_json(const cli_args *args, const weft_pass *one) {
    json_t *passes = json_array();
    for (size_t i = 0; i < weft_pass_count(args->context); i++) {
        const weft_pass *pass = weft_pass_at(args->context, i);
        if (!one || pass == one) cli_json_put(&passes, NULL, pass_json(pass));
    }
    weft_status status = cli_json_print(args, json_pack("{s:o}", "passes", passes), stdout);
    return status ? cli_fail(args, status) : EXIT_DONE;
}

static int run(cli_args *args) {
    const weft_pass *one = args->npositional ? weft_pass_find(args->context, args->positional[0]) : NULL;
    if (args->npositional && !one) {
        fprintf(stderr, "weft passes: no pass \"%s\"; `weft passes` lists them\n", args->positional[0]);
        return EXIT_WORK_FAILED;
    }
    if (cli_given(args, "--json")) return print_json(args, one);
    for (size_t i = 0; i < weft_pass_count(args->context); i++) {
        const weft_pass *pass = weft_pass_at(args->context, i);
        if (one && pass != one) continue;
        printf("%s\n  %s\n", pass->name, pass->summary);
        for (size_t o = 0; o < pass->noptions; o++) {
            const weft_option *option = &pass->options[o];
            printf("    %s: %s = %s%s%s%s  %s\n", option->name, type_word(option->type),
                   option->default_value ? option->default_value : "(required)", option->choices ? " (" : "",
                   option->choices ? option->choices : "", option->choices ? ")" : "", option->summary);
        }
    }
    return EXIT_DONE;
}

const cli_command command_passes = {
    .name = "passes",
    .arguments = "[PASS] [--json]",
    .summary = "Lists the passes with their options and defaults.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .max_positional = 1,
    .run = run,
};
