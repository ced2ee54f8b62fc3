/* from_program.c: a program read in order. The host launches ops in program order; an op starts when the one before it
 * on its stream is complete and the events that it names are. c_wait_compute and c_wait_comm keep Paddle's meaning:
 * they join the compute stream and the ring's own stream, whatever streams other ops were moved to. */
#include "program/grow.h"
#include "proof/schedule/bind.h"

enum { MAX_DEPTH = 16 };

/* A wait for an event of a name: resolved when it is met, or at the end if it is recorded later only. */
typedef struct late_wait {
    uint32_t wait; /* into schedule->waits */
    uint32_t event;
    const name *of;
} late_wait;

/* Bytes that an asynchronous collective fills. */
typedef struct filling {
    int64_t begin, end;
    uint32_t event;
    uint32_t next; /* of the same buffer; PROOF_NONE */
} filling;

/* What all ops of a type have in common. */
typedef struct op_look {
    uint8_t makes; /* a proof_makes, where an op's arguments are all that it touches */
    bool is_known, has_views, has_types_only, may_wait;
} op_look;

typedef struct maker {
    proof_schedule *s;
    binder names;
    const weft_program *program;
    interner events; /* names of events; the value of one: recorded_by */
    late_wait *late;
    size_t nlate, late_capacity;
    filling *fillings;
    size_t nfillings, filling_capacity;
    uint32_t *async_of; /* by buffer: the latest filling; PROOF_NONE */
    size_t async_capacity;
    bool *entered;                             /* by block: blocks that several ops run would multiply */
    op_look *looks;                            /* by row of the op table */
    const char *assumed_type, *assumed_stream; /* of --stream; NULL */
    bool is_guarded;
} maker;

/* --- streams ------------------------------------------------------------------------------------------------------ */

static bool is_assumed(const maker *m, const weft_op *op) {
    if (!m->assumed_type) return false;
    if (strcmp(m->assumed_type, "dp_reduce") != 0) return op_is(op, m->assumed_type);
    bool may = op_is_all_reduce(op, NULL) || op_is(op, "nop");
    return may && op_in_namescope(op, "data_parallel");
}

static weft_status ring_stream_of(maker *m, const weft_op *op, uint32_t *out) {
    char of_ring[RING_STREAM_NBYTES];
    return schedule_stream(m->s, op_ring_stream(op, of_ring), out);
}

/* The stream that its dist attr names; its ring's own for the one collective that Paddle's executor moves there
 * (op_stream, which is the plan's, moves more); else compute. */
static weft_status stream_of(maker *m, const weft_op *op, uint32_t *out) {
    const char *named = is_assumed(m, op) ? m->assumed_stream : op_named_stream(op);
    const collective_schema *c = op_collective(op);
    if (!named && c && c->paddle & PADDLE_RING_STREAM && !attr_bool(op, "use_calc_stream", false))
        return ring_stream_of(m, op, out);
    return schedule_stream(m->s, named ? named : "compute", out);
}

static bool tells_streams(const weft_program *p) {
    for (size_t i = 0; i < p->nblocks; i++) FOR_EACH_OP(op, p->blocks[i]) if (op->dist) return true;
    return false;
}

static weft_status read_assumption(maker *m, const char *option) {
    if (!option || !m->s->streams_unknown) return NULL;
    const char *colon = strchr(option, ':');
    if (!colon || colon == option || !colon[1])
        return weft_status_create(WEFT_INVALID_ARGUMENT, "stream", "expected WHICH:STREAM, found \"%s\"", option);
    m->assumed_type = arena_string(m->s->arena, option, (size_t)(colon - option));
    m->assumed_stream = arena_string(m->s->arena, colon + 1, strlen(colon + 1));
    return m->assumed_type && m->assumed_stream ? NULL : base_out_of_memory();
}

/* --- events of the sidecar ---------------------------------------------------------------------------------------- */

static weft_status event_name(maker *m, const char *event, const name **out) {
    *out = interner_get(&m->events, event, strlen(event));
    return *out ? NULL : base_out_of_memory();
}

