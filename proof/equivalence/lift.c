/* lift.c: from what a rank computes to what the serial program computes.
 *
 * The ranks split the rows of the batch evenly. Then each value of a rank is the serial value (state whole), the rank's
 * rows of it, or a share: the ranks' shares add up to it. What the serial value is follows op by op, as a term over the
 * serial program's inputs:
 *   an op on whole values gives a whole value; one that treats rows each for itself gives rows;
 *   a sum over rows gives a share, a mean a share of n times the mean; going back, a mean gives each rank n times its
 * rows of the gradient, because it divides by fewer; the gradient of what had rows has rows, that of what was whole (a
 * weight) is a share; what is linear in shares gives a share; a sum of shares over all ranks gives the whole. Where
 * ranks run different programs, the n-th collectives of a ring belong together. All else is not known, and names the op
 * where it began. */
#include "proof/equivalence/lift.h"

static lifted unknown(uint32_t where, const char *words) {
    return (lifted){.state = LIFT_UNKNOWN, .term = where, .words = words};
}

static lifted state_of(lift_state state, uint32_t term_id) {
    return (lifted){.state = state, .term = term_id};
}

/* What is linear in shares is equal on all ranks along the axes along which all of them are. */
static lifted share_of(const lifted *args, size_t n, uint32_t term_id) {
    lifted made = {.state = LIFT_SHARE, .term = term_id, .axes = UINT32_MAX};
    for (size_t i = 0; i < n; i++)
        if (args[i].state == LIFT_SHARE) made.axes &= args[i].axes;
    return made;
}

/* --- inputs ----------------------------------------------------------------------------------------------------------
 */

static bool splits_rows(const weft_var *serial, const weft_var *own, size_t nranks) {
    if (serial->ndim == 0 || serial->ndim != own->ndim) return false;
    for (size_t i = 1; i < serial->ndim; i++)
        if (serial->dims[i] != own->dims[i]) return false;
    if (own->dims[0] >= 0) return serial->dims[0] == own->dims[0] * (int64_t)nranks;
    return true; /* as many as are fed */
}

static bool same_extents(const weft_var *a, const weft_var *b) {
    return a->ndim == b->ndim && (a->ndim == 0 || memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) == 0);
}

static weft_status lift_input(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const char *label = term_head(l->t, id)->label;
    const weft_var *serial = weft_block_find_var(l->serial->blocks[0], label);
    const weft_var *own = weft_block_find_var(l->programs[rank]->blocks[0], label);
    *out = state_of(LIFT_WHOLE, id);
    if (!serial || !own) return NULL; /* the rank's own state: equal to no serial value */
    shape type = shape_of_var(serial);
    if (serial->kind == WEFT_SELECTED_ROWS && type.height < 0) type.height = 0;
    uint32_t leaf;
    TRY(term_leaf(l->t, HEAD_INPUT, label, &type, &leaf));
    bool split = !own->persistable && own->ndim && (own->dims[0] < 0 || !same_extents(serial, own)) &&
                 splits_rows(serial, own, l->nranks);
    if (split)
        *out = state_of(LIFT_ROWS, leaf);
    else if (same_extents(serial, own))
        *out = state_of(LIFT_WHOLE, leaf);
    else
        *out = unknown(id, "a rank holds only a part of it, or another shape");
    return NULL;
}

/* --- moves and sums --------------------------------------------------------------------------------------------------
 */

static weft_status times_ranks(lifter *l, uint32_t x, bool divide, uint32_t *out) {
    value v;
    TRY(term_scale(l->t, value_of(x), (double)l->nranks, divide, &v));
    *out = v.term;
    return NULL;
}

/* Extents of the serial value of something of which the rank's is `own`. */
static void serial_extents(const lifter *l, lift_state state, size_t ndim, const int64_t *own, int64_t *out) {
    if (ndim) memcpy(out, own, ndim * sizeof *own);
    if (state == LIFT_ROWS && ndim && out[0] >= 0) out[0] *= (int64_t)l->nranks;
}

