/* What the real data-parallel pass was seen to get wrong or crash on (lines a to h of the recorded observations), and
 * what is right. Recorded programs; a case that is not there is skipped. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fixtures.h"
#include "weft/pass.h"

static const char optimization[] = "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies";

typedef struct subject {
    weft_context *context;
    weft_program *program;
} subject;

static void must(weft_status status) {
    cr_assert_null(status, "%s", weft_status_message(status));
}

static subject load(const char *relative) {
    char path[512];
    subject s = {0};
    if (!fixture_path(path, sizeof path, relative)) cr_skip_test("%s is not there", relative);
    must(weft_context_create(NULL, &s.context));
    must(weft_program_load(s.context, path, NULL, &s.program));
    return s;
}

static void unload(subject *s) {
    weft_program_destroy(s->program);
    weft_context_destroy(s->context);
}

static weft_status run(subject *s, const char *passes) {
    weft_pass_list *list = NULL;
    must(weft_pass_list_parse(s->context, passes, strlen(passes), "test", &list));
    weft_status status = weft_pass_list_run(list, s->program, NULL);
    weft_pass_list_destroy(list);
    return status;
}

static bool is_reduce(const weft_op *op) {
    return strcmp(weft_op_type(op), "c_allreduce_sum") == 0 || strcmp(weft_op_type(op), "all_reduce") == 0;
}

static bool is_grad_sync(const weft_op *op) {
    return strstr(weft_op_attr_string(op, "op_namescope", ""), "data_parallel") != NULL;
}

/* Counts of block 0's ops, and the value of the loss-gradient seed. */
typedef struct tally {
    int reduces, scales, buckets, members;
    double seed;
} tally;

static tally count(const subject *s) {
    tally t = {0};
    for (const weft_op *op = weft_block_first_op(weft_program_block(s->program, 0)); op; op = weft_op_next(op)) {
        t.reduces += is_reduce(op) && is_grad_sync(op);
        t.scales += strcmp(weft_op_type(op), "scale") == 0 && is_grad_sync(op);
        if (strcmp(weft_op_type(op), "coalesce_tensor") == 0)
            t.buckets++, t.members += (int)weft_op_ninputs(op, "Input");
        if (weft_op_role(op) == (WEFT_ROLE_LOSS | WEFT_ROLE_BACKWARD)) t.seed = weft_op_attr_float(op, "value", 0);
    }
    return t;
}

static bool is_reduced(const subject *s, const char *gradient) {
    for (const weft_op *op = weft_block_first_op(weft_program_block(s->program, 0)); op; op = weft_op_next(op)) {
        const weft_var *x = weft_op_input(op, "X", 0);
        if (is_reduce(op) && x && strcmp(weft_var_name(x), gradient) == 0) return true;
    }
    return false;
}

Test(passes_observed, a_convolution_bias_is_reduced) {
    subject s = load("paddle26/lenet_bias_dp2/serial.pdmodel");
    must(run(&s, "data_parallel: {ranks: 2}"));
    cr_assert(is_reduced(&s, "conv2d_0.b_0@GRAD"));
    cr_assert(is_reduced(&s, "conv2d_1.b_0@GRAD"));
    cr_assert_eq(count(&s).reduces, 10, "every parameter of the program");
    unload(&s);
}

Test(passes_observed, b_embedding_broadcast_over_the_batch_is_reduced) {
    static const char text[] =
        "weft: 1\nversion: 2006002\nblocks:\n- idx: 0\n  vars:\n"
        "    x: {float32: [8, 4, 2], need_check_feed: true}\n"
        "    position: {float32: [1, 4, 2], persistable: true, parameter: true}\n"
        "    rate: {float32: [1], persistable: true}\n    s: {float32: [8, 4, 2]}\n    loss: {float32: []}\n"
        "    loss@GRAD: {float32: []}\n    s@GRAD: {float32: [8, 4, 2]}\n    position@GRAD: {float32: [1, 4, 2]}\n  "
        "ops:\n"
        "  - {elementwise_add: {X: [x], \"Y\": [position]}, out: {Out: [s]}, attrs: {op_role: 0, axis: -1}}\n"
        "  - {reduce_mean: {X: [s]}, out: {Out: [loss]}, attrs: {op_role: 256, reduce_all: true}}\n"
        "  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {op_role: 257, dtype: 5, shape: !longs [], value: "
        "1.0}}\n"
        "  - {reduce_mean_grad: {Out@GRAD: [loss@GRAD], X: [s]}, out: {X@GRAD: [s@GRAD]}, attrs: {op_role: 1, "
        "reduce_all: "
        "true}}\n"
        "  - {elementwise_add_grad: {Out@GRAD: [s@GRAD], X: [x], \"Y\": [position]}, out: {Y@GRAD: [position@GRAD]}, "
        "attrs: "
        "{op_role: 1, axis: -1, op_role_var: [position, position@GRAD]}}\n"
        "  - {sgd: {Grad: [position@GRAD], LearningRate: [rate], Param: [position]}, out: {ParamOut: [position]}, "
        "attrs: "
        "{op_role: 2}}\n";
    subject s = {0};
    must(weft_context_create(NULL, &s.context));
    must(weft_program_parse(s.context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "position", &s.program));
    must(run(&s, "data_parallel: {ranks: 2}"));
    cr_assert(is_reduced(&s, "position@GRAD"));
    unload(&s);
}