/* The last launch that recorded the event; PROOF_NONE. */
static uint32_t recorded_by(const name *event) {
    return event->value - 1;
}

static weft_status add_waits(maker *m, const weft_op *op, uint32_t event) {
    for (size_t i = 0; op->dist && i < op_dist_nwaits(op->dist); i++) {
        const name *n;
        TRY(event_name(m, op->dist->waits->events[i], &n));
        if (recorded_by(n) == PROOF_NONE) {
            TRY(grow(m->s->arena, &m->late, &m->late_capacity, m->nlate + 1, sizeof *m->late));
            m->late[m->nlate++] = (late_wait){(uint32_t)m->s->nwaits, event, n};
        }
        TRY(schedule_wait(m->s, recorded_by(n)));
    }
    return NULL;
}

static weft_status add_record(maker *m, const weft_op *op, uint32_t event) {
    const name *n;
    if (!op->dist || !op->dist->event_to_record) return NULL;
    TRY(event_name(m, op->dist->event_to_record, &n));
    name_set_value(n, event + 1);
    return NULL;
}

/* An event that is recorded later only means that of the step before. One that nobody records orders nothing. */
static weft_status resolve_late_waits(maker *m) {
    for (size_t i = 0; i < m->nlate; i++) {
        late_wait *w = &m->late[i];
        uint32_t by = recorded_by(w->of);
        if (by == PROOF_NONE) {
            TRY(schedule_problem(m->s, WEFT_VERDICT_INVALID_PROGRAM, w->event,
                                 "it waits for the event \"%s\", which no op records", w->of->bytes));
            by = w->event; /* its own launch of the step before, which its stream orders anyway */
        }
        m->s->waits[w->wait] = by;
    }
    return NULL;
}

/* --- types of ops ------------------------------------------------------------------------------------------------- */

static proof_makes type_makes(const weft_op *op, const op_schema *schema) {
    if (schema->effects & (OP_ALIASES | OP_NO_BYTES | OP_CONTROL)) return PROOF_MAKES_DIFFERENTLY;
    if (schema->effects & OP_COLLECTIVE)
        return op_is_all_reduce(op, NULL) ? PROOF_MAKES_ALL_REDUCE : PROOF_MAKES_DIFFERENTLY;
    if (schema->effects & OP_OPTIMIZER) return PROOF_MAKES_UPDATE;
    bool fallback = op_is(op, "feed") || op_is(op, "feed_v2") || op_is_collective(op, COLLECTIVE_SPLIT) ||
                    op_is(op, "update_loss_scaling");
    return fallback ? PROOF_MAKES_DIFFERENTLY : PROOF_MAKES_OF_ALL;
}

/* Of a type that is not in the table: nothing is a view, and all bytes are looked at. */
static op_look look_at(maker *m, const weft_op *op, const op_schema *schema) {
    if (!schema) return (op_look){.makes = PROOF_MAKES_DIFFERENTLY, .may_wait = true};
    op_look *look = &m->looks[schema->index];
    if (look->is_known) return *look;
    *look = (op_look){.makes = (uint8_t)type_makes(op, schema), .is_known = true};
    look->may_wait = collective_is_wait(op_collective_kind(op));
    look->has_views = (schema->effects & OP_VIEWS) != 0 || op_is(op, "share_data") || op_is(op, "share_buffer");
    for (size_t k = 0; k < schema->ninputs; k++) look->has_types_only |= schema->inputs[k].only_type;
    return *look;
}

/* --- accesses ----------------------------------------------------------------------------------------------------- */

static weft_status touch(maker *m, const weft_var *v, bool is_write) {
    binding at;
    if (!bind_is_named(v)) return NULL;
    TRY(bind_get(&m->names, v, &at));
    proof_access x = {.name = v->name->bytes,
                      .begin = at.begin,
                      .end = at.begin + at.nbytes,
                      .buffer = at.buffer,
                      .owner = v->id,
                      .is_write = is_write};
    if (at.nbytes > 0) TRY(written_touch(&m->names.written, &x, at.part));
    return schedule_access(m->s, &x);
}

