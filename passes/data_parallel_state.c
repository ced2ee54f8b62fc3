/* data_parallel_state.c: state that all ranks must have alike. What an update reads is followed back to the addends
 * that it comes from, and those are joined where they are made: gradients that no op_role_var names, of optimizers and
 * of updates by hand (static.gradients and assign). What comes from a rank's rows in another way is refused.
 *
 * On the way it looks at losses: one that is no mean (or sum) of ranks' losses is told. */
#include "passes/data_parallel_flow.h"
#include "program/grow.h"

/* A loss that is not what the ranks' losses are combined to. */
typedef struct loss_finding {
    const weft_var *loss;
    const weft_op *op;
    dp_value held;
} loss_finding;

typedef struct search {
    dp_flow flow;
    uint32_t *seen; /* by var id: the update for which it was looked at */
    uint32_t update;
    weft_var **queue;
    size_t nqueued, queue_capacity;
    size_t njoins; /* that the update needs */
    size_t nown;   /* each rank's own statistics that it comes from */
    loss_finding *losses;
    size_t nlosses, losses_capacity;
} search;

static bool reads(const dp_flow *f, weft_op *op, dp_hold hold) {
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *from = op_slot(op, false, k);
        if (!from->nargs || !dp_reads_elements(op, from)) continue;
        for (uint32_t i = 0; i < from->nargs; i++)
            if (f->held[slot_args(op, from)[i].var_id].hold == hold) return true;
    }
    return false;
}

/* --- what an update comes from -------------------------------------------------------------------------------------
 */

weft_var *dp_param_of(const dp_flow *f, const weft_var *grad) {
    for (int depth = 0; grad && depth < 8; depth++) {
        weft_op *op = f->writer[grad->id];
        if (!op || !(op_role(op) & WEFT_ROLE_BACKWARD)) return NULL;
        for (uint32_t k = 0; k < op_nslots(op, true); k++) {
            const slot *s = op_slot(op, true, k), *of = dp_forward_slot(op, s);
            for (uint32_t i = 0; of && i < s->nargs && i < of->nargs; i++)
                if (slot_var(op, s, i) == grad) return slot_var(op, of, i);
        }
        grad = op_nargs(op, false) ? use_var(op->program, op_args(op, false)) : NULL;
    }
    return NULL;
}

static weft_status join(search *s, weft_var *var) {
    dp_plan *plan = s->flow.plan;
    weft_op *writer = s->flow.writer[var->id];
    char place[160];
    s->njoins++;
    if (plan->joined_after[var->id])
        return plan->joined_after[var->id] == writer
                   ? NULL
                   : weft_pass_refuse(plan->pass, "gradient %s is written by %s after it is reduced", var->name->bytes,
                                      op_place(writer, place, sizeof place));
    weft_var *param = dp_param_of(&s->flow, var);
    plan->joined_after[var->id] = writer;
    s->flow.nmarks++;
    plan->nfound++;
    return dp_add_gradient(plan, (dp_gradient){.param = param,
                                               .grad = var,
                                               .last_writer = writer,
                                               .is_found = true,
                                               .mean = s->flow.held[var->id].reduce == WEFT_REDUCE_AVG});
}

static weft_status refuse(const search *s, const weft_op *update, const weft_var *state, const weft_var *from) {
    char place[160], maker[160];
    weft_op *writer = s->flow.writer[from->id];
    return weft_pass_refuse(
        s->flow.plan->pass,
        "%s updates %s, which must be equal on all ranks, from %s, which differs between them: %s%s",
        op_place(update, place, sizeof place), state->name->bytes, from->name->bytes,
        writer ? op_place(writer, maker, sizeof maker) : "it is fed",
        writer ? " makes it of a rank's rows, and no sum over ranks gives the whole's" : "");
}

static bool is_trained(const weft_var *v) {
    return v->is_parameter && v->has_stop_gradient && !v->stop_gradient;
}

/* An op that keeps statistics of what it is given, as batch_norm does: each rank has its own (dp_infer_shapes). */
static bool keeps_statistics(weft_op *op, const weft_var *var) {
    bool reads = false;
    FOR_EACH_ARG(op, false, u) reads |= u->var_id == var->id;
    return !op_schema_of(op) || (reads && op_nargs(op, true) > 1);
}

