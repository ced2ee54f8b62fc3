/* Ranks that hold a stretch of each sequence of a batch, and lay batch and sequence out as rows: each has runs of the
 * serial program's rows. A training step of it, right and with one thing wrong, judged and run. */
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

static weft_context *context;

enum { BATCH = 3, SEQUENCE = 4, WIDTH = 3, CLASSES = 8 };

#define SUM(var) "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0}}\n"
#define AVG(var) "  - {c_allreduce_avg: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: 0}}\n"

static void put_shape(trial *t, char *b, const char *from, const char *to, const char *dims, int first, int second) {
    put(t, b, "  - {reshape2: {X: %s}, out: {Out: %s}, attrs: {shape: [", from, to);
    put(t, b, dims[1] == '3' ? "%d, %d, 3]}}\n" : dims[1] == '2' ? "%d, %d]}}\n" : "%d, %d, 8]}}\n", first, second);
}

static void write_program(trial *t, char *b, int n, int rank) {
    int part = SEQUENCE / n, rows = BATCH * part, all = BATCH * SEQUENCE;
    const char *placed = n > 1 ? ", dist: {mesh: 0, dims_mapping: [-1, 0, -1]}" : "";
    t->at = 0;
    put(t, b, "weft: 1\n");
    if (n > 1) put(t, b, "rank: %d\nrings: {0: [%s]}\nmeshes:\n", rank, n == 2 ? "0, 1" : "0, 1, 2, 3");
    if (n > 1) put(t, b, "- {shape: [%d], ids: [%s], dims: [sp]}\n", n, n == 2 ? "0, 1" : "0, 1, 2, 3");
    put(t, b, "blocks:\n- idx: 0\n  vars:\n    x: {float32: [%d, %d, 3], persistable: true%s}\n", BATCH, part, placed);
    put(t, b, "    i: {int64: [%d, %d, 1], persistable: true%s}\n", BATCH, part, placed);
    put(t, b, "    dx: {float32: [%d, %d, 3], persistable: true%s}\n", BATCH, part, placed);
    put(t, b, "    o: {float32: [%d, %d, 8], persistable: true}\n    w: {float32: [3, 8], persistable: true}\n", BATCH,
        SEQUENCE);
    put(t, b, "    q: {float32: [3], persistable: true}\n    loss: {float32: [1]}\n    dloss: {float32: [1]}\n");
    put(t, b, "    rate: {float32: [1], persistable: true}\n    f: {float32: [%d, 3]}\n    df: {float32: [%d, 3]}\n",
        rows, rows);
    put(t, b,
        "    j: {int64: [%d, 1]}\n    g: {float32: [%d, 3]}\n    dg: {float32: [%d, 3]}\n    dq: {float32: [3]}\n",
        rows, rows, rows);
    for (const char *c = "yp"; *c; c++)
        put(t, b, "    %c: {float32: [%d, 8]}\n    d%c: {float32: [%d, 8]}\n", *c, rows, *c, rows);
    put(t, b, "    each: {float32: [%d, 1]}\n    deach: {float32: [%d, 1]}\n    dw: {float32: [3, 8]}\n", rows, rows);
    put(t, b, "    a: {float32: [%d, 8]}\n    d: {float32: [%d, %d, %d, 8]}\n    e: {float32: [%d, %d, %d, 8]}\n", all,
        n, BATCH, part, BATCH, n, part);
    put(t, b, "    m: {float32: [%d, 3]}\n    r: {float32: [%d, %d, 8]}\n  ops:\n", rows, BATCH, SEQUENCE);
    put_shape(t, b, "x", "f", "[2", rows, WIDTH);
    put_shape(t, b, "i", "j", "[2", rows, 1);
    put(t, b, "  - {elementwise_add: {X: f, \"Y\": q}, out: {Out: g}, attrs: {axis: -1}}\n");
    put(t, b, "  - {matmul_v2: {X: g, \"Y\": w}, out: {Out: y}}\n");
    put(t, b,
        "  - {softmax_with_cross_entropy: {Logits: y, Label: j}, out: {Softmax: p, Loss: each}, attrs: {axis: -1}}\n");
    put(t, b, "  - {mean: {X: each}, out: {Out: loss}}\n");
    if (n > 1) {
        put(t, b, "  - {c_allgather: {X: y}, out: {Out: a}, attrs: {ring_id: 0, nranks: %d}}\n", n);
        put(t, b, "  - {reshape2: {X: a}, out: {Out: d}, attrs: {shape: [%d, %d, %d, 8]}}\n", n, BATCH, part);
        put(t, b, "  - {transpose2: {X: d}, out: {Out: e}, attrs: {axis: [1, 0, 2, 3]}}\n");
        put_shape(t, b, "e", "r", "[8", BATCH, SEQUENCE);
    } else {
        put_shape(t, b, "y", "r", "[8", BATCH, SEQUENCE);
    }
    put(t, b, "  - {tanh: {X: r}, out: {Out: o}}\n");
    put(t, b, "  - {fill_constant: {}, out: {Out: dloss}, attrs: {dtype: 5, shape: !longs [1], value: 1.0}}\n");
    put(t, b, "  - {mean_grad: {X: each, Out@GRAD: dloss}, out: {X@GRAD: deach}}\n");
    put(t, b,
        "  - {softmax_with_cross_entropy_grad: {Softmax: p, Label: j, Loss@GRAD: deach}, out: {Logits@GRAD: dy}, "
        "attrs: {axis: -1}}\n");
    put(t, b, "  - {matmul_v2_grad: {X: g, \"Y\": w, Out@GRAD: dy}, out: {X@GRAD: dg, Y@GRAD: dw}}\n");
    put(t, b,
        "  - {elementwise_add_grad: {X: f, \"Y\": q, Out@GRAD: dg}, out: {X@GRAD: df, Y@GRAD: dq}, attrs: {axis: "
        "-1}}\n");
    if (n > 1) put(t, b, AVG("dw") AVG("dq"));
    put(t, b, "  - {scale: {X: df}, out: {Out: m}, attrs: {scale: %g, bias: 0.0}}\n", 1.0 / n);
    put_shape(t, b, "m", "dx", "[3", BATCH, part);
    for (const char *c = "wq"; *c; c++)
        put(t, b, "  - {sgd: {Param: %c, LearningRate: rate, Grad: d%c}, out: {ParamOut: %c}}\n", *c, *c, *c);
}

