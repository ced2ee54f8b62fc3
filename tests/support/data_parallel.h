/* data_parallel.h: what the Criterion suites of the data_parallel pass share: a pass list run over a program of a few
 * lines, and such programs. Include it once in a test's file. */
#ifndef TESTS_SUPPORT_DATA_PARALLEL_H
#define TESTS_SUPPORT_DATA_PARALLEL_H

#include <criterion/criterion.h>
#include <string.h>

#include "program/ir.h"
#include "tests/support/small_program.h"
#include "weft/pass.h"

static weft_context *context;
static weft_program *program;
static weft_report *report;

static inline void setup(void) {
    program = NULL;
    report = NULL;
    cr_assert_null(weft_context_create(NULL, &context));
}

static inline void teardown(void) {
    weft_report_destroy(report);
    weft_program_destroy(program);
    weft_context_destroy(context);
}

static inline weft_status run_list(const char *passes) {
    weft_pass_list *list = NULL;
    cr_assert_null(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_report_destroy(report);
    weft_status status = weft_pass_list_run(list, program, &report);
    weft_pass_list_destroy(list);
    return status;
}

static inline void run_well(const char *passes) {
    weft_status status = run_list(passes);
    cr_assert_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
}

#define COUNT(lines) (sizeof(lines) / sizeof *(lines))
#define USE(lines) program = small_program(context, lines, COUNT(lines))

/* A linear layer: x [8, 4] times w [4, 3], mean, its gradient, sgd. */
#define LINEAR_VARS                                                                                                    \
    "var x float32 8,4", "var w float32 4,3 persist", "var lr float32 - persist", "var h float32 8,3",                 \
        "var loss float32 -", "var loss@GRAD float32 -", "var h@GRAD float32 8,3", "var w@GRAD float32 4,3"
#define FORWARD                                                                                                        \
    "op matmul_v2 X=x Y=w -> Out=h | op_role=0", "op reduce_mean X=h -> Out=loss | op_role=256 reduce_all=true"
#define SEED "op fill_constant -> Out=loss@GRAD | op_role=257 value=1.0 dtype=5 shape=[]"
#define MEAN_GRAD "op reduce_mean_grad X=h Out@GRAD=loss@GRAD -> X@GRAD=h@GRAD | op_role=1 reduce_all=true"
#define BACKWARD                                                                                                       \
    SEED, MEAN_GRAD, "op matmul_v2_grad X=x Y=w Out@GRAD=h@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD"
#define SGD "op sgd Param=w Grad=w@GRAD LearningRate=lr -> ParamOut=w | op_role=2"
static const char *const linear[] = {LINEAR_VARS, FORWARD, BACKWARD, SGD};

/* A lookup whose gradient is of rows (SelectedRows), mean, its gradient. */
#define LOOKUP_VARS                                                                                                    \
    "var ids int64 8,1", "var w float32 10,3 persist", "var lr float32 - persist", "var h float32 8,1,3",              \
        "var loss float32 -", "var loss@GRAD float32 -", "var h@GRAD float32 8,1,3", "var w@GRAD float32 10,3 rows"
#define LOOKUP                                                                                                         \
    "op lookup_table_v2 Ids=ids W=w -> Out=h | op_role=0 is_sparse=true padding_idx=-1",                               \
        "op reduce_mean X=h -> Out=loss | op_role=256 reduce_all=true", SEED, MEAN_GRAD

#endif
