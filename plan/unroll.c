/* unroll.c: a program without loops, tensor arrays, gradients of conditionals and the ops of rewrite.c, which computes
 * the same.
 *
 * A plan is made for one set of extents. How often a loop runs follows from these, or from integers that are known when
 * planning. So the ops of a body stand in the loop's place as often as it runs. A tensor array is the list of its
 * elements. Every run of a body has vars of its own. A gradient's body runs once for each run, the last one first, and
 * sees that run's vars. Of what several ops write it sees the value that it is the gradient of (unroll_versions.c).
 * Those that one op reads and writes (a counter) count back: so has Paddle it (while_op.cc, conditional_block_op.cc). A
 * condition that only a run knows stays a conditional_block, whose vars become block 0's, so that its gradient's block
 * finds them.
 *
 * Where only a run knows how often a loop runs, each run of its body is such a block, and is left out where the
 * condition before it does not hold. What is known of numbers in the k-th is what holds if k are made: a counter beside
 * a condition on data says where the loop ends at the latest. Where nothing does, a step that needs more runs than are
 * planned fails. Behind the loop nothing is known of what it writes. */
#include "plan/unroll.h"
#include "plan/feeds.h"

static const struct {
    const char *type;
    weft_status (*run)(unroll *, unroll_scope *, weft_op *);
} control_ops[] = {{"while", unroll_loop},
                   {"while_grad", unroll_loop_grad},
                   {"conditional_block", unroll_condition},
                   {"conditional_block_grad", unroll_condition_grad}};

/* *out_done: others stand in its place. */
static weft_status run_rewritten(unroll *u, unroll_scope *s, weft_op *op, bool *out_done) {
    *out_done = true;
    for (size_t i = 0; i < sizeof control_ops / sizeof *control_ops; i++)
        if (op_is(op, control_ops[i].type)) return control_ops[i].run(u, s, op);
    TRY(unroll_array_op(u, s, op, out_done));
    if (!*out_done) TRY(unroll_select(u, s, op, out_done));
    if (*out_done || !unroll_rewrites(weft_op_type(op))) return NULL;
    *out_done = true;
    return unroll_rewrite(u, s, op);
}

/* An op of block 0 that stays where it is. */
static weft_status run_in_place(unroll *u, const unroll_scope *s, weft_op *op) {
    TRY(unroll_keep_origin(u, s, op, op));
    return unroll_infer(u, op);
}

static weft_status run_op(unroll *u, unroll_scope *s, weft_op *op) {
    bool done;
    s->op = op;
    TRY(unroll_keep_before(u, s, op));
    TRY(run_rewritten(u, s, op, &done));
    if (!done) TRY(s->parent ? unroll_emit_clone(u, s, op) : run_in_place(u, s, op));
    if (!done && !s->parent) u->before = op->next;
    TRY(unroll_zero_taken(u, s, op));
    if (done && !s->parent) weft_op_remove(op);
    s->op = NULL;
    return NULL;
}

static weft_status take_feed(unroll *u, const weft_feed_type *f) {
    const weft_var *v = weft_block_find_var(u->root, f->name);
    if (!v || f->ndim > WEFT_MAX_RANK) return NULL; /* plan_infer_types says so */
    shape type = {.dtype = f->dtype, .ndim = (int32_t)f->ndim, .height = -1};
    memcpy(type.dims, f->dims, f->ndim * sizeof *f->dims);
    TRY(shape_env_set(&u->env, v, &type));
    if (f->values) shape_env_set_values(&u->env, v, f->values);
    return unroll_set_written(u, v);
}

static bool has_op(const weft_program *p, const char *type) {
    for (size_t i = 0; i < p->nblocks; i++) FOR_EACH_OP(op, p->blocks[i]) {
            if (op_is(op, type)) return true;
        }
    return false;
}

static bool needs_unrolling(const weft_program *p) {
    static const char *const types[] = {"while", "while_grad", "conditional_block_grad"};
    for (size_t i = 0; i < p->nblocks; i++) FOR_EACH_OP(op, p->blocks[i]) {
            for (size_t k = 0; k < sizeof types / sizeof *types; k++)
                if (op_is(op, types[k])) return true;
            if (unroll_rewrites(weft_op_type(op))) return true;
            FOR_EACH_ARG(op, true, use_of) {
                if (unroll_is_array(use_var(p, use_of))) return true;
            }
        }
    return false;
}

static weft_status run_program(unroll *u) {
    TRY(shape_env_init(&u->env, u->program, &u->b->scratch));
    for (size_t i = 0; i < u->b->options->nfeeds; i++) TRY(take_feed(u, &u->b->options->feeds[i]));
    TRY(unroll_find_versions(u));
    u->is_length_asked = has_op(u->program, "lod_array_length");
    size_t nblocks = u->program->nblocks;
    for (weft_op *op = u->root->first, *next; op; op = next) {
        next = op->next;
        u->before = op;
        TRY(run_op(u, &u->root_scope, op));
        u->index++;
    }
    TRY(unroll_check_gradients(u));
    for (size_t i = 1; i < nblocks; i++) /* the bodies: their ops stand in block 0 */
        while (u->program->blocks[i]->first) weft_op_remove(u->program->blocks[i]->first);
    return NULL;
}

weft_status plan_unroll(plan_builder *b) {
    if (!needs_unrolling(b->program)) return NULL;
    unroll u = {.b = b, .run_op = run_op, .program = b->program, .root = b->program->blocks[0]};
    u.root_scope.block = u.root;
    weft_status status = run_program(&u);
    unroll_fini(&u);
    return status;
}

weft_status plan_unroll_program(weft_program *p) {
    static const weft_plan_options none = {.order = NULL};
    plan_builder b = {.context = p->context, .program = p, .options = &none};
    arena_init(&b.scratch, &p->context->allocator);
    weft_status status = plan_require_undecided(p, &b.scratch);
    if (!status) status = plan_unroll(&b);
    arena_fini(&b.scratch);
    return status;
}
