/* normal.c: normal forms of terms over the real numbers.
 *
 * Each term becomes factor * term. Factors come out of what is homogeneous linear in the arguments that have them: the
 * first linear argument with a factor gives it, the others are divided by it, so that one value has one form. Sums lose
 * their order, and a mean over a ring is the sum by its size. A chain of sums over rings that are lines of one mesh
 * along different axes is one sum over the grid that they span. Only floating-point values have factors. In
 * NORMAL_REALS none passes an fp16 value, since that changes which ranges are met; NORMAL_RANGE lets it, and drops it
 * from a check for infinities.
 *
 * Arguments have smaller numbers than the term: one sweep upwards finds all forms. */
#include "proof/equivalence/normal.h"

#include <stdio.h>
#include <stdlib.h>

void normal_init(normal *n, terms *t, normal_mode mode) {
    *n = (normal){.terms = t, .mode = mode};
}

void normal_fini(normal *n) {
    if (n->terms) base_free(&n->terms->context->allocator, n->forms, n->capacity * sizeof *n->forms);
    *n = (normal){.terms = NULL};
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

/* The axes of `m` along which the ranks vary; false if they are not all ranks that vary along these. */
static bool grid_axes(const mesh *m, const int64_t *ranks, size_t nranks, uint32_t *out_axes) {
    int64_t first[MESH_MAX_NDIM], at[MESH_MAX_NDIM];
    uint32_t axes = 0;
    if (!nranks || !mesh_coordinates(m, ranks[0], first)) return false;
    for (size_t i = 1; i < nranks; i++) {
        if (!mesh_coordinates(m, ranks[i], at)) return false;
        for (int k = 0; k < m->ndim; k++)
            if (at[k] != first[k]) axes |= UINT32_C(1) << k;
    }
    int64_t n = 1;
    for (int k = 0; k < m->ndim; k++)
        if (axes >> k & 1) n *= m->shape[k];
    *out_axes = axes;
    return n == (int64_t)nranks; /* ranks of a ring are distinct */
}

static int by_rank(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* All ranks of `m` that agree with `base` but along `axes`, sorted; NULL: out of memory. */
static int64_t *span(arena *a, const mesh *m, int64_t base, uint32_t axes, size_t *out_count) {
    int64_t first[MESH_MAX_NDIM], at[MESH_MAX_NDIM], size = mesh_size(m);
    int64_t *ranks = ARENA_ARRAY(a, int64_t, size + 1);
    *out_count = 0;
    if (!ranks || !mesh_coordinates(m, base, first)) return NULL;
    for (int64_t i = 0; i < size; i++) {
        int64_t rest = i;
        bool agrees = true;
        for (int k = m->ndim; k-- > 0; rest /= m->shape[k]) at[k] = rest % m->shape[k];
        for (int k = 0; k < m->ndim; k++) agrees = agrees && (axes >> k & 1 || at[k] == first[k]);
        if (agrees) ranks[(*out_count)++] = m->ids[i];
    }
    qsort(ranks, *out_count, sizeof *ranks, by_rank);
    return ranks;
}

/* Sums over rings a and then b, which share a rank, as one over *out ranks; *out NULL: they make no grid. */
static weft_status join_rings(terms *t, const head *a, const head *b, arena *memory, int64_t **out, size_t *out_count) {
    *out = NULL;
    for (size_t i = 0; i < t->nmeshes; i++) {
        uint32_t of_a, of_b;
        const mesh *m = t->meshes[i];
        if (!grid_axes(m, a->ints, a->nints, &of_a) || !grid_axes(m, b->ints, b->nints, &of_b)) continue;
        bool meet = false;
        for (size_t k = 0; k < a->nints; k++)
            for (size_t j = 0; j < b->nints && !meet; j++) meet = a->ints[k] == b->ints[j];
        if ((of_a & of_b) || !meet) continue;
        *out = span(memory, m, a->ints[0], of_a | of_b, out_count);
        return *out ? NULL : base_out_of_memory();
    }
    return NULL;
}

static weft_status name_ring(char *label, size_t nbytes, const int64_t *ranks, size_t nranks) {
    int at = snprintf(label, nbytes, "all_reduce sum over ranks");
    for (size_t i = 0; i < nranks && i < 8 && (size_t)at < nbytes; i++)
        at += snprintf(label + at, nbytes - (size_t)at, "%c%lld", i ? ',' : ' ', (long long)ranks[i]);
    if (nranks > 8 && (size_t)at < nbytes) snprintf(label + at, nbytes - (size_t)at, ",...");
    return NULL;
}

/* --- forms of single kinds ---------------------------------------------------------------------------------------- */

static weft_status scale_form(normal *n, uint32_t id, value x, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, id);
    factor f;
    bool good = normal_pulls(n, t->items[x.term].dtype) && factor_of_attr(h->number, t->odd, &f);
    if (good) {
        *out = x;
        TRY(normal_times(t, out, &f, h->divides, &good));
    }
    return good ? NULL : term_again(t, id, &x, out);
}

static weft_status sum_over(normal *n, const head *h, value x, value *out);

/* The one sum that a sum over another ring and this one are; out->term TERM_NONE: they are not. */
static weft_status chain_form(normal *n, const head *h, value x, value *out) {
    terms *t = n->terms;
    *out = value_of(TERM_NONE);
    const head *inner = term_head(t, x.term);
    if (inner->kind != HEAD_REDUCE || inner->reduce != WEFT_REDUCE_SUM || !inner->nints || !h->nints) return NULL;
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    int64_t *ranks;
    size_t nranks;
    char label[128];
    head outer = *h, was = *inner;
    value under = term_args(t, x.term)[0];
    TRY_DONE(join_rings(t, &was, &outer, &memory, &ranks, &nranks));
    if (!ranks) goto done;
    TRY_DONE(name_ring(label, sizeof label, ranks, nranks));
    TRY_DONE(term_reduce(t, under, WEFT_REDUCE_SUM, label, ranks, nranks, out));
    TRY_DONE(normal_multiply(t, *out, x.factor, out));
done:
    arena_fini(&memory);
    return status;
}

/* An all-reduce of a value whose form is x. A sum's factor comes out; a mean is a sum by the ring's size. */
static weft_status sum_over(normal *n, const head *h, value x, value *out) {
    terms *t = n->terms;
    head of = *h;
    int32_t dtype = t->items[x.term].dtype;
    uint32_t common = x.factor;
    bool good = true, mean = of.reduce == WEFT_REDUCE_AVG;
    if ((of.reduce != WEFT_REDUCE_SUM && !mean) || !normal_pulls(n, dtype) || (mean && of.total <= 0))
        return term_reduce(t, x, of.reduce, of.label, of.ints, of.nints, out);
    value inner = value_of(x.term);
    TRY(chain_form(n, &of, inner, out));
    if (out->term == TERM_NONE) TRY(term_reduce(t, inner, WEFT_REDUCE_SUM, of.label, of.ints, of.nints, out));
    TRY(normal_multiply(t, *out, common, out));
    factor size;
    if (mean && factor_make(of.total, 1, &size)) TRY(normal_times(t, out, &size, true, &good));
    return good ? NULL : term_reduce(t, x, of.reduce, of.label, of.ints, of.nints, out);
}

static weft_status reduce_form(normal *n, uint32_t id, value x, value *out) {
    terms *t = n->terms;
    const head *inner = term_head(t, x.term);
    if (inner->kind == HEAD_RESHAPE || inner->kind == HEAD_PART) {
        const int64_t *ints = inner->ints;
        size_t nints = inner->nints;
        bool shapes = inner->kind == HEAD_RESHAPE;
        TRY(sum_over(n, term_head(t, id), (value){term_args(t, x.term)[0].term, x.factor}, out));
        return shapes ? term_reshape(t, *out, nints, ints, out) : term_part(t, *out, ints[0], ints[1], out);
    }
    return sum_over(n, term_head(t, id), x, out);
}

static weft_status cast_form(normal *n, uint32_t id, value x, value *out) {
    terms *t = n->terms;
    int32_t from = t->items[x.term].dtype, to = term_head(t, id)->dtype;
    if (!normal_pulls(n, from) || !normal_pulls(n, to)) return term_cast(t, x, to, out);
    TRY(term_cast(t, value_of(x.term), to, out));
    return normal_multiply(t, *out, x.factor, out);
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

enum { MOST_MERGED = 256 }; /* sums of larger sums stay sums of sums */

static int by_term(const void *a, const void *b) {
    uint32_t x = ((const value *)a)->term, y = ((const value *)b)->term;
    return x < y ? -1 : x > y;
}

static bool is_merged(const terms *t, value x) {
    return term_is(t, x.term, HEAD_ADD) && t->items[x.term].nargs <= MOST_MERGED;
}

/* Adds up equal terms among sorted ones; returns how many are left, none of them 0. */
static weft_status merge_equal(terms *t, value *args, size_t count, size_t *out) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        factor f;
        if (kept && args[kept - 1].term == args[i].term &&
            factor_add(value_factor(t, args[kept - 1]), value_factor(t, args[i]), &f))
            TRY(factor_id(t, &f, &args[kept - 1].factor));
        else
            args[kept++] = args[i];
    }
    size_t left = 0;
    for (size_t i = 0; i < kept; i++)
        if (!factor_is_zero(value_factor(t, args[i]))) args[left++] = args[i];
    if (left == 0 && kept) left = 1; /* 0 of something */
    *out = left;
    return NULL;
}

