/* A verdict of wrong needs values that differ: what terms suspect is run on random data, or stays suspected. Open
 * extents are followed like numbers. */
#include <criterion/criterion.h>

#include "program/ir.h"
#include "tests/support/equivalence.h"
#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/table.h"
#include "weft/pass.h"
#include "weft/witness.h"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_witness, .init = set_up, .fini = tear_down);

/* A line of the middle differs: what makes d of z. The batch is open. */
static weft_program *net(const char *middle, const char *backward) {
    const char *lines[] = {
        "var x float32 -1,4",
        "var w float32 4,2 persist",
        "var lr float32 1 persist",
        "var z float32 -1,2",
        "var d float32 -1,2",
        "var loss float32 1",
        "var loss@GRAD float32 1",
        "var d@GRAD float32 -1,2",
        "var z@GRAD float32 -1,2",
        "var w@GRAD float32 4,2",
        "op matmul_v2 X=x Y=w -> Out=z | op_role=0",
        middle,
        "op mean X=d -> Out=loss | op_role=256",
        "op fill_constant -> Out=loss@GRAD | op_role=257 value=1.0 shape=[1]",
        "op mean_grad X=d Out@GRAD=loss@GRAD -> X@GRAD=d@GRAD | op_role=1",
        backward,
        "op matmul_v2_grad X=x Y=w Out@GRAD=z@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=w,w@GRAD",
        "op sgd Param=w Grad=w@GRAD LearningRate=lr -> ParamOut=w | op_role=2 op_role_var=w,w@GRAD",
    };
    return small_program(context, lines, sizeof lines / sizeof *lines);
}

#define SQUARE "op square X=z -> Out=d | op_role=0"
#define SQUARE_GRAD "op square_grad X=z Out@GRAD=d@GRAD -> X@GRAD=z@GRAD | op_role=1"
#define TIMES "op elementwise_mul X=z Y=z -> Out=d | op_role=0 axis=-1"
#define ABS "op abs X=z -> Out=d | op_role=0"

static const struct {
    const char *middle;  /* of the ranks' program; the serial one squares */
    const char *dropped; /* an op that the ranks lack */
    weft_witness witness;
    int64_t batch;
    weft_grade grade;
    weft_difference difference; /* of the finding on w */
    const char *message;
} rows[] = {
    {SQUARE, NULL, weft_witness_run, 0, WEFT_SAME_REALS, WEFT_DIFFERENCE_NONE, NULL},
    {SQUARE, NULL, weft_witness_run, 6, WEFT_SAME_REALS, WEFT_DIFFERENCE_NONE, NULL},
    {SQUARE, "scale", weft_witness_run, 0, WEFT_NOT_PROVED, WEFT_DIFFERENCE_SHOWN, "shown by random data: element"},
    {SQUARE, "scale", weft_witness_run, 6, WEFT_NOT_PROVED, WEFT_DIFFERENCE_SHOWN, "shown by random data: element"},
    {SQUARE, "scale", NULL, 0, WEFT_NOT_PROVED, WEFT_DIFFERENCE_SUSPECTED, "nobody was asked"},
    {SQUARE, "c_allreduce_sum", weft_witness_run, 0, WEFT_NOT_PROVED, WEFT_DIFFERENCE_UNKNOWN, "a reduce is missing"},
};
TABLE_ROWS(proof_witness, verdicts, rows);

static weft_program *on_two_ranks(const weft_program *serial, const char *dropped) {
    static const char list_text[] = "data_parallel: {ranks: 2}";
    weft_program *p;
    weft_pass_list *list;
    must(weft_program_clone(serial, &p));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "test", &list));
    must(weft_pass_list_run(list, p, NULL));
    weft_pass_list_destroy(list);
    for (weft_op *op = weft_block_first_op(p->blocks[0]), *next; op && dropped; op = next) {
        next = op->next;
        if (!op_is(op, dropped)) continue;
        weft_op_remove(op);
        dropped = NULL;
    }
    return p;
}

static weft_difference difference_of(const weft_equivalence *e, const char *var) {
    for (size_t i = 0; i < weft_equivalence_nfindings(e); i++)
        if (strcmp(weft_equivalence_finding(e, i, NULL, NULL), var) == 0) return weft_equivalence_difference(e, i);
    return WEFT_DIFFERENCE_NONE;
}

TABLE_TEST(size_t *row, proof_witness, verdicts) {
    weft_program *serial = net(SQUARE, SQUARE_GRAD), *p = on_two_ranks(serial, rows[*row].dropped);
    weft_equivalence_options o = {WEFT_EQUIVALENCE_OPTIONS_INIT, .witness = rows[*row].witness,
                                  .batch = rows[*row].batch};
    weft_equivalence *e;
    must(weft_equivalent_to_serial(serial, (const weft_program *const *)&p, 1, &o, &e));
    cr_expect_eq(weft_equivalence_grade(e), rows[*row].grade);
    cr_expect_eq(difference_of(e, "w"), rows[*row].difference, "row %zu: %d", *row, (int)difference_of(e, "w"));
    if (rows[*row].message) cr_expect(any_message(e, rows[*row].message), "row %zu", *row);
    weft_equivalence_destroy(e);
    weft_program_destroy(p);
    weft_program_destroy(serial);
}

/* z * z is no term that square is, but the same value: suspected, and not shown. |z| is another. */
Test(proof_witness, equal_values_are_not_wrong) {
    weft_program *serial = net(SQUARE, SQUARE_GRAD);
    static const char *const middles[] = {TIMES, ABS};
    for (size_t i = 0; i < 2; i++) {
        weft_program *other = net(middles[i], SQUARE_GRAD), *p = on_two_ranks(other, NULL);
        weft_equivalence_options o = {WEFT_EQUIVALENCE_OPTIONS_INIT, .witness = weft_witness_run};
        weft_equivalence *e;
        must(weft_equivalent_to_serial(serial, (const weft_program *const *)&p, 1, &o, &e));
        cr_expect_eq(weft_equivalence_grade(e), WEFT_NOT_PROVED);
        cr_expect_eq(difference_of(e, "loss"), i ? WEFT_DIFFERENCE_SHOWN : WEFT_DIFFERENCE_SUSPECTED);
        if (!i) cr_expect(any_message(e, "random data does not show it"));
        weft_equivalence_destroy(e);
        weft_program_destroy(p);
        weft_program_destroy(other);
    }
    weft_program_destroy(serial);
}

/* A batch that no feed leaves open, or that does not divide by the ranks, is no batch. */
Test(proof_witness, batches_that_do_not_fit) {
    weft_program *serial = net(SQUARE, SQUARE_GRAD), *p = on_two_ranks(serial, "scale");
    weft_equivalence_options o = {WEFT_EQUIVALENCE_OPTIONS_INIT, .batch = 7};
    weft_equivalence *e;
    weft_status status = weft_equivalent_to_serial(serial, (const weft_program *const *)&p, 1, &o, &e);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    weft_program_destroy(p);
    weft_program_destroy(serial);
}
