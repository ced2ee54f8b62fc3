/* FX graphs: what is read comes back as it was, what passes make is written and read again, what is wrong is reported.
 */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/context.h"
#include "program/ir.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fixtures.h"
#include "tests/support/table.h"

static failing_allocator memory;
static weft_context *context;

static void begin(void) {
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&memory)};
    cr_assert_null(context_create_bare(&options, &context));
}

static void end(void) {
    context_destroy(context);
    cr_expect_eq(memory.held, 0, "%zu bytes are held", memory.held);
    cr_expect_not(memory.wrong_size);
}
TestSuite(program_fx, .init = begin, .fini = end);

static weft_status try_read(const char *json, size_t nbytes, weft_program **out) {
    return weft_program_parse(context, WEFT_FORM_FX, json, nbytes, NULL, 0, "g", out);
}

static weft_program *read_graph(const char *json) {
    weft_program *p = NULL;
    weft_status status = try_read(json, strlen(json), &p);
    cr_assert_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
    return p;
}

static char *print(const weft_program *p, weft_form form) {
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_status status = weft_program_print(p, form, &bytes, &nbytes);
    cr_assert_null(status, "%s", weft_status_message(status));
    char *copy = strndup(bytes, nbytes);
    weft_bytes_free(context, bytes, nbytes);
    return copy;
}

static void expect_same(const char *json, const char *where) {
    weft_program *p = read_graph(json), *again = NULL;
    char *printed = print(p, WEFT_FORM_FX), *yaml = print(p, WEFT_FORM_YAML);
    cr_expect_str_eq(printed, json, "%s", where);
    cr_expect_null(weft_program_verify(p), "%s", where);
    cr_assert_null(weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "y", &again));
    cr_expect(weft_program_equal(p, again), "%s", where);
    char *back = print(again, WEFT_FORM_FX);
    cr_expect_str_eq(back, json, "%s", where);
    free(back);
    free(yaml);
    free(printed);
    weft_program_destroy(again);
    weft_program_destroy(p);
}

/* --- what was recorded comes back byte for byte ------------------------------------------------------------------- */

Test(program_fx, recorded_graphs) {
    static const char *const patterns[] = {"ddp/bugs/*.fx.json", "ddp/mlp6.w2/before.fx.json",
                                           "commtensor_functional/*.w2/*.fx.json", "commtensor/*/*.rank0.fx.json",
                                           "micropipe/ag_mm.2d*w2/*.fx.json"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        char pattern[512];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/torch/%s", fixture_root(), patterns[i]);
        if (glob(pattern, 0, NULL, &found)) continue;
        for (size_t k = 0; k < found.gl_pathc; k++, count++) {
            char json[1 << 18];
            FILE *file = fopen(found.gl_pathv[k], "rb");
            cr_assert_not_null(file);
            json[fread(json, 1, sizeof json - 1, file)] = '\0';
            fclose(file);
            expect_same(json, found.gl_pathv[k]);
        }
        globfree(&found);
    }
    if (!count) cr_skip_test("no recorded graphs");
}

