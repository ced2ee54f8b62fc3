/* micro_match.c: a gather with the products that read its rows, a product with the scatter of its sums.
 *
 * By ops and data flow alone. From the collective the walk goes on through what keeps rows together: waits, parts that
 * are put together along another dimension, and reshapes that keep the last one. Sources: pytorch.md 4.5. */
#include <stdlib.h>

#include "ops/collectives.h"
#include "passes/micro_pipeline/micro.h"
#include "program/grow.h"

#define REFUSE(why, r, w) return *(why) = (micro_refusal){WEFT_REASON_##r, w}, NULL

/* --- who reads and writes ----------------------------------------------------------------------------------------- */

static bool is_here(const micro_pass *m, const weft_op *op) {
    return op->block == m->block;
}

/* The one op that writes it; NULL: none, or several. */
static weft_op *writer_of(const micro_pass *m, const weft_var *v) {
    weft_op *found = NULL;
    FOR_EACH_USE(u, v) {
        if (!u->is_output) continue;
        weft_op *op = use_op(v->program, u);
        if (found || !is_here(m, op)) return NULL;
        found = op;
    }
    return found;
}

/* The one op that reads it, in one argument; NULL: none, or several. */
static weft_op *reader_of(const micro_pass *m, const weft_var *v) {
    weft_op *found = NULL;
    FOR_EACH_USE(u, v) {
        if (u->is_output) continue;
        weft_op *op = use_op(v->program, u);
        if (found || !is_here(m, op)) return NULL;
        found = op;
    }
    return v->persistable ? NULL : found;
}

/* The only argument of one side; NULL: there are others. */
static weft_var *only_arg(const weft_op *op, bool output) {
    return op_nargs(op, output) == 1 ? use_var(op->program, op_args(op, output)) : NULL;
}

/* What of an op is its value: its one output but for the XShape of a reshape. */
static weft_var *value_of(const weft_op *op) {
    return op_nargs(op, true) == 1 ? only_arg(op, true) : weft_op_output(op, "Out", 0);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static bool is_renaming(const weft_op *op) {
    return (op_is(op, "getitem") || op_is(op, "aten_alias")) && op_nargs(op, false) == 1 && op_nargs(op, true) == 1;
}

/* The same elements in other extents. */
static bool is_reshape(const weft_op *op) {
    static const char *const types[] = {"aten_view", "reshape2", "aten_flatten", "flatten_contiguous_range"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (op_is(op, types[i])) return op_nargs(op, false) == 1;
    return false;
}

/* A product with a matrix on the right that contracts the left operand's last dimension; *out_a, *out_b. */
static bool is_product(const weft_op *op, weft_var **out_a, weft_var **out_b) {
    if (!op_is(op, "matmul_v2")) return false;
    weft_var *a = weft_op_input(op, "X", 0), *b = weft_op_input(op, "Y", 0), *out = weft_op_output(op, "Out", 0);
    if (!micro_is_dense(a) || !micro_is_dense(b) || !micro_is_dense(out) || a->ndim < 2 || b->ndim != 2) return false;
    if (attr_bool(op, "trans_x", false) || out->ndim != a->ndim || a == b) return false;
    *out_a = a;
    *out_b = b;
    return a->dtype == b->dtype && a->dtype == out->dtype;
}

/* Extents but for the last are equal. */
static bool same_rows(const weft_var *a, const weft_var *b) {
    return a->ndim == b->ndim && memcmp(a->dims, b->dims, (a->ndim - 1) * sizeof *a->dims) == 0;
}

static weft_status add_op(micro_pass *m, micro_pair *p, weft_op *op) {
    TRY(grow(m->scratch, &p->ops, &p->ops_capacity, p->nops + 1, sizeof *p->ops));
    p->ops[p->nops++] = op;
    return NULL;
}

/* --- parts that are put together along another dimension ---------------------------------------------------------- */

typedef struct parts {
    weft_var **vars; /* by number */
    size_t count;
    weft_op *split; /* NULL: they are slices */
} parts;

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
    const weft_var *of = only_arg(op, false);
    if (along < 0) along += of->ndim;
    if (along != dim) return false;
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        if (!micro_is_dense(v) || v->ndim != of->ndim || v->dims[dim] * n != of->dims[dim]) return false;
    }
    return true;
}

