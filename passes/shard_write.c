/* Writing cut updates into a program: what shard_updates has decided. */
#include <stdio.h>

#include "passes/shard_updates.h"

#define EVENT_PREFIX "shard_updates/"

static weft_status add_ring(const sharder *s, const int64_t *ranks, int64_t *out_id) {
    for (*out_id = 0; program_find_ring(s->program, *out_id);) ++*out_id;
    return weft_program_set_ring(s->program, *out_id, (size_t)s->ring->nranks, ranks);
}

/* A mesh that the program has already may have names. */
static weft_status find_mesh(sharder *s, const int64_t *ids) {
    const int64_t n = s->ring->nranks;
    for (size_t i = 0; i < s->program->nmeshes; i++) {
        const mesh *m = s->program->meshes[i];
        if (m->ndim != 1 || m->shape[0] != n || memcmp(m->ids, ids, (size_t)n * sizeof *ids) != 0) continue;
        s->mesh = m;
        return NULL;
    }
    return program_add_mesh(s->program, &(mesh){.ndim = 1, .shape = &n, .ids = ids}, &s->mesh);
}

/* Two streams may not share a ring: ranks could meet on it in different orders. */
static weft_status make_rings(sharder *s) {
    ring *kept = ARENA_NEW(pass_scratch(s->pass), ring);
    if (!kept) return base_out_of_memory();
    *kept = *s->ring; /* the program's list of rings grows */
    s->ring = kept;
    TRY(find_mesh(s, kept->ranks));
    s->reduce_ring = s->gather_ring = s->norm_ring = kept->id; /* which is the compute stream's */
    if (*s->reduce_stream) TRY(add_ring(s, kept->ranks, &s->reduce_ring));
    if (*s->gather_stream) TRY(add_ring(s, kept->ranks, &s->gather_ring));
    return NULL;
}

/* The var is the rank's rows now, of a tensor that is cut over the ring. */
static weft_status cut(const sharder *s, weft_var *v) {
    arena *a = &s->program->arena;
    placement *p = ARENA_NEW(a, placement);
    int64_t dims[WEFT_MAX_RANK], *made, *mapping = ARENA_ARRAY(a, int64_t, v->ndim);
    if (!p || !mapping) return base_out_of_memory();
    for (size_t i = 0; i < v->ndim; i++) mapping[i] = i ? -1 : 0;
    for (size_t i = 0; i < v->ndim; i++) dims[i] = i ? v->dims[i] : v->dims[i] / s->ring->nranks;
    TRY(program_dims(s->program, v->ndim, dims, &made));
    *p = (placement){.mesh = s->mesh, .ndim = (int)v->ndim, .dims_mapping = mapping};
    var_changed(v);
    v->dims = made;
    v->dist = p;
    v->dist_is_null = false;
    return NULL;
}

static weft_status new_var(const sharder *s, const weft_var *like, const char *suffix, weft_var **out) {
    char stem[256];
    const name *unique;
    snprintf(stem, sizeof stem, "%.200s%s", like->name->bytes, suffix);
    TRY(program_unique_name(s->program, stem, &unique));
    TRY(weft_block_add_var(s->program->blocks[0], unique->bytes, (weft_dtype)like->dtype, like->ndim, like->dims, out));
    (*out)->has_stop_gradient = true;
    (*out)->stop_gradient = true;
    return NULL;
}

static const update *member(const bucket *b, size_t i) {
    return b->items[i];
}

/* The member of which `pick` is the first op, or the last. */
static weft_op *end_of(const bucket *b, weft_op *(*pick)(const update *u), bool last) {
    weft_op *found = pick(member(b, 0));
    for (size_t i = 1; i < b->count; i++) {
        weft_op *op = pick(member(b, i));
        if (op != found && weft_op_is_before(op, found) != last) found = op;
    }
    return found;
}

static weft_op *producer_of(const update *u) {
    return u->producer;
}

static weft_op *user_of(const update *u) {
    return u->user;
}

static weft_op *reader_of(const update *u) {
    return u->reader;
}

/* Its types: of Paddle's executor of either era for one tensor, and for several. */
typedef struct collective_types {
    const char *old_era, *new_era, *several;
    bool reduces;
} collective_types;

/* Gathers or scatters `xs` to `outs`, as many as the bucket has members. */
static weft_status make_collective(const sharder *s, const collective_types *types, const bucket *b, weft_var **xs,
                                   weft_var **outs, int64_t ring_id, int64_t role, weft_op **made) {
    const weft_op *like = grad_sync_reduce(&s->syncs, member(b, 0)->sync);
    bool new_era = b->count > 1 || op_find_slot(like, false, "x");
    weft_op *op;
    TRY(weft_op_create(s->program, b->count > 1 ? types->several : new_era ? types->new_era : types->old_era, &op));
    for (size_t i = 0; i < b->count; i++) TRY(weft_op_add_input(op, new_era ? "x" : "X", xs[i]));
    for (size_t i = 0; i < b->count; i++) TRY(weft_op_add_output(op, new_era ? "out" : "Out", outs[i]));
    TRY(weft_op_set_attr_int(op, "ring_id", ring_id));
    TRY(weft_op_set_attr_int(op, "nranks", s->ring->nranks));
    if (!new_era) TRY(weft_op_set_attr_bool(op, "use_calc_stream", true));
    if (new_era && types->reduces) TRY(weft_op_set_attr_int(op, "reduce_type", WEFT_REDUCE_SUM));
    TRY(weft_op_set_attr_int(op, "op_role", role));
    TRY(weft_op_set_attr_string(op, "op_namescope", SHARD_NAMESCOPE));
    *made = op;
    return NULL;
}