/* Lists of lists, empty lists, nulls, numbers of all kinds, members that are not of the form. */
static const char odd[] =
    "{\n\"schema\": \"fx.json/1\",\n\"name\": \"odd\",\n\"groups\": {\"tp\":{\"size\":2,\"ranks\":[1,0]}},\n"
    "\"inputs\": [\n{\"name\":\"x\",\"shape\":[2,0],\"dtype\":\"bfloat16\",\"role\":\"param\",\"why\":[1,{}]},\n"
    "{\"name\":\"pg\",\"shape\":null,\"dtype\":null}\n],\n"
    "\"constants\": [\n{\"name\":\"c\",\"shape\":[2],\"dtype\":\"float32\",\"data\":[0.5,{\"f\":\"-inf\"}]}\n],\n"
    "\"nodes\": [\n"
    "{\"name\":\"two\",\"op\":\"call\",\"target\":\"my.two\",\"args\":[[{\"ref\":\"x\"},[{\"ref\":\"c\"}]],-1e-05,{"
    "\"f\":2.0},"
    "\"{\\\"arg\\\":0}\"],\"kwargs\":{\"k\":{\"ref\":\"pg\"},\"d\":{\"dtype\":\"int8\"}},\"shape\":[[2],[[1],null],[]],"
    "\"dtype\":[\"bool\",[\"uint8\",null],[]],\"meta\":{\"a\":[]}},\n"
    "{\"name\":\"sub\",\"op\":\"call\",\"target\":\"getitem\",\"args\":[{\"ref\":\"two\"},1],\"kwargs\":{},\"shape\":[["
    "1],null],"
    "\"dtype\":[\"uint8\",null]},\n"
    "{\"name\":\"leaf\",\"op\":\"call\",\"target\":\"getitem\",\"args\":[{\"ref\":\"sub\"},0],\"kwargs\":{},\"shape\":["
    "1],"
    "\"dtype\":\"uint8\"},\n"
    "{\"name\":\"none\",\"op\":\"call\",\"target\":\"getitem\",\"args\":[{\"ref\":\"two\"},2],\"kwargs\":{},\"shape\":["
    "],"
    "\"dtype\":[]},\n"
    "{\"name\":\"all\",\"op\":\"call\",\"target\":\"my.all\",\"args\":[{\"ref\":\"two\"}],"
    "\"kwargs\":{},"
    "\"shape\":null,\"dtype\":null}\n"
    "],\n\"outputs\": [\nnull,\n{\"ref\":\"leaf\",\"name\":\"y\"},\n3,\n{\"ref\":\"all\"}\n],\n\"note\": \"kept\"\n}\n";

Test(program_fx, odd_graph) {
    expect_same(odd, "odd");
}

/* A step over a list writes the list and has no value, no var. */
static const char step[] =
    "{\n\"schema\": \"fx.json/1\",\n\"groups\": {},\n\"inputs\": [\n"
    "{\"name\":\"a\",\"shape\":[2],\"dtype\":\"float32\"},\n{\"name\":\"b\",\"shape\":[3],\"dtype\":\"float32\"}\n],\n"
    "\"constants\": [],\n\"nodes\": [\n"
    "{\"name\":\"s\",\"op\":\"call\",\"target\":\"aten._foreach_add_.ScalarList\",\"args\":[[{\"ref\":\"a\"},{\"ref\":"
    "\"b\"}],"
    "[{\"f\":0.1},2]],\"kwargs\":{},\"shape\":null,\"dtype\":null}\n],\n\"outputs\": [\n{\"ref\":\"b\"}\n]\n}\n";

Test(program_fx, steps_over_lists_have_no_value) {
    expect_same(step, "step");
    weft_program *p = read_graph(step);
    const weft_op *op = p->blocks[0]->first;
    cr_expect_str_eq(weft_op_type(op), "aten_foreach_add_scalar");
    cr_expect_str_eq(weft_var_name(weft_op_output(op, "out", 0)), "a");
    cr_expect_str_eq(weft_var_name(weft_op_output(op, "out", 1)), "b");
    const weft_attr *scalars = op_find_attr(op, "scalars");
    cr_assert(scalars && scalars->count == 2);
    cr_expect(scalars->u.floats[0] == 0.1 && scalars->u.floats[1] == 2, "not rounded to 32 bits");
    cr_expect_null(weft_block_find_var(p->blocks[0], "s"));
    weft_program_destroy(p);
}

Test(program_fx, members_in_any_order) {
    weft_program *p =
        read_graph("{\"outputs\": [{\"ref\": \"x\"}], \"nodes\": [], \"inputs\": [{\"name\": \"x\", \"shape\": [1], "
                   "\"dtype\": \"int8\"}], \"schema\": \"fx.json/1\"}");
    char *printed = print(p, WEFT_FORM_FX);
    cr_expect_str_eq(printed, "{\n\"outputs\": [\n{\"ref\":\"x\"}\n],\n\"nodes\": [],\n\"inputs\": [\n"
                              "{\"name\":\"x\",\"shape\":[1],\"dtype\":\"int8\"}\n],\n\"schema\": \"fx.json/1\",\n"
                              "\"groups\": {}\n}\n");
    free(printed);
    weft_program_destroy(p);
}

