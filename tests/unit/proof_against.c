/* proof_against.c: programs of ranks against what they were before: collectives in chunks, right ones and mutants. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "ops/ops.h"
#include "program/ir.h"
#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/table.h"
#include "weft/equivalent.h"
#include "weft/pass.h"
#include "weft/witness.h"

enum { MOST_RANKS = 8, ROWS = 6, MOST_LINES = 24 };

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_against, .init = set_up, .fini = tear_down);

/* Rows of all ranks times two matrices; an activation of the first product times a third, summed and dealt out. The
 * gathered rows leave the program too. */
static weft_program *layer_of(int nranks) {
    static char words[MOST_LINES][160];
    const char *lines[MOST_LINES];
    int n = 0, all = nranks * ROWS;
#define LINE(...) (snprintf(words[n], sizeof words[n], __VA_ARGS__), lines[n] = words[n], n++)
    LINE("var x float32 %d,4", ROWS);
    LINE("var w1 float32 4,8 persist");
    LINE("var w2 float32 4,2 persist");
    LINE("var w3 float32 8,4 persist");
    LINE("var whole float32 %d,4", all);
    LINE("var h1 float32 %d,8", all);
    LINE("var h2 float32 %d,2", all);
    LINE("var a float32 %d,8", all);
    LINE("var p float32 %d,4", all);
    LINE("var y float32 %d,4", ROWS);
    LINE("op c_allgather X=x -> Out=whole | ring_id=0 nranks=%d use_calc_stream=true", nranks);
    LINE("op matmul_v2 X=whole Y=w1 -> Out=h1 | trans_x=false trans_y=false");
    LINE("op matmul_v2 X=whole Y=w2 -> Out=h2 | trans_x=false trans_y=false");
    LINE("op gelu X=h1 -> Out=a | approximate=false");
    LINE("op matmul_v2 X=a Y=w3 -> Out=p | trans_x=false trans_y=false");
    LINE("op c_reducescatter X=p -> Out=y | ring_id=0 nranks=%d use_calc_stream=true", nranks);
    LINE("op fetch X=y -> | col=0");
    LINE("op fetch X=h2 -> | col=1");
    LINE("op fetch X=whole -> | col=2");
#undef LINE
    weft_program *p = small_program(context, lines, (size_t)n);
    int64_t ranks[MOST_RANKS];
    for (int i = 0; i < nranks; i++) ranks[i] = i;
    must(weft_program_set_ring(p, 0, (size_t)nranks, ranks));
    return p;
}

typedef struct world {
    int nranks;
    weft_program *before, *after[MOST_RANKS];
} world;

static world cut_up(int nranks, const char *options) {
    world w = {.nranks = nranks, .before = layer_of(nranks)};
    weft_pass_list *list;
    weft_rank_programs *made;
    char words[160];
    snprintf(words, sizeof words, "micro_pipeline_tp: {guard: off%s}", options);
    must(weft_pass_list_parse(context, words, strlen(words), "test", &list));
    must(weft_pass_list_run_ranks(list, w.before, &made, NULL));
    cr_assert_eq(weft_rank_programs_count(made), (size_t)nranks);
    for (int i = 0; i < nranks; i++) must(weft_program_clone(weft_rank_programs_at(made, (size_t)i), &w.after[i]));
    weft_rank_programs_destroy(made);
    weft_pass_list_destroy(list);
    return w;
}

static void end(world *w) {
    weft_program_destroy(w->before);
    for (int i = 0; i < w->nranks; i++) weft_program_destroy(w->after[i]);
}

static weft_grade judge(const world *w, char *message, size_t room) {
    const weft_program *before = w->before;
    weft_equivalence *e;
    const char *words = "";
    must(weft_equivalent_ranks(&before, 1, (const weft_program *const *)w->after, (size_t)w->nranks, NULL, &e));
    (void)weft_equivalence_finding(e, 0, NULL, &words);
    snprintf(message, room, "%s", words);
    weft_grade grade = weft_equivalence_grade(e);
    cr_expect_eq(weft_equivalence_nvalues(e), (size_t)(6 * w->nranks)); /* three fetched, three kept */
    weft_equivalence_destroy(e);
    return grade;
}