/* The op that puts parts of `v` together again, if all that read `v` are such parts; with them in the pair. */
static weft_status find_reorder(micro_pass *m, micro_pair *p, const weft_var *v, int64_t dim, weft_op **out) {
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
        if (!is_here(m, op)) return NULL;
        if (is_split(op, dim, n) && count == 0) {
            FOR_EACH_ARG(op, true, part) at[count++] = use_var(op->program, part);
        } else if (is_part(op, v, dim, n, &index) && index < n && !at[index]) {
            at[index] = value_of(op);
            count++;
        } else {
            return NULL;
        }
        if (nbetween < (size_t)n) between[nbetween++] = op;
    }
    if (count != n) return NULL;
    for (int64_t i = 0; i < n; i++) {
        weft_op *reader = at[i] ? reader_of(m, at[i]) : NULL;
        if (reader && is_renaming(reader)) {
            between[nbetween++] = reader;
            at[i] = only_arg(reader, true);
            reader = reader_of(m, at[i]);
        }
        if (!reader || (concat && reader != concat) || !op_is(reader, "concat")) return NULL;
        concat = reader;
    }
    if (op_nargs(concat, false) != (uint32_t)n || op_nargs(concat, true) != 1) return NULL;
    int64_t i = 0;
    FOR_EACH_ARG(concat, false, u) {
        if (use_var(concat->program, u) != at[i++]) return NULL;
    }
    for (size_t k = 0; k < nbetween; k++) TRY(add_op(m, p, between[k]));
    TRY(add_op(m, p, concat));
    *out = concat;
    return NULL;
}

static int64_t concat_dim(const weft_op *concat, const weft_var *of) {
    int64_t dim = attr_int(concat, "axis", 0);
    return dim < 0 ? dim + of->ndim : dim;
}

/* --- gather, then products ---------------------------------------------------------------------------------------- */

static weft_status add_product(micro_pass *m, micro_pair *p, const micro_product *x) {
    micro_product *larger = ARENA_ARRAY(m->scratch, micro_product, p->nproducts + 1);
    if (!larger) return base_out_of_memory();
    if (p->nproducts) memcpy(larger, p->products, p->nproducts * sizeof *larger);
    p->products = larger;
    larger[p->nproducts++] = *x;
    TRY(add_op(m, p, x->op));
    return x->after ? add_op(m, p, x->after) : NULL;
}

/* Why readers of the gathered rows are no products, for the report: the reason that stands furthest behind. */
typedef struct readers {
    micro_refusal why;
    bool others; /* some are not */
} readers;

static void note_reader(readers *r, weft_reason reason, const char *words) {
    r->others = true;
    if (reason >= WEFT_REASON_NOTHING && r->why.words) return;
    r->why = (micro_refusal){reason, words};
}

/* A reader of the matrix `a` whose rows are those of `whole`. */
static weft_status take_reader(micro_pass *m, micro_pair *p, weft_op *op, const weft_var *a, weft_op *before,
                               readers *r) {
    micro_product x = {.op = op, .before = before};
    weft_var *left;
    if (!is_product(op, &left, &x.b) || left != a) {
        bool right = op_is(op, "matmul_v2") && weft_op_input(op, "Y", 0) == a;
        note_reader(r, right ? WEFT_REASON_DEPENDENCY : WEFT_REASON_NOTHING,
                    right ? "the gathered rows are a product's right operand" : "no product reads the gathered rows");
        return NULL;
    }
    if (micro_depends(m, x.b, op, p->collective)) {
        note_reader(r, WEFT_REASON_DEPENDENCY, "the product's right operand depends on the gathered rows");
        return NULL;
    }
    x.out = weft_op_output(op, "Out", 0);
    if (before) {
        x.after = reader_of(m, x.out);
        weft_var *out = x.after && is_reshape(x.after) ? value_of(x.after) : NULL;
        if (!out || !micro_is_dense(out) || !same_rows(out, p->whole) ||
            out->dims[out->ndim - 1] != x.out->dims[x.out->ndim - 1]) {
            note_reader(r, WEFT_REASON_SHAPE, "the product does not get the extents of the gathered rows again");
            return NULL;
        }
        x.out = out;
    }
    return add_product(m, p, &x);
}

/* Whether a reshape makes a matrix of `v` that keeps the last extent. */
static bool is_matrix_of(const weft_op *op, const weft_var *v) {
    const weft_var *out = is_reshape(op) ? value_of(op) : NULL;
    return out && micro_is_dense(out) && out->ndim == 2 && out->dims[1] == v->dims[v->ndim - 1];
}