/* --- what it means ------------------------------------------------------------------------------------------------ */

#define HEAD                                                                                                           \
    "{\"schema\": \"fx.json/1\", \"groups\": {\"0\": {\"size\": 2, \"ranks\": [0, 1]}, \"g\": {\"size\": 1, "          \
    "\"ranks\": [1]}}, "                                                                                               \
    "\"inputs\": [{\"name\": \"x\", \"shape\": [4, 2], \"dtype\": \"float32\", \"role\": \"data\"}, {\"name\": "       \
    "\"g\", \"shape\": "                                                                                               \
    "[4, 2], \"dtype\": \"float32\", \"role\": \"grad\"}, {\"name\": \"w\", \"shape\": [4, 2], \"dtype\": "            \
    "\"float32\"}], \"nodes\": ["
#define NODE(name, target, args)                                                                                       \
    "{\"name\": \"" name "\", \"op\": \"call\", \"target\": \"" target "\", \"args\": [" args                          \
    "], \"kwargs\": {}, \"shape\": [4, 2], \"dtype\": \"float32\"}"
#define REF(name) "{\"ref\": \"" name "\"}"

static weft_op *op_at(const weft_program *p, size_t index) {
    weft_op *op = p->blocks[0]->first;
    while (op && index--) op = op->next;
    cr_assert_not_null(op);
    return op;
}

Test(program_fx, ops_of_a_graph) {
    weft_program *p = read_graph(HEAD NODE("r", "aten.relu.default", REF("x")) ", " NODE(
        "a", "_c10d_functional.all_reduce.default",
        REF("r") ", \"avg\", \"g\"") ", " NODE("v", "_c10d_functional.wait_tensor.default",
                                               REF("a")) ", " NODE("u", "my.op.name",
                                                                   "[" REF("v") "], 2") "], \"outputs\": "
                                                                                        "[null, " REF("v") "]}");
    const weft_op *relu = op_at(p, 0), *reduce = op_at(p, 1), *wait = op_at(p, 2), *other = op_at(p, 3),
                  *fetch = op_at(p, 4);
    cr_expect_str_eq(weft_op_type(relu), "aten_relu");
    cr_expect_str_eq(weft_var_name(weft_op_input(relu, "self", 0)), "x");
    cr_expect_str_eq(weft_op_type(reduce), "all_reduce");
    cr_expect_eq(weft_op_attr_int(reduce, "ring_id", -1), 1);
    cr_expect_eq(weft_op_attr_int(reduce, "reduce_type", -1), WEFT_REDUCE_AVG);
    cr_expect(weft_op_attr_bool(reduce, "async_op", false));
    cr_expect_str_eq(weft_op_type(wait), "wait_tensor");
    cr_expect_str_eq(weft_op_type(other), "my.op.name");
    cr_expect_str_eq(weft_var_name(weft_op_input(other, "args", 0)), "v");
    cr_expect_str_eq(weft_op_type(fetch), "fetch");
    cr_expect_eq(weft_op_attr_int(fetch, "col", -1), 1);
    size_t nranks;
    const int64_t *ranks;
    cr_assert(weft_program_ring(p, 1, &nranks, &ranks));
    cr_expect(nranks == 1 && ranks[0] == 1);
    weft_program_destroy(p);
}

/* What the graph writes, through a view too, lives on. */
Test(program_fx, written_inputs_persist) {
    weft_program *p = read_graph(HEAD NODE("v", "aten.detach.default", REF("w")) ", " NODE(
        "c", "aten.copy_.default", REF("v") ", " REF("x")) "], \"outputs\": []}");
    const weft_block *b = p->blocks[0];
    cr_expect_not(weft_var_persistable(weft_block_find_var(b, "x")));
    cr_expect(weft_var_persistable(weft_block_find_var(b, "g")));
    cr_expect(weft_var_persistable(weft_block_find_var(b, "w")));
    cr_expect_eq(weft_op_output(op_at(p, 1), "self_out", 0), weft_op_input(op_at(p, 1), "self", 0));
    weft_program_destroy(p);
}

