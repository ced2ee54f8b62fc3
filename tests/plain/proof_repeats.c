/* What looks alike to one rank and is not: against the serial program, run, and refused. A rank gives the same to two
 * collectives, and another gives other things to one of them. A sum has on each rank a part among zeros, but not of one
 * dimension. */
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

enum { NRANKS = 2 };

static weft_context *context;

/* Collectives of two ranks that each give twice; `x` on both, but rank 1 to one of them what `other` says. Each keeps
 * a half of what one of them gives. */
typedef struct repeat {
    const char *what, *ops; /* of w and v, which are x or rank 1's other value; they make a and b */
    const char *other;      /* an op of rank 1 on x: w */
    double factor;          /* of what x becomes */
    bool is_right;
} repeat;

static const char reduces[] = "  - {all_reduce: {x: w}, out: {out: a}, attrs: {ring_id: 0}}\n"
                              "  - {all_reduce: {x: x}, out: {out: b}, attrs: {ring_id: 0}}\n";
static const char other_rings[] = "  - {all_reduce: {x: w}, out: {out: a}, attrs: {ring_id: 0}}\n"
                                  "  - {all_reduce: {x: x}, out: {out: b}, attrs: {ring_id: 1}}\n";
static const char of_lists[] = "  - {all_reduce_coalesced: {x: [x, w]}, out: {out: [b, a]}, attrs: {ring_id: 0}}\n";
static const char buckets[] = "  - {concat: {X: [w, x]}, out: {Out: f}, attrs: {axis: 0}}\n"
                              "  - {all_reduce: {x: f}, out: {out: g}, attrs: {ring_id: 0}}\n"
                              "  - {split: {X: g}, out: {Out: [a, b]}, attrs: {axis: 0, num: 2}}\n";
static const char gathers[] = "  - {c_allgather: {X: w}, out: {Out: f}, attrs: {ring_id: 0, nranks: 2}}\n"
                              "  - {c_allgather: {X: x}, out: {Out: g}, attrs: {ring_id: 0, nranks: 2}}\n"
                              "  - {slice: {Input: f}, out: {Out: a}, attrs: {axes: [0], starts: [4], ends: [8]}}\n"
                              "  - {slice: {Input: g}, out: {Out: b}, attrs: {axes: [0], starts: [4], ends: [8]}}\n";
static const repeat repeats[] = {
    {"sums", reduces, "scale: {X: x}, out: {Out: w}, attrs: {scale: 3.0}", 2, false},
    {"sums", reduces, "assign: {X: x}, out: {Out: w}", 2, true},
    {"sums on rings of the same ranks", other_rings, "scale: {X: x}, out: {Out: w}, attrs: {scale: 3.0}", 2, false},
    {"sums on rings of the same ranks", other_rings, "assign: {X: x}, out: {Out: w}", 2, true},
    {"sums of lists", of_lists, "scale: {X: x}, out: {Out: w}, attrs: {scale: 3.0}", 2, false},
    {"sums of lists", of_lists, "assign: {X: x}, out: {Out: w}", 2, true},
    {"sums of buckets", buckets, "scale: {X: x}, out: {Out: w}, attrs: {scale: 3.0}", 2, false},
    {"sums of buckets", buckets, "assign: {X: x}, out: {Out: w}", 2, true},
    {"gathers", gathers, "scale: {X: x}, out: {Out: w}, attrs: {scale: 3.0}", 1, false},
    {"gathers", gathers, "assign: {X: x}, out: {Out: w}", 1, true},
};

static void put_rank(trial *t, int rank, const char *vars, const char *ops) {
    t->at = 0;
    put(t, t->ranks[rank], "weft: 1\nrank: %d\nrings: {0: [0, 1], 1: [0, 1]}\nmeshes:\n", rank);
    put(t, t->ranks[rank], "- {shape: [2], ids: [0, 1], dims: [a]}\nblocks:\n- idx: 0\n  vars:\n%s  ops:\n%s", vars,
        ops);
}

