/* fuse_allreduce_buckets: each test is one behaviour, most of them one that the original gets wrong (named "defect").
 * Graphs are a line an op; a gradient of 4 x 8 fp32 has 128 bytes. That values stay the same is
 * tests/plain/fuse_random. */
#include "tests/support/grads_case.h"
#include "tests/support/must.h"

TestSuite(passes_fuse_buckets, .init = set_up, .fini = tear_down);

/* As DDP traces it, with number i behind each name: d = grad / divisor (0: no division); r = all_reduce(d); w =
 * wait(r).
 */
static void sync_of(const char *grad, int i, double divisor, int64_t ring_id, weft_reduce reduce) {
    char line[96], mean[16];
    snprintf(mean, sizeof mean, "d%d", i);
    snprintf(line, sizeof line, "aten_div_scalar self=%s -> out=%s", grad, mean);
    if (divisor != 0) must(weft_op_set_attr_float(grads_op(&g, line), "other", divisor));
    snprintf(line, sizeof line, "all_reduce x=%s -> out=r%d", divisor != 0 ? mean : grad, i);
    weft_op *op = grads_op(&g, line);
    must(weft_op_set_attr_int(op, "ring_id", ring_id));
    must(weft_op_set_attr_int(op, "reduce_type", reduce));
    must(weft_op_set_attr_bool(op, "async_op", true));
    snprintf(line, sizeof line, "wait_tensor X=r%d -> Out=w%d", i, i);
    grads_op(&g, line);
}

static void sync_plain(int i) {
    char line[64], grad[16];
    snprintf(line, sizeof line, "relu X=a -> Out=g%d", i);
    snprintf(grad, sizeof grad, "g%d", i);
    grads_op(&g, line);
    sync_of(grad, i, 2, 1, WEFT_REDUCE_SUM);
}

static void keep(const char *value) {
    char line[64], out[32];
    snprintf(out, sizeof out, "kept_%s", value);
    weft_var_set_persistable(grads_var(&g, out), true, false);
    snprintf(line, sizeof line, "assign X=%s -> Out=%s", value, out);
    grads_op(&g, line);
}

static void fuse(const char *options) {
    char list[160];
    snprintf(list, sizeof list, "fuse_allreduce_buckets: {%s}", options);
    report = grads_passes(&g, list);
    grads_text(&g, ops, sizeof ops);
}

static size_t count(const char *what) {
    return (size_t)weft_report_count(report, 0, what);
}

Test(passes_fuse_buckets, concat_copies_reduces_and_waits_once) {
    for (int i = 0; i < 2; i++) sync_plain(i);
    for (int i = 0; i < 2; i++) keep(i ? "w1" : "w0");
    fuse("mode: concat");
    cr_assert_str_eq(ops,
                     "relu(g0) aten_div_scalar(d0) relu(g1) aten_div_scalar(d1) coalesce_tensor(allreduce_bucket_0) "
                     "all_reduce(allreduce_bucket_0_reduced) wait_tensor(allreduce_bucket_0_done) "
                     "assign(kept_w0) assign(kept_w1)");
    cr_assert_eq(count("bucket bytes"), 256);
    cr_assert_eq(count("ops moved"), 1); /* the wait of the first, before it went */
}

Test(passes_fuse_buckets, coalesced_keeps_a_wait_for_each) {
    for (int i = 0; i < 2; i++) sync_plain(i);
    for (int i = 0; i < 2; i++) keep(i ? "w1" : "w0");
    fuse("mode: coalesced");
    cr_assert_str_eq(ops, "relu(g0) aten_div_scalar(d0) relu(g1) aten_div_scalar(d1) all_reduce_coalesced(r0) "
                          "wait_tensor(w0) wait_tensor(w1) assign(kept_w0) assign(kept_w1)");
}

Test(passes_fuse_buckets, in_place_lets_producers_write_the_bucket) {
    for (int i = 0; i < 2; i++) sync_plain(i);
    for (int i = 0; i < 2; i++) keep(i ? "w1" : "w0");
    fuse("mode: in_place");
    cr_assert_str_eq(ops,
                     "relu(g0) coalesce_tensor(allreduce_bucket_0) aten_div_scalar(d0) relu(g1) aten_div_scalar(d1) "
                     "all_reduce(allreduce_bucket_0_reduced) wait_tensor(allreduce_bucket_0_done) "
                     "assign(kept_w0) assign(kept_w1)");
    cr_assert_eq(count("copies"), 0);
}

