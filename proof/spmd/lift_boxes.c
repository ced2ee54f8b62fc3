/* lift_boxes.c: parts that are put together by hand, and taken out again.
 *
 * Parts need not be slices of the first dimension: a batch and its sequence may be cut, each by an axis. A gather of
 * such gives boxes of the serial value one after another; concatenations along other dimensions put them together. The
 * box of a whole dimension is a slice, which terms know how to join, and the box of all is the value. A slice of what
 * all ranks have is the rank's part where its placement says so, and its bounds are those of the part. */
#include "proof/spmd/lift.h"

static bool is_cut_at(const box *b, size_t d) {
    return b->extent[d] != b->whole[d];
}

weft_status lift_make_box(terms *t, const box *b, value *out) {
    bool inner = false;
    int64_t row = 1;
    for (size_t d = 1; d < b->ndim; d++) inner |= is_cut_at(b, d), row = lift_product(row, b->whole[d]);
    *out = value_of(b->of);
    if (!inner && (b->ndim == 0 || !is_cut_at(b, 0))) return NULL;
    if (!inner) {
        TRY(term_part(t, *out, b->offset[0] * row, b->extent[0] * row, out));
        return term_reshape(t, *out, b->ndim, b->extent, out);
    }
    buffer *key = head_begin(t, HEAD_BOX);
    int64_t ints[2 * WEFT_MAX_RANK];
    for (size_t d = 0; d < b->ndim; d++) {
        ints[2 * d] = b->offset[d], ints[2 * d + 1] = b->extent[d];
        head_put_int(key, b->offset[d]), head_put_int(key, b->extent[d]);
    }
    uint32_t head_id;
    head h = {.kind = HEAD_BOX, .label = "box", .ints = ints, .nints = (uint32_t)(2 * b->ndim)};
    TRY(head_finish(t, &h, &head_id));
    value of = value_of(b->of);
    return term_make(t, head_id, &of, 1, t->items[b->of].dtype, b->ndim, b->extent, &out->term);
}

/* All of a term; false: its extents are not known. */
static bool box_whole(const terms *t, uint32_t id, box *out) {
    const int64_t *dims = term_dims(t, id, &out->ndim);
    if (!dims || out->ndim > WEFT_MAX_RANK || term_numel(t, id) < 0) return false;
    out->of = id;
    for (size_t d = 0; d < out->ndim; d++) out->whole[d] = out->extent[d] = dims[d], out->offset[d] = 0;
    return true;
}

bool lift_slice_bounds(const weft_op *op, box *b) {
    size_t n, nstarts, nends;
    const int64_t *axes = attr_ints(op, "axes", &n), *starts = attr_ints(op, "starts", &nstarts);
    const int64_t *ends = attr_ints(op, "ends", &nends);
    if (n != nstarts || n != nends) return false;
    for (size_t d = 0; d < b->ndim; d++) b->offset[d] = 0, b->extent[d] = b->whole[d];
    for (size_t i = 0; i < n; i++) {
        int64_t d = axes[i] < 0 ? axes[i] + (int64_t)b->ndim : axes[i];
        if (d < 0 || d >= (int64_t)b->ndim) return false;
        int64_t extent = b->whole[d], from = starts[i] < 0 ? starts[i] + extent : starts[i];
        int64_t to = ends[i] < 0 ? ends[i] + extent : ends[i] > extent ? extent : ends[i];
        if (from < 0 || to <= from) return false;
        b->offset[d] = from, b->extent[d] = to - from;
    }
    return true;
}

/* The term as a box that is cut along some inner dimension; false: it is none. */
static bool is_box(const terms *t, uint32_t id, box *out) {
    const head *h = term_head(t, id);
    if (h->kind != HEAD_BOX || !box_whole(t, term_args(t, id)[0].term, out) || out->ndim != h->nints / 2) return false;
    for (size_t d = 0; d < out->ndim; d++) out->offset[d] = h->ints[2 * d], out->extent[d] = h->ints[2 * d + 1];
    return true;
}

/* Rows of a term under its own extents. */
static bool is_rows(const terms *t, uint32_t id, box *out) {
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    uint32_t part = term_is(t, id, HEAD_RESHAPE) ? term_args(t, id)[0].term : id;
    if (!dims || ndim == 0 || !term_is(t, part, HEAD_PART) || term_args(t, part)[0].factor != FACTOR_ONE) return false;
    const head *h = term_head(t, part);
    if (!box_whole(t, term_args(t, part)[0].term, out) || out->ndim != ndim) return false;
    int64_t row = 1;
    for (size_t d = 1; d < ndim; d++) {
        if (dims[d] != out->whole[d]) return false;
        row = lift_product(row, dims[d]);
    }
    if (row <= 0 || h->ints[0] < 0 || h->ints[0] % row || h->ints[1] != lift_product(row, dims[0])) return false;
    out->offset[0] = h->ints[0] / row, out->extent[0] = dims[0];
    return true;
}

