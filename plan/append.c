/* append.c: one more instruction of a plan in the making. */
#include "plan/builder.h"

static weft_status keep_args(plan_builder *b, const plan_args *args, size_t nslots, const int32_t **out_values,
                             const uint32_t **out_first) {
    arena *a = &b->plan->arena;
    *out_values = arena_copy(a, args->values, args->first[nslots] * sizeof *args->values);
    *out_first = arena_copy(a, args->first, (nslots + 1) * sizeof *args->first);
    return *out_values && *out_first ? NULL : base_out_of_memory();
}

weft_status plan_add_instr(plan_builder *b, const plan_step *step, weft_op *op, const op_schema *schema, int32_t stream,
                           const plan_args *in, const plan_args *out) {
    const weft_allocator *a = &b->context->allocator;
    TRY(vector_reserve(a, &b->instrs, &b->instr_capacity, b->ninstrs + 1, sizeof *b->instrs));
    plan_instr *i = &b->instrs[b->ninstrs];
    *i = (plan_instr){.op = op,
                      .schema = schema,
                      .stream = stream,
                      .position = b->stream_length[stream],
                      .op_index = step->op_index,
                      .guard = -1,
                      .outer_guard = -1,
                      .ring_id = -1};
    if (step->frame >= 0) {
        const plan_frame *frame = &b->frames[step->frame];
        i->guard = frame->guard;
        if (frame->parent >= 0) i->outer_guard = b->frames[frame->parent].guard;
    }
    if (schema->effects & OP_COLLECTIVE && (i->ring_id = op_ring(op)) < 0)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "ring_id is %lld", (long long)i->ring_id);
    TRY(keep_args(b, in, schema->ninputs, &i->in, &i->in_first));
    TRY(keep_args(b, out, schema->noutputs, &i->out, &i->out_first));
    b->stream_length[stream]++;
    b->ninstrs++;
    return NULL;
}
