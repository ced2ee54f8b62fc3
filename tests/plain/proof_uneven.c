/* Ranks whose parts are not of one size, since their number does not divide an extent, against the serial program: a
 * step with a table, products and a gather, and one with a mean, right and with one thing wrong, judged and run. Rows
 * that are dealt out otherwise, filled up with zeros or put among them: all ways to do so. */
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

static weft_context *context;

/* Rows of the table, and columns of u, by rank. */
typedef struct cut {
    int nranks, rows[MOST_RANKS], columns[MOST_RANKS];
} cut;

static const cut cuts[] = {
    {2, {5, 3}, {3, 2}}, {3, {3, 3, 2}, {1, 2, 2}}, {2, {4, 4}, {4, 1}}, {4, {2, 1, 3, 2}, {2, 2, 1, 2}}};

static int sum_of(const int *list, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) sum += list[i];
    return sum;
}

static void put_vars(trial *t, char *b, int rows, int columns, bool placed) {
    const char *first = placed ? ", dist: {mesh: 0, dims_mapping: [0, -1]}" : "";
    const char *second = placed ? ", dist: {mesh: 0, dims_mapping: [-1, 0]}" : "";
    put(t, b, "blocks:\n- idx: 0\n  vars:\n    i: {int64: [6], persistable: true}\n");
    put(t, b, "    t: {float32: [%d, 3], persistable: true%s}\n    u: {float32: [3, %d], persistable: true%s}\n", rows,
        first, columns, second);
    put(t, b, "    v: {float32: [%d, 2], persistable: true%s}\n", columns, first);
    put(t, b, "    o: {float32: [6, 2], persistable: true}\n    m: {float32: [6], persistable: true}\n");
    put(t, b, "    n: {float32: [1], persistable: true}\n    rate: {float32: [1], persistable: true}\n");
    put(t, b, "    e: {float32: [6, 3]}\n    de: {float32: [6, 3]}\n    dt: {float32: [%d, 3]}\n", rows);
    put(t, b, "    g: {float32: [6, %d]}\n    r: {float32: [6, %d]}\n    dr: {float32: [6, %d]}\n", columns, columns,
        columns);
    put(t, b, "    dg: {float32: [6, %d]}\n    du: {float32: [3, %d]}\n    dv: {float32: [%d, 2]}\n", columns, columns,
        columns);
    put(t, b, "    y: {float32: [6, 2]}\n");
    put(t, b, "    s: {float32: [6]}\n    k: {float32: [1]}\n");
}

static void put_sum(trial *t, char *b, bool is_rank, const char *var) {
    if (is_rank) put(t, b, "  - {c_allreduce_sum: {X: %s}, out: {Out: %s}, attrs: {ring_id: 0}}\n", var, var);
}

/* `start`: of the rank's rows, -1: the serial program. */
static void put_step(trial *t, char *b, int start) {
    bool is_rank = start >= 0;
    const char *table = is_rank ? "c_embedding" : "lookup_table_v2";
    char more[60] = "";
    if (is_rank) snprintf(more, sizeof more, ", attrs: {start_index: !long %d}", start);
    put(t, b, "  ops:\n  - {%s: {W: t, Ids: i}, out: {Out: e}%s}\n", table, more);
    put_sum(t, b, is_rank, "e");
    put(t, b, "  - {matmul_v2: {X: e, \"Y\": u}, out: {Out: g}}\n  - {tanh: {X: g}, out: {Out: r}}\n");
    put(t, b, "  - {matmul_v2: {X: r, \"Y\": v}, out: {Out: y}}\n");
    put_sum(t, b, is_rank, "y");
    put(t, b, "  - {assign: {X: y}, out: {Out: o}}\n");
    put(t, b, "  - {reduce_sum: {X: r}, out: {Out: s}, attrs: {dim: [1], keep_dim: false, reduce_all: false}}\n");
    put_sum(t, b, is_rank, "s");
    put(t, b, "  - {assign: {X: s}, out: {Out: m}}\n");
    put(t, b, "  - {squared_l2_norm: {X: u}, out: {Out: k}}\n");
    put_sum(t, b, is_rank, "k");
    put(t, b, "  - {assign: {X: k}, out: {Out: n}}\n");
    put(t, b, "  - {matmul_v2_grad: {X: r, \"Y\": v, Out@GRAD: o}, out: {X@GRAD: dr, Y@GRAD: dv}}\n");
    put(t, b, "  - {tanh_grad: {Out: r, Out@GRAD: dr}, out: {X@GRAD: dg}}\n");
    put(t, b, "  - {matmul_v2_grad: {X: e, \"Y\": u, Out@GRAD: dg}, out: {X@GRAD: de, Y@GRAD: du}}\n");
    put_sum(t, b, is_rank, "de");
    put(t, b, "  - {%s_grad: {W: t, Ids: i, Out@GRAD: de}, out: {W@GRAD: dt}%s}\n", table, more);
    for (const char *c = "uvt"; *c; c++)
        put(t, b, "  - {sgd: {Param: %c, LearningRate: rate, Grad: d%c}, out: {ParamOut: %c}}\n", *c, *c, *c);
}

