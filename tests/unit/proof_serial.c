/* Ranks' programs against the serial program: recorded ones, and a small one with single ops taken away. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "program/ir.h"
#include "tests/support/equivalence.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/table.h"
#include "weft/equivalent.h"
#include "weft/pass.h"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_serial, .init = set_up, .fini = tear_down);

/* --- recorded programs -------------------------------------------------------------------------------------------- */

static const struct {
    const char *folder, *suffix;
    size_t nranks;
    weft_grade grade;
    const char *message; /* part of some finding's */
} recorded[] = {
    {"paddle26/mlp_sgd_dp2", "", 2, WEFT_SAME_REALS, NULL},
    {"paddle26/gpt_tiny_adamw_dp2", ".after.default", 2, WEFT_SAME_REALS, NULL},
    {"paddle26/bert_tiny_adamw_dp4", ".final", 4, WEFT_SAME_REALS,
     NULL},                                                            /* each rank has its part of the global norm */
    {"paddle26/mlp_dp2_sharding", ".final", 2, WEFT_SAME_REALS, NULL}, /* and here, of the optimizer */
    {"paddle26/mlp_dp2_gradmerge", ".final", 2, WEFT_SAME_REALS, NULL},
    {"paddle26/mlp_dp2_recompute", ".final", 2, WEFT_SAME_REALS, NULL},
    {"paddle26/mlp_adam_dp2_amp", ".final", 2, WEFT_SAME_REALS, NULL},
    {"paddle3/mlp_adam_dp2_amp", "", 2, WEFT_SAME_RANGE, NULL},
    {"paddle26/gpt_dropout_dp2", "", 2, WEFT_SAME_IF, "random numbers"},
    {"paddle26/lenet_bias_dp2", "", 2, WEFT_NOT_PROVED, "a reduce is missing: momentum"},
    {"paddle26/twoloss_dp2", "", 2, WEFT_SAME_REALS, NULL},
    {"paddle26/twoloss_dp2", ".after.default", 2, WEFT_NOT_PROVED, "expected"},
    {"paddle26/gpt_tiny_dp2_mp2", "", 4, WEFT_SAME_REALS, NULL}, /* parameters in parts */
    {"paddle26/gpt_tiny_dp2_mp2", ".after.default", 4, WEFT_SAME_REALS, NULL},
    {"paddle3/gpt_tiny_dp2_mp2", ".after.group4k", 4, WEFT_SAME_REALS, NULL},
    {"paddle26/mlp_dp2_sp2_tworings", "", 4, WEFT_NOT_PROVED,
     "found 1/4 * "}, /* sequences in parts; the loss is global */
    {"paddle26/mlp_dp2_sp2_tworings", ".after.prune", 4, WEFT_NOT_PROVED, "found 1/2 * "},
    {"paddle26/resnet18_momentum_dp2", "", 2, WEFT_NOT_PROVED, "each row for itself: batch_norm"},
};
TABLE_ROWS(proof_serial, recorded_programs, recorded);

static weft_program *load(const char *folder, const char *file) {
    char relative[200], path[512];
    weft_program *p = NULL;
    snprintf(relative, sizeof relative, "%s/%s.pdmodel", folder, file);
    if (fixture_path(path, sizeof path, relative)) must(weft_program_load(context, path, NULL, &p));
    return p;
}

TABLE_TEST(size_t *row, proof_serial, recorded_programs) {
    const char *folder = recorded[*row].folder;
    weft_program *serial = load(folder, "serial"), *ranks[4] = {NULL};
    bool there = serial != NULL;
    for (size_t i = 0; i < recorded[*row].nranks; i++) {
        char file[64];
        snprintf(file, sizeof file, "rank%zu%s", i, recorded[*row].suffix);
        there = (ranks[i] = load(folder, file)) && there;
    }
    weft_equivalence *e = NULL;
    if (there) {
        must(weft_equivalent_to_serial(serial, (const weft_program *const *)ranks, recorded[*row].nranks, NULL, &e));
        cr_expect_eq(weft_equivalence_grade(e), recorded[*row].grade, "%s%s: %s", folder, recorded[*row].suffix,
                     weft_grade_name(weft_equivalence_grade(e)));
        if (recorded[*row].message) cr_expect(any_message(e, recorded[*row].message), "%s", folder);
    }
    weft_equivalence_destroy(e);
    for (size_t i = 0; i < 4; i++) weft_program_destroy(ranks[i]);
    weft_program_destroy(serial);
    if (!there) cr_skip("no fixture %s", folder);
}