static weft_status add_all(normal *n, uint32_t id, value *all, size_t count, value *out) {
    terms *t = n->terms;
    uint32_t common = FACTOR_ONE, head_id;
    int32_t dtype = t->items[id].dtype;
    size_t ndim = 0;
    qsort(all, count, sizeof *all, by_term);
    TRY(merge_equal(t, all, count, &count));
    if (count == 1) return *out = all[0], NULL;
    if (normal_pulls(n, dtype)) TRY(normal_pull_common(t, all, count, NULL, &common));
    head_begin(t, HEAD_ADD);
    TRY(head_finish(t, &(head){.kind = HEAD_ADD, .label = "add"}, &head_id));
    const int64_t *dims = term_dims(t, id, &ndim);
    out->factor = FACTOR_ONE;
    TRY(term_make(t, head_id, all, count, dtype, ndim, dims, &out->term));
    return normal_multiply(t, *out, common, out);
}

static weft_status sum_form(normal *n, uint32_t id, const value *args, size_t nargs, value *out) {
    terms *t = n->terms;
    arena memory;
    arena_init(&memory, &t->context->allocator);
    weft_status status = NULL;
    size_t most = 0, count = 0;
    for (size_t i = 0; i < nargs; i++) most += is_merged(t, args[i]) ? t->items[args[i].term].nargs : 1;
    value *all = ARENA_ARRAY(&memory, value, most + 1);
    if (!all) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < nargs; i++) {
        if (!is_merged(t, args[i])) {
            all[count++] = args[i];
            continue;
        }
        size_t inner = t->items[args[i].term].nargs;
        for (size_t k = 0; k < inner; k++)
            TRY_DONE(normal_multiply(t, term_args(t, args[i].term)[k], args[i].factor, &all[count++]));
    }
    TRY_DONE(add_all(n, id, all, count, out));
