/* data_parallel_loops.c: loops and branches whose condition comes of a rank's rows. Each rank runs them as its own rows
 * say, the serial program as all rows do: the report tells so. */
#include "passes/data_parallel.h"

/* Extents are the program's, whatever the rows hold; what lasts is alike on all ranks. */
static bool reads_numbers(const weft_op *op) {
    return !op_is(op, "shape") && !op_is(op, "fill_any_like") && !op_is(op, "fill_zeros_like");
}

static bool is_forward(const weft_op *op) {
    return (op_role(op) & (WEFT_ROLE_BACKWARD | WEFT_ROLE_OPTIMIZE | WEFT_ROLE_LR_SCHED)) == 0;
}

/* Marks what makes what is marked; whether that is new. *out_rows: a rank's rows among it. */
static bool mark_inputs(const dp_plan *plan, const weft_op *op, bool *needed, const weft_var **out_rows) {
    bool makes = false, is_new = false;
    if (!is_forward(op) || !reads_numbers(op) || op_find_attr(op, "sub_block")) return false;
    FOR_EACH_ARG(op, true, u) makes = makes || needed[u->var_id];
    if (!makes) return false;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *v = use_var(op->program, u);
        if (needed[u->var_id] || v->persistable) continue;
        needed[u->var_id] = is_new = true;
        if (!*out_rows && dp_split_axis(plan, v) >= 0) *out_rows = v;
    }
    return is_new;
}

/* The rows that a condition comes of; NULL: none. */
static weft_status find_rows(const dp_plan *plan, const weft_var *condition, const weft_var **out) {
    const weft_program *p = plan->program;
    bool *needed = ARENA_ARRAY(plan->scratch, bool, p->nall_vars + 1), again = true;
    if (!needed) return base_out_of_memory();
    *out = NULL;
    needed[condition->id] = true;
    while (again && !*out) {
        again = false;
        for (size_t i = p->nblocks; i-- > 0;)
            for (const weft_op *op = p->blocks[i]->last; op; op = op->prev)
                again = mark_inputs(plan, op, needed, out) || again;
    }
    return NULL;
}

weft_status dp_report_loops(dp_plan *plan) {
    if (plan->nranks == 1 || plan->combine == DP_TOKENS) return NULL;
    FOR_EACH_OP(op, plan->block) {
        const weft_var *rows = NULL, *condition = weft_op_input(op, op_is(op, "while") ? "Condition" : "Cond", 0);
        bool runs_block = op_is(op, "while") || op_is(op, "conditional_block");
        if (!runs_block || !condition || !is_forward(op)) continue;
        TRY(find_rows(plan, condition, &rows));
        if (!rows) continue;
        TRY(weft_pass_left(plan->pass, op, WEFT_REASON_ROLE,
                           "each rank runs it as its own rows of %s say, not as all do", rows->name->bytes));
    }
    return NULL;
}
