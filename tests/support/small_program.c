#include "tests/support/small_program.h"

#include <stdio.h>
#include <stdlib.h>

#include "program/ir.h"

/* Plain tests link this too: no Criterion here. */
static void require(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "small_program: %s\n", what);
    abort();
}

static void must(weft_status status) {
    require(!status, weft_status_message(status));
}

static void add_var(weft_block *block, char *rest) {
    char *keep = NULL, *var_name = strtok_r(rest, " ", &keep);
    char *dtype = strtok_r(NULL, " ", &keep), *extents = strtok_r(NULL, " ", &keep);
    require(var_name && dtype && extents, "expected: var NAME DTYPE EXTENTS");
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim = 0;
    char *inner = NULL;
    for (char *d = strtok_r(extents, ",", &inner); d && strcmp(d, "-") != 0; d = strtok_r(NULL, ",", &inner))
        dims[ndim++] = strtoll(d, NULL, 10);
    weft_var *var = NULL;
    must(weft_block_add_var(block, var_name, weft_dtype_parse(dtype), ndim, dims, &var));
    for (char *flag; (flag = strtok_r(NULL, " ", &keep));) {
        if (strcmp(flag, "persist") == 0)
            var->persistable = var->has_persistable = true;
        else if (strcmp(flag, "rows") == 0)
            var->kind = WEFT_SELECTED_ROWS;
        else
            require(false, "var: expected persist or rows");
    }
}

static void add_args(weft_op *op, bool output, char *slot_text) {
    char *equals = strchr(slot_text, '=');
    require(equals != NULL, "slot: expected an equals sign");
    *equals = '\0';
    char *keep = NULL;
    for (char *arg = strtok_r(equals + 1, ",", &keep); arg; arg = strtok_r(NULL, ",", &keep)) {
        const name *n = NULL;
        weft_var *var = NULL;
        must(program_name(op->program, arg, strlen(arg), &n));
        must(block_resolve(op->block ? op->block : op->program->blocks[op->program->nblocks - 1], n, &var));
        must(output ? weft_op_add_output(op, slot_text, var) : weft_op_add_input(op, slot_text, var));
    }
}

static void set_strings(weft_op *op, const char *key, char *value) {
    weft_attr *attr = NULL;
    must(op_set_attr(op, key, &attr));
    const name **strings = arena_array(&op->program->arena, 16, sizeof *strings);
    attr->type = ATTR_STRINGS;
    char *keep = NULL;
    for (char *s = strtok_r(value, ",", &keep); s; s = strtok_r(NULL, ",", &keep))
        strings[attr->count++] = name_create(&op->program->arena, s, strlen(s));
    attr->u.strings = strings;
}

static void set_longs(weft_op *op, const char *key, char *value) {
    int64_t longs[16];
    size_t count = 0;
    char *keep = NULL;
    for (char *s = strtok_r(value, "[,]", &keep); s; s = strtok_r(NULL, "[,]", &keep)) longs[count++] = atoll(s);
    must(weft_op_set_attr_longs(op, key, count, longs));
}

static void add_attr(weft_op *op, char *pair) {
    char *value = strchr(pair, '=');
    require(value != NULL, "attr: expected an equals sign");
    *value++ = '\0';
    weft_attr *attr = NULL;
    weft_status status = NULL;
    if (strcmp(pair, "op_role_var") == 0)
        set_strings(op, pair, value);
    else if (value[0] == '[')
        set_longs(op, pair, value);
    else if (value[0] == '@') {
        status = op_set_attr(op, pair, &attr);
        attr->type = ATTR_BLOCK;
        attr->u.i = atoll(value + 1);
    } else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0)
        status = weft_op_set_attr_bool(op, pair, value[0] == 't');
    else if (strspn(value, "-0123456789") == strlen(value))
        status = weft_op_set_attr_int(op, pair, atoll(value));
    else if (strspn(value, "-.0123456789") == strlen(value))
        status = weft_op_set_attr_float(op, pair, atof(value));
    else
        status = weft_op_set_attr_string(op, pair, value);
    must(status);
}

static void add_op(weft_program *program, weft_block *block, char *rest) {
    char *keep = NULL, *type = strtok_r(rest, " ", &keep);
    weft_op *op = NULL;
    must(weft_op_create(program, type, &op));
    enum { INPUTS, OUTPUTS, ATTRS } part = INPUTS;
    for (char *word; (word = strtok_r(NULL, " ", &keep));) {
        if (strcmp(word, "->") == 0)
            part = OUTPUTS;
        else if (strcmp(word, "|") == 0)
            part = ATTRS;
        else if (part == ATTRS)
            add_attr(op, word);
        else
            add_args(op, part == OUTPUTS, word);
    }
    weft_block_insert_before(block, NULL, op);
}

weft_program *small_program(weft_context *context, const char *const *lines, size_t nlines) {
    weft_program *program = NULL;
    must(weft_program_create(context, &program));
    weft_block *block = weft_program_block(program, 0);
    for (size_t i = 0; i < nlines; i++) {
        char *line = strdup(lines[i]);
        if (strncmp(line, "var ", 4) == 0)
            add_var(block, line + 4);
        else if (strncmp(line, "op ", 3) == 0)
            add_op(program, block, line + 3);
        else if (strcmp(line, "block") == 0)
            must(program_add_block(program, 0, &block));
        else
            require(false, "expected a line of var, op or block");
        free(line);
    }
    return program;
}

char *small_program_types(const weft_program *program, size_t index) {
    weft_allocator libc = base_libc_allocator();
    buffer out;
    buffer_init(&out, &libc);
    const weft_block *block = weft_program_block(program, index);
    for (const weft_op *op = weft_block_first_op(block); op; op = weft_op_next(op))
        buffer_format(&out, "%s%s", out.nbytes ? " " : "", weft_op_type(op));
    buffer_append(&out, "", 1);
    return out.bytes;
}