/* Of ops that no row reads, their signatures say what they write, in lists behind the first too, and what is a view. */
Test(program_fx, signatures_say_what_is_written) {
    weft_program *p =
        read_graph(HEAD NODE("s", "aten._fused_adam_.default", "[" REF("x") "], [" REF("w") "]") "], "
                                                                                                 "\"outputs\": []}");
    const weft_op *adam = op_at(p, 0);
    cr_expect_str_eq(weft_op_type(adam), "aten._fused_adam_.default");
    cr_expect_str_eq(weft_var_name(weft_op_output(adam, "args_out", 0)), "x");
    cr_expect_str_eq(weft_var_name(weft_op_output(adam, "args_out", 1)), "w");
    cr_expect(weft_var_persistable(weft_block_find_var(p->blocks[0], "x")));
    weft_program_destroy(p);

    p = read_graph(HEAD NODE("v", "aten.as_strided.default", REF("x") ", [4, 2], [2, 1]") ", " NODE(
        "t", "aten.add_.Tensor", REF("v") ", " REF("w")) ", " NODE("y", "aten.col2im.default",
                                                                   REF("w") ", [1]") "], \"outputs\": []}");
    cr_expect(weft_var_persistable(weft_block_find_var(p->blocks[0], "x")));
    cr_expect_not(weft_var_persistable(weft_block_find_var(p->blocks[0], "w")));
    cr_expect_null(weft_op_output(op_at(p, 2), "args_out", 0));
    weft_program_destroy(p);
}

Test(program_fx, constants_are_assigned) {
    weft_program *p =
        read_graph("{\"schema\": \"fx.json/1\", \"constants\": [{\"name\": \"c\", \"shape\": [2, 1], \"dtype\": "
                   "\"int64\", \"data\": [7, true]}, {\"name\": \"h\", \"shape\": null, \"dtype\": null, \"opaque\": "
                   "\"O\"}], \"nodes\": [], \"outputs\": [{\"ref\": \"c\"}]}");
    const weft_attr *values = op_find_attr(op_at(p, 0), "int64_values");
    cr_expect_str_eq(weft_op_type(op_at(p, 0)), "assign_value");
    cr_assert(values && values->count == 2);
    cr_expect(values->u.ints[0] == 7 && values->u.ints[1] == 1);
    cr_expect(weft_var_persistable(weft_block_find_var(p->blocks[0], "c")));
    char *printed = print(p, WEFT_FORM_FX);
    cr_expect_null(strstr(printed, "assign_value"));
    free(printed);
    weft_program_destroy(p);
}

/* --- what passes make --------------------------------------------------------------------------------------------- */

static weft_var *add_var(weft_program *p, const char *n, int64_t rows) {
    weft_var *v;
    cr_assert_null(weft_block_add_var(p->blocks[0], n, WEFT_FP32, 2, (const int64_t[]){rows, 2}, &v));
    return v;
}

static weft_op *add_op(weft_program *p, const char *type) {
    weft_op *op;
    cr_assert_null(weft_op_create(p, type, &op));
    return op;
}

static void add_in(weft_op *op, const char *slot_name, weft_var *v) {
    cr_assert_null(weft_op_add_input(op, slot_name, v));
}
static void add_out(weft_op *op, const char *slot_name, weft_var *v) {
    cr_assert_null(weft_op_add_output(op, slot_name, v));
}

static void insert(weft_op *op) {
    weft_block_insert_before(op->program->blocks[0], NULL, op);
}

static void add_collective(weft_program *p, const char *type, weft_var *const *in, weft_var *const *out, size_t count) {
    weft_op *op = add_op(p, type);
    for (size_t i = 0; i < count; i++) add_in(op, "x", in[i]);
    for (size_t i = 0; i < count; i++) add_out(op, "out", out[i]);
    cr_assert_null(weft_op_set_attr_bool(op, "async_op", true));
    cr_assert_null(weft_op_set_attr_int(op, "ring_id", 0));
    cr_assert_null(weft_op_set_attr_int(op, "reduce_type", WEFT_REDUCE_MAX));
    insert(op);
}

static void add_wait(weft_program *p, weft_var *x, weft_var *out) {
    weft_op *op = add_op(p, "wait_tensor");
    add_in(op, "X", x);
    add_out(op, "Out", out);
    insert(op);
}

