/* passes.c: weft passes: the pass table with options and defaults. */
#include "cli/cli.h"
#include "weft/pass.h"

static const char *type_word(weft_option_type type) {
    static const char *const words[] = {"bool", "int", "float", "string", "strings"};
    return words[type];
}

static int run(cli_args *args) {
    if (args->npositional && !weft_pass_find(args->context, args->positional[0])) {
        fprintf(stderr, "weft passes: no pass \"%s\"; `weft passes` lists them\n", args->positional[0]);
        return EXIT_WORK_FAILED;
    }
    for (size_t i = 0; i < weft_pass_count(args->context); i++) {
        const weft_pass *pass = weft_pass_at(args->context, i);
        if (args->npositional && weft_pass_find(args->context, args->positional[0]) != pass) continue;
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
    .arguments = "[PASS]",
    .summary = "Lists the passes with their options and defaults.",
    .max_positional = 1,
    .run = run,
};
