/* What the original data-parallel pass does wrong with streams, waits and dependencies, done right: each test is named
 * for the defect. */
#include "ops/ops.h"
#include "tests/support/drop_arg.h"
#include "tests/support/grads_case.h"

TestSuite(passes_defects_overlap, .init = set_up, .fini = tear_down);

/* `run`, after which the program must be safe when read in order too. */
static void run_safely(const char *list) {
    run(list);
    cr_assert(grads_in_order_safe(g.p, why, sizeof why), "%s", why);
}

static size_t nwaits(const weft_op *op) {
    return op->dist ? op_dist_nwaits(op->dist) : 0;
}

/* Whether `waiter` waits for the event that `recorder` records. */
static bool waits_for(const weft_op *waiter, const weft_op *recorder) {
    const char *event = recorder->dist ? recorder->dist->event_to_record : NULL;
    for (size_t i = 0; event && i < nwaits(waiter); i++)
        if (strcmp(waiter->dist->waits->events[i], event) == 0) return true;
    return false;
}

static bool is_on(const weft_op *op, const char *stream) {
    return strcmp(weft_op_stream(op), stream) == 0;
}

static void net(int count) {
    char line[256], n[16];
    grads_seed(&g, "a0", 1);
    for (int i = 0; i < count; i++) {
        snprintf(n, sizeof n, "w%d", i);
        snprintf(line, sizeof line, "matmul_v2_grad Out@GRAD=a%d X=x -> X@GRAD=a%d Y@GRAD=%s", i, i + 1, n);
        grads_op(&g, line);
        grads_sync(&g, n, 1, 0.25);
    }
}

/* 11.9: compute waits for a gradient before its first use, and the reduce for the gradient's last producer. */
Test(passes_defects_overlap, defect_11_09_compute_waits_before_the_first_read) {
    net(2);
    optimizers(2);
    run_safely("overlap_comm");
    cr_assert(is_on(find("c_allreduce_sum", 0), "gradient_sync"));
    cr_assert(is_on(find("scale", 0), "gradient_sync"), "its scale goes with it");
    cr_assert(waits_for(find("c_allreduce_sum", 0), find("matmul_v2_grad", 0)));
    cr_assert(waits_for(find("c_allreduce_sum", 1), find("matmul_v2_grad", 1)));
    cr_assert(waits_for(find("sgd", 0), find("scale", 0)));
    cr_assert(waits_for(find("sgd", 1), find("scale", 1)));
    cr_assert_eq(grads_count(&g, "c_wait_comm") + grads_count(&g, "c_wait_compute"), 0);
    cr_assert_eq(weft_report_count(report, 0, "collectives moved"), 2);
    cr_assert(weft_op_attr_bool(find("c_allreduce_sum", 0), "use_calc_stream", false));
}

/* 11.9: a writer must wait as a reader must. */
Test(passes_defects_overlap, defect_11_09_compute_waits_before_the_first_write) {
    net(1);
    grads_op(&g, "relu_grad Out@GRAD=a1 -> X@GRAD=w0");
    optimizers(1);
    run_safely("overlap_comm");
    cr_assert(waits_for(find("relu_grad", 0), find("scale", 0)));
    cr_assert_eq(nwaits(find("sgd", 0)), 0, "the writer's wait covers it");
}

/* 11.9: an op that reads the raw gradient must be done before the reduce overwrites it. */
Test(passes_defects_overlap, defect_11_09_reduce_waits_for_readers_of_the_raw_gradient) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0");
    grads_op(&g, "assign X=w0 -> Out=fetched");
    grads_reduce(&g, "w0", 1);
    optimizers(1);
    run_safely("overlap_comm");
    cr_assert(waits_for(find("c_allreduce_sum", 0), find("assign", 0)));
    cr_assert_eq(nwaits(find("c_allreduce_sum", 0)), 1, "the reader comes after the producer");
}

/* 11.9: one wait per stream and event: an op that needs several gradients waits for the last, later ones not again. */
Test(passes_defects_overlap, defect_11_09_one_wait_per_stream_and_event) {
    net(3);
    grads_op(&g, "custom X=w0,w1,w2 -> Out=norm");
    optimizers(3);
    run_safely("overlap_comm");
    cr_assert_eq(nwaits(find("custom", 0)), 1);
    cr_assert(waits_for(find("custom", 0), find("scale", 2)));
    for (size_t i = 0; i < 3; i++) cr_assert_eq(nwaits(find("sgd", i)), 0);
}

/* 11.9: uses in a sub-block count as uses by the op that runs it. */
Test(passes_defects_overlap, defect_11_09_sub_block_uses_wait) {
    net(1);
    weft_block *sub;
    cr_assert_null(program_add_block(g.p, 0, &sub));
    weft_op *inner = grads_sgd(&g, "p0", "w0"), *copy;
    cr_assert_null(op_clone(inner, &copy));
    weft_op_remove(inner);
    weft_block_insert_before(sub, NULL, copy);
    weft_op *control = grads_op(&g, "conditional_block Cond=x -> Out=other");
    weft_attr *a;
    cr_assert_null(op_set_attr(control, "sub_block", &a));
    a->type = ATTR_BLOCK;
    a->u.i = 1;
    report = grads_passes(&g, "overlap_comm");
    cr_assert(waits_for(control, find("scale", 0)));
}

