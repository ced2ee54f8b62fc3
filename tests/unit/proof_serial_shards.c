/* Ranks that hold parts of parameters, or of a sequence, against the serial program: programs that are equal, and the
 * same with one thing wrong. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "program/ir.h"
#include "tests/support/equivalence.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/table.h"
#include "weft/equivalent.h"

enum { RANKS = 4 };

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_serial_shards, .init = set_up, .fini = tear_down);

/* --- parts of parameters ------------------------------------------------------------------------------------------ */

#define PLACED(mapping) "dist: {mesh: 0, dims_mapping: " mapping "}"

/* A column-parallel and a row-parallel product, joined parts; batches over axis 0, parameters over 1. */
#define MODEL(batch, cols, dist_x, dist_u, dist_v, dist_q)                                                             \
    "blocks:\n"                                                                                                        \
    "- idx: 0\n"                                                                                                       \
    "  vars:\n"                                                                                                        \
    "    x: {float32: [" batch ", 4], need_check_feed: true" dist_x "}\n"                                              \
    "    w: {float32: [4, 4], persistable: true, parameter: true}\n"                                                   \
    "    u: {float32: [4, " cols "], persistable: true, parameter: true" dist_u "}\n"                                  \
    "    v: {float32: [" cols ", 6], persistable: true, parameter: true" dist_v "}\n"                                  \
    "    b: {float32: [6], persistable: true, parameter: true}\n"                                                      \
    "    q: {float32: [6, " cols "], persistable: true, parameter: true" dist_q "}\n"                                  \
    "    rate: {float32: [1], persistable: true}\n"

#define LOCALS(batch, cols)                                                                                            \
    "    g: {float32: [" batch ", 4]}\n"                                                                               \
    "    h: {float32: [" batch ", " cols "]}\n"                                                                        \
    "    r: {float32: [" batch ", " cols "]}\n"                                                                        \
    "    y: {float32: [" batch ", 6]}\n"                                                                               \
    "    z: {float32: [" batch ", 6]}\n"                                                                               \
    "    k: {float32: [" batch ", " cols "]}\n"                                                                        \
    "    kk: {float32: [" batch ", 6]}\n"                                                                              \
    "    loss: {float32: []}\n"                                                                                        \
    "    loss@GRAD: {float32: []}\n"                                                                                   \
    "    kk@GRAD: {float32: [" batch ", 6]}\n"                                                                         \
    "    k@GRAD: {float32: [" batch ", " cols "]}\n"                                                                   \
    "    z@GRAD: {float32: [" batch ", 6]}\n"                                                                          \
    "    y@GRAD: {float32: [" batch ", 6]}\n"                                                                          \
    "    r@GRAD: {float32: [" batch ", " cols "]}\n"                                                                   \
    "    h@GRAD: {float32: [" batch ", " cols "]}\n"                                                                   \
    "    g@GRAD: {float32: [" batch ", 4]}\n"                                                                          \
    "    w@GRAD: {float32: [4, 4]}\n"                                                                                  \
    "    u@GRAD: {float32: [4, " cols "]}\n"                                                                           \
    "    v@GRAD: {float32: [" cols ", 6]}\n"                                                                           \
    "    b@GRAD: {float32: [6]}\n"                                                                                     \
    "    q@GRAD: {float32: [6, " cols "]}\n"                                                                           \
    "  ops:\n"

#define SUM(var, ring) "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: " ring "}}\n"
#define HALF(var) "  - {scale: {X: " var "}, out: {Out: " var "}, attrs: {scale: 0.5, bias: 0.0}}\n"
#define STEP(var) "  - {sgd: {Param: " var ", LearningRate: rate, Grad: " var "@GRAD}, out: {ParamOut: " var "}}\n"
#define TIMES(x, y, out) "  - {matmul_v2: {X: " x ", \"Y\": " y "}, out: {Out: " out "}}\n"
#define MEAN "attrs: {dim: [], keep_dim: false, reduce_all: true, op_role: "

