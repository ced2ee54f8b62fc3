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

/* --- finding the op to blame -------------------------------------------------------------------------------------- */

enum { BLAME_DEPTH = 8 };

/* The op that makes `var` from a shape attr alone, if one does and its rows are the global batch; or that makes what
 * `var` comes from, such as the first state of a recurrent net. */
static weft_op *holder_of_batch(const dp_plan *plan, const weft_var *var, int depth) {
    const kept_shape *whole = &plan->whole.kept[var->id];
    if (plan->batch < 0 || var->persistable || whole->ndim < 1 || whole->dims[0] != plan->batch || is_split(plan, var))
        return NULL;
    FOR_EACH_USE(u, var) {
        if (!u->is_output) continue;
        bool from_part = false;
        weft_op *op = use_op(var->program, u), *holder = NULL;
        FOR_EACH_ARG(op, false, in) {
            from_part |= is_split(plan, use_var(op->program, in));
            if (!holder && depth) holder = holder_of_batch(plan, use_var(op->program, in), depth - 1);
        }
        if (!from_part && op_find_attr(op, "shape")) return op;
        if (!from_part && holder) return holder;
    }
    return NULL;
}

static weft_status blame(const dp_plan *plan, const weft_op *op, const char *message) {
    char place[160];
    long long batch = plan->batch < 0 ? -1 : (long long)plan->batch;
    if (batch < 0)
        return weft_pass_refuse(plan->pass, "%s: does not hold for a part of the batch: %s",
                                op_place(op, place, sizeof place), message);
    return weft_pass_refuse(plan->pass, "%s: an attr holds the global batch of %lld rows, where a rank has %lld: %s",
                            op_place(op, place, sizeof place), batch, (long long)plan->rank_batch, message);
}

/* Inference of `op` failed for rows whose number is left open: a value of fixed extent meets them. Takes `problem`. */
static weft_status blame_fixed(dp_plan *plan, const weft_op *op, weft_status problem) {
    if (weft_status_code(problem) == WEFT_OUT_OF_MEMORY || plan->batch >= 0) return problem;
    const weft_var *rows = NULL, *fixed = NULL;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *var = use_var(op->program, u);
        if (is_split(plan, var))
            rows = var;
        else if (plan->whole.kept[var->id].ndim > 0 && (!fixed || fixed->persistable))
            fixed = var;
    }
    if (!rows || !fixed) return problem;
    char place[160];
    shape own = shape_env_get(&plan->whole, fixed);
    shape_text text_;
    weft_status_free(problem);
    if (dp_splits_feed(plan, fixed)) return dp_again();
    return weft_pass_refuse(plan->pass,
                            "%s: %s is %s for any batch, and does not go with the rows of %s, of which a rank has its "
                            "part: it is as long as one batch of all ranks",
                            op_place(op, place, sizeof place), fixed->name->bytes, shape_print(&own, &text_),
                            rows->name->bytes);
}

/* Inference of `op` failed for a rank's rows: name the op whose attr holds the batch. Takes `problem`. */
static weft_status blame_for(dp_plan *plan, const weft_op *op, weft_status problem) {
    if (weft_status_code(problem) == WEFT_OUT_OF_MEMORY) return problem;
    weft_op *culprit = (weft_op *)(uintptr_t)op;
    FOR_EACH_ARG(op, false, u) {
        weft_op *holder = holder_of_batch(plan, use_var(op->program, u), BLAME_DEPTH);
        if (holder) culprit = holder;
    }
    bool splits = false;
    FOR_EACH_ARG(culprit, true, made) TRY(dp_splits_fill(plan, use_var(op->program, made), -1, &splits));
    if (splits) weft_status_free(problem);
    if (splits) return dp_again();
    weft_status status = blame(plan, culprit, weft_status_message(problem));
    weft_status_free(problem);
    return status;
}

/* --- inference ---------------------------------------------------------------------------------------------------- */

static weft_status set_rows(shape_env *env, const weft_var *var, int64_t rows) {
    shape s = shape_env_get(env, var);
    s.dims[0] = rows;
    return shape_env_set(env, var, &s);
}

/* What comes out of a tensor array is declared for the whole batch, and no inference says otherwise: where it may be rows it
 * is left open. */