static const struct {
    const char *options;
    weft_grade grade;
} kinds[] = {{"", WEFT_SAME_REALS},
             {", chunks_per_shard: 2", WEFT_SAME_REALS},
             {", chunks_per_shard: 4", WEFT_SAME_REALS},
             {", strict_bits: true", WEFT_SAME_BITS},
             {", strict_bits: true, chunks_per_shard: 3", WEFT_SAME_BITS}};
TABLE_ROWS(proof_against, chunks_are_what_the_collectives_were, kinds);

TABLE_TEST(size_t *row, proof_against, chunks_are_what_the_collectives_were) {
    for (int n = 2; n <= MOST_RANKS; n++) {
        char message[512];
        world w = cut_up(n, kinds[*row].options);
        weft_grade grade = judge(&w, message, sizeof message);
        cr_expect_eq(grade, kinds[*row].grade, "%d ranks%s: %s %s", n, kinds[*row].options, weft_grade_name(grade),
                     message);
        end(&w);
    }
}

/* --- mutants ------------------------------------------------------------------------------------------------------ */

static bool is_message(const weft_op *op) {
    return op_is(op, "p_send") || op_is(op, "p_recv");
}
static bool is_step(const weft_op *op) {
    return op_find_attr(op, "micro_pipeline_step") != NULL;
}

/* Another op of that type in the program, whose argument can stand in for this one's. */
static weft_var *another(weft_op *op, bool output) {
    weft_var *own = use_var(op->program, op_args(op, output));
    FOR_EACH_OP(other, op->program->blocks[0]) {
        if (other == op || !is_step(other) || !op_nargs(other, output) || !op_is(other, op->type->bytes)) continue;
        weft_var *v = use_var(op->program, op_args(other, output));
        bool fits = v->ndim == own->ndim && memcmp(v->dims, own->dims, own->ndim * sizeof *own->dims) == 0;
        if (v != own && fits) return v;
    }
    return NULL;
}

/* Each changes one op; false: it cannot. */
static bool to_another_peer(weft_op *op, int nranks) {
    if (!is_message(op)) return false;
    must(weft_op_set_attr_int(op, "peer", (attr_int(op, "peer", 0) + 1) % nranks));
    return true;
}
static bool on_another_lane(weft_op *op, int nranks) {
    if (!is_message(op) || nranks < 3) return false;
    must(weft_op_set_attr_int(op, "ring_id", attr_int(op, "ring_id", 0) == 1 ? 2 : 1));
    return true;
}
static bool sends_another_chunk(weft_op *op, int nranks) {
    (void)nranks;
    weft_var *v = op_is(op, "p_send") ? another(op, false) : NULL;
    if (v) weft_op_rename_input(op, use_var(op->program, op_args(op, false)), v);
    return v != NULL;
}
static bool multiplies_other_rows(weft_op *op, int nranks) {
    (void)nranks;
    weft_var *v = op_is(op, "matmul_v2") && is_step(op) ? another(op, false) : NULL;
    if (v) weft_op_rename_input(op, use_var(op->program, op_args(op, false)), v);
    return v != NULL;
}
static bool comes_elsewhere(weft_op *op, int nranks) {
    (void)nranks;
    weft_var *v = op_is(op, "p_recv") ? another(op, true) : NULL;
    if (v) weft_op_rename_output(op, use_var(op->program, op_args(op, true)), v);
    return v != NULL;
}
static bool is_gone(weft_op *op, int nranks) {
    (void)nranks;
    if (!is_step(op)) return false;
    weft_op_remove(op);
    return true;
}

static const struct {
    const char *what;
    bool (*change)(weft_op *op, int nranks);
} changes[] = {
    {"a message is of another member", to_another_peer}, {"a message goes on another lane", on_another_lane},
    {"a chunk is sent twice", sends_another_chunk},      {"other rows are multiplied", multiplies_other_rows},
    {"a chunk comes elsewhere", comes_elsewhere},        {"a step is gone", is_gone}};
TABLE_ROWS(proof_against, mutants_are_refused, changes);