static void write_rank(trial *t, const cut *c, int rank) {
    char *b = t->ranks[rank];
    int n = c->nranks;
    t->at = 0;
    put(t, b, "weft: 1\nrank: %d\nrings: {0: [", rank);
    for (int i = 0; i < n; i++) put(t, b, "%s%d", i ? ", " : "", i);
    put(t, b, "]}\nmeshes:\n- {shape: [%d], ids: [", n);
    for (int i = 0; i < n; i++) put(t, b, "%s%d", i ? ", " : "", i);
    put(t, b, "], dims: [mp]}\n");
    put_vars(t, b, c->rows[rank], c->columns[rank], true);
    put_step(t, b, sum_of(c->rows, rank));
}

#define SUM(var) "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0}}\n"
#define REDUCE(type, more)                                                                                             \
    "  - {" type ": {X: r}, out: {Out: s}, attrs: {dim: [1], keep_dim: false, reduce_all: false}}\n" more

static const struct {
    const char *from, *to;
    bool equal;
} changes[] = {
    {"", "", true},
    {SUM("e"), "", false},
    {SUM("y"), "", false},
    {SUM("s"), "", false},
    {SUM("k"), "", false},
    {SUM("de"), "", false},
    {SUM("y"), SUM("y") SUM("y"), false},
    {"start_index: !long ", "start_index: !long 1", false},
    {REDUCE("reduce_sum", SUM("s")),
     REDUCE("reduce_mean", "  - {c_allreduce_avg: {X: s}, out: {Out: s}, attrs: {ring_id: 0}}\n"), false},
};

