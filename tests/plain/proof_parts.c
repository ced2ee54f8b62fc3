/* What is proved of ranks that hold parts, and communicate, is what comes out when they run: programs made by choice of
 * dimensions, rings and factors, right and wrong ones, each judged against the serial program and run beside it. */
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

static weft_context *context;

static void try(trial *t, const char *what) {
    trial_run(context, t);
    check(t->equal || !t->proved, "%s: proved, and not so when it runs", what);
}

static void fail_each(const trial *t, const char *what) {
    char message[100] = "";
    check(trial_fail_each(t, message, sizeof message), "%s: %s", what, message);
}

/* --- all-to-all --------------------------------------------------------------------------------------------------- */

/* A value of 3 dimensions that is cut along `from`. It is split along `before` (-1: not) into rows, exchanged, and
 * what comes is put together along `after`; it should be cut along `to` then. */
typedef struct exchange {
    int from, before, after, to;
    bool turned; /* the ring lists its ranks the other way round */
    int nranks;
} exchange;

static void put_var(trial *t, char *b, const char *var, const int64_t *dims, const char *more) {
    put(t, b, "    %s: {float32: [%d, %d, %d]%s}\n", var, (int)dims[0], (int)dims[1], (int)dims[2], more);
}

static void put_placed(trial *t, char *b, const char *var, const int64_t *dims, int cut) {
    char more[200];
    snprintf(more, sizeof more, ", persistable: true, dist: {mesh: 0, dims_mapping: [%d, %d, %d]}", -(cut != 0),
             -(cut != 1), -(cut != 2));
    put_var(t, b, var, dims, more);
}

static void put_names(trial *t, char *b, const char *var, int n) {
    for (int i = 0; i < n; i++) put(t, b, "%s%s%d", i ? ", " : "", var, i);
}

/* Splits `from` along one dimension and puts the parts together along another. Extents become the result's. */
static void put_turn(trial *t, char *b, char *ops, size_t *ops_at, const exchange *e, const char *from, const char *to,
                     int cut, int join, int64_t *dims) {
    dims[cut] /= e->nranks;
    for (int i = 0; i < e->nranks; i++) {
        char var[32];
        snprintf(var, sizeof var, "%s%d", from, i);
        put_var(t, b, var, dims, "");
    }
    dims[join] *= e->nranks;
    put_var(t, b, to, dims, "");
    size_t at = t->at;
    t->at = *ops_at;
    put(t, ops, "  - {split: {X: %s}, out: {Out: [", from);
    put_names(t, ops, from, e->nranks);
    put(t, ops, "]}, attrs: {axis: %d, num: %d}}\n  - {concat: {X: [", cut, e->nranks);
    put_names(t, ops, from, e->nranks);
    put(t, ops, "]}, out: {Out: %s}, attrs: {axis: %d}}\n", to, join);
    *ops_at = t->at;
    t->at = at;
}

/* False: extents do not fit. */
static bool write_exchange_rank(trial *t, const exchange *e, int rank, int64_t extent) {
    char *b = t->ranks[rank], ops[2000];
    size_t ops_at = 0;
    int64_t dims[3] = {extent, extent, extent}, want[3] = {extent, extent, extent};
    const char *have = "x";
    t->at = 0;
    put(t, b, "weft: 1\nrank: %d\nrings: {0: [", rank);
    for (int i = 0; i < e->nranks; i++) put(t, b, "%s%d", i ? ", " : "", e->turned ? e->nranks - 1 - i : i);
    put(t, b, "]}\nmeshes:\n- {shape: [%d], ids: [", e->nranks);
    for (int i = 0; i < e->nranks; i++) put(t, b, "%s%d", i ? ", " : "", i);
    put(t, b, "], dims: [mp]}\nblocks:\n- idx: 0\n  vars:\n");
    dims[e->from] /= e->nranks;
    want[e->to] /= e->nranks;
    put_placed(t, b, "x", dims, e->from);
    put_placed(t, b, "y", want, e->to);
    if (e->before >= 0) {
        if (dims[e->before] % e->nranks) return false;
        put_turn(t, b, ops, &ops_at, e, "x", "s", e->before, 0, dims);
        have = "s";
    }
    if (dims[0] % e->nranks) return false;
    put_var(t, b, "r", dims, "");
    const char *type = e->nranks == 2 ? "alltoall: {X: " : "all_to_all: {x: ", *out = e->nranks == 2 ? "Out" : "out";
    ops_at += (size_t)snprintf(ops + ops_at, sizeof ops - ops_at, "  - {%s%s}, out: {%s: r}, attrs: {ring_id: 0}}\n",
                               type, have, out);
    have = "r";
    if (e->after >= 0) {
        put_turn(t, b, ops, &ops_at, e, "r", "z", 0, e->after, dims);
        have = "z";
    }
    put(t, b, "  ops:\n%s  - {assign: {X: %s}, out: {Out: y}}\n", ops, have);
    return memcmp(dims, want, sizeof dims) == 0;
}

