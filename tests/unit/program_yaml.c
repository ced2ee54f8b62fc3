/* The YAML form: what is printed reads back, what people write is taken, what is wrong is reported with line and
 * column. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "base/context.h"
#include "program/ir.h"
#include "tests/support/table.h"
#include "weft/placement.h"

static weft_context *context;

/* What the sink was reported. */
static struct {
    size_t count;
    int line[8], column[8];
} reported;

static void on_diagnostic(void *user, const weft_diagnostic *d) {
    (void)user;
    if (reported.count < 8) {
        reported.line[reported.count] = d->line;
        reported.column[reported.count] = d->column;
    }
    reported.count++;
}

static void begin(void) {
    memset(&reported, 0, sizeof reported);
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = on_diagnostic};
    cr_assert_null(context_create_bare(&options, &context));
}
static void end(void) {
    context_destroy(context);
}
TestSuite(program_yaml, .init = begin, .fini = end);

static weft_status parse(const char *yaml, weft_program **out) {
    return weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "p.yaml", out);
}

static weft_program *parsed(const char *yaml) {
    weft_program *p = NULL;
    weft_status status = parse(yaml, &p);
    cr_assert_null(status, "%s: %s\n%s", weft_status_place(status), weft_status_message(status), yaml);
    return p;
}

/* The printed form of `p`, NUL-terminated; freed with free_printed. */
static char *print(const weft_program *p, size_t *out_nbytes) {
    char *bytes;
    cr_assert_null(weft_program_print(p, WEFT_FORM_YAML, &bytes, out_nbytes));
    return bytes;
}

static void free_printed(char *bytes, size_t nbytes) {
    weft_bytes_free(context, bytes, nbytes);
}

/* --- values of attrs ---------------------------------------------------------------------------------------------- */

/* What is written, what is printed (NULL: the same), and the type. */
typedef struct value_row {
    const char *written, *printed;
    attr_type type;
    size_t count;
} value_row;

static const value_row value_rows[] = {
    {"3", NULL, ATTR_INT, 0},
    {"-2147483648", NULL, ATTR_INT, 0},
    {"0x10", "16", ATTR_INT, 0},
    {"!int 3", "3", ATTR_INT, 0},
    {"!long 3", NULL, ATTR_LONG, 0},
    {"!long 9223372036854775807", NULL, ATTR_LONG, 0},
    {"!block 1", NULL, ATTR_BLOCK, 0},
    {"0.1", NULL, ATTR_FLOAT, 0},
    {"1e-05", NULL, ATTR_FLOAT, 0},
    {"3.0", NULL, ATTR_FLOAT, 0},
    {"-0.0", NULL, ATTR_FLOAT, 0},
    {"!float 3", "3.0", ATTR_FLOAT, 0},
    {".inf", NULL, ATTR_FLOAT, 0},
    {"-.inf", NULL, ATTR_FLOAT, 0},
    {".nan", NULL, ATTR_FLOAT, 0},
    {"!bits 0xFFC00001", NULL, ATTR_FLOAT, 0},
    {"!double 0.1", NULL, ATTR_FLOAT64, 0},
    {"!double 3", "!double 3.0", ATTR_FLOAT64, 0},
    {"!double [!bits 0xFFF8000000000001]", NULL, ATTR_FLOAT64, 0},
    {"true", NULL, ATTR_BOOLEAN, 0},
    {"relu", NULL, ATTR_STRING, 4},
    {"\"\"", NULL, ATTR_STRING, 0},
    {"\"3\"", NULL, ATTR_STRING, 1},
    {"\"true\"", NULL, ATTR_STRING, 4},
    {"!string 3", "\"3\"", ATTR_STRING, 1},
    {"!bytes \"\\xFF\\x00\"", NULL, ATTR_STRING, 2},
    {"!var x", NULL, ATTR_VAR, 1},
    {"!var [!bytes \"\\xFF\"]", NULL, ATTR_VAR, 1},
    {"[]", NULL, ATTR_INTS, 0},
    {"[1, -2]", NULL, ATTR_INTS, 2},
    {"!longs [1, 9223372036854775807]", NULL, ATTR_LONGS, 2},
    {"!longs []", NULL, ATTR_LONGS, 0},
    {"!blocks [0]", NULL, ATTR_BLOCKS, 1},
    {"[0.5, 1]", "[0.5, 1.0]", ATTR_FLOATS, 2},
    {"[1, 0.5]", "[1.0, 0.5]", ATTR_FLOATS, 2},
    {"!floats []", NULL, ATTR_FLOATS, 0},
    {"!doubles [0.1, .nan]", NULL, ATTR_FLOAT64S, 2},
    {"[true, false]", NULL, ATTR_BOOLEANS, 2},
    {"!bools []", NULL, ATTR_BOOLEANS, 0},
    {"[a, \"1\"]", NULL, ATTR_STRINGS, 2},
    {"!strings []", NULL, ATTR_STRINGS, 0},
    {"!vars [x]", NULL, ATTR_VARS, 1},
    {"!vars []", NULL, ATTR_VARS, 0},
    {"!scalar 3", NULL, ATTR_SCALAR, 0},
    {"!scalar 3.0", NULL, ATTR_SCALAR, 0},
    {"!scalar true", NULL, ATTR_SCALAR, 0},
    {"!scalar [1.0, -2.0]", NULL, ATTR_SCALAR, 0},
    {"!scalar {double: !bits 0xFFF8000000000001}", NULL, ATTR_SCALAR, 0},
    {"!scalars [1, 2.0, false, [0.0, 1.0]]", NULL, ATTR_SCALARS, 4},
};