static void try_change(const cut *c, size_t i) {
    static trial t;
    char what[400], message[100] = "";
    bool changed = false, mean = strstr(changes[i].to, "reduce_mean") != NULL;
    t.nranks = c->nranks;
    t.tolerance = 1e-5;
    for (int r = 0; r < c->nranks; r++) {
        write_rank(&t, c, r);
        changed |= trial_replace(t.ranks[r], changes[i].from, changes[i].to);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\n");
    put_vars(&t, t.serial, sum_of(c->rows, c->nranks), sum_of(c->columns, c->nranks), false);
    put_step(&t, t.serial, -1);
    if (mean) (void)trial_replace(t.serial, "reduce_sum", "reduce_mean");
    snprintf(what, sizeof what, "%d ranks, %d columns on the first: %s -> %s", c->nranks, c->columns[0],
             changes[i].from, changes[i].to);
    check(changed, "%s: there is no such text", what);
    trial_run(context, &t);
    check(t.equal == changes[i].equal, "%s: expected it to be %s", what, changes[i].equal ? "equal" : "different");
    check(t.proved == changes[i].equal, "%s: expected it to be %s: %s", what, changes[i].equal ? "proved" : "refused",
          t.message);
    if (i == 0 && c == cuts) check(trial_fail_each(&t, message, sizeof message), "%s: %s", what, message);
}

/* --- rows dealt out otherwise --------------------------------------------------------------------------------------
 */

/* Rows of x by rank, and of y; to[0] 0: y is whole on all. */
typedef struct deal {
    int nranks, from[MOST_RANKS], to[MOST_RANKS];
    bool turned, shifted; /* the ring lists its ranks the other way round; the first rank gives a row less to itself */
} deal;

enum { WIDTH = 2 };

/* Rows that rank i gives to rank j. */
static int overlap(const deal *d, int i, int j) {
    if (!d->to[0]) return d->from[i];
    int begin = sum_of(d->from, i), end = begin + d->from[i], to = sum_of(d->to, j), to_end = to + d->to[j];
    if (to > begin) begin = to;
    if (to_end < end) end = to_end;
    return end > begin ? end - begin : 0;
}

static void put_ints(trial *t, char *b, const char *before, const int *list, int n, const char *after) {
    put(t, b, "%s", before);
    for (int i = 0; i < n; i++) put(t, b, "%s%d", i ? ", " : "", list[i]);
    put(t, b, "%s", after);
}

/* False: a rank gives what it has not. */
static bool write_deal(trial *t, const deal *d, int rank) {
    char *b = t->ranks[rank];
    int n = d->nranks, given[MOST_RANKS] = {0}, got[MOST_RANKS] = {0}, members[MOST_RANKS], ids[MOST_RANKS];
    int whole = sum_of(d->from, n), all = d->to[0] ? d->from[rank] : n * d->from[rank];
    for (int i = 0; i < n; i++) {
        ids[i] = i;
        members[i] = d->turned ? n - 1 - i : i;
        given[i] = overlap(d, rank, i);
        got[i] = overlap(d, i, rank);
    }
    if (d->shifted && rank == 0) given[0]--, given[1]++;
    if (d->shifted && rank == 0) got[0]--;
    if (d->shifted && rank == 1) got[0]++;
    if (given[0] < 0 || sum_of(given, n) != all) return false;
    t->at = 0;
    put(t, b, "weft: 1\nrank: %d\n", rank);
    put_ints(t, b, "rings: {0: [", members, n, "]}\nmeshes:\n");
    put(t, b, "- {shape: [%d], ", n);
    put_ints(t, b, "ids: [", ids, n, "], dims: [mp]}\nblocks:\n- idx: 0\n  vars:\n");
    put(t, b, "    x: {float32: [%d, %d], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1]}}\n", d->from[rank],
        WIDTH);
    put(t, b, "    y: {float32: [%d, %d], persistable: true%s}\n", d->to[0] ? d->to[rank] : whole, WIDTH,
        d->to[0] ? ", dist: {mesh: 0, dims_mapping: [0, -1]}" : "");
    put(t, b, "    a: {float32: [%d, %d]}\n    r: {float32: [%d, %d]}\n  ops:\n  - {concat: {X: [", all, WIDTH,
        sum_of(got, n), WIDTH);
    for (int i = 0; i < (d->to[0] ? 1 : n); i++) put(t, b, "%sx", i ? ", " : "");
    put(t, b, "]}, out: {Out: a}, attrs: {axis: 0}}\n  - {all_to_all: {x: a}, out: {out: r}, attrs: {ring_id: 0, ");
    put_ints(t, b, "in_splits: !longs [", given, n, "], ");
    put_ints(t, b, "out_splits: !longs [", got, n, "]}}\n  - {assign: {X: r}, out: {Out: y}}\n");
    return sum_of(got, n) == (d->to[0] ? d->to[rank] : whole);
}

static void try_deal(const deal *d, int *nproved) {
    static trial t;
    char what[200], message[100] = "";
    int whole = sum_of(d->from, d->nranks);
    t.nranks = d->nranks;
    t.tolerance = 0;
    for (int r = 0; r < d->nranks; r++)
        if (!write_deal(&t, d, r)) return;
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [%d, %d], persistable: true}\n", whole,
        WIDTH);
    put(&t, t.serial, "    y: {float32: [%d, %d], persistable: true}\n  ops:\n", whole, WIDTH);
    put(&t, t.serial, "  - {assign: {X: x}, out: {Out: y}}\n");
    snprintf(what, sizeof what, "%d ranks: %d, %d.. rows become %d, %d..%s%s", d->nranks, d->from[0], d->from[1],
             d->to[0], d->to[1], d->turned ? ", turned" : "", d->shifted ? ", shifted" : "");
    trial_run(context, &t);
    check(t.proved == t.equal, "%s: %s: %s", what, t.equal ? "equal, and not proved" : "proved, and not equal",
          t.message);
    if (t.proved && !*nproved) check(trial_fail_each(&t, message, sizeof message), "%s: %s", what, message);
    *nproved += t.proved;
}

