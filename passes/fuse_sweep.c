/* Forming the buckets of fuse_allreduce_buckets: one sweep of block 0, with all buckets open at once.
 *
 * A bucket is reduced right after the last op that a member's input needs (its anchor). So every op that depends on a
 * member's result and stands before the anchor must move behind the new reduce. The sweep knows these ops: each open
 * bucket has a bit, and each alias class two masks: buckets whose results, or an op that depends on them, wrote it, and
 * those for which such an op, or a member's collective, reads it. An op is tainted by the buckets of the first mask for
 * what it touches, and of the second for what it writes. It passes its taint on to what it touches. So taint is
 * transitive through memory, not only through names.
 *
 * A candidate that is tainted closes those buckets first: buckets never wait for each other. So does a tainted op that
 * may not move: one that blocks the host, draws random numbers, communicates, runs a sub-block, or is of an unknown
 * type. A place is an order number: what moves behind anchor p follows whatever moved there before (places are p and a
 * count), which keeps comparisons right without a second order. Linear in arguments; masks are cleared through the list
 * of classes that a bucket touched. Sources: pytorch.md 1.4 to 1.9. */
#include "passes/fuse_sweep.h"

#include "program/fused_run.h"
#include "program/grow.h"

/* --- closing ------------------------------------------------------------------------------------------------------ */

static void note_place(fusion *f, uint32_t *latest, uint32_t at) {
    if (f->places[at] >= f->places[*latest]) *latest = at;
}

static void clear_masks(fuse_sweep *s, const open_bucket *o) {
    for (size_t i = 0; i < o->ntouched; i++) {
        fuse_class *c = &s->f->classes[o->touched[i]];
        c->written_after &= ~o->bit;
        c->read_after &= ~o->bit;
    }
    s->in_use &= ~o->bit;
}

/* The op now stands at another place: later ops that need it are placed by that. */
static void place_op(fusion *f, weft_op *op, fuse_place at) {
    uint32_t number = op->mark + 1;
    f->places[number] = at;
    bool views_only = op_makes_views_only(op);
    for (int output = 0; output < 2; output++) {
        FOR_EACH_ARG(op, output, u) {
            fuse_class *c = &f->classes[access_class(&f->index, use_var(op->program, u))];
            note_place(f, &c->last_access, number);
            if (output || views_only) note_place(f, &c->last_definition, number);
        }
    }
}

/* The collective of a member happens at its bucket's place, if that is later than its own. */
static void place_item(fusion *f, const reduce_item *item, fuse_place at) {
    uint32_t number = item->position + 1;
    if (f->places[number] >= at) return;
    f->places[number] = at;
    for (size_t i = 0; i < item->nparts; i++) {
        fuse_class *out = &f->classes[item->parts[i].out_class];
        note_place(f, &out->last_access, number);
        note_place(f, &out->last_definition, number);
    }
}

static weft_status closed(void *user, bucket *b) {
    fuse_sweep *s = user;
    fusion *f = s->f;
    open_bucket *o = b->own;
    if (o) clear_masks(s, o);
    if (!o || b->count < 2) return NULL;
    uint32_t anchor = fuse_anchor(b);
    fused_bucket made = {.items = b, .anchor = anchor, .moved_anchor = anchor};
    made.at = ((fuse_place)anchor << 32) + ++s->nplaced;
    if (!(made.moved = ARENA_ARRAY(f->scratch, weft_op *, o->ntainted + 1))) return base_out_of_memory();
    for (size_t i = 0; i < o->ntainted; i++) {
        weft_op *op = o->tainted[i];
        if (op->mark + 1 > anchor) continue;
        made.moved[made.nmoved++] = op;
        if (f->places[op->mark + 1] < made.at) place_op(f, op, ((fuse_place)anchor << 32) + ++s->nplaced);
    }
    for (size_t i = 0; i < b->count; i++) place_item(f, b->items[i], made.at);
    TRY(grow(f->scratch, &f->buckets, &f->bucket_capacity, f->nbuckets + 1, sizeof *f->buckets));
    f->buckets[f->nbuckets++] = made;
    return NULL;
}

static weft_status close_oldest(fuse_sweep *s, uint64_t among) {
    open_bucket *oldest = NULL;
    for (uint64_t rest = among & s->in_use; rest; rest &= rest - 1) {
        open_bucket *o = s->open[__builtin_ctzll(rest)];
        if (!oldest || o->opened < oldest->opened) oldest = o;
    }
    return oldest ? bucket_former_close(&s->f->former, oldest->bucket) : NULL;
}

