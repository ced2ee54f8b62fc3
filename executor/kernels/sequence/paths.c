/* paths.c: the best path through a lattice (viterbi_decode), beams read back to their roots (gather_tree), and how many
 * edits make one sequence another (edit_distance; Levenshtein).
 *
 * Paths are as long as the longest sequence; what is behind a sequence's end is 0. Paddle:
 * phi/kernels/cpu/{viterbi_decode,gather_tree,edit_distance}_kernel.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

/* --- viterbi_decode ------------------------------------------------------------------------------------------------ */

enum { IN_SCORES, IN_MOVES, IN_LENGTH, OUT_SCORES = 0, OUT_PATH };

typedef struct lattice {
    int64_t batch, steps, tags, longest;
    bool has_ends; /* the last two rows of the moves are those to the end, and from the beginning */
} lattice;

static weft_status prepare_viterbi(kernel_prepare *p) {
    lattice *s = KERNEL_STATE(p, lattice);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_SCORES), *moves = type_in(p, IN_MOVES), *path = type_out(p, OUT_PATH);
    TRY(require_real(p, x, "Input"));
    if (x->ndim != 3) return kernel_unsupported(p, "expected Input [batch, step, tag], found %d dimensions", x->ndim);
    *s = (lattice){x->dims[0], x->dims[1], x->dims[2], 0, attr_bool(p->op, "include_bos_eos_tag", true)};
    TRY(require_present(p, moves, "Transition"));
    TRY(require_like(p, x, moves, s->tags * s->tags, "Transition"));
    TRY(require_integers(p, type_in(p, IN_LENGTH), "Length"));
    TRY(require_numel(p, type_in(p, IN_LENGTH), s->batch, "Length"));
    TRY(require_present(p, type_out(p, OUT_SCORES), "Scores"));
    TRY(require_like(p, x, type_out(p, OUT_SCORES), s->batch, "Scores"));
    TRY(require_integers(p, path, "Path"));
    if (path->ndim != 2 || path->dims[0] != s->batch || path->dims[1] > s->steps || s->tags < (s->has_ends ? 2 : 1))
        return kernel_unsupported(p, "expected a row of at most %lld tags in Path", (long long)s->steps);
    s->longest = path->dims[1];
    p->workspace_nbytes = (size_t)s->tags * (2 * sizeof(double) + (size_t)s->steps * sizeof(int64_t));
    return NULL;
}

static int64_t largest(const double *values, int64_t n) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        if (values[k] > values[best]) best = k;
    return best;
}

/* from[t * tags + tag]: the best tag before it. */
static double best_path(const kernel_call *c, int64_t row, int64_t length, int64_t *from, int64_t *out_last) {
    const lattice *s = c->state;
    const tensor *x = arg_in(c, IN_SCORES), *moves = arg_in(c, IN_MOVES);
    int64_t n = s->tags, first = row * s->steps * n;
    double *now = c->workspace, *next = now + n;
    for (int64_t k = 0; k < n; k++)
        now[k] = tensor_real(x, first + k) + (s->has_ends ? tensor_real(moves, (n - 1) * n + k) : 0);
    for (int64_t t = 1; t < length; t++) {
        for (int64_t k = 0; k < n; k++) {
            double best = -INFINITY;
            from[t * n + k] = 0;
            for (int64_t j = 0; j < n; j++) {
                double score = now[j] + tensor_real(moves, j * n + k);
                if (!(score > best)) continue;
                best = score;
                from[t * n + k] = j;
            }
            next[k] = best + tensor_real(x, first + t * n + k);
        }
        memcpy(now, next, (size_t)n * sizeof *now);
    }
    for (int64_t k = 0; s->has_ends && k < n; k++) now[k] += tensor_real(moves, (n - 2) * n + k);
    *out_last = largest(now, n);
    return now[*out_last];
}

static weft_status run_viterbi(const kernel_call *c) {
    const lattice *s = c->state;
    tensor *path = arg_out(c, OUT_PATH);
    int64_t *from = (int64_t *)(void *)((double *)c->workspace + 2 * s->tags), longest = 0;
    tensor_clear(path);
    for (int64_t row = 0; row < s->batch; row++) {
        int64_t length = tensor_integer(arg_in(c, IN_LENGTH), row), tag;
        if (length < 1 || length > s->longest)
            return kernel_failed(c, "Length: expected 1 to %lld, found %lld", (long long)s->longest, (long long)length);
        if (length > longest) longest = length;
        tensor_set_real(arg_out(c, OUT_SCORES), row, best_path(c, row, length, from, &tag));
        for (int64_t t = length - 1; t >= 0; t--) {
            tensor_set_integer(path, row * s->longest + t, tag);
            if (t) tag = from[t * s->tags + tag];
        }
    }
    if (s->batch && longest != s->longest)
        return kernel_failed(c, "Length: expected a sequence of %lld, found at most %lld", (long long)s->longest,
                             (long long)longest);
    return NULL;
}

const kernel kernel_viterbi_decode = {prepare_viterbi, run_viterbi};

/* --- gather_tree --------------------------------------------------------------------------------------------------- */

