/* elements_moves.c: the elements of what a rank moves, and of serial values that are moves of others. */
#include "proof/spmd/elements.h"

/* Of one argument, whose elements a view says. */
static bool moved_elements(walk *w, size_t rank, uint32_t id, elements *out) {
    const terms *t = w->l->t;
    uint32_t from = view_argument(t, id);
    view v = {.base = from};
    elements x;
    if (from == TERM_NONE || term_numel(t, from) <= 0 || !view_add_level(&v, 0, term_numel(t, from), 1) ||
        !view_move(t, id, &v) || !w->find(w, rank, from, &x) || !elements_room(w, id, out))
        return false;
    for (int64_t i = 0; i < out->count; i++) out->at[i] = x.at[view_element(&v, i)];
    return elements_join(out, &x);
}

static bool joined_elements(walk *w, size_t rank, const view_joint *j, elements *out) {
    int64_t at = 0, with_one[WEFT_MAX_RANK + 1];
    for (size_t i = 0; i < j->n; i++) {
        value arg = term_args(w->l->t, j->of)[i];
        elements x;
        size_t d = (size_t)j->axis;
        if (arg.factor != FACTOR_ONE || !w->find(w, rank, arg.term, &x)) return false;
        if (x.ndim + 1 == out->ndim && d <= x.ndim) { /* they are stacked */
            memcpy(with_one, x.dims, d * sizeof *with_one);
            with_one[d] = 1;
            memcpy(with_one + d + 1, x.dims + d, (x.ndim - d) * sizeof *with_one);
            x.dims = with_one, x.ndim++;
        }
        if (d >= x.ndim || !elements_put(&x, d, 0, x.dims[d], at, out)) return false;
        at += x.dims[d];
    }
    return at == out->dims[j->axis];
}

static bool flat_elements(walk *w, size_t rank, uint32_t id, elements *out) {
    int64_t at = 0;
    for (size_t i = 0; i < w->l->t->items[id].nargs; i++) {
        const head *h = term_head(w->l->t, id);
        value arg = term_args(w->l->t, id)[i];
        elements x;
        if (h->nints != 2 * w->l->t->items[id].nargs || h->ints[2 * i] != at || arg.factor != FACTOR_ONE ||
            !w->find(w, rank, arg.term, &x) || at + x.count > out->count || !elements_join(out, &x))
            return false;
        memcpy(out->at + at, x.at, (size_t)x.count * sizeof *x.at);
        at += x.count;
    }
    return at == out->count;
}

