/* What a rank computes with that does not show that it is a part: against the serial program, run, and refused where it
 * is none. Of a concatenation of values some ranks have these values themselves, and of a value that is cut unevenly by
 * columns they take some rows. */
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

static weft_context *context;

static void put_rank(trial *t, int rank, const char *vars, const char *ops) {
    t->at = 0;
    put(t, t->ranks[rank], "weft: 1\nrank: %d\nrings: {0: [0", rank);
    for (int i = 1; i < t->nranks; i++) put(t, t->ranks[rank], ", %d", i);
    put(t, t->ranks[rank], "]}\nmeshes:\n- {shape: [%d], ids: [0", t->nranks);
    for (int i = 1; i < t->nranks; i++) put(t, t->ranks[rank], ", %d", i);
    put(t, t->ranks[rank], "], dims: [a]}\nblocks:\n- idx: 0\n  vars:\n%s  ops:\n%s", vars, ops);
}

/* --- values one behind another ------------------------------------------------------------------------------------ */

/* What the serial program puts one behind another, and what each rank takes for its part: names of two rows each. */
typedef struct rows {
    const char *what, *serial, *ranks[3];
    int nranks;
    bool is_right;
} rows;

static const rows all_rows[] = {
    {"one each", "xy", {"x", "y"}, 2, true},
    {"the other one", "xy", {"y", "x"}, 2, false},
    {"the first twice", "xy", {"x", "x"}, 2, false},
    {"the last twice", "xy", {"y", "y"}, 2, false},
    {"the same twice", "xx", {"x", "x"}, 2, true},
    {"another one", "xx", {"x", "y"}, 2, false},
    {"two each", "xyyx", {"xy", "yx"}, 2, true},
    {"two each, one of them another", "xyyx", {"xy", "xy"}, 2, false},
    {"two each, turned", "xyxy", {"xy", "yx"}, 2, false},
    {"one each of three", "xyx", {"x", "y", "x"}, 3, true},
    {"one each of three, in another order", "xyx", {"y", "x", "x"}, 3, false},
};

static const char *list_of(const char *names, char *out) {
    size_t n = 0;
    for (size_t i = 0; names[i]; i++) n += (size_t)sprintf(out + n, "%s%c", i ? ", " : "", names[i]);
    return out;
}

/* `sums`: what the ranks make of their parts is added up, as of a loss. */
static void try_rows(const rows *c, bool sums) {
    static trial t;
    static const char values[] = "    x: {float32: [2, 3], persistable: true}\n"
                                 "    y: {float32: [2, 3], persistable: true}\n";
    char vars[2000], ops[2000], list[40];
    int extent = (int)strlen(c->serial) * 2, part = extent / c->nranks;
    t.nranks = c->nranks;
    t.tolerance = 1e-5;
    for (int r = 0; r < c->nranks; r++) {
        snprintf(vars, sizeof vars,
                 "%s    r: {float32: [%d, 3], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1]}}\n"
                 "    z: {float32: [%d, 3], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1]}}\n"
                 "    s: {float32: [], persistable: true}\n    m: {float32: [%d, 3]}\n    c: {float32: [%d, 3]}\n"
                 "    o: {float32: []}\n    q: {float32: []}\n",
                 values, part, part, part, part);
        snprintf(
            ops, sizeof ops,
            "  - {concat: {X: [%s]}, out: {Out: c}, attrs: {axis: 0}}\n"
            "  - {elementwise_mul: {X: c, Y: r}, out: {Out: m}}\n"
            "  - {reduce_sum: {X: m}, out: {Out: o}, attrs: {reduce_all: true}}\n"
            "  - {all_reduce: {x: o}, out: {out: q}, attrs: {ring_id: 0}}\n  - {assign: {X: %s}, out: {Out: %s}}\n",
            list_of(c->ranks[r], list), sums ? "q" : "m", sums ? "s" : "z");
        put_rank(&t, r, vars, ops);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n%s    r: {float32: [%d, 3], persistable: true}\n", values,
        extent);
    put(&t, t.serial, "    z: {float32: [%d, 3], persistable: true}\n    s: {float32: [], persistable: true}\n",
        extent);
    put(&t, t.serial, "    c: {float32: [%d, 3]}\n    m: {float32: [%d, 3]}\n    o: {float32: []}\n", extent, extent);
    put(&t, t.serial, "  ops:\n  - {concat: {X: [%s]}, out: {Out: c}, attrs: {axis: 0}}\n", list_of(c->serial, list));
    put(&t, t.serial, "  - {elementwise_mul: {X: c, Y: r}, out: {Out: m}}\n");
    put(&t, t.serial, "  - {reduce_sum: {X: m}, out: {Out: o}, attrs: {reduce_all: true}}\n");
    put(&t, t.serial, "  - {assign: {X: %s}, out: {Out: %s}}\n", sums ? "o" : "m", sums ? "s" : "z");
    trial_run(context, &t);
    check(t.equal == c->is_right, "%s%s: %s", c->what, sums ? ", added up" : "", t.equal ? "equal" : "not equal");
    check(t.proved == c->is_right, "%s%s: %s: %s", c->what, sums ? ", added up" : "",
          t.proved ? "proved" : "not proved", t.message);
}

