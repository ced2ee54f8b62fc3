/* data_parallel_exact.c: reduce: tokens. Ranks compute the serial program together: an op may need whole what is an
 * addend of a sum (of losses, of tokens, of weights). It is then summed over ranks where it is made. So a quotient of
 * sums is the whole batch's on each rank, and so are the gradients that follow from it. Gradients of parameters are
 * then addends too. What cannot be followed so is refused: the result is the serial program's, but for rounding. */
#include "passes/data_parallel_flow.h"
#include "program/grow.h"

typedef struct walk {
    dp_flow flow;
    arena answer; /* of one question */
} walk;

static weft_status refuse(const walk *w, const weft_op *op, const char *why) {
    char place[160];
    return weft_pass_refuse(w->flow.plan->pass, "reduce: tokens: %s is not followed exactly: %s",
                            op_place(op, place, sizeof place), why);
}

/* Sums `var` over ranks after the op that wrote it; from there on all have it alike. */
static weft_status join(walk *w, weft_var *var, const weft_op *reader) {
    dp_flow *f = &w->flow;
    weft_op *writer = f->writer[var->id];
    bool mean = f->held[var->id].reduce == WEFT_REDUCE_AVG;
    f->held[var->id] = (dp_value){.hold = DP_SAME};
    if (var->kind == WEFT_SELECTED_ROWS) f->plan->differs[var->id] = false; /* gathered */
    if (f->plan->joined_after[var->id] == writer) return NULL;
    if (f->plan->joined_after[var->id] || !writer) return refuse(w, reader, "a sum is written again after it was used");
    f->plan->joined_after[var->id] = writer;
    f->nmarks++;
    f->plan->nfound++;
    return dp_add_gradient(f->plan, (dp_gradient){.param = op_role(writer) & WEFT_ROLE_BACKWARD ? dp_param_of(f, var) : NULL,
                                                  .grad = var,
                                                  .last_writer = writer,
                                                  .is_found = true,
                                                  .mean = mean});
}

static weft_status join_inputs(walk *w, weft_op *op, bool *out_any) {
    *out_any = false;
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        if (!s->nargs || !dp_reads_elements(op, s)) continue;
        for (uint32_t i = 0; i < s->nargs; i++) {
            if (w->flow.held[slot_args(op, s)[i].var_id].hold != DP_PARTIAL) continue;
            TRY(join(w, slot_var(op, s, i), op));
            *out_any = true;
        }
    }
    return NULL;
}

/* The highest of what it reads, and whether extents are among that. */
static dp_hold read_holds(const walk *w, weft_op *op, bool *out_extents) {
    dp_hold most = DP_SAME;
    *out_extents = false;
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        if (!s->nargs || !dp_reads_elements(op, s)) continue;
        for (uint32_t i = 0; i < s->nargs; i++) {
            dp_hold hold = (dp_hold)w->flow.held[slot_args(op, s)[i].var_id].hold;
            *out_extents |= hold == DP_EXTENT;
            if (hold > most) most = hold;
        }
    }
    return most;
}

static bool values_are_known(const dp_plan *plan, const weft_var *var) {
    bool is_integer = var->dtype == WEFT_INT32 || var->dtype == WEFT_INT64;
    return is_integer && plan->whole.values[var->id] && plan->part.values[var->id];
}

static dp_value of_values(const dp_plan *plan, uint32_t id) {
    return (dp_value){.hold = plan->differs[id] ? DP_EXTENT : DP_SAME};
}

/* Whether known numbers of a part are the whole's by the number of ranks, as counts of rows are. */
static bool are_counts(const dp_plan *plan, const weft_var *var) {
    shape own = shape_env_get(&plan->whole, var);
    int64_t n = shape_numel(&own);
    for (int64_t i = 0; i < n; i++)
        if (plan->whole.values[var->id][i] != plan->nranks * plan->part.values[var->id][i]) return false;
    return n > 0;
}