/* Inserted by ranks only: SY adds up y, JOIN and PART put k together and take its gradient apart, and so on. */
#define OPS(sy, join, part, sz, sg, dp)                                                                                \
    TIMES("x", "w", "g")                                                                                               \
    TIMES("g", "u", "h")                                                                                               \
    "  - {relu: {X: h}, out: {Out: r}}\n" TIMES("r", "v", "y") sy                                                      \
        "  - {elementwise_add: {X: y, \"Y\": b}, out: {Out: z}, attrs: {axis: -1}}\n" TIMES("z", "q", "k") join        \
        "  - {reduce_mean: {X: kk}, out: {Out: loss}, " MEAN "256}}\n"                                                 \
        "  - {fill_constant: {}, out: {Out: loss@GRAD}, attrs: {dtype: 5, shape: !longs [], value: 1.0, op_role: "     \
        "257}}\n"                                                                                                      \
        "  - {reduce_mean_grad: {X: kk, Out@GRAD: loss@GRAD}, out: {X@GRAD: kk@GRAD}, " MEAN "1}}\n" part              \
        "  - {matmul_v2_grad: {X: z, \"Y\": q, Out@GRAD: k@GRAD}, out: {X@GRAD: z@GRAD, Y@GRAD: q@GRAD}}\n" sz         \
        "  - {elementwise_add_grad: {X: y, \"Y\": b, Out@GRAD: z@GRAD}, out: {X@GRAD: y@GRAD, Y@GRAD: b@GRAD}, "       \
        "attrs: {axis: -1}}\n"                                                                                         \
        "  - {matmul_v2_grad: {X: r, \"Y\": v, Out@GRAD: y@GRAD}, out: {X@GRAD: r@GRAD, Y@GRAD: v@GRAD}}\n"            \
        "  - {relu_grad: {Out: r, Out@GRAD: r@GRAD}, out: {X@GRAD: h@GRAD}}\n"                                         \
        "  - {matmul_v2_grad: {X: g, \"Y\": u, Out@GRAD: h@GRAD}, out: {X@GRAD: g@GRAD, Y@GRAD: u@GRAD}}\n" sg         \
        "  - {matmul_v2_grad: {X: x, \"Y\": w, Out@GRAD: g@GRAD}, out: {Y@GRAD: w@GRAD}}\n" dp STEP("w") STEP("u")     \
            STEP("v") STEP("b") STEP("q")

static const char serial_text[] = "weft: 1\n" MODEL("8", "6", "", "", "", "") LOCALS("8", "6")
    OPS("", "  - {assign: {X: k}, out: {Out: kk}}\n", "  - {assign: {X: kk@GRAD}, out: {Out: k@GRAD}}\n", "", "", "");

static const char rank_text[] =
    MODEL("4", "3", ", " PLACED("[0, -1]"), ", " PLACED("[-1, 1]"), ", " PLACED("[1, -1]"), ", " PLACED("[-1, 1]"))
        LOCALS("4", "3")
            OPS(SUM("y", "1"), "  - {c_concat: {X: k}, out: {Out: kk}, attrs: {ring_id: 1, nranks: 2, rank: %}}\n",
                "  - {c_split: {X: kk@GRAD}, out: {Out: k@GRAD}, attrs: {ring_id: 1, nranks: 2, rank: %}}\n",
                SUM("z@GRAD", "1"), SUM("g@GRAD", "1"),
                SUM("w@GRAD", "0") HALF("w@GRAD") SUM("u@GRAD", "0") HALF("u@GRAD") SUM("v@GRAD", "0") HALF("v@GRAD")
                    SUM("b@GRAD", "0") HALF("b@GRAD") SUM("q@GRAD", "0") HALF("q@GRAD"));

typedef struct change {
    const char *from, *to; /* in every rank's program */
    bool one;              /* in the last rank's only */
    weft_grade grade;
    const char *message;
} change;