static weft_status touch_args(maker *m, const weft_op *op, const op_schema *schema, op_look look) {
    const slot *of;
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        bool viewed = false; /* a view looks at no bytes of what it shows */
        for (uint32_t o = 0; look.has_views && o < op_nslots(op, true) && !viewed; o++)
            viewed = bind_is_view(op, schema, op_slot(op, true, o), &of) && of == s;
        if (viewed || (look.has_types_only && bind_wants_type_only(schema, s))) continue;
        for (uint32_t i = 0; i < s->nargs; i++) TRY(touch(m, slot_var(op, s, i), false));
    }
    for (uint32_t k = 0; k < op_nslots(op, true); k++) {
        const slot *s = op_slot(op, true, k);
        if (look.has_views && bind_is_view(op, schema, s, &of)) continue;
        for (uint32_t i = 0; i < s->nargs; i++) TRY(touch(m, slot_var(op, s, i), true));
    }
    return NULL;
}

static weft_status note_fusion(maker *m, const weft_op *op, const weft_var *fused, const slot *parts, uint32_t event) {
    proof_schedule *s = m->s;
    size_t n = s->nfused_parts + parts->nargs;
    TRY(grow(s->arena, &s->fusions, &s->fusion_capacity, s->nfusions + 1, sizeof *s->fusions));
    TRY(grow(s->arena, &s->fused_parts, &s->fused_part_capacity, n, sizeof *s->fused_parts));
    s->fusions[s->nfusions++] = (proof_fusion){fused->id, (uint32_t)s->nfused_parts, parts->nargs};
    for (uint32_t i = 0; i < parts->nargs; i++) s->fused_parts[s->nfused_parts++] = slot_args(op, parts)[i].var_id;
    s->events[event].makes = PROOF_MAKES_NAMES;
    return NULL;
}

