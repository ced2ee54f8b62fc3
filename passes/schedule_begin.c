/* What each op of block 0 touches, and how it may move.
 *
 * Two ops may change places unless one writes a place that the other touches. Places are alias classes; the names of
 * vars that share their bytes with others, written by the op that makes the view; and rings, which every collective
 * writes, so that those of one ring keep their order. A wait counts as writing its pending result and reading what the
 * collective reads. */
#include "passes/schedule.h"
#include "program/fused_run.h"
#include "program/fx/aten_schemas.h"
#include "program/grow.h"

/* --- touches ------------------------------------------------------------------------------------------------------ */

static weft_status add_touch(schedule *s, uint32_t place, bool writes) {
    TRY(grow(s->arena, &s->touches, &s->touch_capacity, s->ntouches + 1, sizeof *s->touches));
    s->touches[s->ntouches++] = (touch){.place = place & INT32_MAX, .writes = writes};
    return NULL;
}

static weft_status touch_bytes(void *user, const use *u) {
    schedule *s = user;
    return add_touch(s, access_class(&s->found.index, use_var(s->program, u)), u->is_output);
}

/* Names tell more than bytes where several share them. */
static weft_status touch_names(schedule *s, weft_op *op) {
    if (!s->found.index.class_of) return NULL;
    for (int output = 0; output < 2; output++) {
        FOR_EACH_ARG(op, output, u) {
            if (access_is_shared(&s->found.index, use_var(op->program, u)))
                TRY(add_touch(s, s->nclasses + u->var_id, output));
        }
    }
    return NULL;
}

static weft_status touch_ring(schedule *s, const weft_op *op) {
    const ring *r = program_find_ring(s->program, op_ring(op));
    size_t index = r ? (size_t)(r - s->program->rings) : s->program->nrings;
    return add_touch(s, s->nclasses * 2 + (uint32_t)index, true);
}

/* A wait in place of what it waits for. */
static weft_status touch_pending(schedule *s, const weft_op *wait, const pending *p) {
    const weft_var *v = op_x(wait);
    if (v) TRY(add_touch(s, access_class(&s->found.index, v), true));
    if (!p || p->wait != wait) return NULL;
    FOR_EACH_ARG(p->op, false, u) TRY(add_touch(s, access_class(&s->found.index, use_var(p->op->program, u)), false));
    return NULL;
}

/* A view that is no slice is a copy in the end, made where the op stands: so it counts as reading. */
static weft_status touch_viewed(schedule *s, const weft_op *op) {
    FOR_EACH_ARG(op, false, u) TRY(touch_bytes(s, u));
    return NULL;
}

static weft_status touch_op(schedule *s, weft_op *op, const pending *waited) {
    switch (s->motions[op->mark]) {
    case WAIT: TRY(touch_pending(s, op, waited)); break;
    case VIEW: TRY(touch_viewed(s, op)); break;
    default: TRY(touches_visit(op, s->arena, touch_bytes, s));
    }
    if (op_has_effect(op, OP_COLLECTIVE)) TRY(touch_ring(s, op));
    return touch_names(s, op);
}

/* --- motions ------------------------------------------------------------------------------------------------------ */

static bool runs_block(const weft_op *op) {
    for (size_t i = 0; op->program->nblocks > 1 && i < op->nattrs; i++)
        if (op->attrs[i].type == ATTR_BLOCK || op->attrs[i].type == ATTR_BLOCKS) return true;
    return false;
}

/* Ops of a fused run stay side by side. */
static void find_runs(schedule *s) {
    for (size_t i = 0; i < s->nops; i++) {
        size_t nops = fused_run_nops(access_op(&s->found.index, i));
        for (size_t k = 0; k < nops; k++) s->runs[i + k] = (uint32_t)i + 1, s->motions[i + k] = STAYS;
    }
}

static motion motion_of(weft_op *op) {
    if (!op_schema_of(op) && op_is_functional(op)) return STAYS;
    if (!op_schema_of(op) || op_has_effect(op, OP_HOST | OP_CONTROL) || runs_block(op)) return BARRIER;
    if (op_is_wait(op)) return WAIT;
    if (op_makes_views_only(op)) return VIEW;
    if (op_is(op, "aten_copy_") || op_is(op, "assign")) return COPY;
    return op_is_async(op) ? LAUNCH : STAYS;
}

/* A copy by ATen's copy_, or to what lives across steps. */
static bool keeps_value(const weft_op *op) {
    const weft_var *to = op_out(op);
    return op_is(op, "aten_copy_") || (to && to->persistable);
}

static bool writes_place(const schedule *s, size_t op, uint32_t place) {
    for (uint32_t k = s->first[op]; k < s->first[op + 1]; k++)
        if (s->touches[k].place == place && s->touches[k].writes) return true;
    return false;
}

static bool copies_untouched(const schedule *s, size_t op, const bool *untouched) {
    for (uint32_t k = s->first[op]; k < s->first[op + 1]; k++) {
        touch t = s->touches[k];
        if (t.place < s->nclasses && untouched[t.place] && !writes_place(s, op, t.place)) return true;
    }
    return false;
}

