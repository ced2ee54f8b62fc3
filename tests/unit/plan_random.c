/* plan_random.c: random programs on several streams, with buckets, views, in-place ops and reused names, against brute
 * force. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "plan/plan.h"
#include "tests/support/draw.h"
#include "tests/support/plan_check.h"

enum { MOST_VARS = 24 };

typedef struct maker {
    uint64_t state;
    weft_program *program;
    weft_block *block; /* where ops go now */
    weft_var *vars[MOST_VARS], *fused, *condition;
    int nvars, nwritten, nstreams; /* vars below nwritten were written */
} maker;

static unsigned draw(maker *m, unsigned below) {
    return draw_below(&m->state, below);
}

static void must(weft_status status) {
    cr_assert_null(status, "%s", weft_status_message(status));
}

/* Mostly a var that holds something, so that few are feeds; mostly a new one to write, so that lifetimes are short. */
static weft_var *to_read(maker *m) {
    return m->vars[draw(m, (unsigned)(m->nwritten && draw(m, 20) ? m->nwritten : m->nvars))];
}
static weft_var *to_write(maker *m) {
    if (m->nwritten < m->nvars && draw(m, 3)) return m->vars[m->nwritten++];
    return m->vars[draw(m, (unsigned)m->nvars)];
}

static void place(maker *m, weft_op *op) {
    op_dist *dist;
    unsigned s = draw(m, (unsigned)m->nstreams);
    weft_block_insert_before(m->block, NULL, op);
    if (!s) return;
    must(op_dist_get(op, &dist));
    dist->execution_stream = arena_format(&m->program->arena, "stream_%u", s);
}

static weft_op *new_op(maker *m, const char *type) {
    weft_op *op;
    must(weft_op_create(m->program, type, &op));
    return op;
}

static void add_op(maker *m) {
    static const char *const types[] = {
        "scale", "relu", "assign", "c_allreduce_sum", "square", "elementwise_add", "fill_constant", "elementwise_add"};
    unsigned kind = draw(m, 8);
    weft_op *op = new_op(m, types[kind]);
    if (kind == 6) {
        must(weft_op_set_attr_longs(op, "shape", 1, (int64_t[]){8}));
    } else {
        must(weft_op_add_input(op, "X", to_read(m)));
        if (strcmp(types[kind], "elementwise_add") == 0) must(weft_op_add_input(op, "Y", to_read(m)));
    }
    if (kind == 3) {
        must(weft_op_set_attr_int(op, "ring_id", (int)draw(m, 2)));
        must(weft_op_set_attr_bool(op, "use_calc_stream", draw(m, 2)));
    }
    must(weft_op_add_output(op, "Out", to_write(m)));
    place(m, op);
}

/* Reads or writes a whole bucket, in place or not. */
static void add_bucket_op(maker *m) {
    static const char *const types[] = {"c_allreduce_sum", "scale", "squared_l2_norm"};
    unsigned kind = draw(m, 3);
    weft_op *op = new_op(m, types[kind]);
    weft_var *norm;
    int64_t one = 1;
    char n[24];
    must(weft_op_add_input(op, "X", m->fused));
    if (kind == 2) {
        snprintf(n, sizeof n, "norm_%zu", weft_block_nvars(weft_program_block(m->program, 0)));
        must(weft_block_add_var(weft_program_block(m->program, 0), n, WEFT_FP32, 1, &one, &norm));
    }
    must(weft_op_add_output(op, "Out", kind == 2 ? norm : m->fused));
    place(m, op);
}

/* Another name of a var that ops take from now on; or half of one, changed in place, or turned and so copied. */
static void add_view(maker *m) {
    static const char *const types[] = {"wait_tensor", "aten_slice", "aten_slice", "aten_view"};
    unsigned kind = draw(m, 4);
    bool is_half = kind == 1 || kind == 2;
    weft_block *outer = weft_program_block(m->program, 0);
    int64_t dims[] = {kind == 3 ? 2 : is_half ? 4 : 8, 4};
    weft_op *op = new_op(m, types[kind]);
    weft_var *x = to_read(m), *view;
    char n[24];
    snprintf(n, sizeof n, "view_%zu", weft_block_nvars(outer));
    must(weft_block_add_var(outer, n, WEFT_FP32, kind == 3 ? 2 : 1, dims, &view));
    must(weft_op_add_input(op, kind ? "self" : "X", x));
    must(weft_op_add_output(op, kind ? "out" : "Out", view));
    if (is_half) must(weft_op_set_attr_int(op, "start", (int)(4 * draw(m, 2))));
    if (is_half) must(weft_op_set_attr_int(op, "end", op_find_attr(op, "start")->u.i ? 8 : 4));
    if (kind == 3) must(weft_op_set_attr_longs(op, "size", 2, dims));
    weft_block_insert_before(m->block, NULL, op);
    if (!kind) m->vars[draw(m, (unsigned)m->nvars)] = view;
    if (!kind) return;
    op = new_op(m, kind == 3 ? "aten_t" : "scale");
    must(weft_op_add_input(op, kind == 3 ? "self" : "X", view));
    if (kind == 3) {
        dims[0] = 4, dims[1] = 2;
        snprintf(n, sizeof n, "turned_%zu", weft_block_nvars(outer));
        must(weft_block_add_var(outer, n, WEFT_FP32, 2, dims, &view));
    }
    must(weft_op_add_output(op, kind == 3 ? "out" : "Out", view));
    place(m, op);
}