/* The original takes group, reduce op and divisor of the last for all, or asserts. */
Test(passes_fuse_buckets, defect_groups_reduces_and_divisors_are_not_mixed) {
    static const struct {
        double divisor;
        int64_t ring_id;
        weft_reduce reduce;
    } kinds[] = {{2, 1, WEFT_REDUCE_SUM}, {2, 3, WEFT_REDUCE_SUM}, {2, 1, WEFT_REDUCE_MAX}, {4, 1, WEFT_REDUCE_SUM}};
    for (int i = 0; i < 8; i++) {
        sync_of("a", i, kinds[i % 4].divisor, kinds[i % 4].ring_id, kinds[i % 4].reduce);
        char w[16];
        snprintf(w, sizeof w, "w%d", i);
        keep(w);
    }
    fuse("mode: coalesced");
    cr_assert_eq(count("buckets"), 4);
    cr_assert_eq(count("gradients bucketed"), 8);
    FOR_EACH_OP(op, g.b) {
        if (!op_is(op, "all_reduce_coalesced")) continue;
        const slot *x = op_find_slot(op, false, "x");
        cr_assert_eq(x->nargs, 2);
        cr_assert_eq(atoi(slot_var(op, x, 0)->name->bytes + 1) + 4, atoi(slot_var(op, x, 1)->name->bytes + 1));
    }
}

Test(passes_fuse_buckets, defect_element_types_are_not_mixed) {
    for (int i = 0; i < 4; i++) {
        g.dtype = i % 2 ? WEFT_BF16 : WEFT_FP32;
        char line[64];
        snprintf(line, sizeof line, "custom_source -> Out=x%d", i);
        grads_op(&g, line);
        sync_of(i == 0 ? "x0" : i == 1 ? "x1" : i == 2 ? "x2" : "x3", i, 2, 1, WEFT_REDUCE_SUM);
    }
    fuse("mode: concat");
    cr_assert_eq(count("buckets"), 2);
    FOR_EACH_OP(op, g.b) {
        if (op_is(op, "coalesce_tensor"))
            cr_assert_eq(weft_op_output(op, "FusedOutput", 0)->dtype, weft_op_input(op, "Input", 0)->dtype);
    }
}

/* The original asserts: a value reduced twice is a member twice, copied. */
Test(passes_fuse_buckets, defect_one_value_reduced_twice) {
    sync_plain(0);
    must(weft_op_set_attr_int(grads_op(&g, "all_reduce x=d0 -> out=again"), "ring_id", 1));
    must(weft_op_set_attr_bool(g.b->last, "async_op", true));
    grads_op(&g, "wait_tensor X=again -> Out=again_done");
    keep("w0");
    keep("again_done");
    fuse("mode: in_place");
    cr_assert_eq(count("buckets"), 1);
    cr_assert_eq(count("copies"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_IN_USE, "it is reduced more than once"));
}

/* The original asserts or stops. */
Test(passes_fuse_buckets, defect_no_user_of_a_wait_or_of_a_collective) {
    for (int i = 0; i < 3; i++) sync_plain(i);
    FOR_EACH_OP(op, g.b) {
        if (!op_is(op, "wait_tensor") || !name_is(weft_op_output(op, "Out", 0)->name, "w1")) continue;
        weft_op_remove(op);
        break;
    }
    keep("w2"); /* w0 is waited for and read by nobody; nobody waits for r1 */
    fuse("mode: concat");
    cr_assert_eq(count("gradients bucketed"), 3);
    cr_assert_eq(grads_count(&g, "wait_tensor"), 1);
}

/* Not matched by the original: no scale, a scale after the reduce, a mean, a detach behind the wait. */
Test(passes_fuse_buckets, defect_scales_after_and_means_are_matched) {
    for (int i = 0; i < 4; i++) {
        char line[64];
        sync_of("a", i, 0, 1, i < 2 ? WEFT_REDUCE_SUM : WEFT_REDUCE_AVG);
        snprintf(line, sizeof line, i % 2 ? "aten_alias self=w%d -> out=o%d" : "aten_div_scalar self=w%d -> out=o%d", i,
                 i);
        grads_op(&g, line);
    }
    fuse("mode: concat");
    cr_assert_eq(count("buckets"), 2);
    cr_assert_eq(count("gradients bucketed"), 4);
}