/* A term of one kind of element-wise work or of a move, over the serial value. */
static weft_status lift_unary(lifter *l, uint32_t id, lifted x, lifted *out) {
    const head *h = term_head(l->t, id);
    value v = value_of(x.term);
    int64_t dims[WEFT_MAX_RANK];
    if (h->kind == HEAD_RESHAPE) {
        size_t ndim = h->nints;
        serial_extents(l, x.state, ndim, h->ints, dims);
        TRY(term_reshape(l->t, v, ndim, dims, &v));
    } else if (h->kind == HEAD_CAST && x.state == LIFT_SHARE &&
               (!dtype_is_float(h->dtype) || !dtype_is_float(l->t->items[x.term].dtype))) {
        *out = unknown(id, "a share of a sum over ranks loses its fraction: a reduce is missing");
        return NULL;
    } else if (h->kind == HEAD_PART && x.state == LIFT_ROWS) {
        *out = unknown(id, "a slice of a rank's rows");
        return NULL;
    } else {
        TRY(term_again(l->t, id, &v, &v));
    }
    *out = state_of(x.state, v.term);
    out->axes = x.axes;
    return NULL;
}

static const lifted *lifted_args(const lifter *l, size_t rank, uint32_t id, lifted *to) {
    for (size_t i = 0; i < l->t->items[id].nargs; i++) to[i] = l->known[rank][term_args(l->t, id)[i].term];
    return to;
}

/* The state that all have; whole values count as shares where there are shares. LIFT_UNKNOWN: there is none. */
static lift_state common_state(const lifted *args, size_t n) {
    bool rows = false, share = false, whole = false;
    for (size_t i = 0; i < n; i++) {
        rows |= args[i].state == LIFT_ROWS;
        share |= args[i].state == LIFT_SHARE;
        whole |= args[i].state == LIFT_WHOLE;
    }
    if (rows) return share || whole ? LIFT_UNKNOWN : LIFT_ROWS;
    return share ? LIFT_SHARE : LIFT_WHOLE;
}

static weft_status lift_list(lifter *l, uint32_t id, const lifted *args, size_t n, value *scratch, lifted *out) {
    lift_state state = common_state(args, n);
    head_kind kind = term_head(l->t, id)->kind;
    *out = unknown(id, "it mixes a rank's rows with what all ranks have");
    if (state == LIFT_UNKNOWN || (kind == HEAD_FLAT && state == LIFT_ROWS)) return NULL;
    for (size_t i = 0; i < n; i++) {
        scratch[i] = value_of(args[i].term);
        if (state == LIFT_SHARE && args[i].state == LIFT_WHOLE)
            TRY(times_ranks(l, args[i].term, false, &scratch[i].term));
    }
    value v;
    TRY(term_again(l->t, id, scratch, &v));
    *out = state == LIFT_SHARE ? share_of(args, n, v.term) : state_of(state, v.term);
    return NULL;
}

/* --- collectives -----------------------------------------------------------------------------------------------------
 */

static bool is_full_ring(const lifter *l, const int64_t *ranks, size_t nranks) {
    return nranks == l->nranks && ranks != NULL;
}

static weft_status lift_sum(lifter *l, uint32_t id, const lifted *x, lifted *out) {
    const head *h = term_head(l->t, id);
    weft_reduce reduce = h->reduce;
    bool full = is_full_ring(l, h->ints, h->nints);
    int64_t n = h->total;
    value v = value_of(x->term);
    if (x->state == LIFT_WHOLE && reduce != WEFT_REDUCE_PROD && (reduce != WEFT_REDUCE_SUM || n > 0)) {
        if (reduce == WEFT_REDUCE_SUM) TRY(term_scale(l->t, v, (double)n, false, &v));
        *out = state_of(LIFT_WHOLE, v.term);
    } else if (x->state == LIFT_SHARE && full && (reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG)) {
        if (reduce == WEFT_REDUCE_AVG) TRY(times_ranks(l, x->term, true, &v.term));
        *out = state_of(LIFT_WHOLE, v.term);
    } else {
        *out = unknown(id, x->state == LIFT_ROWS ? "it combines the rows of different samples"
                           : full                ? "it is no sum"
                                                 : "it reduces over some of the ranks only");
    }
    return NULL;
}

