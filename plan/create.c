/* create.c: a program becomes a plan, step by step; and what else is asked of a whole plan.
 *
 * The plan owns a copy of the program, so that nothing refers to the source afterwards. Steps share a plan_builder
 * (builder.h) whose scratch goes away when the plan is done; docs/plan.md describes what each decides. */
#include <stdio.h>

#include "plan/builder.h"
#include "plan/fuse.h"

static weft_status begin(plan_builder *b, const weft_program *program, const weft_plan_options *options) {
    static const weft_plan_options none = {0};
    b->context = program->context;
    b->options = options ? options : &none;
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

weft_status weft_plan_create(const weft_program *program, const weft_plan_options *options, weft_plan **out_plan) {
    plan_builder b = {0};
    weft_status status = NULL;
    TRY_DONE(begin(&b, program, options));
    TRY_DONE(plan_infer_types(&b));
    TRY_DONE(plan_flatten(&b));
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

void weft_plan_destroy(weft_plan *plan) {
    if (!plan) return;
    weft_program_destroy(plan->program);
    arena_fini(&plan->arena);
    base_free(&plan->context->allocator, plan, sizeof *plan);
}

size_t weft_plan_nvalues(const weft_plan *plan) {
    return plan->nvalues;
}

void weft_plan_value_at(const weft_plan *plan, size_t index, weft_plan_value *out_value) {
    const plan_value *v = &plan->values[index];
    *out_value = (weft_plan_value){.name = v->name,
                                   .dtype = (weft_dtype)v->shape.dtype,
                                   .ndim = (size_t)v->shape.ndim,
                                   .persistable = v->persistable,
                                   .is_feed = v->is_feed,
                                   .is_fetch = v->is_fetch,
                                   .is_written = v->is_written,
                                   .is_read_first = v->is_read_first};
    memcpy(out_value->dims, v->shape.dims, (size_t)v->shape.ndim * sizeof *v->shape.dims);
}

void weft_plan_summarize(const weft_plan *plan, weft_plan_summary *out_summary) {
    *out_summary = (weft_plan_summary){.ninstructions = plan->ninstrs,
                                       .nremoved_ops = plan->nremoved,
                                       .nstreams = (size_t)plan->nstreams,
                                       .persistent_nbytes = plan->persistent_nbytes,
                                       .temporary_nbytes = plan->temporary_nbytes,
                                       .live_nbytes = plan->live_nbytes,
                                       .nbuckets = plan->nbuckets,
                                       .bucket_nbytes = plan->bucket_nbytes,
                                       .largest_bucket_nbytes = plan->largest_bucket_nbytes,
                                       .ahead_nbytes = plan->ahead_nbytes,
                                       .written_nbytes = plan->written_nbytes};
    for (size_t i = 0; i < plan->ninstrs; i++) {
        out_summary->nevents += plan->instrs[i].nwaits;
        out_summary->ncollectives += plan->instrs[i].ring_id >= 0;
    }
}

weft_status plan_error(const plan_builder *b, weft_code code, const weft_op *op, const char *format, ...) {
    char where[160], words[512];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    if (!op) return weft_status_create(code, b->program->place, "%s", words);
    return weft_status_create(code, b->program->place, "%s: %s", op_place(op, where, sizeof where), words);
}