TABLE_TEST(size_t *row, proof_against, mutants_are_refused) {
    size_t nmutants = 0;
    for (int n = 2; n <= 4; n++) {
        world w = cut_up(n, ", chunks_per_shard: 2");
        for (size_t at = 0; at < weft_block_nops(w.after[n - 1]->blocks[0]); at++) {
            weft_program *whole = w.after[n - 1];
            must(weft_program_clone(whole, &w.after[n - 1]));
            weft_op *op = weft_block_first_op(w.after[n - 1]->blocks[0]);
            for (size_t i = 0; i < at; i++) op = op->next;
            char place[160], message[512];
            snprintf(place, sizeof place, "%s #%zu of %d ranks", op->type->bytes, at, n);
            if (changes[*row].change(op, n)) {
                weft_grade grade = judge(&w, message, sizeof message);
                cr_expect_eq(grade, WEFT_NOT_PROVED, "%s: %s: %s", place, changes[*row].what, weft_grade_name(grade));
                nmutants++;
            }
            weft_program_destroy(w.after[n - 1]);
            w.after[n - 1] = whole;
        }
        end(&w);
    }
    cr_expect_gt(nmutants, 10, "%s: %zu", changes[*row].what, nmutants);
}

/* --- collectives that stay ---------------------------------------------------------------------------------------- */

/* Each is what it was, and another one is not. */
Test(proof_against, collectives_are_told_apart) {
    static const struct {
        const char *before, *after;
        weft_grade grade;
    } pairs[] = {
        {"op c_allreduce_sum X=x -> Out=y | ring_id=0", "op c_allreduce_sum X=x -> Out=y | ring_id=0", WEFT_SAME_BITS},
        {"op c_allreduce_max X=x -> Out=y | ring_id=0", "op c_allreduce_max X=x -> Out=y | ring_id=0", WEFT_SAME_BITS},
        {"op c_allreduce_sum X=x -> Out=y | ring_id=0", "op c_allreduce_max X=x -> Out=y | ring_id=0", WEFT_NOT_PROVED},
        {"op c_broadcast X=x -> Out=y | ring_id=0 root=0", "op c_broadcast X=x -> Out=y | ring_id=0 root=1",
         WEFT_NOT_PROVED},
        {"op alltoall X=x -> Out=y | ring_id=0", "op alltoall X=x -> Out=y | ring_id=0", WEFT_SAME_BITS},
        {"op all_to_all x=x -> out=y | ring_id=0 in_splits=[2,2] out_splits=[2,2]",
         "op alltoall X=x -> Out=y | ring_id=0", WEFT_SAME_BITS},
        {"op all_to_all x=x -> out=y | ring_id=0 in_splits=[1,3] out_splits=[1,3]",
         "op alltoall X=x -> Out=y | ring_id=0", WEFT_NOT_PROVED},
        {"op alltoall X=x -> Out=y | ring_id=0", "op assign X=x -> Out=y", WEFT_NOT_PROVED},
        {"op c_allreduce_sum X=x -> Out=y | ring_id=0", "op scale X=x -> Out=y | scale=2.0 bias=0.0", WEFT_NOT_PROVED},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *lines[] = {"var x float32 4,2", "var y float32 4,2", pairs[i].before, "op fetch X=y -> | col=0"};
        weft_program *before = small_program(context, lines, 4);
        lines[2] = pairs[i].after;
        weft_program *after = small_program(context, lines, 4);
        int64_t ranks[] = {0, 1};
        must(weft_program_set_ring(before, 0, 2, ranks));
        must(weft_program_set_ring(after, 0, 2, ranks));
        const weft_program *b = before, *a = after;
        weft_equivalence *e;
        must(weft_equivalent_ranks(&b, 1, &a, 1, NULL, &e));
        cr_expect_eq(weft_equivalence_grade(e), pairs[i].grade, "%s | %s: %s", pairs[i].before, pairs[i].after,
                     weft_grade_name(weft_equivalence_grade(e)));
        weft_equivalence_destroy(e);
        weft_program_destroy(before);
        weft_program_destroy(after);
    }
}