static weft_status take_matrix(micro_pass *m, micro_pair *p, weft_op *before, readers *r) {
    const weft_var *matrix = value_of(before);
    size_t nothers = 0;
    FOR_EACH_USE(u, matrix) {
        weft_op *op = use_op(matrix->program, u);
        if (u->is_output) continue;
        size_t nbefore = p->nproducts;
        if (is_here(m, op)) TRY(take_reader(m, p, op, matrix, before, r));
        nothers += p->nproducts == nbefore;
    }
    return nothers ? NULL : add_op(m, p, before);
}

static weft_status find_products(micro_pass *m, micro_pair *p, readers *r) {
    FOR_EACH_USE(u, p->whole) {
        weft_op *op = use_op(p->whole->program, u);
        if (u->is_output) continue;
        if (!is_here(m, op))
            note_reader(r, WEFT_REASON_IN_USE, "another block reads the gathered rows");
        else if (p->whole->ndim > 2 && is_matrix_of(op, p->whole))
            TRY(take_matrix(m, p, op, r));
        else
            TRY(take_reader(m, p, op, p->whole, NULL, r));
    }
    p->keeps_whole = r->others || p->whole->persistable;
    return NULL;
}

static weft_status match_gather(micro_pass *m, micro_pair *p, micro_refusal *why) {
    weft_var *v = p->result;
    weft_op *concat;
    readers r = {.why = {WEFT_REASON_NOTHING, "nothing reads the gathered rows"}};
    p->whole = v;
    TRY(find_reorder(m, p, v, 0, &concat));
    if (concat) {
        p->whole = value_of(concat);
        p->dim = concat_dim(concat, p->whole);
    }
    if (!micro_is_dense(p->whole)) REFUSE(why, SHAPE, "its shape is not known");
    r.why.words = NULL;
    TRY(find_products(m, p, &r));
    p->result = NULL;
    if (p->dim == (int64_t)p->whole->ndim - 1 && p->nproducts)
        REFUSE(why, SHAPE, "it gathers the dimension that products contract");
    if (p->nproducts) return NULL;
    *why = r.why.words ? r.why : (micro_refusal){WEFT_REASON_NOTHING, "no product reads the gathered rows"};
    return NULL;
}

/* --- product, then scatter ---------------------------------------------------------------------------------------- */

/* Back over a concat of parts: the var that was taken apart along `*out_dim`; NULL: none. */
static weft_status before_reorder(micro_pass *m, micro_pair *p, weft_op *concat, weft_var **out, int64_t *out_dim) {
    *out = NULL;
    if (!op_is(concat, "concat") || attr_int(concat, "axis", 0) != 0 || !op_nargs(concat, false)) return NULL;
    weft_var *first = use_var(concat->program, op_args(concat, false));
    weft_op *by = writer_of(m, first), *found;
    if (by && is_renaming(by)) by = writer_of(m, first = only_arg(by, false));
    weft_var *of = by && op_nargs(by, false) == 1 ? only_arg(by, false) : NULL;
    if (!of || !micro_is_dense(of)) return NULL;
    for (int64_t dim = 0; dim < (int64_t)of->ndim; dim++) {
        if (of->dims[dim] % p->ring.nranks) continue;
        TRY(find_reorder(m, p, of, dim, &found));
        if (found != concat) continue;
        *out = of;
        *out_dim = dim;
        return NULL;
    }
    return NULL;
}

static weft_status match_product(micro_pass *m, micro_pair *p, weft_op *op, weft_var *sum, weft_op *after,
                                 micro_refusal *why) {
    micro_product x = {.op = op, .after = after, .out = sum};
    weft_var *a;
    if (!is_product(op, &a, &x.b)) REFUSE(why, NOTHING, "no product alone makes what is scattered");
    if (after) {
        x.before = writer_of(m, a);
        weft_var *of = x.before && is_reshape(x.before) ? only_arg(x.before, false) : NULL;
        if (!of || !micro_is_dense(of) || of->ndim < 2 || !same_rows(of, sum) ||
            of->dims[of->ndim - 1] != a->dims[1] || sum->dims[sum->ndim - 1] != x.b->dims[1 - attr_bool(op, "trans_y", false)])
            REFUSE(why, SHAPE, "the product does not get the extents of its left operand again");
        if (reader_of(m, a)) TRY(add_op(m, p, x.before));
        a = of;
    }
    p->x = a;
    if (p->dim == (int64_t)a->ndim - 1) REFUSE(why, SHAPE, "it scatters the columns of the product");
    if (a->dims[p->dim] % p->ring.nranks) REFUSE(why, SHAPE, "the ranks do not divide the rows");
    return add_product(m, p, &x);
}

