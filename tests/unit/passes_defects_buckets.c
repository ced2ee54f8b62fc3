/* What the original data-parallel pass does wrong with buckets, done right: each test is named for the defect. Programs
 * run on imagined ranks before and after (tests/support/grads.h). A gradient of 4 x 8 fp32 has 128 bytes. */
#include "tests/support/grads_case.h"

TestSuite(passes_defects_buckets, .init = set_up, .fini = tear_down);

static void expect_ops(const char *expected) {
    cr_assert_str_eq(ops, expected);
}

/* The members of bucket `index`, as "w1 w2". */
static void expect_members(size_t index, const char *expected) {
    const slot *s = op_find_slot(find("coalesce_tensor", index), true, "Output");
    char members[256] = "";
    for (size_t i = 0; i < s->nargs; i++) {
        if (i) strcat(members, " ");
        strcat(members, slot_var(find("coalesce_tensor", index), s, i)->name->bytes);
    }
    cr_assert_str_eq(members, expected);
}

/* Seed, a chain of layers with one gradient each; gradient i on ring rings[i]. */
static void net(int count, const int64_t *rings) {
    char line[256], n[16];
    grads_seed(&g, "a0", 1);
    for (int i = 0; i < count; i++) {
        snprintf(n, sizeof n, "w%d", i);
        snprintf(line, sizeof line, "matmul_v2_grad Out@GRAD=a%d X=x -> X@GRAD=a%d Y@GRAD=%s", i, i + 1, n);
        grads_op(&g, line);
        grads_reduce(&g, n, rings ? rings[i] : 1);
    }
}

Test(passes_defects_buckets, the_normal_case_is_one_bucket) {
    net(2, NULL);
    optimizers(2);
    run("coalesce_grads");
    expect_ops("fill_constant(a0) coalesce_tensor(coalesce_grad_0) matmul_v2_grad(a1) matmul_v2_grad(a2) "
               "c_allreduce_sum(coalesce_grad_0) sgd(p0) sgd(p1)");
    expect_members(0, "w0 w1");
    cr_assert_eq(weft_report_count(report, 0, "buckets"), 1);
    cr_assert_eq(weft_report_count(report, 0, "gradients bucketed"), 2);
    cr_assert_eq(weft_report_count(report, 0, "bucket bytes"), 256);
}

/* 11.3: the producer is found by data flow, also of a sibling that opens a bucket. Line e: layer_norm_grad. */
Test(passes_defects_buckets, defect_11_03_two_grads_of_one_op_across_bucket_boundary) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0");
    grads_sync(&g, "w0", 1, 0.25);
    grads_op(&g, "layer_norm_grad Out@GRAD=a1 X=x -> X@GRAD=a2 Y@GRAD=w1 Z@GRAD=w2");
    grads_sync(&g, "w1", 1, 0.25);
    grads_sync(&g, "w2", 1, 0.25);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a2 X=x -> X@GRAD=a3 Y@GRAD=w3");
    grads_sync(&g, "w3", 1, 0.25);
    optimizers(4);
    run("overlap_comm, coalesce_grads: {bucket_mb: 0.0002}"); /* 210 bytes: two gradients */
    expect_members(0, "w0 w1");
    expect_members(1, "w2 w3");
    cr_assert(grads_in_order_safe(g.p, why, sizeof why), "%s", why);
    cr_assert_eq(grads_count(&g, "scale"), 2);
}

/* 11.3: two rings, so that the op before the second reduce is the first. Line d: the real pass aborts. */
Test(passes_defects_buckets, defect_11_03_two_rings_on_one_gradient) {
    grads_seed(&g, "a0", 1);
    for (int i = 0; i < 2; i++) {
        grads_op(&g, i ? "matmul_v2_grad Out@GRAD=a1 X=x -> X@GRAD=a2 Y@GRAD=w1"
                       : "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0");
        grads_sync(&g, i ? "w1" : "w0", 1, 0.25);
        grads_sync(&g, i ? "w1" : "w0", 3, 0.5);
    }
    optimizers(2);
    run("coalesce_grads");
    expect_ops(
        "fill_constant(a0) coalesce_tensor(coalesce_grad_0) matmul_v2_grad(a1) matmul_v2_grad(a2) "
        "c_allreduce_sum(coalesce_grad_0) c_allreduce_sum(coalesce_grad_0) scale(coalesce_grad_0) sgd(p0) sgd(p1)");
    cr_assert_float_eq(weft_op_attr_float(find("scale", 0), "scale", 0), 0.125, 0);
    cr_assert_eq(weft_op_attr_int(find("c_allreduce_sum", 0), "ring_id", 0), 1);
    cr_assert_eq(weft_op_attr_int(find("c_allreduce_sum", 1), "ring_id", 0), 3);
}

