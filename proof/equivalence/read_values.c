/* read_values.c: what vars hold while a program is read, aliases included.
 *
 * A coalesce_tensor binds its outputs to the slots of a store, and the fused var to the whole of it: what is written to
 * one is seen through the others. The whole, when read, is the concatenation of the slots, with gaps where there is
 * padding; when written, each slot gets its part. A view is read by doing its op on what its base holds now; a write
 * through it is a write of the base. */
#include "proof/equivalence/read.h"

#include "ops/view.h"

/* --- places ------------------------------------------------------------------------------------------------------- */

static weft_status note_change(reader *r, uint32_t at, uint32_t slot_index, uint32_t old) {
    if (r->depth == 0) return NULL;
    TRY(vector_reserve(&r->t->context->allocator, &r->changes, &r->changes_capacity, r->nchanges + 1,
                       sizeof *r->changes));
    r->changes[r->nchanges++] = (change){at, slot_index, old};
    return NULL;
}

static weft_status input_term(reader *r, const weft_var *v, uint32_t *out) {
    shape type = shape_of_var(v);
    if (v->kind == WEFT_SELECTED_ROWS && type.height < 0) type.height = 0; /* rows are not a dense tensor */
    return term_leaf(r->t, HEAD_INPUT, v->name->bytes, &type, out);
}

static weft_status note_outer(reader *r, const weft_var *v, uint32_t *out) {
    TRY(vector_reserve(&r->t->context->allocator, &r->outer, &r->outer_capacity, r->nouter + 1, sizeof *r->outer));
    r->outer[r->nouter++] = v->id;
    return term_leaf(r->t, HEAD_OUTER, v->name->bytes, NULL, out);
}

/* --- stores ------------------------------------------------------------------------------------------------------- */

static int64_t var_numel(const weft_var *v) {
    int64_t n = 1;
    if (!v->has_tensor) return -1;
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] < 0 || __builtin_mul_overflow(n, v->dims[i], &n)) return -1;
    return n;
}

/* Elements that the op lays out for member i: what concated_shapes says, else what it has. -1: not known. */
typedef struct recorded {
    const int64_t *ranks, *dims;
    size_t nranks, ndims, at;
} recorded;

static int64_t recorded_numel(recorded *r, size_t i, const weft_var *v) {
    int64_t n = 1;
    if (!r->nranks) return var_numel(v);
    if (i >= r->nranks || r->ranks[i] < 0 || (size_t)r->ranks[i] > r->ndims - r->at) return -1;
    for (int64_t k = 0; k < r->ranks[i]; k++) {
        int64_t extent = r->dims[r->at++];
        if (n >= 0 && (extent < 0 || __builtin_mul_overflow(n, extent, &n))) n = -1;
    }
    return n;
}

/* Elements from one member to the next, if it has so many; -1: not known. */
static int64_t step_of(int64_t numel, int64_t alignment, int64_t nbytes_of_one) {
    int64_t nbytes;
    if (numel < 0 || __builtin_mul_overflow(numel, nbytes_of_one, &nbytes) ||
        __builtin_add_overflow(nbytes, alignment - 1, &nbytes))
        return -1;
    return nbytes / alignment * alignment / nbytes_of_one;
}

/* Offsets and extents in elements; where one is not known, slots are told apart by number alone. A member of another
 * shape than the op says, or another size, fits as long as it ends before the next begins. */