static const change changes[] = {
    {"", "", false, WEFT_SAME_REALS, NULL},
    /* a reduce is missing, doubled, over the wrong ring, over all */
    {SUM("y", "1"), "", false, WEFT_NOT_PROVED, NULL},
    {SUM("y", "1"), SUM("y", "1") SUM("y", "1"), false, WEFT_NOT_PROVED, "found 2 * "},
    {SUM("y", "1"), SUM("y", "0"), false, WEFT_NOT_PROVED, "it combines the parts of different ranks"},
    {SUM("y", "1"), SUM("y", "2"), false, WEFT_NOT_PROVED, "it combines the parts of different ranks"},
    {SUM("z@GRAD", "1"), "", false, WEFT_NOT_PROVED, "a reduce is missing"},
    {SUM("z@GRAD", "1"), SUM("z@GRAD", "1") SUM("z@GRAD", "1"), false, WEFT_NOT_PROVED, "found 2 * "},
    {SUM("g@GRAD", "1"), "", false, WEFT_NOT_PROVED, "a reduce is missing"},
    {SUM("u@GRAD", "0"), "", false, WEFT_NOT_PROVED, "a reduce is missing"},
    {SUM("u@GRAD", "0"), SUM("u@GRAD", "1"), false, WEFT_NOT_PROVED, "it combines the parts of different ranks"},
    {SUM("u@GRAD", "0"), SUM("u@GRAD", "2"), false, WEFT_NOT_PROVED, "it combines the parts of different ranks"},
    {SUM("w@GRAD", "0"), SUM("w@GRAD", "2"), false, WEFT_NOT_PROVED, "found 2 * "},
    {SUM("b@GRAD", "0"), SUM("b@GRAD", "1"), false, WEFT_NOT_PROVED, "a reduce is missing"},
    {HALF("v@GRAD"), "", false, WEFT_NOT_PROVED, "found 2 * "},
    {HALF("q@GRAD"), HALF("q@GRAD") HALF("q@GRAD"), false, WEFT_NOT_PROVED, "found 1/2 * "},
    /* on one rank */
    {HALF("v@GRAD"), "", true, WEFT_NOT_PROVED, "found 2 * "},
    {HALF("y@GRAD"), "", true, WEFT_SAME_REALS, NULL},
    {SUM("y", "1"), HALF("y") SUM("y", "1"), true, WEFT_NOT_PROVED, "ranks give it different values"},
    {SUM("u@GRAD", "0"), HALF("u@GRAD") SUM("u@GRAD", "0"), true, WEFT_NOT_PROVED, "ranks give it different values"},
    {"{relu: {X: h}", "{tanh: {X: h}", true, WEFT_NOT_PROVED, NULL},
    /* a sum where its terms are */
    {"X: h}, out: {Out: r}}\n", "X: h}, out: {Out: r}}\n" SUM("r", "1"), false, WEFT_NOT_PROVED, "parts of different"},
    {SUM("y", "1") "  - {elementwise_add: {X: y, ", "  - {relu: {X: y}, out: {Out: y}}\n  - {elementwise_add: {X: y, ",
     false, WEFT_NOT_PROVED, "a reduce is missing"},
    /* the wrong part */
    {"X: k}, out: {Out: kk}, attrs: {ring_id: 1", "X: k}, out: {Out: kk}, attrs: {ring_id: 0", false, WEFT_NOT_PROVED,
     "it gathers what are no parts"},
    {"{X: kk@GRAD}, out: {Out: k@GRAD}, attrs: {ring_id: 1, nranks: 2, rank: %",
     "{X: kk@GRAD}, out: {Out: k@GRAD}, attrs: {ring_id: 1, nranks: 2, rank: 0", false, WEFT_NOT_PROVED,
     "this collective is not followed"},
    {"u: {float32: [4, 3], persistable: true, parameter: true, " PLACED("[-1, 1]"),
     "u: {float32: [4, 3], persistable: true, parameter: true, " PLACED("[-1, 0]"), false, WEFT_NOT_PROVED, NULL},
    {"v: {float32: [3, 6], persistable: true, parameter: true, " PLACED("[1, -1]"),
     "v: {float32: [3, 6], persistable: true, parameter: true, " PLACED("[-1, 1]"), false, WEFT_NOT_PROVED,
     "a rank holds only a part of it, or another shape"},
    /* parts that were not put back */
    {STEP("u"), "  - {scale: {X: u@GRAD}, out: {Out: u}, attrs: {scale: 1.0, bias: 0.0}}\n", false, WEFT_NOT_PROVED,
     "expected "},
};
TABLE_ROWS(proof_serial_shards, one_change, changes);

/* A table of which ranks hold rows. */
#define LOOKUP(batch, fed, rows, placed, forward, backward, more, reduce)                                              \
    "blocks:\n"                                                                                                        \
    "- idx: 0\n"                                                                                                       \
    "  vars:\n"                                                                                                        \
    "    i: {int64: [" batch ", 3], need_check_feed: true" fed "}\n"                                                   \
    "    t: {float32: [" rows ", 4], persistable: true, parameter: true" placed "}\n"                                  \
    "    rate: {float32: [1], persistable: true}\n"                                                                    \
    "    e: {float32: [" batch ", 3, 4]}\n"                                                                            \
    "    loss: {float32: []}\n"                                                                                        \
    "    loss@GRAD: {float32: []}\n"                                                                                   \
    "    e@GRAD: {float32: [" batch ", 3, 4]}\n"                                                                       \
    "    t@GRAD: {float32: [" rows ", 4]}\n"                                                                           \
    "  ops:\n"                                                                                                         \
    "  - {" forward ": {W: t, Ids: i}, out: {Out: e}" more "}\n" reduce                                                \
    "  - {reduce_mean: {X: e}, out: {Out: loss}, " MEAN "256}}\n"                                                      \
    "  - {fill_constant: {}, out: {Out: loss@GRAD}, attrs: {dtype: 5, shape: !longs [], value: 1.0, op_role: 257}}\n"  \
    "  - {reduce_mean_grad: {X: e, Out@GRAD: loss@GRAD}, out: {X@GRAD: e@GRAD}, " MEAN "1}}\n"                         \
    "  - {" backward ": {W: t, Ids: i, Out@GRAD: e@GRAD}, out: {W@GRAD: t@GRAD}" more "}\n"

