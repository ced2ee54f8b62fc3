/* micro_match.c: a gather with the products that read its rows, a product with the scatter of its sums.
 *
 * By ops and data flow alone. From the collective the walk goes on through what keeps rows together: waits, parts that
 * are put together along another dimension, transpositions, casts, and reshapes that keep the last one. Sources:
 * pytorch.md 4.5. */
#include <stdlib.h>

#include "ops/collectives.h"
#include "passes/micro_pipeline/micro_walk.h"

#define REFUSE(why, r, w) return *(why) = (micro_refusal){WEFT_REASON_##r, w}, NULL

/* Extents but for the last are equal. */
static bool same_rows(const weft_var *a, const weft_var *b) {
    return a->ndim == b->ndim && memcmp(a->dims, b->dims, (a->ndim - 1) * sizeof *a->dims) == 0;
}

/* --- gather, then products ---------------------------------------------------------------------------------------- */

static weft_status add_product(micro_pass *m, micro_pair *p, const micro_product *x) {
    micro_product *larger = ARENA_ARRAY(m->scratch, micro_product, p->nproducts + 1);
    if (!larger) return base_out_of_memory();
    if (p->nproducts) memcpy(larger, p->products, p->nproducts * sizeof *larger);
    p->products = larger;
    larger[p->nproducts++] = *x;
    bool is_second = p->nproducts > 1 && larger[p->nproducts - 2].op == x->op;
    if (!is_second) TRY(micro_add_op(m, p, x->op));
    return x->after ? micro_add_op(m, p, x->after) : NULL;
}

/* Why readers of the gathered rows are no products, for the report: the reason that stands furthest behind. */
typedef struct readers {
    micro_refusal why;
    size_t ntold;
    bool others; /* some are not */
} readers;

static void note_reader(readers *r, weft_reason reason, const char *words) {
    r->others = true;
    r->ntold++;
    if (reason >= WEFT_REASON_NOTHING && r->why.words) return;
    r->why = (micro_refusal){reason, words};
}

/* Gives a product of the matrix `before` the extents of the gathered rows again; false: the graph does not. */
static bool find_after(micro_pass *m, const micro_pair *p, micro_product *x) {
    x->after = micro_reader(m, x->out);
    weft_var *out = x->after && micro_is_reshape(x->after) ? micro_value(x->after) : NULL;
    if (!out || !micro_is_dense(out) || !same_rows(out, p->whole)) return false;
    if (out->dims[out->ndim - 1] != x->out->dims[x->out->ndim - 1]) return false;
    x->out = out;
    return true;
}

/* One product that an op makes, if it reads `a`, whose rows are those of `whole`. */
static weft_status take_term(micro_pass *m, micro_pair *p, weft_op *op, const micro_term *t, const weft_var *a,
                             weft_op *before, readers *r) {
    micro_product x = {
        .op = op, .before = before, .a = a, .b = t->right, .trans = t->trans_right, .bias = t->bias, .out = t->out};
    bool is_last = p->dim == (int64_t)p->whole->ndim - 1, is_batched = false;
    if (micro_is_rows_product(t, a)) {
        x.role = is_last ? MICRO_INNER : MICRO_ROWS;
    } else if (m->form == MICRO_CHUNKS && p->dim == 1 && !is_last && micro_is_batched_product(t, a)) {
        is_batched = a->dims[0] > 1; /* one is a matrix */
    } else {
        x.b = NULL;
        x.role = MICRO_OUTER;
        x.trans = false;
        if (is_last || !micro_is_outer_product(m, t, a, &x)) {
            if (t->right == a)
                note_reader(r, WEFT_REASON_DEPENDENCY, "the gathered rows are a product's right operand");
            return NULL;
        }
    }
    if (x.role != MICRO_ROWS && m->form == MICRO_FUSED) {
        bool is_inner = x.role == MICRO_INNER;
        note_reader(r, is_inner ? WEFT_REASON_SHAPE : WEFT_REASON_DEPENDENCY,
                    is_inner ? "it gathers the dimension that products contract"
                             : "the gathered rows are a product's right operand");
        return NULL;
    }
    if (x.role != MICRO_ROWS && m->strict_bits) {
        note_reader(r, WEFT_REASON_SCALE, "products would be added up in another order (strict_bits)");
        return NULL;
    }
    if (x.role != MICRO_ROWS && x.bias) {
        note_reader(r, WEFT_REASON_SHAPE, "products would be added up, each with a bias");
        return NULL;
    }
    if (micro_depends(m, x.b, op, p->collective) || (x.bias && micro_depends(m, x.bias, op, p->collective))) {
        note_reader(r, WEFT_REASON_DEPENDENCY, "the product's right operand or its bias depends on the gathered rows");
        return NULL;
    }
    if (before && x.role != MICRO_OUTER && !find_after(m, p, &x)) {
        note_reader(r, WEFT_REASON_SHAPE, "the product does not get the extents of the gathered rows again");
        return NULL;
    }
    if (p->nproducts && is_batched != p->is_batched) {
        note_reader(r, WEFT_REASON_SHAPE, "some products are of batches, others are not");
        return NULL;
    }
    p->is_batched = is_batched;
    return add_product(m, p, &x);
}

