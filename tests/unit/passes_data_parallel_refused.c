/* What data_parallel refuses, in which words, and that the program is then as it was. */
#include <stdio.h>

#include "tests/support/data_parallel.h"
#include "tests/support/table.h"

TestSuite(data_parallel_refused, .init = setup, .fini = teardown);

/* --- programs ----------------------------------------------------------------------------------------------------- */

static const char *const uncovered[] = {LINEAR_VARS, FORWARD, "op my_grad X=x -> G=w@GRAD | op_role=1", SGD};
static const char *const uncovered_radam[] = {LINEAR_VARS, "var b1 float32 1 persist", FORWARD,
                                              "op my_grad X=x -> G=w@GRAD | op_role=1",
                                              "op radam param=w grad=w@GRAD learning_rate=lr beta1_pow=b1 beta2_pow=b1 "
                                              "rho=b1 moment1=w moment2=w -> param_out=w | op_role=2"};
static const char *const written_of_rows[] = {LINEAR_VARS, "var top float32 4", "var kept float32 4 persist",
                                              "op reduce_max X=x -> Out=top | op_role=0 dim=[0]",
                                              "op assign X=top -> Out=kept | op_role=0"};
static const char *const uncovered_in_block[] = {
    LINEAR_VARS,
    "var v float32 4,3 persist",
    "var go bool 1",
    FORWARD,
    BACKWARD,
    "op fill_constant -> Out=go | op_role=2 dtype=0 value=1.0 shape=[1]",
    "op conditional_block Cond=go Input=v,w@GRAD,lr -> Out=v | op_role=2 sub_block=@1",
    "block",
    "op sgd Param=v Grad=w@GRAD LearningRate=lr -> ParamOut=v | op_role=2"};
static const char *const no_such_gradient[] = {
    LINEAR_VARS,
    FORWARD,
    SEED,
    MEAN_GRAD,
    "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,u@GRAD",
    SGD};
static const char *const never_written[] = {
    LINEAR_VARS, "var u@GRAD float32 4,3",
    FORWARD,     SEED,
    MEAN_GRAD,   "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,u@GRAD",
    SGD};
static const char *const optimizer_first[] = {
    LINEAR_VARS, FORWARD, BACKWARD, SGD,
    "op scale X=w@GRAD -> Out=w@GRAD | op_role=1 scale=2.0 bias=0.0 bias_after_scale=true"};
static const char *const in_sub_block[] = {
    LINEAR_VARS,
    "var go bool 1",
    FORWARD,
    SEED,
    MEAN_GRAD,
    "op fill_constant -> Out=go | op_role=0 dtype=0 value=1.0 shape=[1]",
    "op conditional_block Cond=go Input=x,w,h@GRAD -> Out=w@GRAD | op_role=1 sub_block=@1",
    SGD,
    "block",
    "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD"};
static const char *const collective[] = {"var x float32 8,4", "op c_allreduce_max X=x -> Out=x | op_role=0 ring_id=3"};
static const char *const parallel_already[] = {
    "var x float32 8,4",
    "op c_allreduce_sum X=x -> Out=x | op_role=1 ring_id=3 op_namescope=/auto_parallel/data_parallel"};
static const char *const label_of_batch[] = {
    "var x float32 8,4",
    "var lab int64 8,1",
    "var soft float32 8,4",
    "var each float32 8,1",
    "op randint -> Out=lab | op_role=0 dtype=3 low=0 high=4 shape=[8,1]",
    "op softmax_with_cross_entropy Logits=x Label=lab -> Softmax=soft Loss=each | op_role=0 axis=-1"};
static const char *const fixed_reshape[] = {"var x float32 8,4", "var a float32 8,2,2",
                                            "op relu X=x -> Out=x | op_role=0",
                                            "op reshape2 X=x -> Out=a | op_role=0 shape=[8,2,2]"};
static const char *const sly_reshape[] = {"var x float32 8,4", "var a float32 8,4", "op relu X=x -> Out=x | op_role=0",
                                          "op reshape2 X=x -> Out=a | op_role=0 shape=[8,-1]"};
static const char *const fixed_mask[] = {"var x float32 8,4",
                                         "var m float32 8,4",
                                         "var a float32 8,4",
                                         "op gaussian_random -> Out=m | op_role=0 dtype=5 shape=[8,4]",
                                         "op relu X=x -> Out=x | op_role=0",
                                         "op elementwise_add X=x Y=m -> Out=a | op_role=0 axis=-1"};
static const char *const fixed_seed[] = {"var x float32 8,1", "var y float32 8,1", "var y@GRAD float32 8,1",
                                         "op relu X=x -> Out=y | op_role=256",
                                         "op fill_constant -> Out=y@GRAD | op_role=257 dtype=5 value=1.0 shape=[8,1]"};
static const char *const no_feeds[] = {"var x float32 8,4",
                                       "op fill_constant -> Out=x | op_role=0 dtype=5 value=1.0 shape=[8,4]"};
