/* ops_fixture_cuts.c: whether ops of ranks that hold parts give parts, or partial sums, as the proof against a serial
 * program says (proof/spmd/lift_dims.c).
 *
 * Inputs are sharded in all ways. Where all outputs are said to be known, the kernel runs on every rank's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proof/spmd/lift.h"
#include "tests/support/kernel_run.h"
#include "tests/support/ops_fixture_run.h"

enum { MOST_ARGS = 10, MOST_WAYS = 3000, MOST_RANKS = 5 };

/* Equal parts; one element each, and the rest to the last rank; every n-th element. */
typedef enum parts { EVEN, UNEVEN, RUNS, PARTS } parts;
static const int splits[PARTS] = {SPLIT_EVEN, 1, SPLIT_RUNS};

typedef struct cutting {
    fixture_run *r;
    weft_op *op;
    const case_args *a;
    const tensor *in; /* before it ran: outputs may be inputs */
    uint64_t number;
    int64_t nranks;
    parts parts;
    terms t;
    size_t nargs, nout;
    uint32_t in_at[MOST_ARGS], out_at[MOST_ARGS]; /* of an argument of the op: its tensor */
    lifted args[MOST_ARGS];
    value own[MOST_ARGS], whole[MOST_ARGS]; /* a rank's, of its extents where parts are even; what it is a part of */
    const char *slots[MOST_ARGS];
    uint32_t out_id[MOST_ARGS];
    size_t out_index[MOST_ARGS]; /* in its slot */
    axis_placement out_placed[MOST_ARGS];
    bool out_mean[MOST_ARGS];
    int out_fold[MOST_ARGS]; /* 1 + a weft_reduce: what ranks have is that of their parts */
} cutting;

/* --- parts -------------------------------------------------------------------------------------------------------- */

static bool can_cut(const cutting *c, int64_t extent) {
    if (c->parts == UNEVEN) return extent > c->nranks;
    return extent >= c->nranks && extent % c->nranks == 0 && (c->parts == EVEN || extent > c->nranks);
}

/* How many elements of so many a rank has; *first, *step: which. */
static int64_t elements_of(const cutting *c, int64_t extent, int64_t rank, int64_t *first, int64_t *step) {
    int64_t count = extent / c->nranks;
    *step = c->parts == RUNS ? c->nranks : 1;
    *first = c->parts == EVEN ? rank * count : rank;
    return c->parts != UNEVEN ? count : rank < c->nranks - 1 ? 1 : extent - rank;
}

/* What a rank holds of the tensor, or room for it. */
static bool take_part(const cutting *c, const tensor *from, axis_placement placed, int64_t rank, bool filled,
                      tensor *to) {
    int d = sharded_dim(placed);
    *to = *from;
    if (d < 0) {
        tensor *copy = fixture_copies(c->r, from, 1, filled, false);
        if (copy) *to = *copy;
        return copy != NULL;
    }
    int64_t extent = from->dims[d], first, step, count = elements_of(c, extent, rank, &first, &step);
    to->dims[d] = count;
    to->numel = extent ? from->numel / extent * count : 0;
    size_t inner = weft_dtype_nbytes(from->dtype), nbytes = (size_t)to->numel * inner;
    if (!(to->data = arena_alloc(&c->r->arena, nbytes + 1))) return false;
    for (int i = d + 1; i < from->ndim; i++) inner *= (size_t)from->dims[i];
    for (size_t at = 0, k = 0; filled && at < nbytes; at += inner, k++) {
        int64_t outer = (int64_t)k / count, own = (int64_t)k % count;
        memcpy((char *)to->data + at, (char *)from->data + (size_t)(outer * extent + first + own * step) * inner,
               inner);
    }
    return true;
}

static double element(const tensor *t, int64_t i) {
    switch (t->dtype) {
    case WEFT_FP32: return (double)((float *)t->data)[i];
    case WEFT_FP64: return ((double *)t->data)[i];
    case WEFT_INT64: return (double)((int64_t *)t->data)[i];
    case WEFT_INT32: return (double)((int32_t *)t->data)[i];
    default: return (double)((uint8_t *)t->data)[i];
    }
}

static bool is_close(double found, double wanted) {
    return found == wanted || fabs(found - wanted) <= 2e-4 * (1.0 + fabs(wanted)) || (isnan(found) && isnan(wanted));
}