static weft_status open_array_reads(dp_plan *plan) {
    for (size_t b = 0; b < plan->program->nblocks && plan->batch > 0 && plan->nranks > 1; b++) {
        FOR_EACH_OP(op, plan->program->blocks[b]) {
            if (!op_is(op, "read_from_array") && !op_is(op, "tensor_array_to_tensor")) continue;
            FOR_EACH_ARG(op, true, u) {
                weft_var *v = use_var(op->program, u);
                shape s = shape_env_get(&plan->whole, v);
                int32_t d = 0;
                while (d < s.ndim && s.dims[d] != plan->batch) d++;
                if (v->persistable || d >= s.ndim) continue;
                s.dims[d] = -1;
                plan->opens_arrays = true;
                TRY(shape_env_set(&plan->whole, v, &s));
            }
        }
    }
    return NULL;
}

static weft_status set_lengths(shape_env *env, const dp_feed *feed) {
    shape s = shape_env_get(env, feed->var);
    for (int32_t d = 0; d < s.ndim; d++)
        if (feed->lengths[d]) s.dims[d] = feed->lengths[d];
    return shape_env_set(env, feed->var, &s);
}

static weft_status start_from_feeds(dp_plan *plan) {
    int64_t rows = plan->batch < 0 ? STAND_IN_ROWS : plan->rank_batch;
    for (size_t i = 0; i < plan->nfeeds; i++) {
        const weft_var *fed = plan->feeds[i].var;
        if (plan->has_lengths) TRY(set_lengths(&plan->whole, &plan->feeds[i]));
        if (plan->has_lengths) TRY(set_lengths(&plan->part, &plan->feeds[i]));
        if (!plan->feeds[i].split) continue;
        TRY(set_rows(&plan->whole, fed, rows * plan->nranks));
        TRY(set_rows(&plan->part, fed, rows));
        plan->differs[fed->id] = plan->nranks > 1;
    }
    return NULL;
}

