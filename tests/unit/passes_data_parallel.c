/* data_parallel on programs of a few lines: what is split, and where reduces go. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/data_parallel.h"
#include "tests/support/fixtures.h"

TestSuite(data_parallel, .init = setup, .fini = teardown);

static weft_var *var(const char *wanted) {
    weft_var *v = weft_block_find_var(weft_program_block(program, 0), wanted);
    cr_assert_not_null(v, "%s", wanted);
    return v;
}

/* "8,4 [0,-1]": extents and dims_mapping. */
static const char *placed(const char *wanted) {
    static char out[200];
    const weft_var *v = var(wanted);
    size_t n = 0;
    for (size_t i = 0; i < v->ndim; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%lld", i ? "," : "", (long long)v->dims[i]);
    n += (size_t)snprintf(out + n, sizeof out - n, " [");
    for (int i = 0; i < v->dist->ndim; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%lld", i ? "," : "", (long long)v->dist->dims_mapping[i]);
    snprintf(out + n, sizeof out - n, "]");
    return out;
}

static void assert_types(const char *expected) {
    char *types = small_program_types(program, 0);
    cr_assert_str_eq(types, expected);
    free(types);
}

static weft_op *op_at(size_t index) {
    weft_op *op = weft_block_first_op(weft_program_block(program, 0));
    while (index--) op = weft_op_next(op);
    return op;
}

/* --- what it does ------------------------------------------------------------------------------------------------- */

Test(data_parallel, averages_each_gradient_right_after_its_writer) {
    USE(linear);
    run_well("data_parallel: {ranks: 2}");
    assert_types("matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad c_allreduce_sum scale sgd");
    const weft_op *reduce = op_at(5), *scale = op_at(6);
    cr_assert_eq(weft_op_input(reduce, "X", 0), var("w@GRAD"));
    cr_assert_eq(weft_op_output(reduce, "Out", 0), var("w@GRAD"));
    cr_assert_eq(weft_op_attr_int(reduce, "ring_id", -1), 0);
    cr_assert_eq(weft_op_attr_bool(reduce, "use_calc_stream", false), true);
    cr_assert_eq(weft_op_role(reduce), WEFT_ROLE_BACKWARD);
    cr_assert_str_eq(weft_op_attr_string(reduce, "op_namescope", ""), "/auto_parallel/data_parallel");
    cr_assert_eq(weft_op_input(scale, "X", 0), var("w@GRAD"));
    cr_assert_eq(weft_op_attr_float(scale, "scale", 0), 0.5);
    cr_assert_eq(weft_op_attr_bool(scale, "bias_after_scale", false), true);
    cr_assert_str_eq(weft_op_attr_string(scale, "op_namescope", ""), "/auto_parallel/data_parallel");
    cr_assert_eq(weft_report_count(report, 0, "gradients reduced"), 1);
    cr_assert_eq(weft_report_count(report, 0, "scales added"), 1);
}

Test(data_parallel, feeds_and_what_follows_get_a_ranks_rows) {
    USE(linear);
    run_well("data_parallel: {ranks: 4}");
    cr_assert_str_eq(placed("x"), "2,4 [0,-1]");
    cr_assert_str_eq(placed("h"), "2,3 [0,-1]");
    cr_assert_str_eq(placed("h@GRAD"), "2,3 [0,-1]");
    cr_assert_str_eq(placed("w"), "4,3 [-1,-1]");
    cr_assert_str_eq(placed("w@GRAD"), "4,3 [-1,-1]");
    cr_assert_str_eq(placed("loss"), " []");
    size_t nranks = 0;
    const int64_t *ranks = NULL;
    cr_assert(weft_program_ring(program, 0, &nranks, &ranks));
    cr_assert_eq(nranks, 4);
    for (int64_t i = 0; i < 4; i++) cr_assert_eq(ranks[i], i);
    cr_assert(program->has_dist);
    cr_assert_eq(weft_program_rank(program), -1);
    cr_assert_eq(program->nparams_grads, 1);
    cr_assert_str_eq(program->params_grads[1]->bytes, "w@GRAD");
}

Test(data_parallel, a_sum_of_losses_needs_no_scale) {
    USE(linear);
    run_well("data_parallel: {ranks: 2, reduce: sum}");
    assert_types("matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad c_allreduce_sum sgd");
}

Test(data_parallel, programs_of_paddle_3_get_its_collective) {
    USE(linear);
    program->version = 3003001;
    program->has_version = true;
    run_well("data_parallel: {ranks: 2}");
    assert_types("matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad all_reduce scale sgd");
    cr_assert_eq(weft_op_input(op_at(5), "x", 0), var("w@GRAD"));
    cr_assert_eq(weft_op_output(op_at(5), "out", 0), var("w@GRAD"));
    cr_assert_eq(weft_op_attr_int(op_at(5), "reduce_type", -1), WEFT_REDUCE_SUM);
}

Test(data_parallel, one_rank_changes_dist_attrs_only) {
    USE(linear);
    run_well("data_parallel: {ranks: 1}");
    assert_types("matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad sgd");
    cr_assert_str_eq(placed("x"), "8,4 [0,-1]");
    cr_assert_str_eq(placed("h"), "8,3 [-1,-1]");
}

static const char *const accumulated[] = {LINEAR_VARS,
                                          "var part float32 4,3",
                                          FORWARD,
                                          SEED,
                                          MEAN_GRAD,
                                          "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1",
                                          "op abs_grad X=w Out@GRAD=w -> X@GRAD=part | op_role=1",
                                          "op sum X=w@GRAD,part -> Out=w@GRAD | op_role=1 op_role_var=w,w@GRAD",
                                          "op clip X=w@GRAD -> Out=w@GRAD | op_role=2 min=-1.0 max=1.0",
                                          SGD};

Test(data_parallel, reduces_after_the_last_backward_writer_and_before_clipping) {
    USE(accumulated);
    run_well("data_parallel: {ranks: 2}");
    assert_types(
        "matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad abs_grad sum c_allreduce_sum scale "
        "clip sgd");
}

static const char *const two_gradients[] = {
    LINEAR_VARS, "var b float32 3 persist", "var b@GRAD float32 3", "var s float32 8,3", "var s@GRAD float32 8,3",
    "op matmul_v2 X=x Y=w -> Out=h | op_role=0", "op elementwise_add X=h Y=b -> Out=s | op_role=0 axis=-1",
    "op reduce_mean X=s -> Out=loss | op_role=256 reduce_all=true", SEED,
    "op reduce_mean_grad X=s Out@GRAD=loss@GRAD -> X@GRAD=s@GRAD | op_role=1 reduce_all=true",
    /* an op of a host's own that makes both gradients */
    "op linear_grad X=x Out@GRAD=s@GRAD -> B@GRAD=b@GRAD W@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD,b,b@GRAD", SGD,
    "op sgd Param=b Grad=b@GRAD LearningRate=lr -> ParamOut=b | op_role=2"};

Test(data_parallel, gradients_of_one_op_are_reduced_in_the_order_it_names_them) {
    USE(two_gradients);
    run_well("data_parallel: {ranks: 2}");
    assert_types(
        "matmul_v2 elementwise_add reduce_mean fill_constant reduce_mean_grad linear_grad c_allreduce_sum scale "
        "c_allreduce_sum scale sgd sgd");
    cr_assert_eq(weft_op_input(op_at(6), "X", 0), var("w@GRAD"));
    cr_assert_eq(weft_op_input(op_at(8), "X", 0), var("b@GRAD"));
}

static const char *const cast_copy[] = {
    "var x float32 8,4",
    "var w float32 4,3 persist",
    "var lr float32 - persist",
    "var c float32 4,3",
    "var h float32 8,3",
    "var loss float32 -",
    "var loss@GRAD float32 -",
    "var h@GRAD float32 8,3",
    "var c@GRAD float32 4,3",
    "var w@GRAD float32 4,3",
    "op cast X=w -> Out=c | op_role=0 in_dtype=5 out_dtype=5",
    "op matmul_v2 X=x Y=c -> Out=h | op_role=0",
    "op reduce_mean X=h -> Out=loss | op_role=256 reduce_all=true",
    SEED,
    MEAN_GRAD,
    "op matmul_v2_grad X=x Y=c Out@GRAD=h@GRAD -> Y@GRAD=c@GRAD | op_role=1 op_role_var=c,c@GRAD",
    "op cast X=c@GRAD -> Out=w@GRAD | op_role=1 in_dtype=5 out_dtype=5",
    SGD};

Test(data_parallel, a_parameter_is_covered_through_its_cast_copy) {
    USE(cast_copy);
    run_well("data_parallel: {ranks: 2}");
    assert_types(
        "cast matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad c_allreduce_sum scale cast sgd");
    cr_assert_eq(weft_op_input(op_at(6), "X", 0), var("c@GRAD"));
}

#define UNNAMED "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1"
static const char *const unnamed[] = {LINEAR_VARS, FORWARD, SEED, MEAN_GRAD, UNNAMED, SGD};

Test(data_parallel, a_gradient_that_no_op_names_is_found_where_the_optimizer_reads_it) {
    USE(unnamed);
    run_well("data_parallel: {ranks: 2}");
    assert_types("matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad c_allreduce_sum scale sgd");
    cr_assert_eq(program->nparams_grads, 1);
    cr_assert_str_eq(program->params_grads[0]->bytes, "w");
    cr_assert_str_eq(program->params_grads[1]->bytes, "w@GRAD");
}

static const char *const by_hand[] = {LINEAR_VARS,
                                      "var step float32 4,3",
                                      "var new float32 4,3",
                                      FORWARD,
                                      SEED,
                                      MEAN_GRAD,
                                      UNNAMED,
                                      "op scale X=w@GRAD -> Out=step | op_role=0 scale=0.1 bias=0.0",
                                      "op elementwise_sub X=w Y=step -> Out=new | op_role=0 axis=-1",
                                      "op assign X=new -> Out=w | op_role=0"};

Test(data_parallel, an_update_by_hand_gets_its_reduce_where_the_gradient_is_made) {
    USE(by_hand);
    run_well("data_parallel: {ranks: 2}");
    assert_types("matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad c_allreduce_sum scale scale "
                 "elementwise_sub assign");
}

static const char *const own_grad[] = {LINEAR_VARS, FORWARD, "op my_grad X=x -> G=w@GRAD | op_role=1", SGD};

Test(data_parallel, a_gradient_that_the_sidecar_names_is_reduced) {
    USE(own_grad);
    const name *pair[] = {var("w")->name, var("w@GRAD")->name};
    program->params_grads = pair;
    program->nparams_grads = 1;
    run_well("data_parallel: {ranks: 2}");
    assert_types("matmul_v2 reduce_mean my_grad c_allreduce_sum scale sgd");
}

/* --- feeds -------------------------------------------------------------------------------------------------------- */

static const char *const several_feeds[] = {"var x float32 8,4",
                                            "var table float32 3,4",
                                            "var wide float32 8,4",
                                            "var scalar float32 -",
                                            "var state float32 8 persist",
                                            "var a float32 8,4",
                                            "var b float32 8,4",
                                            "var c float32 3,4",
                                            "var d float32 -",
                                            "var e float32 8",
                                            "op relu X=x -> Out=a | op_role=0",
                                            "op relu X=wide -> Out=b | op_role=0",
                                            "op relu X=table -> Out=c | op_role=0",
                                            "op relu X=scalar -> Out=d | op_role=0",
                                            "op relu X=state -> Out=e | op_role=0",
                                            "op relu X=a -> Out=x | op_role=0"};

Test(data_parallel, rows_are_split_where_dim_0_is_the_batch) {
    USE(several_feeds);
    run_well("data_parallel: {ranks: 2, replicate: [wide]}");
    cr_assert_str_eq(placed("x"), "4,4 [0,-1]");
    cr_assert_str_eq(placed("wide"), "8,4 [-1,-1]");
    cr_assert_str_eq(placed("b"), "8,4 [-1,-1]");
    cr_assert_str_eq(placed("table"), "3,4 [-1,-1]");
    cr_assert_str_eq(placed("scalar"), " []");
    cr_assert_str_eq(placed("state"), "8 [-1]");
    cr_assert_eq(weft_report_count(report, 0, "feeds split"), 1);
    cr_assert_eq(weft_report_count(report, 0, "feeds whole"), 3);
}

static const char *const feed_ops[] = {"var feed float32 - persist", "var x float32 8,4", "var a float32 8,4",
                                       "op feed X=feed -> Out=x | op_role=0 col=0", "op relu X=x -> Out=a | op_role=0"};

Test(data_parallel, what_a_feed_op_writes_is_fed) {
    USE(feed_ops);
    var("feed")->kind = WEFT_FEED_MINIBATCH;
    run_well("data_parallel: {ranks: 2}");
    cr_assert_str_eq(placed("x"), "4,4 [0,-1]");
    cr_assert_str_eq(placed("a"), "4,4 [0,-1]");
}

static const char *const dynamic[] = {"var x float32 -1,4",
                                      "var t float32 8,4",
                                      "var a float32 -1,4",
                                      "var b float32 -1,2,2",
                                      "op relu X=x -> Out=a | op_role=0",
                                      "op reshape2 X=a -> Out=b | op_role=0 shape=[-1,2,2]",
                                      "op relu X=t -> Out=t | op_role=0"};

Test(data_parallel, an_unknown_batch_stays_unknown_and_is_split) {
    USE(dynamic);
    run_well("data_parallel: {ranks: 3}");
    cr_assert_str_eq(placed("x"), "-1,4 [0,-1]");
    cr_assert_str_eq(placed("b"), "-1,2,2 [0,-1,-1]");
    cr_assert_str_eq(placed("t"), "8,4 [-1,-1]");
}

/* Recomputation orders its ops with nops, which name values and touch none. */
static const char *const ordered[] = {LINEAR_VARS,
                                      "var other float32 8,3",
                                      "op nop X=other -> Out=h | op_role=0",
                                      FORWARD,
                                      BACKWARD,
                                      "op nop X=w -> Out=x | op_role=1",
                                      "op nop X=x -> Out=w@GRAD | op_role=1",
                                      "op relu X=x -> Out=x | op_role=1",
                                      SGD};

Test(data_parallel, ops_that_only_order_others_count_as_nothing) {
    USE(ordered);
    var("w@GRAD")->dims[0] = var("w")->dims[0] = var("x")->dims[1] = 8;
    run_well("data_parallel: {ranks: 4}");
    cr_assert_str_eq(placed("x"), "2,8 [0,-1]");
    cr_assert_str_eq(placed("w@GRAD"), "8,3 [-1,-1]");
    cr_assert_str_eq(placed("other"), "8,3 [-1,-1]");
    cr_assert_eq(weft_report_count(report, 0, "feeds split"), 1);
    assert_types(
        "nop matmul_v2 reduce_mean fill_constant reduce_mean_grad matmul_v2_grad c_allreduce_sum scale nop nop "
        "relu sgd");
}

static const char *const unknown_op[] = {"var x float32 8,4", "var a float32 8,9", "var b float32 9,8",
                                         "op my_layer X=x -> Out=a Other=b | op_role=0"};

Test(data_parallel, rows_go_through_ops_that_nobody_knows) {
    USE(unknown_op);
    run_well("data_parallel: {ranks: 2}");
    cr_assert_str_eq(placed("a"), "4,9 [0,-1]");
    cr_assert_str_eq(placed("b"), "9,8 [-1,-1]");
}

static const char *const statistics[] = {"var x float32 8,4", "var m float32 4 persist",
                                         "op my_norm X=x M=m -> MOut=m | op_role=0"};

Test(data_parallel, state_that_comes_from_a_ranks_rows_is_reported) {
    USE(statistics);
    run_well("data_parallel: {ranks: 2}");
    const char *message = NULL;
    cr_assert_eq(weft_report_nleft(report, 0), 1);
    cr_assert_eq(weft_report_left(report, 0, 0, &message), WEFT_REASON_ROLE);
    cr_assert_str_eq(message, "my_norm #0: m is each rank's own: it comes from its rows alone");
}

static const char *const averaged[] = {"var x float32 8,4",
                                       "var m float32 4 persist",
                                       "var kept float32 4 persist",
                                       "var s float32 4",
                                       "op my_norm X=x M=m -> MOut=m | op_role=0",
                                       "op sum X=kept,m -> Out=s | op_role=2",
                                       "op assign X=s -> Out=kept | op_role=2"};

Test(data_parallel, averages_of_a_ranks_own_statistics_are_its_own) {
    USE(averaged);
    run_well("data_parallel: {ranks: 2}");
    assert_types("my_norm sum assign");
}

/* --- sums over the batch ------------------------------------------------------------------------------------------ */

/* A mean over weights: sum(h) / sum(c). */
static const char *const quotient[] = {
    LINEAR_VARS,
    "var c float32 8,1",
    "var total float32 -",
    "var count float32 -",
    "var total@GRAD float32 -",
    "op matmul_v2 X=x Y=w -> Out=h | op_role=0",
    "op reduce_sum X=h -> Out=total | op_role=0 reduce_all=true",
    "op reduce_sum X=c -> Out=count | op_role=0 reduce_all=true",
    "op elementwise_div X=total Y=count -> Out=loss | op_role=256 axis=-1",
    SEED,
    "op elementwise_div_grad X=total Y=count Out=loss Out@GRAD=loss@GRAD -> X@GRAD=total@GRAD | op_role=1 axis=-1",
    "op reduce_sum_grad X=h Out@GRAD=total@GRAD -> X@GRAD=h@GRAD | op_role=1 reduce_all=true",
    "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD",
    SGD};

Test(data_parallel, a_loss_that_is_no_mean_is_told) {
    USE(quotient);
    run_well("data_parallel: {ranks: 2}");
    const char *message = NULL;
    cr_assert_eq(weft_report_nleft(report, 0), 1);
    cr_assert_eq(weft_report_left(report, 0, 0, &message), WEFT_REASON_SCALE);
    cr_assert_not_null(strstr(message, "elementwise_div #3: the loss loss is no mean"), "%s", message);
}

Test(data_parallel, tokens_joins_sums_before_they_are_divided) {
    USE(quotient);
    run_well("data_parallel: {ranks: 2, reduce: tokens}");
    assert_types("matmul_v2 reduce_sum c_allreduce_sum reduce_sum c_allreduce_sum elementwise_div fill_constant "
                 "elementwise_div_grad reduce_sum_grad matmul_v2_grad c_allreduce_sum sgd");
}

Test(data_parallel, tokens_scales_gradients_of_means) {
    USE(linear);
    run_well("data_parallel: {ranks: 2, reduce: tokens}");
    assert_types("matmul_v2 reduce_mean fill_constant reduce_mean_grad scale matmul_v2_grad c_allreduce_sum sgd");
}

/* --- feeds that are no rows --------------------------------------------------------------------------------------- */

static const char *const positions[] = {"var x float32 -1,-1,4",
                                        "var p float32 -1,4",
                                        "var fixed float32 8,1,1",
                                        "var a float32 -1,-1,4",
                                        "var b float32 -1,-1,4",
                                        "op elementwise_add X=x Y=p -> Out=a | op_role=0 axis=-1",
                                        "op elementwise_mul X=a Y=fixed -> Out=b | op_role=0 axis=-1"};

Test(data_parallel, positions_stay_whole_and_a_feed_of_fixed_rows_is_split) {
    USE(positions);
    run_well("data_parallel: {ranks: 2}");
    cr_assert_str_eq(placed("x"), "-1,-1,4 [0,-1,-1]");
    cr_assert_str_eq(placed("p"), "-1,4 [-1,-1]");
    cr_assert_str_eq(placed("fixed"), "4,1,1 [0,-1,-1]");
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static const char *const rows[] = {LOOKUP_VARS, LOOKUP,
                                   "op lookup_table_v2_grad Ids=ids W=w Out@GRAD=h@GRAD -> W@GRAD=w@GRAD | op_role=1 "
                                   "is_sparse=true op_role_var=w,w@GRAD",
                                   SGD};

Test(data_parallel, rows_of_all_ranks_are_gathered_before_the_lookups_gradient) {
    USE(rows);
    run_well("data_parallel: {ranks: 2}");
    assert_types("lookup_table_v2 reduce_mean fill_constant reduce_mean_grad c_allgather c_allgather scale "
                 "lookup_table_v2_grad sgd");
    cr_assert_eq(var("w@GRAD")->kind, WEFT_SELECTED_ROWS);
    cr_assert_str_eq(placed("ids@ALL"), "8,1 [-1,-1]");
    cr_assert_str_eq(placed("h@GRAD@ALL"), "8,1,3 [-1,-1,-1]");
    cr_assert_eq(weft_op_input(op_at(7), "Ids", 0), var("ids@ALL"));
    cr_assert_eq(weft_op_input(op_at(7), "Out@GRAD", 0), var("h@GRAD@ALL"));
    cr_assert_eq(weft_report_count(report, 0, "lookups gathered"), 1);
    cr_assert_eq(weft_report_count(report, 0, "gradients reduced"), 0);
    cr_assert_eq(program->nparams_grads, 1);
}

Test(data_parallel, programs_of_paddle_3_gather_with_its_collective) {
    USE(rows);
    program->version = 3003001;
    program->has_version = true;
    run_well("data_parallel: {ranks: 2, reduce: sum}");
    assert_types(
        "lookup_table_v2 reduce_mean fill_constant reduce_mean_grad all_gather all_gather lookup_table_v2_grad sgd");
}

static const char *const shared_rows[] = {
    LOOKUP_VARS,
    "var p0 float32 10,3 rows",
    "var p1 float32 10,3 rows",
    LOOKUP,
    "op lookup_table_v2_grad Ids=ids W=w Out@GRAD=h@GRAD -> W@GRAD=p0 | op_role=1 is_sparse=true",
    "op lookup_table_v2_grad Ids=ids W=w Out@GRAD=h@GRAD -> W@GRAD=p1 | op_role=1 is_sparse=true",
    "op sum X=p0,p1 -> Out=w@GRAD | op_role=1 op_role_var=w,w@GRAD",
    SGD};

Test(data_parallel, rows_summed_from_several_lookups_are_all_gathered) {
    USE(shared_rows);
    run_well("data_parallel: {ranks: 2}");
    cr_assert_eq(weft_report_count(report, 0, "lookups gathered"), 2);
    cr_assert_str_eq(weft_op_type(op_at(12)), "sum");
}

Test(data_parallel, one_rank_keeps_rows) {
    USE(rows);
    run_well("data_parallel: {ranks: 1}");
    cr_assert_eq(var("w@GRAD")->kind, WEFT_SELECTED_ROWS);
}

/* --- recorded programs -------------------------------------------------------------------------------------------- */

Test(data_parallel, gradients_are_reduced_before_they_are_merged) {
    char path[512];
    if (!fixture_path(path, sizeof path, "paddle26/mlp_dp2_gradmerge/serial.pdmodel")) cr_skip("no fixture");
    cr_assert_null(weft_program_load(context, path, NULL, &program));
    run_well("data_parallel: {ranks: 2}");
    cr_assert_eq(weft_report_count(report, 0, "gradients reduced"), 6);
    FOR_EACH_OP(op, program->blocks[0]) {
        if (!op_is(op, "c_allreduce_sum")) continue;
        cr_assert(op_is(op->next, "scale"));
        cr_assert(op_is(op->next->next, "elementwise_add"), "the merge reads what was reduced");
    }
}
