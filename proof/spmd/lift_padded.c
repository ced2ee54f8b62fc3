/* lift_padded.c: parts that are filled up with zeros.
 *
 * A collective moves equal parts. So a rank whose part of a dimension is shorter fills it up, and what is made of that
 * is cut. With zeros behind them all parts are equal parts of the longer value that has zeros at its end (HEAD_PADDED).
 * A full part is both: the first ranks' of the value, and of the longer one. It counts as the former, but as the latter
 * where a collective needs it so. What stays within the elements of the value is a view of it (view.c). Zeros before
 * and behind a part, as long as the rest, make of parts a sum: of which each rank has its part among zeros.
 *
 * A softmax takes for filled up what has the least number behind it, and leaves what nobody reads (HEAD_FILLED). */
#include <float.h>

#include "proof/spmd/view.h"

/* --- terms -------------------------------------------------------------------------------------------------------- */

/* What stands behind a value. */
enum { WITH_ZEROS, WITH_LEAST, WITH_ANY };

static weft_status fill_one(terms *t, uint32_t id, size_t d, int64_t extent, int with, uint32_t *out) {
    int64_t dims[WEFT_MAX_RANK], ints[3] = {(int64_t)d, extent, with};
    bool zeros = with == WITH_ZEROS;
    size_t ndim;
    uint32_t head_id;
    memcpy(dims, term_dims(t, id, &ndim), (size_t)t->items[id].ndim * sizeof *dims);
    dims[d] = extent;
    head h = {.kind = zeros ? HEAD_PADDED : HEAD_FILLED, .label = zeros ? "padded" : "filled", .ints = ints};
    h.nints = zeros ? 2 : 3;
    buffer *key = head_begin(t, h.kind);
    for (uint32_t i = 0; i < h.nints; i++) head_put_int(key, ints[i]);
    TRY(head_finish(t, &h, &head_id));
    value of = value_of(id);
    return term_make(t, head_id, &of, 1, t->items[id].dtype, ndim, dims, out);
}

static weft_status pad_one(terms *t, uint32_t id, size_t d, int64_t extent, uint32_t *out) {
    return fill_one(t, id, d, extent, WITH_ZEROS, out);
}

/* The value with zeros behind it along dimension `d`, of that extent then. Of several dimensions the last one is
 * filled up last: equal values are equal terms. */
static weft_status make_padded(terms *t, uint32_t id, size_t d, int64_t extent, uint32_t *out) {
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    if (dims[d] == extent) return *out = id, NULL;
    if (!term_is(t, id, HEAD_PADDED) || term_head(t, id)->ints[0] < (int64_t)d) return pad_one(t, id, d, extent, out);
    size_t own = (size_t)term_head(t, id)->ints[0];
    int64_t own_extent = term_head(t, id)->ints[1];
    TRY(make_padded(t, term_args(t, id)[0].term, d, extent, out));
    return own == d ? NULL : pad_one(t, *out, own, own_extent, out);
}

/* The same without what fills up that dimension. */
static weft_status without_padding(terms *t, uint32_t id, size_t d, uint32_t *out) {
    size_t own = (size_t)term_head(t, id)->ints[0];
    int64_t extent = term_head(t, id)->ints[1];
    uint32_t of = term_args(t, id)[0].term;
    if (own == d) return *out = of, NULL;
    TRY(without_padding(t, of, d, out));
    return pad_one(t, *out, own, extent, out);
}

static bool is_filled(const terms *t, uint32_t id) {
    return term_is(t, id, HEAD_PADDED) || term_is(t, id, HEAD_FILLED);
}

/* The extent of dimension `d` before it was filled up; 0: it was not. */
static int64_t extent_before(const terms *t, uint32_t id, size_t d) {
    size_t ndim;
    for (; is_filled(t, id); id = term_args(t, id)[0].term)
        if (term_head(t, id)->ints[0] == (int64_t)d) return term_dims(t, term_args(t, id)[0].term, &ndim)[d];
    return 0;
}