/* 11.9: an alias of the gradient is the gradient. */
Test(passes_defects_overlap, defect_11_09_aliases_wait) {
    net(1);
    grads_op(&g, "share_data X=w0 -> Out=view");
    weft_op_move_after(g.b->last, find("fill_constant", 0));
    grads_op(&g, "assign X=view -> Out=other");
    report = grads_passes(&g, "overlap_comm");
    cr_assert(waits_for(find("assign", 0), find("scale", 0)));
}

/* 11.10: the stream does not depend on whether anything was fused. */
Test(passes_defects_overlap, defect_11_10_a_single_gradient_is_moved_too) {
    net(1);
    optimizers(1);
    run_safely("prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
    cr_assert(is_on(find("c_allreduce_sum", 0), "gradient_sync"));
    cr_assert_eq(grads_count(&g, "coalesce_tensor") + grads_count(&g, "nop"), 0);
}

/* 11.11 and line f: no flag of an executor makes the passes crash or skip. */
Test(passes_defects_overlap, defect_11_11_sequential_run_flag_means_nothing) {
    setenv("FLAGS_new_executor_sequential_run", "1", 1);
    net(2);
    optimizers(2);
    run_safely("prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
    cr_assert_eq(grads_count(&g, "nop"), 2);
    cr_assert_eq(grads_count(&g, "c_allreduce_sum"), 1);
}

/* 11.12: the ring belongs to the collective, not to the stream; all-reduces of both rings share one stream in order. */
Test(passes_defects_overlap, defect_11_12_rings_stay_with_their_collectives) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "layer_norm_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0 Z@GRAD=w1");
    grads_reduce(&g, "w0", 1);
    grads_reduce(&g, "w1", 3);
    optimizers(2);
    run_safely("overlap_comm: {stream: side}");
    for (size_t i = 0; i < 2; i++) {
        cr_assert(is_on(find("c_allreduce_sum", i), "side"));
        cr_assert_eq(weft_op_attr_int(find("c_allreduce_sum", i), "ring_id", 0), i ? 3 : 1);
    }
    cr_assert(waits_for(find("c_allreduce_sum", 0), find("layer_norm_grad", 0)));
    cr_assert_eq(nwaits(find("c_allreduce_sum", 1)), 0, "its stream has waited for that already");
}

/* 11.13: the reduce depends on every member. */
Test(passes_defects_overlap, defect_11_13_prior_dependency_names_all_members) {
    net(3);
    optimizers(3);
    run_safely("overlap_comm, coalesce_grads, insert_dependencies");
    const weft_op *nop = find("nop", 0), *reduce = find("c_allreduce_sum", 0);
    cr_assert_eq(nop->next, reduce);
    cr_assert_eq(weft_op_ninputs(nop, "X"), 3);
    cr_assert_eq(weft_op_output(nop, "Out", 0), op_x(reduce));
    cr_assert(is_on(nop, "gradient_sync"));
    cr_assert(waits_for(reduce, find("matmul_v2_grad", 2)), "and by explicit waits on the last producer");
    cr_assert_str_eq(weft_op_attr_string(nop, "op_namescope", ""), "/data_parallel_overlap_dep");
    cr_assert_eq(weft_op_role(nop), WEFT_ROLE_BACKWARD);
}

/* 11.13: what Paddle left (last member -> fused) is completed, not repeated. */
Test(passes_defects_overlap, defect_11_13_paddles_dependency_is_completed) {
    net(2);
    optimizers(2);
    run_safely("prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies");
    weft_op *prior = find("nop", 0), *partial;
    cr_assert_null(op_clone(prior, &partial));
    while (op_slot(partial, false, 0)->nargs > 1) drop_arg(partial, op_slot(partial, false, 0), 1);
    weft_block_insert_before(g.b, prior, partial);
    weft_op_remove(prior);
    weft_report_destroy(report);
    report = grads_passes(&g, "insert_dependencies");
    cr_assert_eq(grads_count(&g, "nop"), 2);
    cr_assert_eq(weft_op_ninputs(find("nop", 0), "X"), 2);
}

/* 11.14: what follows depends on the end of the sync, scale included. */
Test(passes_defects_overlap, defect_11_14_post_dependency_follows_the_scale) {
    net(2);
    optimizers(2);
    run_safely("overlap_comm, coalesce_grads, insert_dependencies");
    const weft_op *nop = find("nop", 1), *scale = find("scale", 0);
    cr_assert_eq(scale->next, nop);
    cr_assert_eq(weft_op_input(nop, "X", 0), op_out(scale));
    cr_assert_eq(weft_op_noutputs(nop, "Out"), 2);
}