static const struct {
    const char *from, *to;
    bool equal;
} changes[] = {
    {"", "", true},
    {AVG("dw"), "", false},
    {AVG("dq"), SUM("dq"), false},
    {"out: {Out: e}, attrs: {axis: [1, 0, 2, 3]", "out: {Out: e}, attrs: {axis: [0, 1, 2, 3]", false},
    {"{c_allgather: {X: y}", "{c_allgather: {X: p}", false},
    {"Label: j, Loss@GRAD", "Label: k, Loss@GRAD", false},
};

static void try_change(int n, size_t i) {
    static trial t;
    char what[400], message[100] = "";
    bool changed = false;
    t.nranks = n;
    t.tolerance = 1e-5;
    for (int r = 0; r < n; r++) {
        write_program(&t, t.ranks[r], n, r);
        changed |= trial_replace(t.ranks[r], changes[i].from, changes[i].to);
        if (strstr(changes[i].to, "Label: k")) { /* the labels of sequences side by side */
            (void)trial_replace(t.ranks[r], "    loss:",
                                n == 2 ? "    k: {int64: [6, 1]}\n    l: {int64: [2, 3, 1]}\n    loss:"
                                       : "    k: {int64: [3, 1]}\n    l: {int64: [1, 3, 1]}\n    loss:");
            (void)trial_replace(t.ranks[r], "  - {mean: ",
                                n == 2 ? "  - {transpose2: {X: i}, out: {Out: l}, attrs: {axis: [1, 0, 2]}}\n  - "
                                         "{reshape2: {X: l}, out: {Out: k}, attrs: {shape: [6, 1]}}\n  - {mean: "
                                       : "  - {transpose2: {X: i}, out: {Out: l}, attrs: {axis: [1, 0, 2]}}\n  - "
                                         "{reshape2: {X: l}, out: {Out: k}, attrs: {shape: [3, 1]}}\n  - {mean: ");
        }
    }
    write_program(&t, t.serial, 1, 0);
    snprintf(what, sizeof what, "%d ranks: %s -> %s", n, changes[i].from, changes[i].to);
    bool equal =
        changes[i].equal || (n == 4 && strstr(changes[i].to, "Label: k")); /* one row of each: nothing to turn */
    if (n == 4 && strstr(changes[i].to, "[0, 1, 2, 3]")) equal = false;
    check(changed, "%s: there is no such text", what);
    trial_run(context, &t);
    check(t.equal == equal, "%s: expected it to be %s", what, equal ? "equal" : "different");
    check(t.proved == equal, "%s: expected it to be %s: %s", what, equal ? "proved" : "refused", t.message);
    if (i == 0 && n == 2) check(trial_fail_each(&t, message, sizeof message), "%s: %s", what, message);
}

int main(void) {
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) try_change(2, i), try_change(4, i);
    weft_context_destroy(context);
    return report_checks();
}