weft_status lift_below_padding(lifter *l, uint32_t id, uint32_t argument, uint32_t *out) {
    terms *t = l->t;
    value v = value_of(argument);
    bool keeps_zeros = term_is(t, id, HEAD_SCALE) || term_is(t, id, HEAD_CAST);
    if (!keeps_zeros || !term_is(t, argument, HEAD_PADDED)) {
        TRY(term_again(t, id, &v, &v));
        return *out = v.term, NULL;
    }
    size_t d = (size_t)term_head(t, argument)->ints[0];
    int64_t extent = term_head(t, argument)->ints[1];
    TRY(lift_below_padding(l, id, term_args(t, argument)[0].term, out));
    return pad_one(t, *out, d, extent, out);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* The only axis that shards dimension `d`; -1: none does, or several do. */
static int only_axis(const lifter *l, const lifted *x, size_t d) {
    int found = -1;
    for (size_t k = 0; k < l->grid.naxes; k++) {
        if (sharded_dim(x->placed[k]) != (int)d) continue;
        if (found >= 0) return -1;
        found = (int)k;
    }
    return found;
}

/* Of parts of the extent divided and rounded up, of which the first are full, that one at `at`. */
static int64_t part_of(int64_t total, int64_t n, int64_t at) {
    int64_t most = (total + n - 1) / n, left = total - at * most;
    return left < 0 ? 0 : left < most ? left : most;
}

/* The split of axis `k` into such parts; 0: it is even, or there are too many splits. */
static int find_ceil_split(const lifter *l, size_t k, int64_t total) {
    int64_t extent[LIFT_RANKS], n = l->grid.extent[k];
    int axis = (int)k;
    if (n < 2 || n > LIFT_RANKS || total % n == 0) return 0;
    lift_ceil_parts(l, &axis, 1, total, extent);
    return lift_find_partition(l, &axis, 1, extent);
}

/* Whether axis `k` splits so, and into which extent; 0: it does not. */
static int64_t ceil_total(const lifter *l, const lifted *x, size_t k) {
    if (!has_partition(x->placed[k])) return 0;
    int64_t total = lift_partition(l, x->placed[k])->total;
    return find_ceil_split(l, k, total) == x->placed[k].split ? total : 0;
}

/* Takes the axis's parts of the extent `total` for equal ones of what is filled up. */
static weft_status fill_up(lifter *l, size_t k, int64_t total, lifted *x) {
    size_t d = (size_t)x->placed[k].dim;
    int64_t n = l->grid.extent[k];
    TRY(make_padded(l->t, x->term, d, lift_product(part_of(total, n, 0), n), &x->term));
    x->placed[k] = sharded((int)d);
    return NULL;
}

/* The same with something else behind it; only of what is not filled up already. */
static weft_status fill_last(lifter *l, size_t k, int64_t total, int with, lifted *x) {
    size_t d = (size_t)x->placed[k].dim;
    int64_t n = l->grid.extent[k];
    if (is_filled(l->t, x->term)) return x->state = LIFT_UNKNOWN, NULL;
    TRY(fill_one(l->t, x->term, d, lift_product(part_of(total, n, 0), n), with, &x->term));
    x->placed[k] = sharded((int)d);
    return NULL;
}

weft_status lift_full_parts(lifter *l, size_t rank, uint32_t id, bool *out_are, lifted *x) {
    size_t ndim, nwhole;
    *out_are = false;
    for (size_t k = 0; x->state == LIFT_KNOWN && k < l->grid.naxes; k++) {
        const int64_t *dims = term_dims(l->t, id, &ndim), *whole = term_dims(l->t, x->term, &nwhole);
        int64_t total = ceil_total(l, x, k), n = l->grid.extent[k];
        size_t d = (size_t)x->placed[k].dim;
        if (!total || !dims || !whole || ndim != nwhole || d >= ndim || only_axis(l, x, d) != (int)k) continue;
        if (whole[d] != total || dims[d] != part_of(total, n, 0)) continue;
        if (dims[d] != part_of(total, n, l->grid.at[rank][k])) continue;
        const lifted was = *x;
        TRY(fill_up(l, k, total, x));
        lift_name_family(l, &was, 1, x);
        *out_are = true;
    }
    return NULL;
}

/* --- pads and cuts ------------------------------------------------------------------------------------------------ */

typedef struct border {
    size_t d;
    int64_t before, behind;
    int with;
} border;

/* What a border of that number is; -1: nothing that is followed. */
static int border_with(double number) {
    if (number <= -(double)FLT_MAX) return WITH_LEAST;
    return number < 0 || number > 0 ? -1 : WITH_ZEROS;
}

/* A border of one dimension; false: the op does something else. */
static bool read_border(const weft_op *op, size_t ndim, border *out) {
    size_t n, count = 0;
    const int64_t *paddings = op && op_is(op, "pad") ? attr_ints(op, "paddings", &n) : NULL;
    int with = op ? border_with(weft_op_attr_float(op, "pad_value", 0)) : -1;
    if (!paddings || n != 2 * ndim || with < 0) return false;
    for (size_t d = 0; d < ndim; d++) {
        if (paddings[2 * d] < 0 || paddings[2 * d + 1] < 0) return false;
        if (!paddings[2 * d] && !paddings[2 * d + 1]) continue;
        *out = (border){d, paddings[2 * d], paddings[2 * d + 1], with};
        count++;
    }
    return count == 1;
}

/* Where the rank's part of the axis begins; -1: what is `whole` long has no such part there. */
static int64_t first_of_part(const lifter *l, size_t k, size_t rank, size_t d, int64_t own, int64_t whole,
                             const lifted *x) {
    axis_placement placed = x->placed[k];
    if (is_sharded_evenly(placed, (int)d))
        return whole == lift_product(own, l->grid.extent[k]) ? own * l->grid.at[rank][k] : -1;
    if (!has_partition(placed) || lift_partition(l, placed)->total != whole) return -1;
    int64_t extent, first = lift_partition_part(l, placed, rank, &extent);
    return extent == own ? first : -1;
}

/* What the border makes of the rank's part of the axis: one that is full, or one among as many zeros as there is else.
 */
static weft_status pad_part(lifter *l, size_t k, size_t rank, const border *b, int64_t own, int64_t whole, lifted *x) {
    int64_t n = l->grid.extent[k], total = ceil_total(l, x, k), first = first_of_part(l, k, rank, b->d, own, whole, x);
    bool is_full = first >= 0 && total && !b->before && own + b->behind == part_of(total, n, 0);
    if (is_full && b->with != WITH_ZEROS) return fill_last(l, k, total, b->with, x);
    if (is_full) return fill_up(l, k, total, x);
    if (b->with == WITH_ZEROS && first >= 0 && b->before == first && b->before + own + b->behind == whole)
        x->placed[k] = PARTIAL;
    else
        x->state = LIFT_UNKNOWN;
    return NULL;
}

weft_status lift_pad(lifter *l, size_t rank, uint32_t id, lifted *out) {
    terms *t = l->t;
    if (!term_is(t, id, HEAD_OUT) || !term_is(t, term_args(t, id)[0].term, HEAD_OP)) return NULL;
    uint32_t of = term_args(t, id)[0].term;
    if (t->items[of].nargs != 1 || term_args(t, of)[0].factor != FACTOR_ONE) return NULL;
    uint32_t argument = term_args(t, of)[0].term;
    const lifted x = l->known[rank][argument];
    size_t ndim, nwhole;
    const int64_t *dims = term_dims(t, argument, &ndim);
    border b = {.d = 0};
    if (x.state != LIFT_KNOWN || !dims || ndim > WEFT_MAX_RANK || !read_border(term_head(t, of)->op, ndim, &b))
        return NULL;
    const int64_t *whole = term_dims(t, x.term, &nwhole);
    if (!whole || nwhole != ndim || dims[b.d] < 0) return NULL;
    lifted made = x;
    int64_t own = dims[b.d], all = whole[b.d];
    int k = only_axis(l, &x, b.d);
    if (k >= 0)
        TRY(pad_part(l, (size_t)k, rank, &b, own, all, &made));
    else if (b.with == WITH_ZEROS && !lift_is_sharded_at(l, &x, (int)b.d) && own == all && !b.before)
        TRY(make_padded(t, x.term, b.d, own + b.behind, &made.term));
    else
        return NULL;
    if (made.state != LIFT_KNOWN) return NULL;
    lift_name_family(l, &x, 1, &made);
    *out = made;
    return NULL;
}

/* Parts of a value that is filled up, as those of the value, of which the rank has `own` along dimension `d`. */
static weft_status cut_part(lifter *l, size_t rank, size_t d, int64_t own, bool *out_is, lifted *x) {
    size_t ndim;
    int64_t total = extent_before(l->t, x->term, d);
    const int64_t *whole = term_dims(l->t, x->term, &ndim);
    int k = only_axis(l, x, d), split = 0;
    *out_is = false;
    if (!total || !whole || k < 0 || !is_sharded_evenly(x->placed[k], (int)d)) return NULL;
    int64_t n = l->grid.extent[k];
    if (whole[d] != lift_product(part_of(total, n, 0), n)) return NULL;
    if (own == part_of(total, n, l->grid.at[rank][k])) split = find_ceil_split(l, (size_t)k, total);
    if (!split) return NULL;
    const lifted was = *x;
    TRY(without_padding(l->t, x->term, d, &x->term));
    x->placed[k] = sharded_by((int)d, split);
    lift_name_family(l, &was, 1, x);
    *out_is = true;
    return NULL;
}

weft_status lift_cut(lifter *l, size_t rank, uint32_t id, lifted *out) {
    box b;
    bool is_cut;
    if (!lift_as_box(l->t, id, &b) || b.of >= l->nterms) return NULL;
    lifted x = l->known[rank][b.of];
    size_t cut = b.ndim;
    if (x.state != LIFT_KNOWN || !is_filled(l->t, x.term)) return NULL;
    for (size_t d = 0; d < b.ndim; d++) {
        if (b.offset[d] || (b.extent[d] != b.whole[d] && cut != b.ndim)) return NULL;
        if (b.extent[d] != b.whole[d]) cut = d;
    }
    if (cut == b.ndim) return NULL;
    TRY(cut_part(l, rank, cut, b.extent[cut], &is_cut, &x));
    if (is_cut) *out = x;
    return NULL;
}

weft_status lift_settle_full(lifter *l, size_t rank, uint32_t id, lifted *x) {
    size_t ndim;
    if (x->state != LIFT_KNOWN || !term_is(l->t, x->term, HEAD_PADDED)) return NULL;
    const int64_t *own = term_dims(l->t, id, &ndim);
    int64_t dims[WEFT_MAX_RANK];
    bool is_cut;
    if (!own || ndim > WEFT_MAX_RANK) return NULL;
    memcpy(dims, own, ndim * sizeof *own);
    for (size_t d = 0; d < ndim && term_is(l->t, x->term, HEAD_PADDED); d++)
        TRY(cut_part(l, rank, d, dims[d], &is_cut, x));
    return NULL;
}

/* --- equal parts for an op ---------------------------------------------------------------------------------------- */

int64_t lift_filled_part(lifter *l, size_t rank, uint32_t id, size_t d, bool least, lifted *x) {
    size_t ndim, nwhole;
    const int64_t *dims = term_dims(l->t, id, &ndim);
    int k = only_axis(l, x, d);
    if (x->state != LIFT_KNOWN || !dims || d >= ndim || k < 0) return 0;
    int64_t n = l->grid.extent[k], total = ceil_total(l, x, (size_t)k);
    if (total) {
        const int64_t *whole = term_dims(l->t, x->term, &nwhole);
        bool is_full = whole && nwhole == ndim && whole[d] == total && dims[d] == part_of(total, n, 0);
        return is_full && dims[d] == part_of(total, n, l->grid.at[rank][k]) ? dims[d] : 0;
    }
    const head *h = term_head(l->t, x->term);
    bool fits = h->kind == HEAD_FILLED ? h->ints[2] == WITH_LEAST || !least : h->kind == HEAD_PADDED && !least;
    if (!fits || h->ints[0] != (int64_t)d || !is_sharded_evenly(x->placed[k], (int)d)) return 0;
    total = extent_before(l->t, x->term, d);
    int split = h->ints[1] == lift_product(dims[d], n) ? find_ceil_split(l, (size_t)k, total) : 0;
    if (!split || part_of(total, n, 0) != dims[d]) return 0;
    x->term = term_args(l->t, x->term)[0].term;
    x->placed[k] = sharded_by((int)d, split);
    return dims[d];
}

weft_status lift_fill_part(lifter *l, size_t rank, size_t d, lifted *x) {
    int k = only_axis(l, x, d);
    int64_t n = k < 0 ? 0 : l->grid.extent[k], total = k < 0 ? 0 : ceil_total(l, x, (size_t)k);
    if (!total || part_of(total, n, l->grid.at[rank][k]) == part_of(total, n, 0)) return NULL;
    return fill_last(l, (size_t)k, total, WITH_ANY, x);
}
