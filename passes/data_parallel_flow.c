/* data_parallel_flow.c: how ranks hold each value, op by op: all the same, each its rows, addends of a sum or of a
 * mean, or something of its own.
 *
 * Where extents differ between the whole and a part (data_parallel_shapes.c), a rank has its rows. Where rows vanish,
 * and where addends are read, the op's factor table (ops/axes.def) says what comes of it. The gradient of what all
 * ranks have alike is an addend: each rank adds what its rows give. Two ways to walk:
 *
 *   - as ranks' own losses: a rank's loss is that of its rows, and the gradients of all are averaged or summed. What
 *     cannot be told is the rank's own.
 *   - exactly: ranks compute the serial program together. Addends that an op needs whole are joined before it, and what
 *     cannot be told is refused. */
#include "passes/data_parallel_flow.h"

/* What an op reads. */
typedef struct reading {
    bool rows, partial, own, extents;
    bool unclear; /* something is a rank's own, and nobody knows why */
    const weft_op *cause;
} reading;

static const char grad_suffix[] = "@GRAD";

static void read_value(reading *r, const dp_value *v) {
    r->rows |= v->hold == DP_ROWS;
    r->partial |= v->hold == DP_PARTIAL;
    r->own |= v->hold == DP_OWN;
    r->extents |= v->hold == DP_EXTENT;
    r->unclear |= (v->hold == DP_OWN && !v->cause) || v->hold == DP_EXTENT;
    if (!r->cause) r->cause = v->cause;
}

/* All ranks have the same, and nothing is to be told of what it was made of. */
static bool is_same(const dp_value *v) {
    return v->hold == DP_SAME && !v->cause;
}

static reading read_inputs(const dp_flow *f, weft_op *op) {
    reading r = {0};
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        bool tells = false;
        for (uint32_t i = 0; i < s->nargs && !tells; i++) tells = !is_same(&f->held[slot_args(op, s)[i].var_id]);
        if (!tells || !dp_reads_elements(op, s)) continue;
        for (uint32_t i = 0; i < s->nargs; i++) read_value(&r, &f->held[slot_args(op, s)[i].var_id]);
    }
    return r;
}

/* --- what comes of it --------------------------------------------------------------------------------------------- */

/* A part where extents differ; else `otherwise`. */
static dp_value by_extents(const dp_flow *f, const weft_var *var, dp_hold otherwise, const weft_op *cause) {
    int axis = dp_split_axis(f->plan, var);
    if (axis >= 0) return (dp_value){.hold = DP_ROWS, .axis = (uint8_t)axis, .cause = cause};
    return (dp_value){.hold = (uint8_t)otherwise, .cause = cause};
}

static bool differs_in_values(const dp_flow *f, const weft_var *var) {
    return f->plan->differs[var->id] && !var->persistable && dp_split_axis(f->plan, var) < 0 &&
           var->kind != WEFT_SELECTED_ROWS;
}

/* What reads nothing that differs, or extents alone. */
static dp_value made_of_same(const dp_flow *f, const weft_var *var, const reading *r) {
    bool extent = r->extents || differs_in_values(f, var);
    return by_extents(f, var, extent ? DP_EXTENT : DP_SAME, NULL);
}

/* What output slot `s` is the gradient of, argument by argument; NULL: nothing that the op is given. */
const slot *dp_forward_slot(const weft_op *op, const slot *s) {
    char text_[64];
    size_t n = s->name->nbytes, cut = sizeof grad_suffix - 1;
    if (n <= cut || n - cut >= sizeof text_ || strcmp(s->name->bytes + n - cut, grad_suffix) != 0) return NULL;
    memcpy(text_, s->name->bytes, n - cut);
    text_[n - cut] = '\0';
    return op_find_slot(op, false, text_);
}

static dp_value partial_of_losses(const dp_flow *f) {
    return (dp_value){.hold = DP_PARTIAL,
                      .reduce = (uint8_t)(f->plan->combine == DP_MEAN ? WEFT_REDUCE_AVG : WEFT_REDUCE_SUM)};
}

/* --- ranks' own losses -------------------------------------------------------------------------------------------- */