/* The same two collectives of one rank are not one: the other rank gives them different values. */
Test(proof_against, equal_collectives_of_one_rank_stay_two) {
    const char *lines[] = {"var x float32 2,2",
                           "var z float32 2,2",
                           "var y float32 4,2",
                           "var u float32 4,2",
                           "op c_allgather X=x -> Out=y | ring_id=0 nranks=2",
                           "op c_allgather X=x -> Out=u | ring_id=0 nranks=2",
                           "op fetch X=u -> | col=0"};
    weft_program *a = small_program(context, lines, 7);
    lines[5] = "op c_allgather X=z -> Out=u | ring_id=0 nranks=2";
    weft_program *b = small_program(context, lines, 7);
    lines[5] = "op assign X=y -> Out=u";
    weft_program *c = small_program(context, lines, 7);
    int64_t ranks[] = {0, 1};
    must(weft_program_set_ring(a, 0, 2, ranks));
    must(weft_program_set_ring(b, 0, 2, ranks));
    must(weft_program_set_ring(c, 0, 2, ranks));
    const weft_program *before[] = {a, b}, *after[] = {c, c};
    weft_equivalence *e;
    must(weft_equivalent_ranks(before, 2, after, 2, NULL, &e));
    cr_expect_eq(weft_equivalence_grade(e), WEFT_NOT_PROVED);
    weft_equivalence_destroy(e);
    weft_program_destroy(a);
    weft_program_destroy(b);
    weft_program_destroy(c);
}

/* What a collective computes of several operands is a function of what all members give. */
Test(proof_against, a_collective_without_a_definition_is_equal_to_itself) {
    const char *lines[] = {"var x float32 4,3",
                           "var other float32 4,3",
                           "var label int64 4,1",
                           "var softmax float32 4,3",
                           "var loss float32 4,1",
                           "op c_softmax_with_cross_entropy Logits=x Label=label -> Softmax=softmax Loss=loss | "
                           "ring_id=0 rank=0 nranks=2",
                           "op fetch X=loss -> | col=0"};
    weft_program *a = small_program(context, lines, 7), *b = small_program(context, lines, 7);
    lines[5] = "op c_softmax_with_cross_entropy Logits=other Label=label -> Softmax=softmax Loss=loss | "
               "ring_id=0 rank=0 nranks=2";
    weft_program *c = small_program(context, lines, 7);
    weft_program *const all[] = {a, b, c};
    int64_t ranks[] = {0, 1};
    for (int i = 0; i < 3; i++) must(weft_program_set_ring(all[i], 0, 2, ranks));
    for (int i = 1; i < 3; i++) {
        const weft_program *before[] = {a, a}, *after[] = {all[i], all[i]};
        weft_equivalence *e;
        must(weft_equivalent_ranks(before, 2, after, 2, NULL, &e));
        cr_expect_eq(weft_equivalence_grade(e), i == 1 ? WEFT_SAME_BITS : WEFT_NOT_PROVED, "case %d", i);
        weft_equivalence_destroy(e);
    }
    for (int i = 0; i < 3; i++) weft_program_destroy(all[i]);
}

/* --- parts of the contracted dimension ---------------------------------------------------------------------------- */

/* out = last of the ops; those before make it. */
static weft_grade judge_lines(const char *const *before, size_t nbefore, const char *const *after, size_t nafter) {
    weft_program *a = small_program(context, before, nbefore), *b = small_program(context, after, nafter);
    const weft_program *of_a = a, *of_b = b;
    weft_equivalence *e;
    must(weft_equivalent_ranks(&of_a, 1, &of_b, 1, NULL, &e));
    weft_grade grade = weft_equivalence_grade(e);
    weft_equivalence_destroy(e);
    weft_program_destroy(a);
    weft_program_destroy(b);
    return grade;
}

#define COUNT_OF(list) (sizeof(list) / sizeof *(list))
#define PARTS                                                                                                          \
    "var x float32 4,2", "var z float32 4,2", "var u float32 2,3", "var v float32 2,3", "var xz float32 4,4",          \
        "var uv float32 4,3", "var y float32 4,3", "var p float32 4,3", "var q float32 4,3", "var turned float32 2,3", \
        "var tp float32 2,3", "var tq float32 2,3", "var xx float32 8,2", "var yy float32 8,3"

