/* The op table: every row parses, malformed rows are refused, attrs come with their defaults, docs/ops.md is up to
 * date. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/context.h"
#include "executor/kernel.h"
#include "ops/table.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/table.h"
#include "weft/op_table.h"

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

TestSuite(ops_table, .init = setup, .fini = teardown);

Test(ops_table, every_row_is_found_by_its_type) {
    cr_assert_eq(ops_count(context), weft_op_info_count());
    cr_assert_gt(ops_count(context), 86);
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        cr_expect_eq(s->index, (int)i);
        cr_expect_eq(ops_find(context, s->type), s, "%s", s->type);
    }
    cr_expect_null(ops_at(context, ops_count(context)));
    cr_expect_null(ops_find(context, "no_such_op"));
    cr_expect_null(ops_find(context, ""));
}

static bool has_slot(const slot_schema *slots, size_t count, const char *n) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(slots[i].name, n) == 0) return true;
    return false;
}

static bool has_grad_input(const op_schema *s) {
    for (size_t i = 0; i < s->ninputs; i++)
        if (strstr(s->inputs[i].name, "@GRAD")) return true;
    return false;
}

static bool has_attr(const op_schema *s, const char *n) {
    for (size_t i = 0; i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, n) == 0) return true;
    return false;
}

Test(ops_table, effects_have_the_slots_and_attrs_they_speak_of) {
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        if (s->effects & OP_COLLECTIVE) cr_expect(has_attr(s, "ring_id"), "%s", s->type);
        if (s->effects & OP_LINEAR_GRAD) cr_expect(has_grad_input(s), "%s", s->type);
        if (s->effects & OP_CONTROL) cr_expect(has_attr(s, "sub_block"), "%s", s->type);
        if (s->effects & OP_OPTIMIZER) {
            bool lower = has_slot(s->inputs, s->ninputs, "param"); /* newer ops */
            cr_expect(has_slot(s->inputs, s->ninputs, lower ? "param" : "Param"), "%s", s->type);
            cr_expect(has_slot(s->inputs, s->ninputs, lower ? "grad" : "Grad"), "%s", s->type);
            cr_expect(has_slot(s->outputs, s->noutputs, lower ? "param_out" : "ParamOut"), "%s", s->type);
        }
    }
}

Test(ops_table, in_place_pairs_agree_in_arity) {
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        for (size_t o = 0; o < s->noutputs; o++) {
            int in = s->outputs[o].in_place_of;
            cr_expect(in >= -1 && in < (int)s->ninputs, "%s", s->type);
            if (in >= 0 && s->outputs[o].arity == SLOT_LIST)
                cr_expect_eq(s->inputs[in].arity, SLOT_LIST, "%s: %s", s->type, s->outputs[o].name);
        }
    }
}

Test(ops_table, families_stand_together_and_rows_have_words) {
    for (size_t i = 0; i < weft_op_info_count(); i++) {
        weft_op_info info = weft_op_info_at(i), found;
        cr_expect(*info.summary && *info.family, "%s", info.type);
        cr_expect(weft_op_info_find(info.type, &found) && found.type == info.type);
        if (i && strcmp(info.family, weft_op_info_at(i - 1).family) == 0) continue;
        for (size_t j = 0; j + 1 < i; j++)
            cr_expect_str_neq(weft_op_info_at(j).family, info.family, "%s: its family stands in two places", info.type);
    }
}

Test(ops_table, every_allocation_may_fail) {
    for (size_t n = 1;; n++) {
        failing_allocator state = {.fail_at = n};
        weft_context *small = NULL;
        weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&state)};
        weft_status status = context_create_bare(&options, &small);
        if (!status) status = ops_register(small);
        if (status) cr_expect_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY);
        cr_expect_eq(status != NULL, state.failed);
        if (small) context_destroy(small);
        weft_status_free(status);
        cr_expect_eq(state.held, 0);
        if (!state.failed) break;
    }
}

/* --- the language of rows ----------------------------------------------------------------------------------------- */