const collective *lift_partner(const lifter *l, size_t self, size_t at, size_t rank) {
    const collective *own = l->outputs[self].collectives;
    if (l->uniform) return &l->outputs[rank].collectives[at];
    int64_t ring_id = op_ring(own[at].op);
    size_t turn = 0;
    for (size_t i = 0; i < at; i++) turn += op_ring(own[i].op) == ring_id;
    const outputs *o = &l->outputs[rank];
    for (size_t i = 0; i < o->ncollectives; i++)
        if (op_ring(o->collectives[i].op) == ring_id && turn-- == 0) return &o->collectives[i];
    return NULL;
}

/* A sum of what different programs give: each must be whole, of its rank's own. */
static weft_status lift_different(lifter *l, size_t rank, uint32_t id, size_t at, lifted *out) {
    value *args = base_alloc(&l->t->context->allocator, l->nranks * sizeof *args);
    if (!args) return base_out_of_memory();
    weft_status status = NULL;
    *out = state_of(LIFT_WHOLE, TERM_NONE);
    for (size_t i = 0; i < l->nranks && out->state == LIFT_WHOLE; i++) {
        const collective *c = lift_partner(l, rank, at, i);
        lifted x = c ? l->known[i][c->argument] : unknown(id, "another rank has no collective to go with it");
        if (x.state == LIFT_WHOLE)
            args[i] = value_of(x.term);
        else
            *out = x.state == LIFT_PENDING || x.state == LIFT_UNKNOWN
                       ? x
                       : unknown(id, "ranks give it different values that are not whole");
    }
    value sum;
    int32_t dtype = l->t->items[id].dtype;
    if (out->state == LIFT_WHOLE) status = term_sum(l->t, args, l->nranks, dtype, &sum);
    if (!status && out->state == LIFT_WHOLE) out->term = sum.term;
    base_free(&l->t->context->allocator, args, l->nranks * sizeof *args);
    return status;
}

static weft_status lift_reduce(lifter *l, size_t rank, uint32_t id, lifted *out) {
    const head *h = term_head(l->t, id);
    uint32_t own = term_args(l->t, id)[0].term, at = l->record[rank][id];
    bool different = false;
    for (size_t i = 0; at && !l->uniform && i < l->nranks && !different; i++) {
        const collective *c = lift_partner(l, rank, at - 1, i);
        different = !c || c->argument != own;
    }
    if (different && h->reduce == WEFT_REDUCE_SUM && is_full_ring(l, h->ints, h->nints))
        return lift_different(l, rank, id, at - 1, out);
    const lifted x = l->known[rank][own];
    if (x.state == LIFT_PENDING || x.state == LIFT_UNKNOWN) return *out = x, NULL;
    if (at && x.state == LIFT_SHARE && !is_full_ring(l, h->ints, h->nints))
        return lift_part_sum(l, rank, id, at - 1, out);
    return lift_sum(l, id, &x, out);
}

/* Collectives that a root takes part in otherwise than the rest. */
static weft_status lift_rooted(lifter *l, size_t rank, uint32_t id, weft_op *op, lifted *out) {
    const ring *of = program_find_ring(l->programs[rank], op_ring(op));
    uint32_t at = l->record[rank][id];
    bool sends = op_is(op, "c_broadcast") || op_is(op, "broadcast");
    int64_t root = attr_int(op, sends ? "root" : "root_id", 0);
    *out = unknown(id, "a collective whose ring is not known");
    if (!of || !at || root < 0 || root >= of->nranks || of->ranks[root] >= (int64_t)l->nranks) return NULL;
    size_t root_rank = (size_t)of->ranks[root];
    const collective *c = lift_partner(l, rank, at - 1, sends ? root_rank : rank);
    if (!c) return NULL;
    lifted x = l->known[sends ? root_rank : rank][c->argument];
    if (sends || x.state == LIFT_PENDING || x.state == LIFT_UNKNOWN) {
        *out = x;
        if (sends && x.state != LIFT_PENDING && x.state != LIFT_WHOLE && x.state != LIFT_UNKNOWN)
            *out = unknown(id, "the root sends what is only its own");
        return NULL;
    }
    bool is_sum = op_is(op, "c_reduce_sum") ||
                  (op_is(op, "reduce") && attr_int(op, "reduce_type", WEFT_REDUCE_SUM) == WEFT_REDUCE_SUM);
    if (root_rank != rank)
        *out = unknown(id, "only the root has the sum");
    else if (is_sum && x.state == LIFT_SHARE && is_full_ring(l, of->ranks, (size_t)of->nranks))
        *out = state_of(LIFT_WHOLE, x.term);
    else
        *out = unknown(id, "a reduction of what are no shares");
    return NULL;
}

