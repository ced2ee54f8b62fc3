/* Extents that a program computes from what is fed: shape, slice, arithmetic, concat, range. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/context.h"
#include "ops/infer.h"
#include "weft/context.h"
#include "weft/program.h"

static const char extents_program[] =
    "weft: 1\nblocks:\n- vars:\n"
    "    x: {float32: [-1, 6]}\n    s: {int32: [2]}\n    n: {int32: []}\n    f: {float32: []}\n    h: {float32: []}\n"
    "    zero: {float32: []}\n    one: {float32: []}\n    r: {float32: [-1]}\n    k: {int32: []}\n    c: {int32: [2]}\n"
    "    y: {float32: [-1, -1]}\n    t: {int32: [1]}\n    m: {bool: []}\n    w: {int32: []}\n    z: {float32: [-1]}\n"
    "  ops:\n"
    "  - {shape: {Input: [x]}, out: {Out: [s]}}\n"
    "  - {slice: {Input: [s]}, out: {Out: [n]}, attrs: {axes: [0], starts: [0], ends: [1], decrease_axis: [0]}}\n"
    "  - {cast: {X: [n]}, out: {Out: [f]}, attrs: {in_dtype: 2, out_dtype: 5}}\n"
    "  - {scale: {X: [f]}, out: {Out: [h]}, attrs: {scale: 0.5, bias: 0.25}}\n"
    "  - {fill_constant: {}, out: {Out: [zero]}, attrs: {shape: !longs [], value: 0.0, dtype: 5}}\n"
    "  - {fill_constant: {}, out: {Out: [one]}, attrs: {shape: !longs [], value: 1.0, dtype: 5}}\n"
    "  - {range: {Start: [zero], End: [h], Step: [one]}, out: {Out: [r]}}\n"
    "  - {slice: {Input: [s]}, out: {Out: [k]}, attrs: {axes: [0], starts: [-1], ends: [100], decrease_axis: [0]}}\n"
    "  - {stack: {X: [k, n]}, out: {Y: [c]}, attrs: {axis: 0}}\n"
    "  - {reshape2: {X: [x], Shape: [c]}, out: {Out: [\"y\"]}, attrs: {shape: [-1, -1]}}\n"
    "  - {less_than: {X: [k], Y: [n]}, out: {Out: [m]}}\n"
    "  - {where: {Condition: [m], X: [k], Y: [n]}, out: {Out: [w]}}\n"
    "  - {reshape2: {X: [w]}, out: {Out: [t]}, attrs: {shape: [1]}}\n"
    "  - {fill_constant: {ShapeTensor: [t]}, out: {Out: [z]}, attrs: {shape: !longs [-1], value: 2.0, dtype: 5}}\n";

static void infer_with(weft_context *context, int64_t batch, char *out, size_t nbytes) {
    static const char *const vars[] = {"r", "y", "z"};
    weft_program *p;
    arena scratch;
    shape_env env;
    arena_init(&scratch, &context->allocator);
    cr_assert_null(
        weft_program_parse(context, WEFT_FORM_YAML, extents_program, strlen(extents_program), NULL, 0, "extents", &p));
    cr_assert_null(shape_env_init(&env, p, &scratch));
    const weft_var *x = weft_block_find_var(p->blocks[0], "x");
    shape fed = {.dtype = WEFT_FP32, .ndim = 2, .dims = {batch, 6}, .height = -1};
    cr_assert_null(shape_env_set(&env, x, &fed));
    weft_status s = shape_infer_block(&env, p->blocks[0], &scratch);
    cr_assert_null(s, "%s", weft_status_message(s));
    size_t n = 0;
    for (size_t i = 0; i < 3; i++) {
        shape_text t;
        shape got = shape_env_get(&env, weft_block_find_var(p->blocks[0], vars[i]));
        n += (size_t)snprintf(out + n, nbytes - n, "%s%s", i ? " " : "", shape_print(&got, &t));
    }
    weft_program_destroy(p);
    arena_fini(&scratch);
}

Test(ops_fold, extents_follow_from_extents) {
    weft_context *context;
    char got[200];
    cr_assert_null(weft_context_create(NULL, &context));
    infer_with(context, 8, got, sizeof got); /* range(0, 4.25), [6, 8], min(6, 8) */
    cr_assert_str_eq(got, "[5] [6, 8] [6]");
    infer_with(context, 4, got, sizeof got);
    cr_assert_str_eq(got, "[3] [6, 4] [4]");
    infer_with(context, -1, got, sizeof got);
    cr_assert_str_eq(got, "[-1] [-1, -1] [-1]");
    weft_context_destroy(context);
}