static void try_exchange(const exchange *e, int *nproved) {
    static trial t;
    char what[100];
    const int64_t dims[3] = {4, 4, 4};
    t.nranks = e->nranks;
    for (int r = 0; r < e->nranks; r++)
        if (!write_exchange_rank(&t, e, r, 4)) return;
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n");
    put_var(&t, t.serial, "x", dims, ", persistable: true");
    put_var(&t, t.serial, "y", dims, ", persistable: true");
    put(&t, t.serial, "  ops:\n  - {assign: {X: x}, out: {Out: y}}\n");
    snprintf(what, sizeof what, "%d ranks: exchange from %d, %d, %d to %d%s", e->nranks, e->from, e->before, e->after,
             e->to, e->turned ? ", turned" : "");
    try(&t, what);
    check(t.proved || !t.equal, "%s: equal, and not proved: %s", what, t.message);
    if (t.proved && e->nranks == 2 && e->before > 0 && e->after > 0) fail_each(&t, what);
    *nproved += t.proved;
}

/* From each dimension to each other; where rows are split and put together again as they were, once more. */
static void exchanges(int nranks, int expected) {
    int nproved = 0;
    for (int i = 0; i < 3 * 4 * 4 * 3 * 2; i++) {
        exchange e = {i % 3, i / 3 % 4 - 1, i / 12 % 4 - 1, i / 48 % 3, i / 144, nranks};
        try_exchange(&e, &nproved);
    }
    check(nproved == expected, "%d exchanges between %d ranks were proved, expected %d", nproved, nranks, expected);
}

/* --- the norm of all gradients ------------------------------------------------------------------------------------ */

/* How ranks come by the sum of squares of u, of which each has a part, and b, which all have: a rank adds up what its
 * letters say, and sums it over ring 0 where they end in a "+". */
typedef struct norm {
    const char *ranks[2]; /* u, b; h, l: half of b's, of u's; 0: nothing */
    const char *after;    /* what all add to the sum */
    bool equal;
} norm;

static const norm norms[] = {
    {{"u+", "u+"}, "b", true},   {{"ub+", "u+"}, "", true},    {{"u+", "ub+"}, "", true},   {{"bu+", "u+"}, "", true},
    {{"uh+", "uh+"}, "", true},  {{"uh+", "hu+"}, "", true},   {{"ul+", "u+"}, "b", false}, {{"ub+", "ub+"}, "", false},
    {{"ub+", "0+"}, "", false},  {{"u+", "b+"}, "", false},    {{"u+", "u+"}, "", false},   {{"u+", "u+"}, "bb", false},
    {{"uub+", "u+"}, "", false}, {{"uub+", "uu+"}, "", false}, {{"ub", "ub"}, "", false},   {{"b+", "0+"}, "u", false},
    {{"b+", "b+"}, "", false},
};

static void put_sum(trial *t, char *b, const char *letters, const char *out) {
    int n = 0;
    put(t, b, "  - {sum: {X: [");
    for (const char *c = letters; *c && *c != '+'; c++) put(t, b, "%ss%c", n++ ? ", " : "", *c);
    put(t, b, "]}, out: {Out: %s}}\n", out);
}

