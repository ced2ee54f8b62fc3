/* data_parallel_shapes.c: types are inferred twice, from the global batch and from a rank's rows. Where the two differ,
 * a rank holds a part. An attr that holds the global batch shows in one of three ways, and each is an error that names
 * the op: inference contradicts itself; a reshape would cut rows apart; a gradient that is made from a shape attr (the
 * seed of a loss that is no scalar) does not fit its forward value.
 *
 * A batch known only at run time is inferred with a prime number of rows a rank, which no other extent is likely to be.
 */
#include <stdio.h>

#include "ops/infer.h"
#include "passes/data_parallel.h"
#include "program/grow.h"

enum { STAND_IN_ROWS = 104729 };

static bool is_split(const dp_plan *plan, const weft_var *var) {
    return dp_split_axis(plan, var) >= 0;
}

int dp_split_axis(const dp_plan *plan, const weft_var *var) {
    if (!plan->differs[var->id] || var->persistable || var->kind == WEFT_SELECTED_ROWS) return -1;
    const shape *whole = &plan->whole[var->id], *part = &plan->part[var->id];
    if (whole->ndim != part->ndim) return -1;
    for (int i = 0; i < whole->ndim; i++)
        if (whole->dims[i] != part->dims[i]) return i;
    return -1;
}

/* --- finding the op to blame -------------------------------------------------------------------------------------- */

enum { BLAME_DEPTH = 8 };

/* The op that makes `var` from a shape attr alone, if one does and its rows are the global batch; or that makes what
 * `var` comes from, such as the first state of a recurrent net. */
static weft_op *holder_of_batch(const dp_plan *plan, const weft_var *var, int depth) {
    const shape *whole = &plan->whole[var->id];
    if (plan->batch < 0 || var->persistable || whole->ndim < 1 || whole->dims[0] != plan->batch || is_split(plan, var))
        return NULL;
    FOR_EACH_USE(u, var) {
        if (!u->is_output) continue;
        bool from_part = false;
        weft_op *holder = NULL;
        FOR_EACH_ARG(u->op, false, in) {
            from_part |= is_split(plan, in->var);
            if (!holder && depth) holder = holder_of_batch(plan, in->var, depth - 1);
        }
        if (!from_part && op_find_attr(u->op, "shape")) return u->op;
        if (!from_part && holder) return holder;
    }
    return NULL;
}

static weft_status blame(const dp_plan *plan, const weft_op *op, const char *words) {
    char place[160];
    long long batch = plan->batch < 0 ? -1 : (long long)plan->batch;
    if (batch < 0)
        return weft_pass_refuse(plan->pass, "%s: does not hold for a part of the batch: %s",
                                op_place(op, place, sizeof place), words);
    return weft_pass_refuse(plan->pass, "%s: an attr holds the global batch of %lld rows, where a rank has %lld: %s",
                            op_place(op, place, sizeof place), batch, (long long)plan->rank_batch, words);
}

/* Inference of `op` failed for a rank's rows: name the op whose attr holds the batch. Takes `problem`. */
static weft_status blame_for(const dp_plan *plan, const weft_op *op, weft_status problem) {
    if (weft_status_code(problem) == WEFT_OUT_OF_MEMORY) return problem;
    const weft_op *culprit = op;
    FOR_EACH_ARG(op, false, u) {
        const weft_op *holder = holder_of_batch(plan, u->var, BLAME_DEPTH);
        if (holder) culprit = holder;
    }
    weft_status status = blame(plan, culprit, weft_status_message(problem));
    weft_status_free(problem);
    return status;
}

/* --- inference ---------------------------------------------------------------------------------------------------- */