/* A bucket whose members are views, a reduce in place, a producer that writes a member again, a list of reduces. */
static weft_program *passed(void) {
    weft_program *p = read_graph(HEAD NODE("r", "aten.relu.default", REF("x")) ", " NODE(
        "e", "aten.exp.default", REF("x")) "], \"outputs\": []}");
    weft_var *r = weft_op_output(op_at(p, 0), "out", 0), *e = weft_op_output(op_at(p, 1), "Out", 0);
    weft_var *fused = add_var(p, "fused", 8), *a = add_var(p, "a", 4), *b = add_var(p, "b", 4), *l[2], *waited[2];
    weft_op *op = add_op(p, "coalesce_tensor");
    add_in(op, "Input", r);
    add_in(op, "Input", e);
    add_out(op, "FusedOutput", fused);
    add_out(op, "Output", a);
    add_out(op, "Output", b);
    cr_assert_null(weft_op_set_attr_bool(op, "copy_data", true));
    cr_assert_null(weft_op_set_attr_float(op, "constant", 0.1));
    cr_assert_null(weft_op_set_attr_longs(op, "sizes", 2, (const int64_t[]){1, -2}));
    cr_assert_null(weft_op_set_attr_strings(op, "words", 0, NULL));
    insert(op);
    op = add_op(p, "scale");
    add_in(op, "X", r);
    add_out(op, "Out", a);
    insert(op);
    op = add_op(p, "coalesce_tensor"); /* places what is written later */
    weft_var *late = add_var(p, "late", 4);
    add_in(op, "Input", r);
    add_in(op, "Input", late);
    add_out(op, "Output", late);
    add_out(op, "FusedOutput", add_var(p, "place", 4));
    insert(op);
    op = add_op(p, "scale");
    add_in(op, "X", r);
    add_out(op, "Out", late);
    insert(op);
    add_collective(p, "all_reduce", &fused, &fused, 1);
    add_wait(p, fused, fused);
    l[0] = add_var(p, "l0", 4), l[1] = add_var(p, "l1", 4);
    waited[0] = add_var(p, "w0", 4), waited[1] = add_var(p, "w1", 4);
    add_collective(p, "all_reduce_coalesced", (weft_var *[]){a, b}, l, 2);
    for (int i = 0; i < 2; i++) add_wait(p, l[i], waited[i]);
    op_dist *dist;
    cr_assert_null(op_dist_get(p->blocks[0]->last, &dist));
    dist->execution_stream = "gradient_sync";
    return p;
}

static bool same_args(const weft_op *x, const weft_op *y, bool output, uint32_t index) {
    const slot *a = op_slot(x, output, index), *b = op_slot(y, output, index);
    bool same = a->nargs == b->nargs && strcmp(a->name->bytes, b->name->bytes) == 0;
    for (uint32_t i = 0; i < a->nargs && same; i++)
        same = strcmp(slot_var(x, a, i)->name->bytes, slot_var(y, b, i)->name->bytes) == 0;
    return same;
}

/* All but how nodes are called. */
static void expect_same_ops(const weft_program *p, const weft_program *q) {
    cr_assert_eq(p->blocks[0]->nops, q->blocks[0]->nops);
    const weft_op *y = q->blocks[0]->first;
    for (const weft_op *x = p->blocks[0]->first; x; x = x->next, y = y->next) {
        cr_expect_str_eq(weft_op_type(x), weft_op_type(y));
        cr_assert(op_nslots(x, false) == op_nslots(y, false) && op_nslots(x, true) == op_nslots(y, true), "%s",
                  weft_op_type(x));
        for (uint32_t i = 0; i < op_nslots(x, false); i++) cr_expect(same_args(x, y, false, i));
        for (uint32_t i = 0; i < op_nslots(x, true); i++) cr_expect(same_args(x, y, true, i));
        for (uint32_t i = 0; i < x->nattrs; i++) {
            const weft_attr *a = op_find_attr(y, x->attrs[i].name->bytes);
            cr_expect(a && attr_equal(&x->attrs[i], a), "%s: %s", weft_op_type(x), x->attrs[i].name->bytes);
        }
        cr_expect_str_eq(weft_op_stream(x), weft_op_stream(y));
    }
}

