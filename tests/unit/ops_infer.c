/* Shape inference: rules of single ops written as text, and blocks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/context.h"
#include "ops/infer.h"
#include "tests/support/table.h"

static weft_context *context;
static weft_program *program;

static void setup(void) {
    cr_assert_null(context_create_bare(NULL, &context));
    cr_assert_null(ops_register(context));
    cr_assert_null(weft_program_create(context, &program));
}

static void teardown(void) {
    weft_program_destroy(program);
    context_destroy(context);
}

TestSuite(ops_infer, .init = setup, .fini = teardown);

/* --- ops as text: "X:2,3 Y:3,4" slots and extents, "axis=1 dim=i0,-1 lower=b0 mode='SAME'" attrs
 * ---------------------- */

static int64_t *read_list(const char **s, size_t *count) {
    static int64_t values[32];
    for (*count = 0; **s && **s != ' ';) {
        char *end;
        values[(*count)++] = strtoll(*s, &end, 10);
        cr_assert(end != *s, "a number at \"%s\"", *s);
        *s = end + (*end == ',');
    }
    return values;
}

/* Adds the arguments in `s` to `op`: a tensor of its own each. "X:" is a scalar, "X:i2" one of int64, "X:?" unknown. */
static void add_args(weft_op *op, bool output, const char *s) {
    for (int n = 0; *s; n++) {
        char slot_name[32], var_name[48];
        int nbytes;
        cr_assert_eq(sscanf(s, " %31[^: ]:%n", slot_name, &nbytes), 1, "\"%s\"", s);
        s += nbytes;
        bool is_int = *s == 'i', unknown = *s == '?', half = *s == 'h';
        s += is_int || unknown || half;
        size_t ndim;
        int64_t *dims = read_list(&s, &ndim);
        weft_var *v;
        snprintf(var_name, sizeof var_name, "%s.%s.%d", output ? "out" : "in", slot_name, n);
        cr_assert_null(weft_block_add_var(program->blocks[0], var_name,
                                          is_int ? WEFT_INT64
                                          : half ? WEFT_FP16
                                                 : WEFT_FP32,
                                          ndim, dims, &v));
        if (unknown || output) v->has_tensor = false;
        cr_assert_null(output ? weft_op_add_output(op, slot_name, v) : weft_op_add_input(op, slot_name, v));
        while (*s == ' ') s++;
    }
}

static void add_attrs(weft_op *op, const char *s) {
    while (*s) {
        char attr_name[40];
        int nbytes;
        cr_assert_eq(sscanf(s, " %39[^= ]=%n", attr_name, &nbytes), 1, "\"%s\"", s);
        s += nbytes;
        if (*s == '\'') {
            char value[32];
            cr_assert_eq(sscanf(s, "'%31[^']'%n", value, &nbytes), 1);
            s += nbytes;
            cr_assert_null(weft_op_set_attr_string(op, attr_name, value));
        } else if (*s == 'b') {
            cr_assert_null(weft_op_set_attr_bool(op, attr_name, s[1] == '1'));
            s += 2;
        } else {
            bool list = *s == 'l';
            s += list;
            size_t count;
            int64_t *values = read_list(&s, &count);
            cr_assert_null(list ? weft_op_set_attr_longs(op, attr_name, count, values)
                                : weft_op_set_attr_int(op, attr_name, values[0]));
        }
        while (*s == ' ') s++;
    }
}

/* "Out:[2, 3] XShape:[0, 2]" of what inference gave, dtype after a slash where it is not float32. */
static void print_outputs(shape_env *env, weft_op *op, buffer *out) {
    for (uint32_t i = 0; i < op_nslots(op, true); i++) {
        const slot *to = op_slot(op, true, i);
        for (uint32_t k = 0; k < to->nargs; k++) {
            shape_text t;
            shape s = shape_env_get(env, slot_var(op, to, k));
            buffer_format(out, "%s%s:%s", out->nbytes ? " " : "", to->name->bytes, shape_print(&s, &t));
            if (s.dtype != WEFT_FP32) buffer_format(out, "/%d", s.dtype);
            if (s.height >= 0) buffer_format(out, "of%d", (int)s.height);
        }
    }
}

struct rule {
    char type[40], inputs[80], outputs[40], attrs[120];
    char expected[120]; /* outputs, or after '!' a part of the error */
};

static const struct rule rules[] = {
#include "tests/unit/ops_infer_rules.inc"
};
TABLE_ROWS(ops_infer, rules, rules);