/* --- functions -------------------------------------------------------------------------------------------------------
 */

/* Output `id` of the op over the serial values. */
static weft_status apply(lifter *l, uint32_t id, const lifted *args, size_t n, const uint32_t *instead,
                         lift_state state, value *scratch, uint32_t *out) {
    terms *t = l->t;
    uint32_t op = term_args(t, id)[0].term, made;
    for (size_t i = 0; i < n; i++)
        scratch[i] = value_of(instead && instead[i] != TERM_NONE ? instead[i] : args[i].term);
    TRY(term_make(t, t->items[op].head, scratch, n, WEFT_DTYPE_NONE, 0, NULL, &made));
    size_t ndim = 0;
    const int64_t *own = term_dims(t, id, &ndim);
    int64_t dims[WEFT_MAX_RANK];
    if (own) serial_extents(l, state, ndim, own, dims);
    value inner = value_of(made);
    return term_make(t, t->items[id].head, &inner, 1, t->items[id].dtype, ndim, own ? dims : NULL, out);
}

static bool is_type_only(const head *h, size_t i) {
    return h->roles && i < h->nargs && h->roles[i] == ROLE_TYPE_ONLY;
}

/* The gradient of one factor of a product needs the other factor alone. */
static bool is_product_grad(const head *h) {
    static const char *const types[] = {"elementwise_mul_grad", "matmul_v2_grad", "bmm_grad", "mul_grad"};
    for (size_t i = 0; h->schema && i < sizeof types / sizeof *types; i++)
        if (strcmp(h->schema->type, types[i]) == 0) return true;
    return false;
}

/* Arguments whose numbers output `slot_text` does not depend on: any of that type will do, so a share's factor is left
 * out, as the serial program has none there. */
static void drop_unused(const lifter *l, const head *h, const char *slot_text, lifted *args) {
    size_t at = 0;
    bool product = is_product_grad(h);
    for (size_t i = 0; i < h->op->inputs.count; i++) {
        const slot *s = &h->op->inputs.slots[i];
        bool own =
            product && s->name->nbytes == 1 && slot_text[0] == s->name->bytes[0] && strcmp(slot_text + 1, "@GRAD") == 0;
        for (size_t k = 0; k < s->nargs; k++, at++) {
            if (args[at].state != LIFT_SHARE || !(own || is_type_only(h, at))) continue;
            args[at].state = LIFT_WHOLE;
            if (term_is(l->t, args[at].term, HEAD_SCALE)) args[at].term = term_args(l->t, args[at].term)[0].term;
        }
    }
}

/* "X@GRAD" -> "X" and so on; the state of that input, LIFT_PENDING: it is none. */
static lift_state state_of_forward(const row_inputs *in, const char *grad_slot) {
    char name_text[64];
    size_t n = strlen(grad_slot);
    if (n < 6 || n - 5 >= sizeof name_text) return LIFT_PENDING;
    memcpy(name_text, grad_slot, n - 5);
    name_text[n - 5] = 0;
    return row_slot_state(in, name_text);
}

/* An op that is linear in shares, all else being whole. */
static weft_status lift_linear(lifter *l, uint32_t id, const head *h, const lifted *args, size_t n, value *scratch,
                               uint32_t *instead, bool *out_is, lifted *out) {
    bool share = false;
    *out_is = h->pulls;
    for (size_t i = 0; i < n && *out_is; i++) {
        bool linear = h->roles && i < h->nargs && h->roles[i] == ROLE_LINEAR;
        share |= args[i].state == LIFT_SHARE;
        if (args[i].state != LIFT_WHOLE && !(linear && args[i].state == LIFT_SHARE) && !is_type_only(h, i))
            *out_is = false;
        if (is_type_only(h, i) && args[i].state == LIFT_ROWS) *out_is = false;
    }
    *out_is = *out_is && share;
    if (!*out_is) return NULL;
    for (size_t i = 0; i < n; i++) {
        instead[i] = TERM_NONE;
        bool linear = h->roles[i] == ROLE_LINEAR && dtype_is_float(l->t->items[args[i].term].dtype);
        if (linear && args[i].state == LIFT_WHOLE) TRY(times_ranks(l, args[i].term, false, &instead[i]));
    }
    uint32_t made;
    TRY(apply(l, id, args, n, instead, LIFT_SHARE, scratch, &made));
    *out = share_of(args, n, made);
    return NULL;
}