/* An op that may join rows: only its rule tells. */
static weft_status follow_rule(dp_flow *f, weft_op *op, const reading *r, dp_value *made) {
    dp_question q = {.flow = f, .op = op};
    bool forward = !(op_role(op) & WEFT_ROLE_BACKWARD);
    size_t n = op_nargs(op, true), at = 0;
    if (!r->own && !r->extents) {
        arena_init(&q.arena, f->plan->scratch->allocator);
        weft_status status = dp_ask(&q);
        uint32_t *times = ARENA_ARRAY(&q.arena, uint32_t, n + 1);
        if (!status && !times) status = base_out_of_memory();
        if (!status && !q.why) dp_read_answer(&q, made, times);
        arena_fini(&q.arena);
        if (status || !q.why) {
            for (size_t i = 0; i < n; i++) made[i].cause = made[i].hold == DP_OWN ? op : r->cause;
            return status;
        }
    }
    const weft_op *cause = r->unclear ? NULL : r->partial && forward ? op : r->cause;
    FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_OWN, cause);
    return NULL;
}

/* Whether all outputs have other extents for a part: it is made row by row, and no rule is asked. */
static bool keeps_rows(const dp_flow *f, const weft_op *op) {
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        if (dp_split_axis(f->plan, v) < 0 && v->has_tensor) return false;
    }
    return true;
}

/* Whether an argument differs between ranks, or something that it was made of was partial. */
static bool is_plain(const dp_flow *f, const weft_op *op, dp_hold hold) {
    FOR_EACH_ARG(op, false, u)
    if (f->held[u->var_id].hold > (uint8_t)hold || f->held[u->var_id].cause) return false;
    return true;
}

/* The gradient of what all ranks have alike is an addend: each adds what its rows give. Whether all outputs are such,
 * or a rank's rows. */
static bool add_gradients(const dp_flow *f, const weft_op *op, dp_value *made) {
    for (uint32_t k = 0; k < op_nslots(op, true); k++) {
        const slot *s = op_slot(op, true, k), *of = s->nargs ? dp_forward_slot(op, s) : NULL;
        for (uint32_t i = 0; of && i < s->nargs && i < of->nargs; i++) {
            const use *u = &slot_args(op, s)[i];
            if (f->held[slot_args(op, of)[i].var_id].hold == DP_SAME &&
                dp_split_axis(f->plan, use_var(op->program, u)) < 0)
                made[u - op_args(op, true)] = partial_of_losses(f);
        }
    }
    for (size_t i = 0; i < op_nargs(op, true); i++)
        if (made[i].hold == DP_OWN) return false;
    return true;
}

bool dp_flow_is_same(dp_flow *f, const weft_op *op) {
    dp_plan *plan = f->plan;
    if (!op_nargs(op, false)) return false;
    FOR_EACH_ARG(op, false, u)
    if (f->held[u->var_id].hold != DP_SAME || plan->differs[u->var_id]) return false;
    FOR_EACH_ARG(op, true, u) {
        if (!plan->differs[u->var_id]) continue;
        plan->part.kept[u->var_id] = plan->whole.kept[u->var_id];
        plan->part.values[u->var_id] = plan->whole.values[u->var_id];
        plan->differs[u->var_id] = false;
    }
    return true;
}

static weft_status follow_losses(dp_flow *f, weft_op *op, dp_value *made) {
    size_t at = 0;
    bool rows = keeps_rows(f, op);
    if (rows && is_plain(f, op, DP_ROWS)) {
        FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_ROWS, NULL);
        return NULL;
    }
    reading r = {0};
    if (!is_plain(f, op, DP_SAME)) r = read_inputs(f, op);
    if (!r.rows && !r.partial && !r.own) {
        FOR_EACH_ARG(op, true, u) made[at++] = made_of_same(f, use_var(op->program, u), &r);
        return NULL;
    }
    if (rows) {
        const weft_op *cause = r.unclear ? NULL : r.partial && !(op_role(op) & WEFT_ROLE_BACKWARD) ? op : r.cause;
        FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_ROWS, cause);
        return NULL;
    }
    FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_OWN, r.cause);
    if (add_gradients(f, op, made)) return NULL;
    TRY(follow_rule(f, op, &r, made));
    add_gradients(f, op, made);
    return NULL;
}

/* --- the walk ----------------------------------------------------------------------------------------------------- */

