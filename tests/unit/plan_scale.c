/* plan_scale.c: planning is linear, save for logarithms: 100,000 ops, and buckets with many members. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "plan/plan.h"

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(weft_status status) {
    cr_assert_null(status, "%s", weft_status_message(status));
}

static weft_var *new_var(weft_program *p, const char *stem, int i) {
    char n[32];
    weft_var *v;
    snprintf(n, sizeof n, "%s%d", stem, i);
    must(weft_block_add_var(weft_program_block(p, 0), n, WEFT_FP32, 1, (int64_t[]){16}, &v));
    return v;
}

static weft_op *new_op(weft_program *p, const char *type, weft_var *x, weft_var *out) {
    weft_op *op;
    must(weft_op_create(p, type, &op));
    must(weft_op_add_input(op, "X", x));
    must(weft_op_add_output(op, "Out", out));
    weft_block_insert_before(weft_program_block(p, 0), NULL, op);
    return op;
}

/* `depth` forward ops, as many backward, each followed by a reduce on a stream; gradients in buckets of `bucket`. */
static weft_program *training(weft_context *ctx, int depth, int bucket) {
    weft_program *p;
    must(weft_program_create(ctx, &p));
    weft_block *block = weft_program_block(p, 0);
    weft_var *x = new_var(p, "x", 0), **activations = calloc((size_t)depth + 1, sizeof *activations);
    activations[0] = x;
    for (int i = 0; i < depth; i++) new_op(p, "relu", activations[i], activations[i + 1] = new_var(p, "y", i));
    weft_var *upstream = activations[depth];
    weft_op *coalesce = NULL;
    for (int i = depth - 1; i >= 0; i--) {
        weft_var *gradient = new_var(p, "gradient", i), *down = new_var(p, "down", i), *fused;
        weft_op *grad = new_op(p, "elementwise_add", upstream, down);
        must(weft_op_add_input(grad, "Y", activations[i]));
        new_op(p, "scale", down, gradient);
        if ((depth - 1 - i) % bucket == 0) {
            must(weft_op_create(p, "coalesce_tensor", &coalesce));
            must(weft_op_add_output(coalesce, "FusedOutput", fused = new_var(p, "fused", i)));
            must(weft_op_set_attr_int(coalesce, "align_size", 64));
            weft_block_insert_before(block, grad, coalesce);
        }
        must(weft_op_add_input(coalesce, "Input", gradient));
        must(weft_op_add_output(coalesce, "Output", gradient));
        if ((depth - i) % bucket == 0 || !i) {
            weft_op *reduce = new_op(p, "c_allreduce_sum", weft_op_output(coalesce, "FusedOutput", 0),
                                     weft_op_output(coalesce, "FusedOutput", 0));
            must(weft_op_set_attr_bool(reduce, "use_calc_stream", false));
        }
        upstream = down;
    }
    free(activations);
    return p;
}

static double time_of(weft_context *ctx, int depth, int bucket, weft_plan_summary *out_summary) {
    weft_program *p = training(ctx, depth, bucket);
    weft_plan *plan;
    double start = seconds();
    must(weft_plan_create(p, NULL, &plan));
    double end = seconds();
    weft_plan_summarize(plan, out_summary);
    weft_plan_destroy(plan);
    weft_program_destroy(p);
    return end - start;
}

/* Seconds to print a plan and read it back. */
static double time_of_text(weft_context *ctx, int depth) {
    weft_program *p = training(ctx, depth, 400);
    weft_plan *plan, *read;
    char *bytes;
    size_t nbytes;
    must(weft_plan_create(p, NULL, &plan));
    double start = seconds();
    must(weft_plan_print(plan, &bytes, &nbytes));
    must(weft_plan_parse(ctx, bytes, nbytes, "p.plan", &read));
    double end = seconds();
    cr_expect_eq(read->ninstrs, plan->ninstrs);
    weft_bytes_free(ctx, bytes, nbytes);
    weft_plan_destroy(read);
    weft_plan_destroy(plan);
    weft_program_destroy(p);
    return end - start;
}

Test(plan_scale, a_hundred_thousand_ops, .timeout = 120) {
    weft_context *ctx;
    weft_plan_summary s;
    must(weft_context_create(NULL, &ctx));
    double small = time_of(ctx, 3333, 400, &s), large = time_of(ctx, 33333, 400, &s);
    printf("100,000 ops: %.3f s (10,000: %.3f s)\n", large, small);
    cr_expect_gt(s.ninstructions, 99000);
    cr_expect_eq(s.ncollectives, (33333 + 399) / 400);
    cr_expect_leq(s.nevents, s.ncollectives, "a reduce waits for its bucket, nothing waits for the reduce");
    cr_expect_lt(large, 60, "%.3f s",
                 large); /* sanitizers and busy machines included; about a tenth of a second alone */
    cr_expect_lt(large, 60 * small + 0.5, "10,000 ops take %.3f s, 100,000 %.3f s", small, large);
    large = time_of(ctx, 33333, 33333, &s); /* one bucket of all */
    cr_expect_lt(large, 60 * small + 0.5, "one large bucket: %.3f s", large);
    small = time_of_text(ctx, 333), large = time_of_text(ctx, 3333);
    printf("10,000 as text, printed and read: %.3f s (1,000: %.3f s)\n", large, small);
    cr_expect_lt(large, 60 * small + 0.5, "1,000 instructions take %.3f s, 10,000 %.3f s", small, large);
    weft_context_destroy(ctx);
}
