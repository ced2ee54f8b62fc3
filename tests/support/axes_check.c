#include "tests/support/axes_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/infer.h"
#include "tests/support/kernel_run.h"

enum { MOST_ARGS = 24, MOST_RANKS = 4, MOST_PLACES = 24, MOST_WAYS = 4000, MOST_ROWS = 96, MOST_PAIRS = 40 };

/* Along one mesh axis: replicated, sharded along a dimension, or partial. */
enum { REPLICATED = -1, PARTIAL = 100 };

typedef struct way {
    int8_t in[MOST_ARGS];
} way;

typedef struct trial {
    axes_check *c;
    axes_tally *tally;
    weft_op *op;
    const op_schema *schema;
    const uint32_t *in_first, *out_first;
    const tensor *in;
    tensor *out; /* the whole's */
    axes_rule rule;
    uint32_t nin, nout;
    arena arena;   /* of the trial */
    arena scratch; /* of one placement */
    way allowed[MOST_ROWS];
    size_t nallowed;
    char why[AXES_TEXT_ROOM];
} trial;

/* --- elements ----------------------------------------------------------------------------------------------------- */

static double get(const tensor *t, int64_t i) {
    switch ((int)t->dtype) {
    case WEFT_FP32: return (double)((float *)t->data)[i];
    case WEFT_FP64: return ((double *)t->data)[i];
    case WEFT_INT64: return (double)((int64_t *)t->data)[i];
    case WEFT_INT32: return (double)((int32_t *)t->data)[i];
    default: return (double)((uint8_t *)t->data)[i];
    }
}

static void put(tensor *t, int64_t i, double x) {
    switch ((int)t->dtype) {
    case WEFT_FP32: ((float *)t->data)[i] = (float)x; break;
    case WEFT_FP64: ((double *)t->data)[i] = x; break;
    case WEFT_INT64: ((int64_t *)t->data)[i] = (int64_t)x; break;
    case WEFT_INT32: ((int32_t *)t->data)[i] = (int32_t)x; break;
    default: ((uint8_t *)t->data)[i] = (uint8_t)x; break;
    }
}

static bool is_float(const tensor *t) {
    return t->dtype == WEFT_FP32 || t->dtype == WEFT_FP64;
}

static bool can_read(const tensor *t) {
    return is_float(t) || t->dtype == WEFT_INT64 || t->dtype == WEFT_INT32 || t->dtype == WEFT_BOOL ||
           t->dtype == WEFT_UINT8 || t->dtype == WEFT_DTYPE_NONE;
}