static bool same_shape(const shape *a, const shape *b) {
    if (a->dtype != b->dtype || a->ndim != b->ndim || a->height != b->height) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

/* The two environments that inference fills side by side. */
typedef struct both {
    shape_env whole, part;
} both;

static void start_from_feeds(dp_plan *plan) {
    int64_t rows = plan->batch < 0 ? STAND_IN_ROWS : plan->rank_batch;
    for (size_t i = 0; i < plan->nfeeds; i++) {
        uint32_t id = plan->feeds[i].var->id;
        if (!plan->feeds[i].split) continue;
        plan->whole[id].dims[0] = rows * plan->nranks;
        plan->part[id].dims[0] = rows;
        plan->differs[id] = plan->nranks > 1;
    }
}

static weft_status start(dp_plan *plan, both *env) {
    weft_program *p = plan->program;
    TRY(shape_env_init(&env->whole, p, plan->scratch));
    env->part = env->whole;
    env->part.shapes = arena_copy(plan->scratch, env->whole.shapes, p->nall_vars * sizeof(shape));
    env->part.values = arena_copy(plan->scratch, env->whole.values, p->nall_vars * sizeof *env->whole.values);
    plan->differs = ARENA_ARRAY(plan->scratch, bool, p->nall_vars);
    if (!env->part.shapes || !env->part.values || !plan->differs) return base_out_of_memory();
    plan->whole = env->whole.shapes;
    plan->part = env->part.shapes;
    start_from_feeds(plan);
    return NULL;
}

/* The block that `op` runs; only blocks below its own, so that a cycle of blocks cannot be endless. */
static weft_block *block_run_by(weft_op *op) {
    if (op->program->nblocks == 1) return NULL;
    const weft_attr *sub = op_find_attr(op, "sub_block");
    bool below = sub && sub->type == ATTR_BLOCK && sub->u.i > op->block->idx;
    return below && (uint64_t)sub->u.i < op->program->nblocks ? op->program->blocks[sub->u.i] : NULL;
}

static weft_status infer_with_block(shape_env *env, weft_op *op, weft_block *sub, arena *scratch) {
    if (sub) TRY(shape_infer_block(env, sub, scratch));
    return shape_infer_op(env, op, scratch);
}

static bool has_inference(weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    return schema && schema->infer != infer_none;
}

/* An op without inference keeps declared types, which are the serial program's: rows that came in as a part leave so.
 */
static void follow_rows(dp_plan *plan, weft_op *op) {
    if (has_inference(op)) return;
    FOR_EACH_ARG(op, false, in) {
        if (dp_split_axis(plan, in->var) != 0) continue;
        const shape *from = &plan->whole[in->var_id];
        FOR_EACH_ARG(op, true, out) {
            shape *whole = &plan->whole[out->var_id], *part = &plan->part[out->var_id];
            if (out->var->persistable || whole->ndim < 1 || part->ndim < 1 || whole->dims[0] != from->dims[0]) continue;
            part->dims[0] = plan->part[in->var_id].dims[0];
            plan->differs[out->var_id] = true;
        }
    }
}

static int64_t product_before(const shape *s, int axis) {
    int64_t product = 1;
    for (int i = 0; i < axis; i++) product = extent_mul(product, s->dims[i]);
    return product;
}

/* A rank's part of X is blocks of neighbouring elements; reshaping keeps them together only if the split axis of Out
 * has as many elements before it as that of X. */
static weft_status check_reshape(const dp_plan *plan, weft_op *op) {
    if (!op_is(op, "reshape2") && !op_is(op, "reshape")) return NULL;
    const weft_var *x = weft_op_input(op, "X", 0), *out = weft_op_output(op, "Out", 0);
    bool from_tensor = weft_op_ninputs(op, "Shape") || weft_op_ninputs(op, "ShapeTensor");
    if (!x || !out || from_tensor) return NULL;
    int from = dp_split_axis(plan, x), to = dp_split_axis(plan, out);
    if (from < 0) return NULL;
    const shape *whole_x = &plan->whole[x->id], *whole_out = &plan->whole[out->id];
    if (to >= 0 && product_before(whole_x, from) == product_before(whole_out, to)) return NULL;
    shape_text a, b;
    char words[400];
    snprintf(words, sizeof words, "shape turns a rank's %s into %s", shape_print(&plan->part[x->id], &a),
             shape_print(&plan->part[out->id], &b));
    return blame(plan, op, words);
}

/* A gradient whose shape an attr gives must have its forward value's part. */
static weft_status check_seed(const dp_plan *plan, weft_op *op) {
    static const char suffix[] = "@GRAD";
    if (!op_find_attr(op, "shape") || (op_role(op) & WEFT_ROLE_BACKWARD) == 0) return NULL;
    FOR_EACH_ARG(op, true, u) {
        const name *n = u->var->name;
        if (n->nbytes <= sizeof suffix - 1 || strcmp(n->bytes + n->nbytes - (sizeof suffix - 1), suffix) != 0) continue;
        const name *forward = interner_find(&plan->program->names, n->bytes, n->nbytes - (sizeof suffix - 1));
        const weft_var *var = forward ? block_find(op->block, forward) : NULL;
        if (!var || !is_split(plan, var) || is_split(plan, u->var)) continue;
        return blame(plan, op, "its gradient is as long as the global batch");
    }
    return NULL;
}

static void note_difference(dp_plan *plan, const both *env, const weft_var *var) {
    plan->differs[var->id] = !same_shape(&env->whole.shapes[var->id], &env->part.shapes[var->id]) ||
                             env->whole.values[var->id] != env->part.values[var->id];
}

/* What reads nothing that differs makes nothing that differs. */
static void copy_outputs(dp_plan *plan, both *env, weft_op *op) {
    FOR_EACH_ARG(op, true, u) {
        env->part.shapes[u->var_id] = env->whole.shapes[u->var_id];
        env->part.values[u->var_id] = env->whole.values[u->var_id];
        plan->differs[u->var_id] = false;
    }
}

static weft_status add_state_op(dp_plan *plan, weft_op *op) {
    TRY(grow(plan->scratch, &plan->state_ops, &plan->state_ops_capacity, plan->nstate_ops + 1,
             sizeof *plan->state_ops));
    plan->state_ops[plan->nstate_ops++] = op;
    return NULL;
}

static weft_status infer_part(dp_plan *plan, both *env, weft_op *op, weft_block *sub) {
    weft_status problem = infer_with_block(&env->part, op, sub, plan->scratch);
    if (problem) return blame_for(plan, op, problem);
    bool writes_state = false;
    FOR_EACH_ARG(op, true, u) {
        note_difference(plan, env, u->var);
        writes_state |= u->var->persistable;
    }
    if (writes_state) TRY(add_state_op(plan, op));
    follow_rows(plan, op);
    return check_reshape(plan, op);
}

static weft_status infer_both(dp_plan *plan, both *env, weft_op *op) {
    /* A feed op's outputs are the feeds themselves; an op that only orders others leaves what it names as it was. */
    if (op_is(op, "feed") || op_has_effect(op, OP_NO_BYTES)) return NULL;
    weft_block *sub = block_run_by(op);
    TRY(infer_with_block(&env->whole, op, sub, plan->scratch));
    bool reads_part = sub != NULL;
    FOR_EACH_ARG(op, false, u) reads_part |= plan->differs[u->var_id];
    if (reads_part) return infer_part(plan, env, op, sub);
    if (has_inference(op)) copy_outputs(plan, env, op);
    return check_seed(plan, op);
}

/* Vars of sub-blocks are written by ops that are not looked at singly. */
static void note_sub_blocks(dp_plan *plan, const both *env) {
    for (size_t b = 1; b < plan->program->nblocks; b++)
        for (size_t i = 0; i < plan->program->blocks[b]->nvars; i++)
            note_difference(plan, env, plan->program->blocks[b]->vars[i]);
}

weft_status dp_infer_shapes(dp_plan *plan) {
    both env;
    TRY(start(plan, &env));
    FOR_EACH_OP(op, plan->block) TRY(infer_both(plan, &env, op));
    note_sub_blocks(plan, &env);
    return NULL;
}
