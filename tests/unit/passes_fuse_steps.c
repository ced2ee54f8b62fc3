/* fuse_allreduce_buckets where gradients are not simply reduced once each: micro-steps without a collective, weights
 * that are used twice or not at all, a norm in the middle of backward. Each list is proved to compute what the graph
 * did. */
#include "tests/support/grads_case.h"
#include "tests/support/must.h"

TestSuite(passes_fuse_steps, .init = set_up, .fini = tear_down);

static void op(const char *format, int i) {
    char line[96];
    snprintf(line, sizeof line, format, i);
    weft_op *made = grads_op(&g, line);
    if (strncmp(line, "all_reduce ", 11) != 0) return;
    must(weft_op_set_attr_int(made, "ring_id", 1));
    must(weft_op_set_attr_int(made, "reduce_type", WEFT_REDUCE_AVG));
    must(weft_op_set_attr_bool(made, "async_op", true));
}

static void kept(const char *format, int i) {
    char n[32];
    snprintf(n, sizeof n, format, i);
    weft_var_set_persistable(grads_var(&g, n), true, false);
}

/* One bucket, waited for late; and it still computes what it did. */
static void fuse(const char *mode) {
    char list[160];
    snprintf(list, sizeof list, "passes: [fuse_allreduce_buckets: {mode: %s}, schedule_comm_wait]\nprove: require",
             mode);
    report = grads_passes(&g, list);
    grads_text(&g, ops, sizeof ops);
    for (size_t i = 0; i < 2; i++) {
        const weft_equivalence *e = weft_report_equivalence(report, i);
        cr_assert_not_null(e);
        cr_expect_eq(weft_equivalence_grade(e), WEFT_SAME_BITS, "%s", mode);
    }
}

static size_t occurrences(const char *what) {
    size_t n = 0;
    for (const char *at = ops; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

static const char *const modes[] = {"concat", "coalesced", "in_place"};

/* Gradients of the first micro-step are kept by the rank; those of the second are added and reduced (no_sync). */
Test(passes_fuse_steps, only_the_last_micro_step_communicates) {
    for (size_t m = 0; m < 3; m++) {
        for (int i = 0; i < 2; i++) {
            kept("sum%d", i);
            op("relu X=a -> Out=first%d", i);
            op("elementwise_add X=sum%1$d Y=first%1$d -> Out=sum%1$d", i);
        }
        for (int i = 0; i < 2; i++) {
            op("sigmoid X=a -> Out=second%d", i);
            op("elementwise_add X=sum%1$d Y=second%1$d -> Out=both%1$d", i);
            op("all_reduce x=both%1$d -> out=r%1$d", i);
            op("wait_tensor X=r%1$d -> Out=w%1$d", i);
            op("aten_copy_ self=sum%1$d src=w%1$d -> self_out=sum%1$d", i);
        }
        fuse(modes[m]);
        cr_expect_eq(occurrences("all_reduce"), 1, "%s: %s", modes[m], ops);
        const char *reduce = strstr(ops, "all_reduce"), *last = strstr(ops, "sigmoid(second1)");
        cr_expect(reduce && last && last < reduce, "%s: the reduce comes after the last micro-step: %s", modes[m], ops);
        tear_down();
        set_up();
    }
}

/* A weight that is used twice has one gradient, the sum, which is reduced once; one that is not used has none. */
Test(passes_fuse_steps, tied_and_unused_weights) {
    for (size_t m = 0; m < 3; m++) {
        kept("unused%d", 0);
        op("relu X=a -> Out=use%d", 0);
        op("sigmoid X=a -> Out=use%d", 1);
        op("elementwise_add X=use0 Y=use1 -> Out=g%d", 0);
        op("tanh X=a -> Out=g%d", 1);
        for (int i = 0; i < 2; i++) {
            op("all_reduce x=g%1$d -> out=r%1$d", i);
            op("wait_tensor X=r%1$d -> Out=w%1$d", i);
            kept("kept%d", i);
            op("assign X=w%1$d -> Out=kept%1$d", i);
        }
        fuse(modes[m]);
        cr_expect_eq(weft_report_count(report, 0, "gradients bucketed"), 2, "%s", modes[m]);
        cr_expect_eq(occurrences("all_reduce"), 1, "%s: %s", modes[m], ops);
        tear_down();
        set_up();
    }
}

/* A value may be computed from a reduced gradient in the middle of backward, and go on into a later one. It comes after
 * the reduce of the first and before that of the second. */
Test(passes_fuse_steps, a_norm_in_the_middle_of_backward) {
    for (size_t m = 0; m < 3; m++) {
        op("relu X=a -> Out=g%d", 0);
        op("all_reduce x=g0 -> out=r%d", 0);
        op("wait_tensor X=r0 -> Out=w%d", 0);
        op("tanh X=w0 -> Out=clipped%d", 0);
        op("elementwise_mul X=clipped0 Y=a -> Out=g%d", 1);
        op("all_reduce x=g1 -> out=r%d", 1);
        op("wait_tensor X=r1 -> Out=w%d", 1);
        for (int i = 0; i < 2; i++) {
            kept("kept%d", i);
            op("assign X=w%1$d -> Out=kept%1$d", i);
        }
        fuse(modes[m]);
        cr_expect_eq(occurrences("all_reduce"), 2, "%s: %s", modes[m], ops);
        const char *norm = strstr(ops, "tanh(clipped0)"), *wait = strstr(ops, "wait_tensor");
        cr_expect(norm && wait && wait < norm, "%s: %s", modes[m], ops);
        tear_down();
        set_up();
    }
}