/* With zeros around it. */
static bool padded_elements(walk *w, size_t rank, uint32_t argument, const weft_op *op, elements *out) {
    size_t n;
    const int64_t *paddings = attr_ints(op, "paddings", &n);
    double number = weft_op_attr_float(op, "pad_value", 0);
    int64_t first = 0;
    elements x;
    if (!paddings || n != 2 * out->ndim || number < 0 || number > 0 || !w->find(w, rank, argument, &x) ||
        x.ndim != out->ndim)
        return false;
    for (size_t d = 0; d < x.ndim; d++) {
        if (paddings[2 * d] < 0 || paddings[2 * d + 1] < 0 ||
            out->dims[d] != x.dims[d] + paddings[2 * d] + paddings[2 * d + 1])
            return false;
        first += paddings[2 * d] * elements_stride(out->ndim, out->dims, d);
    }
    elements_copy(x.ndim, x.dims, x.at, x.dims, 0, out->at, out->dims, first);
    return elements_join(out, &x);
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

bool elements_are_moved(const lifter *l, size_t rank, uint32_t id) {
    view_joint j;
    return term_is(l->t, id, HEAD_FLAT) || view_argument(l->t, id) != TERM_NONE || view_pad_of(l->t, id) ||
           view_joint_of(l->t, id, &j) || elements_collective(l, rank, id);
}

bool elements_make(walk *w, size_t rank, uint32_t id, elements *out) {
    const lifter *l = w->l;
    const terms *t = l->t;
    view_joint j;
    const weft_op *op = elements_collective(l, rank, id), *pad = view_pad_of(t, id);
    if (view_argument(t, id) != TERM_NONE) return moved_elements(w, rank, id, out);
    if (!elements_room(w, id, out)) return false;
    if (term_is(t, id, HEAD_FLAT)) return flat_elements(w, rank, id, out);
    if (op) return elements_of_collective(w, rank, id, op, out);
    if (pad) return padded_elements(w, rank, term_args(t, term_args(t, id)[0].term)[0].term, pad, out);
    return view_joint_of(t, id, &j) && j.axis >= 0 && joined_elements(w, rank, &j, out);
}

static bool is_turned(const terms *t, uint32_t id) {
    uint32_t of = term_is(t, id, HEAD_OUT) ? term_args(t, id)[0].term : id;
    const weft_op *op = term_is(t, of, HEAD_OP) ? term_head(t, of)->op : NULL;
    return op && (op_is(op, "transpose2") || op_is(op, "transpose2_grad"));
}

/* All of a value, as elements of what it is moved from. */
static bool whole_elements(walk *w, uint32_t id, elements *out) {
    const terms *t = w->l->t;
    bool is_padded = term_is(t, id, HEAD_PADDED), is_strided = term_is(t, id, HEAD_STRIDED);
    view v;
    elements of;
    bool is_moved = !is_padded && !is_strided && elements_are_moved(w->l, LIFT_ALL, id);
    if (is_moved && is_turned(t, id)) is_moved = w->depth == SEES_TURNS;
    if (is_moved && elements_make(w, LIFT_ALL, id, out)) return true;
    if (!elements_room(w, id, out)) return false;
    out->base = id;
    for (int64_t i = 0; i < out->count; i++) out->at[i] = i;
    if (!is_padded && !is_strided) return true;
    if (is_padded) elements_unpad(t, id, out);
    if (is_strided && !view_of_term(t, id, &v)) return false;
    for (int64_t i = 0; is_strided && i < out->count; i++) out->at[i] = view_element(&v, i);
    if (!w->find(w, LIFT_ALL, term_args(t, id)[0].term, &of)) return false;
    for (int64_t i = 0; i < out->count; i++)
        if (out->at[i] != ELEMENT_ZERO) out->at[i] = of.at[out->at[i]];
    out->base = of.base;
    return true;
}

/* Parts of one partial value are of one family where they are seen as such: each by itself has its own. */
static bool make_of_partial(walk *w, size_t rank, uint32_t id, elements *out) {
    const lifter *l = w->l;
    bool is_moved = view_argument(l->t, id) != TERM_NONE;
    return w->depth >= SEES_PARTS && is_moved && lift_is_partial(l, &l->known[rank][id]) &&
           elements_make(w, rank, id, out);
}

static bool find(walk *w, size_t rank, uint32_t id, elements *out) {
    if (rank == LIFT_ALL) return whole_elements(w, id, out);
    switch (w->l->known[rank][id].state) {
    case LIFT_PENDING: return w->waits = true, false;
    case LIFT_KNOWN: return make_of_partial(w, rank, id, out) || elements_of_known(w, rank, id, out);
    default: return elements_make(w, rank, id, out);
    }
}

void elements_begin(walk *w, lifter *l, elements_depth depth) {
    *w = (walk){.l = l, .left = l->elements_left, .depth = depth, .find = find};
    if (w->left > ELEMENTS_OF_ONE) w->left = ELEMENTS_OF_ONE;
    w->had = w->left;
    arena_init(&w->memory, &l->t->context->allocator);
}

weft_status elements_end(walk *w) {
    w->l->elements_left -= w->had - w->left;
    arena_fini(&w->memory);
    return w->failed ? base_out_of_memory() : NULL;
}
