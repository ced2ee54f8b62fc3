/* from_plan.c: a plan as a schedule. Each stream is a thread that takes its instructions in order. So nothing but
 * streams and waits orders anything, and memory is judged as it is laid out: two spaces of bytes, shared by lifetime.
 * */
#include "plan/plan.h"
#include "proof/schedule/schedule.h"

static uint32_t owner_of(const weft_plan *plan, int32_t value) {
    while (plan->values[value].view_of >= 0) value = plan->values[value].view_of;
    return (uint32_t)value;
}

static weft_status touch_value(proof_schedule *s, const weft_plan *plan, int32_t value, bool is_write) {
    for (; value >= 0; value = plan->values[value].rows) {
        const plan_value *v = &plan->values[value];
        TRY(schedule_access(s, &(proof_access){.name = v->name,
                                               .begin = v->offset,
                                               .end = v->offset + v->nbytes,
                                               .buffer = v->space == PLAN_TEMPORARY,
                                               .owner = owner_of(plan, value),
                                               .is_write = is_write}));
    }
    return NULL;
}

/* coalesce_tensor as an instruction reads what it copies and writes the whole buffer. */
static weft_status touch_coalesce(proof_schedule *s, const weft_plan *plan, const plan_instr *i) {
    uint32_t nin = i->in_first[i->schema->ninputs], nout = i->out_first[i->schema->noutputs];
    for (uint32_t k = 0; k < nin; k++)
        if (k >= nout || i->in[k] != i->out[k]) TRY(touch_value(s, plan, i->in[k], false));
    for (uint32_t k = 0; k < nout; k++) TRY(touch_value(s, plan, i->out[k], true));
    return NULL;
}

static weft_status touch_args(proof_schedule *s, const weft_plan *plan, const plan_instr *i) {
    TRY(touch_value(s, plan, i->guard, false));
    TRY(touch_value(s, plan, i->outer_guard, false));
    if (i->schema->effects & OP_ALIASES) return touch_coalesce(s, plan, i);
    for (size_t k = 0; k < i->schema->ninputs; k++) {
        if (i->schema->inputs[k].only_type) continue;
        for (uint32_t n = i->in_first[k]; n < i->in_first[k + 1]; n++) TRY(touch_value(s, plan, i->in[n], false));
    }
    for (uint32_t n = 0; n < i->out_first[i->schema->noutputs]; n++) TRY(touch_value(s, plan, i->out[n], true));
    return NULL;
}

/* Slices by buffer: parts[first[v] .. first[v + 1]) are the values that are views of v. */
typedef struct slices {
    uint32_t *first, *parts;
} slices;

static weft_status find_slices(const weft_plan *plan, arena *a, slices *out) {
    out->first = ARENA_ARRAY(a, uint32_t, plan->nvalues + 1);
    out->parts = ARENA_ARRAY(a, uint32_t, plan->nvalues + 1);
    uint32_t *next = ARENA_ARRAY(a, uint32_t, plan->nvalues + 1);
    if (!out->first || !out->parts || !next) return base_out_of_memory();
    for (size_t v = 0; v < plan->nvalues; v++)
        if (plan->values[v].view_of >= 0 && !plan->values[v].is_fetch) out->first[plan->values[v].view_of + 1]++;
    for (size_t v = 0; v < plan->nvalues; v++) next[v + 1] = out->first[v + 1] += out->first[v];
    for (size_t v = 0; v < plan->nvalues; v++)
        if (plan->values[v].view_of >= 0 && !plan->values[v].is_fetch)
            out->parts[next[plan->values[v].view_of]++] = (uint32_t)v;
    return NULL;
}

/* Of a bucket the members count, not other names of the whole, in which there is padding. */
static bool has_members(const weft_plan *plan, const slices *parts, int32_t value) {
    for (size_t k = parts->first[value]; k < parts->first[value + 1]; k++)
        if (plan->values[parts->parts[k]].nbytes < plan->values[value].nbytes) return true;
    return false;
}

