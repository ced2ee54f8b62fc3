/* shard_updates on a recorded program: what it declares, and that twice is once. Runs and proofs are in
 * tests/cli/shard.sh. */
#include <criterion/criterion.h>
#include <string.h>

#include "program/ir.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/pass.h"

static weft_context *context;
static weft_program *program;
static weft_report *report;

static void set_up(void) {
    char path[1024];
    must(weft_context_create(NULL, &context));
    cr_assert(fixture_path(path, sizeof path, "paddle26/mlp_adam_dp2_amp/serial.pdmodel"));
    must(weft_program_load(context, path, NULL, &program));
}
static void tear_down(void) {
    weft_report_destroy(report);
    weft_program_destroy(program);
    weft_context_destroy(context);
    report = NULL;
}
TestSuite(passes_shard, .init = set_up, .fini = tear_down);

static void run_passes(const char *passes) {
    weft_pass_list *list;
    must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_report_destroy(report);
    must(weft_pass_list_run(list, program, &report));
    weft_pass_list_destroy(list);
}

static size_t count_ops(const char *type) {
    size_t n = 0;
    FOR_EACH_OP(op, program->blocks[0]) n += op_is(op, type);
    return n;
}

/* Loss scaling reads all gradients: their updates stay whole. */
Test(passes_shard, gradients_that_others_read_stay) {
    run_passes("data_parallel: {ranks: 2}, shard_updates");
    cr_expect_eq(weft_report_count(report, 1, "updates sharded"), 0);
    cr_expect_eq(count_ops("c_reducescatter"), 0);
    cr_expect_gt(weft_report_nleft(report, 1), 0);
}

static void load(const char *file) {
    char path[1024];
    weft_program_destroy(program);
    cr_assert(fixture_path(path, sizeof path, file));
    must(weft_program_load(context, path, NULL, &program));
}

Test(passes_shard, state_lies_by_rows) {
    load("paddle26/twoloss_dp2/serial.pdmodel");
    run_passes("data_parallel: {ranks: 2}, prune_grad_scale, shard_updates: {bucket_mb: 0}");
    int64_t count = weft_report_count(report, 2, "updates sharded");
    cr_expect_gt(count, 0);
    cr_expect_eq(count_ops("c_reducescatter"), (size_t)count);
    cr_expect_eq(count_ops("c_allgather"), (size_t)count);
    size_t ncut = 0;
    for (size_t i = 0; i < program->blocks[0]->nvars; i++) {
        const weft_var *v = block_var(program->blocks[0], i);
        int64_t whole[WEFT_MAX_RANK];
        if (!v->persistable || !placement_is_sharded(v->dist)) continue;
        ncut++;
        must(placement_whole(v->dist, (int)v->ndim, v->dims, v->name->bytes, whole));
        cr_expect_eq(whole[0], 2 * v->dims[0], "%s", v->name->bytes);
    }
    cr_expect_geq(ncut, (size_t)count);
}

static const weft_op *only_op(const char *type) {
    const weft_op *found = NULL;
    cr_assert_eq(count_ops(type), 1, "%s", type);
    FOR_EACH_OP(op, program->blocks[0]) found = op_is(op, type) ? op : found;
    return found;
}

/* Gradients travel together behind the last one's producer and before the first update; parameters before their first
 * reader. */
Test(passes_shard, tensors_travel_in_buckets) {
    load("paddle26/twoloss_dp2/serial.pdmodel");
    run_passes("data_parallel: {ranks: 2}, prune_grad_scale, shard_updates");
    size_t count = (size_t)weft_report_count(report, 2, "updates sharded");
    cr_assert_gt(count, 1);
    const weft_op *sum = only_op("reduce_scatter_coalesced"), *gather = only_op("all_gather_coalesced");
    cr_expect_eq(op_nargs(sum, false), count);
    cr_expect_eq(op_nargs(gather, true), count);
    cr_expect(weft_op_is_before(gather, sum));
    FOR_EACH_ARG(sum, false, u) {
        FOR_EACH_USE(x, use_var(program, u))
        cr_expect(use_op(program, x) == sum || weft_op_is_before(use_op(program, x), sum));
    }
    FOR_EACH_ARG(gather, true, u) {
        FOR_EACH_USE(x, use_var(program, u)) {
            cr_expect(use_op(program, x) == gather || weft_op_is_before(gather, use_op(program, x)));
        }
    }
    cr_expect_eq(count_ops("c_reducescatter") + count_ops("c_allgather"), 0);
}

/* A KiB is less than two of its gradients have. */
Test(passes_shard, buckets_have_a_size) {
    load("paddle26/twoloss_dp2/serial.pdmodel");
    run_passes("data_parallel: {ranks: 2}, prune_grad_scale, shard_updates: {bucket_mb: 0.001}");
    size_t many = count_ops("reduce_scatter_coalesced") + count_ops("c_reducescatter");
    cr_expect_gt(many, 1);
    cr_expect_lt(many, (size_t)weft_report_count(report, 2, "updates sharded") + 1);
    cr_expect_eq(weft_report_count(report, 2, "sums"), (int64_t)many);
}

Test(passes_shard, twice_is_once) {
    load("paddle26/twoloss_dp2/serial.pdmodel");
    run_passes("data_parallel: {ranks: 2}, shard_updates");
    size_t nops = program->blocks[0]->nops;
    run_passes("shard_updates");
    cr_expect_eq(weft_report_count(report, 0, "updates sharded"), 0);
    cr_expect_eq(program->blocks[0]->nops, nops);
}