static void put_norm(trial *t, char *b, const char *columns, const char *placed) {
    static const char *const names[] = {"su", "sb", "sh", "sl", "s0", "part", "total", "root", "most", "by"};
    put(t, b, "blocks:\n- idx: 0\n  vars:\n    u: {float32: [3, %s], persistable: true%s}\n", columns, placed);
    put(t, b, "    gu: {float32: [3, %s], persistable: true%s}\n    b: {float32: [5], persistable: true}\n", columns,
        placed);
    put(t, b, "    gb: {float32: [5], persistable: true}\n    limit: {float32: [1], persistable: true}\n");
    put(t, b, "    rate: {float32: [1], persistable: true}\n    du: {float32: [3, %s]}\n", columns);
    put(t, b, "    db: {float32: [5]}\n");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put(t, b, "    %s: {float32: [1]}\n", names[i]);
    put(t, b, "  ops:\n  - {squared_l2_norm: {X: gu}, out: {Out: su}}\n");
    put(t, b, "  - {squared_l2_norm: {X: gb}, out: {Out: sb}}\n");
}

/* The square root, what it makes of gradients, and a step. */
static void put_clip(trial *t, char *b) {
    put(t, b, "  - {sqrt: {X: total}, out: {Out: root}}\n");
    put(t, b, "  - {elementwise_max: {X: root, \"Y\": limit}, out: {Out: most}, attrs: {axis: -1}}\n");
    put(t, b, "  - {elementwise_div: {X: limit, \"Y\": most}, out: {Out: by}, attrs: {axis: -1}}\n");
    for (const char *c = "ub"; *c; c++) {
        put(t, b, "  - {elementwise_mul: {X: g%c, \"Y\": by}, out: {Out: d%c}, attrs: {axis: -1}}\n", *c, *c);
        put(t, b, "  - {sgd: {Param: %c, LearningRate: rate, Grad: d%c}, out: {ParamOut: %c}}\n", *c, *c, *c);
    }
}

static void write_norm_rank(trial *t, const norm *n, int rank) {
    char *b = t->ranks[rank];
    const char *letters = n->ranks[rank];
    t->at = 0;
    put(t, b, "weft: 1\nrank: %d\nrings: {0: [0, 1]}\nmeshes:\n- {shape: [2], ids: [0, 1], dims: [mp]}\n", rank);
    put_norm(t, b, "2", ", dist: {mesh: 0, dims_mapping: [-1, 0]}");
    put(t, b, "  - {scale: {X: sb}, out: {Out: sh}, attrs: {scale: 0.5, bias: 0.0}}\n");
    put(t, b, "  - {scale: {X: su}, out: {Out: sl}, attrs: {scale: 0.5, bias: 0.0}}\n");
    put(t, b, "  - {fill_constant: {}, out: {Out: s0}, attrs: {dtype: 5, shape: !longs [1], value: 0.0}}\n");
    put_sum(t, b, letters, "part");
    if (strchr(letters, '+')) put(t, b, "  - {c_allreduce_sum: {X: part}, out: {Out: part}, attrs: {ring_id: 0}}\n");
    put(t, b, "  - {sum: {X: [part");
    for (const char *c = n->after; *c; c++) put(t, b, ", s%c", *c);
    put(t, b, "]}, out: {Out: total}}\n");
    put_clip(t, b);
}

static void try_norm(const norm *n) {
    static trial t;
    char what[100];
    t.nranks = 2;
    t.tolerance = 1e-5;
    for (int r = 0; r < 2; r++) write_norm_rank(&t, n, r);
    t.at = 0;
    put(&t, t.serial, "weft: 1\n");
    put_norm(&t, t.serial, "4", "");
    put_sum(&t, t.serial, "ub", "total");
    put_clip(&t, t.serial);
    snprintf(what, sizeof what, "norm of %s and %s, %s", n->ranks[0], n->ranks[1], n->after);
    try(&t, what);
    check(t.equal == n->equal, "%s: expected it to be %s", what, n->equal ? "equal" : "different");
    check(t.proved == n->equal, "%s: expected it to be %s: %s", what, n->equal ? "proved" : "refused", t.message);
    if (strcmp(n->ranks[0], "bu+") == 0) fail_each(&t, what);
}