/* KeyError in the original: what the second gradient is made of reads what the first was copied to. */
Test(passes_fuse_buckets, defect_copy_then_read_stays_two_collectives) {
    weft_var_set_persistable(grads_var(&g, "kept"), true, false);
    sync_plain(0);
    grads_op(&g, "aten_copy_ self=kept src=w0 -> self_out=kept out=c");
    grads_op(&g, "elementwise_add X=a Y=c -> Out=sum");
    sync_of("sum", 1, 2, 1, WEFT_REDUCE_SUM);
    keep("w1");
    fuse("mode: in_place");
    cr_assert_eq(count("buckets"), 0);
    cr_assert_eq(grads_count(&g, "all_reduce"), 2);
}

/* A copy and a norm in the middle of backward move behind the reduce, in order, and nothing else does. */
Test(passes_fuse_buckets, readers_of_an_early_gradient_move_behind_the_reduce) {
    weft_var_set_persistable(grads_var(&g, "kept"), true, false);
    sync_plain(0);
    grads_op(&g, "aten_copy_ self=kept src=w0 -> self_out=kept out=c");
    grads_op(&g, "relu X=a -> Out=other");
    grads_op(&g, "elementwise_mul X=c Y=other -> Out=norm");
    sync_plain(1);
    keep("norm");
    keep("w1");
    fuse("mode: concat");
    cr_assert_str_eq(ops, "relu(g0) aten_div_scalar(d0) relu(other) relu(g1) aten_div_scalar(d1) "
                          "coalesce_tensor(allreduce_bucket_0) all_reduce(allreduce_bucket_0_reduced) "
                          "wait_tensor(allreduce_bucket_0_done) aten_copy_(c) elementwise_mul(norm) assign(kept_norm) "
                          "assign(kept_w1)");
}

/* A write to what a member's collective still reads may not come before it. */
Test(passes_fuse_buckets, a_write_of_a_members_input_moves_too) {
    sync_plain(0);
    grads_op(&g, "aten_copy_ self=d0 src=a -> self_out=d0 out=c");
    sync_plain(1);
    keep("w0");
    keep("w1");
    fuse("mode: concat");
    const weft_op *copy = NULL, *coalesce = NULL;
    FOR_EACH_OP(op, g.b) {
        if (op_is(op, "aten_copy_")) copy = op;
        if (op_is(op, "coalesce_tensor")) coalesce = op;
    }
    cr_assert(weft_op_is_before(coalesce, copy));
}

/* div_reused: the member's own value is used after its reduce. */
Test(passes_fuse_buckets, a_value_read_later_is_copied_with_a_reason) {
    for (int i = 0; i < 2; i++) sync_plain(i);
    grads_op(&g, "relu X=d0 -> Out=later");
    for (int i = 0; i < 2; i++) keep(i ? "w1" : "w0");
    keep("later");
    fuse("mode: in_place");
    cr_assert_eq(count("copies"), 1);
    cr_assert(grads_left(report, 0, WEFT_REASON_IN_USE, "its own value is used after its reduce"));
}

Test(passes_fuse_buckets, an_input_of_the_graph_is_copied_with_a_reason) {
    sync_of("in0", 0, 0, 1, WEFT_REDUCE_SUM);
    sync_of("in1", 1, 0, 1, WEFT_REDUCE_SUM);
    fuse("mode: in_place");
    cr_assert_eq(count("copies"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_DEPENDENCY, "no op writes it before its reduce"));
}

Test(passes_fuse_buckets, what_is_fed_is_copied_with_a_reason) {
    for (int i = 0; i < 2; i++) {
        grads_op(&g, i ? "feed -> Out=in1" : "feed -> Out=in0");
        sync_of(i ? "in1" : "in0", i, 0, 1, WEFT_REDUCE_SUM);
    }
    fuse("mode: in_place");
    cr_assert_eq(count("copies"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_IN_USE, "it is fed"));
}

