/* Ranks hold parts, move them (transposes, other extents) and communicate. What is proved of them is what comes out
 * when they run, and what comes out equal is proved: every way to turn a value before and after a collective, and to
 * cut it before and after. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

static weft_context *context;

/* x of 3 dimensions is cut along `from` and turned by `before`. It goes through the collective, which makes one more
 * dimension of n parts in front. Then it is turned by `after`, and is y, cut along `to` (-1: not at all). */
typedef struct move {
    const char *type; /* of the collective */
    int nranks, from, before, after, to;
} move;

static const int turns3[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

/* Permutation number i of 0 .. 3. */
static void turn_of(int i, int out[4]) {
    int left[4] = {0, 1, 2, 3};
    for (int d = 0, n = 4; d < 4; d++, n--) {
        out[d] = left[i % n];
        memmove(left + i % n, left + i % n + 1, sizeof *left * (size_t)(n - i % n - 1));
        i /= n;
    }
}

static void put_dims(trial *t, char *b, const char *var, const int *dims, int n, const char *more) {
    put(t, b, "    %s: {float32: [", var);
    for (int d = 0; d < n; d++) put(t, b, "%s%d", d ? ", " : "", dims[d]);
    put(t, b, "]%s}\n", more);
}

static void put_state(trial *t, char *b, const char *var, int n, int cut, bool placed) {
    int dims[3] = {4, 4, 4};
    char more[120];
    snprintf(more, sizeof more, ", persistable: true, dist: {mesh: 0, dims_mapping: [%d, %d, %d]}", -(cut != 0),
             -(cut != 1), -(cut != 2));
    if (cut >= 0) dims[cut] /= n;
    put_dims(t, b, var, dims, 3, placed && cut >= 0 ? more : ", persistable: true");
}

static void put_turn(trial *t, char *b, const char *from, const char *to, const int *order, int n) {
    put(t, b, "  - {transpose2: {X: %s}, out: {Out: %s}, attrs: {axis: [", from, to);
    for (int d = 0; d < n; d++) put(t, b, "%s%d", d ? ", " : "", order[d]);
    put(t, b, "]}}\n");
}

static void put_shape(trial *t, char *b, const char *from, const char *to, const int *dims, int n) {
    put(t, b, "  - {reshape2: {X: %s}, out: {Out: %s}, attrs: {shape: [", from, to);
    for (int d = 0; d < n; d++) put(t, b, "%s%d", d ? ", " : "", dims[d]);
    put(t, b, "]}}\n");
}

/* The collective makes dimension 0 so many times as long, for n ranks; its lists have an argument a rank. */
typedef enum kind { EXCHANGES, GATHERS, SCATTERS } kind;

static kind kind_of(const char *type) {
    return strstr(type, "gather") ? GATHERS : strstr(type, "scatter") ? SCATTERS : EXCHANGES;
}

static void put_list(trial *t, char *b, const char *var, int n) {
    for (int i = 0; i < n; i++) put(t, b, "%s%s%d", i ? ", " : "", var, i);
}

static void put_parts(trial *t, char *b, const char *var, const int *piece, int n) {
    for (int i = 0; i < n; i++) put_dims(t, b, (char[]){var[0], (char)('0' + i), 0}, piece, 3, "");
}

/* From a to c. */
static void put_collective(trial *t, char *b, const move *m, int rows) {
    int n = m->nranks, given = kind_of(m->type) == GATHERS ? 1 : n, got = kind_of(m->type) == SCATTERS ? 1 : n;
    if (!strstr(m->type, "_list")) {
        bool era3 = strcmp(m->type, "all_to_all") == 0;
        put(t, b, "  - {%s: {%s: a}, out: {%s: c}, attrs: {ring_id: 0, nranks: %d", m->type, era3 ? "x" : "X",
            era3 ? "out" : "Out", n);
        for (int i = 0; era3 && i < 2 * n; i++)
            put(t, b, "%s%d", i == 0 ? ", in_splits: !longs [" : i == n ? "], out_splits: !longs [" : ", ", rows);
        put(t, b, "%s}}\n", era3 ? "]" : "");
        return;
    }
    if (given > 1) {
        put(t, b, "  - {split: {X: a}, out: {Out: [");
        put_list(t, b, "a", n);
        put(t, b, "]}, attrs: {axis: 0, num: %d}}\n", n);
    }
    put(t, b, "  - {%s: {x: [", m->type);
    put_list(t, b, "a", given);
    put(t, b, "]}, out: {out: [");
    put_list(t, b, "c", got);
    put(t, b, "]}, attrs: {ring_id: 0}}\n  - {concat: {X: [");
    put_list(t, b, "c", got);
    put(t, b, "]}, out: {Out: c}, attrs: {axis: 0}}\n");
}

static void put_head(trial *t, char *b, int n, int rank) {
    put(t, b, "weft: 1\nrank: %d\nrings: {0: [", rank);
    put_list(t, b, "", n);
    put(t, b, "]}\nmeshes:\n- {shape: [%d], ids: [", n);
    put_list(t, b, "", n);
    put(t, b, "], dims: [mp]}\nblocks:\n- idx: 0\n  vars:\n");
}

/* False: extents do not fit. */
static bool write_rank(trial *t, const move *m, int rank) {
    char *b = t->ranks[rank];
    int own[3] = {4, 4, 4}, turned[3], piece[3], four[4], last[4], to[3] = {4, 4, 4}, order[4], n = m->nranks;
    kind of = kind_of(m->type);
    if (m->from >= 0) own[m->from] /= n;
    if (m->to >= 0) to[m->to] /= n;
    for (int d = 0; d < 3; d++) turned[d] = piece[d] = own[turns3[m->before][d]];
    if (of != GATHERS && turned[0] % n) return false;
    if (of != GATHERS) piece[0] /= n;
    turn_of(m->after, order);
    four[0] = of == SCATTERS ? 1 : n;
    memcpy(four + 1, piece, sizeof piece);
    for (int d = 0; d < 4; d++) last[d] = four[order[d]];
    t->at = 0;
    put_head(t, b, n, rank);
    put_state(t, b, "x", n, m->from, true);
    put_state(t, b, "y", n, m->to, true);
    put_dims(t, b, "a", turned, 3, "");
    put_parts(t, b, "a", piece, n);
    put_parts(t, b, "c", piece, n);
    int made[3] = {four[0] * piece[0], piece[1], piece[2]};
    put_dims(t, b, "c", made, 3, "");
    put_dims(t, b, "d", four, 4, "");
    put_dims(t, b, "e", last, 4, "");
    put_dims(t, b, "f", to, 3, "");
    put(t, b, "  ops:\n");
    put_turn(t, b, "x", of == GATHERS && strstr(m->type, "_list") ? "a0" : "a", turns3[m->before], 3);
    put_collective(t, b, m, piece[0]);
    put_shape(t, b, "c", "d", four, 4);
    put_turn(t, b, "d", "e", order, 4);
    put_shape(t, b, "e", "f", to, 3);
    put(t, b, "  - {assign: {X: f}, out: {Out: y}}\n");
    return true;
}

/* The serial program turns x in one of six ways, of which at most one is what the ranks do. */
static void try_move(const move *m, bool fails, int *nproved) {
    static trial t;
    t.nranks = m->nranks;
    for (int r = 0; r < m->nranks; r++)
        if (!write_rank(&t, m, r)) return;
    for (int i = 0; i < 6; i++) {
        char what[100], message[100] = "";
        t.at = 0;
        put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n");
        put_state(&t, t.serial, "x", 1, -1, false);
        put_state(&t, t.serial, "y", 1, -1, false);
        put(&t, t.serial, "  ops:\n");
        if (i)
            put_turn(&t, t.serial, "x", "y", turns3[i], 3);
        else
            put(&t, t.serial, "  - {assign: {X: x}, out: {Out: y}}\n");
        snprintf(what, sizeof what, "%d ranks: %s from %d, turned by %d and %d, to %d as %d", m->nranks, m->type,
                 m->from, m->before, m->after, m->to, i);
        trial_run(context, &t);
        check(t.proved == t.equal, "%s: %s: %s", what, t.equal ? "equal, and not proved" : "proved, and not equal",
              t.message);
        if (fails && t.proved) check(trial_fail_each(&t, message, sizeof message), "%s: %s", what, message);
        fails = fails && !t.proved;
        *nproved += t.proved;
    }
}

/* Every `step`-th way, of which `all` are equal if all are tried. */
static void try_moves(const char *type, int nranks, int step, int all) {
    int nfrom = kind_of(type) == SCATTERS ? 1 : 3, nto = kind_of(type) == GATHERS ? 1 : 3, nproved = 0;
    for (int i = 0; i < nfrom * nto * 6 * 24; i += step) {
        move m = {type, nranks, i / 24 / 6 % nfrom, i / 24 % 6, i % 24, i / 24 / 6 / nfrom};
        if (nfrom == 1) m.from = -1;
        if (nto == 1) m.to = -1;
        try_move(&m, nproved == 0, &nproved);
    }
    check(step > 1 || nproved == all, "%s of %d ranks: %d are proved, expected %d of all", type, nranks, nproved, all);
}

/* --- attention over a sequence of which each rank has a part ------------------------------------------------------ */

/* Ranks exchange parts of the sequence for heads, and back, in both directions of the step. `n` ranks, 1: the serial
 * program. */
typedef struct attention {
    trial *t;
    char *b, ops[8000];
    size_t ops_at;
    int n;
} attention;

enum { SEQUENCE = 4, BATCH = 2, HIDDEN = 4, HEADS = 2 };

static void put_op(attention *a, const char *format, ...) WEFT_PRINTF(2, 3);
static void put_op(attention *a, const char *format, ...) {
    va_list args;
    va_start(args, format);
    a->ops_at += (size_t)vsnprintf(a->ops + a->ops_at, sizeof a->ops - a->ops_at, format, args);
    va_end(args);
    if (a->ops_at >= sizeof a->ops) abort();
}

/* A var of 3 dimensions, or of 4. */
static void put_local(attention *a, const char *var, int d0, int d1, int d2, int d3) {
    int dims[4] = {d0, d1, d2, d3};
    put_dims(a->t, a->b, var, dims, d3 ? 4 : 3, "");
}

/* Rows of the sequence, all heads, become all rows and the rank's heads. */
static void put_to_heads(attention *a, const char *from, const char *to) {
    int n = a->n, rows = SEQUENCE / n, part = HIDDEN / n;
    char v[3][40];
    put_local(a, to, SEQUENCE, BATCH, part, 0);
    if (n == 1) {
        put_op(a, "  - {assign: {X: %s}, out: {Out: %s}}\n", from, to);
        return;
    }
    for (int i = 0; i < 3; i++) snprintf(v[i], sizeof v[i], "%s_%d", to, i);
    put_local(a, v[0], rows, BATCH, n, part);
    put_local(a, v[1], n, rows, BATCH, part);
    put_local(a, v[2], n, rows, BATCH, part);
    put_op(a, "  - {reshape2: {X: %s}, out: {Out: %s}, attrs: {shape: [%d, %d, %d, %d]}}\n", from, v[0], rows, BATCH, n,
           part);
    put_op(a, "  - {transpose2: {X: %s}, out: {Out: %s}, attrs: {axis: [2, 0, 1, 3]}}\n", v[0], v[1]);
    put_op(a, "  - {alltoall: {X: %s}, out: {Out: %s}, attrs: {ring_id: 0}}\n", v[1], v[2]);
    put_op(a, "  - {reshape2: {X: %s}, out: {Out: %s}, attrs: {shape: [%d, %d, %d]}}\n", v[2], to, SEQUENCE, BATCH,
           part);
}

static void put_to_rows(attention *a, const char *from, const char *to) {
    int n = a->n, rows = SEQUENCE / n, part = HIDDEN / n;
    char v[3][40];
    put_local(a, to, rows, BATCH, HIDDEN, 0);
    if (n == 1) {
        put_op(a, "  - {assign: {X: %s}, out: {Out: %s}}\n", from, to);
        return;
    }
    for (int i = 0; i < 3; i++) snprintf(v[i], sizeof v[i], "%s_%d", to, i);
    put_local(a, v[0], n, rows, BATCH, part);
    put_local(a, v[1], n, rows, BATCH, part);
    put_local(a, v[2], rows, BATCH, n, part);
    put_op(a, "  - {reshape2: {X: %s}, out: {Out: %s}, attrs: {shape: [%d, %d, %d, %d]}}\n", from, v[0], n, rows, BATCH,
           part);
    put_op(a, "  - {alltoall: {X: %s}, out: {Out: %s}, attrs: {ring_id: 0}}\n", v[0], v[1]);
    put_op(a, "  - {transpose2: {X: %s}, out: {Out: %s}, attrs: {axis: [1, 2, 0, 3]}}\n", v[1], v[2]);
    put_op(a, "  - {reshape2: {X: %s}, out: {Out: %s}, attrs: {shape: [%d, %d, %d]}}\n", v[2], to, rows, BATCH, HIDDEN);
}

static void put_forward(attention *a) {
    int rows = SEQUENCE / a->n, part = HIDDEN / a->n, heads = HEADS / a->n, each = HIDDEN / HEADS;
    put_local(a, "q", rows, BATCH, HIDDEN, 0);
    put_local(a, "h", SEQUENCE, BATCH, heads, each);
    put_local(a, "r", BATCH, heads, SEQUENCE, each);
    put_local(a, "s", BATCH, heads, SEQUENCE, SEQUENCE);
    put_local(a, "p", BATCH, heads, SEQUENCE, SEQUENCE);
    put_local(a, "c", BATCH, heads, SEQUENCE, each);
    put_local(a, "ct", SEQUENCE, BATCH, heads, each);
    put_local(a, "cm", SEQUENCE, BATCH, part, 0);
    put_local(a, "z", rows, BATCH, HIDDEN, 0);
    put_local(a, "t", rows, BATCH, HIDDEN, 0);
    put_op(a, "  - {matmul_v2: {X: x, \"Y\": w}, out: {Out: q}}\n");
    put_to_heads(a, "q", "qe");
    put_op(a, "  - {reshape2: {X: qe}, out: {Out: h}, attrs: {shape: [%d, %d, %d, %d]}}\n", SEQUENCE, BATCH, heads,
           each);
    put_op(a, "  - {transpose2: {X: h}, out: {Out: r}, attrs: {axis: [1, 2, 0, 3]}}\n");
    put_op(a, "  - {matmul_v2: {X: r, \"Y\": r}, out: {Out: s}, attrs: {trans_y: true}}\n");
    put_op(a, "  - {softmax: {X: s}, out: {Out: p}, attrs: {axis: -1}}\n");
    put_op(a, "  - {matmul_v2: {X: p, \"Y\": r}, out: {Out: c}}\n");
    put_op(a, "  - {transpose2: {X: c}, out: {Out: ct}, attrs: {axis: [2, 0, 1, 3]}}\n");
    put_op(a, "  - {reshape2: {X: ct}, out: {Out: cm}, attrs: {shape: [%d, %d, %d]}}\n", SEQUENCE, BATCH, part);
    put_to_rows(a, "cm", "y");
    put_op(a, "  - {matmul_v2: {X: y, \"Y\": o}, out: {Out: z}}\n");
    put_op(a, "  - {tanh: {X: z}, out: {Out: t}}\n");
    put_op(a, "  - {mean: {X: t}, out: {Out: loss}}\n");
}

static void put_backward(attention *a) {
    int rows = SEQUENCE / a->n, part = HIDDEN / a->n, heads = HEADS / a->n, each = HIDDEN / HEADS;
    put_local(a, "dz", rows, BATCH, HIDDEN, 0);
    put_local(a, "dt", rows, BATCH, HIDDEN, 0);
    put_local(a, "dy", rows, BATCH, HIDDEN, 0);
    put_local(a, "dct", SEQUENCE, BATCH, heads, each);
    for (const char *c = "crijk"; *c; c++) put_local(a, (char[]){'d', *c, 0}, BATCH, heads, SEQUENCE, each);
    for (const char *c = "sp"; *c; c++) put_local(a, (char[]){'d', *c, 0}, BATCH, heads, SEQUENCE, SEQUENCE);
    put_local(a, "dh", SEQUENCE, BATCH, heads, each);
    put_local(a, "dqe", SEQUENCE, BATCH, part, 0);
    put_op(a, "  - {fill_constant: {}, out: {Out: dloss}, attrs: {dtype: 5, shape: !longs [], value: 1.0}}\n");
    put_op(a, "  - {mean_grad: {X: t, Out@GRAD: dloss}, out: {X@GRAD: dt}}\n");
    put_op(a, "  - {tanh_grad: {Out: t, Out@GRAD: dt}, out: {X@GRAD: dz}}\n");
    put_op(a, "  - {matmul_v2_grad: {X: y, \"Y\": o, Out@GRAD: dz}, out: {X@GRAD: dy, Y@GRAD: do}}\n");
    put_to_heads(a, "dy", "dcm");
    put_op(a, "  - {reshape2: {X: dcm}, out: {Out: dct}, attrs: {shape: [%d, %d, %d, %d]}}\n", SEQUENCE, BATCH, heads,
           each);
    put_op(a, "  - {transpose2_grad: {Out@GRAD: dct}, out: {X@GRAD: dc}, attrs: {axis: [2, 0, 1, 3]}}\n");
    put_op(a, "  - {matmul_v2_grad: {X: p, \"Y\": r, Out@GRAD: dc}, out: {X@GRAD: dp, Y@GRAD: di}}\n");
    put_op(a, "  - {softmax_grad: {Out: p, Out@GRAD: dp}, out: {X@GRAD: ds}, attrs: {axis: -1}}\n");
    put_op(a, "  - {matmul_v2_grad: {X: r, \"Y\": r, Out@GRAD: ds}, out: {X@GRAD: dj, Y@GRAD: dk}, attrs: {trans_y: "
              "true}}\n");
    put_op(a, "  - {sum: {X: [di, dj, dk]}, out: {Out: dr}}\n");
    put_op(a, "  - {transpose2_grad: {Out@GRAD: dr}, out: {X@GRAD: dh}, attrs: {axis: [1, 2, 0, 3]}}\n");
    put_op(a, "  - {reshape2: {X: dh}, out: {Out: dqe}, attrs: {shape: [%d, %d, %d]}}\n", SEQUENCE, BATCH, part);
    put_to_rows(a, "dqe", "dq");
    put_op(a, "  - {matmul_v2_grad: {X: x, \"Y\": w, Out@GRAD: dq}, out: {Y@GRAD: dw}}\n");
}

static void write_attention(trial *t, char *b, int n, int rank) {
    attention a = {.t = t, .b = b, .n = n};
    t->at = 0;
    put(t, b, "weft: 1\n");
    if (n > 1) put(t, b, "rank: %d\nrings: {0: [0, 1]}\nmeshes:\n- {shape: [2], ids: [0, 1], dims: [sp]}\n", rank);
    put(t, b, "blocks:\n- idx: 0\n  vars:\n    x: {float32: [%d, %d, %d], persistable: true%s}\n", SEQUENCE / n, BATCH,
        HIDDEN, n > 1 ? ", dist: {mesh: 0, dims_mapping: [0, -1, -1]}" : "");
    for (const char *c = "wo"; *c; c++)
        put(t, b, "    %c: {float32: [%d, %d], persistable: true}\n    d%c: {float32: [%d, %d]}\n", *c, HIDDEN, HIDDEN,
            *c, HIDDEN, HIDDEN);
    put(t, b, "    rate: {float32: [1], persistable: true}\n    loss: {float32: []}\n    dloss: {float32: []}\n");
    put_forward(&a);
    put_backward(&a);
    for (const char *c = "wo"; *c; c++) {
        if (n > 1) put_op(&a, "  - {c_allreduce_avg: {X: d%c}, out: {Out: d%c}, attrs: {ring_id: 0}}\n", *c, *c);
        put_op(&a, "  - {sgd: {Param: %c, LearningRate: rate, Grad: d%c}, out: {ParamOut: %c}}\n", *c, *c, *c);
    }
    put(t, b, "  ops:\n%s", a.ops);
}

/* Replaces words of the ranks' program, of all or of the last rank's only. */
static const struct {
    const char *from, *to;
    bool one, equal;
} attentions[] = {
    {"", "", false, true},
    {"alltoall: {X: qe_1}, out: {Out: qe_2}, attrs: {ring_id: 0}", "assign: {X: qe_1}, out: {Out: qe_2}", false, false},
    {"alltoall: {X: y_0}, out: {Out: y_1}, attrs: {ring_id: 0}", "assign: {X: y_0}, out: {Out: y_1}", false, false},
    {"alltoall: {X: dcm_1}, out: {Out: dcm_2}, attrs: {ring_id: 0}", "assign: {X: dcm_1}, out: {Out: dcm_2}", false,
     false},
    {"alltoall: {X: dq_0}, out: {Out: dq_1}, attrs: {ring_id: 0}", "assign: {X: dq_0}, out: {Out: dq_1}", false, false},
    {"Out: qe_0}, attrs: {shape: [2, 2, 2, 2]}}\n  - {transpose2: {X: qe_0}, out: {Out: qe_1}, attrs: {axis: [2, 0, 1, "
     "3]",
     "Out: qe_0}, attrs: {shape: [2, 2, 2, 2]}}\n  - {transpose2: {X: qe_0}, out: {Out: qe_1}, attrs: {axis: [3, 0, 1, "
     "2]",
     false, false},
    {"Out: y_2}, attrs: {axis: [1, 2, 0, 3]", "Out: y_2}, attrs: {axis: [1, 2, 3, 0]", false, false},
    {"Out: dq_2}, attrs: {axis: [1, 2, 0, 3]", "Out: dq_2}, attrs: {axis: [2, 1, 0, 3]", false, false},
    {"Out: y_2}, attrs: {axis: [1, 2, 0, 3]", "Out: y_2}, attrs: {axis: [1, 2, 3, 0]", true, false},
    {"c_allreduce_avg: {X: dw}", "assign: {X: dw}", false, false},
    {"{Out@GRAD: dct}, out: {X@GRAD: dc}, attrs: {axis: [2, 0, 1, 3]",
     "{Out@GRAD: dct}, out: {X@GRAD: dc}, attrs: {axis: [1, 2, 0, 3]", false, false},
};

static void try_attention(size_t i) {
    static trial t;
    char what[400], message[100] = "";
    bool changed = false;
    t.nranks = 2;
    t.tolerance = 1e-5;
    for (int r = 0; r < 2; r++) {
        write_attention(&t, t.ranks[r], 2, r);
        if (!attentions[i].one || r == 1) changed |= trial_replace(t.ranks[r], attentions[i].from, attentions[i].to);
    }
    write_attention(&t, t.serial, 1, 0);
    snprintf(what, sizeof what, "attention: %s -> %s%s", attentions[i].from, attentions[i].to,
             attentions[i].one ? " on one rank" : "");
    check(changed, "%s: there is no such text", what);
    trial_run(context, &t);
    check(t.equal == attentions[i].equal, "%s: expected it to be %s", what,
          attentions[i].equal ? "equal" : "different");
    check(t.proved == attentions[i].equal, "%s: expected it to be %s: %s", what,
          attentions[i].equal ? "proved" : "refused", t.message);
    if (i == 0) check(trial_fail_each(&t, message, sizeof message), "%s: %s", what, message);
}

int main(void) {
    int step = getenv("WEFT_LONG_TESTS") ? 1 : getenv("WEFT_SANITIZED") ? 131 : 37;
    must(weft_context_create(NULL, &context));
    try_moves("alltoall", 2, step, 72);
    try_moves("alltoall", 4, step, 864);
    try_moves("c_allgather", 2, step, 108);
    try_moves("all_to_all", 2, step, 72);
    try_moves("all_to_all_list", 2, step, 72);
    try_moves("all_to_all_list", 4, step, 864);
    try_moves("all_gather_list", 2, step, 108);
    try_moves("scatter_list", 2, step, 144);
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++) try_attention(i);
    weft_context_destroy(context);
    return report_checks();
}
