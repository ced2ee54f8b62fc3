/* What the original data-parallel pass does wrong with gradient scales, done right: each test is named for the defect.
 * Programs run on imagined ranks before and after (tests/support/grads.h). */
#include "tests/support/grads_case.h"

TestSuite(passes_defects_scale, .init = set_up, .fini = tear_down);

/* A layer: activation a to b, parameter gradient "wN@GRAD". */
static void layer(const char *from, const char *to, const char *grad) {
    char line[256];
    snprintf(line, sizeof line, "matmul_v2_grad Out@GRAD=%s X=x -> X@GRAD=%s Y@GRAD=%s", from, to, grad);
    grads_op(&g, line);
}

static void simple_net(void) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    layer("a1", "a2", "w2@GRAD");
    grads_sync(&g, "w2@GRAD", 1, 0.25);
}

static void finish(void) {
    grads_sgd(&g, "w1", "w1@GRAD");
    grads_sgd(&g, "w2", "w2@GRAD");
}

static double seed_value(void) {
    FOR_EACH_OP(op, g.b) {
        if (op_is(op, "fill_constant")) return weft_op_attr_float(op, "value", -1);
    }
    return -1;
}

Test(passes_defects_scale, the_normal_case_folds_into_the_seed) {
    simple_net();
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 0);
    cr_assert_float_eq(seed_value(), 0.25, 0);
    cr_assert_eq(weft_report_count(report, 0, "scales removed"), 2);
}

/* 11.1: the scale that belongs to a reduce is the one after it, of the same variable. */
Test(passes_defects_scale, defect_11_01_scale_after_the_reduce_is_recognised) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "layer_norm_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w1@GRAD Z@GRAD=w2@GRAD");
    grads_op(&g, "custom X=x -> Out=fetched"); /* nothing is folded: the scales are kept */
    grads_op(&g, "custom X=a0 -> Out=fetched2");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_sync(&g, "w2@GRAD", 1, 0.25);
    finish();
    run("prune_grad_scale, coalesce_grads");
    cr_assert_eq(grads_count(&g, "c_allreduce_sum"), 1);
    cr_assert_eq(grads_count(&g, "scale"), 1, "both members share one scale on the bucket");
}

/* 11.2: kept scales do not stop bucketing. */
Test(passes_defects_scale, defect_11_02_kept_scales_do_not_disable_fusion) {
    simple_net();
    grads_op(&g, "custom X=a2 -> Out=fetched");
    finish();
    run("prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
    cr_assert_eq(weft_report_count(report, 2, "buckets"), 1);
    cr_assert_eq(grads_count(&g, "scale"), 1);
    cr_assert_eq(grads_count(&g, "c_allreduce_sum"), 1);
    cr_assert(grads_left(report, 0, WEFT_REASON_SCALE, "not linear"));
}

/* 11.5: both rings of a gradient count; their factors multiply. Also line d of the observations. */
Test(passes_defects_scale, defect_11_05_two_rings_fold_the_product) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_sync(&g, "w1@GRAD", 3, 0.5);
    layer("a1", "a2", "w2@GRAD");
    grads_sync(&g, "w2@GRAD", 1, 0.25);
    grads_sync(&g, "w2@GRAD", 3, 0.5);
    finish();
    run("prune_grad_scale");
    cr_assert_float_eq(seed_value(), 0.125, 0);
    cr_assert_eq(weft_report_count(report, 0, "scales removed"), 4);
}

Test(passes_defects_scale, defect_11_05_different_factors_of_one_loss_stay) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    layer("a1", "a2", "w2@GRAD");
    grads_sync(&g, "w2@GRAD", 3, 0.5);
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_SCALE, "different factors"));
}

/* 11.6: an averaging reduce has no scale, so nothing is folded for it. */
Test(passes_defects_scale, defect_11_06_averaging_reduce_folds_nothing) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "w1@GRAD");
    weft_op *r = grads_op(&g, "all_reduce x=w1@GRAD -> out=w1@GRAD");
    cr_assert_null(weft_op_set_attr_int(r, "reduce_type", WEFT_REDUCE_AVG));
    cr_assert_null(weft_op_set_attr_int(r, "ring_id", 1));
    cr_assert_null(weft_op_set_attr_string(r, "op_namescope", "/auto_parallel/data_parallel"));
    grads_sgd(&g, "w1", "w1@GRAD");
    run("prune_grad_scale");
    cr_assert_float_eq(seed_value(), 1, 0);
    cr_assert(grads_left(report, 0, WEFT_REASON_NOTHING, "no gradient is scaled"));
}