/* The value that members must have the like of; -1: there is none. */
static int32_t payload(const weft_plan *plan, const plan_instr *i) {
    uint32_t nin = i->in_first[i->schema->ninputs];
    const collective_schema *c = i->schema->collective;
    for (uint32_t k = 0; c && c->form == COLLECTIVE_ROWS && k < nin; k++)
        if (i->in[k] >= 0 && plan->values[i->in[k]].shape.ndim == 1) return i->in[k];
    return nin ? i->in[0] : i->out_first[i->schema->noutputs] ? i->out[0] : -1;
}

static weft_status add_collective(proof_schedule *s, const weft_plan *plan, const slices *parts, const plan_instr *i) {
    proof_collective *c;
    int32_t moved = payload(plan, i);
    const plan_value *v = moved >= 0 ? &plan->values[moved] : NULL;
    TRY(schedule_collective(s, i->ring_id, v ? v->shape.dtype : WEFT_DTYPE_NONE, v ? shape_numel(&v->shape) : 0, &c));
    c->is_guarded = i->guard >= 0;
    if (!v) return NULL;
    size_t begin = parts->first[moved], end = parts->first[moved + 1];
    bool members = has_members(plan, parts, moved);
    for (size_t k = begin; k < end; k++) {
        const plan_value *part = &plan->values[parts->parts[k]];
        if (members && part->nbytes == v->nbytes) continue;
        TRY(schedule_member(s, &(proof_member){part->name, part->offset - v->offset, part->nbytes, PROOF_NONE}));
    }
    return begin == end ? schedule_member(s, &(proof_member){v->name, 0, 0, PROOF_NONE}) : NULL;
}

/* Instructions by stream and position. */
typedef struct places {
    uint32_t *first, *instrs;
} places;

static weft_status find_places(const weft_plan *plan, arena *a, places *out) {
    size_t n = (size_t)plan->nstreams;
    out->first = ARENA_ARRAY(a, uint32_t, n + 1);
    out->instrs = ARENA_ARRAY(a, uint32_t, plan->ninstrs + 1);
    if (!out->first || !out->instrs) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) out->first[plan->instrs[i].stream + 1]++;
    for (size_t t = 0; t < n; t++) out->first[t + 1] += out->first[t];
    for (size_t i = 0; i < plan->ninstrs; i++)
        out->instrs[out->first[plan->instrs[i].stream] + (uint32_t)plan->instrs[i].position] = (uint32_t)i;
    return NULL;
}

weft_status schedule_from_plan(const weft_plan *plan, arena *a, proof_schedule *out) {
    TRY(schedule_init(out, plan->context, a));
    out->program = plan->program;
    out->joins_steps = out->launches_freely = true;
    uint32_t id;
    TRY(schedule_buffer(out, "persistent memory", true, &id));
    TRY(schedule_buffer(out, "temporary memory", true, &id));
    for (int t = 1; t < plan->nstreams; t++) TRY(schedule_stream(out, plan->stream_names[t], &id));
    slices parts;
    places at;
    TRY(find_slices(plan, a, &parts));
    TRY(find_places(plan, a, &at));
    for (size_t k = 0; k < plan->ninstrs; k++) {
        const plan_instr *i = &plan->instrs[k];
        TRY(schedule_event(out, i->op, (uint32_t)i->op_index, (uint32_t)i->stream, NULL));
        for (uint32_t w = 0; w < i->nwaits; w++)
            if (i->waits[w].count > 0)
                TRY(schedule_wait(out, at.instrs[at.first[i->waits[w].stream] + (uint32_t)i->waits[w].count - 1]));
        TRY(touch_args(out, plan, i));
        if (i->ring_id >= 0) TRY(add_collective(out, plan, &parts, i));
    }
    return schedule_end(out);
}
