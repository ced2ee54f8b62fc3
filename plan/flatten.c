/* flatten.c: the ops of block 0 and of the blocks that its conditionals run, in the order in which they would run.
 *
 * A conditional_block becomes a frame; the ops of its block stand behind it and are guarded by its condition. Each
 * block is run from one place and conditionals nest PLAN_MAX_GUARDS deep at most, so the result is no longer than the
 * program. */
#include "plan/builder.h"

static weft_status add_step(plan_builder *b, plan_step step) {
    const weft_allocator *a = &b->context->allocator;
    TRY(vector_reserve(a, &b->steps, &b->step_capacity, b->nsteps + 1, sizeof *b->steps));
    step.op->mark = (uint32_t)b->nsteps + 1; /* where it stands, from 1 */
    b->steps[b->nsteps++] = step;
    return NULL;
}

static int depth_of(const plan_builder *b, int32_t frame) {
    int depth = 0;
    for (; frame >= 0; frame = b->frames[frame].parent) depth++;
    return depth;
}

/* The block that a conditional runs. */
static weft_status sub_block(const plan_builder *b, weft_op *op, uint8_t *seen, weft_block **out) {
    if (!op_is(op, "conditional_block"))
        return plan_error(b, WEFT_UNSUPPORTED, op, "of the ops that run a block only conditional_block can be planned");
    const weft_attr *attr = op_find_attr(op, "sub_block");
    if (!attr || attr->type != ATTR_BLOCK || attr->u.i <= 0 || (uint64_t)attr->u.i >= b->program->nblocks)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "expected attr sub_block to be a block of the program, 1 to %zu",
                          b->program->nblocks - 1);
    if (seen[attr->u.i])
        return plan_error(b, WEFT_UNSUPPORTED, op, "block %d is run by another op too", (int)attr->u.i);
    seen[attr->u.i] = 1;
    *out = b->program->blocks[attr->u.i];
    return NULL;
}

static weft_status open_frame(plan_builder *b, weft_op *op, int32_t parent, uint8_t *seen, int32_t *out_frame) {
    weft_block *block = NULL;
    TRY(sub_block(b, op, seen, &block));
    if (depth_of(b, parent) >= PLAN_MAX_GUARDS)
        return plan_error(b, WEFT_LIMIT, op, "conditional blocks nest deeper than %d", PLAN_MAX_GUARDS);
    const weft_allocator *a = &b->context->allocator;
    TRY(vector_reserve(a, &b->frames, &b->frame_capacity, b->nframes + 1, sizeof *b->frames));
    b->frames[b->nframes] = (plan_frame){.block = block, .parent = parent, .guard = -1};
    *out_frame = (int32_t)b->nframes++;
    return NULL;
}

static weft_status flatten_block(plan_builder *b, const weft_block *block, int32_t frame, int32_t outer_index,
                                 uint8_t *seen) {
    int32_t index = 0;
    FOR_EACH_OP(op, block) {
        plan_step step = {.op = op, .op_index = frame < 0 ? index : outer_index, .frame = frame, .opens = -1};
        if (op_has_effect(op, OP_CONTROL)) TRY(open_frame(b, op, frame, seen, &step.opens));
        TRY(add_step(b, step));
        if (step.opens >= 0) TRY(flatten_block(b, b->frames[step.opens].block, step.opens, step.op_index, seen));
        index++;
    }
    return NULL;
}

weft_status plan_flatten(plan_builder *b) {
    uint8_t *seen = ARENA_ARRAY(&b->scratch, uint8_t, b->program->nblocks);
    if (!seen) return base_out_of_memory();
    seen[0] = 1;
    if (weft_program_nops(b->program) > INT32_MAX / 4)
        return weft_status_create(WEFT_LIMIT, b->program->place, "%zu ops: a plan holds at most %d",
                                  weft_program_nops(b->program), INT32_MAX / 4);
    for (size_t i = 0; i < b->program->nblocks; i++) FOR_EACH_OP(op, b->program->blocks[i]) op->mark = 0;
    return flatten_block(b, b->program->blocks[0], -1, 0, seen);
}