static weft_status add_rest(micro_pass *m, micro_pair *p, const micro_term *t) {
    micro_term *larger = ARENA_ARRAY(m->scratch, micro_term, p->nrest + 1);
    if (!larger) return base_out_of_memory();
    if (p->nrest) memcpy(larger, p->rest, p->nrest * sizeof *larger);
    p->rest = larger;
    larger[p->nrest++] = *t;
    return NULL;
}

/* The products of an op that reads the matrix `a`; what else it makes stays. */
static weft_status take_reader(micro_pass *m, micro_pair *p, weft_op *op, const weft_var *a, weft_op *before,
                               readers *r) {
    micro_term terms[2];
    size_t n = m->form == MICRO_FUSED && !op_is(op, "matmul_v2") ? 0 : micro_terms(op, terms), first = p->nproducts,
           ntold = r->ntold;
    if (first && p->products[first - 1].op == op) return NULL; /* it reads `a` twice */
    bool taken[2] = {false, false};
    for (size_t i = 0; i < n; i++) {
        size_t before_it = p->nproducts;
        TRY(take_term(m, p, op, &terms[i], a, before, r));
        taken[i] = p->nproducts > before_it;
    }
    if (p->nproducts == first && r->ntold > ntold) return NULL;
    if (p->nproducts == first) {
        micro_refusal why = {WEFT_REASON_SHAPE,
                             "a reshape makes one of other dimensions than those before the last, or "
                             "a gathered one and the last"};
        if (!micro_is_reshape(op)) TRY(micro_no_product(m, op, "no product reads the gathered rows", &why));
        note_reader(r, why.reason, why.words);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (taken[i]) continue;
        TRY(add_rest(m, p, &terms[i]));
        if (terms[i].left == a || terms[i].right == a) r->others = true;
    }
    return NULL;
}

/* A product of the transposed rows, which another op makes. */
static weft_status take_turned(micro_pass *m, micro_pair *p, weft_op *turn, const weft_var *a, weft_op *before,
                               readers *r) {
    micro_term terms[2];
    weft_op *op = micro_reader(m, micro_value(turn));
    size_t nbefore = p->nproducts;
    if (op && op_is(op, "matmul_v2") && micro_terms(op, terms) && terms[0].left == micro_value(turn) &&
        !terms[0].trans_left) {
        terms[0].left = micro_only_arg(turn, false);
        terms[0].trans_left = true;
        TRY(take_term(m, p, op, &terms[0], a, before, r));
    }
    if (p->nproducts > nbefore) return micro_add_op(m, p, turn);
    note_reader(r, WEFT_REASON_NOTHING, "no product reads the gathered rows");
    return NULL;
}

/* Whether a reshape makes a matrix of `v` that keeps the last extent. */
static bool is_matrix_of(const weft_op *op, const weft_var *v) {
    const weft_var *out = micro_is_reshape(op) ? micro_value(op) : NULL;
    return out && micro_is_dense(out) && out->ndim == 2 && out->dims[1] == v->dims[v->ndim - 1];
}

