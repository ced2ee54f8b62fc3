/* Rows that two axes cut together into parts that differ, against the serial program: gathered along the inner axis,
 * filled up with zeros where they are shorter; or dealt out in the other order of the axes. Right, and with one thing
 * wrong: what is proved comes out equal, and what comes out equal is proved. */
#include <string.h>

#include "tests/support/plain.h"
#include "tests/support/rank_trial.h"

enum { WIDTH = 2, NRANKS = 4 };
typedef enum mistake { NO_MISTAKE, ZEROS_BEFORE, CUT_LATER, OTHER_ORDER, NMISTAKES } mistake;

/* So many rows of x on 2 x 2 ranks; `turned`: the second axis is the major one. They become rows of y: gathered along
 * the minor axis or, if `permutes`, of the same extents with the other axis as the major one. */
typedef struct nest {
    int rows;
    bool turned, permutes;
    mistake wrong; /* of the last rank that has it to make, or of all */
} nest;

static weft_context *context;

static int larger_half(int n) {
    return (n + 1) / 2;
}

/* The rows of a part, and where they begin: halves of halves. */
static int part_of(int rows, int part, int *out_first) {
    int major = part / 2 ? rows - larger_half(rows) : larger_half(rows), minor = larger_half(major);
    *out_first = (part / 2 ? larger_half(rows) : 0) + (part % 2 ? minor : 0);
    return part % 2 ? major - minor : minor;
}

/* Which part the rank has where the second axis is the major one, or the first. */
static int part_at(int rank, bool turned) {
    return turned ? rank % 2 * 2 + rank / 2 : rank;
}

static void put_head(trial *t, char *b, const nest *n, int rank, int own, int made) {
    bool to = n->permutes ? !n->turned : n->turned;
    char placed[30];
    snprintf(placed, sizeof placed, n->permutes ? "[[%d, %d], -1]" : "[%d, -1]", to, !to);
    put(t, b, "weft: 1\nrank: %d\nrings: {0: [", rank);
    for (int i = 0, count = 0; i < NRANKS; i++)
        if (n->permutes || (n->turned ? i % 2 == rank % 2 : i / 2 == rank / 2))
            put(t, b, "%s%d", count++ ? ", " : "", i);
    put(t, b, "]}\nmeshes:\n- {shape: [2, 2], ids: [0, 1, 2, 3], dims: [a, b]}\nblocks:\n- idx: 0\n  vars:\n");
    put(t, b, "    x: {float32: [%d, %d], persistable: true, dist: {mesh: 0, dims_mapping: [[%d, %d], -1]}}\n", own,
        WIDTH, n->turned, !n->turned);
    put(t, b, "    y: {float32: [%d, %d], persistable: true, dist: {mesh: 0, dims_mapping: %s}}\n", made, WIDTH,
        placed);
    put(t, b, "    c: {float32: [%d, %d], dist: {mesh: 0, dims_mapping: %s}}\n", made, WIDTH, placed);
}

/* False: the mistake cannot be made. */
static bool write_gather(trial *t, const nest *n, int rank) {
    char *b = t->ranks[rank];
    int first, part = part_at(rank, n->turned), own = part_of(n->rows, part, &first);
    int most = part_of(n->rows, part & 2, &first), made = most + part_of(n->rows, part | 1, &first);
    bool has_zeros = own < most, cuts = made < 2 * most, before = n->wrong == ZEROS_BEFORE && has_zeros;
    put_head(t, b, n, rank, own, made);
    put(t, b, "    p: {float32: [%d, %d]}\n    g: {float32: [%d, %d]}\n  ops:\n", most, WIDTH, 2 * most, WIDTH);
    if (has_zeros)
        put(t, b, "  - {pad: {X: x}, out: {Out: p}, attrs: {paddings: [%d, %d, 0, 0], pad_value: 0.0}}\n",
            before ? most - own : 0, before ? 0 : most - own);
    put(t, b, "  - {c_allgather: {X: %s}, out: {Out: %s}, attrs: {ring_id: 0, nranks: 2}}\n", has_zeros ? "p" : "x",
        cuts ? "g" : "c");
    int start = n->wrong == CUT_LATER;
    if (cuts)
        put(t, b, "  - {slice: {Input: g}, out: {Out: c}, attrs: {axes: [0], starts: [%d], ends: [%d]}}\n", start,
            start + made);
    put(t, b, "  - {assign: {X: c}, out: {Out: y}}\n");
    return n->wrong == NO_MISTAKE || n->wrong == ZEROS_BEFORE || n->wrong == CUT_LATER;
}

static bool write_permute(trial *t, const nest *n, int rank) {
    char *b = t->ranks[rank];
    int first, own = part_of(n->rows, part_at(rank, n->turned), &first);
    int need = part_at(rank, n->wrong == OTHER_ORDER ? n->turned : !n->turned), made = part_of(n->rows, need, &first);
    put_head(t, b, n, rank, own, made);
    put(t, b, "  ops:\n  - {all_to_all: {x: x}, out: {out: c}, attrs: {ring_id: 0, in_splits: !longs [");
    for (int i = 0; i < NRANKS; i++) {
        bool gives = part_at(i, n->wrong == OTHER_ORDER ? n->turned : !n->turned) == part_at(rank, n->turned);
        put(t, b, "%s%d", i ? ", " : "", gives ? own : 0);
    }
    put(t, b, "], out_splits: !longs [");
    for (int i = 0; i < NRANKS; i++) put(t, b, "%s%d", i ? ", " : "", part_at(i, n->turned) == need ? made : 0);
    put(t, b, "]}}\n  - {assign: {X: c}, out: {Out: y}}\n");
    int last;
    bool same = part_of(n->rows, 1, &first) == part_of(n->rows, 2, &last);
    return n->wrong == NO_MISTAKE || (n->wrong == OTHER_ORDER && same);
}

static void try_nest(const nest *n, int *nproved) {
    static trial t;
    char message[100] = "";
    t.nranks = NRANKS;
    t.tolerance = 0;
    for (int r = 0; r < NRANKS; r++) {
        t.at = 0;
        if (!(n->permutes ? write_permute : write_gather)(&t, n, r)) return;
    }
    t.at = 0;
    put(&t, t.serial, "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [%d, %d], persistable: true}\n", n->rows,
        WIDTH);
    put(&t, t.serial, "    y: {float32: [%d, %d], persistable: true}\n  ops:\n", n->rows, WIDTH);
    put(&t, t.serial, "  - {assign: {X: x}, out: {Out: y}}\n");
    trial_run(context, &t);
    check(t.proved == t.equal, "%d rows%s, %s, mistake %d: %s: %s", n->rows, n->turned ? ", turned" : "",
          n->permutes ? "dealt out" : "gathered", (int)n->wrong,
          t.equal ? "equal, and not proved" : "proved, and not equal", t.message);
    if (t.proved && !*nproved) check(trial_fail_each(&t, message, sizeof message), "%s", message);
    *nproved += t.proved;
}

int main(void) {
    int nproved = 0;
    must(weft_context_create(NULL, &context));
    for (int rows = 4; rows <= 12; rows++)
        for (int i = 0; i < 4 * NMISTAKES; i++)
            try_nest(&(nest){rows, (i & 1) != 0, (i & 2) != 0, (mistake)(i / 4)}, &nproved);
    check(nproved >= 36, "only %d are proved", nproved);
    weft_context_destroy(context);
    return report_checks();
}
