/* lift_ops.c: ops over serial values. Along each axis of the grid an op has arguments that are replicated. Others are
 * partial, and the op must be linear in them, or sharded, and lift_dims.c follows them to its outputs. */
#include "base/numbers.h"
#include "ops/axes.h"
#include "proof/spmd/lift.h"

typedef struct function {
    lifter *l;
    size_t rank;
    uint32_t id;   /* the output */
    const head *h; /* of the op */
    size_t nargs;
    lifted *args;
    value *scratch;
    arena *memory;
    int64_t times;      /* what the output must be multiplied by: means over fewer elements */
    int64_t own, total; /* of means over parts that differ: the rank's elements, and all; 0: there are none */
    const char *attr;   /* that counts parts; NULL: none does */
    int element;        /* of it, where it is a list */
    int64_t parts;      /* how often the serial op's is larger */
    uint32_t products;  /* axes along which one operand of a product is partial: the others count once */
    uint32_t folded;    /* axes along which the rank has the `reduce` of its part */
    int reduce;
    const lifted *added; /* to products of parts: once a rank along the axes `shares`, NULL: nothing is */
    uint32_t shares;
} function;

/* --- what an output depends on ------------------------------------------------------------------------------------ */

static bool is_type_only(const head *h, size_t i) {
    return h->roles && i < h->nargs && h->roles[i] == ROLE_TYPE_ONLY;
}

static bool is_linear(const head *h, size_t i) {
    return h->pulls && h->roles && i < h->nargs && h->roles[i] == ROLE_LINEAR;
}

static void drop_partial(const lifter *l, lifted *x) {
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (is_partial(x->placed[i])) x->placed[i] = REPLICATED;
    x->family = 0;
    if (term_is(l->t, x->term, HEAD_SCALE)) x->term = term_args(l->t, x->term)[0].term;
}

/* Arguments whose numbers output `slot_text` does not depend on: any of that type will do, so the factor of a
 * partial one is left out, as the serial program has none there. */
static void drop_unused(const function *f, const char *slot_text) {
    size_t at = 0;
    const head *h = f->h;
    for (size_t i = 0; i < op_nslots(h->op, false); i++) {
        const slot *s = op_slot(h->op, false, i);
        for (size_t k = 0; k < s->nargs; k++, at++) {
            lifted *x = &f->args[at];
            if (x->state != LIFT_KNOWN || !lift_is_partial(f->l, x)) continue;
            if (is_type_only(h, at) || !axes_reads(h->schema, slot_text, s->name->bytes)) drop_partial(f->l, x);
        }
    }
}

/* The first argument that is not known, or waits; NULL: all are. */
static const lifted *first_open(const function *f) {
    for (size_t i = 0; i < f->nargs; i++) {
        const lifted *x = &f->args[i];
        if (x->state == LIFT_PENDING || (x->state == LIFT_UNKNOWN && !is_type_only(f->h, i))) return x;
    }
    return NULL;
}

/* --- along an axis ------------------------------------------------------------------------------------------------ */

static bool arg_is_sharded(const lifted *x, size_t axis) {
    return x->state == LIFT_KNOWN && is_sharded(x->placed[axis]);
}

static bool arg_is_partial(const lifted *x, size_t axis) {
    return x->state == LIFT_KNOWN && is_partial(x->placed[axis]);
}