static weft_status take_matrix(micro_pass *m, micro_pair *p, weft_op *before, readers *r) {
    const weft_var *matrix = micro_value(before);
    size_t nothers = 0;
    FOR_EACH_USE(u, matrix) {
        weft_op *op = use_op(matrix->program, u);
        if (u->is_output) continue;
        size_t nbefore = p->nproducts;
        if (micro_is_here(m, op)) TRY((micro_is_turn(op) ? take_turned : take_reader)(m, p, op, matrix, before, r));
        nothers += p->nproducts == nbefore;
    }
    return nothers ? NULL : micro_add_op(m, p, before);
}

static weft_status find_products(micro_pass *m, micro_pair *p, readers *r) {
    FOR_EACH_USE(u, p->whole) {
        weft_op *op = use_op(p->whole->program, u);
        if (u->is_output) continue;
        if (!micro_is_here(m, op))
            note_reader(r, WEFT_REASON_IN_USE, "another block reads the gathered rows");
        else if (p->whole->ndim > 2 && is_matrix_of(op, p->whole))
            TRY(take_matrix(m, p, op, r));
        else
            TRY((micro_is_turn(op) ? take_turned : take_reader)(m, p, op, p->whole, NULL, r));
    }
    p->keeps_whole = r->others || p->whole->persistable;
    return NULL;
}

/* What a product's left operand is of the rank's own rows, and what ranks send each other: the smaller type. */
static void settle_gather(micro_pair *p) {
    for (uint32_t i = 0; i < p->x->ndim; i++) {
        p->dims[i] = p->x->dims[p->path.perm[i]];
        if (p->exchanges && p->path.perm[i] == 0) p->dims[i] /= p->ring.nranks;
    }
    if (p->is_merged) {
        p->ndim--;
        p->dims[p->ndim - 1] *= p->dims[p->ndim];
    }
    p->dtype = p->whole->dtype;
    bool widens = weft_dtype_nbytes((weft_dtype)p->dtype) > weft_dtype_nbytes((weft_dtype)p->x->dtype);
    p->sent = widens ? p->x->dtype : p->dtype;
}

/* Over what stands between the collective and the products, as far as one op alone reads on. */
static weft_status walk_on(micro_pass *m, micro_pair *p) {
    for (bool taken = true; taken;) {
        weft_op *op;
        int64_t dim;
        TRY(micro_find_reorder(m, p, p->whole, p->dim, &op, &dim));
        if ((taken = op)) {
            p->dim = dim;
        } else {
            op = micro_reader(m, p->whole);
            if (op) TRY(micro_step_path(m, p, op, true, &taken));
            if (op && !taken) TRY(micro_step_merge(m, p, op, true, &taken));
        }
        if (taken) p->whole = micro_value(op);
    }
    return NULL;
}

static weft_status match_gather(micro_pass *m, micro_pair *p, micro_refusal *why) {
    readers r = {.why = {WEFT_REASON_NOTHING, "nothing reads the gathered rows"}};
    p->whole = p->result;
    TRY(walk_on(m, p));
    if (!micro_is_dense(p->whole)) REFUSE(why, SHAPE, "its shape is not known");
    settle_gather(p);
    r.why.words = NULL;
    TRY(find_products(m, p, &r));
    p->result = NULL;
    if (p->nproducts) return NULL;
    *why = r.why.words ? r.why : (micro_refusal){WEFT_REASON_NOTHING, "no product reads the gathered rows"};
    return NULL;
}

/* --- product, then scatter ---------------------------------------------------------------------------------------- */

/* Whether the rows of a product come of those of its left operand, or of its columns. */
static bool has_rows(const micro_pass *m, const micro_pair *p, const micro_term *t) {
    if (micro_is_rows_product(t, t->left)) return true;
    if (m->form == MICRO_FUSED || p->kind != MICRO_SCATTER) return false;
    return micro_is_turned_product(t) || (p->dim == 1 && micro_is_batched_product(t, t->left));
}

/* The product of an op that is `v`, with rows of its left operand; what else the op makes is kept. */
static weft_status find_term(micro_pass *m, micro_pair *p, const weft_op *op, const weft_var *v, micro_term *out,
                             bool *out_found) {
    micro_term terms[2];
    size_t n = m->form == MICRO_FUSED && !op_is(op, "matmul_v2") ? 0 : micro_terms(op, terms);
    *out_found = false;
    for (size_t i = 0; i < n; i++) {
        bool is_it = terms[i].out == v && has_rows(m, p, &terms[i]);
        if (is_it) *out = terms[i], *out_found = true;
        if (!is_it) TRY(add_rest(m, p, &terms[i]));
    }
    return NULL;
}