weft_status dp_flow_begin(dp_flow *f, dp_plan *plan) {
    size_t n = plan->program->nall_vars + 1;
    f->plan = plan;
    if (!f->held) {
        f->held = ARENA_ARRAY(&plan->types, dp_value, n);
        f->writer = ARENA_ARRAY(&plan->types, weft_op *, n);
        if (!f->held || !f->writer) return base_out_of_memory();
    } else {
        memset(f->held, 0, n * sizeof *f->held);
        memset(f->writer, 0, n * sizeof(weft_op *));
    }
    f->nmarks = 0;
    plan->nmetrics = 0;
    for (size_t i = 0; i < plan->nfeeds; i++)
        if (plan->feeds[i].split) f->held[plan->feeds[i].var->id].hold = DP_ROWS;
    return NULL;
}

weft_status dp_flow_make(dp_flow *f, size_t n, dp_value **out) {
    if (n > f->nmade) {
        f->made = ARENA_ARRAY(&f->plan->types, dp_value, 2 * n);
        f->nmade = 2 * n;
    }
    if (!f->made) return base_out_of_memory();
    memset(f->made, 0, n * sizeof *f->made);
    *out = f->made;
    return NULL;
}

/* A reduce that was found missing before others were found may not be needed any more. */
static bool is_needed(dp_flow *f, uint32_t id) {
    for (size_t i = f->plan->nfound ? f->plan->ngradients : 0; i-- > 0;) {
        dp_gradient *g = &f->plan->gradients[i];
        if (g->grad->id != id) continue;
        const dp_value *held = &f->held[id];
        if (!g->is_found || held->hold == DP_PARTIAL) {
            if (g->is_found) g->mean = held->reduce == WEFT_REDUCE_AVG;
            return true;
        }
        memmove(g, g + 1, (f->plan->ngradients - i - 1) * sizeof *g);
        f->plan->ngradients--;
        f->plan->nfound--;
        return false;
    }
    return true;
}

/* Ranks' counts add up to the whole's, unless the op makes something else of them. */
static weft_status check_counts(const dp_flow *f, const weft_op *op, const weft_var *v) {
    char place[160];
    const dp_plan *plan = f->plan;
    if (f->held[v->id].hold != DP_OWN || plan->joined_after[v->id] != op) return NULL;
    for (size_t i = 0; i < plan->ngradients; i++)
        if (plan->gradients[i].grad == v && plan->gradients[i].counts)
            return weft_pass_refuse(plan->pass, "%s makes %s of a rank's rows, and no sum over ranks gives the whole's",
                                    op_place(op, place, sizeof place), v->name->bytes);
    return NULL;
}

void dp_flow_join(dp_flow *f, const weft_op *op, uint32_t id) {
    if (f->plan->joined_after[id] != op) return;
    if (!is_needed(f, id)) {
        f->plan->joined_after[id] = NULL;
        return;
    }
    f->held[id] = (dp_value){.hold = DP_SAME};
    if (program_var(f->plan->program, id)->kind == WEFT_SELECTED_ROWS) f->plan->differs[id] = false; /* gathered */
}

weft_status dp_flow_op(dp_flow *f, weft_op *op) {
    size_t n = op_nargs(op, true);
    dp_value *made = NULL;
    if (!n || op_is(op, "feed") || op_has_effect(op, OP_NO_BYTES)) return NULL;
    bool is_metric;
    TRY(dp_flow_make(f, n, &made));
    TRY(dp_flow_metric(f, op, &is_metric));
    if (!is_metric) {
        bool same = dp_flow_is_same(f, op);
        if (!same) TRY(dp_check_rows(f, op));
        if (!same) TRY(follow_losses(f, op, made));
    }
    FOR_EACH_ARG(op, true, u) {
        dp_value held = *made++;
        if (op_shows_own_input(op, u)) continue;
        f->held[u->var_id] = held;
        if (f->plan->whole.values[u->var_id] && f->plan->part.values[u->var_id])
            f->held[u->var_id] = (dp_value){.hold = f->plan->differs[u->var_id] ? DP_EXTENT : DP_SAME};
        f->writer[u->var_id] = op;
        TRY(check_counts(f, op, use_var(op->program, u)));
        dp_flow_join(f, op, u->var_id);
    }
    return NULL;
}