static weft_status start(dp_plan *plan) {
    size_t n = plan->program->nall_vars;
    TRY(shape_env_init(&plan->whole, plan->program, &plan->types));
    TRY(open_array_reads(plan));
    plan->part = plan->whole;
    plan->part.kept = arena_copy(&plan->types, plan->whole.kept, n * sizeof *plan->whole.kept);
    plan->part.values = arena_copy(&plan->types, plan->whole.values, n * sizeof *plan->whole.values);
    plan->differs = ARENA_ARRAY(&plan->types, bool, n);
    if (!plan->part.kept || !plan->part.values || !plan->differs) return base_out_of_memory();
    return start_from_feeds(plan);
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

/* The gradient of what is no rank's part, such as of a weight that is as long as the batch by chance. */
static bool is_gradient_of_whole(const dp_plan *plan, const weft_op *op, const weft_var *var) {
    static const char suffix[] = "@GRAD";
    const char *at = strstr(var->name->bytes, suffix);
    const name *forward =
        at ? interner_find(&plan->program->names, var->name->bytes, (size_t)(at - var->name->bytes)) : NULL;
    const weft_var *of = forward ? block_find(op->block, forward) : NULL;
    return of && !is_split(plan, of);
}

/* An op without inference keeps declared types, the serial program's: rows that came in as a part leave so. */
static weft_status follow_rows(dp_plan *plan, weft_op *op) {
    if (has_inference(op)) return NULL;
    FOR_EACH_ARG(op, false, in) {
        if (dp_split_axis(plan, use_var(op->program, in)) != 0) continue;
        const kept_shape *from = &plan->whole.kept[in->var_id];
        FOR_EACH_ARG(op, true, out) {
            const kept_shape *whole = &plan->whole.kept[out->var_id], *part = &plan->part.kept[out->var_id];
            if (use_var(op->program, out)->persistable || whole->ndim < 1 || part->ndim < 1 ||
                whole->dims[0] != from->dims[0] || is_gradient_of_whole(plan, op, use_var(op->program, out)))
                continue;
            TRY(set_rows(&plan->part, use_var(op->program, out), plan->part.kept[in->var_id].dims[0]));
            plan->differs[out->var_id] = true;
        }
    }
    return NULL;
}

static int64_t product_before(const kept_shape *s, int axis) {
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
    const kept_shape *whole_x = &plan->whole.kept[x->id], *whole_out = &plan->whole.kept[out->id];
    if (to >= 0 && product_before(whole_x, from) == product_before(whole_out, to)) return NULL;
    shape part_x = shape_env_get(&plan->part, x), part_out = shape_env_get(&plan->part, out);
    shape_text a, b;
    char message[400];
    snprintf(message, sizeof message, "shape turns a rank's %s into %s", shape_print(&part_x, &a),
             shape_print(&part_out, &b));
    return blame(plan, op, message);
}

/* A gradient whose shape an attr gives must have its forward value's part. */
static weft_status check_seed(const dp_plan *plan, weft_op *op) {
    static const char suffix[] = "@GRAD";
    if (!op_find_attr(op, "shape") || (op_role(op) & WEFT_ROLE_BACKWARD) == 0) return NULL;
    FOR_EACH_ARG(op, true, u) {
        const name *n = use_var(op->program, u)->name;
        if (n->nbytes <= sizeof suffix - 1 || strcmp(n->bytes + n->nbytes - (sizeof suffix - 1), suffix) != 0) continue;
        const name *forward = interner_find(&plan->program->names, n->bytes, n->nbytes - (sizeof suffix - 1));
        const weft_var *var = forward ? block_find(op->block, forward) : NULL;
        if (!var || !is_split(plan, var) || is_split(plan, use_var(op->program, u))) continue;
        return blame(plan, op, "its gradient is as long as the global batch");
    }
    return NULL;
}

static void note_difference(dp_plan *plan, const weft_var *var) {
    plan->differs[var->id] =
        !shape_env_same(&plan->whole, &plan->part, var) || plan->whole.values[var->id] != plan->part.values[var->id];
}

/* A constant that a rank makes as long as its rows. */
static weft_status take_part(dp_plan *plan, weft_op *op, size_t axis) {
    FOR_EACH_ARG(op, true, u) {
        shape s = shape_env_get(&plan->part, use_var(op->program, u));
        s.dims[axis] = plan->rank_batch;
        TRY(shape_env_set(&plan->part, use_var(op->program, u), &s));
        plan->part.values[u->var_id] = NULL;
        plan->differs[u->var_id] = true;
    }
    return NULL;
}

/* What reads nothing that differs makes nothing that differs. */
static void copy_outputs(dp_plan *plan, weft_op *op) {
    FOR_EACH_ARG(op, true, u) {
        plan->part.kept[u->var_id] = plan->whole.kept[u->var_id];
        plan->part.values[u->var_id] = plan->whole.values[u->var_id];
        plan->differs[u->var_id] = false;
    }
}

static weft_status add_state_op(dp_plan *plan, weft_op *op) {
    TRY(grow(plan->scratch, &plan->state_ops, &plan->state_ops_capacity, plan->nstate_ops + 1,
             sizeof *plan->state_ops));
    plan->state_ops[plan->nstate_ops++] = op;
    return NULL;
}

static weft_status infer_part(dp_plan *plan, weft_op *op, weft_block *sub) {
    weft_status problem = infer_with_block(&plan->part, op, sub, &plan->types);
    if (problem) return blame_for(plan, op, problem);
    bool writes_state = false;
    FOR_EACH_ARG(op, true, u) {
        note_difference(plan, use_var(op->program, u));
        writes_state |= use_var(op->program, u)->persistable;
    }
    if (writes_state) TRY(add_state_op(plan, op));
    TRY(follow_rows(plan, op));
    return check_reshape(plan, op);
}

static weft_status infer_both(dp_plan *plan, weft_op *op) {
    /* A feed op's outputs are the feeds themselves; an op that only orders others leaves what it names as it was. */
    if (op_is(op, "feed") || op_has_effect(op, OP_NO_BYTES)) return NULL;
    weft_block *sub = block_run_by(op);
    weft_status problem = infer_with_block(&plan->whole, op, sub, &plan->types);
    if (problem) return blame_fixed(plan, op, problem);
    bool reads_part = sub != NULL;
    FOR_EACH_ARG(op, false, u) reads_part |= plan->differs[u->var_id];
    if (reads_part) return infer_part(plan, op, sub);
    if (has_inference(op)) copy_outputs(plan, op);
    const dp_fill *fill = dp_find_fill(plan, op);
    if (fill) return take_part(plan, op, fill->axis);
    return check_seed(plan, op);
}

/* Vars of sub-blocks are written by ops that are not looked at singly. */
static void note_sub_blocks(dp_plan *plan) {
    for (size_t b = 1; b < plan->program->nblocks; b++)
        for (size_t i = 0; i < plan->program->blocks[b]->nvars; i++)
            note_difference(plan, block_var(plan->program->blocks[b], i));
}

weft_status dp_infer_shapes(dp_plan *plan) {
    TRY(start(plan));
    FOR_EACH_OP(op, plan->block) TRY(infer_both(plan, op));
    note_sub_blocks(plan);
    TRY(dp_split_array_fills(plan));
    return plan->again ? dp_again() : NULL;
}