/* Takes constants and slices among the arguments, all or number `one`, for parts along dimension `d`. */
static weft_status fills_as_parts(function *f, size_t axis, size_t d, size_t one, bool *out_any) {
    uint32_t op = term_args(f->l->t, f->id)[0].term;
    axis_placement like = REPLICATED; /* of arguments whose parts differ */
    for (size_t i = 0; i < f->nargs; i++)
        if (f->args[i].state == LIFT_KNOWN && has_partition(f->args[i].placed[axis])) like = f->args[i].placed[axis];
    *out_any = false;
    for (size_t i = 0; i < f->nargs; i++) {
        bool is_part = false;
        if (one != f->nargs && i != one) continue;
        if (has_partition(like))
            TRY(lift_fill_as_unequal_part(f->l, f->rank, like, d, &f->args[i], &is_part));
        else
            TRY(lift_fill_as_part(f->l, axis, d, &f->args[i], &is_part));
        if (!is_part) TRY(lift_box_as_part(f->l, f->rank, axis, d, &f->args[i], &is_part));
        if (!is_part && d == 0) TRY(lift_rows_as_part(f->l, f->rank, axis, op, i, &f->args[i], &is_part));
        *out_any |= is_part;
    }
    return NULL;
}

/* A product of parts of the inner dimension, to which each rank adds: a sum over ranks, and so is what they add.
 * `as_sum`: that is a sum already; else all have it. */
static bool adds_shares(function *f, size_t axis, bool as_sum) {
    static const struct {
        const char *type, *added, *x, *y;
    } products[] = {{"aten_addmm", "self", "mat1", "mat2"}, {"aten_baddbmm", "self", "batch1", "batch2"}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (!op_is(f->h->op, products[i].type)) continue;
        const lifted *x = lift_argument(f->h->op, f->args, products[i].x),
                     *y = lift_argument(f->h->op, f->args, products[i].y);
        f->added = lift_argument(f->h->op, f->args, products[i].added);
        if (!f->added || !x || !y) return false;
        const axis_placement added = f->added->placed[axis];
        if (as_sum ? !is_partial(added) : !is_replicated(added)) return false;
        int inner = f->l->t->items[x->term].ndim - 1;
        if (inner < 1 || sharded_dim(x->placed[axis]) != inner || sharded_dim(y->placed[axis]) != inner - 1 ||
            x->placed[axis].split != y->placed[axis].split)
            return false;
        if (!as_sum) f->shares |= UINT32_C(1) << axis;
        return true;
    }
    return false;
}

static weft_status find_result(function *f, const sharded_inputs *in, sharded_result *out) {
    TRY(sharded_output(in, f->id, out));
    if (!out->is_known && adds_shares(f, in->axis, false)) *out = (sharded_result){.is_known = true, .placed = PARTIAL};
    return NULL;
}

/* Tries constants and slices among the arguments as parts, one at a time, then all. */
static weft_status fit_parts(function *f, const sharded_inputs *in, sharded_result *out) {
    lifted *was = ARENA_ARRAY(f->memory, lifted, f->nargs + 1);
    if (!was) return base_out_of_memory();
    memcpy(was, f->args, f->nargs * sizeof *was);
    for (size_t one = 0; one <= f->nargs && !out->is_known; one++) {
        for (size_t d = 0; d < WEFT_MAX_RANK && !out->is_known; d++) {
            bool is_any;
            TRY(fills_as_parts(f, in->axis, d, one, &is_any));
            if (!is_any) continue;
            TRY(find_result(f, in, out));
            if (!out->is_known) memcpy(f->args, was, f->nargs * sizeof *was);
        }
    }
    return NULL;
}

/* Takes a part along the axis for one along another that is still to come, or the other way round. */
static weft_status fit_axes(function *f, const sharded_inputs *in, sharded_result *out) {
    for (size_t i = 0; i < f->nargs && !out->is_known; i++) {
        for (size_t m = in->axis + 1; m < f->l->grid.naxes && !out->is_known; m++) {
            const lifted was = f->args[i];
            if (was.state != LIFT_KNOWN) break;
            lift_swap_axes(f->l, f->rank, in->axis, was.placed[m], &f->args[i]);
            if (lift_placed_alike(&was, &f->args[i])) continue;
            TRY(find_result(f, in, out));
            if (!out->is_known) f->args[i] = was;
        }
    }
    return NULL;
}

static void note_part(function *f, int64_t own, int64_t total) {
    f->own = f->own ? lift_product(f->own, own) : own;
    f->total = f->total ? lift_product(f->total, total) : total;
}