/* Cuts the box as output `id` of a split into equal parts does. */
static bool split_bounds(const terms *t, uint32_t id, const weft_op *op, box *out) {
    const slot *outs = op_is(op, "split") ? op_find_slot(op, true, "Out") : NULL;
    size_t ndim, nsections, index = (size_t)term_head(t, id)->ints[1];
    const int64_t *dims = term_dims(t, id, &ndim);
    int64_t axis = attr_int(op, "axis", 0);
    if (!outs || !dims || ndim != out->ndim || axis < 0 || axis >= (int64_t)ndim) return false;
    const int64_t *sections = attr_ints(op, "sections", &nsections);
    for (size_t i = 0; i < nsections; i++)
        if (sections[i] != dims[axis]) return false;
    if (lift_product(dims[axis], outs->nargs) != out->whole[axis]) return false;
    out->offset[axis] = lift_product(dims[axis], (int64_t)index), out->extent[axis] = dims[axis];
    return true;
}

/* An output of a split into equal parts, or of a slice. */
static bool is_op_box(const terms *t, uint32_t id, box *out) {
    if (!term_is(t, id, HEAD_OUT)) return false;
    uint32_t from = term_args(t, id)[0].term;
    const head *h = term_head(t, from);
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    if (h->kind != HEAD_OP || !h->op || t->items[from].nargs != 1 || !dims) return false;
    if (term_args(t, from)[0].factor != FACTOR_ONE || !box_whole(t, term_args(t, from)[0].term, out)) return false;
    if (out->ndim != ndim) return false;
    if (op_is(h->op, "slice"))
        return lift_slice_bounds(h->op, out) && memcmp(out->extent, dims, ndim * sizeof *dims) == 0;
    return split_bounds(t, id, h->op, out);
}

bool lift_as_box(const terms *t, uint32_t id, box *out) {
    return is_box(t, id, out) || is_op_box(t, id, out) || is_rows(t, id, out);
}

/* The part of the value `x` that the rank holds, whose own extents are `dims`. */
static bool part_box(const lifter *l, size_t rank, const lifted *x, size_t ndim, const int64_t *dims, box *out) {
    size_t known;
    const int64_t *whole = term_dims(l->t, x->term, &known);
    if (!whole || known != ndim || term_numel(l->t, x->term) < 0) return false;
    out->of = x->term;
    out->ndim = ndim;
    for (size_t d = 0; d < ndim; d++) {
        uint32_t axes = lift_axes_with(l, x, sharded((int)d));
        out->whole[d] = whole[d];
        out->extent[d] = dims[d];
        if (lift_product(dims[d], lift_extent(l, axes)) != whole[d]) return false;
        out->offset[d] = axes ? lift_part(l, rank, axes) * dims[d] : 0;
    }
    return true;
}

weft_status lift_gather_boxes(lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *x, bool *out_is,
                              lifted *out) {
    const ring *r = program_find_ring(l->programs[rank], op_ring(op));
    uint32_t argument = term_args(l->t, term_args(l->t, id)[0].term)[0].term, axes;
    size_t ndim = 0, nout = 0;
    const int64_t *dims = term_dims(l->t, argument, &ndim), *own = term_dims(l->t, id, &nout);
    *out_is = false;
    if (!r || !dims || !own || ndim == 0 || ndim > WEFT_MAX_RANK || nout != ndim || !lift_ring_axes(l, rank, op, &axes))
        return NULL;
    if ((lift_axes_with(l, x, REPLICATED) & ~axes) != (~axes & ((UINT32_C(1) << l->grid.naxes) - 1))) return NULL;
    if (lift_is_partial(l, x)) return NULL;
    int64_t numel = term_numel(l->t, argument);
    if (numel < 0 || term_numel(l->t, id) != lift_product(numel, r->nranks)) return NULL;
    int64_t local[WEFT_MAX_RANK], result[WEFT_MAX_RANK], n = 1;
    for (size_t d = 0; d < ndim; d++) local[d] = dims[d], result[d] = own[d], n *= dims[d];
    arena memory;
    arena_init(&memory, &l->t->context->allocator);
    weft_status status = NULL;
    value *parts = ARENA_ARRAY(&memory, value, (size_t)r->nranks), all;
    int64_t *ranges = ARENA_ARRAY(&memory, int64_t, 2 * (size_t)r->nranks);
    if (!parts || !ranges) TRY_DONE(base_out_of_memory());
    for (int i = 0; i < r->nranks; i++) {
        box b;
        if (!part_box(l, (size_t)r->ranks[i], x, ndim, local, &b)) goto done;
        TRY_DONE(lift_make_box(l->t, &b, &parts[i]));
        ranges[2 * i] = i * n, ranges[2 * i + 1] = n;
    }
    TRY_DONE(term_flat(l->t, parts, ranges, (size_t)r->nranks, n * r->nranks, &all));
    TRY_DONE(term_reshape(l->t, all, ndim, result, &all));
    *out = lift_replicated(all.term);
    *out_is = true;
done:
    arena_fini(&memory);
    return status;
}

