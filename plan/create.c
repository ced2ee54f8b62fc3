/* create.c: a program becomes a plan, step by step.
 *
 * The plan owns a copy of the program, so that nothing refers to the source afterwards. Steps share a plan_builder
 * (builder.h) whose scratch goes away when the plan is done; docs/plan.md describes what each decides. */
#include "ops/open_extents.h"
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
    if (options->batch) TRY(open_extents_feed(b->program, &(open_extents){.rows = options->batch, .nranks = 1}));
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

/* Blocks that block 0 runs, and those that these run. */
static void mark_run(const weft_program *p, size_t block, bool *is_run) {
    is_run[block] = true;
    FOR_EACH_OP(op, p->blocks[block]) {
        const weft_attr *sub = p->nblocks > 1 ? op_find_attr(op, "sub_block") : NULL;
        bool is_block = sub && sub->type == ATTR_BLOCK && sub->u.i > (int64_t)block && (uint64_t)sub->u.i < p->nblocks;
        if (is_block && !is_run[sub->u.i]) mark_run(p, (size_t)sub->u.i, is_run);
    }
}

/* Types that the op table lacks, all at once, before anything else of the program is looked at. */
typedef struct unknown_types {
    weft_op *first;
    const name **told;
    size_t ntold;
    buffer others;
} unknown_types;

static weft_status note_unknown(plan_builder *b, weft_op *op, unknown_types *u) {
    if (op_schema_of(op)) return NULL;
    for (size_t i = 0; i < u->ntold; i++)
        if (u->told[i] == op->type) return NULL;
    const name **more = ARENA_ARRAY(&b->scratch, const name *, u->ntold + 1);
    if (!more) return base_out_of_memory();
    if (u->ntold) memcpy(more, u->told, u->ntold * sizeof *more);
    more[u->ntold++] = op->type;
    u->told = more;
    if (u->first) buffer_format(&u->others, "%s%s", u->others.nbytes ? ", " : "; nor are: ", op->type->bytes);
    if (!u->first) u->first = op;
    return NULL;
}

static weft_status check_known(plan_builder *b) {
    const weft_program *p = b->program;
    bool *is_run = ARENA_ARRAY(&b->scratch, bool, p->nblocks);
    unknown_types u = {.first = NULL};
    weft_status status = is_run ? NULL : base_out_of_memory();
    buffer_init(&u.others, &b->context->allocator);
    if (!status) mark_run(p, 0, is_run);
    for (size_t i = 0; i < p->nblocks && !status; i++)
        for (weft_op *op = is_run[i] ? p->blocks[i]->first : NULL; op && !status; op = op->next)
            status = note_unknown(b, op, &u);
    buffer_append(&u.others, "", 1);
    if (!status) status = buffer_status(&u.others);
    if (!status && u.first)
        status = plan_error(b, WEFT_UNSUPPORTED, u.first, "no such op is in the op table (weft ops lists it)%s",
                            u.others.bytes);
    buffer_fini(&u.others);
    return status;
}

weft_status weft_plan_create(const weft_program *program, const weft_plan_options *options, weft_plan **out_plan) {
    plan_builder b = {0};
    weft_plan_options taken;
    weft_status status = NULL;
    TRY(base_take_struct("weft_plan_options", &taken, sizeof taken, options));
    TRY_DONE(begin(&b, program, &taken));
    TRY_DONE(check_known(&b));
    TRY_DONE(plan_unroll(&b));
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
