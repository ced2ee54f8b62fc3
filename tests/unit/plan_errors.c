/* plan_errors.c: programs that cannot be planned, and what is said about them; feeds and fetches that do not fit. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "plan/plan.h"

typedef struct refusal {
    const char *program, *fetch, *expected;
    weft_code code;
} refusal;

#define VARS                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    a: {float32: [16]}\n    b: {float32: [16]}\n    u: {float32: [-1, 4]}\n"           \
    "    c: {bool: [1]}\n    r: {kind: raw}\n    h: {float32: [17592186044416, 4]}\n    f: {float32: [-1]}\n"          \
    "    g: {float32: [-1]}\n  ops:\n"
#define CONDITIONAL(n)                                                                                                 \
    "  - {conditional_block: {Cond: [c]}, out: {}, attrs: {is_scalar_condition: true, sub_block: !block " n "}}\n"
#define BUCKET(in, out, fused)                                                                                         \
    "  - {coalesce_tensor: {Input: " in "}, out: {Output: " out ", FusedOutput: " fused "}, attrs: {dtype: 5}}\n"

static const refusal refusals[] = {
    {VARS "  - {not_an_op: {X: [a]}, out: {Out: [b]}}\n", NULL, "not_an_op #0: no such op", WEFT_UNSUPPORTED},
    {VARS "  - {relu: {X: [u]}, out: {Out: [b]}}\n", NULL, "relu #0: \"u\" has extent -1 on axis 0",
     WEFT_INVALID_PROGRAM},
    {VARS "  - {masked_select: {X: [a], Mask: [b]}, out: {Y: [f]}}\n  - {relu: {X: [f]}, out: {Out: [g]}}\n", NULL,
     "masked_select #0: the extent of \"f\" on axis 0 depends on data", WEFT_UNSUPPORTED},
    {VARS "  - {masked_select: {X: [u], Mask: [b]}, out: {Y: [f]}}\n", NULL, "masked_select #0: \"u\" has extent -1 on axis 0",
     WEFT_INVALID_PROGRAM},
    {VARS "  - {relu: {X: [u]}, out: {Out: [b]}}\n  - {one: {X: [b]}, out: {Out: [b]}}\n" CONDITIONAL("1")
         "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n  - {two: {X: [b]}, out: {Out: [b]}}\n  - {one: {X: [b]}, out: {Out: [b]}}\n",
     NULL, "one #1: no such op is in the op table (weft ops lists it); nor are: two", WEFT_UNSUPPORTED},
    {VARS "  - {relu: {X: [r]}, out: {Out: [b]}}\n", NULL, "\"r\" is not a tensor", WEFT_UNSUPPORTED},
    {VARS "  - {relu: {X: [nobody]}, out: {Out: [b]}}\n", NULL, "\"nobody\"", WEFT_INVALID_PROGRAM},
    {VARS "  - {relu: {X: [h]}, out: {Out: [h]}}\n", NULL, "\"h\" has more than 2^46 bytes", WEFT_LIMIT},
    {VARS "  - {relu: {X: [a], Z: [a]}, out: {Out: [b]}}\n", NULL, "input slot Z is not one", WEFT_UNSUPPORTED},
    {VARS "  - {relu: {X: [a]}, out: {Out: [b]}}\n", "nobody", "fetch \"nobody\": block 0 has no such var",
     WEFT_NOT_FOUND},
    {VARS "  - {relu: {X: [a]}, out: {Out: []}}\n", NULL, "output slot Out is empty", WEFT_INVALID_PROGRAM},
    {VARS "  - {fill_constant: {}, out: {Out: [a]}, attrs: {shape: !longs [4], dtype: 5}}\n"
          "  - {fill_constant: {}, out: {Out: [a]}, attrs: {shape: !longs [8], dtype: 5}}\n",
     NULL, "fill_constant #0: output \"a\" has two types", WEFT_UNSUPPORTED},
    {VARS "  - {conditional_block: {Cond: [a]}, out: {}, attrs: {is_scalar_condition: true, sub_block: !block 1}}\n"
          "- idx: 1\n  parent: 0\n  vars: {}\n  ops: []\n",
     NULL, "\"a\" is not one boolean", WEFT_INVALID_PROGRAM},
    {VARS CONDITIONAL("1") CONDITIONAL("1") "- idx: 1\n  parent: 0\n  vars: {}\n  ops: []\n", NULL,
     "block 1 is run by another op too", WEFT_UNSUPPORTED},
    {VARS CONDITIONAL("1") "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n" CONDITIONAL(
         "2") "- idx: 2\n  parent: 1\n  vars: {}\n  ops:\n" CONDITIONAL("3") "- idx: 3\n  parent: 2\n  vars: {}\n  "
                                                                             "ops: []\n",
     NULL, "nest deeper than 2", WEFT_LIMIT},
    {VARS BUCKET("[a, b]", "[a, b]", "[f]") BUCKET("[b, a]", "[b, a]", "[g]"), NULL,
     "\"b\" is a part of the buffer \"f\" already", WEFT_UNSUPPORTED},
    {VARS BUCKET("[a]", "[a]", "[a]"), NULL, "which is a part of it", WEFT_INVALID_PROGRAM},
    {VARS "  - {c_allreduce_sum: {X: [a]}, out: {Out: [a]}, attrs: {ring_id: -2}}\n", NULL, "ring_id is -2",
     WEFT_INVALID_PROGRAM},
};

static weft_program *parse(weft_context *ctx, const char *source) {
    weft_program *p;
    weft_status status = weft_program_parse(ctx, WEFT_FORM_YAML, source, strlen(source), NULL, 0, "p.yaml", &p);
    cr_assert_null(status, "%s: %s\n%s", weft_status_place(status), weft_status_message(status), source);
    return p;
}

Test(plan_errors, are_said_in_words) {
    weft_context *ctx;
    cr_assert_null(weft_context_create(NULL, &ctx));
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        weft_program *p = parse(ctx, r->program);
        weft_plan *plan = NULL;
        weft_plan_options options = {WEFT_PLAN_OPTIONS_INIT, .fetches = &r->fetch, .nfetches = r->fetch ? 1 : 0};
        weft_status status = weft_plan_create(p, &options, &plan);
        cr_expect_not_null(strstr(weft_status_message(status), r->expected), "%zu: expected \"%s\", found \"%s\"", i,
                           r->expected, weft_status_message(status));
        cr_expect_eq(weft_status_code(status), r->code, "%zu: \"%s\": %s", i, r->expected,
                     weft_code_name(weft_status_code(status)));
        weft_status_free(status);
        weft_plan_destroy(plan);
        weft_program_destroy(p);
    }
    weft_context_destroy(ctx);
}

/* The type of a feed replaces what the program declares, and shapes follow. */
Test(plan_errors, feeds_give_shapes) {
    weft_context *ctx;
    weft_plan *plan;
    cr_assert_null(weft_context_create(NULL, &ctx));
    weft_program *p = parse(ctx, VARS "  - {relu: {X: [u]}, out: {Out: [f]}}\n");
    weft_feed_type feeds[] = {
        {"u", WEFT_FP32, 2, {3, 4}, NULL}, {"a", WEFT_FP32, 1, {5}, NULL}, {"none", WEFT_FP32, 1, {5}, NULL}};
    cr_assert_null(
        weft_plan_create(p, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .feeds = feeds, .nfeeds = 2}, &plan));
    size_t nfeeds = 0;
    for (size_t i = 0; i < weft_plan_nvalues(plan); i++) {
        weft_plan_value v;
        weft_plan_value_at(plan, i, &v);
        nfeeds += v.is_feed;
        if (strcmp(v.name, "u") == 0) cr_expect(v.is_feed && v.is_read_first && !v.is_written && v.dims[0] == 3);
        if (strcmp(v.name, "a") == 0) cr_expect(v.is_feed && !v.is_read_first && v.dims[0] == 5);
        if (strcmp(v.name, "f") == 0) cr_expect(!v.is_feed && v.is_written && v.ndim == 2 && v.dims[1] == 4);
    }
    cr_expect_eq(nfeeds, 2);
    weft_plan_destroy(plan);
    plan = NULL;
    weft_status status =
        weft_plan_create(p, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .feeds = feeds, .nfeeds = 3}, &plan);
    cr_expect_not_null(strstr(weft_status_message(status), "feed \"none\": block 0 has no such var"));
    weft_status_free(status);
    weft_program_destroy(p);
    weft_context_destroy(ctx);
}