TABLE_ROWS(program_yaml, values_keep_their_types, value_rows);
TABLE_TEST(size_t *index, program_yaml, values_keep_their_types) {
    const value_row *row = &value_rows[*index];
    char yaml[200], line[200];
    snprintf(yaml, sizeof yaml, "weft: 1\nblocks:\n- ops:\n  - {op: {}, attrs: {a: %s}}\n", row->written);
    snprintf(line, sizeof line, "attrs: {a: %s}}\n", row->printed ? row->printed : row->written);
    weft_program *p = parsed(yaml);
    const weft_attr *a = op_find_attr(p->blocks[0]->first, "a");
    cr_assert_not_null(a);
    cr_expect_eq(a->type, row->type, "%s is of type %d", row->written, a->type);
    cr_expect_eq(a->count, row->count, "%s", row->written);
    size_t nbytes;
    char *printed = print(p, &nbytes);
    cr_expect(strstr(printed, line), "%s is printed as\n%s", row->written, printed);
    weft_program *again = parsed(printed);
    cr_expect(weft_program_equal(p, again), "%s", row->written);
    free_printed(printed, nbytes);
    weft_program_destroy(p);
    weft_program_destroy(again);
}

Test(program_yaml, floats_are_rounded_once) {
    weft_program *p = parsed("weft: 1\nblocks:\n- ops: [{op: {}, attrs: {a: 0.1, b: 16777217}}]\n");
    cr_expect_eq(weft_op_attr_float(p->blocks[0]->first, "a", 0), (double)0.1f);
    cr_expect_eq(weft_op_attr_int(p->blocks[0]->first, "b", 0), 16777217);
    weft_program_destroy(p);
}

/* --- whole programs ----------------------------------------------------------------------------------------------- */

