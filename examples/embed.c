/* embed.c: a host that embeds Weft: it hands over a serialized program in memory, adds a pass of its own, and runs a
 * pass list from a string. It gets bytes and a report back.
 *
 *   cc embed.c $(pkg-config --cflags --libs weft) -o embed
 */
#include <stdio.h>
#include <string.h>

#include "weft/pass.h"
#include "weft/program.h"

static const char program_text[] =
    "weft: 1\n"
    "blocks:\n"
    "- idx: 0\n"
    "  parent: -1\n"
    "  vars:\n"
    "    x: {float32: [4, 8]}\n"
    "    y: {float32: [4, 8]}\n"
    "    z: {float32: [4, 8]}\n"
    "  ops:\n"
    "  - {relu: {X: [x]}, out: {Out: [y]}}\n"
    "  - {scale: {X: [y]}, out: {Out: [z]}, attrs: {scale: 2.0, bias: 0.0, bias_after_scale: true}}\n";

static const char pass_list[] = "passes: [count_types: {type: relu}]";

/* The host's own pass: counts the ops of one type. It declares its option, so a misspelt key is an error with its line.
 */
static weft_status count_types(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    const char *type = weft_pass_option_string(pass, "type");
    int count = 0;
    for (const weft_op *op = weft_block_first_op(weft_program_block(program, 0)); op; op = weft_op_next(op))
        count += strcmp(weft_op_type(op), type) == 0;
    weft_status status = weft_pass_count_add(pass, "ops counted", count);
    return status ? status : weft_pass_did(pass, "found %d ops of type %s", count, type);
}

static const weft_option count_options[] = {
    {"type", WEFT_OPTION_STRING, "scale", NULL, "the op type to count"},
};
static const weft_pass count_pass = {
    "count_types", "counts the ops of one type", count_options, 1, count_types, NULL,
};

int main(void) {
    weft_context *context = NULL;
    weft_program *program = NULL;
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    char *bytes = NULL, *text = NULL;
    size_t nbytes = 0, ntext = 0;
    weft_status status = weft_context_create(NULL, &context);
    if (!status) status = weft_pass_register(context, &count_pass);
    if (!status)
        status = weft_program_parse(context, WEFT_FORM_YAML, program_text, strlen(program_text), NULL, 0, "memory",
                                    &program);
    if (!status) status = weft_pass_list_parse(context, pass_list, strlen(pass_list), "list", &list);
    if (!status) status = weft_pass_list_run(list, program, &report);
    if (!status) status = weft_report_print(report, false, &text, &ntext);
    if (!status) status = weft_program_print(program, WEFT_FORM_PDMODEL, &bytes, &nbytes);
    int result = 0;
    if (status) {
        fprintf(stderr, "embed: %s: %s\n", weft_status_place(status), weft_status_message(status));
        result = 1;
    } else {
        printf("%.*s", (int)ntext, text);
        printf("relu ops: %lld, program bytes: %zu\n", (long long)weft_report_count(report, 0, "ops counted"), nbytes);
    }
    weft_status_free(status);
    weft_bytes_free(context, bytes, nbytes);
    weft_bytes_free(context, text, ntext);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    weft_context_destroy(context);
    return result;
}