static weft_status lift_rows_of(lifter *l, uint32_t id, const head *h, const lifted *args, size_t n, value *scratch,
                                lifted *out) {
    row_inputs in = {h->op, args, l->t, term_args(l->t, term_args(l->t, id)[0].term)};
    const char *type = h->op->type->bytes, *slot_text = term_head(l->t, id)->label;
    size_t nbytes = strlen(type);
    bool mean, is_grad = nbytes > 5 && strcmp(type + nbytes - 5, "_grad") == 0;
    uint32_t term_id;
    lift_state state = LIFT_ROWS;
    if (is_grad && reduces_rows(&in, type, nbytes - 5, &mean)) {
        TRY(apply(l, id, args, n, NULL, LIFT_ROWS, scratch, &term_id));
        if (mean) TRY(times_ranks(l, term_id, false, &term_id));
    } else if (!is_grad && reduces_rows(&in, type, nbytes, &mean)) {
        state = LIFT_SHARE;
        TRY(apply(l, id, args, n, NULL, LIFT_SHARE, scratch, &term_id));
        if (mean) TRY(times_ranks(l, term_id, false, &term_id));
    } else if (acts_on_rows(&in, type, is_grad ? nbytes - 5 : nbytes)) {
        if (is_grad && state_of_forward(&in, slot_text) == LIFT_WHOLE) state = LIFT_SHARE;
        TRY(apply(l, id, args, n, NULL, state, scratch, &term_id));
        if (op_has_effect(h->op, OP_RANDOM)) l->random_rows = true;
    } else {
        *out = unknown(id, "it is not known to treat each row for itself");
        return NULL;
    }
    *out = state_of(state, term_id);
    return NULL;
}

/* The first argument that is not known, or waits; NULL: all are. */
static const lifted *first_open(const head *h, const lifted *args, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (args[i].state == LIFT_PENDING || (args[i].state == LIFT_UNKNOWN && !is_type_only(h, i))) return &args[i];
    return NULL;
}

static weft_status lift_function(lifter *l, uint32_t id, const lifted *args, size_t n, value *scratch,
                                 uint32_t *instead, lifted *out) {
    const head *h = term_head(l->t, term_args(l->t, id)[0].term);
    bool whole = true, is_linear;
    for (size_t i = 0; i < n; i++) whole = whole && args[i].state == LIFT_WHOLE;
    if (whole) {
        TRY(apply(l, id, args, n, NULL, LIFT_WHOLE, scratch, &out->term));
        *out = state_of(LIFT_WHOLE, out->term);
        return NULL;
    }
    head own = *h;
    TRY(lift_linear(l, id, &own, args, n, scratch, instead, &is_linear, out));
    if (is_linear) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (args[i].state != LIFT_SHARE) continue;
        *out = unknown(id, "it uses a share of a sum over ranks as if it were the sum: a reduce is missing");
        return NULL;
    }
    return lift_rows_of(l, id, &own, args, n, scratch, out);
}

static weft_status lift_out(lifter *l, size_t rank, uint32_t id, lifted *out) {
    uint32_t op = term_args(l->t, id)[0].term;
    const head *h = term_head(l->t, op);
    if (h->kind != HEAD_OP || !h->op) return *out = unknown(id, "a block's values are not followed"), NULL;
    if (op_is(h->op, "c_broadcast") || op_is(h->op, "broadcast") || op_is(h->op, "c_reduce_sum") ||
        op_is(h->op, "reduce"))
        return lift_rooted(l, rank, id, h->op, out);
    if (op_has_effect(h->op, OP_COLLECTIVE)) return *out = unknown(id, "this collective is not followed"), NULL;
    size_t n = l->t->items[op].nargs;
    arena memory;
    arena_init(&memory, &l->t->context->allocator);
    weft_status status = NULL;
    lifted *args = ARENA_ARRAY(&memory, lifted, n + 1);
    value *scratch = ARENA_ARRAY(&memory, value, n + 1);
    uint32_t *instead = ARENA_ARRAY(&memory, uint32_t, n + 1);
    if (!args || !scratch || !instead) TRY_DONE(base_out_of_memory());
    lifted_args(l, rank, op, args);
    drop_unused(l, h, term_head(l->t, id)->label, args);
    const lifted *open = first_open(h, args, n);
    if (open)
        *out = *open;
    else
        TRY_DONE(lift_function(l, id, args, n, scratch, instead, out));
done:
    arena_fini(&memory);
    return status;
}