/* Everything that the form knows, as it is printed. */
static const char whole[] =
    "weft: 1\n"
    "version: 2006002\n"
    "op_versions: [[adam, 4]]\n"
    "unknown: !bytes \"\\xF8\\x07\"\n"
    "rank: 1\n"
    "rings:\n"
    "  0: [0, 1]\n"
    "  12: {ranks: [1, 0], type: p2p}\n"
    "meshes:\n"
    "- {shape: [2], ids: [0, 1], dims: [dp]}\n"
    "- {shape: [1, 2], ids: [3, 2]}\n"
    "params_grads:\n"
    "- [w, w@GRAD]\n"
    "dist_extra: \"{\\\"loss\\\":\\\"l\\\"}\"\n"
    "blocks:\n"
    "- idx: 0\n"
    "  parent: -1\n"
    "  unknown: \" \\x01\"\n"
    "  vars:\n"
    "    x: {float32: [-1, 32], lod: 0, persistable: false, need_check_feed: true, stop_gradient: true, dist: {mesh: "
    "0, "
    "dims_mapping: [-1, -1], partial: {0: max}, batch_dim: 1, chunk_id: 2, dynamic_dims: [1, 0], extra: \"{}\"}}\n"
    "    w: {bfloat16: [32], persistable: true, parameter: true, attrs: {a: 1, b: s, c: [1]}, unknown: \"0\\x01\", "
    "dist: "
    "null}\n"
    "    rows: {kind: selected_rows, float32: [4, 2]}\n"
    "    feed: {kind: feed_minibatch}\n"
    "    odd: {kind: 30, type_bytes: \"\\x08\\x1E\"}\n"
    "    fp8: {dtype: 32, dims: []}\n"
    "    none: {}\n"
    "  ops:\n"
    "  - {relu: {X: [x]}, out: {Out: [nobody], None: []}, attrs: {.callstack: 0, .role: backward, last: true}, target: "
    "true, unknown: \"P\\x01\", dist: {mesh: 0, impl: default, impl_idx: 2, recompute: false, stream: gradient_sync, "
    "record: e1, wait: [e2, e3], in: {x: [0, -1]}, out: {nobody: {mesh: null, dims_mapping: [0]}, w: {mesh: 1, "
    "dims_mapping: [[1, 0], -1]}}, extra: \"{\\\"stale\\\":1}\"}}\n"
    "  - {type: out, in: {}, dist: {}}\n"
    "  - {twice: [{X: [x, x]}, {X: []}], attrs: [{a: 1}, {a: 2}]}\n"
    "  - {\".role\": {}, attrs: {\".role\": 3, op_callstack: !strings []}}\n"
    "- idx: 1\n"
    "  parent: 0\n"
    "  forward: 0\n"
    "  vars:\n"
    "  - {v: {int64: [1]}}\n"
    "  - {v: {int64: [2]}}\n"
    "callstacks:\n"
    "- [\"  File \\\"a.py\\\"\", \"b\\n\"]\n";

Test(program_yaml, everything_survives) {
    weft_program *p = parsed(whole);
    size_t nbytes;
    char *printed = print(p, &nbytes);
    cr_expect_str_eq(printed, whole);
    weft_program *again = parsed(printed);
    cr_expect(weft_program_equal(p, again));
    free_printed(printed, nbytes);
    weft_program_destroy(p);
    weft_program_destroy(again);
}

/* The yaml blocks of docs/yaml-form.md; the last is in printed form. */
Test(program_yaml, examples_of_the_manual) {
    char *manual;
    size_t nbytes, count = 0, printed_nbytes;
    if (!file_exists("docs/yaml-form.md")) cr_skip_test("not in the source tree");
    cr_assert_null(file_read(&context->allocator, "docs/yaml-form.md", SIZE_MAX, &manual, &nbytes));
    for (char *at = manual, *end; (at = strstr(at, "```yaml\n")); at = end + 3) {
        at += strlen("```yaml\n");
        cr_assert_not_null(end = strstr(at, "```"));
        *end = '\0';
        weft_program *p = parsed(at);
        char *printed = print(p, &printed_nbytes);
        if (++count == 2) cr_expect_str_eq(printed, at);
        free_printed(printed, printed_nbytes);
        weft_program_destroy(p);
    }
    cr_expect_eq(count, 2);
    base_free(&context->allocator, manual, nbytes + 1);
}