static weft_status close_among(fuse_sweep *s, uint64_t among) {
    while (among & s->in_use) TRY(close_oldest(s, among));
    return NULL;
}

/* --- taint -------------------------------------------------------------------------------------------------------- */

static weft_status mark_class(fuse_sweep *s, uint32_t class, uint64_t bits, bool written) {
    fuse_class *c = &s->f->classes[class];
    for (uint64_t rest = bits & ~(c->written_after | c->read_after); rest; rest &= rest - 1) {
        open_bucket *o = s->open[__builtin_ctzll(rest)];
        TRY(grow(s->f->scratch, &o->touched, &o->touched_capacity, o->ntouched + 1, sizeof *o->touched));
        o->touched[o->ntouched++] = class;
    }
    *(written ? &c->written_after : &c->read_after) |= bits;
    return NULL;
}

static weft_status collect_taint(void *user, const use *u) {
    fuse_sweep *s = user;
    const fuse_class *c = &s->f->classes[access_class(&s->f->index, use_var(s->f->program, u))];
    s->taint |= c->written_after | (u->is_output ? c->read_after : 0);
    return NULL;
}

static weft_status add_reader(fuse_sweep *s, fuse_class *c, uint32_t number) {
    TRY(grow(s->f->scratch, &s->readers, &s->reader_capacity, s->nreaders + 2, sizeof *s->readers));
    s->readers[++s->nreaders] = (class_reader){number, c->readers};
    c->readers = (uint32_t)s->nreaders;
    return NULL;
}

static weft_status note_touch(void *user, const use *u) {
    fuse_sweep *s = user;
    uint32_t class = access_class(&s->f->index, use_var(s->f->program, u)), number = s->op->mark + 1;
    fuse_class *c = &s->f->classes[class];
    if (!c->first) c->first = number, c->first_var = u->var_id;
    if (c->first == number && !u->is_output) c->first_reads = true;
    note_place(s->f, &c->last_access, number);
    if (u->is_output) note_place(s->f, &c->last_definition, number);
    if (u->is_output) c->readers = 0;
    if (op_is_async(s->op)) {
        c->nasync++;
        if (u->is_output) {
            c->reduced = NULL;
            c->pending = number;
        } else {
            TRY(add_reader(s, c, number));
        }
    }
    return s->taint ? mark_class(s, class, s->taint, u->is_output) : NULL;
}

/* An op that names bytes and touches none depends on them all the same: on their names. */
static bool only_names(weft_op *op) {
    return op_makes_views_only(op) || op_has_effect(op, OP_NO_BYTES | OP_ALIASES);
}

static weft_status add_wait(fuse_sweep *s, reduce_part *part, weft_op *op) {
    TRY(grow(s->f->scratch, &part->waits, &part->wait_capacity, part->nwaits + 1, sizeof *part->waits));
    part->waits[part->nwaits++] = op;
    return NULL;
}

static weft_status note_names(fuse_sweep *s, weft_op *op) {
    bool aliases = op_has_effect(op, OP_ALIASES), views = op_makes_views_only(op);
    for (int output = 0; output < 2; output++) {
        FOR_EACH_ARG(op, output, u) {
            fuse_class *c = &s->f->classes[access_class(&s->f->index, use_var(op->program, u))];
            note_place(s->f, &c->last_access, op->mark + 1);
            note_place(s->f, &c->last_definition, op->mark + 1);
            c->aliased = c->aliased || (output && aliases);
            c->viewed = c->viewed || views;
            if (output && views) s->f->is_view[u->var_id] = true;
            if (output || !op_is_wait(op)) continue;
            if (c->pending) note_place(s->f, &s->last_wait[c->pending], op->mark + 1);
            if (c->reduced) TRY(add_wait(s, c->reduced, op));
        }
    }
    return NULL;
}

static void note_other_views(fuse_sweep *s, weft_op *op) {
    bool shares = op_is(op, "share_data") || op_is(op, "share_buffer");
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *out = op_slot(op, true, i);
        bool views = out->nargs && output_is_view(op, out);
        for (size_t k = 0; k < out->nargs && (views || shares); k++) {
            fuse_class *c = &s->f->classes[access_class(&s->f->index, slot_var(op, out, k))];
            c->viewed = c->viewed || views;
            c->aliased = c->aliased || shares;
            if (views) s->f->is_view[slot_args(op, out)[k].var_id] = true;
        }
    }
}