static void lay_out(store *s, const weft_op *op, const slot *outs) {
    int64_t alignment = coalesce_alignment(op), at = 0, dtype = attr_int(op, "dtype", WEFT_FP32);
    int64_t nbytes_of_one = (int64_t)weft_dtype_nbytes((weft_dtype)dtype);
    recorded r = {0};
    r.ranks = attr_ints(op, "concated_ranks", &r.nranks);
    r.dims = attr_ints(op, "concated_shapes", &r.ndims);
    bool known = alignment > 0 && nbytes_of_one > 0;
    s->misfit = r.nranks && r.nranks != s->nslots;
    for (size_t i = 0; i < s->nslots; i++) {
        const weft_var *v = slot_var(op, outs, i);
        int64_t numel = var_numel(v), place = known ? recorded_numel(&r, i, v) : -1;
        int64_t step = known ? step_of(place, alignment, nbytes_of_one) : -1;
        s->misfit |= v->dtype != dtype || (step >= 0 ? numel > step || numel < 0 : r.nranks && place < 0);
        known = known && numel >= 0 && step >= 0;
        if (!known) continue;
        s->ranges[2 * i] = at;
        s->ranges[2 * i + 1] = numel;
        known = !__builtin_add_overflow(at, step, &at);
    }
    s->total = known ? at : -1;
    for (size_t i = 0; i < s->nslots && !known; i++) {
        s->ranges[2 * i] = -1 - (int64_t)i;
        s->ranges[2 * i + 1] = -1;
    }
}

/* What a slot holds at first: nothing, a copy, or a constant. */
static weft_status first_value(reader *r, const weft_op *op, const slot *ins, const slot *outs, size_t i,
                               uint32_t *out) {
    const weft_var *v = slot_var(op, outs, i);
    const weft_var *from = ins && i < ins->nargs ? slot_var(op, ins, i) : v;
    if (attr_bool(op, "copy_data", false)) return read_var(r, from, out);
    if (attr_bool(op, "set_constant", false) && var_numel(v) >= 0) {
        shape type = shape_of_var(v);
        value filled = value_of(TERM_NONE);
        TRY(term_fill(r->t, attr_float(op, "constant", 0.0), &type, &filled));
        *out = filled.term;
        return NULL;
    }
    const cell *c = &r->cells[v->id];
    if (attr_bool(op, "persist_output", false) && (c->term != TERM_NONE || v->persistable)) return read_var(r, v, out);
    return term_leaf(r->t, HEAD_UNDEFINED, v->name->bytes, NULL, out);
}

static weft_status bind(reader *r, const weft_var *v, binding how, uint32_t target, uint32_t slot_index) {
    if (!v->block) return NULL;
    cell *c = &r->cells[v->id];
    c->binding = (uint8_t)how;
    c->target = target;
    c->slot = slot_index;
    return NULL;
}

weft_status make_store(reader *r, const weft_op *op) {
    const slot *ins = op_find_slot(op, false, "Input"), *outs = op_find_slot(op, true, "Output");
    const slot *fused = op_find_slot(op, true, "FusedOutput");
    size_t n = outs ? outs->nargs : 0;
    store s = {.nslots = n, .op = op};
    s.values = ARENA_ARRAY(&r->memory, uint32_t, n + 1);
    s.merged = ARENA_ARRAY(&r->memory, uint32_t, n + 1);
    s.ranges = ARENA_ARRAY(&r->memory, int64_t, 2 * n + 2);
    if (!s.values || !s.merged || !s.ranges) return base_out_of_memory();
    lay_out(&s, op, outs);
    for (size_t i = 0; i < n; i++) TRY(first_value(r, op, ins, outs, i, &s.values[i]));
    TRY(vector_reserve(&r->t->context->allocator, &r->stores, &r->stores_capacity, r->nstores + 1, sizeof s));
    uint32_t id = (uint32_t)r->nstores;
    r->stores[r->nstores++] = s;
    for (size_t i = 0; i < n; i++) TRY(bind(r, slot_var(op, outs, i), BOUND_SLOT, id, (uint32_t)i));
    for (size_t i = 0; fused && i < fused->nargs; i++) TRY(bind(r, slot_var(op, fused, i), BOUND_WHOLE, id, 0));
    return NULL;
}

static weft_status read_whole(reader *r, const store *s, uint32_t *out) {
    arena memory;
    arena_init(&memory, &r->t->context->allocator);
    weft_status status = NULL;
    value *args = ARENA_ARRAY(&memory, value, s->nslots + 1), whole;
    if (!args) TRY_DONE(base_out_of_memory());
    for (size_t i = 0; i < s->nslots; i++) args[i] = value_of(s->values[i]);
    TRY_DONE(term_flat(r->t, args, s->ranges, s->nslots, s->total, &whole));
    *out = whole.term;
done:
    arena_fini(&memory);
    return status;
}