/* The product whose rows become those of `sum`, over what `x` has of ops in between. */
static weft_status match_product(micro_pass *m, micro_pair *p, weft_var *product, weft_var *sum, micro_product x,
                                 micro_refusal *why) {
    micro_term t = {0};
    bool found;
    weft_op *after = x.after;
    TRY(find_term(m, p, x.op, product, &t, &found));
    if (!found) return micro_no_product(m, x.op, "no product alone makes its operand", why);
    if (x.adds && t.bias) REFUSE(why, SHAPE, "a row is added to a product that has a bias");
    x.out = sum;
    x.b = t.right;
    x.trans = t.trans_right;
    if (!x.adds) x.bias = t.bias;
    weft_var *a = t.left;
    if (after && (t.trans_left || t.right->ndim == 3))
        REFUSE(why, SHAPE, "the product does not get the extents of its left operand again");
    if (after) {
        x.before = micro_writer(m, a);
        weft_var *of = x.before && micro_is_reshape(x.before) ? micro_only_arg(x.before, false) : NULL;
        if (!of || !micro_is_dense(of) || of->ndim < 2 || !same_rows(of, sum) || of->dims[of->ndim - 1] != a->dims[1] ||
            sum->dims[sum->ndim - 1] != micro_columns(&x))
            REFUSE(why, SHAPE, "the product does not get the extents of its left operand again");
        if (micro_reader(m, a)) TRY(micro_add_op(m, p, x.before));
        a = of;
    }
    p->x = a;
    x.a = a;
    p->ndim = a->ndim;
    memcpy(p->dims, a->dims, a->ndim * sizeof *p->dims);
    p->dtype = a->dtype;
    p->is_turned = t.trans_left;
    p->is_batched = !t.trans_left && t.right->ndim == 3 && a->dims[0] > 1; /* one is a matrix */
    if (p->is_turned) {
        p->ndim = 2;
        p->dims[0] = a->dims[a->ndim - 1];
        p->dims[1] = micro_numel(a, 0, a->ndim - 1);
    }
    return add_product(m, p, &x);
}

/* Whether the op makes `v` as a product of rows. */
static bool makes_product(const micro_pass *m, const micro_pair *p, const weft_op *op, const weft_var *v) {
    micro_term terms[2];
    for (size_t i = 0, n = micro_terms(op, terms); i < n; i++)
        if (terms[i].out == v && has_rows(m, p, &terms[i])) return true;
    return false;
}

/* Back over what stands between the collective and the product: *v is what the product's rows are there, *out_alone
 * whether nothing else reads it. */
static weft_status walk_back(micro_pass *m, micro_pair *p, weft_var **v, bool *out_alone) {
    *out_alone = micro_reader(m, *v) == p->collective;
    for (bool taken = *out_alone; taken;) {
        weft_op *by = micro_writer(m, *v);
        weft_var *of;
        if (!by) return NULL;
        TRY(micro_before_reorder(m, p, by, &of, &p->dim));
        taken = of;
        if (of) *v = of; /* only the parts read it */
        if (of) continue;
        TRY(micro_step_path(m, p, by, false, &taken));
        if (!taken) TRY(micro_step_merge(m, p, by, false, &taken));
        if (taken) *out_alone = micro_reader(m, *v = micro_only_arg(by, false)) == by;
    }
    return NULL;
}

/* The one op that writes `v` before the collective does so in place, if nothing else reads what that writes. */
static weft_op *made_before(const micro_pass *m, const micro_pair *p, const weft_var *v) {
    weft_op *found = NULL;
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (!micro_is_here(m, op)) return NULL;
        if (op == p->collective || (!u->is_output && op->mark > p->collective->mark)) continue;
        if (!u->is_output || found || op->mark > p->collective->mark) return NULL;
        found = op;
    }
    return v->persistable ? NULL : found;
}