/* By how much a mean over a rank's part is too large: 1 by its share of the elements. */
static double times_of(const cutting *c, size_t k, int64_t rank) {
    if (!c->out_mean[k]) return 1;
    if (c->parts != UNEVEN) return (double)c->nranks;
    size_t i = 0;
    while (!is_sharded(c->args[i].placed[0])) i++;
    int64_t first, step, extent = c->in[c->in_at[i]].dims[c->args[i].placed[0].dim];
    return (double)extent / (double)elements_of(c, extent, rank, &first, &step);
}

static double fold(int reduce, double a, double b) {
    if (reduce == WEFT_REDUCE_PROD) return a * b;
    return (reduce == WEFT_REDUCE_MAX) == (a > b) ? a : b;
}

/* Whether the ranks' outputs are what is said of them. */
static bool is_as_said(const cutting *c, size_t k, const tensor *whole, const tensor *out) {
    tensor want;
    for (int64_t rank = 0; rank < c->nranks; rank++) {
        if (!take_part(c, whole, c->out_placed[k], rank, true, &want)) return false;
        for (int64_t i = 0; i < want.numel; i++) {
            double found = element(&out[rank], i) / times_of(c, k, rank);
            for (int64_t j = 0; j < c->nranks; j++) {
                if (j == rank) continue;
                if (is_partial(c->out_placed[k])) found += element(&out[j], i) / times_of(c, k, j);
                if (c->out_fold[k]) found = fold(c->out_fold[k] - 1, found, element(&out[j], i));
            }
            if (!is_close(found, element(&want, i))) return false;
        }
    }
    return true;
}

/* --- one way to cut ----------------------------------------------------------------------------------------------- */

static bool knows_outputs(cutting *c) {
    bool known = true;
    arena memory;
    arena_init(&memory, &c->r->context->allocator);
    for (size_t k = 0; k < c->nout && known; k++) {
        sharded_inputs in = {c->op, &c->t, c->args, c->own, c->nargs, 0, c->out_index[k], &memory};
        sharded_result found;
        weft_status status = sharded_output(&in, c->out_id[k], &found);
        c->out_placed[k] = found.placed;
        c->out_mean[k] = found.mean != 0;
        c->out_fold[k] = found.folds ? 1 + found.reduce : 0;
        known = found.is_known && !found.attr; /* else parts have another op than the whole */
        if (status) known = fixture_fail_status(c->r, status);
    }
    arena_fini(&memory);
    return known && c->nout > 0;
}

typedef char place_text[16];

static const char *text_of(axis_placement placed, char *to) {
    if (is_sharded(placed)) return snprintf(to, sizeof(place_text), "dimension %d", placed.dim), to;
    return is_partial(placed) ? "partial" : "replicated";
}

static bool check_way(cutting *c) {
    tensor *in[MOST_RANKS], *out[MOST_RANKS];
    place_text to[4];
    if (!knows_outputs(c)) return true;
    for (int64_t rank = 0; rank < c->nranks; rank++) {
        in[rank] = fixture_copies(c->r, c->in, c->a->nin, true, false);
        out[rank] = fixture_copies(c->r, c->a->out, c->a->nout, false, false);
        if (!in[rank] || !out[rank]) return fixture_fail(c->r, "out of memory");
        for (size_t i = 0; i < c->nargs; i++)
            if (!take_part(c, &c->in[c->in_at[i]], c->args[i].placed[0], rank, true, &in[rank][c->in_at[i]]))
                return fixture_fail(c->r, "out of memory");
        for (size_t k = 0; k < c->nout; k++)
            if (!take_part(c, &c->a->out[c->out_at[k]], c->out_placed[k], rank, false, &out[rank][c->out_at[k]]))
                return fixture_fail(c->r, "out of memory");
        weft_status status =
            kernel_run_op(c->op, in[rank], c->a->in_first, out[rank], c->a->out_first, c->number, &c->r->arena);
        if (status) return fixture_fail_status(c->r, status);
    }
    for (size_t k = 0; k < c->nout; k++) {
        tensor all[MOST_RANKS];
        for (int64_t rank = 0; rank < c->nranks; rank++) all[rank] = out[rank][c->out_at[k]];
        if (!is_as_said(c, k, &c->a->out[c->out_at[k]], all))
            return fixture_fail(c->r, "%s: output %zu of ranks that hold parts is not %s, of inputs %s %s %s",
                                c->op->type->bytes, k, text_of(c->out_placed[k], to[0]),
                                text_of(c->args[0].placed[0], to[1]),
                                c->nargs > 1 ? text_of(c->args[1].placed[0], to[2]) : "-",
                                c->nargs > 2 ? text_of(c->args[2].placed[0], to[3]) : "-");
    }
    c->r->nlinear++;
    return true;
}

