/* plan_text.c: the text form refuses what could not be executed, with line and column, and never crashes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/plan.h"

static const char good[] =
    "weft_plan: 1\n"
    "rank: -1\n"
    "streams: [compute, s]\n"
    "persistent_nbytes: 64\n"
    "temporary_nbytes: 256\n"
    "removed_ops: 0\n"
    "rings:\n"
    "- {id: 0, ranks: [0, 1]}\n"
    "values:\n"
    "- {name: a, dtype: float32, dims: [16], space: persistent, offset: 0, is: [feed, read_first]}\n"
    "- {name: b, dtype: float32, dims: [16], space: temporary, offset: 0, is: [written]}\n"
    "- {name: part, dtype: float32, dims: [8], space: temporary, offset: 32, view_of: b}\n"
    "- {name: c, dtype: bool, dims: [1], space: temporary, offset: 192}\n"
    "instructions:\n"
    "- {op: relu, index: 0, stream: compute, in: {X: [a]}, out: {Out: [b]}, if: [c]}\n"
    "- {op: all_reduce, index: 1, stream: s, in: {x: [b]}, out: {out: [b]}, after: {compute: 1}, "
    "attrs: {ring_id: 0, reduce_type: 4}}\n";

typedef struct edit {
    const char *from, *to, *place, *message;
} edit;

static const edit edits[] = {
    {"weft_plan: 1", "weft_plan: 2", "p.plan:1:12", "weft_plan: expected an integer from 1 to 1"},
    {"rank: -1\n", "", "p.plan:2:1", "the key \"rank\" is missing before \"streams\""},
    {"removed_ops: 0", "rank: 0", "p.plan:6:1", "\"rank\" is repeated"},
    {"rank: -1", "tank: -1", "p.plan:2:1", "unknown key \"tank\""},
    {"[compute, s]", "[s, s]", "p.plan:3:14", "stream \"s\" is listed twice"},
    {"[compute, s]", "[]", "p.plan:3:10", "expected 1 to"},
    {"ranks: [0, 1]", "ranks: [0, 0]", "p.plan:8", ""},
    {"name: b,", "name: a,", "p.plan:11:10", "the name \"a\" is taken"},
    {"dims: [1]", "dims: [-1]", "p.plan:13", "dims: expected an integer from 0"},
    {"dtype: bool", "dtype: bull", "p.plan:13:20", "\"bull\" is no element type"},
    {"dims: [1]", "dims: [70000000000000, 70000000000000]", "p.plan:13", "more than 2^46 bytes"},
    {"offset: 192", "offset: 256", "p.plan:13", "the value ends at 257, its space has 256 bytes"},
    {"temporary, offset: 0", "temporary, offset: 8", "p.plan:11", "expected a multiple of 16"},
    {"offset: 32", "offset: 36", "p.plan:12", "\"part\" does not lie within \"b\""},
    {"view_of: b", "view_of: part", "p.plan:12", "views of views go round"},
    {"view_of: b", "view_of: zz", "p.plan:12", "no value is named \"zz\""},
    {"is: [written]", "is: [lost]", "p.plan:11", "expected persistable, feed"},
    {"op: relu", "op: rely", "p.plan:15:8", "\"rely\" is no op that can be an instruction"},
    {"op: relu", "op: nop", "p.plan:15:8", "no op that can be"},
    {"{X: [a]}", "{Y: [a]}", "p.plan:15", "input slot X is empty"},
    {"{X: [a]}", "{X: [a], Y: [a]}", "p.plan:15", "no such slots"},
    {"{X: [a]}", "{X: [zz]}", "p.plan:15", "no value is named \"zz\""},
    {"{X: [a]}", "{X: [null]}", "p.plan:15", "no value is named"},
    {"{X: [a]}", "{X: [part]}", "p.plan:15", "output \"b\" has two types"},
    {"if: [c]", "if: [a]", "p.plan:15", "\"a\" is not one boolean"},
    {"stream: s,", "stream: z,", "p.plan:16", "no stream is named \"z\""},
    {"compute: 1}", "compute: 2}", "p.plan:16", "after: expected an integer from 1 to 1"},
    {"compute: 1}", "s: 1}", "p.plan:16", "does not wait for itself"},
    {"ring_id: 0", "ring_id: x", "p.plan:16", "expected an integer"},
    {"ring_id: 0", "ring_id: -1", "p.plan:16", "ring_id is negative"},
    {"reduce_type: 4", "reduced_type: 4", "p.plan:16", "has no attr of that name"},
    {"- {name: part", "- {nome: part", "p.plan:12", "unknown key \"nome\""},
};

static weft_context *ctx;
static void start(void) {
    cr_assert_null(weft_context_create(NULL, &ctx));
}
static void stop(void) {
    weft_context_destroy(ctx);
}
TestSuite(plan_text, .init = start, .fini = stop);

static weft_status parse(const char *source, size_t nbytes) {
    weft_plan *plan = NULL;
    weft_status status = weft_plan_parse(ctx, source, nbytes, "p.plan", &plan);
    weft_plan_destroy(plan);
    return status;
}

Test(plan_text, good_is_good) {
    weft_status status = parse(good, strlen(good));
    cr_assert_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
}

/* The example in docs/plan.md is what it says. */
Test(plan_text, example_of_the_manual_is_a_plan) {
    char page[20000];
    FILE *f = fopen("docs/plan.md", "rb");
    if (!f) cr_skip_test("not run in the source tree");
    size_t n = fread(page, 1, sizeof page - 1, f);
    fclose(f);
    page[n] = 0;
    char *example = strstr(page, "```yaml\n");
    cr_assert_not_null(example);
    example += strlen("```yaml\n");
    weft_status status = parse(example, (size_t)(strstr(example, "```") - example));
    cr_expect_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
}