static bool is_statistic(const search *s, const weft_var *var) {
    weft_op *writer = s->flow.writer[var->id];
    return writer && var->persistable && !is_trained(var) && keeps_statistics(writer, var);
}

/* Extents are a rank's, and the same on all where parts are equally large. */
static bool is_equal(const search *s, uint32_t id) {
    return s->flow.held[id].hold == DP_SAME || (s->flow.held[id].hold == DP_EXTENT && !s->flow.plan->pads);
}

static weft_status enqueue(search *s, weft_var *var) {
    if (is_equal(s, var->id) || s->seen[var->id] == s->update) return NULL;
    s->seen[var->id] = s->update;
    TRY(grow(&s->flow.plan->types, &s->queue, &s->queue_capacity, s->nqueued + 1, sizeof *s->queue));
    s->queue[s->nqueued++] = var;
    return NULL;
}

static weft_status enqueue_inputs(search *s, weft_op *op) {
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *from = op_slot(op, false, k);
        if (!from->nargs || !dp_reads_elements(op, from)) continue;
        for (uint32_t i = 0; i < from->nargs; i++) TRY(enqueue(s, slot_var(op, from, i)));
    }
    return NULL;
}

/* Addends are joined where backward ops have them whole, or where no other addends are in them. What is kept of a
 * rank's own statistics (their moving average) is its own too. */
static weft_status look_at(search *s, weft_var *var, const weft_op *update, const weft_var *state) {
    const dp_value *held = &s->flow.held[var->id];
    weft_op *writer = s->flow.writer[var->id];
    if (!is_trained(state) && is_statistic(s, var)) {
        s->nown++;
        return NULL;
    }
    if (held->hold == DP_ROWS || !writer) return refuse(s, update, state, var);
    if (held->hold == DP_PARTIAL && ((op_role(writer) & WEFT_ROLE_BACKWARD) || !reads(&s->flow, writer, DP_PARTIAL)))
        return join(s, var);
    if (reads(&s->flow, writer, DP_ROWS)) return refuse(s, update, state, var);
    return enqueue_inputs(s, writer);
}

/* Joins what `update` reads that differs between ranks. */
static weft_status trace(search *s, weft_op *update, const weft_var *state) {
    s->update++;
    s->nqueued = 0;
    s->njoins = s->nown = 0;
    TRY(enqueue_inputs(s, update));
    for (size_t i = 0; i < s->nqueued; i++) TRY(look_at(s, s->queue[i], update, state));
    return s->nqueued && !s->njoins && !s->nown ? refuse(s, update, state, s->queue[0]) : NULL;
}

/* --- updates -------------------------------------------------------------------------------------------------------
 */

static bool must_be_equal(weft_op *op, const weft_var *var) {
    if (!var->persistable || var->kind != WEFT_DENSE_TENSOR || !var->has_tensor) return false;
    return is_trained(var) || !keeps_statistics(op, var);
}

static weft_status check_optimizer(search *s, weft_op *op) {
    bool differs = false;
    FOR_EACH_ARG(op, false, u) differs |= !is_equal(s, u->var_id);
    const slot *params = differs ? dp_updated_params(op) : NULL;
    if (!params || !params->nargs) return NULL;
    return trace(s, op, slot_var(op, params, 0));
}

static weft_status check_writes(search *s, weft_op *op) {
    FOR_EACH_ARG(op, true, u) {
        if (is_equal(s, u->var_id)) continue;
        const weft_var *var = use_var(op->program, u);
        if (must_be_equal(op, var) && !dp_updated_params(op)) TRY(trace(s, op, var));
    }
    return NULL;
}

/* --- losses --------------------------------------------------------------------------------------------------------
 */

weft_var *dp_loss_of(weft_op *op) {
    static const char suffix[] = "@GRAD";
    if (op_nargs(op, true) != 1 || (!op_is(op, "fill_constant") && !op_is(op, "fill_any_like"))) return NULL;
    if (!(op_role(op) & WEFT_ROLE_BACKWARD)) return NULL;
    const name *n = use_var(op->program, op_args(op, true))->name;
    if (n->nbytes < sizeof suffix || strcmp(n->bytes + n->nbytes - (sizeof suffix - 1), suffix) != 0) return NULL;
    const name *forward = interner_find(&op->program->names, n->bytes, n->nbytes - (sizeof suffix - 1));
    return forward ? block_find(op->block, forward) : NULL;
}