/* --- all -------------------------------------------------------------------------------------------------------------
 */

static weft_status lift_term(lifter *l, size_t rank, uint32_t id, lifted *out) {
    lifted args[3];
    lifted *all = args;
    size_t n = l->t->items[id].nargs;
    switch (term_head(l->t, id)->kind) {
    case HEAD_INPUT: return lift_input(l, rank, id, out);
    case HEAD_RANDOM:
    case HEAD_FILL: *out = state_of(LIFT_WHOLE, id); return NULL;
    case HEAD_OP:
    case HEAD_BODY: *out = state_of(LIFT_WHOLE, id); return NULL; /* its outputs are what counts */
    case HEAD_OUT: return lift_out(l, rank, id, out);
    case HEAD_REDUCE: return lift_reduce(l, rank, id, out);
    case HEAD_CAST:
    case HEAD_SCALE:
    case HEAD_PART:
    case HEAD_RESHAPE:
        *args = l->known[rank][term_args(l->t, id)[0].term];
        if (args->state == LIFT_UNKNOWN || args->state == LIFT_PENDING) return *out = *args, NULL;
        return lift_unary(l, id, *args, out);
    case HEAD_SUM:
    case HEAD_FLAT:
    case HEAD_SELECT: break;
    default: *out = unknown(id, "its value is not defined by the program"); return NULL;
    }
    arena memory;
    arena_init(&memory, &l->t->context->allocator);
    weft_status status = NULL;
    value *scratch = ARENA_ARRAY(&memory, value, n + 1);
    if (!scratch || (n > 3 && !(all = ARENA_ARRAY(&memory, lifted, n)))) TRY_DONE(base_out_of_memory());
    lifted_args(l, rank, id, all);
    for (size_t i = 0; i < n; i++) {
        if (all[i].state != LIFT_PENDING && all[i].state != LIFT_UNKNOWN) continue;
        *out = all[i];
        goto done;
    }
    bool select = term_head(l->t, id)->kind == HEAD_SELECT;
    if (select && (all[0].state != LIFT_WHOLE || all[1].state != all[2].state))
        *out = unknown(id, "a condition that ranks may see differently");
    else if (select && all[1].state == LIFT_SHARE) {
        value three[3] = {value_of(all[0].term), value_of(all[1].term), value_of(all[2].term)}, v;
        TRY_DONE(term_again(l->t, id, three, &v));
        *out = share_of(all + 1, 2, v.term);
    } else
        TRY_DONE(lift_list(l, id, all, n, scratch, out));
done:
    arena_fini(&memory);
    return status;
}

weft_status lift_rank(lifter *l, size_t rank) {
    uint8_t *wanted = base_alloc(&l->t->context->allocator, l->nterms + 1);
    if (!wanted) return base_out_of_memory();
    memset(wanted, 0, l->nterms + 1);
    const outputs *o = &l->outputs[rank];
    for (size_t i = 0; i < o->count; i++) wanted[o->items[i].term] = 1;
    for (size_t i = 0; i < o->ncollectives; i++) wanted[o->collectives[i].argument] = 1;
    for (size_t i = l->nterms; i-- > 0;)
        for (size_t k = 0; wanted[i] && k < l->t->items[i].nargs; k++) wanted[term_args(l->t, (uint32_t)i)[k].term] = 1;
    weft_status status = NULL;
    for (size_t i = 0; i < l->nterms && !status; i++) {
        lifted *x = &l->known[rank][i];
        if (!wanted[i] || x->state != LIFT_PENDING) continue;
        lifted found = {.state = LIFT_PENDING, .term = TERM_NONE};
        status = lift_term(l, rank, (uint32_t)i, &found);
        *x = found;
        if (found.state == LIFT_PENDING) l->pending = true;
    }
    base_free(&l->t->context->allocator, wanted, l->nterms + 1);
    return status;
}