/* Made of extents alone: known numbers, rows that are all alike, or counts of rows, which are addends. */
static weft_status follow_extents(walk *w, weft_op *op, const char *why, dp_value *made) {
    static const char *const alike[] = {"fill_constant", "fill_any_like", "fill_constant_batch_size_like",
                                        "fill_zeros_like", NULL};
    const dp_plan *plan = w->flow.plan;
    bool fills = false;
    size_t at = 0;
    for (size_t i = 0; alike[i]; i++) fills |= op_is(op, alike[i]);
    const weft_var *in = op_nargs(op, false) == 1 ? use_var(op->program, op_args(op, false)) : NULL;
    bool counts = op_is(op, "cast") && in && values_are_known(plan, in) && are_counts(plan, in);
    FOR_EACH_ARG(op, true, u) {
        const weft_var *var = use_var(op->program, u);
        int axis = dp_split_axis(plan, var);
        bool is_integer = var->dtype == WEFT_INT32 || var->dtype == WEFT_INT64;
        dp_value *v = &made[at++];
        if (values_are_known(plan, var))
            *v = of_values(plan, u->var_id);
        else if (fills)
            *v = (dp_value){.hold = axis >= 0 ? DP_ROWS : DP_SAME, .axis = (uint8_t)(axis >= 0 ? axis : 0)};
        else if (is_integer && axis < 0 && !var->persistable)
            *v = (dp_value){.hold = DP_EXTENT};
        else if (counts && axis < 0)
            *v = (dp_value){.hold = DP_PARTIAL, .reduce = WEFT_REDUCE_SUM};
        else
            return refuse(w, op, why ? why : "it depends on the number of a rank's rows");
    }
    return NULL;
}

static weft_status add_scale(walk *w, weft_op *op, weft_var *var) {
    dp_plan *plan = w->flow.plan;
    TRY(grow(plan->scratch, &plan->scales, &plan->scales_capacity, plan->nscales + 1, sizeof *plan->scales));
    plan->scales[plan->nscales++] = (dp_gradient){.grad = var, .last_writer = op, .mean = true};
    return NULL;
}

/* Shapes of a part must say the same as the rule. */
static weft_status check_answer(walk *w, weft_op *op, const dp_value *made, const uint32_t *times) {
    size_t at = 0;
    FOR_EACH_ARG(op, true, u) {
        weft_var *var = use_var(op->program, u);
        int axis = dp_split_axis(w->flow.plan, var);
        const dp_value *v = &made[at];
        if (v->hold == DP_OWN) return refuse(w, op, "its result is no sum over the ranks");
        if (!values_are_known(w->flow.plan, var) && var->kind != WEFT_SELECTED_ROWS && var->has_tensor &&
            axis != (v->hold == DP_ROWS ? v->axis : -1))
            return refuse(w, op, "a rank's part of its result is not what its inputs' parts give");
        if (var->persistable && v->hold != DP_SAME) return refuse(w, op, "it keeps what differs between ranks");
        if (times[at++]) TRY(add_scale(w, op, var));
    }
    return NULL;
}

static weft_status ask(walk *w, weft_op *op, dp_question *q, dp_value *made, uint32_t **out_times) {
    arena_fini(&w->answer);
    arena_init(&w->answer, w->flow.plan->scratch->allocator);
    *q = (dp_question){.flow = &w->flow, .op = op, .arena = w->answer};
    weft_status status = dp_ask(q);
    *out_times = ARENA_ARRAY(&q->arena, uint32_t, op_nargs(op, true) + 1);
    if (!status && !*out_times) status = base_out_of_memory();
    if (!status && !q->why) dp_read_answer(q, made, *out_times);
    w->answer = q->arena;
    return status;
}

/* All ranks have all that it reads, and it makes nothing of the number of rows. */
static bool is_same(walk *w, const weft_op *op) {
    if (dp_flow_is_same(&w->flow, op)) return true;
    FOR_EACH_ARG(op, true, u)
    if (w->flow.plan->differs[u->var_id]) return false;
    return op_nargs(op, false) == 0;
}

