/* micro_walk.c: from op to op, by who reads and writes what; over what changes only where rows lie, or their type. */
#include "passes/micro_pipeline/micro_walk.h"
#include "base/types.h"
#include "program/grow.h"

/* --- who reads and writes ----------------------------------------------------------------------------------------- */

weft_op *micro_writer(const micro_pass *m, const weft_var *v) {
    weft_op *found = NULL;
    FOR_EACH_USE(u, v) {
        if (!u->is_output) continue;
        weft_op *op = use_op(v->program, u);
        if (found || !micro_is_here(m, op)) return NULL;
        found = op;
    }
    return found;
}

/* Whether an op that has it as an input asks for its type and extents alone. */
static bool only_looks(weft_op *op, const weft_var *v) {
    const op_schema *schema = op_schema_of(op);
    for (size_t i = 0; i < op_nslots(op, false); i++) {
        const slot *given = op_slot(op, false, i);
        bool only_type = false;
        for (size_t k = 0; schema && k < schema->ninputs; k++)
            only_type |= schema->inputs[k].only_type && strcmp(schema->inputs[k].name, given->name->bytes) == 0;
        for (uint32_t k = 0; !only_type && k < given->nargs; k++)
            if (slot_var(op, given, k) == v) return false;
    }
    return true;
}

weft_op *micro_reader(const micro_pass *m, const weft_var *v) {
    weft_op *found = NULL;
    FOR_EACH_USE(u, v) {
        if (u->is_output) continue;
        weft_op *op = use_op(v->program, u);
        if ((found || !micro_is_here(m, op)) && !only_looks(op, v)) return NULL;
        if (!only_looks(op, v)) found = op;
    }
    return v->persistable ? NULL : found;
}

weft_var *micro_only_arg(const weft_op *op, bool output) {
    return op_nargs(op, output) == 1 ? use_var(op->program, op_args(op, output)) : NULL;
}