/* [x z] times [u; v] is x u + z v, and not x v + z u. */
Test(proof_against, a_product_is_the_sum_over_parts_of_what_it_contracts) {
    const char *before[] = {PARTS, "op concat X=x,z -> Out=xz | axis=1", "op concat X=u,v -> Out=uv | axis=0",
                            "op matmul_v2 X=xz Y=uv -> Out=y | trans_x=false trans_y=false", "op fetch X=y -> | col=0"};
    const char *after[] = {PARTS, "op matmul_v2 X=x Y=u -> Out=p | trans_x=false trans_y=false",
                           "op matmul_v2 X=z Y=v -> Out=q | trans_x=false trans_y=false",
                           "op elementwise_add X=q Y=p -> Out=y | axis=-1", "op fetch X=y -> | col=0"};
    cr_expect_eq(judge_lines(before, COUNT_OF(before), after, COUNT_OF(after)), WEFT_SAME_REALS);
    after[COUNT_OF(after) - 4] = "op matmul_v2 X=x Y=v -> Out=p | trans_x=false trans_y=false";
    after[COUNT_OF(after) - 3] = "op matmul_v2 X=z Y=u -> Out=q | trans_x=false trans_y=false";
    cr_expect_eq(judge_lines(before, COUNT_OF(before), after, COUNT_OF(after)), WEFT_NOT_PROVED);
}

/* The transpose of [x; z] times [y; p] is that of x times y and that of z times p, and not of x times p. */
Test(proof_against, a_gradient_of_a_weight_is_the_sum_over_rows) {
    const char *before[] = {PARTS, "op concat X=x,z -> Out=xx | axis=0", "op concat X=y,p -> Out=yy | axis=0",
                            "op matmul_v2 X=xx Y=yy -> Out=turned | trans_x=true trans_y=false",
                            "op fetch X=turned -> | col=0"};
    const char *after[] = {PARTS, "op matmul_v2 X=x Y=y -> Out=tp | trans_x=true trans_y=false",
                           "op matmul_v2 X=z Y=p -> Out=tq | trans_x=true trans_y=false",
                           "op elementwise_add X=tp Y=tq -> Out=turned | axis=-1", "op fetch X=turned -> | col=0"};
    cr_expect_eq(judge_lines(before, COUNT_OF(before), after, COUNT_OF(after)), WEFT_SAME_REALS);
    after[COUNT_OF(after) - 4] = "op matmul_v2 X=x Y=p -> Out=tp | trans_x=true trans_y=false";
    cr_expect_eq(judge_lines(before, COUNT_OF(before), after, COUNT_OF(after)), WEFT_NOT_PROVED);
}

/* --- rows of products --------------------------------------------------------------------------------------------- */

#define ROWS_OF                                                                                                        \
    "var x float32 4,2", "var z float32 4,2", "var w float32 2,3", "var b float32 3", "var rows float32 8,3",          \
        "var xz float32 8,2", "var y float32 8,3", "var p float32 4,3", "var q float32 4,3", "var few float32 4,3",    \
        "var more float32 4,3", "op concat X=x,z -> Out=xz | axis=0"

/* [x; z] w with a row b added to each is that of x and that of z; what has rows of its own is not. */
Test(proof_against, a_product_with_a_bias_is_that_of_its_rows) {
    const char *before[] = {ROWS_OF, "op aten_addmm self=b mat1=xz mat2=w -> out=y", "op fetch X=y -> | col=0"};
    const char *after[] = {ROWS_OF, "op aten_addmm self=b mat1=x mat2=w -> out=p",
                           "op aten_addmm self=b mat1=z mat2=w -> out=q", "op concat X=p,q -> Out=y | axis=0",
                           "op fetch X=y -> | col=0"};
    const size_t nbefore = COUNT_OF(before), nafter = COUNT_OF(after);
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_SAME_BITS);
    after[nafter - 3] = "op aten_addmm self=b mat1=x mat2=w -> out=q";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "x twice");
    after[nafter - 3] = "op aten_addmm self=b mat1=z mat2=w -> out=q | beta=2.0";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "another factor");
    after[nafter - 3] = "op matmul_v2 X=z Y=w -> Out=q | trans_x=false trans_y=false";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "no bias");
    before[nbefore - 2] = "op aten_addmm self=rows mat1=xz mat2=w -> out=y";
    after[nafter - 4] = "op aten_addmm self=few mat1=x mat2=w -> out=p";
    after[nafter - 3] = "op aten_addmm self=more mat1=z mat2=w -> out=q";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "other rows are added");
}