/* 11.6: a loss with an averaged and a scaled gradient keeps both as they are. */
Test(passes_defects_scale, defect_11_06_averaged_beside_scaled_gradient) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "w1@GRAD");
    weft_op *r = grads_op(&g, "all_reduce x=w1@GRAD -> out=w1@GRAD");
    cr_assert_null(weft_op_set_attr_int(r, "reduce_type", WEFT_REDUCE_AVG));
    cr_assert_null(weft_op_set_attr_int(r, "ring_id", 1));
    cr_assert_null(weft_op_set_attr_string(r, "op_namescope", "/auto_parallel/data_parallel"));
    layer("a1", "a2", "w2@GRAD");
    grads_sync(&g, "w2@GRAD", 1, 0.25);
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 1);
    cr_assert_float_eq(seed_value(), 1, 0);
}

/* 11.7, lines a and b: a gradient that is not reduced would change too. */
Test(passes_defects_scale, defect_11_07_unsynchronised_gradient_keeps_its_value) {
    simple_net();
    layer("a2", "a3", "b@GRAD");
    grads_sgd(&g, "b", "b@GRAD");
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_SCALE, "sgd #8: it updates a parameter"));
}

/* 11.7: one that is only named, so that somebody may fetch it. */
Test(passes_defects_scale, defect_11_07_unsynchronised_gradient_that_is_named) {
    simple_net();
    layer("a2", "a3", "b@GRAD");
    weft_op *last = g.b->last;
    const char *pair[] = {"b", "b@GRAD"};
    cr_assert_null(weft_op_set_attr_strings(last, "op_role_var", 2, pair));
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 2);
}

/* 11.7, line c: a term that was never averaged meets one that is. */
Test(passes_defects_scale, defect_11_07_regularisation_term_is_not_scaled) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "abs_grad Out@GRAD=a0 X=w1 -> X@GRAD=part0");
    layer("a0", "a1", "part1");
    grads_sync(&g, "part1", 1, 0.25);
    grads_op(&g, "sum X=part0,part1 -> Out=w1@GRAD");
    layer("a1", "a2", "w2@GRAD");
    grads_sync(&g, "w2@GRAD", 1, 0.25);
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 2);
}

/* 11.7: the same, where the sum is what is averaged: the unchanged part would keep its weight while the other shrinks.
 */
Test(passes_defects_scale, defect_11_07_constant_part_of_a_reduced_sum) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "part");
    grads_op(&g, "sum X=part,x -> Out=w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_sgd(&g, "w1", "w1@GRAD");
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 1);
    cr_assert(grads_left(report, 0, WEFT_REASON_SCALE, "not linear"));
}

/* 11.7: several losses; all seeds change, or none. */
Test(passes_defects_scale, defect_11_07_two_losses_that_meet_fold_into_both_seeds) {
    grads_seed(&g, "l0", 1);
    grads_seed(&g, "l1", 3);
    grads_op(&g, "sum X=l0,l1 -> Out=a0");
    layer("a0", "a1", "w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_sgd(&g, "w1", "w1@GRAD");
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 0);
    double sum = 0;
    FOR_EACH_OP(op, g.b) {
        if (op_is(op, "fill_constant")) sum += weft_op_attr_float(op, "value", 0);
    }
    cr_assert_float_eq(sum, 1, 0);
}

Test(passes_defects_scale, defect_11_07_two_losses_apart_fold_apart) {
    grads_seed(&g, "l0", 1);
    grads_seed(&g, "l1", 1);
    layer("l0", "a1", "w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    layer("l1", "a2", "w2@GRAD");
    grads_sync(&g, "w2@GRAD", 3, 0.5);
    grads_op(&g, "custom X=a2 -> Out=fetched"); /* spoils the second only */
    finish();
    run("prune_grad_scale");
    cr_assert_eq(weft_report_count(report, 0, "scales removed"), 1);
    cr_assert_float_eq(seed_value(), 0.25, 0);
}

Test(passes_defects_scale, defect_11_07_no_seed_keeps_the_scales) {
    layer("a0", "a1", "w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_sgd(&g, "w1", "w1@GRAD");
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 1);
    cr_assert(grads_left(report, 0, WEFT_REASON_SCALE, "does not come from a loss gradient"));
}

/* 11.7: str_value beats value; both are rewritten. */
Test(passes_defects_scale, defect_11_07_seed_with_a_string_value) {
    weft_op *s = grads_seed(&g, "a0", 7);
    cr_assert_null(weft_op_set_attr_string(s, "str_value", "2.0"));
    layer("a0", "a1", "w1@GRAD");
    grads_sync(&g, "w1@GRAD", 1, 0.25);
    grads_sgd(&g, "w1", "w1@GRAD");
    run("prune_grad_scale");
    cr_assert_str_eq(weft_op_attr_string(s, "str_value", ""), "0.5");
    cr_assert_float_eq(seed_value(), 0.5, 0);
}

/* 11.7: half precision gradients would become smaller before they are summed. */
Test(passes_defects_scale, defect_11_07_half_precision_only_if_allowed) {
    g.dtype = WEFT_FP16;
    simple_net();
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_DTYPE, "allow_half"));
    grads_run(&g, "prune_grad_scale: {allow_half: true}");
    cr_assert_eq(grads_count(&g, "scale"), 0);
}