/* The product whose rows are scattered or reduced. */
static weft_status match_made(micro_pass *m, micro_pair *p, micro_refusal *why) {
    weft_var *v = weft_op_input(p->collective, op_find_slot(p->collective, false, "x") ? "x" : "X", 0);
    micro_product x = {0};
    weft_op *by;
    bool alone = true;
    p->reduce = (weft_reduce)op_collective_reduce(p->collective);
    p->sent = v->dtype;
    if (v == p->result) {
        by = made_before(m, p, v);
    } else {
        TRY(walk_back(m, p, &v, &alone));
        by = micro_writer(m, v);
    }
    if (!by) REFUSE(why, NOTHING, "no op of this block alone makes its operand");
    if (!alone && !makes_product(m, p, by, v))
        return micro_no_product(m, by, "no product alone makes its operand", why);
    if (!alone) REFUSE(why, IN_USE, "others read the product");
    TRY(micro_step_added(m, p, &x, &by, &v));
    weft_var *product = v;
    if (micro_is_reshape(by)) {
        product = micro_only_arg(by, false);
        x.after = by;
        by = micro_writer(m, product);
        if (by && makes_product(m, p, by, product) && micro_reader(m, product) != x.after)
            REFUSE(why, IN_USE, "others read the product");
        if (micro_reader(m, product) == x.after) TRY(micro_step_added(m, p, &x, &by, &product));
    }
    if (!by) REFUSE(why, NOTHING, "no product alone makes its operand");
    x.op = by;
    return match_product(m, p, product, v, x, why);
}

static weft_status match_scatter(micro_pass *m, micro_pair *p, micro_refusal *why) {
    TRY(match_made(m, p, why));
    if (why->words) return NULL;
    bool is_last = p->dim == (int64_t)p->ndim - 1;
    if (is_last && (m->form == MICRO_FUSED || m->strict_bits))
        REFUSE(why, SHAPE, "it scatters the columns of the product");
    if (is_last && p->products[0].bias) REFUSE(why, SHAPE, "it scatters the columns of a product with a bias");
    if (is_last) p->products[0].role = MICRO_COLUMNS;
    if ((is_last ? micro_columns(&p->products[0]) : p->dims[p->dim]) % p->ring.nranks)
        REFUSE(why, SHAPE, "the ranks do not divide the rows");
    if (p->exchanges && p->path.is_transposed) REFUSE(why, SHAPE, "the product is transposed before an all-to-all");
    if (!p->exchanges && p->reduce != WEFT_REDUCE_SUM && p->reduce != WEFT_REDUCE_AVG)
        REFUSE(why, SCALE, "its reduce operation is neither sum nor average");
    return NULL;
}

