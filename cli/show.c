/* show.c: weft show: a program's ops, a line each, for reading. */
#include <string.h>

#include "cli/json.h"
#include "cli/show_parts.h"

static const cli_option options[] = {
    {"--yaml", 0, NULL, "the whole program in its YAML form"},
    {"--var", 0, "NAME", "only ops that read or write NAME"},
    {"--type", 0, "TYPE", "only ops of this type"},
    {"--vars", 0, NULL, "list the vars too"},
    {"--placements", 0, NULL, "how each var lies on the mesh"},
    {"--why", 0, "VAR", "why VAR lies so: through which ops, from which annotation; conflicts about it"},
    {"--dot", 0, NULL, "a picture of block 0 in the language of Graphviz"},
    {"--svg", 0, NULL, "that picture as SVG, made by Graphviz's dot"},
    {"--around", 0, "OP", "--dot, --svg: op number OP and what is --depth arrows away"},
    {"--ring", 0, "N", "--dot, --svg: the ops that communicate on ring N and what is --depth arrows away"},
    {"--depth", 0, "N", "of --around, default 2, and of --ring, default 1"},
    JSON_OPTION,
};

static colour role_colour(int role) {
    if (role == WEFT_ROLE_NOT_SPECIFIED) return PLAIN;
    if (role & (WEFT_ROLE_OPTIMIZE | WEFT_ROLE_LR_SCHED)) return PURPLE;
    return role & WEFT_ROLE_BACKWARD ? YELLOW : BLUE;
}

static void print_slots(const weft_op *op, bool output) {
    bool first = true;
    for (size_t s = 0; s < weft_op_nslots(op, output); s++) {
        size_t nargs = 0;
        const char *slot = weft_op_slot(op, output, s, &nargs);
        if (nargs == 0) continue;
        printf("%s%s=", first ? "" : " ", slot);
        first = false;
        for (size_t i = 0; i < nargs; i++) printf("%s%s", i ? "," : "", weft_var_name(weft_op_arg(op, output, s, i)));
    }
}

static void print_op(const weft_op *op, size_t index) {
    long long ring = weft_op_attr_int(op, "ring_id", -1);
    const char *off = cli_colour(stdout, PLAIN);
    printf("%6zu  %s%-9s%s %s%s%s(", index, cli_colour(stdout, role_colour(weft_op_role(op))),
           role_word(weft_op_role(op)), off, ring >= 0 ? cli_colour(stdout, GREEN) : "", weft_op_type(op),
           ring >= 0 ? off : "");
    print_slots(op, false);
    printf(") -> ");
    print_slots(op, true);
    if (ring >= 0) printf("  ring %lld", ring);
    if (weft_op_stream(op)[0]) printf("  stream %s", weft_op_stream(op));
    for (size_t i = 0; weft_op_event_awaited(op, i); i++)
        printf("%s%s", i ? ", " : "  waits for ", weft_op_event_awaited(op, i));
    if (weft_op_event_recorded(op)[0]) printf("  records %s", weft_op_event_recorded(op));
    putchar('\n');
}

static void print_var(const weft_var *var) {
    const char *dtype = weft_dtype_name(weft_var_dtype(var));
    printf("        %s: %s[", weft_var_name(var), dtype ? dtype : "?");
    for (size_t i = 0; i < weft_var_ndim(var); i++) printf("%s%lld", i ? ", " : "", (long long)weft_var_dims(var)[i]);
    printf("]%s\n", weft_var_persistable(var) ? " persistable" : "");
}

static void print_block(const cli_args *args, const weft_block *block, size_t block_index) {
    printf("block %zu: %zu ops, %zu vars\n", block_index, weft_block_nops(block), weft_block_nvars(block));
    if (cli_given(args, "--vars"))
        for (size_t i = 0; i < weft_block_nvars(block); i++) print_var(weft_block_var_at(block, i));
    size_t index = 0;
    for (const weft_op *op = weft_block_first_op(block); op; op = weft_op_next(op), index++) {
        if (op_is_shown(args, op)) print_op(op, index);
    }
}

