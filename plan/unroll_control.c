/* unroll_control.c: loops and conditions, as the runs that they make of their bodies. */
#include <stdio.h>

#include "plan/unroll.h"

enum { /* runs planned of a loop that data end */
       UNCOUNTED_MAX = 64,
       COUNTED_MAX = 4096 /* where a counter ends it too */
};

/* --- loops -------------------------------------------------------------------------------------------------------- */

/* One more run, which its condition guards where it has one. */
static weft_status run_once(unroll *u, const weft_op *op, unroll_scope *run) {
    unroll_guarded g;
    TRY(unroll_enter(u, op, run->condition, &g));
    if (g.is_so) run->guarded = u->into;
    TRY(unroll_run_block(u, run, run->block));
    unroll_leave(u, &g);
    return NULL;
}

/* A copy of the condition as it is now: the body writes another. */
static weft_status guard_of(unroll *u, const weft_op *op, weft_var *condition, weft_var **out) {
    shape type = shape_env_get(&u->env, condition);
    TRY(unroll_new_var(u, condition, &type, out));
    TRY(unroll_copy(u, op, "assign", condition, *out));
    u->env.values[(*out)->id] = NULL;
    return NULL;
}

/* Whether the condition is of something that is known, and of what is not: it ends with what is known at the latest. */
static bool is_counted(const unroll *u, const weft_var *condition) {
    int64_t known;
    for (;;) {
        const weft_op *by = NULL;
        FOR_EACH_USE(use_of, condition) {
            const weft_op *op = use_op(u->program, use_of);
            if (use_of->is_output && op->block && (!by || op->id > by->id)) by = op;
        }
        if (!by) return false;
        if (op_is(by, "logical_and"))
            return unroll_value(u, weft_op_input(by, "X", 0), &known) ||
                   unroll_value(u, weft_op_input(by, "Y", 0), &known);
        if (!op_is(by, "assign") && !op_is(by, "cast")) return false;
        condition = weft_op_input(by, "X", 0);
    }
}

/* The step fails where the loop would go on. */
static weft_status end_loop(unroll *u, const weft_op *op, weft_var *condition, size_t nruns) {
    shape type = shape_env_get(&u->env, condition);
    char words[160];
    weft_var *ended;
    weft_op * not, *check;
    size_t index = op->block == u->root ? u->index : weft_op_index(op);
    snprintf(words, sizeof words,
             "while #%zu: data end this loop, and it needs more than the %zu runs that are planned", index, nruns);
    TRY(unroll_new_var(u, condition, &type, &ended));
    TRY(unroll_make(u, op, "logical_not", &not ));
    TRY(weft_op_add_input(not, "X", condition));
    TRY(weft_op_add_output(not, "Out", ended));
    TRY(unroll_emit(u, not ));
    TRY(unroll_make(u, op, "assert", &check));
    TRY(weft_op_add_input(check, "Cond", ended));
    TRY(weft_op_set_attr_string(check, "message", words));
    return unroll_emit(u, check);
}

/* Whether there is another run: the loop ends where the condition is known not to hold, or else after so many. */
static weft_status next_run(unroll *u, unroll_scope *s, const weft_op *op, weft_var *condition, unroll_runs *runs,
                            unroll_scope **out_run) {
    const unroll_scope *last = runs->count ? runs->scopes[runs->count - 1] : NULL;
    bool is_guarded = last && last->condition;
    int64_t again;
    *out_run = NULL;
    bool is_known = unroll_value(u, condition, &again);
    if (is_known && !again) return NULL;
    if (!is_known && runs->count >= (is_counted(u, condition) ? COUNTED_MAX : UNCOUNTED_MAX))
        return end_loop(u, op, condition, runs->count);
    unroll_scope *run;
    weft_block *body;
    TRY(unroll_block_of(u, op, &body));
    TRY(unroll_new_scope(u, s, body, &run));
    if (is_guarded || !is_known) TRY(guard_of(u, op, condition, &run->condition));
    TRY(unroll_add_run(u, runs, run));
    *out_run = run;
    return NULL;
}

weft_status unroll_loop(unroll *u, unroll_scope *s, weft_op *op) {
    weft_var *condition = weft_op_input(op, "Condition", 0);
    unroll_scope *run;
    unroll_runs runs = {0};
    if (!condition) return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "slot Condition is empty");
    TRY(unroll_var(u, s, condition, &condition));
    for (;;) {
        TRY(next_run(u, s, op, condition, &runs, &run));
        if (!run) break;
        TRY(run_once(u, op, run));
    }
    for (size_t k = 0; k < runs.count; k++)
        if (runs.scopes[k]->guarded) unroll_forget(u, runs.scopes[k]->guarded, runs.scopes[k]);
    return unroll_put_runs(u, s, weft_op_output(op, "StepScopes", 0), &runs);
}

/* --- conditionals ------------------------------------------------------------------------------------------------- */

weft_status unroll_condition(unroll *u, unroll_scope *s, weft_op *op) {
    weft_var *condition;
    weft_block *body;
    unroll_guarded g;
    unroll_scope *run;
    unroll_runs runs = {0};
    int64_t known;
    TRY(unroll_block_of(u, op, &body));
    TRY(unroll_condition_of(u, s, op, &condition));
    bool is_known = unroll_value(u, condition, &known);
    if (!is_known || known) {
        TRY(unroll_new_scope(u, s, body, &run));
        TRY(unroll_enter(u, op, is_known ? NULL : condition, &g));
        TRY(unroll_run_block(u, run, body));
        unroll_leave_and_forget(u, &g, run);
        TRY(unroll_add_run(u, &runs, run));
    }
    return unroll_put_runs(u, s, weft_op_output(op, "Scope", 0), &runs);
}