static const char serial_lookup[] =
    "weft: 1\n" LOOKUP("8", "", "10", "", "lookup_table_v2", "lookup_table_v2_grad", "", "") STEP("t");
static const char rank_lookup[] =
    LOOKUP("4", ", " PLACED("[0, -1]"), "5", ", " PLACED("[1, -1]"), "c_embedding", "c_embedding_grad",
           ", attrs: {start_index: !long &}", SUM("e", "1")) SUM("t@GRAD", "0") HALF("t@GRAD") STEP("t");

static const change lookups[] = {
    {"", "", false, WEFT_SAME_REALS, NULL},
    {SUM("e", "1"), SUM("e", "1") SUM("e", "1"), false, WEFT_NOT_PROVED, "found 2 * "},
    {SUM("e", "1"), SUM("e", "0"), false, WEFT_NOT_PROVED, "it combines the parts of different ranks"},
    {SUM("t@GRAD", "0"), SUM("t@GRAD", "1"), false, WEFT_NOT_PROVED, "it combines the parts of different ranks"},
    {SUM("t@GRAD", "0"), "", false, WEFT_NOT_PROVED, "a reduce is missing"},
    {HALF("t@GRAD"), "", false, WEFT_NOT_PROVED, "found 2 * "},
    {"{Out: e}, attrs: {start_index: !long &", "{Out: e}, attrs: {start_index: !long 0", false, WEFT_NOT_PROVED,
     "a table whose rows are not the part that the rank holds"},
    {"t@GRAD}, attrs: {start_index: !long &", "t@GRAD}, attrs: {start_index: !long 0", true, WEFT_NOT_PROVED,
     "ranks give it different values"},
};
TABLE_ROWS(proof_serial_shards, rows_of_a_table, lookups);

/* The text of a rank's program, `from` replaced by `to`; % is its coordinate along axis 1, & five times that. */
static void write_rank(int rank, const char *rest, const char *from, const char *to, char *out, size_t nbytes) {
    int dp = rank / 2, mp = rank % 2;
    size_t at = (size_t)snprintf(out, nbytes,
                                 "weft: 1\nrank: %d\nrings: {0: [%d, %d], 1: [%d, %d], 2: [0, 1, 2, 3]}\n"
                                 "meshes:\n- {shape: [2, 2], ids: [0, 1, 2, 3], dims: [dp, mp]}\n",
                                 rank, mp, mp + 2, 2 * dp, 2 * dp + 1);
    size_t nfrom = strlen(from);
    for (const char *p = rest; *p && at + strlen(to) + 2 < nbytes;) {
        const char *piece = p;
        size_t n = 1;
        if (nfrom && strncmp(p, from, nfrom) == 0) piece = to, n = strlen(to);
        p += piece == to ? nfrom : 1;
        for (size_t i = 0; i < n; i++)
            out[at++] = piece[i] == '%' ? (char)('0' + mp) : piece[i] == '&' ? (char)('0' + 5 * mp) : piece[i];
    }
    out[at] = 0;
}

static weft_program *parse(const char *program_text) {
    weft_program *p;
    must(weft_program_parse(context, WEFT_FORM_YAML, program_text, strlen(program_text), NULL, 0, "test", &p));
    return p;
}

static void try_change(const char *serial_program, const char *rank_program, const change *x) {
    weft_program *serial = parse(serial_program), *ranks[RANKS];
    weft_equivalence *e;
    for (int i = 0; i < RANKS; i++) {
        char program_text[16000];
        bool is_changed = !x->one || i == RANKS - 1;
        write_rank(i, rank_program, is_changed ? x->from : "", x->to, program_text, sizeof program_text);
        ranks[i] = parse(program_text);
    }
    must(weft_equivalent_to_serial(serial, (const weft_program *const *)ranks, RANKS, NULL, &e));
    const char *message = "";
    (void)weft_equivalence_finding(e, 0, NULL, &message);
    weft_grade grade = weft_equivalence_grade(e);
    cr_expect_eq(grade, x->grade, "%s -> %s: %s %s", x->from, x->to, weft_grade_name(grade), message);
    if (x->message) cr_expect(any_message(e, x->message), "%s -> %s: %s", x->from, x->to, message);
    weft_equivalence_destroy(e);
    for (int i = 0; i < RANKS; i++) weft_program_destroy(ranks[i]);
    weft_program_destroy(serial);
}

