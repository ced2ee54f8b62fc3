/* view.c: values that are moves of other values, as strided views of them.
 *
 * Reshapes, transposes, slices and concatenations make views of a value. Its elements in order are those of the value
 * at an offset, stepped through by levels (extent, stride), as an array's are. Levels that continue one another are
 * one, so equal views have one form. Moves are moves of levels; what would cut one unevenly is no view. */
#include "proof/spmd/view.h"

/* --- levels ------------------------------------------------------------------------------------------------------- */

static bool view_insert(view *v, size_t at, int64_t extent, int64_t stride) {
    if (v->n == VIEW_LEVELS) return false;
    memmove(v->extent + at + 1, v->extent + at, (v->n - at) * sizeof *v->extent);
    memmove(v->stride + at + 1, v->stride + at, (v->n - at) * sizeof *v->stride);
    v->extent[at] = extent;
    v->stride[at] = stride;
    v->n++;
    return true;
}

bool view_add_level(view *v, size_t at, int64_t extent, int64_t stride) {
    return extent == 1 || view_insert(v, at, extent, stride);
}

void view_merge(view *v) {
    size_t n = 0;
    for (size_t i = 0; i < v->n; i++) {
        int64_t extent = v->extent[i], stride = v->stride[i];
        if (extent == 1) continue;
        bool continues = n && v->stride[n - 1] == stride * extent;
        if (continues) extent *= v->extent[--n];
        v->extent[n] = extent;
        v->stride[n++] = stride;
    }
    v->n = n;
}

bool view_split(view *v, size_t ndim, const int64_t *dims, size_t *first) {
    view from = *v;
    size_t at = from.n, counts[VIEW_LEVELS];
    v->n = 0;
    for (size_t d = ndim; d-- > 0;) {
        size_t before = v->n;
        for (int64_t need = dims[d], take; need > 1; need /= take) {
            if (!at) return false;
            int64_t *extent = &from.extent[at - 1], *stride = &from.stride[at - 1];
            take = need % *extent == 0 ? *extent : *extent % need == 0 ? need : 0;
            if (!take || !view_add_level(v, 0, take, *stride)) return false;
            *extent /= take;
            *stride *= take;
            if (*extent == 1) at--;
        }
        counts[d] = v->n - before;
    }
    first[0] = 0;
    for (size_t d = 0; d < ndim; d++) first[d + 1] = first[d] + counts[d];
    return at == 0;
}

int64_t view_element(const view *v, int64_t at) {
    int64_t place = v->offset;
    for (size_t i = v->n; i-- > 0; at /= v->extent[i]) place += at % v->extent[i] * v->stride[i];
    return place;
}

bool view_slice(view *v, size_t first, size_t end, int64_t from, int64_t count) {
    int64_t inner = 1;
    for (size_t i = first; i < end; i++) inner *= v->extent[i];
    if (from < 0 || count < 1 || from > inner - count) return false;
    for (size_t i = first; i < end; i++) {
        inner /= v->extent[i];
        bool whole = from % inner == 0 && count % inner == 0;
        if (!whole && from / inner != (from + count - 1) / inner) return false;
        v->offset += from / inner * v->stride[i];
        v->extent[i] = whole ? count / inner : 1;
        if (whole) return true;
        from %= inner;
    }
    return true;
}