/* 11.17: ops of forward role after a reduce end nothing. */
Test(passes_defects_overlap, defect_11_17_forward_op_late_in_the_block) {
    net(2);
    weft_op *metric = grads_op(&g, "custom X=x -> Out=fetched");
    cr_assert_null(weft_op_set_attr_int(metric, "op_role", WEFT_ROLE_FORWARD));
    grads_op(&g, "matmul_v2_grad Out@GRAD=a2 X=x -> X@GRAD=a3 Y@GRAD=w2");
    grads_sync(&g, "w2", 3, 0.25);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a3 X=x -> X@GRAD=a4 Y@GRAD=w3");
    grads_sync(&g, "w3", 3, 0.25);
    optimizers(4);
    run_safely("overlap_comm, coalesce_grads, insert_dependencies");
    cr_assert_eq(grads_count(&g, "coalesce_tensor"), 2);
    cr_assert_eq(grads_count(&g, "nop"), 4);
}

/* 11.18: only the waits of the data-parallel reduces are replaced. */
static weft_op *wait_before(weft_op *op, int64_t ring_id, bool with_argument) {
    weft_op *wait = grads_op(&g, with_argument ? "c_wait_compute X=x -> Out=x" : "c_wait_compute");
    cr_assert_null(weft_op_set_attr_int(wait, "ring_id", ring_id));
    if (op) weft_op_move_before(wait, op);
    return wait;
}

Test(passes_defects_overlap, defect_11_18_foreign_waits_stay) {
    net(3);
    optimizers(3);
    weft_op *own = wait_before(find("c_allreduce_sum", 0), 1, false);
    weft_op *other_ring = wait_before(find("c_allreduce_sum", 1), 3, false);
    weft_op *with_argument = wait_before(find("c_allreduce_sum", 2), 1, true);
    weft_op *elsewhere = wait_before(find("sgd", 0), 1, false);
    cr_assert_null(weft_op_set_attr_bool(find("c_allreduce_sum", 0), "use_calc_stream", false));
    run_safely("overlap_comm");
    cr_assert_null(weft_op_block(own));
    cr_assert_not_null(weft_op_block(other_ring));
    cr_assert_not_null(weft_op_block(with_argument));
    cr_assert_not_null(weft_op_block(elsewhere));
    cr_assert(weft_op_attr_bool(find("c_allreduce_sum", 0), "use_calc_stream", false));
}

/* Events of other origin are kept, and used where they say the same. */
Test(passes_defects_overlap, defect_11_18_foreign_events_stay) {
    net(1);
    optimizers(1);
    op_dist *d;
    cr_assert_null(op_dist_get(find("matmul_v2_grad", 0), &d));
    d->event_to_record = "mine";
    cr_assert_null(op_dist_get(find("sgd", 0), &d));
    cr_assert_null(op_dist_set_waits(g.p, d, (const char *const[]){"mine"}, 1));
    run_safely("overlap_comm");
    cr_assert_str_eq(find("matmul_v2_grad", 0)->dist->event_to_record, "mine");
    cr_assert(waits_for(find("c_allreduce_sum", 0), find("matmul_v2_grad", 0)));
    cr_assert_eq(nwaits(find("sgd", 0)), 2);
    grads_run(&g, "overlap_comm");
    cr_assert_eq(nwaits(find("sgd", 0)), 2);
}

/* 11.23: use_calc_stream is not put on an op that has no such attribute. */
Test(passes_defects_overlap, defect_11_23_all_reduce_gets_no_foreign_attribute) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0");
    weft_op *r = grads_op(&g, "all_reduce x=w0 -> out=w0");
    cr_assert_null(weft_op_set_attr_int(r, "ring_id", 1));
    cr_assert_null(weft_op_set_attr_string(r, "op_namescope", "/auto_parallel/data_parallel"));
    optimizers(1);
    run_safely("overlap_comm");
    cr_assert_null(op_find_attr(r, "use_calc_stream"));
    cr_assert(is_on(r, "gradient_sync"));
}

/* After fusing, the events are those of the buckets: the old ones are gone, one is recorded a bucket. */
Test(passes_defects_overlap, events_follow_the_buckets) {
    net(4);
    optimizers(4);
    run_safely("overlap_comm, coalesce_grads");
    size_t nevents = 0, waits = 0;
    FOR_EACH_OP(op, g.b) {
        nevents += op->dist && op->dist->event_to_record;
        waits += nwaits(op);
    }
    cr_assert_eq(nevents, 2);
    cr_assert_eq(waits, 2);
}

Test(passes_defects_overlap, a_stream_needs_a_name) {
    net(1);
    optimizers(1);
    weft_pass_list *list;
    const char *yaml = "overlap_comm: {stream: ''}";
    cr_assert_null(weft_pass_list_parse(g.context, yaml, strlen(yaml), "test", &list));
    cr_assert_null(weft_program_clone(g.p, &before));
    weft_status status = weft_pass_list_run(list, g.p, NULL);
    cr_assert_eq(weft_status_code(status), WEFT_REFUSED);
    cr_assert(weft_program_equal(before, g.p));
    weft_status_free(status);
    weft_pass_list_destroy(list);
}
