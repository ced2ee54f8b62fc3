/* lift_table.c: tables of which each rank holds some rows (c_embedding). A rank looks up what is in its rows, and has
 * zeros for the rest: partial of the serial program's lookup_table_v2. The gradient of its rows is their part of the
 * serial one.
 *
 * The serial op has other attrs, so its head is taken from the serial program: that of any op that does the same, and
 * best of one with the same arguments. So it is if it has such attrs in more than one way. */
#include "proof/spmd/lift.h"

typedef struct lookup {
    lifter *l;
    uint32_t id;        /* the output */
    const weft_op *op;  /* c_embedding or its gradient */
    const lifted *args; /* in the order of its slots */
    const lifted *w, *ids, *grad;
    uint32_t axes; /* that shard the table's rows */
    int last;      /* dimension of what is looked up: of columns */
} lookup;

/* The value of a slot's argument; NULL: it has none. */
const lifted *lift_argument(const weft_op *op, const lifted *args, const char *slot_text) {
    const slot *s = op_find_slot(op, false, slot_text);
    return s && s->nargs ? &args[s->first] : NULL;
}

/* --- the serial program's op -------------------------------------------------------------------------------------- */

/* How many of its arguments are what `op` has in the slots of the same names. */
static size_t count_alike(const terms *t, uint32_t id, const weft_op *op, const lifted *args) {
    const weft_op *like = term_head(t, id)->op;
    size_t n = 0;
    for (uint32_t i = 0; i < op_nslots(like, false); i++) {
        const slot *s = op_slot(like, false, i);
        const lifted *x = s->nargs ? lift_argument(op, args, s->name->bytes) : NULL;
        n += x && term_args(t, id)[s->first].term == x->term;
    }
    return n;
}

/* The op of that type that fits, with the most arguments alike; TERM_NONE: there is none. */
static uint32_t find_serial_op(const lifter *l, const weft_op *op, const lifted *args, const serial_op *like) {
    const terms *t = l->t;
    uint32_t best = TERM_NONE;
    size_t most = 0;
    for (size_t i = 0; i < l->nterms; i++) {
        const head *h = term_head(t, (uint32_t)i);
        if (h->kind != HEAD_OP || !h->op || !op_is(h->op, like->type) || !like->fits(like, h->op, op)) continue;
        size_t alike = count_alike(t, (uint32_t)i, op, args);
        if (best == TERM_NONE || alike > most) best = (uint32_t)i, most = alike;
    }
    return best;
}

/* The head of that op's output; TERM_NONE: nothing uses it. */
static uint32_t find_output_head(const lifter *l, uint32_t op, const char *slot_text) {
    const terms *t = l->t;
    for (size_t i = op; i < l->nterms; i++)
        if (term_is(t, (uint32_t)i, HEAD_OUT) && term_args(t, (uint32_t)i)[0].term == op &&
            strcmp(term_head(t, (uint32_t)i)->label, slot_text) == 0)
            return t->items[i].head;
    return TERM_NONE;
}

weft_status lift_as_serial(lifter *l, uint32_t id, const weft_op *op, const lifted *args, const serial_op *like,
                           lifted *made) {
    terms *t = l->t;
    uint32_t found = find_serial_op(l, op, args, like), made_op;
    uint32_t head_id = found == TERM_NONE ? TERM_NONE : find_output_head(l, found, term_head(t, id)->label);
    made->term = TERM_NONE;
    if (head_id == TERM_NONE) return NULL;
    const weft_op *serial = term_head(t, found)->op;
    value values[16];
    size_t n = 0, ndim = 0;
    for (size_t i = 0; i < op_nslots(serial, false); i++) {
        const slot *s = op_slot(serial, false, i);
        if (!s->nargs) continue;
        const lifted *x = lift_argument(op, args, s->name->bytes);
        if (!x || s->nargs != 1 || n == sizeof values / sizeof *values) return NULL;
        values[n++] = value_of(x->term);
    }
    TRY(term_make(t, t->items[found].head, values, n, WEFT_DTYPE_NONE, 0, NULL, &made_op));
    const int64_t *own = term_dims(t, id, &ndim);
    if (ndim > WEFT_MAX_RANK) own = NULL;
    int64_t dims[WEFT_MAX_RANK];
    if (own) lift_extents(l, made, ndim, own, dims);
    value inner = value_of(made_op);
    return term_make(t, head_id, &inner, 1, t->items[id].dtype, ndim, own ? dims : NULL, &made->term);
}

bool lift_has_attrs_but(const char *but, const weft_op *serial, const weft_op *own) {
    const op_schema *s = op_schema_of((weft_op *)serial);
    for (size_t i = 0; s && i < s->nattrs; i++) {
        const char *n = s->attrs[i].name;
        const weft_attr *a = op_find_attr(serial, n), *b = op_find_attr(own, n);
        if (but && strcmp(n, but) == 0) continue;
        weft_attr x = a ? *a : s->attrs[i].default_value, y = b ? *b : s->attrs[i].default_value;
        x.name = y.name = a ? a->name : b ? b->name : NULL;
        if ((a || b) && !attr_equal(&x, &y)) return false;
    }
    return s != NULL;
}