Test(program_yaml, a_short_program_is_enough) {
    weft_program *p = parsed("weft: 1\n"
                             "blocks:\n"
                             "- vars: {x: {float32: [2]}, 'y': {float32: [2]}}\n"
                             "  ops:\n"
                             "  - relu: {X: x}\n"
                             "    out: {Out: 'y'}\n"
                             "- ops: [{relu: {X: x}}]\n");
    cr_expect_eq(p->nblocks, 2);
    cr_expect_eq(p->blocks[0]->parent_idx, -1);
    cr_expect_eq(p->blocks[1]->parent_idx, 0);
    const weft_op *inner = p->blocks[1]->first;
    cr_expect_eq(weft_op_input(inner, "X", 0), weft_block_var_at(p->blocks[0], 0), "the outer block's x");
    cr_expect_not(p->has_dist);
    cr_expect_not(weft_block_var_at(p->blocks[0], 0)->has_persistable);
    weft_program_destroy(p);
}

Test(program_yaml, mesh_axes_may_be_named) {
    weft_program *p = parsed("weft: 1\n"
                             "meshes: [{shape: [2, 2], ids: [0, 1, 2, 3], dims: [dp, mp]}]\n"
                             "blocks:\n"
                             "- vars: {x: {float32: [2, 2], dist: {dims_mapping: [[mp, dp], -1], mesh: 0}},\n"
                             "         w: {float32: [2], dist: {mesh: 0, dims_mapping: [1], partial: {dp: max}}}}\n");
    const placement *x = weft_block_var_at(p->blocks[0], 0)->dist, *w = weft_block_var_at(p->blocks[0], 1)->dist;
    cr_expect(weft_dims_entry(2, (const int64_t[]){1, 0}) == x->dims_mapping[0] && x->dims_mapping[1] == -1);
    cr_expect(w->dims_mapping[0] == 1 && w->partial_axes == 1 && w->partial_reduce[0] == WEFT_REDUCE_MAX);
    weft_program_destroy(p);
}

Test(program_yaml, outputs_may_come_first) {
    const char *const members[] = {"in: {X: [v, w], Y: [v]}", "out: {Out: [w]}"};
    weft_program *p[2];
    for (int first = 0; first < 2; first++) {
        char text_of[200];
        snprintf(text_of, sizeof text_of,
                 "weft: 1\nblocks:\n- {vars: {v: {float32: []}, w: {float32: []}}, ops: [{type: o, %s, %s}]}\n",
                 members[first], members[!first]);
        p[first] = parsed(text_of);
    }
    cr_expect_eq(weft_op_ninputs(p[1]->blocks[0]->first, "X"), 2);
    cr_expect(weft_program_equal(p[0], p[1]));
    weft_program_destroy(p[0]);
    weft_program_destroy(p[1]);
}

/* A name may belong to a block that stands later. */
Test(program_yaml, later_blocks_are_found) {
    weft_program *p = parsed("weft: 1\nblocks:\n- {parent: 1, ops: [{relu: {X: [v]}, out: {Out: [v]}}]}\n"
                             "- {parent: -1, vars: {v: {float32: []}}}\n");
    const weft_op *op = p->blocks[0]->first;
    cr_expect_eq(weft_op_input(op, "X", 0), weft_block_var_at(p->blocks[1], 0));
    cr_expect_eq(weft_op_output(op, "Out", 0), weft_block_var_at(p->blocks[1], 0));
    weft_program_destroy(p);
}