/* All gradients on one ring, then all on the other, as the inserter emits them for an op with two gradients. */
Test(passes_defects_buckets, defect_11_03_two_rings_grad_by_grad) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "layer_norm_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0 Z@GRAD=w1");
    grads_reduce(&g, "w0", 1);
    grads_reduce(&g, "w1", 1);
    grads_reduce(&g, "w0", 3);
    grads_reduce(&g, "w1", 3);
    optimizers(2);
    run("coalesce_grads");
    expect_members(0, "w0 w1");
    cr_assert_eq(grads_count(&g, "c_allreduce_sum"), 2);
}

/* The same, with a use of w0 before w1 has gone through its second ring: no bucket may hold both. */
Test(passes_defects_buckets, defect_11_03_two_rings_and_a_use_between) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "layer_norm_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0 Z@GRAD=w1");
    grads_reduce(&g, "w0", 1);
    grads_reduce(&g, "w1", 1);
    grads_reduce(&g, "w0", 3);
    grads_op(&g, "assign X=w0 -> Out=fetched");
    grads_reduce(&g, "w1", 3);
    optimizers(2);
    run("coalesce_grads");
    cr_assert_eq(grads_count(&g, "coalesce_tensor"), 0);
}

/* 11.4: buckets of several rings are open at once. */
Test(passes_defects_buckets, defect_11_04_interleaved_rings_fuse) {
    net(6, (int64_t[]){1, 3, 1, 3, 1, 3});
    optimizers(6);
    run("coalesce_grads");
    cr_assert_eq(grads_count(&g, "c_allreduce_sum"), 2);
    expect_members(0, "w0 w2 w4");
    expect_members(1, "w1 w3 w5");
}

/* 11.6: sums and means are not mixed. */
Test(passes_defects_buckets, defect_11_06_reduce_type_is_part_of_the_key) {
    net(4, NULL);
    for (size_t i = 1; i < 4; i += 2) {
        weft_op *op = find("c_allreduce_sum", i == 1 ? 1 : 2), *avg;
        char line[64];
        snprintf(line, sizeof line, "all_reduce x=w%zu -> out=w%zu", i, i);
        avg = grads_op(&g, line);
        cr_assert_null(weft_op_set_attr_int(avg, "ring_id", 1));
        cr_assert_null(weft_op_set_attr_int(avg, "reduce_type", WEFT_REDUCE_AVG));
        cr_assert_null(weft_op_set_attr_string(avg, "op_namescope", "/auto_parallel/data_parallel"));
        weft_op_move_after(avg, op);
        weft_op_remove(op);
    }
    optimizers(4);
    run("coalesce_grads");
    expect_members(0, "w0 w2");
    expect_members(1, "w1 w3");
}

/* 11.15: members whose producers stand in another order than their reduces, buckets that overlap. */
Test(passes_defects_buckets, defect_11_15_producers_far_from_their_reduces) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w3");
    grads_op(&g, "matmul_v2_grad Out@GRAD=a1 X=x -> X@GRAD=a2 Y@GRAD=w2");
    grads_op(&g, "matmul_v2_grad Out@GRAD=a2 X=x -> X@GRAD=a3 Y@GRAD=w1");
    grads_op(&g, "matmul_v2_grad Out@GRAD=a3 X=x -> X@GRAD=a4 Y@GRAD=w0");
    for (int i = 0; i < 4; i++) {
        char n[16];
        snprintf(n, sizeof n, "w%d", i);
        grads_sync(&g, n, 1, 0.25);
    }
    optimizers(4);
    run("overlap_comm, coalesce_grads: {bucket_mb: 0.0002}");
    expect_members(0, "w2 w3");
    expect_members(1, "w0 w1");
    cr_assert(grads_in_order_safe(g.p, why, sizeof why), "%s", why);
}