static void try_deals(void) {
    int nproved = 0;
    for (int i = 0; i < 5 * 6 * 2; i++) {
        int k = i % 5 + 1, m = i / 5 % 6, turned = i / 30;
        try_deal(&(deal){2, {k, 6 - k}, {m, m ? 6 - m : 0}, turned, false}, &nproved);
        try_deal(&(deal){2, {k, 6 - k}, {m, m ? 6 - m : 0}, turned, true}, &nproved);
    }
    for (int i = 0; i < 4 * 4 * 4; i++) {
        int k = i % 4 + 1, m = i / 4 % 4 + 1, n = i / 16 + 1;
        try_deal(&(deal){3, {k, n, 4}, {m, 1, k + n + 3 - m}, false, false}, &nproved);
    }
    check(nproved == 94, "%d are proved, expected 94", nproved);
}

/* --- parts among zeros -------------------------------------------------------------------------------------------- */

typedef enum mistake { NO_MISTAKE, ZEROS_BEFORE, CUT_LATER, TURNED, NMISTAKES } mistake;

/* Rows of x by rank. They are filled up behind, gathered and cut; or, if `adds`, put among zeros and added up. */
typedef struct fill {
    int nranks, rows[MOST_RANKS];
    bool adds;
    mistake wrong; /* of the last rank, or of all */
} fill;

static int most_of(const fill *f) {
    int most = 0;
    for (int i = 0; i < f->nranks; i++) most = f->rows[i] > most ? f->rows[i] : most;
    return most;
}

/* False: the mistake cannot be made. */
static bool write_fill(trial *t, const fill *f, int rank) {
    char *b = t->ranks[rank];
    int n = f->nranks, most = most_of(f), all = sum_of(f->rows, n), ids[MOST_RANKS], members[MOST_RANKS];
    int made = f->adds ? all : most, before = f->adds ? sum_of(f->rows, rank) : 0, start = f->wrong == CUT_LATER;
    int behind = made - f->rows[rank] - before;
    for (int i = 0; i < n; i++) ids[i] = i, members[i] = f->wrong == TURNED ? n - 1 - i : i;
    if (f->wrong == ZEROS_BEFORE && rank == n - 1) {
        int by = behind > 0 ? 1 : -1;
        if (!behind && !before) return false;
        before += by, behind -= by;
    }
    if (f->adds ? start : start + all > n * most) return false;
    t->at = 0;
    put(t, b, "weft: 1\nrank: %d\n", rank);
    put_ints(t, b, "rings: {0: [", members, n, "]}\nmeshes:\n");
    put(t, b, "- {shape: [%d], ", n);
    put_ints(t, b, "ids: [", ids, n, "], dims: [mp]}\nblocks:\n- idx: 0\n  vars:\n");
    put(t, b, "    x: {float32: [%d, %d], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1]}}\n", f->rows[rank],
        WIDTH);
    put(t, b, "    y: {float32: [%d, %d], persistable: true}\n    p: {float32: [%d, %d]}\n", all, WIDTH, made, WIDTH);
    put(t, b, "    g: {float32: [%d, %d]}\n    c: {float32: [%d, %d]}\n  ops:\n", f->adds ? all : n * most, WIDTH, all,
        WIDTH);
    if (!before && !behind)
        put(t, b, "  - {assign: {X: x}, out: {Out: p}}\n");
    else
        put(t, b, "  - {pad: {X: x}, out: {Out: p}, attrs: {paddings: [%d, %d, 0, 0], pad_value: 0.0}}\n", before,
            behind);
    if (f->adds) {
        put(t, b, "  - {c_allreduce_sum: {X: p}, out: {Out: g}, attrs: {ring_id: 0}}\n");
        put(t, b, "  - {assign: {X: g}, out: {Out: y}}\n");
        return true;
    }
    put(t, b, "  - {c_allgather: {X: p}, out: {Out: g}, attrs: {ring_id: 0, nranks: %d}}\n", n);
    put(t, b,
        "  - {slice: {Input: g}, out: {Out: c}, attrs: {axes: [0], starts: [%d], ends: [%d], decrease_axis: []}}\n",
        start, start + all);
    put(t, b, "  - {assign: {X: c}, out: {Out: y}}\n");
    return true;
}