/* A bucket of the last few vars; sometimes one that moves bytes. */
static void add_bucket(maker *m) {
    weft_op *op = new_op(m, "coalesce_tensor");
    int64_t unknown = -1;
    must(weft_block_add_var(m->block, "fused", WEFT_FP32, 1, &unknown, &m->fused));
    for (int i = (int)draw(m, (unsigned)m->nvars); i < m->nvars; i++) {
        must(weft_op_add_input(op, "Input", m->vars[i]));
        must(weft_op_add_output(op, "Output", m->vars[i]));
    }
    must(weft_op_add_output(op, "FusedOutput", m->fused));
    must(weft_op_set_attr_int(op, "dtype", WEFT_FP32));
    must(weft_op_set_attr_bool(op, "use_align", draw(m, 2)));
    must(weft_op_set_attr_int(op, "align_size", 64));
    must(weft_op_set_attr_bool(op, "set_constant", !draw(m, 4)));
    weft_block_insert_after(m->block, NULL, op);
}

/* The ops that follow go into a block that runs where two vars are equal. */
static void open_conditional(maker *m) {
    weft_op *op = new_op(m, "equal");
    weft_attr *sub_block;
    weft_block *inner;
    int64_t one = 1;
    weft_var *number;
    must(weft_block_add_var(m->block, "number", WEFT_FP32, 1, &one, &number));
    must(weft_block_add_var(m->block, "condition", WEFT_BOOL, 1, &one, &m->condition));
    must(weft_op_add_input(op, "X", number));
    must(weft_op_add_input(op, "Y", number));
    must(weft_op_add_output(op, "Out", m->condition));
    place(m, op);
    op = new_op(m, "conditional_block");
    must(weft_op_add_input(op, "Cond", m->condition));
    must(weft_op_set_attr_bool(op, "is_scalar_condition", true));
    must(op_set_attr(op, "sub_block", &sub_block));
    sub_block->type = ATTR_BLOCK;
    sub_block->u.i = 1;
    weft_block_insert_before(m->block, NULL, op);
    must(program_add_block(m->program, 0, &inner));
    m->block = inner;
}

static void make_program(maker *m, weft_context *ctx, uint64_t seed) {
    int64_t dims[] = {8};
    *m = (maker){.state = seed * 2654435761u + 12345};
    for (int i = 0; i < 4; i++) draw(m, 2);
    m->nvars = 3 + (int)draw(m, MOST_VARS - 3);
    m->nstreams = 1 + (int)draw(m, 4);
    must(weft_program_create(ctx, &m->program));
    m->block = weft_program_block(m->program, 0);
    for (int i = 0; i < m->nvars; i++) {
        char n[16];
        snprintf(n, sizeof n, "v%d", i);
        must(weft_block_add_var(m->block, n, WEFT_FP32, 1, dims, &m->vars[i]));
    }
    if (draw(m, 2)) add_bucket(m);
    unsigned nops = 1 + draw(m, 60), conditional_at = draw(m, 90);
    for (unsigned i = 0; i < nops; i++) {
        if (i == conditional_at) open_conditional(m);
        if (i == conditional_at + 5) m->block = weft_program_block(m->program, 0);
        if (m->fused && !draw(m, 6))
            add_bucket_op(m);
        else if (!draw(m, 6))
            add_view(m);
        else
            add_op(m);
    }
}

/* parse(print(p)) prints the same bytes, and printing twice does. */
static void check_text(weft_context *ctx, const weft_plan *plan, uint64_t seed) {
    char *a, *b;
    size_t na, nb;
    weft_plan *read;
    must(weft_plan_print(plan, &a, &na));
    must(weft_plan_parse(ctx, a, na, "plan", &read));
    must(weft_plan_print(read, &b, &nb));
    cr_assert(na == nb && memcmp(a, b, na) == 0, "seed %llu:\n%s\nread back:\n%s", (unsigned long long)seed, a, b);
    weft_bytes_free(ctx, a, na);
    weft_bytes_free(ctx, b, nb);
    weft_plan_destroy(read);
}

Test(plan_random, is_ordered_exactly_and_shares_memory_safely) {
    weft_context *ctx;
    must(weft_context_create(NULL, &ctx));
    int64_t shared = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        maker m;
        weft_plan *plan;
        char why[300] = "";
        make_program(&m, ctx, seed);
        must(weft_plan_create(m.program, NULL, &plan));
        cr_assert(plan_check(plan, true, why, sizeof why), "seed %llu: %s", (unsigned long long)seed, why);
        if (seed % 10 == 0) check_text(ctx, plan, seed);
        int64_t separate = 0;
        for (size_t v = 0; v < plan->nvalues; v++)
            if (plan->values[v].space == PLAN_TEMPORARY && plan->values[v].view_of < 0) separate += 64;
        shared += separate > plan->temporary_nbytes;
        weft_plan_destroy(plan);
        weft_program_destroy(m.program);
    }
    cr_assert_gt(shared, 500, "memory was shared in %lld plans only", (long long)shared);
    weft_context_destroy(ctx);
}
