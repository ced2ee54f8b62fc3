/* lift_table.c: tables of which each rank holds some rows (c_embedding). A rank looks up what is in its rows, and has
 * zeros for the rest: a share of the serial program's lookup_table_v2. The gradient of its rows is their part of the
 * serial one.
 *
 * The serial op has other attrs, so its head is taken from the serial program: the lookup in the same table. */
#include "proof/equivalence/lift.h"

typedef struct lookup {
    lifter *l;
    uint32_t id;        /* the output */
    const weft_op *op;  /* c_embedding or its gradient */
    const lifted *args; /* in the order of its slots */
    const lifted *w, *ids, *grad;
    uint32_t axes; /* that cut the table's rows */
} lookup;

/* The value of a slot's argument; NULL: it has none. */
static const lifted *argument(const weft_op *op, const lifted *args, const char *slot_text) {
    for (size_t i = 0, at = 0; i < op->inputs.count; at += op->inputs.slots[i++].nargs)
        if (op->inputs.slots[i].nargs && name_is(op->inputs.slots[i].name, slot_text)) return &args[at];
    return NULL;
}

/* An op of the programs that looks up in the table, without a row for padding; TERM_NONE: there is none. */
static uint32_t find_serial_op(const lookup *k, const char *type) {
    const terms *t = k->l->t;
    for (size_t i = 0; i < k->l->nterms; i++) {
        const head *h = term_head(t, (uint32_t)i);
        if (h->kind != HEAD_OP || !h->op || !op_is(h->op, type) || attr_int(h->op, "padding_idx", -1) != -1) continue;
        for (size_t s = 0, at = 0; s < h->op->inputs.count; at += h->op->inputs.slots[s++].nargs)
            if (h->op->inputs.slots[s].nargs && name_is(h->op->inputs.slots[s].name, "W") &&
                term_args(t, (uint32_t)i)[at].term == k->w->term)
                return (uint32_t)i;
    }
    return TERM_NONE;
}

/* The head of that op's output; TERM_NONE: nothing uses it. */
static uint32_t find_output_head(const lookup *k, uint32_t op, const char *slot_text) {
    const terms *t = k->l->t;
    for (size_t i = op; i < k->l->nterms; i++)
        if (term_is(t, (uint32_t)i, HEAD_OUT) && term_args(t, (uint32_t)i)[0].term == op &&
            strcmp(term_head(t, (uint32_t)i)->label, slot_text) == 0)
            return t->items[i].head;
    return TERM_NONE;
}

/* The serial program's lookup over these values. */
static weft_status look_up(lookup *k, const char *type, const char *slot_text, lifted *made) {
    terms *t = k->l->t;
    uint32_t op = find_serial_op(k, type), made_op;
    uint32_t head_id = op == TERM_NONE ? TERM_NONE : find_output_head(k, op, slot_text);
    made->term = TERM_NONE;
    if (head_id == TERM_NONE) return NULL;
    const weft_op *like = term_head(t, op)->op;
    value args[3];
    size_t n = 0, ndim = 0;
    for (size_t i = 0; i < like->inputs.count; i++) {
        const slot *s = &like->inputs.slots[i];
        if (!s->nargs) continue;
        const lifted *x = argument(k->op, k->args, s->name->bytes);
        if (!x || s->nargs != 1 || n == 3) return NULL;
        args[n++] = value_of(x->term);
    }
    TRY(term_make(t, t->items[op].head, args, n, WEFT_DTYPE_NONE, 0, NULL, &made_op));
    const int64_t *own = term_dims(t, k->id, &ndim);
    if (ndim > WEFT_MAX_RANK) own = NULL;
    int64_t dims[WEFT_MAX_RANK];
    if (own) lift_extents(k->l, made, ndim, own, dims);
    value inner = value_of(made_op);
    return term_make(t, head_id, &inner, 1, t->items[k->id].dtype, ndim, own ? dims : NULL, &made->term);
}

/* Whether the rows that the rank holds begin where the op says. */
static bool begins_right(const lookup *k, size_t rank, uint32_t own_w) {
    size_t ndim;
    const int64_t *dims = term_dims(k->l->t, own_w, &ndim);
    for (size_t i = 0; i < k->l->grid.naxes; i++)
        if (k->w->along[i] != ALONG_SAME && k->w->along[i] != 0) return false;
    return dims && ndim == 2 && k->axes &&
           attr_int(k->op, "start_index", 0) == lift_product(lift_part(k->l, rank, k->axes), dims[0]);
}

/* What the output is along an axis; false: it is not known. */
static bool along_axis(const lookup *k, size_t axis, int8_t *out) {
    int8_t ids = k->ids->along[axis];
    if (k->axes >> axis & 1) {
        *out = k->grad ? 0 : ALONG_SHARE;
        return ids == ALONG_SAME && (!k->grad || k->grad->along[axis] == ALONG_SAME);
    }
    *out = ids;
    if (ids == ALONG_SHARE || !k->grad) return ids != ALONG_SHARE;
    int8_t grad = k->grad->along[axis];
    *out = ids >= 0 || grad == ALONG_SHARE ? ALONG_SHARE : ALONG_SAME;
    return ids >= 0 ? grad == ids : grad < 0;
}

weft_status lift_table(lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *args, size_t n,
                       lifted *out) {
    lookup k = {.l = l, .id = id, .op = op, .args = args};
    bool is_grad = op_is(op, "c_embedding_grad");
    lifted made = lift_same(TERM_NONE);
    k.w = argument(op, args, "W");
    k.ids = argument(op, args, "Ids");
    k.grad = is_grad ? argument(op, args, "Out@GRAD") : NULL;
    *out = lift_unknown(id, "a table whose rows are not the part that the rank holds");
    for (size_t i = 0; i < n; i++)
        if (args[i].state != LIFT_KNOWN) return NULL;
    if (!k.w || !k.ids || (is_grad && !k.grad)) return NULL;
    uint32_t own_w = term_args(l->t, term_args(l->t, id)[0].term)[k.w - args].term;
    k.axes = lift_axes_with(l, k.w, 0);
    bool known = begins_right(&k, rank, own_w);
    for (size_t i = 0; i < l->grid.naxes && known; i++) known = along_axis(&k, i, &made.along[i]);
    if (!known) return NULL;
    TRY(look_up(&k, is_grad ? "lookup_table_v2_grad" : "lookup_table_v2", is_grad ? "W@GRAD" : "Out", &made));
    *out = lift_unknown(id, "the serial program does not look up in that table");
    if (made.term == TERM_NONE) return NULL;
    lift_name_family(l, args, n, &made);
    *out = made;
    return NULL;
}