done:
    arena_fini(&memory);
    return status;
}

/* --- functions ---------------------------------------------------------------------------------------------------- */

/* Each output of the check is its input over the scale, whatever the others are. */
static weft_status unscale_form(normal *n, uint32_t id, uint32_t op, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, op), *which = term_head(t, id);
    *out = value_of(TERM_NONE);
    if (!normal_is_type(h, "check_finite_and_unscale") || strcmp(which->label, "Out") != 0) return NULL;
    value x = value_of(TERM_NONE), scale = x;
    int64_t wanted = which->ints[1], at = 0;
    for (size_t i = 0; i < h->nargs; i++) {
        if (h->roles[i] != ROLE_LINEAR)
            scale = normal_of_arg(n, op, i);
        else if (at++ == wanted)
            x = normal_of_arg(n, op, i);
    }
    if (x.term == TERM_NONE || scale.term == TERM_NONE || !normal_pulls(n, t->items[x.term].dtype)) return NULL;
    uint32_t head_id, common = x.factor;
    int32_t dtype = t->items[x.term].dtype;
    size_t ndim = 0;
    buffer *key = head_begin(t, HEAD_OP);
    buffer_text(key, "/unscale");
    TRY(head_finish(t, &(head){.kind = HEAD_OP, .label = "unscale"}, &head_id));
    value args[2] = {value_of(x.term), scale};
    const int64_t *dims = term_dims(t, x.term, &ndim);
    TRY(term_make(t, head_id, args, 2, dtype, ndim, dims, &out->term));
    return normal_multiply(t, *out, common, out);
}