/* --- some rows of columns that differ ----------------------------------------------------------------------------- */

enum { ROWS = 6, COLUMNS = 5, TAKEN = 2 };

/* Of 6 rows of 3 and 2 columns each rank takes two, from this one on, and keeps so many of its columns. */
static void try_columns(int first, int other, bool turned) {
    static trial t;
    char vars[1200], ops[1200];
    t.nranks = 2;
    t.tolerance = 0;
    for (int r = 0; r < 2; r++) {
        int own = r ? 2 : 3, from = r ? other : first;
        snprintf(vars, sizeof vars,
                 "    p: {float32: [%d, %d], persistable: true, dist: {mesh: 0, dims_mapping: [-1, 0]}}\n"
                 "    z: {float32: [%d, %d], persistable: true, dist: {mesh: 0, dims_mapping: [-1, 0]}}\n"
                 "    c: {float32: [%d, %d], dist: {mesh: 0, dims_mapping: [-1, 0]}}\n"
                 "    d: {float32: [%d, %d], dist: {mesh: 0, dims_mapping: [-1, 0]}}\n",
                 ROWS, own, TAKEN, own, TAKEN, own, ROWS, own);
        snprintf(ops, sizeof ops,
                 "  - {scale: {X: p}, out: {Out: d}, attrs: {scale: %g}}\n"
                 "  - {slice: {Input: d}, out: {Out: c}, attrs: {axes: [0], starts: [%d], ends: [%d]}}\n"
                 "  - {assign: {X: c}, out: {Out: z}}\n",
                 turned && r ? -2.0 : 2.0, from, from + TAKEN);
        put_rank(&t, r, vars, ops);
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n    p: {float32: [%d, %d], persistable: true}\n", ROWS,
        COLUMNS);
    put(&t, t.serial, "    z: {float32: [%d, %d], persistable: true}\n    d: {float32: [%d, %d]}\n", TAKEN, COLUMNS,
        ROWS, COLUMNS);
    put(&t, t.serial, "    c: {float32: [%d, %d]}\n  ops:\n", TAKEN, COLUMNS);
    put(&t, t.serial, "  - {scale: {X: p}, out: {Out: d}, attrs: {scale: 2.0}}\n");
    put(&t, t.serial, "  - {slice: {Input: d}, out: {Out: c}, attrs: {axes: [0], starts: [%d], ends: [%d]}}\n", 1,
        1 + TAKEN);
    put(&t, t.serial, "  - {assign: {X: c}, out: {Out: z}}\n");
    trial_run(context, &t);
    bool is_right = first == 1 && other == 1 && !turned;
    check(t.equal == is_right, "rows from %d and %d%s", first, other, turned ? ", turned" : "");
    check(t.proved == is_right, "rows from %d and %d%s: %s: %s", first, other, turned ? ", turned" : "",
          t.proved ? "proved" : "not proved", t.message);
}

int main(void) {
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof all_rows / sizeof *all_rows; i++)
        for (int sums = 0; sums < 2; sums++) try_rows(&all_rows[i], sums);
    for (int first = 0; first <= ROWS - TAKEN; first++)
        for (int other = 0; other <= ROWS - TAKEN; other++) try_columns(first, other, false);
    try_columns(1, 1, true);
    weft_context_destroy(context);
    return report_checks();
}