Test(ops_table, reads_slots_and_attrs) {
    op_row row = {.type = "t",
                  .inputs = "A, B?!, C*",
                  .outputs = "P=B, Q*=C, R",
                  .attrs = "a: int = -1, b: float = 0.1, c: string = 'x, y', d: ints = [1, -2], e: bool = true, "
                           "f: longs = [], g: float64 = 0.1, h: scalars = []"};
    op_schema s;
    cr_assert_null(schema_parse(&context->arena, &row, &s));
    cr_assert_eq(s.ninputs, 3);
    cr_assert_eq(s.noutputs, 3);
    cr_assert_eq(s.nattrs, 8);
    cr_expect_str_eq(s.inputs[1].name, "B");
    cr_expect_eq(s.inputs[0].arity, SLOT_ONE);
    cr_expect_eq(s.inputs[1].arity, SLOT_OPTIONAL);
    cr_expect_eq(s.inputs[2].arity, SLOT_LIST);
    cr_expect(s.inputs[1].only_type && !s.inputs[0].only_type && !s.inputs[2].only_type);
    cr_expect_eq(s.outputs[0].in_place_of, 1);
    cr_expect_eq(s.outputs[1].in_place_of, 2);
    cr_expect_eq(s.outputs[1].arity, SLOT_LIST);
    cr_expect_eq(s.outputs[2].in_place_of, -1);
    cr_expect_eq(s.attrs[0].default_value.u.i, -1);
    cr_expect_eq(s.attrs[1].default_value.u.f, (double)0.1f);
    cr_expect_str_eq(s.attrs[2].default_value.u.s, "x, y");
    cr_expect_eq(s.attrs[3].default_value.count, 2);
    cr_expect_eq(s.attrs[3].default_value.u.ints[1], -2);
    cr_expect(s.attrs[4].default_value.u.b);
    cr_expect_eq(s.attrs[5].type, ATTR_LONGS);
    cr_expect_eq(s.attrs[6].default_value.u.f, 0.1);
    cr_expect_eq(s.attrs[7].default_value.count, 0);
}

Test(ops_table, view_slots_are_read_and_marked) {
    struct {
        const char *outputs;
        int view_of;
        uint32_t effects;
    } rows[] = {{"Out&B", 1, OP_VIEWS | OP_ONLY_VIEWS},
                {"Out*&A", 0, OP_VIEWS | OP_ONLY_VIEWS},
                {"Out=A", -1, 0},
                {"Out&A, Other", 0, OP_VIEWS}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        op_row row = {.type = "t", .inputs = "A, B", .outputs = rows[i].outputs, .attrs = ""};
        op_schema s;
        cr_assert_null(schema_parse(&context->arena, &row, &s));
        cr_expect_eq(s.outputs[0].view_of, rows[i].view_of, "%s", rows[i].outputs);
        cr_expect_eq(s.effects, rows[i].effects, "%s", rows[i].outputs);
    }
    op_row row = {.type = "t", .inputs = "A", .outputs = "Out&C", .attrs = ""};
    op_schema s;
    weft_status refused = schema_parse(&context->arena, &row, &s);
    cr_assert_not_null(refused);
    weft_status_free(refused);
}

/* Which kernels read them is asserted where they do (executor/kernels/typed.h, host_scalar). */
Test(ops_table, slots_that_are_read_on_the_host) {
    op_row row = {.type = "t", .inputs = "A, B^, C?^, D*^, E!", .outputs = "", .attrs = ""};
    op_schema s;
    cr_assert_null(schema_parse(&context->arena, &row, &s));
    cr_expect(!s.inputs[0].host_read && s.inputs[1].host_read && s.inputs[2].host_read && s.inputs[3].host_read);
    cr_expect(s.inputs[2].arity == SLOT_OPTIONAL && s.inputs[3].arity == SLOT_LIST);
    cr_expect(s.inputs[4].only_type && !s.inputs[4].host_read);
}

struct bad_row {
    char inputs[24], outputs[24], attrs[40], expected[40];
};