/* A parameter that is written under a condition and then read keeps its value where the condition is false. */
Test(plan_errors, skipped_writes_do_not_make_a_parameter) {
    static const char source[] =
        "weft: 1\nblocks:\n- vars:\n    a: {float32: [4], persistable: true}\n    p: {float32: [4], persistable: "
        "true}\n"
        "    q: {float32: [4], persistable: true}\n    b: {float32: [4]}\n    n: {float32: [1]}\n    c: {bool: [1]}\n  "
        "ops:\n"
        "  - {equal: {X: [n], \"Y\": [n]}, out: {Out: [c]}}\n" CONDITIONAL(
            "1") "  - {relu: {X: [p]}, out: {Out: [b]}}\n- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n"
                 "  - {relu: {X: [a]}, out: {Out: [p]}}\n  - {relu: {X: [a]}, out: {Out: [q]}}\n"
                 "  - {relu: {X: [q]}, out: {Out: [b]}}\n";
    weft_context *ctx;
    weft_plan *plan;
    cr_assert_null(weft_context_create(NULL, &ctx));
    weft_program *p = parse(ctx, source);
    cr_assert_null(weft_plan_create(p, NULL, &plan));
    for (size_t i = 0; i < plan->nvalues; i++) {
        const plan_value *v = &plan->values[i];
        if (v->persistable) cr_expect_eq(v->is_read_first, strcmp(v->name, "q") != 0, "%s", v->name);
    }
    weft_plan_destroy(plan);
    weft_program_destroy(p);
    weft_context_destroy(ctx);
}