static weft_status match_scatter(micro_pass *m, micro_pair *p, micro_refusal *why) {
    weft_var *v = weft_op_input(p->collective, op_find_slot(p->collective, false, "x") ? "x" : "X", 0), *of;
    weft_op *by = writer_of(m, v), *after = NULL;
    int reduce = op_collective_reduce(p->collective);
    p->reduce = (weft_reduce)reduce;
    if (!by) REFUSE(why, NOTHING, "no op of this block makes what is scattered");
    TRY(before_reorder(m, p, by, &of, &p->dim));
    if (of) {
        if (reader_of(m, v) != p->collective) REFUSE(why, IN_USE, "others read what is scattered");
        by = writer_of(m, v = of);
    } else if (reader_of(m, v) != p->collective) {
        weft_var *a, *b;
        if (!is_product(by, &a, &b)) REFUSE(why, NOTHING, "no product alone makes what is scattered");
        REFUSE(why, IN_USE, "others read the product");
    }
    if (by && is_reshape(by)) {
        weft_var *product = only_arg(by, false);
        after = by;
        by = writer_of(m, product);
        if (by && op_is(by, "matmul_v2") && reader_of(m, product) != after)
            REFUSE(why, IN_USE, "others read the product");
    }
    if (!by) REFUSE(why, NOTHING, "no product alone makes what is scattered");
    TRY(match_product(m, p, by, v, after, why));
    if (!why->words && reduce != WEFT_REDUCE_SUM && reduce != WEFT_REDUCE_AVG)
        REFUSE(why, SCALE, "its reduce operation is neither sum nor average");
    return NULL;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static weft_status match_wait(micro_pass *m, micro_pair *p, weft_var *out, micro_refusal *why) {
    p->result = out;
    if (!op_is_async(p->collective)) return NULL;
    p->wait = reader_of(m, out);
    if (!p->wait || !op_is_collective(p->wait, COLLECTIVE_WAIT_TENSOR))
        REFUSE(why, IN_USE, "not just one wait reads its pending result");
    p->result = only_arg(p->wait, true);
    if (!p->result) REFUSE(why, IN_USE, "its wait has no result");
    return add_op(m, p, p->wait);
}

static int by_position(const void *a, const void *b) {
    const weft_op *x = *(weft_op *const *)a, *y = *(weft_op *const *)b;
    return x->mark < y->mark ? -1 : x->mark > y->mark;
}

weft_status micro_match(micro_pass *m, weft_op *op, micro_pair *p, micro_refusal *why, bool *out_is_one) {
    collective_kind kind = op_collective_kind(op);
    *why = (micro_refusal){.words = NULL};
    *out_is_one = (kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_REDUCE_SCATTER) &&
                  op_collective(op)->form == COLLECTIVE_WHOLE;
    if (!*out_is_one) return NULL;
    *p = (micro_pair){.kind = kind == COLLECTIVE_ALL_GATHER ? MICRO_GATHER : MICRO_SCATTER, .collective = op};
    weft_var *x = only_arg(op, false), *out = only_arg(op, true);
    const ring *of = program_find_ring(m->program, op_ring(op));
    if (of) p->ring = *of;
    if (p->ring.nranks < 2 || p->ring.nranks > MICRO_RANKS)
        REFUSE(why, RING, "its ring is not known, or not of 2 to 64 ranks");
    if (op->dist && (op->dist->execution_stream || op->dist->event_to_record || op_dist_nwaits(op->dist)))
        REFUSE(why, IN_USE, "it has a stream or events already");
    if (!micro_is_dense(x) || !micro_is_dense(out) || out->ndim < 2 || x->ndim != out->ndim)
        REFUSE(why, SHAPE, "its shape is not known, or that of a vector");
    p->x = x;
    TRY(add_op(m, p, op));
    TRY(match_wait(m, p, out, why));
    if (why->words) return NULL;
    TRY(p->kind == MICRO_GATHER ? match_gather(m, p, why) : match_scatter(m, p, why));
    if (!why->words) qsort(p->ops, p->nops, sizeof *p->ops, by_position);
    return NULL;
}