/* 11.16: what a variable is called means nothing. */
Test(passes_defects_buckets, defect_11_16_a_gradient_named_like_a_bucket) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=coalesce_grad_0");
    grads_reduce(&g, "coalesce_grad_0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a1 X=x -> X@GRAD=a2 Y@GRAD=w1");
    grads_reduce(&g, "w1", 1);
    grads_sgd(&g, "p0", "coalesce_grad_0");
    grads_sgd(&g, "p1", "w1");
    run("coalesce_grads, insert_dependencies");
    expect_members(0, "coalesce_grad_0 w1");
    cr_assert_str_eq(weft_op_output(find("coalesce_tensor", 0), "FusedOutput", 0)->name->bytes, "coalesce_grad_0_1");
    cr_assert_eq(weft_report_count(report, 1, "dependencies"), 2);
}

/* 11.19: the limit is in bytes: a threshold or a cap; the first bucket may be smaller. */
Test(passes_defects_buckets, defect_11_19_limit_in_bytes) {
    static const struct {
        const char *list;
        size_t sizes[5];
    } cases[] = {
        {"coalesce_grads: {bucket_mb: 0.0003}", {3, 3}}, /* 315 bytes: flushed once it has them */
        {"coalesce_grads: {bucket_mb: 0.0003, limit: cap}", {2, 2, 2}},
        {"coalesce_grads: {bucket_mb: 0.0003, first_bucket_mb: 0.0002}", {2, 3}},
        {"coalesce_grads: {bucket_mb: 1, first_bucket_mb: 0.0002, limit: cap}", {5}},
        {"coalesce_grads: {bucket_mb: 0}", {0}},
        {"coalesce_grads", {6}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i) tear_down(), set_up();
        net(6, NULL);
        optimizers(6);
        run(cases[i].list);
        size_t nbuckets = grads_count(&g, "coalesce_tensor"), k = 0;
        for (; k < nbuckets; k++)
            cr_expect_eq(weft_op_noutputs(find("coalesce_tensor", k), "Output"), cases[i].sizes[k], "%s, bucket %zu",
                         cases[i].list, k);
        cr_expect_eq(cases[i].sizes[k], 0, "%s: %zu buckets", cases[i].list, nbuckets);
    }
}

/* 11.20: a gradient as large as a bucket is reduced alone and does not disturb the open one. */
Test(passes_defects_buckets, defect_11_20_large_gradient_stands_alone) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0");
    grads_reduce(&g, "w0", 1);
    g.dims[0] = 400;
    grads_op(&g, "matmul_v2_grad Out@GRAD=a1 X=x -> Y@GRAD=w1");
    g.dims[0] = 4;
    grads_reduce(&g, "w1", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a1 X=x -> X@GRAD=a2 Y@GRAD=w2");
    grads_reduce(&g, "w2", 1);
    optimizers(3);
    run("coalesce_grads: {bucket_mb: 0.001, limit: cap}");
    expect_members(0, "w0 w2");
    cr_assert_eq(weft_report_count(report, 0, "buckets"), 1, "a gradient alone is no bucket");
    cr_assert(grads_left(report, 0, WEFT_REASON_LIMIT, "\"w1\" (12800 bytes)"));
}

/* 11.21: the fused variable has rank 1, mapping [-1], the members' own mesh; nothing stale stays; meshes do not mix. */
static void put_on_mesh(const char *n, const mesh *m) {
    const mesh *added;
    cr_assert_null(program_add_mesh(g.p, m, &added));
    weft_var *v = grads_var(&g, n);
    placement where = {.mesh = added, .ndim = 2, .dims_mapping = (int64_t[]){-1, 1}};
    cr_assert_null(placement_clone(g.p, &where, &v->dist));
    FOR_EACH_USE(u, v) {
        if (!op_is(use_op(v->program, u), "c_allreduce_sum") || u->is_output) continue;
        op_dist *own;
        op_dist_rest *d;
        cr_assert_null(op_dist_get(use_op(v->program, u), &own));
        cr_assert_null(op_dist_rest_get(g.p, own, &d));
        d->mesh = added;
        d->inputs = ARENA_ARRAY(&g.p->arena, op_placement, 1);
        d->inputs[0] = (op_placement){v->name, v->dist};
        d->ninputs = 1;
    }
}