TABLE_TEST(size_t *row, proof_serial_shards, one_change) {
    try_change(serial_text, rank_text, &changes[*row]);
}

TABLE_TEST(size_t *row, proof_serial_shards, rows_of_a_table) {
    try_change(serial_lookup, rank_lookup, &lookups[*row]);
}

/* --- recorded programs -------------------------------------------------------------------------------------------- */

/* All ranks of a case; false: it is not there. */
static bool load(const char *folder, const char *suffix, weft_program **serial, weft_program **ranks) {
    bool there = true;
    for (int i = -1; i < RANKS; i++) {
        char relative[200], path[512];
        weft_program **to = i < 0 ? serial : &ranks[i];
        snprintf(relative, sizeof relative, i < 0 ? "%s/serial.pdmodel" : "%s/rank%d%s.pdmodel", folder, i, suffix);
        there = there && fixture_path(path, sizeof path, relative);
        if (there) must(weft_program_load(context, path, NULL, to));
    }
    return there;
}

static void unload(weft_program *serial, weft_program **ranks) {
    for (int i = 0; i < RANKS; i++) weft_program_destroy(ranks[i]);
    weft_program_destroy(serial);
}

static weft_grade grade_of(const weft_program *serial, weft_program *const *ranks) {
    weft_equivalence *e;
    must(weft_equivalent_to_serial(serial, (const weft_program *const *)ranks, RANKS, NULL, &e));
    weft_grade grade = weft_equivalence_grade(e);
    weft_equivalence_destroy(e);
    return grade;
}

/* Its batches and sequences are cut, gathered for a loss over all, and its gradients are right without their factors.
 */
Test(proof_serial_shards, sequences) {
    weft_program *serial = NULL, *ranks[RANKS] = {NULL};
    bool there = load("paddle26/mlp_dp2_sp2_tworings", "", &serial, ranks);
    for (int i = 0; i < RANKS && there; i++) {
        for (weft_op *op = weft_block_first_op(ranks[i]->blocks[0]), *next; op; op = next) {
            next = op->next;
            if (op_is(op, "scale")) weft_op_remove(op);
        }
    }
    if (there) cr_expect_eq(grade_of(serial, ranks), WEFT_SAME_REALS);
    weft_op *slice = there ? weft_block_first_op(ranks[1]->blocks[0]) : NULL;
    while (slice && !op_is(slice, "slice")) slice = slice->next;
    if (slice) { /* the part of rank 0 */
        must(weft_op_set_attr_ints(slice, "starts", 3, (const int64_t[]){0, 0, 0}));
        must(weft_op_set_attr_ints(slice, "ends", 3, (const int64_t[]){4, 4, 10}));
        cr_expect_eq(grade_of(serial, ranks), WEFT_NOT_PROVED);
    }
    unload(serial, ranks);
    if (!there) cr_skip("no fixture");
}

static bool scales_in_place(const weft_op *op) {
    return weft_op_input(op, "X", 0) == weft_op_output(op, "Out", 0);
}

/* Without any one of its sums or factors, and with any of them twice, it is not proved. */
Test(proof_serial_shards, each_sum_counts) {
    weft_program *serial = NULL, *ranks[RANKS] = {NULL};
    bool there = load("paddle26/gpt_tiny_dp2_mp2", "", &serial, ranks);
    size_t nops = there ? weft_block_nops(ranks[0]->blocks[0]) : 0, step = 7, tried = 0;
    for (size_t at = 0; at < nops; at += step) {
        weft_program *changed[RANKS];
        bool has = false;
        for (int i = 0; i < RANKS; i++) {
            must(weft_program_clone(ranks[i], &changed[i]));
            weft_op *op = weft_block_first_op(changed[i]->blocks[0]), *again;
            for (size_t k = 0; k < at; k++) op = op->next;
            has = op_is(op, "c_allreduce_sum") || (op_is(op, "scale") && scales_in_place(op));
            if (!has) continue;
            if (at % 2) {
                weft_op_remove(op);
            } else {
                must(op_clone(op, &again));
                weft_block_insert_after(changed[i]->blocks[0], op, again);
            }
        }
        tried += has;
        if (has) cr_expect_eq(grade_of(serial, changed), WEFT_NOT_PROVED, "op %zu", at);
        for (int i = 0; i < RANKS; i++) weft_program_destroy(changed[i]);
    }
    cr_expect(!there || tried >= 8);
    unload(serial, ranks);
    if (!there) cr_skip("no fixture");
}