static const char *const no_rows[] = {"var x float32 -", "op relu X=x -> Out=x | op_role=0"};
static const char *const rows_of_others[] = {
    LOOKUP_VARS, LOOKUP,
    "op my_rows_grad Ids=ids Weight=w Cost@GRAD=h@GRAD -> Weight@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD", SGD};

/* --- refusals ----------------------------------------------------------------------------------------------------- */

#define REFUSAL(name, options, message)                                                                                \
    { #name, name, COUNT(name), options, message }
static const struct refusal {
    const char *name;
    const char *const *lines;
    size_t nlines;
    const char *options, *message;
} refusals_cases[] = {
    REFUSAL(linear, "", "the option ranks is required"),
    REFUSAL(linear, "{ranks: 0}", "ranks: expected 1 to 262144, found 0"),
    REFUSAL(linear, "{ranks: 3}", "a batch of 8 rows does not divide by 3 ranks"),
    REFUSAL(linear, "{ranks: 2, replicate: [z]}", "\"z\" is not a feed; the feeds are x"),
    REFUSAL(linear, "{ranks: 2, replicate: [x]}", "no feed has rows"),
    REFUSAL(uncovered, "{ranks: 2}", "sgd #3 updates w, which must be equal on all ranks, from w@GRAD"),
    REFUSAL(uncovered_radam, "{ranks: 2}", "radam #3 updates w, which must be equal on all ranks, from w@GRAD"),
    REFUSAL(written_of_rows, "{ranks: 2}", "assign #1 updates kept, which must be equal on all ranks, from top"),
    REFUSAL(uncovered_in_block, "{ranks: 2}", "updates v, but no backward op names its gradient"),
    REFUSAL(no_such_gradient, "{ranks: 2}", "matmul_v2_grad #4: op_role_var names u@GRAD, which no block declares"),
    REFUSAL(never_written, "{ranks: 2}", "names the gradient u@GRAD, which no backward op writes"),
    REFUSAL(optimizer_first, "{ranks: 2}", "sgd #5 uses gradient w@GRAD before the last backward op"),
    REFUSAL(in_sub_block, "{ranks: 2}", "gradient w@GRAD is made in a sub-block"),
    REFUSAL(collective, "{ranks: 2}", "found the collective c_allreduce_max #0"),
    REFUSAL(parallel_already, "{ranks: 2}", "data-parallel already: c_allreduce_sum #0"),
    REFUSAL(label_of_batch, "{ranks: 2}", "lab is as long as the batch, but the same on all ranks (randint #0)"),
    REFUSAL(fixed_reshape, "{ranks: 2}", "reshape2 #1: an attr holds the global batch of 8 rows, where a rank has 4"),
    REFUSAL(sly_reshape, "{ranks: 2}", "reshape2 #1: an attr holds the global batch of 8 rows, where a rank has 4"),
    REFUSAL(fixed_mask, "{ranks: 2}", "gaussian_random #0: an attr holds the global batch of 8 rows"),
    REFUSAL(fixed_seed, "{ranks: 2}", "fill_constant #1: an attr holds the global batch of 8 rows"),
    REFUSAL(no_feeds, "{ranks: 2}", "the program has no feeds"),
    REFUSAL(no_rows, "{ranks: 2}", "no feed has rows"),
    REFUSAL(rows_of_others, "{ranks: 2}",
            "gradient w@GRAD is kept as rows (SelectedRows), which ranks can gather only "
            "where lookups make them: my_rows_grad #4 makes rows otherwise"),
};
TABLE_ROWS(data_parallel_refused, refusals, refusals_cases);

TABLE_TEST(size_t *row, data_parallel_refused, refusals) {
    const struct refusal *c = &refusals_cases[*row];
    program = small_program(context, c->lines, c->nlines);
    weft_program *before = NULL;
    cr_assert_null(weft_program_clone(program, &before));
    char passes[200];
    snprintf(passes, sizeof passes, "data_parallel: %s", c->options);
    weft_status status = run_list(passes);
    cr_assert_eq(weft_status_code(status), WEFT_REFUSED, "%s: %s", c->name, weft_status_message(status));
    cr_assert_str_eq(weft_status_place(status), "data_parallel");
    cr_assert_not_null(strstr(weft_status_message(status), c->message), "%s: %s", c->name, weft_status_message(status));
    weft_status_free(status);
    cr_assert(weft_program_equal(before, program), "%s: the program was changed", c->name);
    weft_program_destroy(before);
}

Test(data_parallel_refused, a_ring_that_is_taken_is_refused) {
    static const int64_t back[] = {1, 0};
    USE(linear);
    cr_assert_null(weft_program_set_ring(program, 0, 2, back));
    weft_status status = run_list("data_parallel: {ranks: 2}");
    cr_assert_not_null(strstr(weft_status_message(status), "ring 0 is taken"), "%s", weft_status_message(status));
    weft_status_free(status);
}

Test(data_parallel_refused, twice_is_refused) {
    USE(linear);
    run_well("data_parallel: {ranks: 2}");
    weft_status status = run_list("data_parallel: {ranks: 2}");
    cr_assert_not_null(strstr(weft_status_message(status), "data-parallel already"), "%s", weft_status_message(status));
    weft_status_free(status);
}