static const struct bad_row bad_rows[] = {
    {"X,", "Out", "", "expected a slot's name"},
    {"X Y", "Out", "", "expected ',' or the end"},
    {"X, X", "Out", "", "not named before"},
    {"X??", "Out", "", "expected ',' or the end"},
    {"X", "Out=Y", "", "among the row's inputs"},
    {"X", "Out=", "", "expected an input slot's name"},
    {"X=X", "Out", "", "among the row's inputs"},
    {"X!^", "Out", "", "expected ',' or the end"},
    {"X", "Out", "a", "expected ':'"},
    {"X", "Out", "a: integer = 1", "expected int, float"},
    {"X", "Out", "a: int", "'=' and a default"},
    {"X", "Out", "a: int = x", "expected an integer"},
    {"X", "Out", "a: int = 1.5", "expected an integer"},
    {"X", "Out", "a: bool = 1", "expected true or false"},
    {"X", "Out", "a: float = ", "expected a number"},
    {"X", "Out", "a: string = x", "in single quotes"},
    {"X", "Out", "a: string = 'x", "closing quote"},
    {"X", "Out", "a: ints = 1", "expected '['"},
    {"X", "Out", "a: ints = [1 2]", "expected ',' or ']'"},
    {"X", "Out", "a: ints = [1, 2", "expected ',' or ']'"},
    {"X", "Out", "a: strings = ['x']", "expected []"},
    {"X", "Out", "a: int = 1, a: int = 2", "not named before"},
    {"X", "Out", "a: int = 1 b: int = 2", "expected ',' or the end"},
};
TABLE_ROWS(ops_table, refuses_malformed_rows, bad_rows);

TABLE_TEST(size_t *index, ops_table, refuses_malformed_rows) {
    const struct bad_row *c = &bad_rows[*index];
    op_row row = {.type = "t", .inputs = c->inputs, .outputs = c->outputs, .attrs = c->attrs};
    op_schema s;
    weft_status status = schema_parse(&context->arena, &row, &s);
    cr_assert_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT, "%s | %s | %s", c->inputs, c->outputs, c->attrs);
    cr_expect(strstr(weft_status_message(status), c->expected), "expected \"%s\" in \"%s\"", c->expected,
              weft_status_message(status));
    weft_status_free(status);
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

static weft_op *new_op(const char *type) {
    weft_op *op;
    cr_assert_null(weft_op_create(program, type, &op));
    return op;
}

static weft_attr *set_attr(weft_op *op, const char *n, attr_type type) {
    weft_attr *a;
    cr_assert_null(op_set_attr(op, n, &a));
    a->type = type;
    return a;
}

Test(ops_table, absent_attrs_have_the_rows_default) {
    weft_op *op = new_op("scale");
    cr_expect_eq(attr_float(op, "scale", 7), 1.0);
    cr_expect(attr_bool(op, "bias_after_scale", false));
    cr_expect_eq(attr_int(op, "op_role", 42), 42); /* in no row */
    cr_expect_eq(attr_int(new_op("unknown"), "axis", 3), 3);
    size_t count;
    const int64_t *dims = attr_ints(new_op("reduce_sum"), "dim", &count);
    cr_assert_eq(count, 1);
    cr_expect_eq(dims[0], 0);
    cr_expect_null(attr_ints(new_op("reshape2"), "shape", &count));
    cr_expect_eq(count, 0);
    cr_expect_null(attr_floats(op, "scale", &count));
    cr_expect_str_eq(attr_string(new_op("pool2d"), "pooling_type", "?"), "max");
    cr_expect_null(attr_string(op, "nothing", NULL));
}