/* --- a loss over classes of which each rank has a part ------------------------------------------------------------ */

/* Replaces words of the ranks' program: of all, or of the last rank's only, or of the serial program too. */
typedef struct loss_change {
    const char *from, *to;
    enum { ALL, ONE, SERIAL_TOO } in;
    bool equal;
} loss_change;

#define SUM(var, ring) "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: " ring "}}\n"
#define HALF(var) "  - {scale: {X: " var "}, out: {Out: " var "}, attrs: {scale: 0.5, bias: 0.0}}\n"

/* Of ranks, in a grid of 2 by 2: rows are cut along axis 0 (ring 0), classes along 1 (ring 1). */
static const loss_change losses[] = {
    {"", "", ALL, true},
    {"Label: i, Loss@GRAD", "Label: ignored, Loss@GRAD", ALL, false},
    {"Logits: y, Label: i}", "Logits: y, Label: ignored}", ALL, false},
    {"Logits: y, Label: i}", "Logits: y, Label: ignored}", ONE, false},
    {"ring_id: 1, rank: 0", "ring_id: 1, rank: 1", ALL, false},
    {"ring_id: 1, rank: 1", "ring_id: 0, rank: 1", ONE, false},
    {"out: {Logits@GRAD: dy}, attrs: {ring_id: 1, rank: 1", "out: {Logits@GRAD: dy}, attrs: {ring_id: 1, rank: 0", ONE,
     false},
    {"out: {Logits@GRAD: dy}, attrs: {ring_id: 1, rank: 1", "out: {Logits@GRAD: dy}, attrs: {ring_id: 1, rank: 0", ALL,
     false},
    {"ignore_index: !long -100", "ignore_index: !long 3", ALL, false},
    {"ignore_index: !long -100", "ignore_index: !long 3", SERIAL_TOO, true},
    {SUM("dx", "1"), "", ALL, false},
    {SUM("dx", "1"), SUM("dx", "0"), ALL, false},
    {SUM("dw", "0") HALF("dw"), "", ALL, false},
    {SUM("dw", "0"), SUM("dw", "1"), ALL, false},
    {"  - {mean:", SUM("each", "1") "  - {mean:", ALL, false},
    {"  - {c_softmax_with_cross_entropy:", SUM("y", "1") "  - {c_softmax_with_cross_entropy:", ALL, false},
    {"  - {c_softmax_with_cross_entropy:", HALF("y") "  - {c_softmax_with_cross_entropy:", ONE, false},
};