/* 11.8: the gradient may reach its optimizer under another name, through a cast or a clip. */
Test(passes_defects_scale, defect_11_08_renamed_gradient_is_followed) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "low");
    grads_sync(&g, "low", 1, 0.25);
    grads_op(&g, "cast X=low -> Out=w1@GRAD");
    grads_op(&g, "custom X=w1@GRAD -> Out=clipped"); /* after the scale nothing has changed */
    grads_sgd(&g, "w1", "clipped");
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 0);
}

/* 11.8: momentum's rescale_grad, which Paddle's CPU kernel ignores, is left as it is. */
Test(passes_defects_scale, defect_11_08_rescale_grad_is_not_touched) {
    simple_net();
    grads_op(&g, "custom X=a2 -> Out=fetched");
    weft_op *m = grads_sgd(&g, "w1", "w1@GRAD");
    cr_assert_null(weft_op_set_attr_float(m, "rescale_grad", 1));
    grads_sgd(&g, "w2", "w2@GRAD");
    run("prune_grad_scale");
    cr_assert_float_eq(weft_op_attr_float(m, "rescale_grad", 0), 1, 0);
    cr_assert_eq(grads_count(&g, "scale"), 2);
}

/* 11.8, line h: what is refused leaves the program as it was. */
Test(passes_defects_scale, defect_11_08_nothing_is_half_rewritten) {
    simple_net();
    layer("a2", "a3", "b@GRAD");
    grads_sgd(&g, "b", "b@GRAD");
    finish();
    run("prune_grad_scale");
    cr_assert(weft_program_equal(before, g.p));
}

/* 11.23: a changed value must not reach a sub-block or a persistable variable. */
Test(passes_defects_scale, defect_11_23_sub_blocks_are_seen) {
    simple_net();
    weft_block *sub;
    cr_assert_null(program_add_block(g.p, 0, &sub));
    weft_op *inner = grads_op(&g, "assign X=a2 -> Out=kept");
    weft_op_remove(inner);
    cr_assert_null(op_clone(inner, &inner));
    weft_block_insert_before(sub, NULL, inner);
    weft_op *control = grads_op(&g, "conditional_block Cond=x -> Out=other");
    weft_attr *a;
    cr_assert_null(op_set_attr(control, "sub_block", &a));
    a->type = ATTR_BLOCK;
    a->u.i = 1;
    finish();
    report = grads_passes(&g, "prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_SCALE, "sub-block"));
}

Test(passes_defects_scale, defect_11_23_gradients_kept_over_steps_are_seen) {
    simple_net();
    weft_var_set_persistable(grads_var(&g, "total"), true, false);
    grads_op(&g, "assign X=a2 -> Out=total");
    finish();
    run("prune_grad_scale");
    cr_assert_eq(grads_count(&g, "scale"), 2);
    cr_assert(grads_left(report, 0, WEFT_REASON_IN_USE, "beyond the step"));
}

/* 11.23: without the namescope a reduce is none of data parallelism, and that is said. */
Test(passes_defects_scale, defect_11_23_silence_is_broken) {
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "w1@GRAD");
    weft_op *r = grads_reduce(&g, "w1@GRAD", 1);
    cr_assert_null(op_remove_attr(r, "op_namescope"));
    grads_sgd(&g, "w1", "w1@GRAD");
    run("prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
    cr_assert(weft_program_equal(before, g.p));
    for (size_t i = 0; i < 4; i++)
        cr_assert(grads_left(report, i, WEFT_REASON_NOTHING, "1 all-reduces of other purpose"));
}

/* 11.23: reduces to one rank and reduces of maxima are no candidates. */
Test(passes_defects_scale, defect_11_23_only_sums_and_means_over_all_count) {
    static const char *const lines[] = {"reduce x=w1@GRAD -> out=w1@GRAD", "c_reduce_sum X=w1@GRAD -> Out=w1@GRAD",
                                        "c_allreduce_max X=w1@GRAD -> Out=w1@GRAD",
                                        "c_allreduce_sum X=w1@GRAD -> Out=w2@GRAD"};
    grads_seed(&g, "a0", 1);
    layer("a0", "a1", "w1@GRAD");
    for (size_t i = 0; i < 4; i++) {
        weft_op *op = grads_op(&g, lines[i]);
        cr_assert_null(weft_op_set_attr_string(op, "op_namescope", "/auto_parallel/data_parallel"));
        cr_assert_null(weft_op_set_attr_int(op, "ring_id", 1));
    }
    cr_assert_null(weft_program_clone(g.p, &before));
    report = grads_passes(&g, "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
    cr_assert(weft_program_equal(before, g.p));
}