Test(ops_table, types_that_hold_the_same_value_are_one) {
    weft_op *op = new_op("softmax");
    set_attr(op, "axis", ATTR_LONG)->u.i = 2;
    cr_expect_eq(attr_int(op, "axis", -1), 2);
    cr_expect_eq(attr_float(op, "axis", -1), 2.0);
    set_attr(op, "axis", ATTR_BOOLEAN)->u.b = true;
    cr_expect_eq(attr_int(op, "axis", -1), 1);
    set_attr(op, "axis", ATTR_FLOAT)->u.f = 2.5; /* would lose something */
    cr_expect_eq(attr_int(op, "axis", -5), -1);
    set_attr(op, "axis", ATTR_SCALAR)->u.scalar = &(scalar){.type = SCALAR_LONG, .i = 3};
    cr_expect_eq(attr_int(op, "axis", -1), 3);
    set_attr(op, "eps", ATTR_SCALAR)->u.scalar = &(scalar){.type = SCALAR_FLOAT64, .r = 0.5};
    cr_expect_eq(attr_float(op, "eps", 0), 0.5);
    set_attr(op, "flag", ATTR_INT)->u.i = 1;
    cr_expect(attr_bool(op, "flag", false));
    size_t count;
    const int64_t *one = attr_ints(op, "flag", &count);
    cr_assert_eq(count, 1);
    cr_expect_eq(*one, 1);
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

Test(ops_table, all_reduces_of_both_eras) {
    weft_reduce reduce;
    cr_expect(op_is_all_reduce(new_op("c_allreduce_sum"), &reduce) && reduce == WEFT_REDUCE_SUM);
    cr_expect(op_is_all_reduce(new_op("c_allreduce_avg"), &reduce) && reduce == WEFT_REDUCE_AVG);
    cr_expect(op_is_all_reduce(new_op("c_allreduce_prod"), NULL));
    weft_op *op = new_op("all_reduce");
    cr_expect(op_is_all_reduce(op, &reduce) && reduce == WEFT_REDUCE_SUM);
    set_attr(op, "reduce_type", ATTR_INT)->u.i = WEFT_REDUCE_MIN;
    cr_expect(op_is_all_reduce(op, &reduce) && reduce == WEFT_REDUCE_MIN);
    cr_expect_not(op_is_all_reduce(new_op("c_reduce_sum"), &reduce));
    cr_expect_not(op_is_all_reduce(new_op("c_allreduce_unheard_of"), &reduce));

    weft_var *v;
    cr_assert_null(weft_block_add_var(program->blocks[0], "v", WEFT_FP32, 0, NULL, &v));
    cr_expect_null(op_x(op));
    cr_assert_null(weft_op_add_input(op, "x", v));
    cr_assert_null(weft_op_add_output(op, "out", v));
    cr_expect_eq(op_x(op), v);
    cr_expect_eq(op_out(op), v);
}

Test(ops_table, effects_as_words) {
    char message[64];
    cr_expect_eq(weft_op_effects_print(OP_COLLECTIVE | OP_LINEAR, message, sizeof message),
                 strlen("collective, linear"));
    cr_expect_str_eq(message, "collective, linear");
    cr_expect_eq(weft_op_effects_print(OP_COLLECTIVE | OP_LINEAR, message, 5), strlen("collective, linear"));
    cr_expect_str_eq(message, "coll");
    cr_expect_eq(weft_op_effects_print(0, message, sizeof message), 0);
    cr_expect_str_eq(message, "");
}

Test(ops_table, devices_are_told_by_their_tables) {
    char message[16];
    cr_expect_eq(weft_op_devices_print("matmul_v2", message, sizeof message), strlen("cpu"));
    cr_expect_str_eq(message, "cpu");
    cr_expect_eq(weft_op_devices_print("matmul_v2", message, 2), strlen("cpu"));
    cr_expect_str_eq(message, "c");
    cr_expect_eq(weft_op_devices_print("conditional_block", message, sizeof message),
                 0); /* the planner takes it apart */
    cr_expect_str_eq(message, "");
    cr_expect_eq(weft_op_devices_print("unheard_of", message, sizeof message), 0);
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        cr_expect_eq(ops_row_of(s->type), (int)i);
        cr_expect_eq(weft_op_devices_print(s->type, NULL, 0) > 0, kernel_find(s) != NULL, "%s", s->type);
    }
}

/* By a kernel, by the planner, as a name of others' bytes, as other ops; not at all. */
Test(ops_table, what_can_run) {
    static const char *const can[] = {"matmul_v2", "conditional_block", "coalesce_tensor", "frobenius_norm",
                                      "multi_dot", "matmul_v2_grad_grad", "fused_all_gather_matmul"};
    for (size_t i = 0; i < sizeof can / sizeof *can; i++) cr_expect(weft_op_can_run(can[i]), "%s", can[i]);
    cr_expect_not(weft_op_can_run("unheard_of"));
    size_t ncannot = 0;
    for (size_t i = 0; i < ops_count(context); i++) ncannot += !weft_op_can_run(ops_at(context, i)->type);
    cr_expect_eq(ncannot, 0, "%zu types have a row and nothing that runs them", ncannot);
}

Test(ops_table, documentation_is_up_to_date) {
    char *printed, *doc;
    size_t nprinted, ndoc;
    cr_assert_null(weft_op_table_markdown(context, &printed, &nprinted));
    weft_status status = file_read(&context->allocator, "docs/ops.md", 1 << 24, &doc, &ndoc);
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_expect(nprinted == ndoc && memcmp(printed, doc, ndoc) == 0, "docs/ops.md: write it again: weft ops --markdown");
    weft_bytes_free(context, printed, nprinted);
    weft_bytes_free(context, doc, ndoc);
}