/* coalesce_tensor reads what it copies and writes the whole buffer, or touches nothing. */
static weft_status touch_coalesce(maker *m, const weft_op *op, uint32_t event) {
    const slot *inputs = op_find_slot(op, false, "Input"), *outputs = op_find_slot(op, true, "Output");
    bool copies = attr_bool(op, "copy_data", false), sets = !copies && attr_bool(op, "set_constant", false);
    for (uint32_t i = 0; copies && inputs && i < inputs->nargs; i++) TRY(touch(m, slot_var(op, inputs, i), false));
    TRY(bind_coalesce(&m->names, op, event));
    for (uint32_t i = 0; copies && outputs && i < outputs->nargs; i++) TRY(touch(m, slot_var(op, outputs, i), true));
    weft_var *fused = weft_op_output(op, "FusedOutput", 0);
    if (fused && outputs && !m->is_guarded) TRY(note_fusion(m, op, fused, outputs, event));
    return sets && fused ? touch(m, fused, true) : NULL;
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

static int64_t numel_of(const weft_var *v) {
    int64_t nbytes = bind_nbytes(v);
    size_t element = weft_dtype_nbytes((weft_dtype)v->dtype);
    return nbytes < 0 || !element ? -1 : nbytes / (int64_t)element;
}

/* What members must have the like of. */
static const weft_var *payload(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    for (size_t i = 0; c && c->form == COLLECTIVE_ROWS && i < op_nargs(op, false); i++) {
        const weft_var *v = use_var(op->program, &op->args[i]);
        if (v->ndim == 1) return v;
    }
    return op_x(op) ? op_x(op) : op_out(op);
}

static weft_status add_collective(maker *m, const weft_op *op) {
    const weft_var *v = payload(op);
    proof_collective *c;
    TRY(schedule_collective(m->s, op_ring(op), v ? v->dtype : WEFT_DTYPE_NONE, v ? numel_of(v) : 0, &c));
    c->is_guarded = m->is_guarded;
    if (!v || !bind_is_named(v)) return NULL;
    if (v->kind == WEFT_SELECTED_ROWS)
        TRY(schedule_problem(m->s, WEFT_VERDICT_INVALID_PROGRAM, (uint32_t)m->s->nevents - 1,
                             "\"%s\" is SelectedRows (a sparse gradient): collectives take dense tensors only",
                             v->name->bytes));
    binding at;
    TRY(bind_get(&m->names, v, &at));
    size_t element = weft_dtype_nbytes((weft_dtype)v->dtype);
    if (m->s->buffers[at.buffer].parts && element && c->count >= 0) c->count = at.nbytes / (int64_t)element;
    const proof_buffer *whole = &m->s->buffers[at.buffer];
    for (size_t i = 0; i < whole->nparts; i++) {
        const proof_part *of = &whole->parts[i];
        if (of->begin < at.begin + at.nbytes && at.begin < of->end)
            TRY(schedule_member(m->s, &(proof_member){of->name, of->begin - at.begin, 0, of->var}));
    }
    return whole->nparts ? NULL : schedule_member(m->s, &(proof_member){v->name->bytes, 0, 0, v->id});
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

/* `later` waits for all that was launched on `earlier` before: a mark on the one, a wait on the other. */
static weft_status join_streams(maker *m, const weft_op *op, uint32_t index, uint32_t earlier, uint32_t later) {
    uint32_t mark;
    TRY(schedule_event(m->s, op, index, earlier, &mark));
    TRY(schedule_event(m->s, op, index, later, NULL));
    return schedule_wait(m->s, mark);
}

static weft_status add_stream_wait(maker *m, const weft_op *op, uint32_t index, bool compute_waits) {
    uint32_t own;
    TRY(ring_stream_of(m, op, &own));
    return compute_waits ? join_streams(m, op, index, own, 0) : join_streams(m, op, index, 0, own);
}

static uint32_t filling_of(const maker *m, uint32_t filled) {
    return filled < m->async_capacity ? m->async_of[filled] : PROOF_NONE;
}

/* wait_tensor: the stream waits for the asynchronous collectives that fill bytes of the value. */
static weft_status add_value_wait(maker *m, const weft_op *op, uint32_t index) {
    uint32_t stream, event;
    TRY(stream_of(m, op, &stream));
    TRY(schedule_event(m->s, op, index, stream, &event));
    TRY(add_waits(m, op, event));
    FOR_EACH_ARG(op, false, u) {
        binding at;
        TRY(bind_get(&m->names, use_var(op->program, u), &at));
        for (uint32_t i = filling_of(m, at.buffer); i != PROOF_NONE; i = m->fillings[i].next)
            if (m->fillings[i].begin < at.begin + at.nbytes && at.begin < m->fillings[i].end)
                TRY(schedule_wait(m->s, m->fillings[i].event));
    }
    TRY(bind_views(&m->names, op));
    return add_record(m, op, event);
}

/* An asynchronous collective starts on its ring's stream when what was launched on compute before it is complete. */
static weft_status begin_async(maker *m, const weft_op *op, uint32_t index, uint32_t *out_event) {
    uint32_t own, mark;
    TRY(ring_stream_of(m, op, &own));
    TRY(schedule_event(m->s, op, index, 0, &mark));
    TRY(schedule_event(m->s, op, index, own, out_event));
    return schedule_wait(m->s, mark);
}

/* One that a later one on its stream covers is forgotten. */
static void forget_covered(maker *m, const filling *by) {
    for (uint32_t i = by->next, *to_it = &m->fillings[m->nfillings - 1].next; i != PROOF_NONE;
         i = m->fillings[i].next) {
        const filling *f = &m->fillings[i];
        bool same_stream = m->s->events[f->event].stream == m->s->events[by->event].stream;
        if (same_stream && by->begin <= f->begin && f->end <= by->end)
            *to_it = f->next;
        else
            to_it = &m->fillings[i].next;
    }
}

static weft_status note_async(maker *m, const weft_op *op, uint32_t event) {
    FOR_EACH_ARG(op, true, u) {
        binding at;
        TRY(bind_get(&m->names, use_var(op->program, u), &at));
        size_t had = m->async_capacity;
        TRY(grow(m->s->arena, &m->async_of, &m->async_capacity, (size_t)at.buffer + 1, sizeof *m->async_of));
        for (size_t i = had; i < m->async_capacity; i++) m->async_of[i] = PROOF_NONE;
        TRY(grow(m->s->arena, &m->fillings, &m->filling_capacity, m->nfillings + 1, sizeof *m->fillings));
        filling *f = &m->fillings[m->nfillings];
        *f = (filling){at.begin, at.begin + at.nbytes, event, m->async_of[at.buffer]};
        m->async_of[at.buffer] = (uint32_t)m->nfillings++;
        forget_covered(m, f);
    }
    return NULL;
}

static weft_status note_update(maker *m, weft_op *op, uint32_t event) {
    proof_schedule *s = m->s;
    bool optimizes = op_has_effect(op, OP_OPTIMIZER);
    if (!optimizes && !op_is(op, "update_loss_scaling")) return NULL;
    const weft_var *param = optimizes && op->block == m->program->blocks[0] ? op_updated_param(op) : NULL;
    if (param && param->persistable) mix_bytes(&s->updated, param->name->bytes, param->name->nbytes);
    TRY(grow(s->arena, &s->updates, &s->update_capacity, s->nupdates + 1, sizeof *s->updates));
    s->updates[s->nupdates++] = event;
    return NULL;
}

static proof_makes makes_of(const maker *m, const weft_op *op, op_look look, uint32_t event) {
    bool is_all = op->slots->nargs == m->s->naccesses - m->s->events[event].first_access;
    return is_all ? (proof_makes)look.makes : PROOF_MAKES_DIFFERENTLY;
}

static weft_status add_launch(maker *m, weft_op *op, uint32_t index) {
    const op_schema *schema = op_schema_of(op);
    uint32_t effects = schema ? schema->effects : 0, stream, event;
    op_look look = look_at(m, op, schema);
    bool is_async = (!schema || effects & OP_COLLECTIVE) && op_is_async(op);
    if (is_async) {
        TRY(begin_async(m, op, index, &event));
    } else {
        TRY(stream_of(m, op, &stream));
        TRY(schedule_event(m->s, op, index, stream, &event));
    }
    TRY(add_waits(m, op, event));
    m->s->events[event].blocks_host = (effects & OP_HOST) != 0;
    m->s->events[event].is_guarded = m->is_guarded;
    if (effects & OP_ALIASES)
        TRY(touch_coalesce(m, op, event));
    else if (!(effects & OP_NO_BYTES))
        TRY(touch_args(m, op, schema, look));
    if (!(effects & OP_ALIASES) && !is_async && !m->is_guarded)
        m->s->events[event].makes = (uint8_t)makes_of(m, op, look, event);
    if (op_communicates(op)) TRY(add_collective(m, op));
    if (look.has_views) TRY(bind_views(&m->names, op));
    TRY(note_update(m, op, event));
    if (is_async) TRY(note_async(m, op, event));
    return add_record(m, op, event);
}

static weft_status add_block(maker *m, const weft_block *block, uint32_t outer_index, int depth);

/* The ops of a block that an op runs stand behind the first op that does. */
static weft_status add_sub_blocks(maker *m, const weft_op *op, uint32_t index, int depth) {
    for (uint32_t i = 0; i < op->nattrs; i++) {
        const weft_attr *a = &op->attrs[i];
        if (a->type != ATTR_BLOCK || !name_is(a->name, "sub_block") || a->u.i <= 0 ||
            (uint64_t)a->u.i >= m->program->nblocks || m->entered[a->u.i])
            continue;
        m->entered[a->u.i] = true;
        bool outer = m->is_guarded;
        m->is_guarded = true;
        TRY(add_block(m, m->program->blocks[a->u.i], index, depth + 1));
        m->is_guarded = outer;
    }
    return NULL;
}

static bool is_grad_slot(const slot *s) {
    static const char suffix[] = "@GRAD";
    size_t n = s->name->nbytes, m = sizeof suffix - 1;
    return n >= m && memcmp(s->name->bytes + n - m, suffix, m) == 0;
}

/* The op adds up what its block makes of gradients: the sums are its own, under names that the block may declare too.
 */
static weft_status touch_gradients(maker *m, const weft_op *op) {
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *s = op_slot(op, true, i);
        for (uint32_t k = 0; k < s->nargs && is_grad_slot(s); k++)
            if (slot_var(op, s, k)->block) TRY(touch(m, slot_var(op, s, k), true));
    }
    return NULL;
}

/* What the op that runs a block touches itself: its condition, and gradients. What is inside speaks for itself. */
static weft_status add_control(maker *m, weft_op *op, uint32_t index, int depth) {
    uint32_t stream, event;
    TRY(stream_of(m, op, &stream));
    TRY(schedule_event(m->s, op, index, stream, &event));
    TRY(add_waits(m, op, event));
    const slot *condition = op_find_slot(op, false, "Cond");
    if (!condition) condition = op_find_slot(op, false, "Condition");
    for (uint32_t i = 0; condition && i < condition->nargs; i++) TRY(touch(m, slot_var(op, condition, i), false));
    TRY(touch_gradients(m, op));
    TRY(note_update(m, op, event));
    TRY(add_record(m, op, event));
    return add_sub_blocks(m, op, index, depth);
}

static weft_status add_op(maker *m, weft_op *op, uint32_t index, int depth) {
    if (look_at(m, op, op_schema_of(op)).may_wait) {
        collective_kind kind = op_collective_kind(op);
        if (kind == COLLECTIVE_WAIT_COMPUTE) return add_stream_wait(m, op, index, false);
        if (kind == COLLECTIVE_WAIT_COMM) return add_stream_wait(m, op, index, true);
        if (kind == COLLECTIVE_WAIT_TENSOR) return add_value_wait(m, op, index);
    }
    const weft_attr *body = op_find_attr(op, "sub_block");
    if (body && body->type == ATTR_BLOCK) return add_control(m, op, index, depth);
    return add_launch(m, op, index);
}

static weft_status add_block(maker *m, const weft_block *block, uint32_t outer_index, int depth) {
    if (depth > MAX_DEPTH)
        return weft_status_create(WEFT_LIMIT, m->program->place, "blocks run one another deeper than %d", MAX_DEPTH);
    uint32_t index = 0;
    FOR_EACH_OP(op, block) TRY(add_op(m, op, depth ? outer_index : index++, depth));
    return NULL;
}

static weft_status keep_bindings(const maker *m) {
    size_t n = m->program->nall_vars;
    m->s->bound = ARENA_ARRAY(m->s->arena, uint32_t, n + 1);
    if (!m->s->bound) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) m->s->bound[i] = m->names.of_var[i].buffer;
    return NULL;
}