/* A sparse gradient is two values; its collectives are refused. */
Test(plan_errors, sparse_gradients_have_rows) {
    static const char source[] = "weft: 1\nblocks:\n- vars:\n    w: {float32: [10, 4], persistable: true}\n"
                                 "    i: {int64: [3]}\n    g: {float32: [3, 4]}\n"
                                 "    d: {float32: [10, 4], kind: selected_rows}\n  ops:\n"
                                 "  - {lookup_table_v2_grad: {W: [w], Ids: [i], Out@GRAD: [g]}, out: {W@GRAD: [d]}, "
                                 "attrs: {is_sparse: true}}\n";
    weft_context *ctx;
    weft_plan *plan = NULL;
    char more[1000];
    cr_assert_null(weft_context_create(NULL, &ctx));
    weft_program *p = parse(ctx, source);
    weft_status status = weft_plan_create(p, NULL, &plan);
    cr_assert_null(status, "%s", weft_status_message(status));
    size_t found = 0;
    for (size_t i = 0; i < plan->nvalues; i++) {
        const plan_value *v = &plan->values[i];
        if (strcmp(v->name, "d") == 0) found += v->rows >= 0 && v->shape.dims[0] == 3 && v->shape.height == 10;
        if (strcmp(v->name, "d#rows") == 0)
            found += v->shape.dtype == WEFT_INT64 && v->shape.dims[0] == 3 && v->is_written;
    }
    cr_expect_eq(found, 2);
    weft_plan_destroy(plan);
    weft_program_destroy(p);
    snprintf(more, sizeof more, "%s  - {c_allreduce_sum: {X: [d]}, out: {Out: [d]}}\n", source);
    p = parse(ctx, more);
    status = weft_plan_create(p, NULL, &plan);
    cr_expect_not_null(strstr(weft_status_message(status), "c_allreduce_sum #1: \"d\" is SelectedRows"), "%s",
                       weft_status_message(status));
    weft_status_free(status);
    weft_program_destroy(p);
    weft_context_destroy(ctx);
}