/* --- a small one -------------------------------------------------------------------------------------------------- */

static const char *const serial_lines[] = {
    "var x float32 8,4",
    "var y float32 8,2",
    "var w float32 4,2 persist",
    "var b float32 2 persist",
    "var lr float32 1 persist",
    "var h float32 8,2",
    "var z float32 8,2",
    "var d float32 8,2",
    "var loss float32 1",
    "var loss@GRAD float32 1",
    "var d@GRAD float32 8,2",
    "var z@GRAD float32 8,2",
    "var h@GRAD float32 8,2",
    "var w@GRAD float32 4,2",
    "var b@GRAD float32 2",
    "op matmul_v2 X=x Y=w -> Out=h | op_role=0",
    "op elementwise_add X=h Y=b -> Out=z | op_role=0 axis=-1",
    "op elementwise_mul X=z Y=y -> Out=d | op_role=0 axis=-1",
    "op mean X=d -> Out=loss | op_role=256",
    "op fill_constant -> Out=loss@GRAD | op_role=257 value=1.0 shape=[1]",
    "op mean_grad X=d Out@GRAD=loss@GRAD -> X@GRAD=d@GRAD | op_role=1",
    "op elementwise_mul_grad X=z Y=y Out@GRAD=d@GRAD -> X@GRAD=z@GRAD | op_role=1 axis=-1",
    "op elementwise_add_grad X=h Y=b Out@GRAD=z@GRAD -> X@GRAD=h@GRAD Y@GRAD=b@GRAD | op_role=1 axis=-1 "
    "op_role_var=b,b@GRAD",
    "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD",
    "op sgd Param=w Grad=w@GRAD LearningRate=lr -> ParamOut=w | op_role=2 op_role_var=w,w@GRAD",
    "op sgd Param=b Grad=b@GRAD LearningRate=lr -> ParamOut=b | op_role=2 op_role_var=b,b@GRAD",
};

/* The verdict on the program of one of `nranks` that the list makes, without the first op of type `dropped`. */
static weft_equivalence *judge(const char *list_text, const char *dropped) {
    weft_program *serial = small_program(context, serial_lines, sizeof serial_lines / sizeof *serial_lines), *p;
    weft_pass_list *list;
    weft_equivalence *e;
    must(weft_program_clone(serial, &p));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "test", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_REQUIRE);
    must(weft_pass_list_run(list, p, NULL));
    for (weft_op *op = weft_block_first_op(p->blocks[0]), *next; op && dropped; op = next) {
        next = op->next;
        if (!op_is(op, dropped)) continue;
        weft_op_remove(op);
        dropped = NULL;
    }
    must(weft_equivalent_to_serial(serial, (const weft_program *const *)&p, 1, NULL, &e));
    weft_pass_list_destroy(list);
    weft_program_destroy(p);
    weft_program_destroy(serial);
    return e;
}

static const struct {
    const char *list, *dropped;
    weft_grade grade;
    const char *message;
} small[] = {
    {"data_parallel: {ranks: 4}", NULL, WEFT_SAME_REALS, NULL},
    {"data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies", NULL,
     WEFT_SAME_REALS, NULL},
    {"data_parallel: {ranks: 4}", "scale", WEFT_NOT_PROVED, "found 4 * "},
    {"data_parallel: {ranks: 4}", "c_allreduce_sum", WEFT_NOT_PROVED, "a reduce is missing"},
    {"data_parallel: {ranks: 2}, coalesce_grads", "c_allreduce_sum", WEFT_NOT_PROVED, "a reduce is missing"},
    {"data_parallel: {ranks: 4, reduce: sum}", NULL, WEFT_NOT_PROVED, "found 4 * "},
};
TABLE_ROWS(proof_serial, data_parallel, small);

TABLE_TEST(size_t *row, proof_serial, data_parallel) {
    weft_equivalence *e = judge(small[*row].list, small[*row].dropped);
    const char *message = "";
    (void)weft_equivalence_finding(e, 0, NULL, &message);
    cr_expect_eq(weft_equivalence_grade(e), small[*row].grade, "%s: %s %s", small[*row].list,
                 weft_grade_name(weft_equivalence_grade(e)), message);
    if (small[*row].message) cr_expect(any_message(e, small[*row].message), "%s: %s", small[*row].list, message);
    weft_equivalence_destroy(e);
}