/* What parts along the axis mean for the op; false: not together with what others along other axes do. */
static bool note_result(function *f, size_t axis, const sharded_result *r) {
    bool is_other = r->attr && f->attr && (strcmp(r->attr, f->attr) != 0 || r->element != f->element);
    if (is_other || (r->folds && f->folded && r->reduce != f->reduce)) return false;
    if (r->mean == MEAN_EVEN) f->times *= f->l->grid.extent[axis];
    if (r->mean > 0 && lift_leads(f->l, sharded_by(0, r->split), axis))
        note_part(f, r->mean, lift_partition(f->l, sharded_by(0, r->split))->total);
    if (r->attr) {
        f->attr = r->attr;
        f->element = r->element;
        f->parts = lift_product(f->parts, f->l->grid.extent[axis]);
    }
    if (r->folds) f->folded |= UINT32_C(1) << axis, f->reduce = r->reduce;
    return true;
}

static weft_status ask_rule(function *f, size_t axis, sharded_inputs *in, sharded_result *out) {
    const terms *t = f->l->t;
    value *own = ARENA_ARRAY(f->memory, value, f->nargs + 1); /* the table may move */
    if (!own) return base_out_of_memory();
    if (f->nargs) memcpy(own, term_args(t, term_args(t, f->id)[0].term), f->nargs * sizeof *own);
    size_t index = (size_t)term_head(t, f->id)->ints[1];
    *in = (sharded_inputs){f->h->op, t, f->args, own, f->nargs, axis, index, f->memory};
    return find_result(f, in, out);
}

/* Whether the output is linear in the one argument that is partial along the axis, as in an operand of a product. Of a
 * move other rules tell more. */
static weft_status passes_operand(function *f, size_t axis, bool *out) {
    sharded_inputs in;
    sharded_result found;
    size_t noperands = 0;
    for (size_t i = 0; i < f->nargs; i++) noperands += !is_type_only(f->h, i);
    if (noperands < 2) return NULL;
    TRY(ask_rule(f, axis, &in, &found));
    *out = found.is_known && is_partial(found.placed) && !found.mean && !found.folds && !found.attr;
    if (*out) f->products |= UINT32_C(1) << axis;
    return NULL;
}

/* How the output is placed along the axis; the reason why that is not known. */
static weft_status place_along(function *f, size_t axis, axis_placement *out, const char **out_reason) {
    bool shards = false, partial = false, linear = true;
    for (size_t i = 0; i < f->nargs; i++) {
        shards |= arg_is_sharded(&f->args[i], axis);
        partial |= arg_is_partial(&f->args[i], axis);
        linear = linear && (!arg_is_partial(&f->args[i], axis) || is_linear(f->h, i));
    }
    *out = partial ? PARTIAL : REPLICATED;
    *out_reason = NULL;
    if (partial && !shards && !linear) TRY(passes_operand(f, axis, &linear));
    if (partial && shards && adds_shares(f, axis, true)) return NULL;
    if (partial && (shards || !linear))
        return *out_reason = "it uses a partial sum over ranks as if it were the sum: a reduce is missing", NULL;
    if (!shards) return NULL;
    sharded_inputs in;
    sharded_result found;
    TRY(ask_rule(f, axis, &in, &found));
    if (!found.is_known) TRY(fit_parts(f, &in, &found));
    if (!found.is_known) TRY(fit_axes(f, &in, &found));
    if (!found.is_known || !note_result(f, axis, &found))
        return *out_reason = "it is not known to treat each row for itself", NULL;
    *out = found.placed;
    if (op_has_effect(f->h->op, OP_RANDOM)) f->l->random_rows = true;
    return NULL;
}

/* --- over serial values ------------------------------------------------------------------------------------------- */