static weft_status make_vars(const bucket *b, arena *scratch, weft_var ***out_xs, weft_var ***out_outs) {
    *out_xs = ARENA_ARRAY(scratch, weft_var *, b->count);
    *out_outs = ARENA_ARRAY(scratch, weft_var *, b->count);
    return *out_xs && *out_outs ? NULL : base_out_of_memory();
}

/* `later`, on another stream, waits for `earlier`. */
static weft_status order(sharder *s, weft_op *earlier, weft_op *later) {
    char event[sizeof EVENT_PREFIX + 20];
    if (!*weft_op_event_recorded(earlier)) {
        snprintf(event, sizeof event, EVENT_PREFIX "%zu", s->nevents++);
        TRY(weft_op_set_event_recorded(earlier, event));
    }
    size_t n = 0;
    while (weft_op_event_awaited(later, n)) n++;
    const char **events = ARENA_ARRAY(pass_scratch(s->pass), const char *, n + 1);
    if (!events) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) events[i] = weft_op_event_awaited(later, i);
    events[n] = weft_op_event_recorded(earlier);
    return weft_op_set_events_awaited(later, n + 1, events);
}

/* Scales and the update take the rank's part; the reduce goes. Scales come behind the bucket's sum: *last. */
static weft_status take_part(const sharder *s, const update *u, weft_var *part, weft_op **last) {
    weft_op *reduce = grad_sync_reduce(&s->syncs, u->sync), *wait = grad_reduce_wait(reduce);
    weft_var *grad = u->sync->var;
    FOR_EACH_SYNC_OP(scale, &s->syncs, u->sync, GRAD_SCALE) {
        weft_op_rename_input(scale, grad, part);
        weft_op_rename_output(scale, grad, part);
        if (*s->reduce_stream) TRY(weft_op_set_stream(scale, s->reduce_stream));
        weft_op_move_after(scale, *last);
        *last = scale;
    }
    weft_op_rename_input(u->optimizer, grad, part);
    if (u->norm) weft_op_rename_input(u->norm, grad, part);
    if (u->clip) {
        weft_op_rename_input(u->clip, grad, part);
        weft_op_rename_output(u->clip, grad, part);
    }
    weft_op_remove(reduce);
    if (wait) weft_op_remove(wait);
    return NULL;
}

static weft_status scatter_gradients(sharder *s, const bucket *b) {
    static const collective_types types = {"c_reducescatter", "reduce_scatter", "reduce_scatter_coalesced", true};
    weft_op *last_reduce = grad_sync_reduce(&s->syncs, member(b, b->count - 1)->sync), *op, *last;
    weft_var **grads, **parts;
    TRY(make_vars(b, pass_scratch(s->pass), &grads, &parts));
    for (size_t i = 0; i < b->count; i++) {
        grads[i] = member(b, i)->sync->var;
        TRY(new_var(s, grads[i], "@PART", &parts[i]));
        TRY(cut(s, parts[i]));
    }
    TRY(make_collective(s, &types, b, grads, parts, s->reduce_ring, op_role(last_reduce), &op));
    weft_block_insert_before(s->program->blocks[0], last_reduce, op);
    last = op;
    for (size_t i = 0; i < b->count; i++) TRY(take_part(s, member(b, i), parts[i], &last));
    if (!*s->reduce_stream) return NULL;
    TRY(weft_op_set_stream(op, s->reduce_stream));
    TRY(order(s, end_of(b, producer_of, true), op));
    return order(s, last, end_of(b, user_of, false));
}

/* Readers before the update read what is gathered. */
static void read_whole(const sharder *s, const update *u, weft_var *whole) {
    for (use *x = use_at(s->program, u->param->first_use), *next; x; x = next) {
        next = use_at(s->program, x->next);
        if (use_op(s->program, x) != u->optimizer) use_rename_placed(x, whole);
    }
}

static weft_status gather_params(sharder *s, const bucket *b) {
    static const collective_types types = {"c_allgather", "all_gather", "all_gather_coalesced", false};
    weft_op *op, *reader = end_of(b, reader_of, false);
    weft_var **params, **wholes;
    TRY(make_vars(b, pass_scratch(s->pass), &params, &wholes));
    for (size_t i = 0; i < b->count; i++) {
        params[i] = member(b, i)->param;
        TRY(new_var(s, params[i], "@WHOLE", &wholes[i]));
        read_whole(s, member(b, i), wholes[i]);
    }
    TRY(make_collective(s, &types, b, params, wholes, s->gather_ring, WEFT_ROLE_FORWARD, &op));
    weft_block_insert_before(s->program->blocks[0], reader, op);
    if (!*s->gather_stream) return NULL;
    TRY(weft_op_set_stream(op, s->gather_stream));
    return order(s, op, reader);
}

static weft_status cut_state(sharder *s, const update *u) {
    int64_t n = s->ring->nranks, kept = 0;
    for (size_t i = 0; i < u->nstate; i++) kept += shard_nbytes(u->state[i]);
    s->kept_nbytes += kept / n * (n - 1);
    TRY(cut(s, u->param));
    for (size_t i = 0; i < u->nstate; i++) TRY(cut(s, u->state[i]));
    return NULL;
}

weft_status shard_write(sharder *s) {
    weft_op *place = shard_clip_place(s);
    TRY(make_rings(s));
    for (size_t i = 0; i < s->gathers.ndone; i++) TRY(gather_params(s, s->gathers.done[i]));
    for (size_t i = 0; i < s->sums.ndone; i++) TRY(scatter_gradients(s, s->sums.done[i]));
    for (size_t i = 0; i < s->count; i++) TRY(cut_state(s, &s->updates[i]));
    return place ? shard_clip_write(s, place, s->norm_ring) : NULL;
}