static void put_loss(trial *t, char *b, const char *rows, const char *columns, const char *by_rows,
                     const char *by_columns, const char *prefix, const char *attrs, const char *dx, const char *dw) {
    put(t, b, "blocks:\n- idx: 0\n  vars:\n    x: {float32: [%s, 3], persistable: true%s}\n", rows, by_rows);
    put(t, b, "    w: {float32: [3, %s], persistable: true%s}\n    rate: {float32: [1], persistable: true}\n", columns,
        by_columns);
    put(t, b, "    i: {int64: [%s, 1], persistable: true%s}\n", rows, by_rows);
    put(t, b, "    ignored: {int64: [%s, 1], persistable: true%s}\n", rows, by_rows);
    for (const char *c = "yp"; *c; c++)
        put(t, b, "    %c: {float32: [%s, %s]}\n    d%c: {float32: [%s, %s]}\n", *c, rows, columns, *c, rows, columns);
    put(t, b, "    each: {float32: [%s, 1], persistable: true%s}\n    deach: {float32: [%s, 1]}\n", rows, by_rows,
        rows);
    put(t, b, "    loss: {float32: []}\n");
    put(t, b, "    dloss: {float32: []}\n    dx: {float32: [%s, 3]}\n    dw: {float32: [3, %s]}\n  ops:\n", rows,
        columns);
    put(t, b, "  - {matmul_v2: {X: x, \"Y\": w}, out: {Out: y}}\n");
    put(t, b, "  - {%ssoftmax_with_cross_entropy: {Logits: y, Label: i}, out: {Softmax: p, Loss: each}, %s}\n", prefix,
        attrs);
    put(t, b, "  - {mean: {X: each}, out: {Out: loss}}\n");
    put(t, b, "  - {fill_constant: {}, out: {Out: dloss}, attrs: {dtype: 5, shape: !longs [], value: 1.0}}\n");
    put(t, b, "  - {mean_grad: {X: each, Out@GRAD: dloss}, out: {X@GRAD: deach}}\n");
    /* softmax_with_cross_entropy_grad, c_softmax_with_cross_entropy_grad */
    put(t, b, "  - {%ssoftmax_with_cross_entropy_grad: {Softmax: p, Label: i, Loss@GRAD: deach}, ", prefix);
    put(t, b, "out: {Logits@GRAD: dy}, %s}\n", attrs);
    put(t, b, "  - {matmul_v2_grad: {X: x, \"Y\": w, Out@GRAD: dy}, out: {X@GRAD: dx, Y@GRAD: dw}}\n%s%s", dx, dw);
    for (const char *c = "xw"; *c; c++)
        put(t, b, "  - {sgd: {Param: %c, LearningRate: rate, Grad: d%c}, out: {ParamOut: %c}}\n", *c, *c, *c);
}

static void try_loss(const loss_change *x) {
    static trial t;
    char what[300], attrs[200];
    bool changed = false;
    t.nranks = 4;
    t.tolerance = 1e-5;
    for (int r = 0; r < 4; r++) {
        char *b = t.ranks[r];
        snprintf(attrs, sizeof attrs, "attrs: {ring_id: 1, rank: %d, nranks: 2, ignore_index: !long -100}", r % 2);
        t.at = 0;
        put(&t, b, "weft: 1\nrank: %d\nrings: {0: [%d, %d], 1: [%d, %d]}\nmeshes:\n", r, r % 2, r % 2 + 2, r / 2 * 2,
            r / 2 * 2 + 1);
        put(&t, b, "- {shape: [2, 2], ids: [0, 1, 2, 3], dims: [dp, mp]}\n");
        put_loss(&t, b, "4", "4", ", dist: {mesh: 0, dims_mapping: [0, -1]}",
                 ", dist: {mesh: 0, dims_mapping: [-1, 1]}", "c_", attrs, SUM("dx", "1") HALF("dx"),
                 SUM("dw", "0") HALF("dw"));
        if (x->in != ONE || r == 3) changed |= trial_replace(b, x->from, x->to);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\n");
    put_loss(&t, t.serial, "8", "8", "", "", "", "attrs: {axis: 1, ignore_index: !long -100}", "", "");
    if (x->in == SERIAL_TOO) (void)trial_replace(t.serial, x->from, x->to);
    snprintf(what, sizeof what, "loss: %s -> %s%s", x->from, x->to, x->in == ONE ? " on one rank" : "");
    check(changed, "%s: there is no such text", what);
    try(&t, what);
    check(t.equal == x->equal, "%s: expected it to be %s", what, x->equal ? "equal" : "different");
    check(t.proved == x->equal, "%s: expected it to be %s: %s", what, x->equal ? "proved" : "refused", t.message);
    if (!*x->from) fail_each(&t, what);
    /* Without the serial program only that is seen: a gradient's reduce is gone, or on another ring. */
    bool drops = strncmp(x->from, SUM("d", "1"), strlen("  - {c_allreduce_sum: {X: d")) == 0;
    check(t.lacks_reduce == drops, "%s: expected %s reduce to be missing", what, drops ? "a" : "no");
}

int main(void) {
    must(weft_context_create(NULL, &context));
    exchanges(2, 10);
    exchanges(4, 10);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++) try_norm(&norms[i]);
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) try_loss(&losses[i]);
    weft_context_destroy(context);
    return report_checks();
}