/* All rows may be reduced in pieces, whatever the operation. */
static weft_status match_reduce(micro_pass *m, micro_pair *p, micro_refusal *why) {
    TRY(match_made(m, p, why));
    p->dim = 0;
    if (!why->words && micro_rows(p) < 2) REFUSE(why, SHAPE, "the product has one row");
    return NULL;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static weft_status match_wait(micro_pass *m, micro_pair *p, weft_var *out, micro_refusal *why) {
    p->result = out;
    if (!op_is_async(p->collective)) return NULL;
    p->wait = micro_reader(m, out);
    if (!p->wait || !op_is_collective(p->wait, COLLECTIVE_WAIT_TENSOR))
        REFUSE(why, IN_USE, "not just one wait reads its pending result");
    p->result = micro_only_arg(p->wait, true);
    if (!p->result) REFUSE(why, IN_USE, "its wait has no result");
    return micro_add_op(m, p, p->wait);
}

static int by_position(const void *a, const void *b) {
    const weft_op *x = *(weft_op *const *)a, *y = *(weft_op *const *)b;
    return x->mark < y->mark ? -1 : x->mark > y->mark;
}

static const micro_kind kinds[] = {[COLLECTIVE_ALL_GATHER] = MICRO_GATHER,
                                   [COLLECTIVE_REDUCE_SCATTER] = MICRO_SCATTER,
                                   [COLLECTIVE_ALL_REDUCE] = MICRO_REDUCE,
                                   [COLLECTIVE_ALL_TO_ALL] = MICRO_GATHER};

/* Whether each part of an all-to-all has as many rows. */
static bool is_even(const weft_op *op) {
    static const char *const attrs[] = {"in_splits", "out_splits"};
    for (int k = 0; k < 2; k++) {
        size_t n = 0;
        const int64_t *sizes = attr_ints(op, attrs[k], &n);
        for (size_t i = 1; sizes && i < n; i++)
            if (sizes[i] != sizes[0]) return false;
    }
    return true;
}

static bool is_candidate(const weft_op *op) {
    collective_kind kind = op_collective_kind(op);
    if (kind == COLLECTIVE_NONE || kind > COLLECTIVE_ALL_TO_ALL || kind == COLLECTIVE_REDUCE ||
        kind == COLLECTIVE_BROADCAST)
        return false;
    collective_form form = op_collective(op)->form;
    if (kind == COLLECTIVE_ALL_TO_ALL) return form == COLLECTIVE_WHOLE || form == COLLECTIVE_SPLITS;
    return form == COLLECTIVE_WHOLE || (kind == COLLECTIVE_ALL_GATHER && form == COLLECTIVE_LAST_DIM);
}

static weft_status begin(micro_pass *m, micro_pair *p, weft_op *op, micro_refusal *why) {
    *p = (micro_pair){.kind = kinds[op_collective_kind(op)], .collective = op};
    weft_var *x = micro_only_arg(op, false),
             *out = weft_op_output(op, op_find_slot(op, true, "out") ? "out" : "Out", 0);
    const ring *of = program_find_ring(m->program, op_ring(op));
    if (of) p->ring = *of;
    if (!of) REFUSE(why, RING, "its ring is not known");
    if (of->nranks < 2) REFUSE(why, RING, "its ring has one rank, which sends nothing");
    if (of->nranks > MICRO_RANKS) REFUSE(why, RING, "its ring has more than 64 ranks");
    if (op->dist && (op->dist->execution_stream || op->dist->event_to_record || op_dist_nwaits(op->dist)))
        REFUSE(why, IN_USE, "it has a stream or events already");
    if (!micro_is_dense(x) || !micro_is_dense(out) || out->ndim < 2 || x->ndim != out->ndim || x->ndim > WEFT_MAX_RANK)
        REFUSE(why, SHAPE, "its shape is not known, or that of a vector");
    p->x = x;
    p->ndim = x->ndim;
    p->exchanges = op_is_collective(op, COLLECTIVE_ALL_TO_ALL);
    if (p->exchanges && (!is_even(op) || x->dims[0] % p->ring.nranks || x->dims[0] != out->dims[0]))
        REFUSE(why, SHAPE, "its parts are not of one extent");
    if (op_collective(op)->form == COLLECTIVE_LAST_DIM) p->dim = x->ndim - 1;
    for (uint32_t i = 0; i < x->ndim; i++) p->path.perm[i] = i;
    TRY(micro_add_op(m, p, op));
    return match_wait(m, p, out, why);
}

weft_status micro_match(micro_pass *m, weft_op *op, micro_pair *p, micro_refusal *why, bool *out_is_one) {
    *why = (micro_refusal){.words = NULL};
    *out_is_one = is_candidate(op);
    if (!*out_is_one) return NULL;
    TRY(begin(m, p, op, why));
    if (!why->words)
        TRY(p->kind == MICRO_GATHER    ? match_gather(m, p, why)
            : p->kind == MICRO_SCATTER ? match_scatter(m, p, why)
                                       : match_reduce(m, p, why));
    if (p->exchanges && why->words) { /* or what it sends is a product */
        micro_refusal first = *why;
        why->words = NULL;
        TRY(begin(m, p, op, why));
        p->kind = MICRO_SCATTER;
        if (!why->words) TRY(match_scatter(m, p, why));
        if (why->words && why->reason == WEFT_REASON_NOTHING) *why = first;
    }
    if (!why->words) qsort(p->ops, p->nops, sizeof *p->ops, by_position);
    /* Most all-reduces have nothing to do with products of rows. */
    bool is_one = p->kind != MICRO_REDUCE || !why->words || p->nproducts || why->reason == WEFT_REASON_IN_USE;
    *out_is_one = is_one;
    return NULL;
}
