/* lift_fills.c: constants. Ranks that fill tensors as long as their parts with one number hold parts of a larger one
 * that the serial program fills. Any way to see such a tensor as a part is true. So where other arguments of an op are
 * parts, the one that fits is taken. */
#include "proof/spmd/view.h"

/* The constant with a dimension of that extent. */
static weft_status longer_fill(lifter *l, uint32_t id, size_t d, int64_t extent, uint32_t *out) {
    size_t ndim;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    shape type = {.dtype = l->t->items[id].dtype, .ndim = (int32_t)ndim, .height = -1};
    memcpy(type.dims, dims, ndim * sizeof *dims);
    type.dims[d] = extent;
    value filled = value_of(TERM_NONE);
    TRY(term_fill(l->t, term_head(l->t, id)->number, &type, &filled));
    *out = filled.term;
    return NULL;
}

/* The extent of that dimension; 0: it has none. */
static int64_t extent_of(const lifter *l, uint32_t id, size_t d) {
    size_t ndim;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    return dims && d < ndim && ndim <= WEFT_MAX_RANK && dims[d] > 0 ? dims[d] : 0;
}

weft_status lift_fill_as_part(lifter *l, size_t axis, size_t d, lifted *x, bool *out_is) {
    *out_is = x->state == LIFT_KNOWN && term_is(l->t, x->term, HEAD_FILL) && is_replicated(x->placed[axis]) &&
              extent_of(l, x->term, d);
    if (!*out_is) return NULL;
    TRY(longer_fill(l, x->term, d, lift_product(extent_of(l, x->term, d), l->grid.extent[axis]), &x->term));
    x->placed[axis] = sharded((int)d);
    return NULL;
}

weft_status lift_fill_as_unequal_part(lifter *l, size_t rank, axis_placement like, size_t d, lifted *x, bool *out_is) {
    const partition *p = lift_partition(l, like);
    int64_t own;
    (void)lift_partition_part(l, like, rank, &own);
    *out_is = x->state == LIFT_KNOWN && term_is(l->t, x->term, HEAD_FILL) && own > 0 &&
              extent_of(l, x->term, d) == own && !lift_is_sharded_at(l, x, (int)d);
    for (int i = 0; i < p->naxes; i++) *out_is = *out_is && is_replicated(x->placed[p->axes[i]]);
    if (!*out_is) return NULL;
    TRY(longer_fill(l, x->term, d, p->total, &x->term));
    for (int i = 0; i < p->naxes; i++) x->placed[p->axes[i]] = sharded_by((int)d, like.split);
    return NULL;
}

/* The constant that the term moves, or puts more of its number around; TERM_NONE: it does neither. */
static uint32_t constant_in(const terms *t, uint32_t id) {
    uint32_t moved = view_argument(t, id);
    if (moved != TERM_NONE) return term_is(t, moved, HEAD_FILL) ? moved : TERM_NONE;
    const weft_op *op = view_pad_of(t, id);
    if (!op) return TERM_NONE;
    uint32_t own = term_args(t, term_args(t, id)[0].term)[0].term;
    double number = attr_float(op, "pad_value", 0), had = term_head(t, own)->number;
    return term_is(t, own, HEAD_FILL) && memcmp(&number, &had, sizeof had) == 0 ? own : TERM_NONE;
}

weft_status lift_settle_fill(lifter *l, lifted *x) {
    size_t ndim;
    if (x->state != LIFT_KNOWN || !lift_is_replicated(l, x)) return NULL;
    const int64_t *dims = term_dims(l->t, x->term, &ndim);
    uint32_t from = dims && ndim <= WEFT_MAX_RANK ? constant_in(l->t, x->term) : TERM_NONE;
    if (from == TERM_NONE) return NULL;
    shape type = {.dtype = l->t->items[from].dtype, .ndim = (int32_t)ndim, .height = -1};
    memcpy(type.dims, dims, ndim * sizeof *dims);
    value filled = value_of(TERM_NONE);
    TRY(term_fill(l->t, term_head(l->t, from)->number, &type, &filled));
    x->term = filled.term;
    return NULL;
}

weft_status lift_fill(lifter *l, uint32_t id, lifted *out) {
    size_t ndim, d = 0;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    bool is_part;
    lifted part = *out = lift_replicated(id);
    while (dims && d < ndim && l->rows_of_rank && (dims[d] <= 0 || dims[d] % l->rows_of_rank)) d++;
    if (!dims || d >= ndim || !l->rows_of_rank) return NULL;
    TRY(lift_fill_as_part(l, 0, d, &part, &is_part));
    bool is_whole = id < l->nserial && part.term >= l->nserial; /* the serial program fills as much, and no more */
    if (!is_whole) *out = part;
    return NULL;
}