static weft_status prepare_tree(kernel_prepare *p) {
    const tensor *ids = type_in(p, 0);
    TRY(require_integers(p, ids, "Ids"));
    TRY(require_integers(p, type_in(p, 1), "Parents"));
    TRY(require_present(p, type_out(p, 0), "Out"));
    for (int k = 0; k < 2; k++) {
        const tensor *t = k ? type_out(p, 0) : type_in(p, 1);
        TRY(require_numel(p, t, ids->numel, k ? "Out" : "Parents"));
        TRY(require_same_dtype(p, ids, t, k ? "Out" : "Parents"));
    }
    return ids->ndim == 3 ? NULL : kernel_unsupported(p, "expected Ids [step, batch, beam]");
}

static weft_status run_tree(const kernel_call *c) {
    const tensor *ids = arg_in(c, 0), *parents = arg_in(c, 1);
    int64_t steps = ids->dims[0], batch = ids->dims[1], beams = ids->dims[2];
    for (int64_t i = 0; i < batch * beams; i++)
        for (int64_t t = steps - 1, beam = i % beams; t >= 0; t--) {
            int64_t row = (t * batch + i / beams) * beams;
            if (beam < 0 || beam >= beams)
                return kernel_failed(c, "Parents: expected 0 to %lld, found %lld", (long long)beams - 1,
                                     (long long)beam);
            tensor_set_integer(arg_out(c, 0), row + i % beams, tensor_integer(ids, row + beam));
            beam = tensor_integer(parents, row + beam);
        }
    return NULL;
}

const kernel kernel_gather_tree = {prepare_tree, run_tree};

/* --- edit_distance ------------------------------------------------------------------------------------------------- */

enum { IN_HYPS, IN_REFS, IN_HYPS_LENGTH, IN_REFS_LENGTH, OUT_COUNT = 0, OUT_DISTANCE };

static weft_status prepare_distance(kernel_prepare *p) {
    const tensor *hyps = type_in(p, IN_HYPS), *refs = type_in(p, IN_REFS), *out = type_out(p, OUT_DISTANCE);
    bool *normalized = KERNEL_STATE(p, bool);
    if (!normalized) return base_out_of_memory();
    for (int k = IN_HYPS; k <= IN_REFS_LENGTH; k++) TRY(require_integers(p, type_in(p, k), p->schema->inputs[k].name));
    if (hyps->ndim != 2 || refs->ndim != 2 || hyps->dims[0] != refs->dims[0])
        return kernel_unsupported(p, "expected a row of Hyps for each of Refs");
    for (int k = IN_HYPS_LENGTH; k <= IN_REFS_LENGTH; k++)
        TRY(require_numel(p, type_in(p, k), hyps->dims[0], p->schema->inputs[k].name));
    TRY(require_real(p, out, "Out"));
    TRY(require_numel(p, out, hyps->dims[0], "Out"));
    if (type_out(p, OUT_COUNT)) TRY(require_integers(p, type_out(p, OUT_COUNT), "SequenceNum"));
    *normalized = attr_bool(p->op, "normalized", false);
    p->workspace_nbytes = 2 * (size_t)(refs->dims[1] + 1) * sizeof(int64_t);
    return NULL;
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Of m of one row's elements and n of the other's. */
static int64_t distance_of(const kernel_call *c, int64_t row, int64_t m, int64_t n) {
    const tensor *hyps = arg_in(c, IN_HYPS), *refs = arg_in(c, IN_REFS);
    int64_t *now = c->workspace, *before = now + refs->dims[1] + 1;
    for (int64_t j = 0; j <= n; j++) now[j] = j;
    for (int64_t i = 1; i <= m; i++) {
        memcpy(before, now, (size_t)(n + 1) * sizeof *now);
        now[0] = i;
        for (int64_t j = 1; j <= n; j++) {
            bool same = tensor_integer(hyps, row * hyps->dims[1] + i - 1) ==
                        tensor_integer(refs, row * refs->dims[1] + j - 1);
            now[j] = lesser(lesser(now[j - 1], before[j]) + 1, before[j - 1] + !same);
        }
    }
    return now[n];
}

static weft_status run_distance(const kernel_call *c) {
    const tensor *hyps = arg_in(c, IN_HYPS), *refs = arg_in(c, IN_REFS);
    bool normalized = *(const bool *)c->state;
    if (arg_out(c, OUT_COUNT)) tensor_set_integer(arg_out(c, OUT_COUNT), 0, hyps->dims[0]);
    for (int64_t row = 0; row < hyps->dims[0]; row++) {
        int64_t m = tensor_integer(arg_in(c, IN_HYPS_LENGTH), row), n = tensor_integer(arg_in(c, IN_REFS_LENGTH), row);
        if (m < 0 || m > hyps->dims[1] || n < 0 || n > refs->dims[1] || (normalized && n == 0))
            return kernel_failed(c, "row %lld: expected lengths of at most %lld and %lld, found %lld and %lld",
                                 (long long)row, (long long)hyps->dims[1], (long long)refs->dims[1], (long long)m,
                                 (long long)n);
        double distance = (double)distance_of(c, row, m, n);
        tensor_set_real(arg_out(c, OUT_DISTANCE), row, normalized ? distance / (double)n : distance);
    }
    return NULL;
}

const kernel kernel_edit_distance = {prepare_distance, run_distance};