static void try_fill(const fill *f, int *nproved) {
    static trial t;
    char what[200], message[100] = "";
    int all = sum_of(f->rows, f->nranks);
    t.nranks = f->nranks;
    t.tolerance = 0;
    for (int r = 0; r < f->nranks; r++)
        if (!write_fill(&t, f, r)) return;
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [%d, %d], persistable: true}\n", all,
        WIDTH);
    put(&t, t.serial, "    y: {float32: [%d, %d], persistable: true}\n  ops:\n", all, WIDTH);
    put(&t, t.serial, "  - {assign: {X: x}, out: {Out: y}}\n");
    snprintf(what, sizeof what, "%d ranks: %d, %d.. rows %s, mistake %d", f->nranks, f->rows[0], f->rows[1],
             f->adds ? "among zeros" : "filled up", (int)f->wrong);
    trial_run(context, &t);
    /* no pass fills up to more than an equal share, rounded up */
    bool may_be_open = !f->adds && most_of(f) * f->nranks >= all + f->nranks;
    check(t.proved == t.equal || (t.equal && may_be_open), "%s: %s: %s", what,
          t.equal ? "equal, and not proved" : "proved, and not equal", t.message);
    if (t.proved && !*nproved) check(trial_fail_each(&t, message, sizeof message), "%s: %s", what, message);
    *nproved += t.proved;
}

/* All ways to give two to four ranks one to three rows each. */
static void try_fills(void) {
    int nproved = 0;
    for (int n = 2, ways = 9; n <= 4; n++, ways *= 3)
        for (int i = 0; i < ways * 2 * NMISTAKES; i++) {
            int rest = i / (2 * NMISTAKES);
            fill f = {n, {rest % 3 + 1, rest / 3 % 3 + 1, rest / 9 % 3 + 1, rest / 27 + 1}, i & 1, i / 2 % NMISTAKES};
            try_fill(&f, &nproved);
        }
    check(nproved == 251, "%d are proved, expected 251", nproved);
}

/* --- means -------------------------------------------------------------------------------------------------------- */

/* Replaces words of the ranks' programs, or of the last one only; %s stands for the rank's share. */
typedef struct mean_change {
    const char *from, *to;
    bool of_last, equal;
} mean_change;

#define SHARE(var) "  - {scale: {X: " var "}, out: {Out: " var "}, attrs: {scale: share, bias: 0.0}}\n"
#define ADD(var) "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0}}\n"

static const mean_change mean_changes[] = {
    {"", "", false, true},
    {SHARE("l"), "", false, false},
    {SHARE("l"), SHARE("l") SHARE("l"), false, false},
    {SHARE("l"), SHARE("l") SHARE("l"), true, false},
    {SHARE("l"), "  - {scale: {X: l}, out: {Out: l}, attrs: {scale: 0.5, bias: 0.0}}\n", false, false},
    {SHARE("l"), "  - {relu: {X: l}, out: {Out: l}}\n" SHARE("l"), false, false},
    {SHARE("ds"), "", true, false},
    {SHARE("ds"), "", false, false},
    {SHARE("ds"), "  - {scale: {X: ds}, out: {Out: ds}, attrs: {scale: 0.5, bias: 0.0}}\n", false, false},
    {ADD("l"), "", false, false},
    {ADD("dw"), "", false, false},
    {ADD("dw"), SHARE("dw") ADD("dw"), false, false},
};

