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

enum { MOST_LINES = 60 };

static const char *const begin[] = {
    "var x float32 -1,4",       "var w float32 4,2 persist", "var c float32 1,2 persist", "var lr float32 1 persist",
    "var z float32 -1,2",       "var d float32 -1,2",        "var loss float32 1",        "var loss@GRAD float32 1",
    "var d@GRAD float32 -1,2",  "var z@GRAD float32 -1,2",   "var w@GRAD float32 4,2",    "var s int32 2",
    "var rows int32 1",         "var n float32 1",           "var e float32 -1,2",        "var total float32 2",
    "var total@GRAD float32 2", "var m float32 1",           "var m@GRAD float32 1",      "var two int32 1",
    "var s2 int32 2",           "var t float32 2",           "var t@GRAD float32 2",      "var a int64 -1",
    "var b int64 -1",           "var zero int64 1",          "var one int64 1",           "var end int64 1",
    "var r int64 -1",           "var at int64 -1,2",         "var g float32 -1",          "var v float32 1 persist",
    "var v@GRAD float32 1",     "var u float32 1",           "var u@GRAD float32 1",      "var g@GRAD float32 -1",
    "var e@GRAD float32 -1,2",  "var c@GRAD float32 1,2",    "var q float32 1,2",         "var k float32 1,1,2",
    "var q@GRAD float32 1,2",   "var k@GRAD float32 1,1,2",
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
#define REPEATS "op fill_constant -> Out=two | op_role=0 value=1.0 shape=[1] dtype=2"
#define TILE "op tile X=c RepeatTimes=s2 -> Out=e | op_role=0"
#define ADD "op elementwise_add X=z Y=e -> Out=d | op_role=0 axis=-1"
#define ADD_GRADS "op elementwise_add_grad X=z Y=e Out@GRAD=d@GRAD -> X@GRAD=z@GRAD Y@GRAD=e@GRAD | op_role=1 axis=-1"
#define TILE_GRAD "op tile_grad X=c RepeatTimes=s2 Out@GRAD=e@GRAD -> X@GRAD=c@GRAD | op_role=1 op_role_var=c,c@GRAD"
#define UPDATE_C "op sgd Param=c Grad=c@GRAD LearningRate=lr -> ParamOut=c | op_role=2 op_role_var=c,c@GRAD"
#define TILED                                                                                                          \
    { MULTIPLY, SHAPE, ROWS, REPEATS, BOTH, TILE, ADD, MEAN, SEED, MEAN_GRAD, ADD_GRADS, TILE_GRAD, UPDATE_C }

#define ZERO "op fill_constant -> Out=zero | op_role=0 value=0.0 shape=[1] dtype=3"
#define ONE "op fill_constant -> Out=one | op_role=0 value=1.0 shape=[1] dtype=3"
#define END "op cast X=rows -> Out=end | op_role=0 in_dtype=2 out_dtype=3"
#define RANGE "op range Start=zero End=end Step=one -> Out=r | op_role=0"
#define STACK "op stack X=r,a -> Y=at | op_role=0 axis=1"
#define PICK "op gather_nd X=z Index=at -> Out=g | op_role=0"
#define MEAN_G "op mean X=g -> Out=loss | op_role=256"
#define MEAN_G_GRAD "op mean_grad X=g Out@GRAD=loss@GRAD -> X@GRAD=g@GRAD | op_role=1"
#define PICK_GRAD "op gather_nd_grad X=z Index=at Out@GRAD=g@GRAD -> X@GRAD=z@GRAD | op_role=1"
#define PICKED                                                                                                         \
    { MULTIPLY, SHAPE, ROWS, ZERO, ONE, END, RANGE, STACK, PICK, MEAN_G, SEED, MEAN_G_GRAD, PICK_GRAD }

#define MEAN_Z "op mean X=z -> Out=m | op_role=0"
#define MEAN_Z_GRAD "op mean_grad X=z Out@GRAD=m@GRAD -> X@GRAD=z@GRAD | op_role=1"
#define WEIGH "op elementwise_mul X=m Y=v -> Out=loss | op_role=256 axis=-1"
#define WEIGH_GRAD                                                                                                     \
    "op elementwise_mul_grad X=m Y=v Out@GRAD=loss@GRAD -> X@GRAD=m@GRAD Y@GRAD=v@GRAD | op_role=1 axis=-1 "           \
    "op_role_var=v,v@GRAD"
#define UPDATE_V "op sgd Param=v Grad=v@GRAD LearningRate=lr -> ParamOut=v | op_role=2 op_role_var=v,v@GRAD"
#define WEIGHED                                                                                                        \
    { MULTIPLY, MEAN_Z, WEIGH, SEED, WEIGH_GRAD, MEAN_Z_GRAD, UPDATE_V }

#define ADD_GRAD "op elementwise_add_grad X=z Y=e Out@GRAD=d@GRAD -> X@GRAD=z@GRAD | op_role=1 axis=-1"

/* Lines of forward and backward; `changed` takes the place of line `at` in the ranks' program. */
static const struct {
    const char *what;
    const char *lines[16];
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
    {"a row that is repeated for each row, by tile", TILED, 6,
     "op elementwise_sub X=z Y=e -> Out=d | op_role=0 axis=-1"},
    {"the gradient of that row", TILED, 11,
     "op tile_grad X=c RepeatTimes=s2 Out@GRAD=z -> X@GRAD=c@GRAD | op_role=1 op_role_var=c,c@GRAD"},
    {"an element that each row picks", PICKED, 7, "op stack X=r,b -> Y=at | op_role=0 axis=1"},
    {"the row that it is picked of", PICKED, 6, "op fill_any_like X=a -> Out=r | op_role=0 value=0.0 dtype=3"},
    {"the gradient of what is picked", PICKED, 12,
     "op gather_nd_grad X=x Index=at Out@GRAD=g@GRAD -> X@GRAD=z@GRAD | op_role=1"},
    {"a loss that a parameter weighs", WEIGHED, 2, "op elementwise_mul X=m Y=m -> Out=loss | op_role=256 axis=-1"},
    {"the gradient of that parameter", WEIGHED, 4,
     "op elementwise_mul_grad X=v Y=v Out@GRAD=loss@GRAD -> X@GRAD=m@GRAD Y@GRAD=v@GRAD | op_role=1 axis=-1 "
     "op_role_var=v,v@GRAD"},
    {"the gradient of the loss that it weighs", WEIGHED, 4,
     "op elementwise_mul_grad X=m Y=m Out@GRAD=loss@GRAD -> X@GRAD=m@GRAD Y@GRAD=v@GRAD | op_role=1 axis=-1 "
     "op_role_var=v,v@GRAD"},
    {"an extent of 1 that is declared where rows meet a 1",
     {MULTIPLY, "op elementwise_add X=c Y=z -> Out=q | op_role=0 axis=-1",
      "op reshape2 X=q -> Out=k | op_role=0 shape=[0,1,2]", "op mean X=k -> Out=loss | op_role=256", SEED,
      "op mean_grad X=k Out@GRAD=loss@GRAD -> X@GRAD=k@GRAD | op_role=1",
      "op reshape2 X=k@GRAD -> Out=q@GRAD | op_role=1 shape=[0,2]",
      "op elementwise_add_grad X=c Y=z Out@GRAD=q@GRAD -> X@GRAD=c@GRAD Y@GRAD=z@GRAD | op_role=1 axis=-1 "
      "op_role_var=c,c@GRAD",
      UPDATE_C},
     1,
     "op elementwise_sub X=c Y=z -> Out=q | op_role=0 axis=-1"},
    {"a choice of two means",
     {MULTIPLY, MEAN_Z, "op scale X=m -> Out=u | op_role=0 scale=3.0",
      "op fill_constant -> Out=two | op_role=0 value=1.0 shape=[1] dtype=2",
      "op select_input X=m,u Mask=two -> Out=loss | op_role=256", SEED,
      "op select_output X=loss@GRAD Mask=two -> Out=v@GRAD,u@GRAD | op_role=1",
      "op scale X=u@GRAD -> Out=n | op_role=1 scale=3.0", "op sum X=v@GRAD,n -> Out=m@GRAD | op_role=1", MEAN_Z_GRAD},
     3,
     "op fill_constant -> Out=two | op_role=0 value=0.0 shape=[1] dtype=2"},
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

/* Programs of which ranks compute something else: what each makes of its own mean is no part of a sum. */
static const struct {
    const char *what;
    const char *lines[16];
} others[] = {
    {"the square of a mean",
     {MULTIPLY, MEAN_Z, "op elementwise_mul X=m Y=m -> Out=loss | op_role=256 axis=-1", SEED,
      "op elementwise_mul_grad X=m Y=m Out@GRAD=loss@GRAD -> X@GRAD=m@GRAD | op_role=1 axis=-1", MEAN_Z_GRAD}},
    {"a parameter over a mean",
     {MULTIPLY, MEAN_Z, "op elementwise_div X=v Y=m -> Out=loss | op_role=256 axis=-1", SEED,
      "op elementwise_div_grad X=v Y=m Out=loss Out@GRAD=loss@GRAD -> X@GRAD=v@GRAD Y@GRAD=m@GRAD | op_role=1 axis=-1 "
      "op_role_var=v,v@GRAD",
      MEAN_Z_GRAD, UPDATE_V}},
    {"a parameter to the power of a mean",
     {MULTIPLY, MEAN_Z, "op elementwise_pow X=v Y=m -> Out=loss | op_role=256 axis=-1", SEED,
      "op elementwise_pow_grad X=v Y=m Out@GRAD=loss@GRAD -> X@GRAD=v@GRAD Y@GRAD=m@GRAD | op_role=1 axis=-1 "
      "op_role_var=v,v@GRAD",
      MEAN_Z_GRAD, UPDATE_V}},
    {"a weighed mean that is squared",
     {MULTIPLY, MEAN_Z, "op elementwise_mul X=m Y=v -> Out=u | op_role=0 axis=-1",
      "op square X=u -> Out=loss | op_role=256", SEED,
      "op square_grad X=u Out@GRAD=loss@GRAD -> X@GRAD=u@GRAD | op_role=1",
      "op elementwise_mul_grad X=m Y=v Out@GRAD=u@GRAD -> X@GRAD=m@GRAD Y@GRAD=v@GRAD | op_role=1 axis=-1 "
      "op_role_var=v,v@GRAD",
      MEAN_Z_GRAD, UPDATE_V}},
    {"the larger of a mean and a parameter",
     {MULTIPLY, MEAN_Z, "op elementwise_max X=m Y=v -> Out=loss | op_role=256 axis=-1", SEED,
      "op elementwise_max_grad X=m Y=v Out@GRAD=loss@GRAD -> X@GRAD=m@GRAD Y@GRAD=v@GRAD | op_role=1 axis=-1 "
      "op_role_var=v,v@GRAD",
      MEAN_Z_GRAD, UPDATE_V}},
};
TABLE_ROWS(proof_open, ranks_differ, others);

TABLE_TEST(size_t *row, proof_open, ranks_differ) {
    const char *lines[MOST_LINES];
    size_t n = 0;
    weft_equivalence *e;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) lines[n++] = begin[i];
    for (size_t i = 0; others[*row].lines[i]; i++) lines[n++] = others[*row].lines[i];
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) lines[n++] = end[i];
    weft_program *serial = small_program(context, lines, n), *p = on_two_ranks(serial);
    must(weft_equivalent_to_serial(serial, (const weft_program *const *)&p, 1, NULL, &e));
    cr_expect_eq(weft_equivalence_grade(e), WEFT_NOT_PROVED, "%s", others[*row].what);
    weft_equivalence_destroy(e);
    weft_program_destroy(p);
    weft_program_destroy(serial);
}