static weft_status look_at_loss(search *s, weft_op *op) {
    const weft_var *loss = dp_loss_of(op);
    if (!loss) return NULL;
    dp_value held = s->flow.held[loss->id];
    weft_op *writer = s->flow.writer[loss->id];
    bool other = held.hold == DP_PARTIAL && (held.reduce == WEFT_REDUCE_AVG) != (s->flow.plan->combine == DP_MEAN);
    if (!held.cause && !(other && writer)) return NULL;
    TRY(grow(&s->flow.plan->types, &s->losses, &s->losses_capacity, s->nlosses + 1, sizeof *s->losses));
    s->losses[s->nlosses++] = (loss_finding){loss, held.cause ? held.cause : writer, held};
    return NULL;
}

static weft_status report_loss(const search *s, const loss_finding *l) {
    dp_plan *plan = s->flow.plan;
    const char *is = l->held.reduce == WEFT_REDUCE_AVG ? "mean" : "sum";
    if (l->held.cause)
        return weft_pass_left(plan->pass, l->op, WEFT_REASON_SCALE,
                              "the loss %s is no %s of the ranks' losses: this op needs the whole batch; with "
                              "reduce: tokens ranks add up what it reads",
                              l->loss->name->bytes, plan->combine == DP_MEAN ? "mean" : "sum");
    return weft_pass_left(plan->pass, l->op, WEFT_REASON_SCALE,
                          "the loss %s is a %s over the batch: reduce: %s gives the serial program's gradients",
                          l->loss->name->bytes, is, is);
}

/* --- means ---------------------------------------------------------------------------------------------------------
 */

static bool reads_forward(const weft_var *v) {
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u);
        if (!u->is_output && !(op_role(op) & WEFT_ROLE_BACKWARD) && !op_is(op, "fetch")) return true;
    }
    return false;
}

/* A mean of a rank's rows that is told: what nothing else is made of, or a loss, which is taken for one as its
 * gradients are. */
static weft_status note_mean(search *s, weft_op *op, weft_var *v) {
    dp_plan *plan = s->flow.plan;
    const dp_value *held = &s->flow.held[v->id];
    shape own = shape_env_get(&plan->part, v);
    bool is_loss = op_role(op) & WEFT_ROLE_LOSS;
    bool is_mean = held->hold == DP_PARTIAL ? held->reduce == WEFT_REDUCE_AVG : held->hold == DP_OWN && is_loss;
    if (!is_mean || shape_numel(&own) != 1 || v->persistable || v->block != plan->block || s->flow.writer[v->id] != op)
        return NULL;
    if (!is_loss && reads_forward(v)) return NULL;
    TRY(grow(plan->scratch, &plan->means, &plan->means_capacity, plan->nmeans + 1, sizeof *plan->means));
    plan->means[plan->nmeans++] = v;
    return NULL;
}

static weft_status find_means(search *s) {
    FOR_EACH_OP(op, s->flow.plan->block) {
        if (op_role(op) & (WEFT_ROLE_BACKWARD | WEFT_ROLE_OPTIMIZE | WEFT_ROLE_LR_SCHED)) continue;
        FOR_EACH_ARG(op, true, u) TRY(note_mean(s, op, use_var(op->program, u)));
    }
    return NULL;
}

/* --- all -----------------------------------------------------------------------------------------------------------
 */

static weft_status walk(search *s) {
    TRY(dp_flow_begin(&s->flow, s->flow.plan));
    s->nlosses = 0;
    FOR_EACH_OP(op, s->flow.plan->block) {
        TRY(look_at_loss(s, op));
        TRY(check_optimizer(s, op));
        TRY(dp_flow_op(&s->flow, op));
        TRY(check_writes(s, op));
    }
    return NULL;
}

weft_status dp_find_state(dp_plan *plan) {
    search s = {.flow = {.plan = plan}};
    s.seen = ARENA_ARRAY(&plan->types, uint32_t, plan->program->nall_vars + 1);
    if (!s.seen) return base_out_of_memory();
    do TRY(walk(&s));
    while (s.flow.nmarks);
    if (plan->pads && plan->combine == DP_MEAN) TRY(find_means(&s));
    for (size_t i = 0; i < s.nlosses; i++) TRY(report_loss(&s, &s.losses[i]));
    return NULL;
}