Test(passes_defects_buckets, defect_11_21_distributed_attributes_are_valid) {
    mesh one = {.ndim = 2, .shape = (int64_t[]){4, 1}, .ids = (int64_t[]){0, 1, 2, 3}}, other = one;
    other.shape = (int64_t[]){2, 2};
    net(4, NULL);
    optimizers(4);
    for (int i = 0; i < 4; i++) put_on_mesh((const char *[]){"w0", "w1", "w2", "w3"}[i], i < 2 ? &one : &other);
    run("coalesce_grads, insert_dependencies");
    cr_assert_null(weft_program_verify(g.p));
    expect_members(0, "w0 w1");
    expect_members(1, "w2 w3");
    weft_var *fused = weft_op_output(find("coalesce_tensor", 1), "FusedOutput", 0);
    cr_assert(fused->ndim == 1 && fused->dist->ndim == 1 && fused->dist->dims_mapping[0] == -1);
    cr_assert(mesh_equal(fused->dist->mesh, &other));
    cr_assert(!fused->persistable && fused->stop_gradient);
    cr_assert_eq(fused->dims[0], 128, "two slices of 128 bytes, each padded to 256");
    weft_op *reduce = find("c_allreduce_sum", 1);
    cr_assert(reduce->dist->rest->ninputs == 1 && reduce->dist->rest->inputs[0].var == fused->name);
    cr_assert_eq(reduce->dist->rest->inputs[0].placement->ndim, 1);
}

/* Line g of the observations, and 11.22: the real pass fuses sparse gradients, which cannot be reduced even alone. */
Test(passes_defects_buckets, defect_11_22_sparse_gradients_are_refused) {
    net(3, NULL);
    optimizers(3);
    grads_var(&g, "w1")->kind = WEFT_SELECTED_ROWS;
    const char *yaml = "coalesce_grads";
    weft_pass_list *list;
    cr_assert_null(weft_pass_list_parse(g.context, yaml, strlen(yaml), "test", &list));
    cr_assert_null(weft_program_clone(g.p, &before));
    weft_status status = weft_pass_list_run(list, g.p, NULL);
    cr_assert_eq(weft_status_code(status), WEFT_REFUSED);
    cr_assert_not_null(strstr(weft_status_message(status), "c_allreduce_sum #4: \"w1\" is SelectedRows"));
    cr_assert(weft_program_equal(before, g.p));
    weft_status_free(status);
    weft_pass_list_destroy(list);
}

/* 11.22: who may not be a member, and why. */
static void make_array(void) {
    grads_var(&g, "w1")->kind = WEFT_DENSE_TENSOR_ARRAY;
}
static void make_dynamic(void) {
    static int64_t own[WEFT_MAX_RANK]; /* vars of equal extents share theirs */
    weft_var *v = grads_var(&g, "w1");
    memcpy(own, v->dims, v->ndim * sizeof *own);
    own[0] = -1;
    v->dims = own;
}
static void make_persistable(void) {
    weft_var_set_persistable(grads_var(&g, "w1"), true, false);
}
static void make_alias(void) {
    weft_op_move_before(grads_op(&g, "share_data X=w1 -> Out=view"), find("sgd", 0));
}
static void make_fetched(void) {
    grads_op(&g, "fetch X=w1 -> Out=fetched");
}
static void make_fed(void) {
    weft_op_move_after(grads_op(&g, "feed X=x -> Out=w1"), find("fill_constant", 0));
}
static void make_unwritten(void) {
    weft_op *producer = find("matmul_v2_grad", 1);
    weft_op_rename_output(producer, grads_var(&g, "w1"), grads_var(&g, "other"));
}
static void make_read_first(void) {
    weft_op_move_after(grads_op(&g, "custom X=w1 -> Out=fetched"), find("fill_constant", 0));
}
static void make_reduced_twice(void) {
    weft_op *again = grads_op(&g, "relu_grad Out@GRAD=a2 -> X@GRAD=w1"), *reduce = grads_reduce(&g, "w1", 1);
    weft_op_move_before(again, find("sgd", 0));
    weft_op_move_before(reduce, find("sgd", 0));
}
static void use_between(void) {
    weft_op_move_after(grads_op(&g, "assign X=w1 -> Out=fetched"), find("c_allreduce_sum", 1));
}