/* Said to be changed, so that a program in which it fits is not the same. */
static weft_status misfit_term(reader *r, uint32_t *term_id) {
    buffer_text(head_begin(r->t, HEAD_VIEW_WRITE), "misfit");
    uint32_t id;
    head h = {.kind = HEAD_VIEW_WRITE, .label = "write to a buffer of other elements"};
    TRY(head_finish(r->t, &h, &id));
    value x = value_of(*term_id);
    return term_make(r->t, id, &x, 1, r->t->items[x.term].dtype, 0, NULL, term_id);
}

static weft_status write_slot(reader *r, uint32_t store_index, uint32_t slot_index, uint32_t term_id) {
    if (r->stores[store_index].misfit) TRY(misfit_term(r, &term_id));
    store *s = &r->stores[store_index];
    TRY(note_change(r, store_index, slot_index, s->values[slot_index]));
    s->values[slot_index] = term_id;
    return NULL;
}

static weft_status write_whole(reader *r, uint32_t store_index, uint32_t term_id) {
    for (uint32_t i = 0; i < r->stores[store_index].nslots; i++) {
        const store *s = &r->stores[store_index];
        const slot *outs = op_find_slot(s->op, true, "Output");
        const weft_var *v = slot_var(s->op, outs, i);
        value part;
        TRY(term_part(r->t, value_of(term_id), s->ranges[2 * i], s->ranges[2 * i + 1], &part));
        if (var_numel(v) >= 0) TRY(term_reshape(r->t, part, v->ndim, v->dims, &part));
        TRY(write_slot(r, store_index, i, part.term));
    }
    return NULL;
}

/* --- views -------------------------------------------------------------------------------------------------------- */

enum { MOST_NESTED_VIEWS = 200 };

static weft_status read_view(reader *r, const cell *c, uint32_t *out) {
    if (r->nested_views >= MOST_NESTED_VIEWS) return term_unknown(r->t, "a view of very many views", out);
    r->nested_views++;
    cell at = *c;
    const weft_var *base = program_var(r->p, at.target);
    uint32_t of;
    weft_status status = read_var(r, base, &of);
    if (!status) status = view_result(r, at.view, at.view_slot, at.slot, base, of, out);
    r->nested_views--;
    return status;
}

/* A base whose elements `offset` to `offset + numel` are x now. */
static weft_status replace_part(reader *r, uint32_t base, value x, int64_t offset, int64_t numel, uint32_t *out) {
    int64_t total = term_numel(r->t, base), end = offset + numel;
    size_t ndim, n = 0;
    value args[3], whole;
    int64_t ranges[6], dims[WEFT_MAX_RANK];
    const int64_t *of_base = term_dims(r->t, base, &ndim);
    memcpy(dims, of_base, ndim * sizeof *dims);
    if (offset > 0) {
        TRY(term_part(r->t, value_of(base), 0, offset, &args[n]));
        ranges[2 * n] = 0, ranges[2 * n + 1] = offset;
        n++;
    }
    args[n] = x;
    ranges[2 * n] = offset, ranges[2 * n + 1] = numel;
    n++;
    if (end < total) {
        TRY(term_part(r->t, value_of(base), end, total - end, &args[n]));
        ranges[2 * n] = end, ranges[2 * n + 1] = total - end;
        n++;
    }
    TRY(term_flat(r->t, args, ranges, n, total, &whole));
    TRY(term_reshape(r->t, whole, ndim, dims, &whole));
    *out = whole.term;
    return NULL;
}

