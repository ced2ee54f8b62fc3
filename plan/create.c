/* create.c: a program becomes a plan, step by step.
 *
 * The plan owns a copy of the program, so that nothing refers to the source afterwards. Steps share a plan_builder
 * (builder.h) whose scratch goes away when the plan is done; docs/plan.md describes what each decides. */
#include "plan/builder.h"
#include "plan/fuse.h"

static weft_status begin(plan_builder *b, const weft_program *program, const weft_plan_options *options) {
    b->context = program->context;
    b->options = options;
    arena_init(&b->scratch, &b->context->allocator);
    interner_init(&b->names, &b->scratch);
    b->plan = base_alloc(&b->context->allocator, sizeof *b->plan);
    if (!b->plan) return base_out_of_memory();
    *b->plan = (weft_plan){.context = b->context, .given_waits = b->options->order != NULL};
    arena_init(&b->plan->arena, &b->context->allocator);
    TRY(weft_program_clone(program, &b->program));
    b->plan->program = b->program;
    b->stream_length = ARENA_ARRAY(&b->scratch, int32_t, PLAN_MAX_STREAMS);
    return b->stream_length ? NULL : base_out_of_memory();
}

/* Moves what the steps gathered into the plan. */
static weft_status finish(plan_builder *b) {
    weft_plan *p = b->plan;
    p->nvalues = b->nvalues;
    p->ninstrs = b->ninstrs;
    p->nstreams = (int)b->nstreams;
    p->values = arena_copy(&p->arena, b->values, b->nvalues * sizeof *b->values);
    p->instrs = arena_copy(&p->arena, b->instrs, b->ninstrs * sizeof *b->instrs);
    p->stream_names = arena_copy(&p->arena, b->streams, b->nstreams * sizeof *b->streams);
    return p->values && p->instrs && p->stream_names ? plan_find_peak(p) : base_out_of_memory();
}

static void end(plan_builder *b) {
    const weft_allocator *a = &b->context->allocator;
    base_free(a, b->steps, b->step_capacity * sizeof *b->steps);
    base_free(a, b->frames, b->frame_capacity * sizeof *b->frames);
    base_free(a, b->values, b->value_capacity * sizeof *b->values);
    base_free(a, b->view_ops, b->view_op_capacity * sizeof *b->view_ops);
    base_free(a, b->instrs, b->instr_capacity * sizeof *b->instrs);
    base_free(a, b->streams, b->stream_capacity * sizeof *b->streams);
    arena_fini(&b->scratch);
    weft_plan_destroy(b->plan);
}

/* Types that the op table lacks, all at once. */
static weft_status check_known(plan_builder *b) {
    weft_op *first = NULL;
    buffer all;
    buffer_init(&all, &b->context->allocator);
    for (size_t i = 0; i < b->nsteps; i++) {
        weft_op *op = b->steps[i].op;
        if (op_schema_of(op)) continue;
        bool is_told = first && first->type == op->type;
        for (size_t k = 0; k < i && !is_told && first; k++)
            is_told = b->steps[k].op->type == op->type;
        if (first && !is_told) buffer_format(&all, "%s%s", all.nbytes ? ", " : "; nor are: ", op->type->bytes);
        if (!first) first = op;
    }
    buffer_append(&all, "", 1);
    weft_status status = buffer_status(&all);
    if (!status && first)
        status = plan_error(b, WEFT_UNSUPPORTED, first, "no such op is in the op table (weft ops lists it)%s", all.bytes);
    buffer_fini(&all);
    return status;
}

weft_status weft_plan_create(const weft_program *program, const weft_plan_options *options, weft_plan **out_plan) {
    plan_builder b = {0};
    weft_plan_options taken;
    weft_status status = NULL;
    TRY(base_take_struct("weft_plan_options", &taken, sizeof taken, options));
    TRY_DONE(begin(&b, program, &taken));
    TRY_DONE(plan_unroll(&b));
    TRY_DONE(plan_infer_types(&b));
    TRY_DONE(plan_flatten(&b));
    TRY_DONE(check_known(&b));
    TRY_DONE(plan_take_order(&b));
    TRY_DONE(plan_make_views(&b));
    TRY_DONE(plan_make_instrs(&b));
    TRY_DONE(plan_keep_values(&b));
    TRY_DONE(plan_find_roots(&b));
    TRY_DONE(plan_list_accesses(&b));
    TRY_DONE(plan_advance_updates(&b));
    TRY_DONE(plan_order_accesses(&b));
    TRY_DONE(plan_lay_out(&b));
    TRY_DONE(finish(&b));
    TRY_DONE(plan_fuse(b.plan));
    *out_plan = b.plan;
    b.plan = NULL;
done:
    end(&b);
    return base_status_at(status, program->place);
}
