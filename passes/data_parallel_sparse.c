/* data_parallel_sparse.c: an embedding with is_sparse has a gradient of rows (SelectedRows), whose sum over ranks is no
 * collective: the ranks hold different rows. The dense gradient holds the same numbers and zeros elsewhere, and where
 * every reader treats a missing row as zeros (all but Adam in its lazy mode, and ops made for rows) the result is the
 * same. So the lookups are told to make dense gradients; where a reader stands against it the pass refuses. */
#include "passes/data_parallel.h"

typedef struct walk {
    dp_plan *plan;
    const weft_var *param; /* whose gradient is being followed */
    bool *seen;            /* by var id */
    size_t nqueued;        /* of plan->sparse_vars: those after nsparse_vars are still to be looked at */
    bool *op_seen_params;  /* by var id: lookups of this parameter are in the list */
} walk;

static bool makes_rows(const weft_op *op) {
    return op_is(op, "lookup_table_v2_grad") && attr_bool(op, "is_sparse", false);
}

static bool is_sparse(const weft_var *var) {
    if (var->kind == WEFT_SELECTED_ROWS) return true;
    FOR_EACH_USE(u, var)
    if (u->is_output && makes_rows(use_op(var->program, u))) return true;
    return false;
}

static weft_status refuse(const walk *w, const weft_op *op, const char *why) {
    char place[160];
    return weft_pass_refuse(w->plan->pass,
                            "gradient of %s is kept as rows (SelectedRows), which cannot be reduced over ranks, and "
                            "cannot be made dense: %s %s",
                            w->param->name->bytes, op_place(op, place, sizeof place), why);
}

static void enqueue(walk *w, weft_var *var) {
    if (w->seen[var->id]) return;
    w->seen[var->id] = true;
    w->plan->sparse_vars[w->nqueued] = var;
    w->plan->sparse_params[w->nqueued++] = (weft_var *)(uintptr_t)w->param;
}

static void enqueue_sparse_args(walk *w, const weft_op *op, bool output) {
    FOR_EACH_ARG(op, output, u) {
        weft_var *v = use_var(op->program, u);
        if (is_sparse(v)) enqueue(w, v);
    }
}

static weft_status look_at_writer(walk *w, weft_op *op) {
    if (op_has_effect(op, OP_NO_BYTES)) return NULL;
    if (op_is(op, "lookup_table_v2_grad")) {
        w->plan->sparse_ops[w->plan->nsparse_ops++] = op;
        return NULL;
    }
    if (!op_is(op, "sum") && !op_is(op, "scale")) return refuse(w, op, "makes rows otherwise");
    enqueue_sparse_args(w, op, false);
    return NULL;
}

static weft_status look_at_reader(walk *w, weft_op *op) {
    static const char *const same_when_dense[] = {"sgd", "momentum", "adam", "adamw", "adagrad", NULL};
    if (op_has_effect(op, OP_NO_BYTES)) return NULL;
    if (op_is(op, "sum") || op_is(op, "scale")) {
        enqueue_sparse_args(w, op, true);
        return NULL;
    }
    for (const char *const *type = same_when_dense; *type; type++) {
        if (!op_is(op, *type)) continue;
        return attr_bool(op, "lazy_mode", false)
                   ? refuse(w, op, "is in lazy mode: rows that are not there stay as they are")
                   : NULL;
    }
    return refuse(w, op, "reads it as rows");
}

/* The gradient, and every var that it is summed into or from. */
static weft_status follow(walk *w, weft_var *grad) {
    enqueue(w, grad);
    for (dp_plan *plan = w->plan; plan->nsparse_vars < w->nqueued; plan->nsparse_vars++) {
        FOR_EACH_USE(u, plan->sparse_vars[plan->nsparse_vars])
        TRY(u->is_output ? look_at_writer(w, use_op((plan->sparse_vars[plan->nsparse_vars])->program, u))
                         : look_at_reader(w, use_op((plan->sparse_vars[plan->nsparse_vars])->program, u)));
    }
    return NULL;
}

/* The lookups whose backward ops were found: is_sparse stands on both. */
static void add_forward_lookups(dp_plan *plan, const weft_var *param) {
    FOR_EACH_USE(u, param)
    if (!u->is_output && op_is(use_op(param->program, u), "lookup_table_v2"))
        plan->sparse_ops[plan->nsparse_ops++] = use_op(param->program, u);
}

static size_t count_lookups(const dp_plan *plan) {
    size_t count = 0;
    for (size_t i = 0; i < plan->program->nblocks; i++) FOR_EACH_OP(op, plan->program->blocks[i])
    count += op_is(op, "lookup_table_v2") || op_is(op, "lookup_table_v2_grad");
    return count;
}

static bool any_sparse(const dp_plan *plan) {
    for (size_t i = 0; i < plan->ngradients; i++)
        if (is_sparse(plan->gradients[i].grad)) return true;
    return false;
}

weft_status dp_find_sparse(dp_plan *plan) {
    if (!any_sparse(plan)) return NULL;
    size_t nvars = plan->program->nall_vars;
    walk w = {.plan = plan, .seen = ARENA_ARRAY(plan->scratch, bool, nvars)};
    plan->sparse_vars = ARENA_ARRAY(plan->scratch, weft_var *, nvars);
    plan->sparse_params = ARENA_ARRAY(plan->scratch, weft_var *, nvars);
    plan->sparse_ops = ARENA_ARRAY(plan->scratch, weft_op *, count_lookups(plan));
    w.op_seen_params = ARENA_ARRAY(plan->scratch, bool, nvars);
    if (!w.seen || !plan->sparse_vars || !plan->sparse_params || !plan->sparse_ops || !w.op_seen_params)
        return base_out_of_memory();
    for (size_t i = 0; i < plan->ngradients; i++) {
        const dp_gradient *g = &plan->gradients[i];
        if (!is_sparse(g->grad)) continue;
        w.param = g->param;
        TRY(follow(&w, g->grad));
        if (w.op_seen_params[g->param->id]) continue;
        w.op_seen_params[g->param->id] = true;
        add_forward_lookups(plan, g->param);
    }
    return NULL;
}

weft_status dp_make_dense(dp_plan *plan) {
    for (size_t i = 0; i < plan->nsparse_ops; i++) TRY(weft_op_set_attr_bool(plan->sparse_ops[i], "is_sparse", false));
    for (size_t i = 0; i < plan->nsparse_vars; i++) {
        weft_var *var = plan->sparse_vars[i];
        const weft_var *param = plan->sparse_params[i];
        int64_t *dims = arena_copy(&plan->program->arena, param->dims, param->ndim * sizeof *dims);
        if (!dims) return base_out_of_memory();
        var_changed(var);
        var->kind = WEFT_DENSE_TENSOR;
        var->has_tensor = true;
        var->dims = dims;
        var->ndim = param->ndim;
        plan->differs[var->id] = false;
        TRY(weft_pass_did(plan->pass, "gradient %s made dense: rows cannot be reduced over ranks", var->name->bytes));
    }
    return plan->nsparse_vars ? weft_pass_count_add(plan->pass, "gradients made dense", (int64_t)plan->nsparse_vars)
                              : NULL;
}