Test(program_fx, what_passes_make_is_read_again) {
    weft_program *p = passed();
    char *printed = print(p, WEFT_FORM_FX);
    weft_program *again = read_graph(printed);
    char *twice = print(again, WEFT_FORM_FX);
    expect_same_ops(p, again);
    cr_expect_str_eq(printed, twice);
    cr_expect_not_null(strstr(printed, "\"target\":\"weft.coalesce_tensor\",\"args\":[]"));
    cr_expect_not_null(strstr(
        printed, "{\"name\":\"fused_1\",\"op\":\"call\",\"target\":\"_c10d_functional.all_reduce_.default\","
                 "\"args\":[{\"ref\":\"fused\"},\"max\",\"0\"],\"kwargs\":{\"weft.out\":[{\"ref\":\"fused\"}]}"));
    cr_expect_not_null(strstr(printed, "{\"name\":\"l1\",\"op\":\"call\",\"target\":\"getitem\""));
    free(twice);
    free(printed);
    weft_program_destroy(again);
    weft_program_destroy(p);
}

/* The node's own text goes with a change of what it says, and only then. */
Test(program_fx, changes_drop_the_text_of_a_node) {
    weft_program *p = read_graph(HEAD NODE("r", "aten.relu.default", REF("x")) ", " NODE(
        "e", "aten.exp.default", REF("r")) "], \"outputs\": []}");
    weft_op *relu = op_at(p, 0), *e = op_at(p, 1);
    weft_op_rename_input(e, weft_op_input(e, "X", 0), weft_op_input(relu, "self", 0));
    cr_expect_not_null(op_find_attr(e, "fx_node"));
    cr_assert_null(op_remove_attr(e, "not there"));
    cr_expect_not_null(op_find_attr(e, "fx_node"));
    cr_assert_null(weft_op_set_attr_int(relu, "axis", 3));
    cr_expect_null(op_find_attr(relu, "fx_node"));
    char *printed = print(p, WEFT_FORM_FX);
    cr_expect_not_null(
        strstr(printed, "\"target\":\"weft.aten_relu\",\"args\":[],\"kwargs\":{\"self\":{\"ref\":\"x\"},\"axis\":3,"));
    cr_expect_not_null(strstr(printed, "\"target\":\"aten.exp.default\",\"args\":[{\"ref\":\"x\"}]"));
    add_in(e, "Y", weft_op_input(relu, "X", 0));
    cr_expect_null(op_find_attr(e, "fx_node"));
    free(printed);
    weft_program_destroy(p);
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *json, *place, *message;
} wrong[] = {
#include "tests/unit/program_fx_wrong.inc"
};
TABLE_ROWS(program_fx, errors, wrong);

TABLE_TEST(size_t *row, program_fx, errors) {
    weft_program *p = NULL;
    weft_status status = try_read(wrong[*row].json, strlen(wrong[*row].json), &p);
    cr_assert_not_null(status, "row %zu", *row);
    cr_expect_not_null(strstr(weft_status_message(status), wrong[*row].message), "row %zu: %s", *row,
                       weft_status_message(status));
    cr_expect_eq(strncmp(weft_status_place(status), wrong[*row].place, strlen(wrong[*row].place)), 0, "row %zu: %s",
                 *row, weft_status_place(status));
    weft_status_free(status);
}

/* A bad node is reported once, not again by every node that uses it. */
Test(program_fx, one_problem_each) {
    static const char json[] = HEAD NODE("a", "aten.relu.default", REF("q")) ", " NODE(
        "b", "aten.relu.default", REF("a")) ", " NODE("c", "aten.relu.default", REF("z")) "]}";
    weft_program *p = NULL;
    weft_status status = try_read(json, strlen(json), &p);
    cr_assert_not_null(strstr(weft_status_message(status), "\"q\" is not defined before it (and 1 more)"));
    weft_status_free(status);
}

/* --- hostile ------------------------------------------------------------------------------------------------------ */

