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

enum { STAND_IN_ROWS = 104729 };

static bool differs(const dp_plan *plan, const weft_var *var) {
    return dp_split_axis(plan, var) >= 0;
}

int dp_split_axis(const dp_plan *plan, const weft_var *var) {
    const shape *whole = &plan->whole[var->id], *part = &plan->part[var->id];
    if (var->persistable || var->kind == WEFT_SELECTED_ROWS || whole->ndim != part->ndim) return -1;
    for (int i = 0; i < whole->ndim; i++)
        if (whole->dims[i] != part->dims[i]) return i;
    return -1;
}

/* --- finding the op to blame
 * ------------------------------------------------------------------------------------------ */

/* The op that makes `var` from a shape attr alone, if one does and its rows are the global batch. */
static weft_op *holder_of_batch(const dp_plan *plan, const weft_var *var) {
    const shape *whole = &plan->whole[var->id];
    if (plan->batch < 0 || var->persistable || whole->ndim < 1 || whole->dims[0] != plan->batch || differs(plan, var))
        return NULL;
    FOR_EACH_USE(u, var) {
        if (!u->is_output || !op_find_attr(u->op, "shape")) continue;
        bool from_part = false;
        FOR_EACH_ARG(u->op, false, in) from_part |= differs(plan, in->var);
        if (!from_part) return u->op;
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
        const weft_op *holder = holder_of_batch(plan, u->var);
        if (holder) culprit = holder;
    }
    weft_status status = blame(plan, culprit, weft_status_message(problem));
    weft_status_free(problem);
    return status;
}

/* --- inference
 * -------------------------------------------------------------------------------------------------------- */

static void start_from_feeds(const dp_plan *plan, shape_env *env, bool part) {
    for (size_t i = 0; i < plan->nfeeds; i++) {
        if (!plan->feeds[i].split) continue;
        int64_t rows = plan->batch < 0 ? STAND_IN_ROWS : plan->rank_batch;
        env->shapes[plan->feeds[i].var->id].dims[0] = part ? rows : rows * plan->nranks;
    }
}

static weft_status infer_with_block(shape_env *env, weft_op *op, arena *scratch) {
    const weft_attr *sub = op_find_attr(op, "sub_block");
    const weft_program *p = op->program;
    if (sub && sub->type == ATTR_BLOCK && sub->u.i > op->block->idx && (uint64_t)sub->u.i < p->nblocks)
        TRY(shape_infer_block(env, p->blocks[sub->u.i], scratch));
    return shape_infer_op(env, op, scratch);
}

/* An op without inference keeps declared types, which are the serial program's: rows that came in as a part leave so.
 */
static void follow_rows(const dp_plan *plan, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    if (schema && schema->infer != infer_none) return;
    FOR_EACH_ARG(op, false, in) {
        if (dp_split_axis(plan, in->var) != 0) continue;
        const shape *from = &plan->whole[in->var->id];
        FOR_EACH_ARG(op, true, out) {
            shape *whole = &plan->whole[out->var->id], *part = &plan->part[out->var->id];
            if (!out->var->persistable && whole->ndim > 0 && part->ndim > 0 && whole->dims[0] == from->dims[0])
                part->dims[0] = plan->part[in->var->id].dims[0];
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
        if (!var || !differs(plan, var) || differs(plan, u->var)) continue;
        return blame(plan, op, "its gradient is as long as the global batch");
    }
    return NULL;
}

static weft_status infer_whole(dp_plan *plan) {
    shape_env env;
    TRY(shape_env_init(&env, plan->program, plan->scratch));
    plan->whole = env.shapes;
    start_from_feeds(plan, &env, false);
    return shape_infer_block(&env, plan->block, plan->scratch);
}

static weft_status infer_part(dp_plan *plan) {
    shape_env env;
    TRY(shape_env_init(&env, plan->program, plan->scratch));
    plan->part = env.shapes;
    start_from_feeds(plan, &env, true);
    FOR_EACH_OP(op, plan->block) {
        weft_status problem = infer_with_block(&env, op, plan->scratch);
        if (problem) return blame_for(plan, op, problem);
        follow_rows(plan, op);
        TRY(check_reshape(plan, op));
        TRY(check_seed(plan, op));
    }
    return NULL;
}

weft_status dp_infer_shapes(dp_plan *plan) {
    TRY(infer_whole(plan));
    return infer_part(plan);
}