/* --- what a run may leave undecided ------------------------------------------------------------------------------- */

#define PARTLY                                                                                                         \
    "weft: 1\nblocks:\n- idx: 0\n  parent: -1\n  vars:\n    c: {bool: [1]}\n    t: {bool: [1]}\n    f: {bool: [1]}\n"  \
    "    o: {bool: [1]}\n    n: {int64: [1]}\n    z: {float32: [-1]}\n  ops:\n"                                        \
    "  - {fill_constant: {}, out: {Out: [t]}, attrs: {shape: !longs [1], value: 1.0, dtype: 0}}\n"                     \
    "  - {fill_constant: {}, out: {Out: [f]}, attrs: {shape: !longs [1], value: 0.0, dtype: 0}}\n"                     \
    "  - {fill_constant: {}, out: {Out: [n]}, attrs: {shape: !longs [1], value: 2.0, dtype: 3}}\n"
#define BRANCH                                                                                                         \
    "  - {conditional_block: {Cond: [c]}, out: {}, attrs: {is_scalar_condition: true, sub_block: !block 1}}\n"
#define FILL_N(value)                                                                                                  \
    "  - {fill_constant: {}, out: {Out: [n]}, attrs: {shape: !longs [1], value: " value ", dtype: 3}}\n"

static const struct {
    const char *ops, *var;
    int64_t value; /* -1: not known */
} partly_known[] = {
    {"  - {logical_and: {X: [c], Y: [f]}, out: {Out: [o]}}\n", "o", 0},
    {"  - {logical_and: {X: [f], Y: [c]}, out: {Out: [o]}}\n", "o", 0},
    {"  - {logical_and: {X: [c], Y: [t]}, out: {Out: [o]}}\n", "o", -1},
    {"  - {logical_and: {X: [t], Y: [t]}, out: {Out: [o]}}\n", "o", 1},
    {"  - {logical_or: {X: [c], Y: [t]}, out: {Out: [o]}}\n", "o", 1},
    {"  - {logical_or: {X: [f], Y: [c]}, out: {Out: [o]}}\n", "o", -1},
    {"  - {logical_or: {X: [f], Y: [f]}, out: {Out: [o]}}\n", "o", 0},
    {BRANCH "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n" FILL_N("4.0"), "n", -1},
    {BRANCH FILL_N("6.0") "- idx: 1\n  parent: 0\n  vars: {}\n  ops:\n" FILL_N("4.0"), "n", 6},
};

Test(ops_fold, what_only_a_run_decides_is_not_known) {
    weft_context *context;
    cr_assert_null(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof partly_known / sizeof *partly_known; i++) {
        char source[2000];
        weft_program *p;
        arena scratch;
        shape_env env;
        int nbytes = snprintf(source, sizeof source, PARTLY "%s", partly_known[i].ops);
        cr_assert_lt(nbytes, (int)sizeof source);
        arena_init(&scratch, &context->allocator);
        cr_assert_null(weft_program_parse(context, WEFT_FORM_YAML, source, strlen(source), NULL, 0, "partly", &p));
        cr_assert_null(shape_env_init(&env, p, &scratch));
        cr_assert_null(shape_infer_block(&env, p->blocks[0], &scratch));
        const weft_var *v = weft_block_find_var(p->blocks[0], partly_known[i].var);
        const int64_t *values = env.values[v->id];
        cr_expect_eq(values ? *values : -1, partly_known[i].value, "case %zu: %s", i, partly_known[i].ops);
        weft_program_destroy(p);
        arena_fini(&scratch);
    }
    weft_context_destroy(context);
}
