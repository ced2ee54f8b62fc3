/* info.c: the op table as text, for hosts, `weft ops` and docs/ops.md. */
#include "ops/infer.h"
#include "ops/table.h"
#include "weft/op_table.h"

static const struct {
    uint32_t bit;
    const char *word, *meaning;
} effects[] = {
    {OP_COLLECTIVE, "collective", "communicates on the ring of its `ring_id`"},
    {OP_RANDOM, "random", "draws random numbers"},
    {OP_HOST, "host", "blocks the host"},
    {OP_NO_BYTES, "no_bytes", "touches no bytes; it only orders other ops"},
    {OP_ALIASES, "aliases", "its outputs are views of one buffer"},
    {OP_CONTROL, "control", "runs a sub-block"},
    {OP_OPTIMIZER, "optimizer", "updates parameters from gradients"},
    {OP_LINEAR_GRAD, "linear_grad", "outputs are linear, jointly, in all inputs named `*@GRAD`"},
    {OP_LINEAR, "linear", "outputs are linear, jointly, in all inputs (of floating point)"},
    {OP_LINEAR_X, "linear_x", "outputs are linear in the first input (scale: where its bias is 0)"},
    {OP_PADDLE_GPU, "paddle_gpu", "Paddle's CPU executor cannot run it"},
    {OP_ROWS, "rows", "works row by row: may be fused with its neighbours by tiles of rows"},
    {OP_ONE_TYPE, "one_type", "takes inputs of one element type only"},
    {OP_METRIC, "metric", "counts rows of its inputs into its state; data_parallel gives it those of all ranks"},
};
enum { NEFFECTS = sizeof effects / sizeof *effects };

size_t weft_op_info_count(void) {
    size_t count;
    ops_rows(&count);
    return count;
}

weft_op_info weft_op_info_at(size_t index) {
    size_t count;
    const op_row *row = &ops_rows(&count)[index];
    return (weft_op_info){.type = row->type,
                          .family = row->family,
                          .summary = row->summary,
                          .inputs = row->inputs,
                          .outputs = row->outputs,
                          .attrs = row->attrs,
                          .effects = row->effect_bits,
                          .has_inference = row->infer != infer_none};
}

int ops_row_of(const char *type) {
    size_t count;
    const op_row *rows = ops_rows(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].type, type) == 0) return (int)i;
    return -1;
}

bool weft_op_info_find(const char *type, weft_op_info *out_info) {
    int row = ops_row_of(type);
    if (row < 0) return false;
    *out_info = weft_op_info_at((size_t)row);
    return true;
}

uint32_t op_effect_of(const char *word, size_t nbytes) {
    for (int i = 0; i < NEFFECTS; i++)
        if (strlen(effects[i].word) == nbytes && memcmp(effects[i].word, word, nbytes) == 0) return effects[i].bit;
    return 0;
}

size_t weft_op_effects_print(uint32_t bits, char *out_text, size_t nbytes) {
    size_t n = 0;
    for (int i = 0; i < NEFFECTS; i++) {
        if (!(bits & effects[i].bit)) continue;
        for (const char *c = n ? ", " : ""; *c; c++, n++)
            if (n + 1 < nbytes) out_text[n] = *c;
        for (const char *c = effects[i].word; *c; c++, n++)
            if (n + 1 < nbytes) out_text[n] = *c;
    }
    if (nbytes) out_text[n < nbytes ? n : nbytes - 1] = '\0';
    return n;
}

/* --- Markdown ----------------------------------------------------------------------------------------------------- */

static void print_head(buffer *b) {
    buffer_text(
        b, "# Ops\n\n"
           "Written by `weft ops --markdown` from `ops/ops.def`. An op type that is not here is legal in programs and\n"
           "passes (it reads its inputs and writes its outputs); only running it is an error.\n\n"
           "Slots: `?` may be absent or empty, `*` takes any number of arguments, `Out=X` may share the memory of X.\n"
           "Devices: those that have a kernel for it; `-`: the planner does its work, or nothing runs it. Effects:\n\n"
           "| effect | meaning |\n| --- | --- |\n");
    for (int i = 0; i < NEFFECTS; i++) buffer_format(b, "| %s | %s |\n", effects[i].word, effects[i].meaning);
}

/* A cell with code; empty text makes an empty cell. */
static void print_code(buffer *b, const char *s) {
    buffer_format(b, *s ? " `%s` |" : " |", s);
}

static void print_row(buffer *b, const weft_op_info *info, const char *devices) {
    char effects_text[128];
    weft_op_effects_print(info->effects, effects_text, sizeof effects_text);
    buffer_format(b, "| %s |", info->type);
    print_code(b, info->inputs);
    print_code(b, info->outputs);
    print_code(b, info->attrs);
    buffer_format(b, *effects_text ? " %s |" : " |", effects_text);
    buffer_format(b, " %s | %s |\n", *devices ? devices : "-", info->summary);
}

weft_status op_table_markdown(weft_context *context, op_devices_fn print_devices, char **out_bytes,
                              size_t *out_nbytes) {
    char devices[128];
    buffer b;
    buffer_init(&b, &context->allocator);
    print_head(&b);
    const char *family = "";
    for (size_t i = 0; i < weft_op_info_count(); i++) {
        weft_op_info info = weft_op_info_at(i);
        if (strcmp(info.family, family) != 0)
            buffer_format(&b,
                          "\n## %s\n\n| op | inputs | outputs | attrs | effects | devices | summary |\n"
                          "| --- | --- | --- | --- | --- | --- | --- |\n",
                          info.family);
        family = info.family;
        print_devices((int)i, devices, sizeof devices);
        print_row(&b, &info, devices);
    }
    weft_status status = buffer_take(&b, out_bytes, out_nbytes);
    buffer_fini(&b);
    return status;
}