Test(plan_text, errors_have_line_and_column) {
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const edit *e = &edits[i];
        char source[sizeof good + 200];
        const char *at = strstr(good, e->from);
        cr_assert_not_null(at, "%s", e->from);
        snprintf(source, sizeof source, "%.*s%s%s", (int)(at - good), good, e->to, at + strlen(e->from));
        weft_status status = parse(source, strlen(source));
        cr_expect_eq(weft_status_code(status), WEFT_PARSE, "%s -> %s: accepted", e->from, e->to);
        cr_expect(strncmp(weft_status_place(status), e->place, strlen(e->place)) == 0, "%s -> %s: at %s, expected %s",
                  e->from, e->to, weft_status_place(status), e->place);
        cr_expect_not_null(strstr(weft_status_message(status), e->message), "%s -> %s: \"%s\", expected \"%s\"",
                           e->from, e->to, weft_status_message(status), e->message);
        weft_status_free(status);
    }
}

Test(plan_text, survives_truncation_and_flips) {
    size_t n = strlen(good);
    char *source = malloc(n);
    for (size_t k = 0; k < n; k++) weft_status_free(parse(good, k));
    unsigned state = 1;
    for (int k = 0; k < 4000; k++) {
        memcpy(source, good, n);
        for (int flips = 0; flips < 2; flips++) {
            state = state * 1664525u + 1013904223u;
            source[(state >> 8) % n] ^= (char)(1 << (state >> 4 & 7));
        }
        weft_status_free(parse(source, n));
    }
    free(source);
}

/* Attrs of every type: what kernels read from the plan that was read back is what they read from the program. */
Test(plan_text, attrs_keep_their_values) {
    static const char program[] =
        "weft: 1\nblocks:\n- vars:\n    a: {float32: [4]}\n    b: {float32: [4]}\n  ops:\n"
        "  - {scale: {X: [a]}, out: {Out: [b]}, attrs: {scale: 0.1, bias: !double 0.1, bias_after_scale: 0}}\n"
        "  - {assign_value: {}, out: {Out: [a]}, attrs: {shape: [4], dtype: 5, values: !scalars [1.5, 2.0, 0.1, "
        "-1.0]}}\n"
        "  - {fill_constant: {}, out: {Out: [b]}, attrs: {shape: !longs [4], str_value: \"null\", value: .inf, dtype: "
        "5}}\n";
    weft_program *p;
    weft_plan *plan, *read;
    char *source, *again;
    size_t nbytes, nagain;
    weft_status status = weft_program_parse(ctx, WEFT_FORM_YAML, program, strlen(program), NULL, 0, "p.yaml", &p);
    cr_assert_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
    status = weft_plan_create(p, NULL, &plan);
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_assert_null(weft_plan_print(plan, &source, &nbytes));
    status = weft_plan_parse(ctx, source, nbytes, "p.plan", &read);
    cr_assert_null(status, "%s: %s\n%s", weft_status_place(status), weft_status_message(status), source);
    cr_assert_null(weft_plan_print(read, &again, &nagain));
    cr_expect(nbytes == nagain && memcmp(source, again, nbytes) == 0, "%s\n%s", source, again);
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const weft_op *x = plan->instrs[i].op, *y = read->instrs[i].op;
        cr_expect_eq(attr_float(x, "scale", 0), attr_float(y, "scale", 0));
        cr_expect_eq(attr_float(x, "bias", 0), attr_float(y, "bias", 0));
        cr_expect_eq(attr_float(x, "value", 0), attr_float(y, "value", 0));
        cr_expect_eq(attr_bool(x, "bias_after_scale", true), attr_bool(y, "bias_after_scale", true));
        cr_expect_str_eq(attr_string(x, "str_value", "-"), attr_string(y, "str_value", "-"));
        const weft_attr *v = op_find_attr(x, "values"), *w = op_find_attr(y, "values");
        cr_expect(!v || (w && attr_equal(v, w)), "%s", source);
    }
    weft_bytes_free(ctx, source, nbytes);
    weft_bytes_free(ctx, again, nagain);
    weft_plan_destroy(plan);
    weft_plan_destroy(read);
    weft_program_destroy(p);
}