static void put_mean(trial *t, char *b, int rows, const char *placed, const char *by_share, const char *of_grad,
                     const char *sum, const char *sum_of_grad) {
    put(t, b, "blocks:\n- idx: 0\n  vars:\n    x: {float32: [%d, 3], persistable: true%s}\n", rows, placed);
    put(t, b, "    w: {float32: [3, 2], persistable: true}\n    loss: {float32: [], persistable: true}\n");
    put(t, b, "    rate: {float32: [1], persistable: true}\n    l: {float32: []}\n    dl: {float32: []}\n");
    put(t, b, "    y: {float32: [%d, 2]}\n    s: {float32: [%d, 2]}\n    ds: {float32: [%d, 2]}\n", rows, rows, rows);
    put(t, b, "    dy: {float32: [%d, 2]}\n    dx: {float32: [%d, 3]}\n    dw: {float32: [3, 2]}\n  ops:\n", rows,
        rows);
    put(t, b, "  - {matmul_v2: {X: x, \"Y\": w}, out: {Out: y}}\n  - {tanh: {X: y}, out: {Out: s}}\n");
    put(t, b, "  - {reduce_mean: {X: s}, out: {Out: l}, attrs: {reduce_all: true, dim: [0, 1]}}\n%s%s", by_share, sum);
    put(t, b, "  - {assign: {X: l}, out: {Out: loss}}\n");
    put(t, b, "  - {fill_constant: {}, out: {Out: dl}, attrs: {dtype: 5, shape: !longs [], value: 1.0}}\n");
    put(t, b,
        "  - {reduce_mean_grad: {X: s, Out@GRAD: dl}, out: {X@GRAD: ds}, attrs: {reduce_all: true, dim: [0, 1]}}\n");
    put(t, b, "%s  - {tanh_grad: {Out: s, Out@GRAD: ds}, out: {X@GRAD: dy}}\n", of_grad);
    put(t, b, "  - {matmul_v2_grad: {X: x, \"Y\": w, Out@GRAD: dy}, out: {X@GRAD: dx, Y@GRAD: dw}}\n%s", sum_of_grad);
    for (const char *c = "xw"; *c; c++)
        put(t, b, "  - {sgd: {Param: %c, LearningRate: rate, Grad: d%c}, out: {ParamOut: %c}}\n", *c, *c, *c);
}

static void try_mean(const int *rows, int n, const mean_change *x) {
    static trial t;
    char what[200], share[40], message[100] = "", ids[40] = "";
    bool changed = false;
    t.nranks = n;
    t.tolerance = 1e-5;
    for (int r = 0; r < n; r++) snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s%d", r ? ", " : "", r);
    for (int r = 0; r < n; r++) {
        t.at = 0;
        put(&t, t.ranks[r], "weft: 1\nrank: %d\nrings: {0: [%s]}\nmeshes:\n- {shape: [%d], ids: [%s], dims: [dp]}\n", r,
            ids, n, ids);
        put_mean(&t, t.ranks[r], rows[r], ", dist: {mesh: 0, dims_mapping: [0, -1]}", SHARE("l"), SHARE("ds"), ADD("l"),
                 ADD("dw"));
        if (!x->of_last || r == n - 1) changed |= trial_replace(t.ranks[r], x->from, x->to);
        snprintf(share, sizeof share, "scale: %.9g", (double)((float)rows[r] / (float)sum_of(rows, n)));
        (void)trial_replace(t.ranks[r], "scale: share", share);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\n");
    put_mean(&t, t.serial, sum_of(rows, n), "", "", "", "", "");
    snprintf(what, sizeof what, "mean over %d, %d.. rows: %s -> %s", rows[0], rows[1], x->from, x->to);
    check(changed, "%s: there is no such text", what);
    trial_run(context, &t);
    check(t.equal == x->equal, "%s: expected it to be %s", what, x->equal ? "equal" : "different");
    check(t.proved == x->equal, "%s: expected it to be %s: %s", what, x->equal ? "proved" : "refused", t.message);
    if (x->equal) check(trial_fail_each(&t, message, sizeof message), "%s: %s", what, message);
}

static void try_means(void) {
    static const int rows[][3] = {{3, 2}, {4, 3}, {3, 3, 1}};
    for (size_t i = 0; i < sizeof mean_changes / sizeof *mean_changes; i++)
        for (int k = 0; k < 3; k++) try_mean(rows[k], k < 2 ? 2 : 3, &mean_changes[i]);
}

int main(void) {
    must(weft_context_create(NULL, &context));
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++)
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) try_change(&cuts[k], i);
    try_deals();
    try_fills();
    try_means();
    weft_context_destroy(context);
    return report_checks();
}