static void read_any(const char *json, size_t nbytes) {
    weft_program *p = NULL;
    char *bytes = NULL;
    size_t n = 0;
    char *exact = malloc(nbytes ? nbytes : 1); /* so that reading beyond it is seen */
    memcpy(exact, json, nbytes);
    weft_status status = try_read(exact, nbytes, &p);
    free(exact);
    if (!status) status = weft_program_print(p, WEFT_FORM_FX, &bytes, &n);
    weft_bytes_free(context, bytes, n);
    weft_program_destroy(p);
    weft_status_free(status);
}

Test(program_fx, every_prefix_and_flips) {
    size_t nbytes = sizeof odd - 1;
    char copy[sizeof odd];
    uint32_t seed = 1;
    for (size_t n = 0; n < nbytes; n++) read_any(odd, n);
    for (int i = 0; i < 2000; i++) {
        memcpy(copy, odd, sizeof odd);
        for (int k = 0; k < 2; k++) {
            seed = seed * 1664525 + 1013904223;
            copy[seed % nbytes] = "\"{}[],:0a\\-\0n"[(seed >> 20) % 13];
        }
        read_any(copy, nbytes);
    }
    cr_expect(true);
}

Test(program_fx, deep_and_wide) {
    enum { DEPTH = 100000 };
    static char json[2 * DEPTH + 200];
    int at = snprintf(json, sizeof json, "{\"schema\": \"fx.json/1\", \"nodes\": [{\"name\": \"r\", \"args\": ");
    memset(json + at, '[', DEPTH);
    read_any(json, (size_t)at + DEPTH);
    memset(json + at, ' ', DEPTH);
    for (int i = 0; i < DEPTH / 2; i++) memcpy(json + at + 2 * i, "0,", 2);
    read_any(json, (size_t)at + DEPTH);
    cr_expect(memory.peak < (16 << 20) + 16 * sizeof json);
}

/* Text of nodes in a file of another form is not believed. */
Test(program_fx, bad_text_of_a_node) {
    static const char *const texts[] = {"'{'", "'[]'",
                                        "'{\"target\":\"aten.relu.default\",\"args\":[{\"arg\":1}],\"kwargs\":{}}'",
                                        "'{\"target\":\"aten.relu.default\",\"args\":[{\"arg\":[0,9]}],\"kwargs\":{}}'",
                                        "'{\"target\":\"aten.relu.default\",\"args\":[],\"kwargs\":{},\"out\":[0,1]}'"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char yaml[500], *bytes = NULL;
        size_t nbytes = 0;
        weft_program *p = NULL;
        snprintf(yaml, sizeof yaml,
                 "weft: 1\nblocks:\n- vars: {x: {float32: [1]}, y: {float32: [1]}}\n  ops:\n"
                 "  - {relu: {X: [x]}, out: {Out: [y]}, attrs: {fx_node: %s}}\n",
                 texts[i]);
        cr_assert_null(weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "y", &p));
        weft_status status = weft_program_print(p, WEFT_FORM_FX, &bytes, &nbytes);
        cr_expect_eq(status != NULL, i == 0, "%zu", i);
        if (!status) cr_expect_not_null(strstr(bytes, "weft.relu"), "%zu", i);
        weft_bytes_free(context, bytes, nbytes);
        weft_status_free(status);
        weft_program_destroy(p);
    }
}

Test(program_fx, no_memory) {
    for (size_t n = 1;; n++) {
        memory.nrequests = 0;
        memory.failed = false;
        memory.fail_at = n;
        weft_program *p = NULL;
        char *bytes = NULL;
        size_t nbytes = 0;
        weft_status status = try_read(odd, sizeof odd - 1, &p);
        if (!status) status = weft_program_print(p, WEFT_FORM_FX, &bytes, &nbytes);
        memory.fail_at = 0;
        weft_bytes_free(context, bytes, nbytes);
        weft_program_destroy(p);
        cr_assert_eq(status != NULL, memory.failed, "request %zu", n);
        if (status)
            cr_expect_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY, "request %zu: %s", n,
                         weft_status_message(status));
        weft_status_free(status);
        if (!memory.failed) break;
    }
}