#define BATCHES                                                                                                        \
    "var x float32 2,4,2", "var z float32 2,4,2", "var w float32 2,2,3", "var v float32 2,2,3",                        \
        "var xz float32 2,8,2", "var y float32 2,8,3", "var p float32 2,4,3", "var q float32 2,4,3"

/* Rows of each matrix of a batch. */
Test(proof_against, a_product_of_batches_is_that_of_their_rows) {
    const char *before[] = {BATCHES, "op concat X=x,z -> Out=xz | axis=1", "op bmm X=xz Y=w -> Out=y",
                            "op fetch X=y -> | col=0"};
    const char *after[] = {BATCHES, "op bmm X=x Y=w -> Out=p", "op bmm X=z Y=w -> Out=q",
                           "op concat X=p,q -> Out=y | axis=1", "op fetch X=y -> | col=0"};
    const size_t nbefore = COUNT_OF(before), nafter = COUNT_OF(after);
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_SAME_BITS);
    after[nafter - 3] = "op bmm X=z Y=v -> Out=q";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "another batch");
    after[nafter - 3] = "op bmm X=z Y=w -> Out=q";
    after[nafter - 2] = "op concat X=q,p -> Out=y | axis=1";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "in another order");
}

/* Each pair of matrices has a row of its own, which each of their rows gets. */
Test(proof_against, a_product_of_batches_with_a_bias_is_that_of_their_rows) {
    const char *before[] = {BATCHES,
                            "var b float32 2,1,3",
                            "var c float32 2,1,3",
                            "op concat X=x,z -> Out=xz | axis=1",
                            "op aten_baddbmm self=b batch1=xz batch2=w -> out=y",
                            "op fetch X=y -> | col=0"};
    const char *after[] = {BATCHES,
                           "var b float32 2,1,3",
                           "var c float32 2,1,3",
                           "op aten_baddbmm self=b batch1=x batch2=w -> out=p",
                           "op aten_baddbmm self=b batch1=z batch2=w -> out=q",
                           "op concat X=p,q -> Out=y | axis=1",
                           "op fetch X=y -> | col=0"};
    const size_t nbefore = COUNT_OF(before), nafter = COUNT_OF(after);
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_SAME_BITS);
    after[nafter - 3] = "op aten_baddbmm self=c batch1=z batch2=w -> out=q";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "another bias");
}

/* A row that an op of its own adds. */
Test(proof_against, rows_to_which_one_is_added_are_added_to_alone) {
    const char *before[] = {ROWS_OF, "op concat X=few,more -> Out=rows | axis=0",
                            "op elementwise_add X=rows Y=b -> Out=y | axis=-1", "op fetch X=y -> | col=0"};
    const char *after[] = {ROWS_OF, "op elementwise_add X=few Y=b -> Out=p | axis=-1",
                           "op elementwise_add X=more Y=b -> Out=q | axis=-1", "op concat X=p,q -> Out=y | axis=0",
                           "op fetch X=y -> | col=0"};
    const size_t nbefore = COUNT_OF(before), nafter = COUNT_OF(after);
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_SAME_BITS);
    after[nafter - 3] = "op elementwise_add X=few Y=b -> Out=q | axis=-1";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "the first rows twice");
    after[nafter - 3] = "op assign X=more -> Out=q";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "nothing is added");
}

#define SQUARES                                                                                                        \
    "var x float32 4,3", "var w float32 3,3", "var d float32 4,3", "var of_x float32 4,3", "var of_w float32 3,3"