/* Whether `b` follows right after `a` along dimension `axis`. */
static bool follows(const box *a, const box *b, size_t axis) {
    if (a->of != b->of || a->offset[axis] + a->extent[axis] != b->offset[axis]) return false;
    for (size_t d = 0; d < a->ndim; d++)
        if (d != axis && (a->offset[d] != b->offset[d] || a->extent[d] != b->extent[d])) return false;
    return true;
}

bool lift_join(const box *boxes, size_t n, size_t axis, box *out) {
    *out = boxes[0];
    for (size_t i = 1; i < n; i++) {
        if (axis >= out->ndim || !follows(out, &boxes[i], axis)) return false;
        out->extent[axis] += boxes[i].extent[axis];
    }
    return true;
}

/* How the rank's part of `extent` elements lies where they are dealt out along these axes. That is evenly or in parts
 * of the extent divided and rounded up; false: that part is not [offset, offset + own). */
bool lift_is_part_along(const lifter *l, size_t rank, uint32_t axes, int64_t extent, int64_t offset, int64_t own, int d,
                        axis_placement *out) {
    int64_t n = lift_extent(l, axes), parts[LIFT_RANKS], first = 0;
    int list[LIFT_AXES], count = 0;
    *out = sharded(d);
    if (n < 2 || n > LIFT_RANKS) return false;
    if (extent % n == 0) return own == extent / n && offset == lift_product(lift_part(l, rank, axes), own);
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (axes >> k & 1) list[count++] = (int)k;
    lift_ceil_parts(l, list, count, extent, parts);
    for (int64_t i = 0; i < lift_part(l, rank, axes); i++) first += parts[i];
    if (offset != first || parts[lift_part(l, rank, axes)] != own) return false;
    int split = lift_find_partition(l, list, count, parts);
    *out = sharded_by(d, split);
    return split > 0;
}

/* Whether all ranks that have the term stand where this one does along the axes; `all`: and all of these have it.
 * Others have slices of their own. */
static bool is_of_place(const lifter *l, size_t rank, uint32_t id, uint32_t axes, bool all) {
    for (size_t i = 0; i < l->nranks; i++) {
        bool is_there = lift_part(l, i, axes) == lift_part(l, rank, axes);
        if (l->wanted[i][id] ? !is_there : all && is_there) return false;
    }
    return true;
}

/* Whether the serial program does to `x` what the op term does to what the rank has. */
static bool is_serial_op(const lifter *l, uint32_t of, const lifted *x) {
    const terms *t = l->t;
    for (size_t i = 0; i < l->nserial; i++)
        if (t->items[i].head == t->items[of].head && term_args(t, (uint32_t)i)[0].term == x->term) return true;
    return false;
}

/* Whether a slice that may be the rank's part is: ranks elsewhere along the axes do not have it. Where some that stand
 * where this one does have none either, as what it is of is their own too, the serial program has no such slice. */
static bool is_own_slice(const lifter *l, size_t rank, uint32_t id, uint32_t axes, uint32_t of, const lifted *x) {
    return is_of_place(l, rank, id, axes, true) || (is_of_place(l, rank, id, axes, false) && !is_serial_op(l, of, x));
}

/* The axes along which a slice of dimension `d` is the rank's part; 0: none. `told`: those that a placement names,
 * which may be another var's: ranks that have the term stand at one place along the axes. */
