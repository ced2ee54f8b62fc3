/* unroll_grads.c: gradients of loops and conditions: the gradient's body once for each run, the last one first. */
#include <stdio.h>

#include "plan/unroll.h"

/* --- loops -------------------------------------------------------------------------------------------------------- */

/* The gradient that the body makes of an outer var, and where the op wants it. */
typedef struct grad_pair {
    weft_var *inside, *outside, *of;
    bool is_carried; /* it goes from run to run, and is not added up */
} grad_pair;

static weft_var *inside_grad(unroll *u, const weft_block *body, const weft_var *of) {
    const char *text_of = arena_format(&u->b->scratch, "%s@GRAD", of->name->bytes);
    return text_of ? block_find_text(body, text_of, strlen(text_of)) : NULL;
}

static weft_status find_pairs(unroll *u, const weft_op *op, const weft_block *body, const char *slot_name,
                              size_t *out_count, grad_pair **out) {
    char grad[32];
    snprintf(grad, sizeof grad, "%s@GRAD", slot_name);
    size_t n = weft_op_noutputs(op, grad), count = 0;
    *out = ARENA_ARRAY(&u->b->scratch, grad_pair, n ? n : 1);
    if (!*out) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) {
        weft_var *to = weft_op_output(op, grad, i), *of = weft_op_input(op, slot_name, i);
        if (plan_is_empty_name(to) || !of) continue;
        grad_pair p = {.inside = inside_grad(u, body, of), .outside = to, .of = of};
        for (size_t k = 0; k < weft_op_ninputs(op, "Out@GRAD"); k++)
            p.is_carried = p.is_carried || weft_op_input(op, "Out@GRAD", k)->name == to->name;
        (*out)[count++] = p;
    }
    *out_count = count;
    return NULL;
}

/* The var of the gradient's body that an output's gradient is to it; NULL: it reads none. */
static weft_var *inner_grad(const weft_op *op, const weft_block *body, size_t i) {
    const weft_attr *names = op_find_attr(op, "original_output_grad");
    if (!names || names->type != ATTR_STRINGS || i >= names->count) return NULL;
    return block_find_text(body, names->u.strings[i]->bytes, names->u.strings[i]->nbytes);
}

/* Where nobody reads an output, its gradient is zero. */
static weft_status zero_unread(unroll *u, unroll_scope *s, weft_op *op, const weft_block *body) {
    for (size_t i = 0; i < weft_op_ninputs(op, "Out@GRAD"); i++) {
        weft_var *outer = weft_op_input(op, "Out@GRAD", i), *to;
        size_t n = outer->name->nbytes;
        if (!inner_grad(op, body, i) || unroll_is_array(outer)) continue;
        TRY(unroll_var(u, s, outer, &to));
        weft_var *of = n > 5 ? block_find_text(op->block, outer->name->bytes, n - 5) : NULL;
        if (unroll_is_written(u, to) || !of) continue;
        TRY(unroll_var(u, s, of, &of));
        TRY(unroll_copy(u, op, "fill_zeros_like", of, to));
    }
    return NULL;
}

/* What the outputs' gradients are to a run. */
static weft_status link_grads(unroll *u, unroll_scope *s, unroll_scope *run, weft_op *op) {
    for (size_t i = 0; i < weft_op_ninputs(op, "Out@GRAD"); i++) {
        weft_var *outer = weft_op_input(op, "Out@GRAD", i), *inner = inner_grad(op, run->grad_block, i), *from, *to;
        if (!inner) continue;
        if (unroll_is_array(outer)) {
            TRY(unroll_array_copy(u, unroll_key(s, outer), unroll_key(run, inner)));
            continue;
        }
        TRY(unroll_var(u, s, outer, &from));
        if (!unroll_is_written(u, from)) continue;
        TRY(unroll_var(u, run, inner, &to));
        if (to != from) TRY(unroll_copy(u, op, "assign", from, to));
    }
    return NULL;
}

static weft_status take_grad(unroll *u, unroll_scope *s, unroll_scope *run, weft_op *op, const grad_pair *p,
                             bool is_first) {
    weft_var *from, *to;
    weft_op *add;
    if (!p->inside) return NULL;
    if (unroll_is_array(p->inside)) {
        uint64_t inner = unroll_key(run, p->inside), outer = unroll_key(s, p->outside);
        return p->is_carried ? unroll_array_carry(u, op, inner, outer) : unroll_array_add(u, op, inner, outer);
    }
    TRY(unroll_var(u, run, p->inside, &from));
    TRY(unroll_var(u, s, p->outside, &to));
    if (from == to || !unroll_is_written(u, from)) return NULL;
    if (is_first || p->is_carried) return unroll_copy(u, op, "assign", from, to);
    TRY(unroll_make(u, op, "sum", &add));
    TRY(weft_op_add_input(add, "X", to));
    TRY(weft_op_add_input(add, "X", from));
    TRY(weft_op_add_output(add, "Out", to));
    return unroll_emit(u, add);
}