/* Leaves as COPY only what reads a pending result that nothing but copies touched since the collective. */
static weft_status choose_copies(schedule *s) {
    bool *untouched = ARENA_ARRAY(s->arena, bool, s->nclasses + 1);
    if (!untouched) return base_out_of_memory();
    const pending *p = s->found.items, *end = p + s->found.count;
    for (size_t i = 0; i < s->nops; i++) {
        if (s->motions[i] == WAIT || s->motions[i] == VIEW) continue;
        if (s->motions[i] == COPY &&
            (!keeps_value(access_op(&s->found.index, i)) || !copies_untouched(s, i, untouched)))
            s->motions[i] = STAYS;
        for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
            touch t = s->touches[k];
            if (t.place < s->nclasses && (s->motions[i] != COPY || t.writes)) untouched[t.place] = false;
        }
        for (; p < end && p->position == i; p++) untouched[access_class(&s->found.index, p->var)] = true;
    }
    return NULL;
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

static int64_t var_nbytes(const weft_var *v) {
    size_t count = weft_dtype_nbytes((weft_dtype)v->dtype);
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] < 0 || !base_mul(count, (size_t)v->dims[i], &count) || count > INT32_MAX * (size_t)1024)
            return 0;
    return (int64_t)count;
}

/* A class is as large as its largest var that is not a view only, since an expanded one takes no more bytes. */
static weft_status find_sizes(schedule *s) {
    const weft_program *p = s->program;
    bool *is_view = ARENA_ARRAY(s->arena, bool, p->nall_vars + 1),
         *stays = ARENA_ARRAY(s->arena, bool, s->nclasses + 1);
    s->nbytes = ARENA_ARRAY(s->arena, int64_t, s->nclasses + 1);
    if (!is_view || !stays || !s->nbytes) return base_out_of_memory();
    for (size_t i = 0; i < s->nops; i++) {
        if (s->motions[i] != VIEW && s->motions[i] != WAIT) continue;
        const weft_op *op = access_op(&s->found.index, i);
        FOR_EACH_ARG(op, true, u) is_view[u->var_id] = true;
    }
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        uint32_t class = access_class(&s->found.index, v);
        int64_t nbytes = is_view[i] ? 0 : var_nbytes(v);
        stays[class] = stays[class] || v->persistable;
        if (nbytes > s->nbytes[class]) s->nbytes[class] = nbytes;
    }
    for (size_t i = 0; i < s->nclasses; i++)
        if (stays[i]) s->nbytes[i] = 0;
    return NULL;
}

/* What is read before it is written was fed: it lives all the time. */
static weft_status drop_feeds(schedule *s) {
    bool *seen = ARENA_ARRAY(s->arena, bool, s->nclasses + 1);
    if (!seen) return base_out_of_memory();
    for (size_t i = 0; i < s->nops; i++) {
        for (int writes = 0; writes < 2; writes++) {
            for (uint32_t k = s->first[i]; k < s->first[i + 1]; k++) {
                touch t = s->touches[k];
                if (t.place >= s->nclasses || t.writes != (unsigned)writes || seen[t.place]) continue;
                seen[t.place] = true;
                if (!writes) s->nbytes[t.place] = 0;
            }
        }
    }
    return NULL;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* The pending result that each op waits for, by op. */
static const pending **waited_by(const schedule *s) {
    const pending **of = ARENA_ARRAY(s->arena, const pending *, s->nops + 1);
    for (size_t i = 0; of && i < s->found.count; i++)
        if (s->found.items[i].wait) of[s->found.items[i].wait_position] = &s->found.items[i];
    return of;
}

weft_status schedule_begin(weft_program *p, const pending_list *found, arena *a, schedule *out) {
    schedule s = {.program = p, .arena = a, .found = *found, .limit = INT64_MAX};
    s.nops = s.found.index.nops;
    if (p->nall_vars > INT32_MAX / 4 || p->nrings > INT32_MAX / 4)
        return weft_status_create(WEFT_LIMIT, p->place, "too many variables");
    s.nclasses = (uint32_t)p->nall_vars;
    s.nplaces = s.nclasses * 2 + (uint32_t)p->nrings + 1;
    const pending **waited = waited_by(&s);
    s.motions = ARENA_ARRAY(a, uint8_t, s.nops + 1);
    s.runs = ARENA_ARRAY(a, uint32_t, s.nops + 1);
    s.first = ARENA_ARRAY(a, uint32_t, s.nops + 1);
    s.order = ARENA_ARRAY(a, uint32_t, s.nops + 1);
    s.moved = ARENA_ARRAY(a, bool, s.nops + 1);
    if (!s.moved || !waited || !s.motions || !s.runs || !s.first || !s.order) return base_out_of_memory();
    for (size_t i = 0; i < s.nops; i++) {
        weft_op *op = access_op(&s.found.index, i);
        s.order[i] = (uint32_t)i;
        s.motions[i] = (uint8_t)motion_of(op);
        s.first[i] = (uint32_t)s.ntouches;
        TRY(touch_op(&s, op, waited[i]));
    }
    s.first[s.nops] = (uint32_t)s.ntouches;
    find_runs(&s);
    TRY(choose_copies(&s));
    TRY(find_sizes(&s));
    TRY(drop_feeds(&s));
    *out = s;
    return NULL;
}