/* A scale with a bias is a sum with a constant; out->term TERM_NONE: it is something else. */
static weft_status affine_form(normal *n, uint32_t id, uint32_t op, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, op);
    factor f;
    *out = value_of(TERM_NONE);
    if (!normal_is_type(h, "scale") || h->bias == 0.0 || t->items[op].nargs != 1 ||
        !normal_pulls(n, t->items[id].dtype) || !factor_of_attr(h->number, t->odd, &f))
        return NULL;
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    value both[2] = {normal_of_arg(n, op, 0)}, constant = both[0];
    if (!dims || ndim > WEFT_MAX_RANK || t->items[both[0].term].dtype != t->items[id].dtype) return NULL;
    bool good;
    TRY(normal_times(t, &both[0], &f, false, &good));
    shape type = {.dtype = t->items[id].dtype, .ndim = (int32_t)ndim, .height = -1};
    memcpy(type.dims, dims, ndim * sizeof *dims);
    if (good) TRY(term_fill(t, h->bias, &type, &constant));
    if (good) TRY(normal_fill_form(n, constant.term, &both[1]));
    return good ? sum_form(n, id, both, 2, out) : NULL;
}

static weft_status out_form(normal *n, uint32_t id, value *out) {
    terms *t = n->terms;
    uint32_t op = term_args(t, id)[0].term;
    TRY(normal_product(n, id, op, out));
    if (out->term == TERM_NONE) TRY(normal_product_grad(n, id, op, out));
    if (out->term == TERM_NONE) TRY(normal_several(n, id, op, out));
    if (out->term == TERM_NONE) TRY(unscale_form(n, id, op, out));
    if (out->term == TERM_NONE) TRY(affine_form(n, id, op, out));
    if (out->term == TERM_NONE) TRY(normal_turned(n, id, op, out));
    if (out->term != TERM_NONE) return NULL;
    term own = t->items[id];
    value from = n->forms[op];
    bool type_only = strcmp(term_head(t, id)->label, "XShape") == 0;
    if (from.factor != FACTOR_ONE && !type_only && !normal_pulls(n, own.dtype)) { /* it keeps its factors inside */
        size_t nargs = t->items[op].nargs;
        value *args = base_alloc(&t->context->allocator, nargs * sizeof *args);
        if (!args) return base_out_of_memory();
        for (size_t i = 0; i < nargs; i++) args[i] = normal_of_arg(n, op, i);
        weft_status status = normal_op_form(n, op, args, nargs, false, &from);
        base_free(&t->context->allocator, args, nargs * sizeof *args);
        TRY(status);
    }
    value inner = value_of(from.term);
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, id, &ndim);
    out->factor = FACTOR_ONE;
    TRY(term_make(t, own.head, &inner, 1, own.dtype, ndim, dims, &out->term));
    return type_only ? NULL : normal_multiply(t, *out, from.factor, out);
}

