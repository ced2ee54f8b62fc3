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

bool micro_only_looks(weft_op *op, const weft_var *v) {
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
        if ((found || !micro_is_here(m, op)) && !micro_only_looks(op, v)) return NULL;
        if (!micro_only_looks(op, v)) found = op;
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
    } else if (in->ndim <= WEFT_MAX_RANK && read_perm(op, in->ndim, perm)) {
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

int64_t micro_concat_dim(const weft_op *concat, const weft_var *of) {
    int64_t dim = attr_int(concat, "axis", 0);
    return dim < 0 ? dim + of->ndim : dim;
}

weft_status micro_find_reorder(micro_pass *m, micro_pair *p, const weft_var *v, int64_t dim, weft_op **out) {
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

weft_status micro_before_reorder(micro_pass *m, micro_pair *p, weft_op *concat, weft_var **out, int64_t *out_dim) {
    *out = NULL;
    if (!op_is(concat, "concat") || !op_nargs(concat, false)) return NULL;
    weft_var *first = use_var(concat->program, op_args(concat, false));
    weft_op *by = micro_writer(m, first), *found;
    if (by && is_renaming(by)) by = micro_writer(m, first = micro_only_arg(by, false));
    weft_var *of = by && op_nargs(by, false) == 1 ? micro_only_arg(by, false) : NULL;
    if (!of || !micro_is_dense(of) || micro_concat_dim(concat, of) != p->dim) return NULL;
    for (int64_t dim = 0; dim < (int64_t)of->ndim; dim++) {
        if (of->dims[dim] % p->ring.nranks || dim == p->dim) continue;
        TRY(micro_find_reorder(m, p, of, dim, &found));
        if (found != concat) continue;
        *out = of;
        *out_dim = dim;
        return NULL;
    }
    return NULL;
}