/* `both` moves behind two buckets, of which the last limit splits one into two reduces as they were. */
Test(passes_fuse_buckets, an_op_moves_behind_the_bucket_that_is_left) {
    sync_plain(0);
    g.dims[0] = 2;
    sync_of("small", 1, 4, 1, WEFT_REDUCE_SUM);
    grads_op(&g, "sum X=w0,w1 -> Out=both");
    sync_of("small", 2, 4, 1, WEFT_REDUCE_SUM);
    g.dims[0] = 4;
    sync_plain(3);
    keep("both");
    fuse("mode: concat, last_bucket_mb: 0.0002");
    cr_assert_eq(count("buckets"), 1);
    cr_assert_str_eq(ops, "relu(g0) aten_div_scalar(d0) all_reduce(r0) wait_tensor(w0) aten_div_scalar(d1) "
                          "aten_div_scalar(d2) coalesce_tensor(allreduce_bucket_0) "
                          "all_reduce(allreduce_bucket_0_reduced) wait_tensor(allreduce_bucket_0_done) sum(both) "
                          "relu(g3) aten_div_scalar(d3) all_reduce(r3) wait_tensor(w3) assign(kept_both)");
}

/* An op that may not move closes the bucket before it. */
Test(passes_fuse_buckets, an_unknown_op_that_reads_a_result_closes_the_bucket) {
    for (int i = 0; i < 2; i++) sync_plain(i);
    grads_op(&g, "somebody_elses X=w0 -> Out=out0");
    for (int i = 2; i < 4; i++) sync_plain(i);
    fuse("mode: concat");
    cr_assert_eq(count("buckets"), 2);
}

Test(passes_fuse_buckets, limits) {
    static const struct {
        const char *options;
        size_t nbuckets, nreduces;
    } cases[] = {
        {"bucket_mb: 0.0003, first_bucket_mb: 0.0003", 2, 2}, /* 315 bytes: three gradients reach it */
        {"bucket_mb: 0.0003, first_bucket_mb: 0.0003, limit: cap", 3, 3},
        {"bucket_mb: 25, first_bucket_mb: 0.0002", 2, 2},
        {"bucket_mb: 25, last_bucket_mb: 0.0002", 1, 2}, /* the last alone */
        {"bucket_mb: 25, last_bucket_mb: 0.0003", 2, 2},
        {"bucket_mb: 0, first_bucket_mb: 0", 0, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i) tear_down(), set_up();
        for (int k = 0; k < 6; k++) sync_plain(k);
        fuse(cases[i].options);
        cr_assert_eq(count("buckets"), cases[i].nbuckets, "%s: %zu buckets", cases[i].options, count("buckets"));
        cr_assert_eq(grads_count(&g, "all_reduce"), cases[i].nreduces, "%s: %zu reduces", cases[i].options,
                     grads_count(&g, "all_reduce"));
    }
}

Test(passes_fuse_buckets, running_it_again_changes_nothing) {
    for (int i = 0; i < 6; i++) sync_plain(i);
    fuse("mode: in_place, first_bucket_mb: 0.0002, bucket_mb: 0.0002");
    weft_program *once;
    must(weft_program_clone(g.p, &once));
    weft_report_destroy(report);
    fuse("mode: in_place");
    cr_assert(weft_program_equal(once, g.p));
    weft_program_destroy(once);
}

/* Equal sizes, other gradients: only the fingerprint shows it. */
Test(passes_fuse_buckets, the_fingerprint_tells_which_gradients_a_bucket_has) {
    int64_t seen[3];
    for (int run_index = 0; run_index < 3; run_index++) {
        if (run_index) tear_down(), set_up();
        for (int i = 0; i < 2; i++) sync_plain(run_index == 2 ? 5 - i : i);
        fuse("mode: concat");
        FOR_EACH_OP(op, g.b) {
            if (op_is(op, "all_reduce")) seen[run_index] = weft_op_attr_int(op, "bucket_fingerprint", 0);
        }
    }
    cr_assert_eq(seen[0], seen[1]);
    cr_assert_neq(seen[0], seen[2]);
}

static void make_three(grads *out, const weft_context_options *options, unsigned seed) {
    (void)seed;
    grads_create_with(&g, options);
    for (int i = 0; i < 3; i++) sync_plain(i);
    grads_op(&g, "relu X=d0 -> Out=later");
    *out = g;
}

Test(passes_fuse_memory, every_allocation_may_fail) {
    static const char *const lists[] = {"fuse_allreduce_buckets: {mode: concat}",
                                        "fuse_allreduce_buckets: {mode: coalesced, last_bucket_mb: 0.0002}",
                                        "fuse_allreduce_buckets: {mode: in_place}"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) grads_run_without_memory(make_three, 0, lists[i]);
}