/* d w' and x' d, of x w; of x w' they are d w and d' x. */
Test(proof_against, gradients_of_a_product_are_products) {
    const char *before[] = {
        SQUARES, "op matmul_v2_grad Out@GRAD=d X=x Y=w -> X@GRAD=of_x Y@GRAD=of_w | trans_x=false trans_y=false",
        "op fetch X=of_x -> | col=0", "op fetch X=of_w -> | col=1"};
    const char *after[] = {SQUARES, "op matmul_v2 X=d Y=w -> Out=of_x | trans_x=false trans_y=true",
                           "op matmul_v2 X=x Y=d -> Out=of_w | trans_x=true trans_y=false",
                           "op fetch X=of_x -> | col=0", "op fetch X=of_w -> | col=1"};
    const size_t nbefore = COUNT_OF(before), nafter = COUNT_OF(after);
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_SAME_REALS);
    cr_expect_eq(judge_lines(before, nbefore - 1, after, nafter - 1), WEFT_SAME_BITS, "of rows alone");
    after[nafter - 3] = "op matmul_v2 X=d Y=x -> Out=of_w | trans_x=true trans_y=false";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "the other way round");
    after[nafter - 3] = "op matmul_v2 X=x Y=d -> Out=of_w | trans_x=true trans_y=false";
    after[nafter - 4] = "op matmul_v2 X=d Y=w -> Out=of_x | trans_x=false trans_y=false";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_NOT_PROVED, "not transposed");
    before[nbefore - 3] =
        "op matmul_v2_grad Out@GRAD=d X=x Y=w -> X@GRAD=of_x Y@GRAD=of_w | trans_x=false trans_y=true";
    after[nafter - 3] = "op matmul_v2 X=d Y=x -> Out=of_w | trans_x=true trans_y=false";
    cr_expect_eq(judge_lines(before, nbefore, after, nafter), WEFT_SAME_REALS, "of a transpose");
}

/* --- witnesses ---------------------------------------------------------------------------------------------------- */

/* How many findings name a value that is wrong. */
static size_t count_shown(const world *w, weft_grade *out_grade) {
    const weft_program *before = w->before;
    weft_equivalence_options options = {WEFT_EQUIVALENCE_OPTIONS_INIT, .witness = weft_witness_run};
    weft_equivalence *e;
    size_t nshown = 0;
    must(weft_equivalent_ranks(&before, 1, (const weft_program *const *)w->after, (size_t)w->nranks, &options, &e));
    for (size_t i = 0; i < weft_equivalence_nfindings(e); i++) {
        const char *words;
        if (weft_equivalence_difference(e, i) != WEFT_DIFFERENCE_SHOWN) continue;
        (void)weft_equivalence_finding(e, i, NULL, &words);
        cr_expect(strstr(words, "shown by random data: element") && strstr(words, " of rank "), "%s", words);
        nshown++;
    }
    *out_grade = weft_equivalence_grade(e);
    weft_equivalence_destroy(e);
    return nshown;
}

/* Rows that are multiplied twice leave wrong values; what is right leaves none. A mutant that reads what nobody wrote
 * may have no number to show. */
Test(proof_against, mutants_that_run_are_shown_to_be_wrong) {
    weft_grade grade;
    size_t nmutants = 0, nshown = 0;
    world w = cut_up(3, "");
    cr_expect_eq(count_shown(&w, &grade), 0);
    cr_expect_eq(grade, WEFT_SAME_REALS);
    for (size_t at = 0; at < weft_block_nops(w.after[2]->blocks[0]); at++) {
        weft_program *whole = w.after[2];
        must(weft_program_clone(whole, &w.after[2]));
        weft_op *op = weft_block_first_op(w.after[2]->blocks[0]);
        for (size_t i = 0; i < at; i++) op = op->next;
        if (multiplies_other_rows(op, 3)) {
            nshown += count_shown(&w, &grade) > 0;
            nmutants++;
        }
        weft_program_destroy(w.after[2]);
        w.after[2] = whole;
    }
    cr_expect(nmutants >= 3 && nshown >= 2, "%zu mutants, %zu shown", nmutants, nshown);
    end(&w);
}