/* Along axes on which others are partial, a replicated value counts once a rank. */
static weft_status fill_arguments(function *f, const lifted *made) {
    for (size_t i = 0; i < f->nargs; i++) {
        const lifted *x = &f->args[i];
        f->scratch[i] = value_of(x->term);
        if (x == f->added && f->shares)
            TRY(lift_times(f->l, x->term, lift_extent(f->l, f->shares), false, &f->scratch[i].term));
        if (x->state != LIFT_KNOWN || !is_linear(f->h, i) || !dtype_is_inexact(f->l->t->items[x->term].dtype)) continue;
        uint32_t once = 0;
        for (size_t k = 0; k < f->l->grid.naxes; k++) {
            bool others = false;
            if (f->products >> k & 1) continue;
            for (size_t j = 0; j < f->nargs; j++) others |= arg_is_partial(&f->args[j], k);
            if (others && is_partial(made->placed[k]) && is_replicated(x->placed[k])) once |= UINT32_C(1) << k;
        }
        TRY(lift_times(f->l, f->scratch[i].term, lift_extent(f->l, once), false, &f->scratch[i].term));
    }
    return NULL;
}

/* The op of the serial program that has all that the rank's has a part of, as its attr says. */
static weft_status apply_whole(function *f, lifted *made) {
    const serial_op like = {.type = f->h->op->type->bytes,
                            .fits = lift_has_like_attrs,
                            .attr = f->attr,
                            .element = f->element,
                            .times = f->parts};
    for (size_t i = 0; i < f->nargs; i++)
        if (f->args[i].state == LIFT_KNOWN && lift_is_partial(f->l, &f->args[i])) return NULL;
    TRY(lift_as_serial(f->l, f->id, f->h->op, f->args, &like, made));
    return made->term == TERM_NONE ? NULL : lift_times(f->l, made->term, f->times, false, &made->term);
}

/* The output of the op over the serial values. */
static weft_status apply(function *f, lifted *made) {
    terms *t = f->l->t;
    uint32_t op = term_args(t, f->id)[0].term, inner_id;
    TRY(fill_arguments(f, made));
    TRY(term_make(t, t->items[op].head, f->scratch, f->nargs, WEFT_DTYPE_NONE, 0, NULL, &inner_id));
    size_t ndim = 0;
    const int64_t *own = term_dims(t, f->id, &ndim);
    if (ndim > WEFT_MAX_RANK) own = NULL;
    int64_t dims[WEFT_MAX_RANK];
    if (own) lift_extents(f->l, made, ndim, own, dims);
    value inner = value_of(inner_id);
    int32_t dtype = t->items[f->id].dtype;
    TRY(term_make(t, t->items[f->id].head, &inner, 1, dtype, ndim, own ? dims : NULL, &made->term));
    return lift_times(f->l, made->term, f->times, false, &made->term);
}

static weft_status follow(function *f, lifted *out) {
    lifted made = lift_replicated(TERM_NONE);
    for (size_t k = 0; k < f->l->grid.naxes; k++) {
        const char *reason;
        TRY(place_along(f, k, &made.placed[k], &reason));
        if (reason) return *out = lift_unknown(f->id, reason), NULL;
    }
    TRY(f->attr ? apply_whole(f, &made) : apply(f, &made));
    if (made.term == TERM_NONE) return *out = lift_unknown(f->id, "the serial program has no such op"), NULL;
    TRY(lift_mean_of_losses(f->l, f->id, f->h->op, f->args, &made));
    lift_name_family(f->l, f->args, f->nargs, &made);
    *out = made;
    if (f->folded) {
        *out = lift_unknown(f->id, "each rank has that of its part alone: a reduce is missing");
        return f->own ? NULL : lift_note_fold(f->l, f->rank, f->id, &made, f->folded, f->reduce);
    }
    if (!f->own) return NULL;
    *out = lift_unknown(f->id, "a mean over a part counts as one over all");
    return f->own > 0 && f->total > 0 ? lift_note_share(f->l, f->rank, f->id, &made, f->own, f->total) : NULL;
}

