/* instr_info.c: instructions and buffers of a plan, for hosts (weft/plan_instr.h). */
#include "plan/plan.h"
#include "weft/plan_instr.h"

size_t weft_plan_nstreams(const weft_plan *plan) {
    return (size_t)plan->nstreams;
}

const char *weft_plan_stream_name(const weft_plan *plan, size_t stream) {
    return plan->stream_names[stream];
}

size_t weft_plan_ninstrs(const weft_plan *plan) {
    return plan->ninstrs;
}

weft_plan_instr weft_plan_instr_at(const weft_plan *plan, size_t instr) {
    const plan_instr *i = &plan->instrs[instr];
    return (weft_plan_instr){.op = i->op,
                             .op_index = (size_t)i->op_index,
                             .stream = (size_t)i->stream,
                             .position = (size_t)i->position,
                             .nwaits = i->nwaits,
                             .ring_id = i->ring_id,
                             .guard = i->guard,
                             .outer_guard = i->outer_guard};
}

weft_plan_wait weft_plan_instr_wait(const weft_plan *plan, size_t instr, size_t index) {
    const plan_wait *w = &plan->instrs[instr].waits[index];
    return (weft_plan_wait){(size_t)w->stream, (size_t)w->count};
}

size_t weft_plan_instr_nslots(const weft_plan *plan, size_t instr, bool output) {
    const op_schema *schema = plan->instrs[instr].schema;
    return output ? schema->noutputs : schema->ninputs;
}

const char *weft_plan_instr_slot(const weft_plan *plan, size_t instr, bool output, size_t slot_index,
                                 size_t *out_nargs) {
    const plan_instr *i = &plan->instrs[instr];
    const uint32_t *first = output ? i->out_first : i->in_first;
    *out_nargs = first[slot_index + 1] - first[slot_index];
    return (output ? i->schema->outputs : i->schema->inputs)[slot_index].name;
}

int64_t weft_plan_instr_arg(const weft_plan *plan, size_t instr, bool output, size_t slot_index, size_t index) {
    const plan_instr *i = &plan->instrs[instr];
    const uint32_t *first = output ? i->out_first : i->in_first;
    return (output ? i->out : i->in)[first[slot_index] + index];
}

weft_plan_buffer weft_plan_buffer_at(const weft_plan *plan, size_t value) {
    const plan_value *v = &plan->values[value];
    return (weft_plan_buffer){.is_persistent = v->space == PLAN_PERSISTENT,
                              .offset = v->offset,
                              .nbytes = v->nbytes,
                              .view_of = v->view_of,
                              .rows = v->rows};
}