/* What is linear in each argument by itself. */
static weft_status multilinear_form(normal *n, uint32_t id, value *args, size_t nargs, value *out) {
    terms *t = n->terms;
    value factors = value_of(id);
    for (size_t i = 0; i < nargs; i++) {
        bool good = normal_pulls(n, t->items[id].dtype) && t->items[args[i].term].dtype == t->items[id].dtype;
        if (good) TRY(normal_times(t, &factors, value_factor(t, args[i]), false, &good));
        if (good) args[i].factor = FACTOR_ONE;
    }
    TRY(term_again(t, id, args, out));
    return normal_multiply(t, *out, factors.factor, out);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status list_form(normal *n, uint32_t id, value *args, size_t nargs, bool *linear, value *out) {
    terms *t = n->terms;
    uint32_t common = FACTOR_ONE;
    int32_t dtype = t->items[id].dtype;
    if (normal_pulls(n, dtype)) TRY(normal_pull_common(t, args, nargs, linear, &common));
    TRY(term_again(t, id, args, out));
    return normal_multiply(t, *out, common, out);
}

static weft_status form(normal *n, uint32_t id, value *args, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, id);
    size_t nargs = t->items[id].nargs;
    bool branches[3] = {false, true, true};
    for (size_t i = 0; i < nargs; i++) args[i] = normal_of_arg(n, id, i);
    switch (h->kind) {
    case HEAD_SCALE: return scale_form(n, id, args[0], out);
    case HEAD_FILL: return normal_fill_form(n, id, out);
    case HEAD_REDUCE: return reduce_form(n, id, args[0], out);
    case HEAD_CAST: return cast_form(n, id, args[0], out);
    case HEAD_SUM: return sum_form(n, id, args, nargs, out);
    case HEAD_FLAT: return list_form(n, id, args, nargs, NULL, out);
    case HEAD_SELECT: return list_form(n, id, args, nargs, branches, out);
    case HEAD_OP: return normal_op_form(n, id, args, nargs, true, out);
    case HEAD_OUT: return out_form(n, id, out);
    case HEAD_TOGETHER:
        if (h->pulls) return multilinear_form(n, id, args, nargs, out);
        break;
    default: break;
    }
    return nargs ? term_again(t, id, args, out) : (*out = value_of(id), NULL);
}

static bool is_known(const normal *n, uint32_t id) {
    return n->forms[id].term != TERM_NONE;
}

weft_status normal_find(normal *n, const uint32_t *ids, size_t count) {
    terms *t = n->terms;
    size_t nterms = t->count, most = 0;
    const weft_allocator *a = &t->context->allocator;
    TRY(vector_reserve(a, &n->forms, &n->capacity, nterms, sizeof *n->forms));
    for (; n->nforms < nterms; n->nforms++) n->forms[n->nforms] = value_of(TERM_NONE);
    uint8_t *wanted = base_alloc(a, nterms);
    if (!wanted) return base_out_of_memory();
    memset(wanted, 0, nterms);
    for (size_t i = 0; i < count; i++) wanted[ids[i]] = !is_known(n, ids[i]);
    for (size_t i = nterms; i-- > 0;) {
        if (!wanted[i]) continue;
        const value *args = term_args(t, (uint32_t)i);
        if (t->items[i].nargs > most) most = t->items[i].nargs;
        for (size_t k = 0; k < t->items[i].nargs; k++) wanted[args[k].term] = !is_known(n, args[k].term);
    }
    weft_status status = NULL;
    value *args = base_alloc(a, (most + 1) * sizeof *args);
    if (!args) status = base_out_of_memory();
    for (size_t i = 0; i < nterms && !status; i++)
        if (wanted[i]) status = form(n, (uint32_t)i, args, &n->forms[i]);
    base_free(a, args, (most + 1) * sizeof *args);
    base_free(a, wanted, nterms);
    return status;
}