static weft_status print_yaml(const cli_args *args, const weft_program *program) {
    char *bytes;
    size_t nbytes;
    weft_status status = weft_program_print(program, WEFT_FORM_YAML, &bytes, &nbytes);
    return status ? status : cli_write_taken(args, "-", bytes, nbytes);
}

static weft_status print_placements(const cli_args *args, const weft_program *program) {
    const weft_block *block = weft_program_block(program, 0);
    weft_status status = NULL;
    for (size_t i = 0; i < weft_block_nvars(block) && !status; i++) {
        char *text;
        size_t nbytes;
        const weft_var *var = weft_block_var_at(block, i);
        status = weft_var_placement_print(var, &text, &nbytes);
        if (status) break;
        printf("%s: %s\n", weft_var_name(var), text);
        weft_bytes_free(args->context, text, nbytes);
    }
    return status;
}

static weft_status print_why(const cli_args *args, const weft_program *program, const char *wanted) {
    const weft_var *var = weft_block_find_var(weft_program_block(program, 0), wanted);
    char *text;
    size_t nbytes;
    if (!var) return weft_status_create(WEFT_NOT_FOUND, args->positional[0], "there is no var \"%s\"", wanted);
    weft_status status = weft_var_placement_explain(var, &text, &nbytes);
    return status ? status : cli_write_taken(args, "-", text, nbytes);
}

/* A var that no block declares and no op mentions is a mistake. */
static weft_status check_var(const cli_args *args, const weft_program *program) {
    const char *var = cli_value(args, "--var");
    for (size_t b = 0; var && b < weft_program_nblocks(program); b++) {
        const weft_block *block = weft_program_block(program, b);
        if (weft_block_find_var(block, var)) return NULL;
        for (const weft_op *op = weft_block_first_op(block); op; op = weft_op_next(op))
            if (op_mentions(op, var)) return NULL;
    }
    return var ? weft_status_create(WEFT_NOT_FOUND, args->positional[0], "there is no var \"%s\"", var) : NULL;
}

/* Two of these say two different things to print. */
static bool options_are_good(const cli_args *args) {
    static const char *const forms[] = {"--yaml", "--why", "--dot", "--svg", "--json"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!cli_given(args, forms[i])) continue;
        if (found) return cli_usage_error(args->command, "%s: expected without %s", forms[i], found), false;
        found = forms[i];
    }
    return picture_options_are_good(args);
}

static int run(cli_args *args) {
    weft_program *program;
    if (!options_are_good(args)) return EXIT_USAGE;
    weft_status status = weft_program_load(args->context, args->positional[0], NULL, &program);
    if (status) return cli_fail(args, status);
    if ((status = check_var(args, program))) {
        weft_program_destroy(program);
        return cli_fail(args, status);
    }
    if (cli_given(args, "--yaml"))
        status = print_yaml(args, program);
    else if (cli_given(args, "--json"))
        status = show_json(args, program);
    else if (cli_given(args, "--dot") || cli_given(args, "--svg"))
        status = show_picture(args, program);
    else if (cli_given(args, "--why"))
        status = print_why(args, program, cli_value(args, "--why"));
    else if (cli_given(args, "--placements"))
        status = print_placements(args, program);
    else
        for (size_t b = 0; b < weft_program_nblocks(program); b++) print_block(args, weft_program_block(program, b), b);
    weft_program_destroy(program);
    return status ? cli_fail(args, status) : EXIT_DONE;
}

const cli_command command_show = {
    .name = "show",
    .arguments = "PROGRAM [--var NAME] [--type TYPE] [--vars] [--placements] [--why VAR] [--yaml] [--json] "
                 "[--dot | --svg] [--around OP | --ring N]",
    .summary = "Prints a program's ops, a line each: index, role, type, arguments, ring, stream, events.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = 1,
    .example = "weft show dp.pdmodel --type c_allreduce_sum",
    .run = run,
};