/* --- other ops ---------------------------------------------------------------------------------------------------- */

static bool runs_sub_block(const weft_op *op) {
    for (size_t i = 0; op->program->nblocks > 1 && i < op->nattrs; i++)
        if (op->attrs[i].type == ATTR_BLOCK || op->attrs[i].type == ATTR_BLOCKS) return true;
    return false;
}

static bool may_move(weft_op *op) {
    enum { STAYS = OP_COLLECTIVE | OP_RANDOM | OP_HOST | OP_CONTROL | OP_ALIASES };
    const op_dist *d = op->dist;
    return op_schema_of(op) && !op_has_effect(op, STAYS) && !(d && (d->event_to_record || op_dist_nwaits(d)));
}

/* What an op without arguments says of a whole ring stands between the reduces before it and those after it. */
static uint64_t ordered_by(const fuse_sweep *s, const weft_op *op) {
    collective_kind kind = op_collective_kind(op);
    if (kind != COLLECTIVE_WAIT_COMM && kind != COLLECTIVE_SYNC_COMM) return 0;
    uint64_t bits = 0;
    for (uint64_t rest = s->in_use; rest; rest &= rest - 1) {
        const open_bucket *o = s->open[__builtin_ctzll(rest)];
        const reduce_item *item = o->bucket->items[0];
        if (item->ring == op_ring(op)) bits |= o->bit;
    }
    return bits;
}

static weft_status collect(fuse_sweep *s, weft_op *op) {
    s->taint = 0;
    if (!only_names(op)) return touches_visit(op, s->f->scratch, collect_taint, s);
    for (int output = 0; output < 2; output++) {
        FOR_EACH_ARG(op, output, u) {
            const fuse_class *c = &s->f->classes[access_class(&s->f->index, use_var(op->program, u))];
            s->taint |= c->written_after | (op_has_effect(op, OP_ALIASES) ? c->read_after : 0);
        }
    }
    return NULL;
}

static weft_status sweep_op(fuse_sweep *s, weft_op *op) {
    s->op = op;
    if (runs_sub_block(op)) TRY(close_among(s, s->in_use));
    TRY(close_among(s, ordered_by(s, op)));
    TRY(collect(s, op));
    if (s->taint && !may_move(op)) {
        TRY(close_among(s, s->taint));
        s->taint = 0;
    }
    for (uint64_t rest = s->taint; rest; rest &= rest - 1) {
        open_bucket *o = s->open[__builtin_ctzll(rest)];
        TRY(grow(s->f->scratch, &o->tainted, &o->tainted_capacity, o->ntainted + 1, sizeof *o->tainted));
        o->tainted[o->ntainted++] = op;
    }
    if (only_names(op)) TRY(note_names(s, op));
    note_other_views(s, op);
    return touches_visit(op, s->f->scratch, note_touch, s);
}

/* --- candidates --------------------------------------------------------------------------------------------------- */

/* Whether what used out from the reduce on can use another var: nothing else knows these bytes. */
static bool can_rename(const fusion *f, const reduce_item *item, const reduce_part *part) {
    const weft_var *out = reduce_part_out(item, part);
    const fuse_class *c = &f->classes[part->out_class];
    if (out->persistable || out->need_check_feed || c->aliased) return false;
    return part->in_place ? !c->viewed : c->last_access == 0;
}

static bool parts_overlap(const fusion *f, const reduce_item *item) {
    bool overlap = false;
    for (size_t i = 0; i < item->nparts; i++) {
        const reduce_part *part = &item->parts[i];
        overlap = overlap || f->classes[part->out_class].stamp == item->position + 1;
        f->classes[part->out_class].stamp = item->position + 1;
    }
    for (size_t i = 0; i < item->nparts; i++) {
        const reduce_part *part = &item->parts[i];
        bool shares = part->x_class == part->out_class && !part->in_place;
        overlap = overlap || shares || (!part->in_place && f->classes[part->x_class].stamp == item->position + 1);
    }
    return overlap;
}

