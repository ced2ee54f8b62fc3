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

static bool is_one_of(const weft_op *op, const char *const *types) {
    for (; *types; types++)
        if (op_is(op, *types)) return true;
    return false;
}

/* Rows in, rows out, and of the dense tensor the same numbers: a norm is one of merged rows. */
static const char *const passes_rows[] = {"sum", "scale", "elementwise_mul", "elementwise_div", "clip_by_norm",
                                          "merge_selected_rows", NULL};
/* Ops made for rows, which of the dense tensor are a copy. */
static const char *const copies_when_dense[] = {"merge_selected_rows", "get_tensor_from_selected_rows", NULL};

static weft_status look_at_writer(walk *w, weft_op *op) {
    if (op_has_effect(op, OP_NO_BYTES)) return NULL;
    if (op_is(op, "lookup_table_v2_grad")) {
        w->plan->sparse_ops[w->plan->nsparse_ops++] = op;
        return NULL;
    }
    if (!is_one_of(op, passes_rows)) return refuse(w, op, "makes rows otherwise");
    enqueue_sparse_args(w, op, false);
    return NULL;
}

static weft_status look_at_reader(walk *w, weft_op *op) {
    static const char *const same_when_dense[] = {"sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop", NULL};
    if (op_has_effect(op, OP_NO_BYTES)) return NULL;
    if (is_one_of(op, copies_when_dense)) w->plan->rows_ops[w->plan->nrows_ops++] = op;
    if (is_one_of(op, passes_rows)) enqueue_sparse_args(w, op, true);
    if (is_one_of(op, passes_rows) || is_one_of(op, copies_when_dense)) return NULL;
    if (!is_one_of(op, same_when_dense)) return refuse(w, op, "reads it as rows");
    return attr_bool(op, "lazy_mode", false)
               ? refuse(w, op, "is in lazy mode: rows that are not there stay as they are")
               : NULL;
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

static size_t count_ops(const dp_plan *plan, const char *const *types) {
    size_t count = 0;
    for (size_t i = 0; i < plan->program->nblocks; i++) FOR_EACH_OP(op, plan->program->blocks[i])
    count += is_one_of(op, types);
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
    static const char *const lookups[] = {"lookup_table_v2", "lookup_table_v2_grad", NULL};
    plan->sparse_ops = ARENA_ARRAY(plan->scratch, weft_op *, count_ops(plan, lookups));
    plan->rows_ops = ARENA_ARRAY(plan->scratch, weft_op *, count_ops(plan, copies_when_dense) + 1);
    w.op_seen_params = ARENA_ARRAY(plan->scratch, bool, nvars);
    if (!w.seen || !plan->sparse_vars || !plan->sparse_params || !plan->sparse_ops || !plan->rows_ops || !w.op_seen_params)
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

/* The var holds the dense gradient of `param`. */
static weft_status make_var_dense(dp_plan *plan, weft_var *var, const weft_var *param) {
    int64_t *dims = arena_copy(&plan->program->arena, param->dims, param->ndim * sizeof *dims);
    if (!dims) return base_out_of_memory();
    var_changed(var);
    var->kind = WEFT_DENSE_TENSOR;
    var->has_tensor = true;
    var->dims = dims;
    var->ndim = param->ndim;
    plan->differs[var->id] = false;
    return NULL;
}

/* The parameter whose gradient a var is. */
static const weft_var *param_of(const dp_plan *plan, const weft_var *grad) {
    for (size_t i = 0; i < plan->nsparse_vars; i++)
        if (plan->sparse_vars[i] == grad) return plan->sparse_params[i];
    return NULL;
}

/* An op made for rows becomes a copy. */
static weft_status make_copy(dp_plan *plan, weft_op *op) {
    const slot *in = op_find_slot(op, false, "X"), *out = op_find_slot(op, true, "Out");
    weft_var *from = slot_var(op, in, 0), *to = slot_var(op, out, 0);
    const weft_var *param = param_of(plan, from);
    weft_op *copy;
    if (!param) return NULL;
    TRY(make_var_dense(plan, to, param));
    TRY(weft_op_create(plan->program, "assign", &copy));
    TRY(weft_op_add_input(copy, "X", from));
    TRY(weft_op_add_output(copy, "Out", to));
    TRY(weft_op_set_attr_int(copy, "op_role", op_role(op)));
    weft_block_insert_before(op->block, op, copy);
    weft_op_remove(op);
    return NULL;
}

weft_status dp_make_dense(dp_plan *plan) {
    for (size_t i = 0; i < plan->nsparse_ops; i++) TRY(weft_op_set_attr_bool(plan->sparse_ops[i], "is_sparse", false));
    for (size_t i = 0; i < plan->nsparse_vars; i++) {
        TRY(make_var_dense(plan, plan->sparse_vars[i], plan->sparse_params[i]));
        TRY(weft_pass_did(plan->pass, "gradient %s made dense: rows cannot be reduced over ranks",
                          plan->sparse_vars[i]->name->bytes));
    }
    for (size_t i = 0; i < plan->nrows_ops; i++) TRY(make_copy(plan, plan->rows_ops[i]));
    return plan->nsparse_vars ? weft_pass_count_add(plan->pass, "gradients made dense", (int64_t)plan->nsparse_vars)
                              : NULL;
}