TABLE_TEST(size_t *row, ops_infer, rules) {
    const struct rule *c = &rules[*row];
    weft_op *op;
    shape_env env;
    arena scratch;
    buffer got;
    arena_init(&scratch, &context->allocator);
    buffer_init(&got, &context->allocator);
    cr_assert_null(weft_op_create(program, c->type, &op));
    add_args(op, false, c->inputs);
    add_args(op, true, c->outputs);
    add_attrs(op, c->attrs);
    weft_block_insert_before(program->blocks[0], NULL, op);
    cr_assert_null(shape_env_init(&env, program, &scratch));
    weft_status status = shape_infer_op(&env, op, &scratch);
    if (!status) print_outputs(&env, op, &got);
    buffer_append(&got, "", 1);
    if (*c->expected == '!')
        cr_expect(strstr(weft_status_message(status), c->expected + 1) && strstr(weft_status_message(status), c->type),
                  "%s: expected \"%s\", found \"%s\" %s", c->type, c->expected + 1, weft_status_message(status),
                  got.bytes);
    else
        cr_expect_str_eq(got.bytes, c->expected, "%s(%s) %s: expected %s, found %s %s", c->type, c->inputs, c->attrs,
                         c->expected, got.bytes, weft_status_message(status));
    weft_status_free(status);
    buffer_fini(&got);
    arena_fini(&scratch);
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

Test(ops_infer, an_unknown_op_keeps_declared_types) {
    weft_op *op;
    weft_var *v;
    cr_assert_null(weft_block_add_var(program->blocks[0], "v", WEFT_INT32, 2, (const int64_t[]){2, -1}, &v));
    cr_assert_null(weft_op_create(program, "of_another_world", &op));
    cr_assert_null(weft_op_add_output(op, "Out", v));
    weft_block_insert_before(program->blocks[0], NULL, op);
    arena scratch;
    shape_env env;
    arena_init(&scratch, &context->allocator);
    cr_assert_null(shape_env_init(&env, program, &scratch));
    cr_assert_null(shape_infer_block(&env, program->blocks[0], &scratch));
    shape s = shape_env_get(&env, v);
    cr_expect(s.ndim == 2 && s.dims[0] == 2 && s.dims[1] == -1 && s.dtype == WEFT_INT32);
    arena_fini(&scratch);
}

static weft_op *append(const char *type, const char *out_name, weft_dtype dtype, weft_var **out) {
    weft_op *op;
    cr_assert_null(weft_op_create(program, type, &op));
    cr_assert_null(weft_block_add_var(program->blocks[0], out_name, dtype, 1, (const int64_t[]){-1}, out));
    cr_assert_null(weft_op_add_output(op, "Out", *out));
    weft_block_insert_before(program->blocks[0], NULL, op);
    return op;
}

/* fill_constant makes a 3, linspace counts to it; then `writer` (or nothing) writes the 3 in between. */
static int64_t extent_from_constant(const char *writer) {
    weft_var *num, *start, *numbers_out;
    weft_op *op = append("fill_constant", "num", WEFT_INT32, &num);
    cr_assert_null(weft_op_set_attr_longs(op, "shape", 1, (const int64_t[]){1}));
    cr_assert_null(weft_op_set_attr_float(op, "value", 3));
    cr_assert_null(weft_op_set_attr_int(op, "dtype", WEFT_INT32));
    cr_assert_null(weft_op_add_input(op, "ValueTensor", NULL)); /* as files have it: present and empty */
    if (writer) {
        cr_assert_null(weft_op_create(program, writer, &op));
        cr_assert_null(weft_op_add_input(op, "X", num));
        cr_assert_null(weft_op_add_output(op, "Out", num));
        weft_block_insert_before(program->blocks[0], NULL, op);
    }
    append("fill_constant", "start", WEFT_FP32, &start);
    op = append("linspace", "numbers", WEFT_FP32, &numbers_out);
    cr_assert_null(weft_op_add_input(op, "Start", start));
    cr_assert_null(weft_op_add_input(op, "Stop", start));
    cr_assert_null(weft_op_add_input(op, "Num", num));
    arena scratch;
    shape_env env;
    arena_init(&scratch, &context->allocator);
    cr_assert_null(shape_env_init(&env, program, &scratch));
    cr_assert_null(shape_infer_block(&env, program->blocks[0], &scratch));
    int64_t extent = shape_env_get(&env, numbers_out).dims[0];
    arena_fini(&scratch);
    return extent;
}

Test(ops_infer, constants_of_the_program_decide_shapes) {
    cr_expect_eq(extent_from_constant(NULL), 3);
}
Test(ops_infer, a_constant_is_followed_through_ops_that_write_over_it) {
    cr_expect_eq(extent_from_constant("increment"), 4);
}
Test(ops_infer, an_unknown_op_may_write_over_a_constant) {
    cr_expect_eq(extent_from_constant("of_another_world"), -1);
}

Test(ops_infer, a_cycle_of_blocks_ends) {
    weft_op *op;
    weft_attr *a;
    cr_assert_null(weft_op_create(program, "conditional_block", &op));
    cr_assert_null(op_set_attr(op, "sub_block", &a));
    a->type = ATTR_BLOCK;
    a->u.i = 0;
    weft_block_insert_before(program->blocks[0], NULL, op);
    arena scratch;
    shape_env env;
    arena_init(&scratch, &context->allocator);
    cr_assert_null(shape_env_init(&env, program, &scratch));
    cr_assert_null(shape_infer_block(&env, program->blocks[0], &scratch));
    a->u.i = 1;
    weft_status status = shape_infer_block(&env, program->blocks[0], &scratch);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_PROGRAM);
    weft_status_free(status);
    arena_fini(&scratch);
}
