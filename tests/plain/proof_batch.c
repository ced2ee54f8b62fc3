/* proof_batch.c: a normalisation over a batch of which each rank has some rows (c_batch_norm), and its gradient,
 * Paddle's and ATen's: in a grid of 2 by 2 with rows along one axis and channels along the other, and on two ranks with
 * three rows and two. What is proved trains to the serial numbers; what differs is refused. */
#include <stdio.h>
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

static weft_context *context;

/* Replaces words of the ranks' program: of all, or of the last rank's only, or of the serial program too. */
typedef struct change {
    const char *from, *to;
    enum { ALL, ONE, SERIAL_TOO } in;
    bool equal;
} change;

#define SUM(var, ring) "  - {c_allreduce_sum: {X: " var "}, out: {Out: " var "}, attrs: {ring_id: " ring "}}\n"
#define HALF(var) "  - {scale: {X: " var "}, out: {Out: " var "}, attrs: {scale: 0.5, bias: 0.0}}\n"

static const change changes[] = {
    {"", "", ALL, true},
    {"{c_batch_norm:", "{batch_norm:", ALL, false},
    {"{c_batch_norm_grad:", "{batch_norm_grad:", ALL, false},
    {"ring_id: 0", "ring_id: 2", ALL, false},
    {"Scale: s, Bias: b, Mean", "Scale: b, Bias: b, Mean", ALL, false},
    {"Scale: s, Bias: b, Mean", "Scale: b, Bias: b, Mean", ONE, false},
    {"Scale: s, Bias: b, SavedMean", "Scale: b, Bias: b, SavedMean", ONE, false},
    {"SavedMean: sm, SavedVariance", "SavedMean: b, SavedVariance", ALL, false},
    {"epsilon: 0.125", "epsilon: 0.25", ALL, false},
    {"epsilon: 0.125", "epsilon: 0.25", SERIAL_TOO, true},
    {"momentum: 0.75", "momentum: 0.5", ALL, false},
    {"  - {c_batch_norm_grad:", HALF("dy") "  - {c_batch_norm_grad:", ONE, false},
    {"  - {c_batch_norm_grad:", HALF("dy") "  - {c_batch_norm_grad:", ALL, false},
    {"  - {sgd: {Param: s", SUM("ds", "0") "  - {sgd: {Param: s", ALL, false},
    {"  - {sgd: {Param: b", SUM("db", "0") "  - {sgd: {Param: b", ALL, false},
};

static const change aten_changes[] = {
    {"", "", ALL, true},
    {"{c_aten_batch_norm:", "{aten_batch_norm:", ALL, false},
    {"{c_aten_batch_norm_backward:", "{aten_batch_norm_backward:", ALL, false},
    {"ring_id: 0", "ring_id: 2", ALL, false},
    {"weight: s, bias: b, running_mean", "weight: b, bias: b, running_mean", ONE, false},
    {"save_mean: sm, save_invstd: sv}, out: {grad_input", "save_mean: b, save_invstd: sv}, out: {grad_input", ALL,
     false},
    {"epsilon: !double 0.125", "epsilon: !double 0.25", ALL, false},
    {"epsilon: !double 0.125", "epsilon: !double 0.25", SERIAL_TOO, true},
    {"momentum: !double 0.25", "momentum: !double 0.5", ALL, false},
    {"training: true", "training: false", ALL, false},
    {"  - {c_aten_batch_norm_backward:", HALF("dy") "  - {c_aten_batch_norm_backward:", ALL, false},
    {"  - {sgd: {Param: b", SUM("db", "0") "  - {sgd: {Param: b", ALL, false},
};

