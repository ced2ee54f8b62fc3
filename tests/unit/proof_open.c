/* Programs that leave the batch open and compute with its extent, on ranks, against the serial program: extents are
 * followed like numbers. Each right program has wrong ones beside it that differ in a number. */
#include <criterion/criterion.h>

#include "program/ir.h"
#include "tests/support/equivalence.h"
#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/table.h"
#include "weft/pass.h"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_open, .init = set_up, .fini = tear_down);

enum { MOST_LINES = 40 };

static const char *const begin[] = {
    "var x float32 -1,4",       "var w float32 4,2 persist", "var c float32 1,2 persist", "var lr float32 1 persist",
    "var z float32 -1,2",       "var d float32 -1,2",        "var loss float32 1",        "var loss@GRAD float32 1",
    "var d@GRAD float32 -1,2",  "var z@GRAD float32 -1,2",   "var w@GRAD float32 4,2",    "var s int32 2",
    "var rows int32 1",         "var n float32 1",           "var e float32 -1,2",        "var total float32 2",
    "var total@GRAD float32 2", "var m float32 1",           "var m@GRAD float32 1",      "var two int32 1",
    "var s2 int32 2",           "var t float32 2",           "var t@GRAD float32 2",
};
static const char *const end[] = {
    "op matmul_v2_grad X=x Y=w Out@GRAD=z@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD",
    "op sgd Param=w Grad=w@GRAD LearningRate=lr -> ParamOut=w | op_role=2 op_role_var=w,w@GRAD",
};

#define MULTIPLY "op matmul_v2 X=x Y=w -> Out=z | op_role=0"
#define SHAPE "op shape Input=x -> Out=s | op_role=0"
#define ROWS "op slice Input=s -> Out=rows | op_role=0 axes=[0] starts=[0] ends=[1]"
#define TWO "op fill_constant -> Out=two | op_role=0 value=2.0 shape=[1] dtype=2"
#define BOTH "op concat X=rows,two -> Out=s2 | op_role=0 axis=0"
#define COUNT "op cast X=rows -> Out=n | op_role=0 in_dtype=2 out_dtype=5"
#define SEED "op fill_constant -> Out=loss@GRAD | op_role=257 value=1.0 shape=[1]"
#define SUM "op reduce_sum X=z -> Out=total | op_role=0 dim=[0]"
#define SUM_GRAD "op reduce_sum_grad X=z Out@GRAD=total@GRAD -> X@GRAD=z@GRAD | op_role=1 dim=[0]"
#define OVER "op elementwise_div X=total Y=n -> Out=t | op_role=0 axis=-1"
#define OVER_GRAD "op elementwise_div_grad X=total Y=n Out=t Out@GRAD=t@GRAD -> X@GRAD=total@GRAD | op_role=1 axis=-1"
#define MEAN_OF "op mean X=t -> Out=loss | op_role=256"
#define MEAN_OF_GRAD "op mean_grad X=t Out@GRAD=loss@GRAD -> X@GRAD=t@GRAD | op_role=1"
#define MEAN "op mean X=d -> Out=loss | op_role=256"
#define MEAN_GRAD "op mean_grad X=d Out@GRAD=loss@GRAD -> X@GRAD=d@GRAD | op_role=1"
#define ADD_GRAD "op elementwise_add_grad X=z Y=e Out@GRAD=d@GRAD -> X@GRAD=z@GRAD | op_role=1 axis=-1"

/* Lines of forward and backward; `changed` takes the place of line `at` in the ranks' program. */
static const struct {
    const char *what;
    const char *lines[12];
    size_t at;
    const char *changed;
} cases[] = {
    {"a sum over the rows that are fed, by their number",
     {MULTIPLY, SHAPE, ROWS, COUNT, SUM, OVER, MEAN_OF, SEED, MEAN_OF_GRAD, OVER_GRAD, SUM_GRAD},
     2,
     "op slice Input=s -> Out=rows | op_role=0 axes=[0] starts=[1] ends=[2]"},
    {"ones for each row",
     {MULTIPLY, SHAPE, ROWS, TWO, BOTH, "op fill_constant ShapeTensor=s2 -> Out=e | op_role=0 value=1.5 dtype=5",
      "op elementwise_add X=z Y=e -> Out=d | op_role=0 axis=-1", MEAN, SEED, MEAN_GRAD, ADD_GRAD},
     5,
     "op fill_constant ShapeTensor=s2 -> Out=e | op_role=0 value=2.5 dtype=5"},
    {"what is the same for each row",
     {MULTIPLY, SHAPE, ROWS, TWO, BOTH, "op expand_v2 X=c Shape=s2 -> Out=e | op_role=0",
      "op elementwise_add X=z Y=e -> Out=d | op_role=0 axis=-1", MEAN, SEED, MEAN_GRAD, ADD_GRAD},
     6,
     "op elementwise_sub X=z Y=e -> Out=d | op_role=0 axis=-1"},
    {"one less a mean",
     {MULTIPLY, "op mean X=z -> Out=m | op_role=0", "op scale X=m -> Out=loss | op_role=256 scale=-1.0 bias=1.0", SEED,
      "op scale X=loss@GRAD -> Out=m@GRAD | op_role=1 scale=-1.0",
      "op mean_grad X=z Out@GRAD=m@GRAD -> X@GRAD=z@GRAD | op_role=1"},
     2,
     "op scale X=m -> Out=loss | op_role=256 scale=-1.0 bias=2.0"},
};
TABLE_ROWS(proof_open, extents, cases);

static weft_program *program_of(size_t row, bool is_changed) {
    const char *lines[MOST_LINES];
    size_t n = 0;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) lines[n++] = begin[i];
    for (size_t i = 0; cases[row].lines[i]; i++) {
        lines[n++] = is_changed && i == cases[row].at ? cases[row].changed : cases[row].lines[i];
    }
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) lines[n++] = end[i];
    return small_program(context, lines, n);
}

static weft_program *on_two_ranks(const weft_program *serial) {
    static const char list_text[] = "data_parallel: {ranks: 2}";
    weft_program *p;
    weft_pass_list *list;
    must(weft_program_clone(serial, &p));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "test", &list));
    must(weft_pass_list_run(list, p, NULL));
    weft_pass_list_destroy(list);
    return p;
}

TABLE_TEST(size_t *row, proof_open, extents) {
    weft_program *serial = program_of(*row, false);
    for (int wrong = 0; wrong < 2; wrong++) {
        weft_program *own = program_of(*row, wrong), *p = on_two_ranks(own);
        weft_equivalence *e;
        const char *message = "";
        must(weft_equivalent_to_serial(serial, (const weft_program *const *)&p, 1, NULL, &e));
        (void)weft_equivalence_finding(e, 0, NULL, &message);
        cr_expect_eq(weft_equivalence_grade(e), wrong ? WEFT_NOT_PROVED : WEFT_SAME_REALS, "%s, %s: %s",
                     cases[*row].what, wrong ? "changed" : "right", message);
        weft_equivalence_destroy(e);
        weft_program_destroy(p);
        weft_program_destroy(own);
    }
    weft_program_destroy(serial);
}