Test(program_yaml, long_and_hostile_names_survive) {
    enum { LONG = 3000 };
    static char long_name[LONG];
    memset(long_name, 'n', LONG);
    static const struct {
        const char *bytes;
        size_t nbytes;
    } names[] = {{long_name, LONG}, {"", 0},     {"a: b", 4},     {"null", 4},
                 {"<<", 2},         {"x\0y", 3}, {"\xff\xfe", 2}, {"- #", 3}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        weft_program *p;
        weft_op *op;
        weft_var *v;
        uint32_t s;
        weft_attr *a;
        const name *n;
        cr_assert_null(weft_program_create(context, &p));
        cr_assert_null(program_name(p, names[i].bytes, names[i].nbytes, &n));
        cr_assert_null(block_add_var(p->blocks[0], n, &v));
        cr_assert_null(op_create(p, n, &op));
        cr_assert_null(op_append_slot(op, false, n, &s));
        cr_assert_null(op_append_arg(op, false, s, v));
        cr_assert_null(op_append_attr(op, n, &a));
        a->type = ATTR_STRING;
        attr_set_text(a, (text){names[i].bytes, names[i].nbytes});
        weft_block_insert_before(p->blocks[0], NULL, op);
        size_t nbytes;
        char *printed = print(p, &nbytes);
        weft_program *again = parsed(printed);
        cr_expect(weft_program_equal(p, again), "name %zu:\n%s", i, printed);
        free_printed(printed, nbytes);
        weft_program_destroy(p);
        weft_program_destroy(again);
    }
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

typedef struct wrong_row {
    const char *yaml;
    int line, column;
    const char *message;
} wrong_row;

static const wrong_row wrong_rows[] = {
    {"", 0, 0, "expected a document"},
    {"- 1\n", 1, 1, "expected a program"},
    {"blocks: []\n", 1, 1, "expected weft: 1"},
    {"weft: 1\n", 1, 1, "expected blocks"},
    {"weft: 1\nblock: []\n", 2, 1, "found \"block\""},
    {"weft: 1\nweft: 1\n", 2, 1, "given twice"},
    {"weft: one\nblocks: []\n", 1, 7, "expected an integer, found \"one\""},
    {"weft: 1\nblocks: [{idx: 3}]\n", 0, 0, "expected idx 0, found 3"},
    {"weft: 1\nblocks: [{parent: 0}]\n", 0, 0, "cycle through block 0"},
    {"weft: 1\nblocks: [{parent: 9}]\n", 0, 0, "expected a parent_idx from -1 to 0, found 9"},
    {"weft: 1\nblocks: [{op: []}]\n", 2, 11, "found \"op\""},
    {"weft: 1\nblocks: [{ops: [], vars: {}}]\n", 2, 20, "expected vars before ops"},
    {"weft: 1\nblocks: []\nmeshes: []\n", 3, 1, "expected meshes before blocks"},
    {"weft: 1\nblocks:\n- vars:\n    x: 3\n", 4, 8, "variable \"x\": expected a mapping"},
    {"weft: 1\nblocks:\n- vars:\n    x: {float99: [1]}\n", 4, 9, "found \"float99\""},
    {"weft: 1\nblocks:\n- vars:\n    x: {float32: [a]}\n", 4, 19, "dims: expected an integer, found \"a\""},
    {"weft: 1\nblocks:\n- vars:\n    x: {float32: [], int64: []}\n", 4, 22, "expected one element type"},
    {"weft: 1\nblocks:\n- vars:\n    x: {persistable: 1}\n", 4, 22, "expected true or false"},
    {"weft: 1\nblocks:\n- vars:\n    x: {kind: tensr}\n", 4, 15, "kind"},
    {"weft: 1\nblocks:\n- vars:\n    x: {}\n    x: {}\n", 5, 5, "declared twice"},
    {"weft: 1\nblocks:\n- vars:\n    x: {attrs: {a: 1.5}}\n", 4, 8, "expected an int, a string"},
    {"weft: 1\nblocks:\n- vars:\n    x: {dist: {mesh: 0}}\n", 4, 22, "expected \"meshes\" before"},
    {"weft: 1\nmeshes: [{shape: [2], ids: [0]}]\nblocks: []\n", 2, 10, "as many ids as the shape has places"},
    {"weft: 1\nmeshes: [{shape: [2], ids: [0, 1]}]\nblocks: [{vars: {x: {dist: {mesh: 1}}}}]\n", 3, 35, "from 0 to 0"},
    {"weft: 1\nmeshes: [{shape: [2], ids: [0, 1]}]\nblocks: [{vars: {x: {dist: {mesh: 0, dims_mapping: [1]}}}}]\n", 3,
     28, "mesh axis"},
    {"weft: 1\nmeshes: [{shape: [2], ids: [0, 1], dims: [dp]}]\n"
     "blocks: [{vars: {x: {dist: {dims_mapping: [mp], mesh: 0}}}}]\n",
     3, 44, "dims_mapping: expected an axis of dp, found \"mp\""},
    {"weft: 1\nmeshes: [{shape: [2], ids: [0, 1]}]\nblocks: [{vars: {x: {dist: {mesh: 0, partial: [dp]}}}}]\n", 3, 48,
     "partial mesh axis: expected an axis by number, since the mesh names none, found \"dp\""},
    {"weft: 1\nrings: {0: [0, 0]}\nblocks: []\n", 2, 12, "0"},
    {"weft: 1\nrings: {a: [0]}\nblocks: []\n", 2, 9, "the id of a ring"},
    {"weft: 1\nblocks:\n- ops: [{}]\n", 3, 9, "expected an op"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {X: [x]}, outs: {}}\n", 4, 22, "op \"relu\": expected out"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {X: {}}}\n", 4, 16, "slot \"X\""},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: 4294967296}}\n", 4, 27, "write !long"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: 1e40}}\n", 4, 27, "write !double"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: ~}}\n", 4, 27, "expected a value"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: {}}}\n", 4, 27, "found a mapping"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: !lng 3}}\n", 4, 27, "!lng"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: [1, b]}}\n", 4, 31, "items of one type"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: !longs 3}}\n", 4, 27, "expected a list after !longs"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {a: !bits 12}}\n", 4, 27, "hexadecimal"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {.role: up}}\n", 4, 31, ".role: expected forward"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {.rôle: up}}\n", 4, 24, "expected .role or .callstack"},
    {"weft: 1\nblocks:\n- ops:\n  - {relu: {}, attrs: {.callstack: 0}}\n", 4, 36, "one of 0 call stacks, found 0"},
    {"weft: 1\nblocks: *a\n", 2, 9, "aliases are not read"},
    {"weft: 1\nblocks: &a []\n", 2, 9, "aliases are not read"},
    {"weft: 1\nblocks: []\n---\nweft: 1\n", 3, 1, "one document"},
    {"weft: 1\nblocks: [{ops: [{a: {b: [c}]}]\n", 2, 27, "expected YAML"},
};