bool view_add_pieces(view *v, size_t at, int64_t *offsets, size_t n) {
    v->offset = offsets[0];
    while (n > 1) {
        int64_t step = offsets[1] - offsets[0];
        size_t run = 2;
        while (run < n && offsets[run] - offsets[run - 1] == step) run++;
        while (n % run) run--;
        if (run == 1) return false;
        for (size_t i = 0; i < n; i++)
            if (offsets[i] - offsets[i / run * run] != (int64_t)(i % run) * step) return false;
        if (!view_add_level(v, at, (int64_t)run, step)) return false;
        for (size_t i = 0; i < n / run; i++) offsets[i] = offsets[i * run];
        n /= run;
    }
    return true;
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

/* The only argument of the slot of the op behind an output; TERM_NONE: it has none. */
static uint32_t slot_argument(const terms *t, uint32_t op_term, const char *slot_text) {
    const weft_op *op = term_head(t, op_term)->op;
    const slot *s = op_find_slot(op, false, slot_text);
    if (!s || s->nargs != 1 || s->first >= t->items[op_term].nargs) return TERM_NONE;
    value x = term_args(t, op_term)[s->first];
    return x.factor == FACTOR_ONE ? x.term : TERM_NONE;
}

uint32_t view_argument(const terms *t, uint32_t id) {
    const head *h = term_head(t, id);
    if (h->kind == HEAD_RESHAPE || h->kind == HEAD_PART || h->kind == HEAD_BOX)
        return term_args(t, id)[0].factor == FACTOR_ONE ? term_args(t, id)[0].term : TERM_NONE;
    if (h->kind != HEAD_OUT) return TERM_NONE;
    uint32_t from = term_args(t, id)[0].term;
    const weft_op *op = term_head(t, from)->op;
    if (term_head(t, from)->kind != HEAD_OP || !op) return TERM_NONE;
    bool is_grad = op_is(op, "transpose2_grad"), alone = t->items[from].nargs == 1;
    if (is_grad && strcmp(h->label, "X@GRAD") == 0) return slot_argument(t, from, "Out@GRAD");
    if (!alone || strcmp(h->label, "Out") != 0) return TERM_NONE;
    if (op_is(op, "slice")) return slot_argument(t, from, "Input");
    return op_is(op, "transpose2") || op_is(op, "split") ? slot_argument(t, from, "X") : TERM_NONE;
}

const weft_op *view_pad_of(const terms *t, uint32_t id) {
    if (!term_is(t, id, HEAD_OUT)) return NULL;
    uint32_t of = term_args(t, id)[0].term;
    const weft_op *op = term_is(t, of, HEAD_OP) ? term_head(t, of)->op : NULL;
    return op && op_is(op, "pad") && t->items[of].nargs == 1 && term_args(t, of)[0].factor == FACTOR_ONE ? op : NULL;
}

static bool is_transpose(const weft_op *op) {
    return op_is(op, "transpose2") || op_is(op, "transpose2_grad");
}

static bool turn(view *v, const weft_op *op, size_t ndim, const size_t *first) {
    size_t n, at = 0, place[WEFT_MAX_RANK];
    const int64_t *axes = attr_ints(op, "axis", &n);
    view from = *v;
    if (n != ndim) return false;
    for (size_t d = 0; d < ndim; d++) place[d] = ndim;
    for (size_t d = 0; d < ndim; d++) {
        int64_t axis = axes[d] < 0 ? axes[d] + (int64_t)ndim : axes[d];
        if (axis < 0 || axis >= (int64_t)ndim) return false;
        if (op_is(op, "transpose2"))
            place[d] = (size_t)axis;
        else
            place[axis] = d;
    }
    for (size_t d = 0; d < ndim; d++) {
        if (place[d] == ndim) return false;
        for (size_t i = first[place[d]]; i < first[place[d] + 1]; i++, at++)
            v->extent[at] = from.extent[i], v->stride[at] = from.stride[i];
    }
    return at == v->n;
}

/* Where output `index` of a split begins along its axis, and its extent. */
static bool split_bounds(const weft_op *op, size_t index, size_t ndim, const int64_t *whole, const int64_t *own,
                         box *b) {
    size_t n;
    const int64_t *sections = attr_ints(op, "sections", &n);
    int64_t axis = attr_int(op, "axis", 0), from = 0;
    if (axis < 0 || axis >= (int64_t)ndim || (n && index >= n)) return false;
    for (size_t i = 0; i < index; i++) {
        int64_t extent = n ? sections[i] : own[axis];
        if (extent < 0) return false;
        from += extent;
    }
    for (size_t d = 0; d < ndim; d++) b->offset[d] = 0, b->extent[d] = whole[d];
    b->offset[axis] = from;
    b->extent[axis] = own[axis];
    return true;
}

/* The box of its argument that the term shows. */
static bool box_bounds(const terms *t, uint32_t id, size_t ndim, const int64_t *whole, box *b) {
    const head *h = term_head(t, id);
    size_t nown;
    const int64_t *own = term_dims(t, id, &nown);
    if (h->kind == HEAD_BOX) {
        for (size_t d = 0; d < ndim && h->nints == 2 * ndim; d++)
            b->offset[d] = h->ints[2 * d], b->extent[d] = h->ints[2 * d + 1];
        return h->nints == 2 * ndim;
    }
    const weft_op *op = term_head(t, term_args(t, id)[0].term)->op;
    b->ndim = ndim;
    memcpy(b->whole, whole, ndim * sizeof *whole);
    if (op_is(op, "slice")) return lift_slice_bounds(op, b);
    return own && nown == ndim && split_bounds(op, (size_t)h->ints[1], ndim, whole, own, b);
}

bool view_move(const terms *t, uint32_t id, view *v) {
    const head *h = term_head(t, id);
    size_t ndim, first[WEFT_MAX_RANK + 1];
    const int64_t *whole = term_dims(t, view_argument(t, id), &ndim);
    int64_t numel = term_numel(t, id);
    box b = {.ndim = ndim};
    if (!whole || ndim > WEFT_MAX_RANK || numel <= 0) return false;
    if (h->kind == HEAD_RESHAPE) return true;
    if (h->kind == HEAD_PART) {
        if (!view_slice(v, 0, v->n, h->ints[0], h->ints[1])) return false;
    } else if (!view_split(v, ndim, whole, first)) {
        return false;
    } else if (h->kind == HEAD_OUT && is_transpose(term_head(t, term_args(t, id)[0].term)->op)) {
        if (!turn(v, term_head(t, term_args(t, id)[0].term)->op, ndim, first)) return false;
    } else {
        if (!box_bounds(t, id, ndim, whole, &b)) return false;
        for (size_t d = 0; d < ndim; d++)
            if (!view_slice(v, first[d], first[d + 1], b.offset[d], b.extent[d])) return false;
    }
    int64_t n = 1;
    for (size_t i = 0; i < v->n; i++) n *= v->extent[i];
    view_merge(v);
    return n == numel;
}

bool view_is_like(const view *a, const view *b) {
    return a->base == b->base && a->n == b->n && memcmp(a->extent, b->extent, a->n * sizeof *a->extent) == 0 &&
           memcmp(a->stride, b->stride, a->n * sizeof *a->stride) == 0 && memcmp(a->step, b->step, sizeof a->step) == 0;
}

/* But for the extent of dimension `axis`, where it is one. */
static bool are_of_one_shape(const terms *t, uint32_t of, int axis) {
    size_t ndim, n;
    const value *args = term_args(t, of);
    const int64_t *dims = term_dims(t, args[0].term, &ndim);
    for (size_t i = 0; i < t->items[of].nargs; i++) {
        const int64_t *own = term_dims(t, args[i].term, &n);
        if (args[i].factor != FACTOR_ONE || !own || !dims || n != ndim || ndim > WEFT_MAX_RANK) return false;
        for (size_t d = 0; d < ndim; d++)
            if (own[d] != dims[d] && (int)d != axis) return false;
    }
    return true;
}

/* Whether a concatenation of elements has no gaps, and equal pieces. */
static bool is_even(const terms *t, uint32_t id) {
    const head *h = term_head(t, id);
    size_t n = t->items[id].nargs;
    if (h->nints != 2 * n || h->ints[1] <= 0 || h->total != lift_product(h->ints[1], (int64_t)n)) return false;
    for (size_t i = 0; i < n; i++)
        if (h->ints[2 * i] != (int64_t)i * h->ints[1] || h->ints[2 * i + 1] != h->ints[1] ||
            term_args(t, id)[i].factor != FACTOR_ONE || term_numel(t, term_args(t, id)[i].term) != h->ints[1])
            return false;
    return true;
}

/* False: it is not put together so. */
bool view_joint_of(const terms *t, uint32_t id, view_joint *out) {
    const head *h = term_head(t, id);
    *out = (view_joint){.of = id, .n = t->items[id].nargs, .axis = -1};
    if (h->kind == HEAD_FLAT) return out->n > 0 && out->n <= VIEW_PIECES && is_even(t, id);
    if (h->kind != HEAD_OUT) return false;
    *out = (view_joint){.of = term_args(t, id)[0].term, .n = t->items[term_args(t, id)[0].term].nargs};
    const weft_op *op = term_head(t, out->of)->op;
    if (term_head(t, out->of)->kind != HEAD_OP || !op || out->n == 0 || out->n > VIEW_PIECES) return false;
    bool stacks = op_is(op, "stack"), is_made = strcmp(h->label, stacks ? "Y" : "Out") == 0;
    const slot *s = op_find_slot(op, false, "X");
    if ((!stacks && !op_is(op, "concat")) || !is_made || !s || s->nargs != out->n) return false;
    int64_t ndim = t->items[term_args(t, out->of)[0].term].ndim, axis = attr_int(op, "axis", 0);
    if (axis < 0) axis += ndim + stacks;
    out->axis = (int)axis;
    return axis >= 0 && axis < ndim + stacks && are_of_one_shape(t, out->of, stacks ? -1 : (int)axis);
}

bool view_join(const terms *t, const view_joint *j, int64_t *offsets, view *v) {
    size_t ndim, first[WEFT_MAX_RANK + 1], at = 0;
    const int64_t *dims = term_dims(t, term_args(t, j->of)[0].term, &ndim);
    if (j->axis >= 0 && (!dims || !view_split(v, ndim, dims, first))) return false;
    if (j->axis >= 0) at = first[j->axis];
    if (!view_add_pieces(v, at, offsets, j->n)) return false;
    view_merge(v);
    return true;
}

/* Cuts the view where its dimensions end; dimension `axis` has one level then, of that stride where it is of one
 * element.
 */
static bool split_for(view *v, size_t ndim, const int64_t *dims, size_t axis, int64_t stride, size_t *first) {
    if (!view_split(v, ndim, dims, first)) return false;
    if (first[axis] == first[axis + 1]) {
        if (!view_insert(v, first[axis], 1, stride)) return false;
        for (size_t d = axis + 1; d <= ndim; d++) first[d]++;
    }
    return first[axis + 1] == first[axis] + 1;
}

/* The stride of a dimension that has one level; 0: it has none. */
static int64_t stride_of(const view *v, size_t ndim, const int64_t *dims, size_t axis) {
    view cut = *v;
    size_t first[WEFT_MAX_RANK + 1];
    return view_split(&cut, ndim, dims, first) && first[axis + 1] > first[axis] ? cut.stride[first[axis + 1] - 1] : 0;
}

bool view_adjoin(view *v, size_t ndim, int64_t *dims, const view *other, const int64_t *other_dims, size_t axis) {
    view next = *other;
    size_t first[WEFT_MAX_RANK + 1], next_first[WEFT_MAX_RANK + 1];
    int64_t stride = stride_of(v, ndim, dims, axis);
    if (!stride) stride = stride_of(other, ndim, other_dims, axis);
    if (!stride) stride = other->offset - v->offset; /* both are of one element */
    if (!split_for(v, ndim, dims, axis, stride, first) || !split_for(&next, ndim, other_dims, axis, stride, next_first))
        return false;
    size_t at = first[axis];
    if (v->n != next.n || v->base != next.base || memcmp(v->step, next.step, sizeof v->step) != 0) return false;
    if (next.stride[at] != v->stride[at] || next.offset != v->offset + v->extent[at] * v->stride[at]) return false;
    for (size_t i = 0; i < v->n; i++)
        if (i != at && (v->extent[i] != next.extent[i] || v->stride[i] != next.stride[i])) return false;
    v->extent[at] += next.extent[at];
    dims[axis] += other_dims[axis];
    view_merge(v);
    return true;
}

/* Pieces that are not of one extent along the axis, each behind the one before in what they are of. */
static bool view_of_uneven(const terms *t, const view_joint *j, view *out) {
    int64_t all[WEFT_MAX_RANK];
    for (size_t i = 0; i < j->n; i++) {
        view v;
        size_t ndim;
        uint32_t piece = term_args(t, j->of)[i].term;
        const int64_t *dims = term_dims(t, piece, &ndim);
        if (!view_of_term(t, piece, &v) || (i && !view_adjoin(out, ndim, all, &v, dims, (size_t)j->axis))) return false;
        if (i) continue;
        *out = v;
        memcpy(all, dims, ndim * sizeof *dims);
    }
    return true;
}

/* Whether its pieces are of one extent along the axis. */
static bool is_regular(const terms *t, const view_joint *j) {
    for (size_t i = 1; i < j->n; i++)
        if (term_numel(t, term_args(t, j->of)[i].term) != term_numel(t, term_args(t, j->of)[0].term)) return false;
    return true;
}

static bool view_of_joint(const terms *t, uint32_t id, view *out) {
    int64_t offsets[VIEW_PIECES];
    view_joint j;
    if (!view_joint_of(t, id, &j)) return false;
    if (!is_regular(t, &j)) return view_of_uneven(t, &j, out);
    for (size_t i = 0; i < j.n; i++) {
        view v;
        if (!view_of_term(t, term_args(t, j.of)[i].term, &v) || (i && !view_is_like(&v, out))) return false;
        if (i == 0) *out = v;
        offsets[i] = v.offset;
    }
    return view_join(t, &j, offsets, out);
}

/* False: its extents are not known. */
bool view_of_term(const terms *t, uint32_t id, view *out) {
    int64_t numel = term_numel(t, id);
    if (numel <= 0) return false;
    const head *h = term_head(t, id);
    uint32_t from = view_argument(t, id);
    *out = (view){.base = id};
    if (h->kind == HEAD_STRIDED) {
        out->base = term_args(t, id)[0].term;
        out->offset = h->ints[0];
        for (size_t i = 1; i + 1 < h->nints; i += 2) (void)view_add_level(out, out->n, h->ints[i], h->ints[i + 1]);
        return true;
    }
    if (view_of_joint(t, id, out)) return true;
    if (from != TERM_NONE && view_of_term(t, from, out) && view_move(t, id, out)) return true;
    *out = (view){.base = id};
    return view_add_level(out, 0, numel, 1);
}

bool view_unpad(const terms *t, view *v) {
    const head *h = term_head(t, v->base);
    if (h->kind != HEAD_PADDED || v->offset < 0) return false;
    uint32_t of = term_args(t, v->base)[0].term;
    size_t ndim;
    const int64_t *dims = term_dims(t, of, &ndim);
    int64_t inner = 1, row, keep;
    for (size_t d = (size_t)h->ints[0] + 1; d < ndim; d++) inner *= dims[d];
    row = inner * h->ints[1]; /* rows of the value have so many elements, of which it has the first `keep` */
    keep = inner * dims[h->ints[0]];
    view made = *v;
    int64_t last = v->offset % row;
    made.base = of;
    made.offset = v->offset / row * keep + last;
    for (size_t i = 0; i < v->n; i++) {
        int64_t stride = v->stride[i];
        if (stride < 0 || (stride > row && stride % row)) return false;
        if (stride % row == 0)
            made.stride[i] = stride / row * keep;
        else
            last += (v->extent[i] - 1) * stride;
    }
    if (last >= keep) return false;
    view_merge(&made);
    *v = made;
    return true;
}

/* --- as terms ----------------------------------------------------------------------------------------------------- */

weft_status view_term(terms *t, const view *v, uint32_t *out) {
    int64_t ints[1 + 2 * VIEW_LEVELS], numel = 1;
    uint32_t head_id;
    buffer *key = head_begin(t, HEAD_STRIDED);
    size_t n = 0;
    ints[n++] = v->offset;
    for (size_t i = 0; i < v->n; i++) {
        ints[n++] = v->extent[i], ints[n++] = v->stride[i];
        numel *= v->extent[i];
    }
    for (size_t i = 0; i < n; i++) head_put_int(key, ints[i]);
    head h = {.kind = HEAD_STRIDED, .label = "strided", .ints = ints, .nints = (uint32_t)n};
    TRY(head_finish(t, &h, &head_id));
    value of = value_of(v->base);
    return term_make(t, head_id, &of, 1, t->items[v->base].dtype, 1, &numel, out);
}