Test(passes_defects_buckets, defect_11_22_members_are_checked) {
    static const struct {
        void (*spoil)(void);
        weft_reason reason;
        const char *message;
    } cases[] = {
        {make_array, WEFT_REASON_SHAPE, "no dense tensor"},
        {make_dynamic, WEFT_REASON_SHAPE, "shape or element type is not known"},
        {make_persistable, WEFT_REASON_IN_USE, "persistable"},
        {make_alias, WEFT_REASON_IN_USE, "shared with other variables"},
        {make_fetched, WEFT_REASON_IN_USE, "fed or fetched"},
        {make_fed, WEFT_REASON_IN_USE, "fed or fetched"},
        {make_unwritten, WEFT_REASON_DEPENDENCY, "nothing writes it"},
        {make_read_first, WEFT_REASON_DEPENDENCY, "read before it is first written"},
        {make_reduced_twice, WEFT_REASON_IN_USE, "reduced more than once"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i) tear_down(), set_up();
        net(3, NULL);
        optimizers(3);
        cases[i].spoil();
        report = grads_passes(&g, "coalesce_grads");
        expect_members(0, "w0 w2");
        cr_expect(grads_left(report, 0, cases[i].reason, cases[i].message), "case %zu: %s", i, cases[i].message);
    }
}

Test(passes_defects_buckets, defect_11_22_a_use_between_closes_the_bucket) {
    net(3, NULL);
    optimizers(3);
    use_between();
    run("coalesce_grads");
    expect_members(0, "w0 w1");
    cr_assert(grads_left(report, 0, WEFT_REASON_DEPENDENCY, "\"w2\""));
}

/* The layout is said, not left to the device: slices padded to 256 bytes, nothing copied or filled. */
Test(passes_defects_buckets, defect_11_22_layout_is_explicit) {
    net(2, NULL);
    optimizers(2);
    run("coalesce_grads");
    const weft_op *c = find("coalesce_tensor", 0);
    cr_assert_eq(weft_op_attr_int(c, "align_size", 0), 256);
    cr_assert(weft_op_attr_bool(c, "use_align", false));
    cr_assert_not(weft_op_attr_bool(c, "copy_data", true));
    cr_assert_not(weft_op_attr_bool(c, "set_constant", true));
    cr_assert_eq(weft_op_attr_int(c, "dtype", 0), WEFT_FP32);
    const weft_attr *shapes = op_find_attr(c, "concated_shapes"), *ranks = op_find_attr(c, "concated_ranks");
    cr_assert(shapes->type == ATTR_LONGS && shapes->count == 4 && shapes->u.ints[1] == 8);
    cr_assert(ranks->count == 2 && ranks->u.ints[1] == 2);
}

/* 11.23: gradients of another type do not join; nothing keeps state between programs. */
Test(passes_defects_buckets, defect_11_23_dtype_is_part_of_the_key) {
    net(4, NULL);
    optimizers(4);
    grads_var(&g, "w1")->dtype = grads_var(&g, "w3")->dtype = WEFT_FP16;
    run("coalesce_grads");
    expect_members(0, "w0 w2");
    expect_members(1, "w1 w3");
}

/* A recompute segment's nop names a gradient right after it was made: it touches no bytes and closes nothing. */
Test(passes_defects_buckets, an_edge_of_recompute_does_not_close_the_bucket) {
    grads_seed(&g, "a0", 1);
    grads_op(&g, "matmul_v2_grad Out@GRAD=a0 X=x -> X@GRAD=a1 Y@GRAD=w0");
    grads_reduce(&g, "w0", 1);
    grads_op(&g, "nop X=w0 -> Out=x");
    grads_op(&g, "matmul_v2_grad Out@GRAD=a1 X=x -> X@GRAD=a2 Y@GRAD=w1");
    grads_reduce(&g, "w1", 1);
    optimizers(2);
    run("coalesce_grads");
    expect_ops("fill_constant(a0) coalesce_tensor(coalesce_grad_0) matmul_v2_grad(a1) nop(x) matmul_v2_grad(a2) "
               "c_allreduce_sum(coalesce_grad_0) sgd(p0) sgd(p1)");
}

/* Paddle's own overlap put a wait before each reduce: those of members go, the last one's stays. */
Test(passes_defects_buckets, waits_of_members_go_with_their_reduces) {
    net(2, NULL);
    for (size_t i = 0; i < 2; i++) {
        weft_op *wait = grads_op(&g, "c_wait_compute");
        cr_assert_null(weft_op_set_attr_int(wait, "ring_id", 1));
        weft_op_move_before(wait, find("c_allreduce_sum", i));
    }
    optimizers(2);
    run("coalesce_grads");
    expect_ops("fill_constant(a0) coalesce_tensor(coalesce_grad_0) matmul_v2_grad(a1) matmul_v2_grad(a2) "
               "c_wait_compute() c_allreduce_sum(coalesce_grad_0) sgd(p0) sgd(p1)");
}