static uint32_t mix(uint64_t a, uint64_t b) {
    uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xC2B2AE3D27D4EB4Fu + 0x165667B19E3779F9u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* What rank `at` of n holds of element x of a partial value: shares of a sum are uneven and of both signs, of a maximum
 * one rank has the element and the others less, each by its own amount. */
static double share_of(int reduce, double x, int64_t n, int64_t at, uint32_t h) {
    bool whole = x == floor(x);
    double offset = (double)(1 + h % 7) * (h & 8 ? 1 : -1) * (whole ? 1 : 0.125 + fabs(x) / 8), part = 0.6 * x, rest;
    int64_t owner = h % n;
    if (whole) part = floor(part);
    switch (reduce) {
    case WEFT_REDUCE_SUM:
        rest = x - (part + offset);
        if (at == 0) return part + offset;
        return n == 2 ? rest : at == 1 ? rest - 2 * offset : 2 * offset;
    case WEFT_REDUCE_AVG:
        return n == 2 ? (at ? x - offset : x + offset) : x + offset * (at == 0 ? 1 : at == 1 ? 2 : -3);
    case WEFT_REDUCE_MAX: return at == owner ? x : x - (double)(1 + (h >> 8) % 5 + (uint32_t)at) * (whole ? 1 : 0.25);
    case WEFT_REDUCE_MIN: return at == owner ? x : x + (double)(1 + (h >> 8) % 5 + (uint32_t)at) * (whole ? 1 : 0.25);
    case WEFT_REDUCE_PROD: return at == owner ? 2 * x : at == (owner + 1) % n ? 0.5 : 1;
    case WEFT_REDUCE_ANY: return x != 0 && at == owner;
    default: return x != 0 || at != owner; /* ALL */
    }
}

static bool make_room(tensor *t, arena *a) {
    t->numel = 1;
    for (int d = 0; d < t->ndim; d++) t->numel *= t->dims[d];
    t->data = arena_alloc(a, (size_t)t->numel * 8 + 256);
    if (t->data) memset(t->data, 0xff, (size_t)t->numel * weft_dtype_nbytes(t->dtype));
    return t->data != NULL;
}

/* The flat index in `whole` of element `i` of a part. */
static int64_t index_in(const tensor *whole, const tensor *part, const int64_t *offset, int64_t i) {
    int64_t index = 0, step = 1;
    for (int d = whole->ndim - 1; d >= 0; d--) {
        index += (offset[d] + i % part->dims[d]) * step;
        i /= part->dims[d];
        step *= whole->dims[d];
    }
    return index;
}

static bool take_input(trial *t, const axes_mesh *on, const axes_placed *p, size_t k, const int64_t *at, tensor *to) {
    const tensor *from = &t->in[k];
    int64_t offset[WEFT_MAX_RANK];
    *to = *from;
    if (from->dtype == WEFT_DTYPE_NONE) return true;
    axes_part(on, p, from->ndim, from->dims, at, offset, to->dims);
    if (!make_room(to, &t->scratch)) return false;
    for (int64_t i = 0; i < to->numel; i++) {
        int64_t index = index_in(from, to, offset, i);
        double x = get(from, index);
        bool any = false;
        for (int axis = 0; axis < on->naxes; axis++) {
            any |= p->partial[axis] != 0;
            if (p->partial[axis])
                x = share_of(p->partial[axis] - 1, x, on->extent[axis], at[axis],
                             mix((uint64_t)index, k * 8 + (uint64_t)axis));
        }
        if (any)
            put(to, i, x);
        else
            memcpy((char *)to->data + (size_t)i * weft_dtype_nbytes(to->dtype),
                   (char *)from->data + (size_t)index * weft_dtype_nbytes(to->dtype), weft_dtype_nbytes(to->dtype));
    }
    return true;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

static shape type_of(const tensor *x) {
    shape s = {.dtype = (int32_t)x->dtype, .ndim = x->ndim, .height = x->height};
    memcpy(s.dims, x->dims, sizeof s.dims);
    return s;
}

/* Types of outputs on these inputs; those that inference leaves open stay as they are. */
static weft_status infer_outputs(trial *t, const tensor *in, tensor *out) {
    shape *types = ARENA_ARRAY(&t->scratch, shape, t->nin + 1), *made = ARENA_ARRAY(&t->scratch, shape, t->nout + 1);
    const int64_t **values = ARENA_ARRAY(&t->scratch, const int64_t *, t->nin + 1);
    const int64_t **out_values = ARENA_ARRAY(&t->scratch, const int64_t *, t->nout + 1);
    if (!types || !made || !values || !out_values) return base_out_of_memory();
    for (uint32_t i = 0; i < t->nin; i++) {
        types[i] = type_of(&in[i]);
        bool small = (in[i].dtype == WEFT_INT64 || in[i].dtype == WEFT_INT32) && in[i].numel <= WEFT_MAX_RANK;
        int64_t *list = small ? ARENA_ARRAY(&t->scratch, int64_t, in[i].numel + 1) : NULL;
        for (int64_t k = 0; list && k < in[i].numel; k++) list[k] = (int64_t)get(&in[i], k);
        values[i] = list;
    }
    for (uint32_t i = 0; i < t->nout; i++) {
        made[i] = type_of(&out[i]);
        made[i].ndim = -1;
    }
    infer call = {.op = t->op, .schema = t->schema, .in = types, .in_first = t->in_first, .out = made};
    call.out_first = t->out_first;
    call.in_values = values;
    call.out_values = out_values;
    call.memory = &t->scratch;
    TRY(t->schema->infer(&call));
    for (uint32_t i = 0; i < t->nout; i++) {
        if (out[i].dtype == WEFT_DTYPE_NONE) continue;
        out[i].dtype = (weft_dtype)made[i].dtype;
        if (made[i].ndim < 0) continue;
        bool known = true;
        for (int d = 0; d < made[i].ndim; d++) known &= made[i].dims[d] >= 0;
        if (!known) continue;
        out[i].ndim = made[i].ndim;
        out[i].height = made[i].height;
        memcpy(out[i].dims, made[i].dims, sizeof out[i].dims);
    }
    return NULL;
}

/* Sparse rows as the whole tensor, so that it can be compared. */
static bool spread_rows(trial *t, tensor *x) {
    if (!x->rows) return true;
    tensor dense = *x;
    dense.rows = NULL;
    dense.height = -1;
    dense.dims[0] = x->height;
    if (!make_room(&dense, &t->scratch)) return false;
    for (int64_t i = 0; i < dense.numel; i++) put(&dense, i, 0);
    int64_t width = x->dims[0] ? x->numel / x->dims[0] : 0;
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t to = x->rows[i / width] * width + i % width;
        put(&dense, to, get(&dense, to) + get(x, i));
    }
    *x = dense;
    return true;
}

/* Runs the kernel on `in`; outputs as inference says, or else as `out` comes. */
static weft_status run_kernel(trial *t, const tensor *in, tensor *out) {
    TRY(infer_outputs(t, in, out));
    for (uint32_t i = 0; i < t->nout; i++) {
        if (out[i].dtype == WEFT_DTYPE_NONE) continue;
        if (!make_room(&out[i], &t->scratch)) return base_out_of_memory();
        if (out[i].height >= 0 && !(out[i].rows = ARENA_ARRAY(&t->scratch, int64_t, out[i].dims[0] + 1)))
            return base_out_of_memory();
    }
    TRY(kernel_run_op(t->op, in, t->in_first, out, t->out_first, 7, &t->scratch));
    for (uint32_t i = 0; i < t->nout; i++)
        if (!spread_rows(t, &out[i])) return base_out_of_memory();
    return NULL;
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static int64_t nranks_of(const axes_mesh *on) {
    int64_t n = 1;
    for (int i = 0; i < on->naxes; i++) n *= on->extent[i];
    return n;
}

static void coordinates(const axes_mesh *on, int64_t rank, int64_t *at) {
    for (int i = on->naxes - 1; i >= 0; i--) {
        at[i] = rank % on->extent[i];
        rank /= on->extent[i];
    }
}

static double reduce_two(int reduce, double a, double b) {
    switch (reduce) {
    case WEFT_REDUCE_MAX:
    case WEFT_REDUCE_ANY: return a > b || isnan(a) ? a : b;
    case WEFT_REDUCE_MIN:
    case WEFT_REDUCE_ALL: return a < b || isnan(a) ? a : b;
    case WEFT_REDUCE_PROD: return a * b;
    default: return a + b;
    }
}

/* Element `i` of what ranks hold who differ from `rank` along axes on which it is partial, reduced. */
static double reduced(const axes_mesh *on, const axes_placed *p, tensor *const *out, size_t k, int64_t rank,
                      int64_t i) {
    double sum = get(&out[rank][k], i), count = 1;
    int64_t at[AXES_MESH], own[AXES_MESH];
    int kind = WEFT_REDUCE_SUM;
    coordinates(on, rank, own);
    for (int axis = 0; axis < on->naxes; axis++) {
        if (p->partial[axis]) kind = p->partial[axis] - 1;
        if (p->partial[axis] == 1 + WEFT_REDUCE_AVG) count *= (double)on->extent[axis];
    }
    for (int64_t other = 0; other < nranks_of(on); other++) {
        bool joins = other != rank;
        coordinates(on, other, at);
        for (int axis = 0; axis < on->naxes; axis++) joins &= at[axis] == own[axis] || p->partial[axis];
        if (joins) sum = reduce_two(kind, sum, get(&out[other][k], i));
    }
    return sum / count;
}

static bool same_dims(const tensor *a, int32_t ndim, const int64_t *dims) {
    return a->ndim == ndim && (ndim == 0 || memcmp(a->dims, dims, (size_t)ndim * sizeof *dims) == 0);
}

/* Whether output k lies as `p` says. *nfinite: elements that tell something. */
static bool is_placed(const trial *t, const axes_mesh *on, const axes_placed *p, tensor *const *out, size_t k,
                      int64_t *nfinite) {
    const tensor *whole = &t->out[k];
    double largest = 0, times = 1;
    bool sums = false; /* of infinite addends there is no telling */
    for (int64_t i = 0; i < whole->numel; i++)
        if (isfinite(get(whole, i))) largest = fmax(largest, fabs(get(whole, i)));
    for (int64_t rank = 0; rank < nranks_of(on); rank++)
        for (int64_t i = 0; i < out[rank][k].numel; i++)
            if (isfinite(get(&out[rank][k], i))) largest = fmax(largest, fabs(get(&out[rank][k], i)));
    for (int axis = 0; axis < on->naxes; axis++)
        if (p->times >> axis & 1) times *= (double)on->extent[axis];
    for (int axis = 0; axis < on->naxes; axis++) sums |= p->partial[axis] != 0;
    for (int64_t rank = 0; rank < nranks_of(on); rank++) {
        int64_t at[AXES_MESH], offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
        coordinates(on, rank, at);
        axes_part(on, p, whole->ndim, whole->dims, at, offset, extent);
        const tensor *own = &out[rank][k];
        if (!same_dims(own, whole->ndim, extent)) return false;
        for (int64_t i = 0; i < own->numel; i++) {
            double want = times * get(whole, index_in(whole, own, offset, i)), found = reduced(on, p, out, k, rank, i);
            bool exact = largest < 0x1p22 && want == floor(want) && found == floor(found);
            if (isfinite(want)) ++*nfinite;
            if (found == want || (isnan(found) && isnan(want)) || (sums && !isfinite(want))) continue;
            if (exact || !(fabs(found - want) <= 3e-5 * times * (largest + 1e-3))) return false;
        }
    }
    return true;
}

/* --- one placement ------------------------------------------------------------------------------------------------ */

static void describe(const trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *out, char *to,
                     size_t nbytes) {
    static const char *const kinds[] = {"sum", "max", "min", "prod", "avg", "any", "all"};
    size_t at = 0;
    *to = 0;
    for (uint32_t i = 0; i < t->nin + (out ? t->nout : 0) && at + 60 < nbytes; i++) {
        bool is_output = i >= t->nin;
        const axes_arg *x = is_output ? &t->rule.out[i - t->nin] : &t->rule.in[i];
        const axes_placed *p = is_output ? &out[i - t->nin] : &in[i];
        at += (size_t)snprintf(to + at, nbytes - at, "%s%s=",
                               i == t->nin ? " -> "
                               : i         ? " "
                                           : "",
                               (is_output ? t->schema->outputs : t->schema->inputs)[x->slot].name);
        for (int axis = 0; axis < on->naxes && at + 30 < nbytes; axis++) {
            int dim = -1;
            for (int d = 0; d < WEFT_MAX_RANK; d++)
                for (int k = 0; k < p->naxes[d]; k++)
                    if (p->axes[d][k] == axis) dim = d;
            if (p->partial[axis])
                at += (size_t)snprintf(to + at, nbytes - at, "P(%s)", kinds[p->partial[axis] - 1]);
            else if (dim >= 0)
                at += (size_t)snprintf(to + at, nbytes - at, "S%d", dim);
            else
                at += (size_t)snprintf(to + at, nbytes - at, "R");
        }
    }
}

static void keep_attrs(const weft_op *op, weft_attr *kept) {
    if (op->nattrs) memcpy(kept, op->attrs, op->nattrs * sizeof *kept);
}

static void restore_attrs(weft_op *op, const weft_attr *kept) {
    if (op->nattrs) memcpy(op->attrs, kept, op->nattrs * sizeof *kept);
}

/* Runs every rank on its part. out[rank]: what it computed. `placed`: of outputs; NULL: not known. */
static weft_status run_ranks(trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *placed,
                             tensor **out) {
    weft_attr *kept = ARENA_ARRAY(&t->scratch, weft_attr, t->op->nattrs + 1);
    weft_status status = NULL;
    if (!kept) return base_out_of_memory();
    keep_attrs(t->op, kept);
    for (int64_t rank = 0; rank < nranks_of(on) && !status; rank++) {
        int64_t at[AXES_MESH], offset[WEFT_MAX_RANK];
        tensor *own = ARENA_ARRAY(&t->scratch, tensor, t->nin + 1);
        out[rank] = ARENA_ARRAY(&t->scratch, tensor, t->nout + 1);
        if (!own || !out[rank]) return base_out_of_memory();
        coordinates(on, rank, at);
        for (uint32_t i = 0; i < t->nin; i++)
            if (!take_input(t, on, &in[i], i, at, &own[i])) return base_out_of_memory();
        for (uint32_t i = 0; i < t->nout; i++) {
            out[rank][i] = t->out[i];
            out[rank][i].rows = NULL;
            if (placed) axes_part(on, &placed[i], t->out[i].ndim, t->out[i].dims, at, offset, out[rank][i].dims);
        }
        if (placed) status = axes_localize(&t->rule, on, in, placed, at, t->op);
        if (!status) status = run_kernel(t, own, out[rank]);
        restore_attrs(t->op, kept);
    }
    return status;
}

static void wrong(trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *out, const char *what) {
    if (t->tally->nwrong++) return;
    char ways[AXES_TEXT_ROOM];
    describe(t, on, in, out, ways, sizeof ways);
    snprintf(t->tally->wrong, sizeof t->tally->wrong, "%.300s: %.90s", ways, what);
}

/* A placement that the rule allows. */
static void check_allowed(trial *t, const axes_mesh *on, const axes_placed *in, const axes_placed *out) {
    tensor *made[MOST_RANKS];
    int64_t nfinite = 0;
    weft_status status = run_ranks(t, on, in, out, made);
    if (status) {
        wrong(t, on, in, out, weft_status_message(status));
        weft_status_free(status);
        arena_reset(&t->scratch);
        return;
    }
    bool good = true;
    for (uint32_t k = 0; k < t->nout && good; k++)
        if (t->out[k].dtype != WEFT_DTYPE_NONE && !(good = is_placed(t, on, &out[k], made, k, &nfinite))) {
            char what[60];
            snprintf(what, sizeof what, "%s is not so", t->schema->outputs[t->rule.out[k].slot].name);
            wrong(t, on, in, out, what);
        }
    t->tally->nchecked += good;
    arena_reset(&t->scratch);
}

/* --- placements that rules deny ----------------------------------------------------------------------------------- */

static void place(axes_placed *p, int code, int axis) {
    if (code >= PARTIAL) p->partial[axis] = (uint8_t)(1 + code - PARTIAL);
    if (code >= 0 && code < PARTIAL) p->axes[code][p->naxes[code]++] = (uint8_t)axis;
}

/* Some placement of output k that holds; false: none does. */
static bool find_output(const trial *t, const axes_mesh *on, tensor *const *out, size_t k, axes_placed *found,
                        int64_t *nfinite) {
    const tensor *whole = &t->out[k];
    for (int code = REPLICATED; code < PARTIAL + 5; code++) {
        if (code >= whole->ndim && code < PARTIAL) code = PARTIAL;
        if (code >= 0 && code < PARTIAL && whole->dims[code] % on->extent[0]) continue;
        if (code >= PARTIAL && !is_float(whole)) return false;
        *found = (axes_placed){{0}, {{0}}, {0}, 0};
        place(found, code, 0);
        if (is_placed(t, on, found, out, k, nfinite)) return true;
    }
    return false;
}

/* The entry of inputs that lie so; NULL: there are too many. */
static axes_missing *find_missing(trial *t, const char *in) {
    axes_tally *y = t->tally;
    for (size_t i = 0; i < y->nmissing; i++)
        if (strcmp(y->missing[i].in, in) == 0) return &y->missing[i];
    if (y->nmissing == AXES_MISSING) return NULL;
    axes_missing *m = &y->missing[y->nmissing++];
    *m = (axes_missing){0};
    snprintf(m->in, sizeof m->in, "%.119s", in);
    return m;
}

static void classify(axes_missing *m, uint32_t nin, const axes_placed *in) {
    uint32_t reduces = 0;
    for (uint32_t i = 0; i < nin; i++) {
        for (int d = 0; d < WEFT_MAX_RANK; d++) m->shards |= in[i].naxes[d] != 0;
        if (in[i].partial[0]) reduces |= UINT32_C(1) << (in[i].partial[0] - 1);
    }
    m->sums = reduces == 0 || reduces == 1u << WEFT_REDUCE_SUM || reduces == 1u << WEFT_REDUCE_AVG;
}

static void try_denied(trial *t, const axes_mesh *on, const axes_placed *in) {
    tensor *made[MOST_RANKS];
    axes_placed out[MOST_ARGS] = {0};
    int64_t nfinite = 0, before;
    char ways[AXES_TEXT_ROOM];
    describe(t, on, in, NULL, ways, 100);
    for (uint32_t i = 0; i < t->nin; i++)
        if (t->in[i].dtype != WEFT_DTYPE_NONE && t->in[i].numel == 0) return; /* an XShape may lie as it likes */
    axes_missing *m = find_missing(t, ways);
    if (!m) return;
    weft_status status = run_ranks(t, on, in, NULL, made);
    bool good = !status;
    weft_status_free(status);
    m->ntried++;
    classify(m, t->nin, in);
    for (uint32_t k = 0; k < t->nout && good; k++) {
        before = nfinite;
        if (t->out[k].dtype == WEFT_DTYPE_NONE) continue;
        good = find_output(t, on, made, k, &out[k], &nfinite) && nfinite > before + 1; /* more than a number or two */
    }
    m->nheld += good;
    if (good) {
        describe(t, on, in, out, ways, sizeof ways);
        const char *arrow = strstr(ways, " -> ");
        snprintf(m->out, sizeof m->out, "%.119s", arrow ? arrow + 4 : "");
    }
    arena_reset(&t->scratch);
}

/* --- all placements ----------------------------------------------------------------------------------------------- */

/* The ways in which input i may lie along one axis of n ranks. */
static size_t places_of(const trial *t, size_t i, int64_t n, int8_t *out) {
    const tensor *x = &t->in[i];
    size_t count = 0;
    out[count++] = REPLICATED;
    if (x->dtype == WEFT_DTYPE_NONE) return count;
    for (int d = 0; d < x->ndim; d++)
        if (x->dims[d] >= n) out[count++] = (int8_t)d;
    if (t->schema->inputs[t->rule.in[i].slot].only_type || x->numel == 0) return count;
    for (int reduce = 0; reduce < 5 && is_float(x); reduce++) out[count++] = (int8_t)(PARTIAL + reduce);
    if (x->dtype == WEFT_BOOL) out[count++] = PARTIAL + WEFT_REDUCE_ANY, out[count++] = PARTIAL + WEFT_REDUCE_ALL;
    return count;
}

static void try_way(trial *t, int64_t n, const way *w) {
    axes_mesh on = {1, {n}, true};
    axes_placed in[MOST_ARGS] = {0}, out[MOST_ARGS];
    bool any = false, even = true;
    for (uint32_t i = 0; i < t->nin; i++) {
        place(&in[i], w->in[i], 0);
        any |= w->in[i] != REPLICATED;
        even &= w->in[i] < 0 || w->in[i] >= PARTIAL || t->in[i].dims[w->in[i]] % n == 0;
    }
    if (!any && t->nin) return;
    if (!axes_follow(&t->rule, &on, in, out)) {
        if (t->nallowed < MOST_ROWS && n == 2) t->allowed[t->nallowed++] = *w;
        check_allowed(t, &on, in, out);
    } else if (t->c->finds_missing && n == 2 && even) {
        try_denied(t, &on, in);
    }
}

static void try_all(trial *t, int64_t n, way *w, uint32_t from) {
    if (from == t->nin) {
        try_way(t, n, w);
        return;
    }
    int8_t places[MOST_PLACES];
    size_t count = places_of(t, from, n, places);
    for (size_t i = 0; i < count; i++) {
        w->in[from] = places[i];
        try_all(t, n, w, from + 1);
    }
}

/* Where there are too many: each factor in turn, and each group of partial inputs, whole or without one of it. */
static void try_rule(trial *t, int64_t n) {
    for (size_t f = 0; f < t->rule.nfactors; f++) {
        way w;
        for (uint32_t i = 0; i < t->nin; i++) {
            w.in[i] = REPLICATED;
            for (int d = 0; d < t->rule.in[i].ndim; d++)
                if (t->rule.in[i].dims[d].nfactors && t->rule.in[i].dims[d].factors[0] == f) w.in[i] = (int8_t)d;
        }
        try_way(t, n, &w);
    }
    for (size_t g = 0; g < t->rule.ngroups; g++)
        for (int reduce = 0; reduce < 5; reduce++)
            for (uint32_t left = 0; left <= t->nin; left++) {
                way w;
                for (uint32_t i = 0; i < t->nin; i++) {
                    bool member = t->rule.in[i].in_group >> g & 1 && is_float(&t->in[i]) && i != left;
                    w.in[i] = (int8_t)(member ? PARTIAL + reduce : REPLICATED);
                }
                try_way(t, n, &w);
            }
}

static size_t count_ways(const trial *t, int64_t n) {
    size_t ways = 1;
    int8_t places[MOST_PLACES];
    for (uint32_t i = 0; i < t->nin && ways <= MOST_WAYS; i++) ways *= places_of(t, i, n, places);
    return ways;
}

/* Two axes of 2: pairs of what is allowed along one. Where both shard one dimension, one or the other comes first. */
static void try_pairs(trial *t) {
    axes_mesh on = {2, {2, 2}, true};
    size_t all = t->nallowed * t->nallowed, step = all > MOST_PAIRS ? all / MOST_PAIRS + 1 : 1;
    if (step > 1 && t->nallowed % step == 0) step++;
    for (size_t k = 0; k < all; k += step) {
        axes_placed in[MOST_ARGS] = {0}, out[MOST_ARGS];
        const way *first = &t->allowed[k % t->nallowed], *second = &t->allowed[k / t->nallowed];
        for (uint32_t i = 0; i < t->nin; i++) {
            place(&in[i], first->in[i], 0);
            place(&in[i], second->in[i], 1);
            for (int d = 0; d < t->in[i].ndim; d++)
                if (in[i].naxes[d] == 2 && k % 2) in[i].axes[d][0] = 1, in[i].axes[d][1] = 0;
        }
        if (!axes_follow(&t->rule, &on, in, out)) check_allowed(t, &on, in, out);
    }
}

/* --- an op -------------------------------------------------------------------------------------------------------- */

static weft_status find_rule(trial *t, const tensor *in, const tensor *out) {
    shape *types = ARENA_ARRAY(&t->arena, shape, t->nin + 1), *made = ARENA_ARRAY(&t->arena, shape, t->nout + 1);
    if (!types || !made) return base_out_of_memory();
    for (uint32_t i = 0; i < t->nin; i++) types[i] = type_of(&in[i]);
    for (uint32_t i = 0; i < t->nout; i++) made[i] = type_of(&out[i]);
    axes_call call = {t->op, t->schema, types, made, t->in_first, t->out_first};
    return axes_of_op(&call, &t->arena, &t->rule);
}

/* Attrs that the rule changes must be there, so that they can be put back. */
static weft_status add_attrs(trial *t) {
    for (size_t i = 0; i < t->rule.nchanges; i++) {
        const char *n = t->rule.changes[i].attr;
        weft_attr *a;
        if (op_find_attr(t->op, n)) continue;
        for (size_t k = 0; k < t->schema->nattrs; k++)
            if (strcmp(t->schema->attrs[k].name, n) == 0) {
                weft_attr value = t->schema->attrs[k].default_value;
                TRY(op_set_attr(t->op, n, &a));
                a->type = value.type;
                a->count = value.count;
                a->u = value.u;
            }
    }
    return NULL;
}

static void try_everything(trial *t) {
    way w;
    for (int64_t n = 2; n <= 3; n++) {
        if (count_ways(t, n) <= MOST_WAYS)
            try_all(t, n, &w, 0);
        else
            try_rule(t, n);
    }
    try_pairs(t);
}

/* The same with small integers, of which sums are exact. */
static const tensor *with_integers(trial *t, const tensor *in) {
    tensor *other = ARENA_ARRAY(&t->arena, tensor, t->nin + 1);
    for (uint32_t i = 0; other && i < t->nin; i++) {
        other[i] = in[i];
        if (!is_float(&in[i])) continue;
        if (!make_room(&other[i], &t->arena)) return NULL;
        for (int64_t k = 0; k < in[i].numel; k++) {
            uint32_t h = mix((uint64_t)k, 1000 + i);
            put(&other[i], k, (double)(1 + h % 11) * (h & 64 ? 1 : -1));
        }
    }
    return other;
}

static bool run_whole(trial *t, const tensor *in, const tensor *out) {
    tensor *whole = ARENA_ARRAY(&t->scratch, tensor, t->nout + 1);
    t->in = in;
    t->out = ARENA_ARRAY(&t->arena, tensor, t->nout + 1);
    if (!whole || !t->out) return false;
    for (uint32_t i = 0; i < t->nout; i++) {
        whole[i] = out[i];
        whole[i].rows = NULL;
    }
    weft_status status = run_kernel(t, in, whole);
    bool good = !status;
    weft_status_free(status);
    for (uint32_t i = 0; i < t->nout && good; i++) {
        t->out[i] = whole[i];
        if (whole[i].dtype == WEFT_DTYPE_NONE) continue;
        good = make_room(&t->out[i], &t->arena);
        if (good) memcpy(t->out[i].data, whole[i].data, (size_t)whole[i].numel * weft_dtype_nbytes(whole[i].dtype));
    }
    arena_reset(&t->scratch);
    return good;
}

static bool can_try(const trial *t, const tensor *in, const tensor *out) {
    bool good = t->nin <= MOST_ARGS && t->nout <= MOST_ARGS && !(t->schema->effects & (OP_RANDOM | OP_ALIASES));
    for (uint32_t i = 0; i < t->nin && good; i++) good = can_read(&in[i]) && !in[i].rows && in[i].numel < 20000;
    for (uint32_t i = 0; i < t->nout && good; i++) good = can_read(&out[i]);
    return good;
}

void axes_check_op(axes_check *c, weft_op *op, const tensor *in, const uint32_t *in_first, const tensor *out,
                   const uint32_t *out_first) {
    const op_schema *s = op_schema_of(op);
    trial *t = calloc(1, sizeof *t);
    if (!t) abort();
    *t = (trial){.c = c, .tally = &c->tallies[s->index], .op = op, .schema = s, .in_first = in_first};
    t->out_first = out_first;
    t->nin = in_first[s->ninputs];
    t->nout = out_first[s->noutputs];
    arena_init(&t->arena, &c->context->allocator);
    arena_init(&t->scratch, &c->context->allocator);
    if (can_try(t, in, out) && run_whole(t, in, out)) {
        weft_status status = find_rule(t, in, t->out);
        if (!status) status = add_attrs(t);
        if (status)
            snprintf(t->tally->wrong, sizeof t->tally->wrong, "%s", weft_status_message(status)), t->tally->nwrong++;
        if (!status) {
            t->tally->ninstances++;
            try_everything(t);
            const tensor *other = with_integers(t, in);
            t->nallowed = 0;
            if (other && run_whole(t, other, out)) try_everything(t);
        }
        weft_status_free(status);
    }
    arena_fini(&t->scratch);
    arena_fini(&t->arena);
    free(t);
}