static void try_repeat(const repeat *c) {
    static trial t;
    static const char vars[] = "    x: {float32: [4], persistable: true}\n"
                               "    y: {float32: [2], persistable: true, dist: {mesh: 0, dims_mapping: [0]}}\n"
                               "    c: {float32: [2]}\n    w: {float32: [4]}\n    a: {float32: [4]}\n"
                               "    b: {float32: [4]}\n    f: {float32: [8]}\n    g: {float32: [8]}\n";
    char ops[2000];
    t.nranks = NRANKS;
    t.tolerance = 1e-6;
    for (int r = 0; r < NRANKS; r++) {
        snprintf(ops, sizeof ops,
                 "  - {%s}\n%s  - {slice: {Input: %s}, out: {Out: c}, attrs: {axes: [0], starts: [%d], ends: [%d]}}\n"
                 "  - {assign: {X: c}, out: {Out: y}}\n",
                 r ? c->other : "assign: {X: x}, out: {Out: w}", c->ops, r ? "b" : "a", 2 * r, 2 * r + 2);
        put_rank(&t, r, vars, ops);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [4], persistable: true}\n");
    put(&t, t.serial, "    y: {float32: [4], persistable: true}\n    a: {float32: [4]}\n  ops:\n");
    put(&t, t.serial, "  - {scale: {X: x}, out: {Out: a}, attrs: {scale: %g}}\n", c->factor);
    put(&t, t.serial, "  - {assign: {X: a}, out: {Out: y}}\n");
    trial_run(context, &t);
    check(t.equal == c->is_right, "%s: %s", c->what, t.equal ? "equal" : "not equal");
    check(t.proved == c->is_right, "%s: %s: %s", c->what, t.proved ? "proved" : "not proved", t.message);
}

/* A part of x among zeros, put together of single steps along a dimension: on each rank along its own. */
static void try_zeros(const int *dims) {
    static trial t;
    char vars[1200], ops[2000];
    t.nranks = NRANKS;
    t.tolerance = 0;
    for (int r = 0; r < NRANKS; r++) {
        int d = dims[r], first = 2 * r, step[3] = {2, 4, 4}, two[3] = {2, 4, 4}, pads[6] = {0};
        step[d] = 1, two[d] = 2;
        pads[2 * d] = first, pads[2 * d + 1] = 2 - first;
        snprintf(vars, sizeof vars,
                 "    x: {float32: [2, 4, 4], persistable: true}\n    y: {float32: [2, 4, 4], persistable: true}\n"
                 "    w: {float32: [%d, %d, %d]}\n    s: {float32: [%d, %d, %d]}\n    t: {float32: [%d, %d, %d]}\n"
                 "    p: {float32: [2, 4, 4], dist: {mesh: 0, dims_mapping: [-1, -1, -1], partial: [0]}}\n"
                 "    c: {float32: [2, 4, 4]}\n",
                 two[0], two[1], two[2], step[0], step[1], step[2], step[0], step[1], step[2]);
        snprintf(ops, sizeof ops,
                 "  - {slice: {Input: x}, out: {Out: s}, attrs: {axes: [%d], starts: [%d], ends: [%d]}}\n"
                 "  - {slice: {Input: x}, out: {Out: t}, attrs: {axes: [%d], starts: [%d], ends: [%d]}}\n"
                 "  - {concat: {X: [s, t]}, out: {Out: w}, attrs: {axis: %d}}\n"
                 "  - {pad: {X: w}, out: {Out: p}, attrs: {paddings: [%d, %d, %d, %d, %d, %d], pad_value: 0.0}}\n"
                 "  - {all_reduce: {x: p}, out: {out: c}, attrs: {ring_id: 0}}\n"
                 "  - {assign: {X: c}, out: {Out: y}}\n",
                 d, first, first + 1, d, first + 1, first + 2, d, pads[0], pads[1], pads[2], pads[3], pads[4], pads[5]);
        put_rank(&t, r, vars, ops);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [2, 4, 4], persistable: true}\n");
    put(&t, t.serial, "    y: {float32: [2, 4, 4], persistable: true}\n  ops:\n  - {assign: {X: x}, out: {Out: y}}\n");
    trial_run(context, &t);
    check(t.equal == (dims[0] == dims[1]), "zeros along %d and %d", dims[0], dims[1]);
    check(t.proved == t.equal, "zeros along %d and %d: %s: %s", dims[0], dims[1], t.proved ? "proved" : "not proved",
          t.message);
}

int main(void) {
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++) try_repeat(&repeats[i]);
    for (int i = 0; i < 4; i++) try_zeros((const int[2]){1 + i / 2, 1 + i % 2});
    weft_context_destroy(context);
    return report_checks();
}