static uint32_t part_axes(const lifter *l, size_t rank, uint32_t id, const lifted *x, const box *b, size_t d,
                          uint32_t told, uint32_t taken, axis_placement *out) {
    uint32_t free_axes = lift_axes_with(l, x, REPLICATED) & ~taken, all = (UINT32_C(1) << l->grid.naxes) - 1;
    for (uint32_t i = 0; i <= all; i++) {
        uint32_t axes = i ? i : told; /* what is told first */
        bool fits = axes && (axes & free_axes) == axes && is_of_place(l, rank, id, axes, false) &&
                    lift_is_part_along(l, rank, axes, b->whole[d], b->offset[d], b->extent[d], (int)d, out);
        if (fits) return axes;
    }
    bool fits = told && (told & free_axes) == told &&
                lift_is_part_along(l, rank, told, b->whole[d], b->offset[d], b->extent[d], (int)d, out);
    return fits ? told : 0;
}

weft_status lift_box_as_part(lifter *l, size_t rank, size_t axis, size_t d, lifted *x, bool *out_is) {
    box b;
    axis_placement placed = REPLICATED;
    value whole;
    *out_is = x->state == LIFT_KNOWN && is_replicated(x->placed[axis]) && !lift_is_sharded_at(l, x, (int)d) &&
              lift_as_box(l->t, x->term, &b) && d < b.ndim && is_cut_at(&b, d) &&
              lift_is_part_along(l, rank, UINT32_C(1) << axis, b.whole[d], b.offset[d], b.extent[d], (int)d, &placed);
    if (!*out_is) return NULL;
    b.offset[d] = 0;
    b.extent[d] = b.whole[d];
    TRY(lift_make_box(l->t, &b, &whole));
    x->term = whole.term;
    x->placed[axis] = placed;
    return NULL;
}

/* The axes that the placement of a var names for dimension `d` besides those along which it is cut already; 0: it has
 * others. */
static uint32_t told_axes(const lifter *l, const weft_var *v, const lifted *x, size_t d) {
    int list[LIFT_AXES], had[LIFT_AXES], n = lift_placed_axes(l, v, d, list), nhad = lift_nest(l, x, (int)d, had);
    uint32_t axes = 0;
    for (int i = 0; i < nhad; i++)
        if (i >= n || list[i] != had[i]) return 0;
    for (int i = nhad < 0 ? n : nhad; i < n; i++) axes |= UINT32_C(1) << list[i];
    return axes;
}

/* Cuts dimension `d` along the axes too; false: it is cut, and not all into equal parts. */
static bool put_part(const lifter *l, uint32_t axes, int d, axis_placement placed, lifted *out) {
    if (!placed.split) return lift_nest_deeper(l, axes, d, out);
    if (lift_is_sharded_at(l, out, d)) return false;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (axes >> i & 1) out->placed[i] = placed;
    return true;
}

/* A slice, or an output of a split, of what the rank has, along dimensions that its own placement does not cut yet.
 * That it is the rank's part is true wherever its bounds are those of the part. It is taken for that where its var's
 * placement says so (but the op stands for all that are alike: its var may be another's), and where ranks that stand
 * elsewhere do not have it. An output of a split only there: serial programs split values of their own. */
bool lift_takes_part(const lifter *l, size_t rank, uint32_t id, const weft_op *op, const lifted *x, lifted *out) {
    bool slices = op_is(op, "slice");
    const slot *to = slices || op_is(op, "split") ? op_find_slot(op, true, "Out") : NULL;
    size_t ndim = 0, index = term_is(l->t, id, HEAD_OUT) ? (size_t)term_head(l->t, id)->ints[1] : 0;
    const int64_t *own = term_dims(l->t, term_args(l->t, term_args(l->t, id)[0].term)[0].term, &ndim);
    if (ndim > WEFT_MAX_RANK) own = NULL;
    if (!to || index >= to->nargs || op_nargs(op, false) != 1 || !own) return false;
    box b = {.of = x->term, .ndim = ndim};
    memcpy(b.whole, own, ndim * sizeof *own);
    memcpy(b.extent, own, ndim * sizeof *own);
    const weft_var *v = slot_var(op, to, index);
    if (!(slices ? lift_slice_bounds(op, &b) : split_bounds(l->t, id, op, &b))) return false;
    *out = *x;
    uint32_t taken = 0;
    bool is_told = true;
    for (size_t d = 0; d < ndim; d++) {
        axis_placement placed = REPLICATED;
        if (!is_cut_at(&b, d)) continue;
        uint32_t told = slices && v->ndim == ndim ? told_axes(l, v, x, d) : 0;
        uint32_t axes = part_axes(l, rank, id, x, &b, d, told, taken, &placed);
        if (!axes || !put_part(l, axes, (int)d, placed, out)) return false;
        is_told = is_told && axes == told;
        taken |= axes;
    }
    return taken && (is_told || is_own_slice(l, rank, id, taken, term_args(l->t, id)[0].term, x));
}