static const char *why_left(const fusion *f, const reduce_item *item) {
    for (size_t i = 0; i < item->nparts; i++)
        if (f->classes[item->parts[i].x_class].nested || f->classes[item->parts[i].out_class].nested)
            return "a sub-block touches it";
    return parts_overlap(f, item) ? "what it writes are bytes of another of its arguments" : NULL;
}

static fuse_place latest(const fusion *f, fuse_place at, uint32_t number) {
    return f->places[number] > at ? f->places[number] : at;
}

static void find_anchor(const fuse_sweep *s, reduce_item *item) {
    fusion *f = s->f;
    for (size_t i = 0; i < item->nparts; i++) {
        reduce_part *part = &item->parts[i];
        const fuse_class *x = &f->classes[part->x_class], *out = &f->classes[part->out_class];
        part->renames = can_rename(f, item, part);
        item->after = latest(f, item->after, x->last_definition);
        item->after = latest(f, item->after, out->last_access);
        for (uint32_t r = out->readers; r; r = s->readers[r].next) {
            item->after = latest(f, item->after, s->readers[r].number);
            item->after = latest(f, item->after, s->last_wait[s->readers[r].number]);
        }
    }
    if (item->after >> 32) {
        weft_op *last = fused_run_last(access_op(&f->index, (item->after >> 32) - 1));
        item->after = latest(f, item->after, (uint32_t)last->mark + 1);
    }
    if (f->is_auto) item->after = latest(f, item->after, item->position + 1); /* a plan keeps the order of reduces */
}

static weft_status open_bucket_of(fuse_sweep *s, bucket *b) {
    open_bucket *o = ARENA_NEW(s->f->scratch, open_bucket);
    if (!o) return base_out_of_memory();
    unsigned at = (unsigned)__builtin_ctzll(~s->in_use);
    *o = (open_bucket){.bucket = b, .bit = UINT64_C(1) << at, .opened = ++s->nopened};
    s->in_use |= o->bit;
    s->open[at] = o;
    b->own = o;
    return NULL;
}

static weft_status note_reduce(fuse_sweep *s, reduce_item *item, uint64_t bit) {
    for (size_t i = 0; i < item->nparts; i++) {
        reduce_part *part = &item->parts[i];
        fuse_class *x = &s->f->classes[part->x_class], *out = &s->f->classes[part->out_class];
        uint32_t number = item->position + 1;
        x->nreduces++;
        out->readers = 0;
        out->nasync += item->async;
        x->nasync += item->async && !part->in_place;
        if (!part->in_place) TRY(add_reader(s, x, number));
        out->pending = item->async ? number : 0;
        if (!out->first) out->first = number, out->first_var = reduce_part_out(item, part)->id;
        note_place(s->f, &out->last_access, number);
        note_place(s->f, &out->last_definition, number);
        out->reduced = part;
        if (!bit) continue;
        TRY(mark_class(s, part->x_class, bit, false));
        TRY(mark_class(s, part->out_class, bit, true));
    }
    return NULL;
}