/* The same with what it reads as the placements of the vars say, from which it does. */
static weft_status follow_as_read(function *f, lifted *out) {
    bool is_any = false, is_other;
    lifted found = *out;
    for (size_t i = 0; i < f->nargs; i++) {
        TRY(lift_as_read(f->l, f->rank, f->id, i, &is_other, &f->args[i]));
        is_any |= is_other;
    }
    if (!is_any || first_open(f)) return NULL;
    f->times = f->parts = 1;
    f->own = f->total = 0;
    f->attr = NULL;
    f->added = NULL;
    f->products = f->folded = f->shares = 0;
    TRY(follow(f, &found));
    if (found.state == LIFT_KNOWN) *out = found;
    return NULL;
}

/* Ranks add what they add, so often is it in their sum. *out_is false: it is no scale with a bias of partial values. */
static weft_status follow_affine(function *f, lifted *out, bool *out_is) {
    terms *t = f->l->t;
    size_t ndim = 0;
    const int64_t *dims = f->nargs == 1 ? term_dims(t, f->id, &ndim) : NULL;
    *out_is = op_is(f->h->op, "scale") && f->h->bias != 0.0 && dims && ndim <= WEFT_MAX_RANK &&
              lift_is_partial(f->l, &f->args[0]) && dtype_is_float(t->items[f->id].dtype);
    for (size_t k = 0; *out_is && k < f->l->grid.naxes; k++) *out_is = !is_sharded(f->args[0].placed[k]);
    if (!*out_is) return NULL;
    shape type = {.dtype = t->items[f->id].dtype, .ndim = (int32_t)ndim, .height = -1};
    memcpy(type.dims, dims, ndim * sizeof *dims);
    double times = (double)lift_extent(f->l, lift_axes_with(f->l, &f->args[0], PARTIAL));
    value both[2] = {value_of(f->args[0].term)}, sum;
    TRY(term_scale(t, both[0], f->h->number, false, &both[0]));
    TRY(term_fill(t, f->h->bias * times, &type, &both[1]));
    TRY(term_sum(t, both, 2, type.dtype, &sum));
    *out = f->args[0];
    out->term = sum.term;
    lift_name_family(f->l, f->args, 1, out);
    return NULL;
}

weft_status lift_function(lifter *l, size_t rank, uint32_t id, lifted *out) {
    uint32_t op = term_args(l->t, id)[0].term;
    size_t n = l->t->items[op].nargs;
    head own = *term_head(l->t, op); /* the table of heads may move */
    arena memory;
    arena_init(&memory, &l->t->context->allocator);
    weft_status status = NULL;
    function f = {.l = l, .rank = rank, .id = id, .h = &own, .nargs = n, .memory = &memory, .times = 1, .parts = 1};
    f.args = ARENA_ARRAY(&memory, lifted, n + 1);
    f.scratch = ARENA_ARRAY(&memory, value, n + 1);
    if (!f.args || !f.scratch) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < n; i++) f.args[i] = l->known[rank][term_args(l->t, op)[i].term];
    drop_unused(&f, term_head(l->t, id)->label);
    const lifted *open = first_open(&f);
    bool is_affine = false;
    if (!open) TRY_DONE(follow_affine(&f, out, &is_affine));
    if (open)
        *out = *open;
    else if (is_affine)
        goto done;
    else if (op_is(own.op, "c_embedding") || op_is(own.op, "c_embedding_grad"))
        TRY_DONE(lift_table(l, rank, id, own.op, f.args, n, out));
    else if (op_is(own.op, "c_softmax_with_cross_entropy_grad"))
        TRY_DONE(lift_classes_grad(l, rank, id, own.op, f.args, n, out));
    else if (n != 1 || !lift_takes_part(l, rank, id, own.op, &f.args[0], out)) {
        TRY_DONE(follow(&f, out));
        if (out->state == LIFT_UNKNOWN) TRY_DONE(follow_as_read(&f, out));
    }
done:
    arena_fini(&memory);
    return status;
}