/* A launch for each op, an access for each argument and a buffer for each var are about what there will be. */
static weft_status reserve(proof_schedule *s, const weft_program *p) {
    size_t nargs = 0;
    FOR_EACH_OP(op, p->blocks[0]) nargs += op->slots->nargs;
    return schedule_reserve(s, p->blocks[0]->nops, nargs, p->nall_vars);
}

weft_status schedule_from_program(const weft_program *p, const weft_verify_options *options, arena *a,
                                  proof_schedule *out) {
    TRY(schedule_init(out, p->context, a));
    out->program = p;
    out->joins_steps = true;
    out->streams_unknown = !tells_streams(p);
    if (weft_program_nops(p) > UINT32_MAX / 8)
        return weft_status_create(WEFT_LIMIT, p->place, "expected at most %u ops", UINT32_MAX / 8);
    maker m = {.s = out, .program = p};
    m.entered = ARENA_ARRAY(a, bool, p->nblocks);
    m.looks = ARENA_ARRAY(a, op_look, ops_count(p->context) + 1);
    if (!m.entered || !m.looks) return base_out_of_memory();
    TRY(reserve(out, p));
    TRY(bind_init(&m.names, out, p));
    interner_init(&m.events, a);
    TRY(read_assumption(&m, options->stream));
    TRY(add_block(&m, p->blocks[0], 0, 0));
    TRY(resolve_late_waits(&m));
    TRY(keep_bindings(&m));
    written_end(&m.names.written);
    return schedule_end(out);
}