/* Rows of gradients (SelectedRows) are added up as they are, and gathered before anything else reads them. */
static bool reads_rows(const walk *w, weft_op *op) {
    FOR_EACH_ARG(op, false, u)
    if (use_var(op->program, u)->kind == WEFT_SELECTED_ROWS && w->flow.held[u->var_id].hold == DP_PARTIAL)
        return !op_is(op, "sum");
    return false;
}

static weft_status follow(walk *w, weft_op *op, dp_value *made) {
    dp_question q;
    uint32_t *times;
    bool any, extents;
    if (op_is(op, "shape") || op_is(op, "size")) return follow_extents(w, op, NULL, made);
    dp_hold most = read_holds(w, op, &extents);
    if (most == DP_EXTENT) return follow_extents(w, op, NULL, made);
    if (reads_rows(w, op)) TRY(join_inputs(w, op, &any));
    if (is_same(w, op)) return NULL;
    TRY(ask(w, op, &q, made, &times));
    if (q.why) {
        TRY(join_inputs(w, op, &any));
        if (any && is_same(w, op)) return NULL;
        if (any) TRY(ask(w, op, &q, made, &times));
    }
    /* What is written for later steps is whole. */
    for (size_t i = 0; !q.why && i < op_nargs(op, true); i++) {
        if (made[i].hold != DP_PARTIAL || !use_var(op->program, &op_args(op, true)[i])->persistable) continue;
        TRY(join_inputs(w, op, &any));
        TRY(ask(w, op, &q, made, &times));
        break;
    }
    if (!q.why && extents) q.why = "it depends on the number of a rank's rows";
    if (!q.why) return check_answer(w, op, made, times);
    read_holds(w, op, &extents);
    return most < DP_ROWS && extents ? follow_extents(w, op, q.why, made) : refuse(w, op, q.why);
}

/* A loss that is a sum is reported as the serial program's. */
static weft_status join_loss(walk *w, weft_op *op) {
    weft_var *loss = dp_loss_of(op);
    const dp_value *held = loss ? &w->flow.held[loss->id] : NULL;
    return held && held->hold == DP_PARTIAL && held->reduce == WEFT_REDUCE_SUM ? join(w, loss, op) : NULL;
}

static weft_status follow_op(walk *w, weft_op *op) {
    dp_value *made;
    size_t at = 0;
    bool any;
    if (op_is(op, "feed") || op_has_effect(op, OP_NO_BYTES)) return NULL;
    if (op_is(op, "fetch")) return join_inputs(w, op, &any);
    TRY(join_loss(w, op));
    TRY(dp_flow_make(&w->flow, op_nargs(op, true), &made));
    bool is_metric;
    TRY(dp_flow_metric(&w->flow, op, &is_metric));
    if (!is_metric && !is_same(w, op)) {
        TRY(dp_check_rows(&w->flow, op));
        TRY(follow(w, op, made));
    }
    FOR_EACH_ARG(op, true, u) {
        dp_value *held = &w->flow.held[u->var_id];
        bool known = values_are_known(w->flow.plan, use_var(op->program, u));
        *held = known ? of_values(w->flow.plan, u->var_id) : made[at];
        at++;
        w->flow.writer[u->var_id] = op;
        dp_flow_join(&w->flow, op, u->var_id);
    }
    return NULL;
}

weft_status dp_find_exact(dp_plan *plan) {
    walk w = {.flow = {.plan = plan}};
    weft_status status = NULL;
    arena_init(&w.answer, plan->scratch->allocator);
    do {
        status = dp_flow_begin(&w.flow, plan);
        plan->nscales = 0;
        for (weft_op *op = plan->block->first; op && !status; op = op->next) status = follow_op(&w, op);
    } while (!status && w.flow.nmarks);
    arena_fini(&w.answer);
    return status;
}