static weft_status sweep_candidate(fuse_sweep *s, reduce_item *item) {
    fusion *f = s->f;
    uint64_t before = 0;
    for (size_t i = 0; i < item->nparts; i++) {
        const fuse_class *x = &f->classes[item->parts[i].x_class], *out = &f->classes[item->parts[i].out_class];
        before |= x->written_after | out->written_after | out->read_after;
    }
    TRY(close_among(s, before));
    find_anchor(s, item);
    bucket *b;
    TRY(bucket_former_find(&f->former, item, &b));
    if (b->count == 0 && !~s->in_use) TRY(close_oldest(s, s->in_use));
    TRY(bucket_former_put(&f->former, item, item->position, UINT32_MAX));
    bool is_open = b->count && b->items[b->count - 1] == item;
    if (is_open && !b->own) TRY(open_bucket_of(s, b));
    note_other_views(s, item->op);
    return note_reduce(s, item, is_open ? ((open_bucket *)b->own)->bit : 0);
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

static weft_status note_nested(void *user, const use *u, bool nested) {
    fusion *f = user;
    fuse_class *c = &f->classes[access_class(&f->index, use_var(f->program, u))];
    c->nested = c->nested || nested;
    return NULL;
}

static weft_status prepare(fusion *f) {
    size_t n = f->index.nops;
    f->classes = ARENA_ARRAY(f->scratch, fuse_class, f->program->nall_vars + 1);
    f->is_view = ARENA_ARRAY(f->scratch, bool, f->program->nall_vars + 1);
    f->places = ARENA_ARRAY(f->scratch, fuse_place, n + 1);
    f->moved_by = ARENA_ARRAY(f->scratch, uint32_t, n + 1);
    f->candidates = ARENA_ARRAY(f->scratch, reduce_item, n + 1);
    f->ncandidates = 0;
    if (!f->classes || !f->is_view || !f->places || !f->moved_by || !f->candidates) return base_out_of_memory();
    for (size_t i = 0; i <= n; i++) f->places[i] = (fuse_place)i << 32;
    for (size_t i = 0; f->program->nblocks > 1 && i < n; i++)
        TRY(access_visit(access_op(&f->index, i), f->scratch, note_nested, f));
    return NULL;
}

static weft_status leave(const fusion *f, const reduce_item *item, weft_reason reason, const char *message) {
    return f->begins ? NULL : weft_pass_left(f->pass, item->op, reason, "%s", message); /* a second sweep: it is told */
}

static weft_status find_candidates(fusion *f) {
    for (size_t i = 0; i < f->index.nops; i++) {
        reduce_item item;
        weft_reason reason;
        const char *message;
        if (!reduce_item_read(access_op(&f->index, i), &item, &reason, &message)) continue;
        if (message) {
            TRY(leave(f, &item, reason, message));
            continue;
        }
        TRY(reduce_item_parts(&f->index, f->scratch, &item));
        if ((message = why_left(f, &item)))
            TRY(leave(f, &item, WEFT_REASON_IN_USE, message));
        else
            f->candidates[f->ncandidates++] = item;
    }
    return NULL;
}

/* The scale or division by a number that wrote all of x is part of the key. */
static void find_scale(const fusion *f, reduce_item *item) {
    const fuse_class *c = &f->classes[item->parts[0].x_class];
    weft_op *op = c->last_definition ? access_op(&f->index, c->last_definition - 1) : NULL;
    if (!op || item->coalesced) return;
    bool divides = op_is(op, "aten_div_scalar"), multiplies = op_is(op, "aten_mul_scalar");
    bool scales = op_is(op, "scale") && weft_op_ninputs(op, "ScaleTensor") == 0 && attr_float(op, "bias", 0.0) == 0.0;
    const weft_var *out = divides || multiplies ? weft_op_output(op, "out", 0) : scales ? op_out(op) : NULL;
    if (!out || out != reduce_part_x(item, &item->parts[0])) return;
    item->scale = op->type->bytes;
    item->factor = attr_float(op, scales ? "scale" : "other", 1.0);
}

static bool begins(void *user, const void *item) {
    const fusion *f = ((const fuse_sweep *)user)->f;
    return !f->begins || f->begins[(const reduce_item *)item - f->candidates];
}

static weft_status sweep(fusion *f, const bucket_rules *limits) {
    fuse_sweep s = {.f = f};
    bucket_rules rules = *limits;
    rules.hash = reduce_item_hash;
    rules.same_kind = reduce_item_same_kind;
    rules.nbytes = reduce_item_nbytes;
    rules.begins = f->is_auto ? begins : NULL;
    rules.closed = closed;
    rules.user = &s;
    TRY(prepare(f));
    TRY(find_candidates(f));
    if (!(s.last_wait = ARENA_ARRAY(f->scratch, uint32_t, f->index.nops + 1))) return base_out_of_memory();
    bucket_former_init(&f->former, &rules, f->scratch);
    reduce_item *next = f->candidates, *end = next + f->ncandidates;
    for (size_t i = 0; i < f->index.nops; i++) {
        if (next < end && next->position == i) {
            find_scale(f, next);
            TRY(sweep_candidate(&s, next++));
        } else {
            TRY(sweep_op(&s, access_op(&f->index, i)));
        }
    }
    return close_among(&s, s.in_use);
}

weft_status fuse_form(fusion *f, const bucket_rules *limits) {
    TRY(access_index_begin(f->program, f->scratch, &f->index));
    TRY(sweep(f, limits));
    if (f->is_auto) {
        TRY(fuse_plan(f));
        TRY(sweep(f, limits));
    }
    if (f->last_limit) TRY(bucket_former_split(&f->former, f->last_limit));
    return fuse_settle(f);
}