static bool has_like_list(const serial_op *like, const weft_op *serial, const weft_op *own) {
    size_t n, nown;
    const int64_t *all = attr_ints(serial, like->attr, &n), *part = attr_ints(own, like->attr, &nown);
    if (n != nown || (size_t)like->element >= n) return false;
    for (size_t i = 0; i < n; i++)
        if (all[i] != ((int)i == like->element ? lift_product(part[i], like->times) : part[i])) return false;
    return true;
}

bool lift_has_like_attrs(const serial_op *like, const weft_op *serial, const weft_op *own) {
    const char *n = like->attr;
    bool is_list = n && like->element >= 0;
    if (is_list && !has_like_list(like, serial, own)) return false;
    if (n && !is_list && attr_int(serial, n, -1) != lift_product(attr_int(own, n, -2), like->times)) return false;
    return lift_has_attrs_but(n, serial, own);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

/* Without a row for padding. */
static bool looks_up_all(const serial_op *like, const weft_op *serial, const weft_op *own) {
    (void)like, (void)own;
    return attr_int(serial, "padding_idx", -1) == -1;
}

/* Whether the rows that the rank holds begin where the op says. */
static bool begins_right(const lookup *k, size_t rank, uint32_t own_w) {
    size_t ndim;
    const int64_t *dims = term_dims(k->l->t, own_w, &ndim);
    for (size_t i = 0; i < k->l->grid.naxes; i++)
        if (is_partial(k->w->placed[i]) || k->w->placed[i].split >= SPLIT_RUNS) return false;
    if (!dims || ndim != 2 || !k->axes) return false;
    int64_t first = lift_product(lift_part(k->l, rank, k->axes), dims[0]), extent;
    for (size_t i = 0; i < k->l->grid.naxes; i++)
        if (has_partition(k->w->placed[i]) && (k->axes >> i & 1))
            first = lift_partition_part(k->l, k->w->placed[i], rank, &extent);
    return attr_int(k->op, "start_index", 0) == first;
}

/* How the output is placed along an axis; false: it is not known. */
static bool place_along(const lookup *k, size_t axis, axis_placement *out) {
    axis_placement ids = k->ids->placed[axis];
    if (k->axes >> axis & 1) {
        *out = k->grad ? k->w->placed[axis] : PARTIAL;
        return is_replicated(ids) && (!k->grad || is_replicated(k->grad->placed[axis]));
    }
    if (is_sharded(k->w->placed[axis])) { /* its columns */
        axis_placement columns = sharded_by(k->last, k->w->placed[axis].split);
        *out = k->grad ? k->w->placed[axis] : columns;
        return is_replicated(ids) && (!k->grad || placed_equal(k->grad->placed[axis], columns));
    }
    *out = ids;
    if (is_partial(ids) || !k->grad) return !is_partial(ids);
    axis_placement grad = k->grad->placed[axis];
    *out = is_sharded(ids) || is_partial(grad) ? PARTIAL : REPLICATED;
    return is_sharded(ids) ? placed_equal(grad, ids) : !is_sharded(grad);
}

weft_status lift_table(lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *args, size_t n,
                       lifted *out) {
    lookup k = {.l = l, .id = id, .op = op, .args = args};
    bool is_grad = op_is(op, "c_embedding_grad");
    lifted made = lift_replicated(TERM_NONE);
    k.w = lift_argument(op, args, "W");
    k.ids = lift_argument(op, args, "Ids");
    k.grad = is_grad ? lift_argument(op, args, "Out@GRAD") : NULL;
    *out = lift_unknown(id, "a table whose rows are not the part that the rank holds");
    for (size_t i = 0; i < n; i++)
        if (args[i].state != LIFT_KNOWN) return NULL;
    if (!k.w || !k.ids || (is_grad && !k.grad)) return NULL;
    const value *own = term_args(l->t, term_args(l->t, id)[0].term);
    uint32_t own_w = own[k.w - args].term;
    k.last = l->t->items[own[k.ids - args].term].ndim;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (sharded_dim(k.w->placed[i]) == 0) k.axes |= UINT32_C(1) << i;
    bool known = begins_right(&k, rank, own_w);
    for (size_t i = 0; i < l->grid.naxes && known; i++) known = place_along(&k, i, &made.placed[i]);
    if (!known) return NULL;
    serial_op like = {.type = is_grad ? "lookup_table_v2_grad" : "lookup_table_v2", .fits = looks_up_all};
    TRY(lift_as_serial(l, id, op, args, &like, &made));
    *out = lift_unknown(id, "the serial program does not look up in any table");
    if (made.term == TERM_NONE) return NULL;
    lift_name_family(l, args, n, &made);
    *out = made;
    return NULL;
}
