/* data_parallel_sparse.c: an embedding with is_sparse has a gradient of rows (SelectedRows): an id and a value for each
 * lookup. The rows of the whole batch are those of all ranks, one after another. So the ids that a lookup's backward op
 * reads, and the gradients of what it looked up, are gathered before it. It then makes the serial program's rows on
 * every rank. Clip, merge and optimizers of any kind, lazy ones too, then do what they do in the serial program. */
#include "passes/data_parallel.h"

static bool makes_rows(const weft_op *op) {
    return (op_is(op, "lookup_table_v2_grad") || op_is(op, "lookup_table_grad")) && attr_bool(op, "is_sparse", false);
}

static bool is_rows(const weft_var *var) {
    if (var->kind == WEFT_SELECTED_ROWS) return true;
    FOR_EACH_USE(u, var)
    if (u->is_output && makes_rows(use_op(var->program, u))) return true;
    return false;
}

typedef struct walk {
    dp_plan *plan;
    dp_gradient *gradient;
    bool *seen;    /* by var id */
    bool *seen_op; /* by var id of the first output: lookups that are in the list */
    weft_var **queue;
    size_t nqueued;
} walk;

static weft_status refuse(const walk *w, const weft_op *op, const char *why) {
    char place[160];
    return weft_pass_refuse(
        w->plan->pass,
        "gradient %s is kept as rows (SelectedRows), which ranks can gather only where lookups make "
        "them: %s %s",
        w->gradient->grad->name->bytes, op_place(op, place, sizeof place), why);
}

static weft_status enqueue_inputs(walk *w, const weft_op *op) {
    FOR_EACH_ARG(op, false, u) {
        weft_var *v = use_var(op->program, u);
        if (!is_rows(v)) return refuse(w, op, "adds what is no rows to them");
        if (!w->seen[v->id]) w->queue[w->nqueued++] = v;
        w->seen[v->id] = true;
    }
    return NULL;
}

static weft_status look_at_writer(walk *w, weft_op *op) {
    if (op_has_effect(op, OP_NO_BYTES) || op->order > w->gradient->last_writer->order) return NULL;
    if (op_is(op, "sum")) return enqueue_inputs(w, op);
    if (!makes_rows(op) || op->block != w->plan->block) return refuse(w, op, "makes rows otherwise");
    uint32_t id = op_args(op, true)->var_id;
    if (!w->seen_op[id]) w->plan->lookups[w->plan->nlookups++] = (dp_lookup){.op = op, .mean = w->gradient->mean};
    w->seen_op[id] = true;
    return NULL;
}

/* The lookups whose rows are in the gradient. */
static weft_status follow(walk *w) {
    w->nqueued = 0;
    w->queue[w->nqueued++] = w->gradient->grad;
    w->seen[w->gradient->grad->id] = true;
    for (size_t i = 0; i < w->nqueued; i++) {
        FOR_EACH_USE(u, w->queue[i])
        if (u->is_output) TRY(look_at_writer(w, use_op(w->plan->program, u)));
    }
    w->gradient->is_gathered = true;
    return NULL;
}

weft_status dp_find_sparse(dp_plan *plan) {
    size_t nvars = plan->program->nall_vars + 1, first = 0, nlookups = 0;
    while (first < plan->ngradients && !is_rows(plan->gradients[first].grad)) first++;
    if (first == plan->ngradients) return NULL;
    FOR_EACH_OP(op, plan->block) nlookups += makes_rows(op);
    walk w = {.plan = plan, .seen = ARENA_ARRAY(plan->scratch, bool, nvars)};
    w.seen_op = ARENA_ARRAY(plan->scratch, bool, nvars);
    w.queue = ARENA_ARRAY(plan->scratch, weft_var *, nvars);
    plan->lookups = ARENA_ARRAY(plan->scratch, dp_lookup, nlookups + 1);
    if (!w.seen || !w.seen_op || !w.queue || !plan->lookups) return base_out_of_memory();
    for (size_t i = first; i < plan->ngradients; i++) {
        w.gradient = &plan->gradients[i];
        if (is_rows(w.gradient->grad)) TRY(follow(&w));
    }
    for (size_t i = 0; i < plan->nlookups; i++) {
        dp_lookup *l = &plan->lookups[i];
        l->by_rank = dp_split_axis(plan, weft_op_input(l->op, "Ids", 0)) >= 0;
    }
    return NULL;
}

/* --- edits -------------------------------------------------------------------------------------------------------- */

weft_status dp_gather_rows(dp_plan *plan) {
    char place[160];
    for (size_t i = 0; i < plan->nlookups; i++) {
        const dp_lookup *l = &plan->lookups[i];
        if (l->by_rank) TRY(dp_gather(plan, l->op, op_find_slot(l->op, false, "Ids"), true, false));
        TRY(dp_gather(plan, l->op, op_find_slot(l->op, false, "Out@GRAD"), l->by_rank, l->mean));
        TRY(weft_pass_did(plan->pass, "rows of %s: ids and values of all ranks are gathered before %s",
                          weft_op_output(l->op, "W@GRAD", 0)->name->bytes, op_place(l->op, place, sizeof place)));
    }
    return plan->nlookups ? weft_pass_count_add(plan->pass, "lookups gathered", (int64_t)plan->nlookups) : NULL;
}