Test(passes_observed, c_batch_independent_term_keeps_its_weight) {
    subject s = load("paddle26/twoloss_dp2/rank0.pdmodel");
    must(run(&s, optimization));
    tally t = count(&s);
    cr_assert_eq(t.seed, 1.0, "the L1 term starts from the same seed: it must not be halved");
    cr_assert_eq(t.scales, 1, "one scale, on the bucket");
    cr_assert_eq(t.buckets, 1);
    unload(&s);
}

Test(passes_observed, d_two_rings_fold_a_quarter_and_fuse) {
    subject s = load("paddle26/mlp_dp2_sp2_tworings/rank0.pdmodel");
    must(run(&s, optimization));
    tally t = count(&s);
    cr_assert_eq(t.seed, 0.25);
    cr_assert_eq(t.scales, 0);
    cr_assert_eq(t.reduces, 2, "the bucket's chain of rings, found %d", t.reduces);
    cr_assert_eq(t.members, 4);
    unload(&s);
}

Test(passes_observed, e_kept_scales_fuse_across_two_gradients_of_one_op) {
    subject s = load("paddle26/gpt_tiny_adamw_dp2/rank0.pdmodel");
    must(run(&s, "overlap_comm, coalesce_grads, insert_dependencies"));
    tally t = count(&s);
    cr_assert_eq(t.seed, 1.0);
    cr_assert_eq(t.scales, 1);
    cr_assert_eq(t.reduces, 1);
    cr_assert_eq(t.members, 37, "layer_norm_grad's pairs among them");
    unload(&s);
}

static char *optimized_bytes(size_t *out_nbytes) {
    subject s = load("paddle26/mlp_sgd_dp2/rank0.pdmodel");
    char *bytes;
    must(run(&s, optimization));
    must(weft_program_print(s.program, WEFT_FORM_YAML, &bytes, out_nbytes));
    char *copy = malloc(*out_nbytes);
    memcpy(copy, bytes, *out_nbytes);
    weft_bytes_free(s.context, bytes, *out_nbytes);
    unload(&s);
    return copy;
}

Test(passes_observed, f_sequential_run_flag_changes_nothing) {
    size_t nplain, nsequential;
    unsetenv("FLAGS_new_executor_sequential_run");
    char *plain = optimized_bytes(&nplain);
    setenv("FLAGS_new_executor_sequential_run", "1", 1);
    char *sequential = optimized_bytes(&nsequential);
    cr_assert(nplain == nsequential && memcmp(plain, sequential, nplain) == 0);
    free(plain);
    free(sequential);
}

Test(passes_observed, g_sparse_gradients_are_refused_in_words) {
    subject s = load("paddle26/sparse_emb_dp2/rank0.pdmodel");
    weft_status status = run(&s, optimization);
    cr_assert_eq(weft_status_code(status), WEFT_REFUSED);
    cr_assert_not_null(strstr(weft_status_message(status), "embedding_0.w_0@GRAD"), "%s", weft_status_message(status));
    weft_status_free(status);
    unload(&s);
}

Test(passes_observed, h_a_refused_pass_leaves_the_program_as_it_was) {
    subject s = load("paddle26/sparse_emb_dp2/rank0.pdmodel");
    char *before, *after;
    size_t nbefore, nafter;
    must(weft_program_print(s.program, WEFT_FORM_YAML, &before, &nbefore));
    weft_status status = run(&s, "coalesce_grads");
    cr_assert_eq(weft_status_code(status), WEFT_REFUSED);
    weft_status_free(status);
    must(weft_program_print(s.program, WEFT_FORM_YAML, &after, &nafter));
    cr_assert(nbefore == nafter && memcmp(before, after, nbefore) == 0);
    weft_bytes_free(s.context, before, nbefore);
    weft_bytes_free(s.context, after, nafter);
    unload(&s);
}