weft_var *micro_value(const weft_op *op) {
    return op_nargs(op, true) == 1 ? micro_only_arg(op, true) : weft_op_output(op, "Out", 0);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static bool is_renaming(const weft_op *op) {
    return (op_is(op, "getitem") || op_is(op, "aten_alias")) && op_nargs(op, false) == 1 && op_nargs(op, true) == 1;
}

bool micro_is_reshape(const weft_op *op) {
    static const char *const types[] = {"aten_view", "reshape2", "aten_flatten", "flatten_contiguous_range"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (op_is(op, types[i])) return op_nargs(op, false) == 1;
    return false;
}

weft_status micro_add_op(micro_pass *m, micro_pair *p, weft_op *op) {
    TRY(grow(m->scratch, &p->ops, &p->ops_capacity, p->nops + 1, sizeof *p->ops));
    p->ops[p->nops++] = op;
    return NULL;
}

/* --- dimensions in another order, another type -------------------------------------------------------------------- */

static bool swap(int64_t *perm, int64_t ndim, int64_t a, int64_t b) {
    a += a < 0 ? ndim : 0, b += b < 0 ? ndim : 0;
    if (a < 0 || b < 0 || a >= ndim || b >= ndim) return false;
    int64_t was = perm[a];
    perm[a] = perm[b], perm[b] = was;
    return true;
}

/* Which dimension of its input each of its output is. */
static bool read_perm(const weft_op *op, int64_t ndim, int64_t *perm) {
    for (int64_t i = 0; i < ndim; i++) perm[i] = i;
    if (op_is(op, "aten_t")) return ndim == 2 && swap(perm, ndim, 0, 1);
    if (op_is(op, "aten_transpose")) return swap(perm, ndim, attr_int(op, "dim0", 0), attr_int(op, "dim1", 0));
    bool aten = op_is(op, "aten_permute");
    if (!aten && !op_is(op, "transpose2")) return false;
    size_t count;
    uint64_t seen = 0;
    const int64_t *axes = attr_ints(op, aten ? "dims" : "axis", &count);
    if (!axes || (int64_t)count != ndim) return false;
    for (int64_t i = 0; i < ndim; i++) {
        perm[i] = axes[i] < 0 ? axes[i] + ndim : axes[i];
        if (perm[i] < 0 || perm[i] >= ndim || seen >> perm[i] & 1) return false;
        seen |= UINT64_C(1) << perm[i];
    }
    return true;
}

bool micro_is_turn(const weft_op *op) {
    int64_t perm[WEFT_MAX_RANK];
    const weft_var *in = op_nargs(op, false) == 1 ? micro_only_arg(op, false) : NULL;
    return in && micro_is_dense(in) && in->ndim == 2 && read_perm(op, 2, perm) && perm[0] == 1;
}

weft_status micro_step_path(micro_pass *m, micro_pair *p, weft_op *op, bool forward, bool *out_taken) {
    *out_taken = false;
    const weft_var *in = op_nargs(op, false) == 1 ? micro_only_arg(op, false) : NULL, *out = micro_value(op);
    if (!in || !out || !micro_is_dense(in) || !micro_is_dense(out) || in->ndim != out->ndim) return NULL;
    int64_t perm[WEFT_MAX_RANK], was[WEFT_MAX_RANK];
    if (op_is(op, "cast")) {
        if (p->path.is_cast || !dtype_is_float(in->dtype) || !dtype_is_float(out->dtype)) return NULL;
        p->path.is_cast = true;
    } else if (!p->is_merged && in->ndim <= WEFT_MAX_RANK && read_perm(op, in->ndim, perm)) {
        int64_t dim = p->dim;
        for (uint32_t i = 0; i < in->ndim; i++)
            if (out->dims[i] != in->dims[perm[i]]) return NULL;
        memcpy(was, p->path.perm, sizeof was);
        for (uint32_t i = 0; i < in->ndim; i++) {
            p->path.perm[i] = forward ? was[perm[i]] : perm[was[i]];
            if (forward && perm[i] == dim) p->dim = i;
        }
        if (!forward) p->dim = perm[dim];
        p->path.is_transposed = true;
    } else {
        return NULL;
    }
    *out_taken = true;
    return micro_add_op(m, p, op);
}

static bool same_dims(const int64_t *a, const int64_t *b, int64_t n) {
    return n <= 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Whether `to` has dimensions `at` and `at` + 1 of `from` as one. */
static bool merges(const weft_var *from, const weft_var *to, int64_t at) {
    if (!micro_is_dense(from) || !micro_is_dense(to) || from->ndim != to->ndim + 1 || at + 1 >= (int64_t)from->ndim)
        return false;
    return same_dims(from->dims, to->dims, at) && to->dims[at] == from->dims[at] * from->dims[at + 1] &&
           same_dims(from->dims + at + 2, to->dims + at + 1, (int64_t)to->ndim - at - 1);
}

weft_status micro_step_merge(micro_pass *m, micro_pair *p, weft_op *op, bool forward, bool *out_taken) {
    *out_taken = false;
    if (p->is_merged || !micro_is_reshape(op) || (!forward && p->path.is_transposed)) return NULL;
    const weft_var *one = forward ? micro_value(op) : micro_only_arg(op, false),
                   *two = forward ? micro_only_arg(op, false) : micro_value(op);
    if (!one || !two || two->ndim < 3 || p->dim != (int64_t)two->ndim - 2 || !merges(two, one, p->dim)) return NULL;
    *out_taken = p->is_merged = true;
    return micro_add_op(m, p, op);
}

/* --- parts that are put together along another dimension ---------------------------------------------------------- */

/* Whether `op` takes part `index` of n equal ones along `dim`: a slice. */
static bool is_part(const weft_op *op, const weft_var *of, int64_t dim, int64_t n, int64_t *out_index) {
    if (!op_is(op, "aten_slice") || attr_int(op, "dim", 0) != dim || attr_int(op, "step", 1) != 1) return false;
    int64_t part = of->dims[dim] / n, start = attr_int(op, "start", 0), end = attr_int(op, "end", INT64_MAX);
    if (end > of->dims[dim]) end = of->dims[dim];
    *out_index = start / part;
    return start >= 0 && start % part == 0 && end == start + part;
}

/* Whether the outputs of `op` are n equal parts along `dim`, in order. */
static bool is_split(weft_op *op, int64_t dim, int64_t n) {
    bool aten = op_is(op, "aten_split");
    if (!aten && !op_is(op, "split")) return false;
    if (op_nargs(op, false) != 1 || (int64_t)op_nargs(op, true) != n) return false;
    int64_t along = attr_int(op, aten ? "dim" : "axis", 0);
    const weft_var *of = micro_only_arg(op, false);
    if (along < 0) along += of->ndim;
    if (along != dim) return false;
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        if (!micro_is_dense(v) || v->ndim != of->ndim || v->dims[dim] * n != of->dims[dim]) return false;
    }
    return true;
}

static int64_t concat_dim(const weft_op *concat, const weft_var *of) {
    int64_t dim = attr_int(concat, "axis", 0);
    return dim < 0 ? dim + of->ndim : dim;
}

static weft_status find_concat(micro_pass *m, micro_pair *p, const weft_var *v, int64_t dim, weft_op **out) {
    int64_t n = p->ring.nranks, count = 0;
    weft_op *concat = NULL, **between = ARENA_ARRAY(m->scratch, weft_op *, 2 * n + 1);
    weft_var **at = ARENA_ARRAY(m->scratch, weft_var *, n + 1);
    size_t nbetween = 0;
    *out = NULL;
    if (!between || !at) return base_out_of_memory();
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        int64_t index;
        if (u->is_output) continue;
        if (!micro_is_here(m, op)) return NULL;
        if (is_split(op, dim, n) && count == 0) {
            FOR_EACH_ARG(op, true, part) at[count++] = use_var(op->program, part);
        } else if (is_part(op, v, dim, n, &index) && index < n && !at[index]) {
            at[index] = micro_value(op);
            count++;
        } else {
            return NULL;
        }
        if (nbetween < (size_t)n) between[nbetween++] = op;
    }
    if (count != n) return NULL;
    for (int64_t i = 0; i < n; i++) {
        weft_op *reader = at[i] ? micro_reader(m, at[i]) : NULL;
        if (reader && is_renaming(reader)) {
            between[nbetween++] = reader;
            at[i] = micro_only_arg(reader, true);
            reader = micro_reader(m, at[i]);
        }
        if (!reader || (concat && reader != concat) || !op_is(reader, "concat")) return NULL;
        concat = reader;
    }
    if (op_nargs(concat, false) != (uint32_t)n || op_nargs(concat, true) != 1) return NULL;
    int64_t i = 0;
    FOR_EACH_ARG(concat, false, u) {
        if (use_var(concat->program, u) != at[i++]) return NULL;
    }
    for (size_t k = 0; k < nbetween; k++) TRY(micro_add_op(m, p, between[k]));
    TRY(micro_add_op(m, p, concat));
    *out = concat;
    return NULL;
}

/* Whether a transposition takes dimension `from` to another place, the others in their order; *out: which. */
static bool moves_one(const weft_op *op, int64_t ndim, int64_t from, int64_t *out) {
    int64_t perm[WEFT_MAX_RANK], next = 0;
    if (ndim > WEFT_MAX_RANK || op_nargs(op, false) != 1 || !read_perm(op, ndim, perm)) return false;
    *out = -1;
    for (int64_t i = 0; i < ndim; i++) {
        if (perm[i] == from) {
            *out = i;
            continue;
        }
        next += next == from;
        if (perm[i] != next++) return false;
    }
    return *out >= 0 && *out != from;
}

/* The same in three ops: a reshape makes a dimension of the parts, a transposition moves it, and a reshape makes one of
 * it and the next. */
static weft_status find_stacked(micro_pass *m, micro_pair *p, const weft_var *v, int64_t dim, weft_op **out,
                                int64_t *out_dim) {
    weft_op *ops[4] = {micro_reader(m, v)}; /* a copy may stand before the last */
    size_t n = 1;
    *out = NULL;
    if (!ops[0] || !micro_is_reshape(ops[0])) return NULL;
    const weft_var *parts = micro_value(ops[0]);
    if (!parts || !merges(parts, v, dim) || parts->dims[dim] != p->ring.nranks) return NULL;
    ops[n] = micro_reader(m, parts);
    if (!ops[n] || !moves_one(ops[n], parts->ndim, dim, out_dim) || *out_dim + 1 >= (int64_t)parts->ndim) return NULL;
    const weft_var *moved = micro_value(ops[n++]);
    ops[n] = moved ? micro_reader(m, moved) : NULL;
    if (ops[n] && op_is(ops[n], "assign")) {
        moved = micro_value(ops[n++]);
        ops[n] = moved ? micro_reader(m, moved) : NULL;
    }
    if (!ops[n] || !micro_is_reshape(ops[n]) || !merges(moved, micro_value(ops[n]), *out_dim)) return NULL;
    for (size_t k = 0; k <= n; k++) TRY(micro_add_op(m, p, ops[k]));
    *out = ops[n];
    return NULL;
}

weft_status micro_find_reorder(micro_pass *m, micro_pair *p, const weft_var *v, int64_t dim, weft_op **out,
                               int64_t *out_dim) {
    TRY(find_concat(m, p, v, dim, out));
    if (*out) return *out_dim = concat_dim(*out, micro_value(*out)), NULL;
    return find_stacked(m, p, v, dim, out, out_dim);
}

/* Back from the last of three such ops: what the first one reads. */
static weft_var *before_stacked(const micro_pass *m, const micro_pair *p, weft_op *last) {
    weft_var *of = micro_is_reshape(last) ? micro_only_arg(last, false) : NULL;
    for (int k = 0; of && k < 3; k++) {
        weft_op *by = micro_writer(m, of);
        if (!by || op_nargs(by, false) != 1) return NULL;
        of = micro_only_arg(by, false);
        if (micro_is_reshape(by)) return of->ndim <= WEFT_MAX_RANK && p->dim < (int64_t)of->ndim ? of : NULL;
    }
    return NULL;
}

/* Takes back what the last search noted. */
static weft_status try_dims(micro_pass *m, micro_pair *p, weft_op *last, weft_var *of, weft_var **out,
                            int64_t *out_dim) {
    for (int64_t dim = 0; dim < (int64_t)of->ndim; dim++) {
        weft_op *found;
        int64_t to;
        size_t nops = p->nops;
        if (of->dims[dim] % p->ring.nranks || dim == p->dim) continue;
        TRY(micro_find_reorder(m, p, of, dim, &found, &to));
        if (found == last && to == p->dim) return *out = of, *out_dim = dim, NULL;
        p->nops = nops;
    }
    return NULL;
}

weft_status micro_before_reorder(micro_pass *m, micro_pair *p, weft_op *last, weft_var **out, int64_t *out_dim) {
    *out = NULL;
    weft_var *stacked = before_stacked(m, p, last);
    if (stacked && micro_is_dense(stacked)) return try_dims(m, p, last, stacked, out, out_dim);
    if (!op_is(last, "concat") || !op_nargs(last, false)) return NULL;
    weft_var *first = use_var(last->program, op_args(last, false));
    weft_op *by = micro_writer(m, first);
    if (by && is_renaming(by)) by = micro_writer(m, first = micro_only_arg(by, false));
    weft_var *of = by && op_nargs(by, false) == 1 ? micro_only_arg(by, false) : NULL;
    if (!of || !micro_is_dense(of) || concat_dim(last, of) != p->dim) return NULL;
    return try_dims(m, p, last, of, out, out_dim);
}