static weft_status zero_grads(unroll *u, unroll_scope *s, weft_op *op, size_t count, const grad_pair *pairs) {
    for (size_t i = 0; i < count; i++) {
        weft_var *of, *to;
        if (unroll_is_array(pairs[i].of) || pairs[i].is_carried) continue;
        TRY(unroll_var(u, s, pairs[i].of, &of));
        TRY(unroll_var(u, s, pairs[i].outside, &to));
        TRY(unroll_copy(u, op, "fill_zeros_like", of, to));
    }
    return NULL;
}

static weft_status run_grad_once(unroll *u, unroll_scope *s, weft_op *op, unroll_scope *run, size_t npairs,
                                 const grad_pair *pairs, bool is_first) {
    unroll_guarded g;
    TRY(unroll_enter(u, op, run->condition, &g));
    TRY(link_grads(u, s, run, op));
    TRY(unroll_run_block(u, run, run->grad_block));
    for (size_t i = 0; i < npairs; i++) TRY(take_grad(u, s, run, op, &pairs[i], is_first));
    unroll_leave_and_forget(u, &g, run);
    return NULL;
}

/* Which run was the last one, only a run knows where they are guarded: then all gradients begin with zero. */
weft_status unroll_loop_grad(unroll *u, unroll_scope *s, weft_op *op) {
    weft_block *body;
    grad_pair *pairs;
    size_t npairs;
    TRY(unroll_block_of(u, op, &body));
    unroll_runs runs = unroll_runs_of(u, s, weft_op_input(op, "StepScopes", 0));
    TRY(find_pairs(u, op, body, "X", &npairs, &pairs));
    bool begins_with_zero = !runs.count || runs.scopes[runs.count - 1]->condition;
    if (begins_with_zero) TRY(zero_grads(u, s, op, npairs, pairs));
    TRY(zero_unread(u, s, op, body));
    for (size_t k = runs.count; k-- > 0;) {
        runs.scopes[k]->grad_block = body;
        bool is_first = !begins_with_zero && k + 1 == runs.count;
        TRY(run_grad_once(u, s, op, runs.scopes[k], npairs, pairs, is_first));
    }
    return NULL;
}

/* --- conditionals ------------------------------------------------------------------------------------------------- */

/* Whether the gradient of what the block writes and reads is there: where the block does not run it stays. */
static weft_status find_carried(unroll *u, unroll_scope *s, size_t count, grad_pair *pairs) {
    for (size_t i = 0; i < count; i++) {
        weft_var *outside;
        if (!pairs[i].is_carried || unroll_is_array(pairs[i].of)) continue;
        TRY(unroll_var(u, s, pairs[i].outside, &outside));
        pairs[i].is_carried = unroll_is_written(u, outside);
    }
    return NULL;
}

/* Where the block does not run the gradients of others are zero; so they are first, and it replaces them. */
weft_status unroll_condition_grad(unroll *u, unroll_scope *s, weft_op *op) {
    weft_var *condition;
    weft_block *body;
    unroll_guarded g;
    grad_pair *pairs;
    size_t npairs;
    int64_t known;
    TRY(unroll_block_of(u, op, &body));
    TRY(unroll_condition_of(u, s, op, &condition));
    unroll_runs runs = unroll_runs_of(u, s, weft_op_input(op, "Scope", 0));
    TRY(find_pairs(u, op, body, "Input", &npairs, &pairs));
    TRY(find_carried(u, s, npairs, pairs));
    bool is_known = unroll_value(u, condition, &known);
    if (!is_known || !runs.count) TRY(zero_grads(u, s, op, npairs, pairs));
    if (!runs.count) return NULL;
    unroll_scope *run = runs.scopes[0];
    run->grad_block = body;
    TRY(unroll_enter(u, op, is_known ? NULL : condition, &g));
    TRY(unroll_run_block(u, run, body));
    for (size_t i = 0; i < npairs; i++) TRY(take_grad(u, s, run, op, &pairs[i], true));
    unroll_leave_and_forget(u, &g, run);
    return NULL;
}