TABLE_ROWS(program_yaml, wrong_text_is_told_with_its_place, wrong_rows);
TABLE_TEST(size_t *index, program_yaml, wrong_text_is_told_with_its_place) {
    const wrong_row *row = &wrong_rows[*index];
    weft_program *p;
    weft_status status = parse(row->yaml, &p);
    cr_assert_not_null(status, "accepted:\n%s", row->yaml);
    cr_expect(strstr(weft_status_message(status), row->message), "%s\n%s", row->yaml, weft_status_message(status));
    char place[40] = "p.yaml";
    if (row->line) snprintf(place, sizeof place, "p.yaml:%d:%d", row->line, row->column);
    if (row->line) {
        cr_expect_str_eq(weft_status_place(status), place, "%s\n%s: %s", row->yaml, weft_status_place(status),
                         weft_status_message(status));
        cr_expect_eq(reported.line[0], row->line);
        cr_expect_eq(reported.column[0], row->column);
    }
    cr_expect_gt(reported.count, 0, "the sink was reported nothing of\n%s", row->yaml);
    weft_status_free(status);
}

Test(program_yaml, every_problem_is_reported) {
    weft_program *p;
    weft_status status = parse("weft: 1\n"
                               "blocks:\n"
                               "- vars:\n"
                               "    x: {flaot32: [1]}\n"
                               "    z: {float32: [1]}\n"
                               "  ops:\n"
                               "  - {relu: {X: [z]}, outs: {}}\n"
                               "  - {relu: {X: [z]}, out: {Out: [z]}}\n"
                               "  - {relu: {X: [z]}, attrs: {a: {}}}\n",
                               &p);
    cr_assert_eq(weft_status_code(status), WEFT_PARSE);
    cr_expect(strstr(weft_status_message(status), "(and 2 more)"), "%s", weft_status_message(status));
    cr_expect_str_eq(weft_status_place(status), "p.yaml:4:9");
    cr_expect_eq(reported.count, 3);
    cr_expect_eq(reported.line[1], 7);
    cr_expect_eq(reported.line[2], 9);
    weft_status_free(status);
}