static size_t leading_ones(size_t ndim, const int64_t *dims) {
    size_t n = 0;
    while (n + 1 < ndim && dims[n] == 1) n++;
    return n;
}

/* Of the extents of the whole, but for ones in front, all but the first; *out_dim: which that is. */
static bool same_rows(size_t ndim, const int64_t *part, size_t nwhole, const int64_t *whole, int64_t *out_row,
                      size_t *out_dim) {
    *out_row = 1;
    if (!part || !whole || ndim == 0 || nwhole == 0) return false;
    size_t first = leading_ones(nwhole, whole);
    if (nwhole - first > ndim) return false;
    *out_dim = ndim - (nwhole - first);
    for (size_t d = 0; d < *out_dim; d++)
        if (part[d] != 1) return false;
    for (size_t d = *out_dim + 1; d < ndim; d++) {
        if (part[d] != whole[d + nwhole - ndim]) return false;
        *out_row = lift_product(*out_row, part[d]);
    }
    return *out_row > 0;
}

/* The same value under the extents of which the rank's are `own`. */
static weft_status under_extents(lifter *l, size_t ndim, const int64_t *own, lifted *x) {
    int64_t dims[WEFT_MAX_RANK], all[WEFT_MAX_RANK];
    value v = value_of(x->term);
    memcpy(dims, own, ndim * sizeof *own);
    lift_extents(l, x, ndim, dims, all);
    TRY(term_reshape(l->t, v, ndim, all, &v));
    x->term = v.term;
    return NULL;
}

/* Whether ranks that stand elsewhere along the axes have the term too: they may take other parts of it. */
static bool is_had_elsewhere(const lifter *l, size_t rank, uint32_t id, uint32_t axes) {
    for (size_t i = 0; i < l->nranks; i++)
        if (l->wanted[i][id] && lift_part(l, i, axes) != lift_part(l, rank, axes)) return true;
    return false;
}

/* Rows of what the rank has are its part along some axes, where ranks elsewhere along them take other rows. */
weft_status lift_own_rows(lifter *l, size_t rank, uint32_t id, bool *out_is, lifted *out) {
    uint32_t part = term_is(l->t, id, HEAD_RESHAPE) ? term_args(l->t, id)[0].term : id;
    *out_is = false;
    if (!term_is(l->t, part, HEAD_PART) || term_args(l->t, part)[0].factor != FACTOR_ONE) return NULL;
    uint32_t of = term_args(l->t, part)[0].term;
    if (of >= l->nterms || l->rows[rank][of] == LIFT_MANY) return NULL; /* it is taken apart */
    const lifted x = l->known[rank][of];
    const head *h = term_head(l->t, part);
    size_t ndim = 0, nwhole = 0, d;
    const int64_t *dims = term_dims(l->t, id, &ndim), *whole = term_dims(l->t, of, &nwhole);
    int64_t row;
    if (x.state != LIFT_KNOWN || ndim > WEFT_MAX_RANK || !same_rows(ndim, dims, nwhole, whole, &row, &d)) return NULL;
    if (h->ints[1] != lift_product(row, dims[d]) || dims[d] <= 0) return NULL;
    if (h->ints[0] % row) return NULL;
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (ndim != nwhole && is_sharded(x.placed[i])) return NULL;
    uint32_t replicated = lift_axes_with(l, &x, REPLICATED);
    uint32_t count = UINT32_C(1) << l->grid.naxes;
    for (uint32_t i = 1; i < 2 * count; i++) { /* first along axes where the parts of others are to be seen */
        uint32_t axes = i % count;
        axis_placement placed;
        if (!axes || (axes & replicated) != axes ||
            !lift_is_part_along(l, rank, axes, whole[d + nwhole - ndim], h->ints[0] / row, dims[d], (int)d, &placed))
            continue;
        if (i < count && !is_had_elsewhere(l, rank, of, axes)) continue;
        if (!is_own_slice(l, rank, id, axes, part, &x)) continue;
        lifted made = x;
        if (!put_part(l, axes, (int)d, placed, &made)) continue;
        if (ndim != nwhole) TRY(under_extents(l, ndim, dims, &made));
        lift_name_family(l, &x, 1, &made);
        *out = made;
        *out_is = true;
        return NULL;
    }
    return NULL;
}