/* A rank's argument, as it is where parts are even. */
static bool make_own(cutting *c, size_t at, int d) {
    const tensor *x = &c->in[c->in_at[at]];
    shape s = {.dtype = (int32_t)x->dtype, .ndim = x->ndim, .height = -1};
    c->own[at] = c->whole[at];
    if (d < 0 || c->parts != EVEN) return true;
    memcpy(s.dims, x->dims, sizeof s.dims);
    s.dims[d] /= c->nranks;
    weft_status status = term_leaf(&c->t, HEAD_INPUT, c->slots[at], &s, &c->own[at].term);
    return status ? fixture_fail_status(c->r, status) : true;
}

static bool check_all_ways(cutting *c, size_t from, bool any) {
    if (from == c->nargs) return !any || check_way(c);
    const tensor *x = &c->in[c->in_at[from]];
    for (int d = -1; d < x->ndim; d++) {
        if (d >= 0 && !can_cut(c, x->dims[d])) continue;
        c->args[from].placed[0] = d < 0 ? REPLICATED : sharded_by(d, splits[c->parts]);
        if (!make_own(c, from, d)) return false;
        if (!check_all_ways(c, from + 1, any || d >= 0)) return false;
    }
    return true;
}

/* --- an op -------------------------------------------------------------------------------------------------------- */

static bool add_place(cutting *c, const char *slot_text, const tensor *x, uint32_t *out) {
    shape s = {.dtype = (int32_t)x->dtype, .ndim = x->ndim, .height = -1};
    memcpy(s.dims, x->dims, sizeof s.dims);
    weft_status status = term_leaf(&c->t, HEAD_INPUT, slot_text, &s, out);
    return status ? fixture_fail_status(c->r, status) : true;
}

/* The arguments in the op's order; false: it cannot be cut, or that failed. */
static bool gather(cutting *c, bool is_output, bool *out_fits) {
    const op_schema *s = op_schema_of(c->op);
    size_t n = 0, ways = 1;
    *out_fits = false;
    for (uint32_t i = 0; i < op_nslots(c->op, is_output); i++) {
        const slot *given = op_slot(c->op, is_output, i);
        size_t at = 0, count = is_output ? s->noutputs : s->ninputs;
        while (at < count && !name_is(given->name, is_output ? s->outputs[at].name : s->inputs[at].name)) at++;
        if (given->nargs && at == count) return true;
        if (is_output && given->nargs && s->outputs[at].untouched) continue; /* no kernel writes it */
        for (uint32_t k = 0; k < given->nargs; k++, n++) {
            uint32_t to = (is_output ? c->a->out_first : c->a->in_first)[at] + k;
            const tensor *x = is_output ? &c->a->out[to] : &c->in[to];
            if (n == MOST_ARGS || x->dtype == WEFT_DTYPE_NONE || x->rows || x->dtype == WEFT_FP16 ||
                x->dtype == WEFT_BF16)
                return true;
            if ((ways *= (size_t)x->ndim + 1) > MOST_WAYS) return true;
            (is_output ? c->out_at : c->in_at)[n] = to;
            uint32_t id;
            if (!add_place(c, given->name->bytes, x, &id)) return false;
            if (is_output)
                c->out_id[n] = id, c->out_index[n] = k;
            else
                c->slots[n] = given->name->bytes, c->whole[n] = value_of(id), c->args[n] = lift_replicated(id);
        }
    }
    *(is_output ? &c->nout : &c->nargs) = n;
    *out_fits = true;
    return true;
}

bool fixture_check_cuts(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    cutting c = {.r = r, .op = op, .a = a, .number = number, .in = fixture_copies(r, a->in, a->nin, true, false)};
    if (!c.in) return fixture_fail(r, "out of memory");
    weft_status status = kernel_run_op(op, a->in, a->in_first, a->out, a->out_first, number, &r->arena);
    if (status) return fixture_fail_status(r, status);
    if (op_has_effect(op, OP_RANDOM) || op_has_effect(op, OP_ALIASES)) return true;
    status = terms_init(&c.t, r->context);
    if (status) return fixture_fail_status(r, status);
    bool fits = false, good = gather(&c, false, &fits);
    if (good && fits) good = gather(&c, true, &fits);
    for (c.nranks = 2; good && fits && c.nranks <= MOST_RANKS; c.nranks++)
        for (c.parts = EVEN; good && c.parts < PARTS; c.parts++) good = check_all_ways(&c, 0, false);
    terms_fini(&c.t);
    return good;
}