/* A write through a view that is a slice replaces that slice; through another, the base is what it was but for that. */
static weft_status write_view(reader *r, const cell *c, uint32_t term_id) {
    cell at = *c;
    const weft_var *base = program_var(r->p, at.target);
    uint32_t before, through;
    op_view view;
    size_t ndim;
    TRY(read_var(r, base, &before));
    shape type = shape_of_var(base);
    TRY(op_view_of(at.view, &type, view_part(at.view, at.slot), &view));
    int64_t total = term_numel(r->t, before), numel = term_numel(r->t, term_id);
    if (view.ndim >= 0 && op_view_is_contiguous(&view) && view.offset >= 0 && total > 0 && numel > 0 &&
        view.offset + numel <= total && term_dims(r->t, before, &ndim) && ndim <= WEFT_MAX_RANK) {
        uint32_t after;
        TRY(replace_part(r, before, value_of(term_id), view.offset, numel, &after));
        return write_var(r, base, after);
    }
    TRY(read_view(r, &at, &through));
    if (through == before) return write_var(r, base, term_id);
    head_begin(r->t, HEAD_VIEW_WRITE);
    uint32_t id;
    TRY(head_finish(r->t, &(head){.kind = HEAD_VIEW_WRITE, .label = "write through a view"}, &id));
    value args[3] = {value_of(before), value_of(through), value_of(term_id)};
    const int64_t *dims = term_dims(r->t, before, &ndim);
    TRY(term_make(r->t, id, args, 3, r->t->items[before].dtype, dims ? ndim : 0, dims, &id));
    return write_var(r, base, id);
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

weft_status read_var(reader *r, const weft_var *v, uint32_t *out) {
    cell *c = &r->cells[v->id];
    if (r->fence && c->fence != r->fence) return note_outer(r, v, out);
    switch ((binding)c->binding) {
    case BOUND_SLOT: *out = r->stores[c->target].values[c->slot]; return NULL;
    case BOUND_WHOLE: return read_whole(r, &r->stores[c->target], out);
    case BOUND_VIEW: return read_view(r, c, out);
    case BOUND_NONE: break;
    }
    if (c->term == TERM_NONE) TRY(input_term(r, v, &c->term));
    *out = c->term;
    return NULL;
}

weft_status read_value(reader *r, const weft_var *v, value *out) {
    out->factor = FACTOR_ONE;
    return read_var(r, v, &out->term);
}

static weft_status note_written(reader *r, const weft_var *v, uint32_t term_id) {
    outputs *o = r->out;
    if (r->depth || r->fence) return NULL;
    TRY(vector_reserve(&r->t->context->allocator, &o->written, &o->written_capacity, o->nwritten + 1,
                       sizeof *o->written));
    o->written[o->nwritten++] = (written_value){v->id, term_id};
    return NULL;
}

weft_status write_var(reader *r, const weft_var *v, uint32_t term_id) {
    if (!v->block) return NULL; /* @EMPTY@ */
    cell *c = &r->cells[v->id];
    if (r->fence && c->binding != BOUND_NONE) {
        r->fence_broken = true;
        return NULL;
    }
    switch ((binding)c->binding) {
    case BOUND_SLOT: return write_slot(r, c->target, c->slot, term_id);
    case BOUND_WHOLE: return write_whole(r, c->target, term_id);
    case BOUND_VIEW: return write_view(r, c, term_id);
    case BOUND_NONE: break;
    }
    if (r->depth && c->term == TERM_NONE) TRY(input_term(r, v, &c->term));
    TRY(note_change(r, v->id, UINT32_MAX, c->term));
    c->term = term_id;
    c->fence = r->fence;
    return note_written(r, v, term_id);
}

/* --- conditions --------------------------------------------------------------------------------------------------- */

weft_status merge_changes(reader *r, uint32_t condition, size_t mark) {
    uint32_t stamp = ++r->nconditions;
    size_t end = r->nchanges;
    for (size_t i = mark; i < end; i++) {
        change x = r->changes[i];
        bool is_cell = x.slot == UINT32_MAX;
        uint32_t *merged = is_cell ? &r->cells[x.at].merged : &r->stores[x.at].merged[x.slot];
        uint32_t *now = is_cell ? &r->cells[x.at].term : &r->stores[x.at].values[x.slot];
        if (*merged == stamp) continue; /* the first change knows what was there before */
        *merged = stamp;
        value chosen;
        TRY(term_select(r->t, value_of(condition), value_of(*now), value_of(x.old), &chosen));
        *now = chosen.term;
    }
    return NULL;
}