static void put_program(trial *t, char *b, bool aten, int rows, int channels, const char *of_channels,
                        const char *of_rows, const char *prefix, const char *ring) {
    put(t, b, "blocks:\n- idx: 0\n  vars:\n    x: {float32: [%d, %d, 3], persistable: true%s}\n", rows, channels,
        of_rows);
    for (const char *c = "sbmv"; *c; c++)
        put(t, b, "    %c: {float32: [%d], persistable: true%s}\n", *c, channels, of_channels);
    put(t, b, "    rate: {float32: [1], persistable: true}\n");
    put(t, b, "    p: {float32: [%d, %d, 3]}\n    y: {float32: [%d, %d, 3]}\n", rows, channels, rows, channels);
    put(t, b, "    dy: {float32: [%d, %d, 3]}\n    dx: {float32: [%d, %d, 3]}\n", rows, channels, rows, channels);
    for (const char *c = "sb"; *c; c++) put(t, b, "    d%c: {float32: [%d]}\n", *c, channels);
    for (const char *c = "mv"; *c; c++) put(t, b, "    s%c: {float32: [%d]}\n", *c, channels);
    put(t, b, "  ops:\n  - {square: {X: v}, out: {Out: v}}\n");
    if (aten) {
        put(t, b, "  - {%saten_batch_norm: {input: x, weight: s, bias: b, running_mean: m, running_var: v}, ", prefix);
        put(t, b, "out: {out: y, running_mean_out: m, running_var_out: v, save_mean: sm, save_invstd: sv}, ");
        put(t, b, "attrs: {training: true, epsilon: !double 0.125, momentum: !double 0.25%s}}\n", ring);
    } else {
        put(t, b, "  - {%sbatch_norm: {X: x, Scale: s, Bias: b, Mean: m, ", prefix);
        put(t, b, "Variance: v}, out: {\"Y\": y, MeanOut: m, VarianceOut: v, SavedMean: sm, SavedVariance: sv}, ");
        put(t, b, "attrs: {epsilon: 0.125, momentum: 0.75%s}}\n", ring);
    }
    put(t, b,
        "  - {tanh: {X: y}, out: {Out: p}}\n  - {elementwise_mul: {X: p, \"Y\": x}, out: {Out: dy}, attrs: {axis: "
        "-1}}\n");
    if (aten) {
        put(t, b, "  - {%saten_batch_norm_backward: {grad_out: dy, input: x, weight: s, running_mean: m, ", prefix);
        put(t, b, "running_var: v, save_mean: sm, save_invstd: sv}, out: {grad_input: dx, grad_weight: ds, ");
        put(t, b, "grad_bias: db}, attrs: {training: true, epsilon: !double 0.125%s}}\n", ring);
    } else {
        put(t, b, "  - {%sbatch_norm_grad: {X: x, Scale: s, Bias: b, SavedMean: sm, SavedVariance: sv, Y@GRAD: dy}, ",
            prefix);
        put(t, b, "out: {X@GRAD: dx, Scale@GRAD: ds, Bias@GRAD: db}, attrs: {epsilon: 0.125%s}}\n", ring);
    }
    for (const char *c = "xsb"; *c; c++)
        put(t, b, "  - {sgd: {Param: %c, LearningRate: rate, Grad: d%c}, out: {ParamOut: %c}}\n", *c, *c, *c);
}

/* In a grid: rows along axis 0 (ring 0), channels along 1; ring 2 is of one rank alone. */
static void put_rank(trial *t, int r, bool aten, bool grid) {
    char *b = t->ranks[r];
    t->at = 0;
    if (grid) {
        put(t, b, "weft: 1\nrank: %d\nrings: {0: [%d, %d], 2: [%d]}\nmeshes:\n", r, r % 2, r % 2 + 2, r);
        put(t, b, "- {shape: [2, 2], ids: [0, 1, 2, 3], dims: [dp, mp]}\n");
        put_program(t, b, aten, 4, 2, ", dist: {mesh: 0, dims_mapping: [1]}",
                    ", dist: {mesh: 0, dims_mapping: [0, 1, -1]}", "c_", ", ring_id: 0");
    } else {
        put(t, b, "weft: 1\nrank: %d\nrings: {0: [0, 1], 2: [%d]}\nmeshes:\n- {shape: [2], ids: [0, 1], dims: [dp]}\n",
            r, r);
        put_program(t, b, aten, 3 - r, 4, "", ", dist: {mesh: 0, dims_mapping: [0, -1, -1]}", "c_", ", ring_id: 0");
    }
}

static void try_change(const change *x, bool aten, bool grid) {
    static trial t;
    char what[300];
    bool changed = false;
    t.nranks = grid ? 4 : 2;
    t.tolerance = 1e-5;
    for (int r = 0; r < t.nranks; r++) {
        put_rank(&t, r, aten, grid);
        if (x->in != ONE || r == t.nranks - 1) changed |= trial_replace(t.ranks[r], x->from, x->to);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\n");
    put_program(&t, t.serial, aten, grid ? 8 : 5, 4, "", "", "", "");
    if (x->in == SERIAL_TOO) (void)trial_replace(t.serial, x->from, x->to);
    snprintf(what, sizeof what, "%s%s: %s -> %s%s", aten ? "ATen, " : "", grid ? "grid" : "three and two", x->from,
             x->to, x->in == ONE ? " on one rank" : "");
    check(changed, "%s: there is no such text", what);
    trial_run(context, &t);
    check(t.equal == x->equal, "%s: expected it to be %s", what, x->equal ? "equal" : "different");
    check(t.proved == x->equal, "%s: expected it to be %s: %s", what, x->equal ? "proved" : "refused", t.message);
}

int main(void) {
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        try_change(&changes[i], false, true);
        try_change(&changes[i], false, false);
    }
    for (size_t i = 0; i < sizeof aten_changes / sizeof *aten_changes; i++) {
        try_change(&aten_changes[i], true, true);
        try_change(&aten_changes[i], true, false);
    }
    weft_context_destroy(context);
    return report_checks();
}
