/* adjoint.c: whether the gradients of programs with loops and conditions are the derivative.
 *
 * A body names the gradient of a var, and a var has several values there, one after another. Paddle's append_backward
 * keeps them apart in many programs, but not in all. So the ops that stand in the place of loops are read once more,
 * with a number for each value. An op and its gradient are brought together by their names, and within one run of a
 * body (unroll_versions.c). What such a gradient makes is one part of the gradient of the value that its op read. Then
 *
 * - what a gradient reads has to be the sum of all parts of the value that its op made;
 * - its other arguments have to be the values that its op had;
 * - an op whose output has a gradient gives each value that comes of parameters one part.
 *
 * A sum of parts is the sum of random numbers, one each: equal sums are sums of equal parts. Where a condition is known
 * to a run alone, this is done for several draws of what holds. What is found is told, and the program runs as it is:
 * Paddle's numbers may be no derivative either. What comes of ops that are not known to be gradients is not looked at.
 */
#include "plan/adjoint.h"
#include "base/types.h"

enum { DRAWS = 4 };

/* --- ops of the program ------------------------------------------------------------------------------------------- */

static weft_status keep_instance(adjoint *a, const adjoint_step *step, adjoint_instance **out) {
    const weft_op *op = step->op;
    const unroll_origin *o = step->origin;
    size_t nin = op_nargs(op, false), n = nin + op_nargs(op, true);
    adjoint_instance *made = ARENA_NEW(&a->memory, adjoint_instance);
    *out = made;
    if (!made) return base_out_of_memory();
    *made = (adjoint_instance){.op = o->op, .type = step->type};
    made->args = ARENA_ARRAY(&a->memory, adjoint_arg, n ? n : 1);
    if (!made->args) return base_out_of_memory();
    for (size_t i = 0; i < nin; i++) {
        const adjoint_content *c = adjoint_held(a, op, false, i);
        made->args[i] = (adjoint_arg){c->value, c->is_trained, c->is_stopped, false};
    }
    *a->next = made;
    a->next = &made->next;
    return unroll_put(a->u, &a->instances, (uint64_t)o->scope << 32 | o->op->id, made);
}

/* Whether a gradient of the op goes on to parameters, and all that it would go to is marked as what has none. */
static adjoint_content find_trained(const adjoint *a, const adjoint_step *step) {
    adjoint_content found = {.is_stopped = true};
    for (size_t k = 0; k < op_nslots(step->op, false); k++) {
        const slot *s = op_slot(step->op, false, k);
        bool any = false, stopped = true;
        for (size_t i = 0; i < s->nargs; i++) {
            const adjoint_content *c = &a->vars[slot_var(step->op, s, i)->id];
            any = any || c->is_trained;
            stopped = stopped && (!c->is_trained || c->is_stopped);
        }
        if (!any || !adjoint_has_gradient(step->type, s->name->bytes)) continue;
        if (adjoint_reads_type_alone(step->op, s->name->bytes)) continue;
        found.is_trained = true;
        found.is_stopped = found.is_stopped && stopped;
    }
    return found;
}

/* Whether an op ends what is trained there, as detach() does: it is marked as what has no gradient, and what it is made
 * of is not. Arrays, and what has several values, have the mark of the first. */
static bool ends(const adjoint *a, const unroll_origin *o, const weft_var *v, const adjoint_content *c) {
    return o && v->stop_gradient && !c->is_stopped && !unroll_is_array(v) && !adjoint_fact_of(a, v)->is_written_twice;
}

static void note_trained(adjoint *a, const adjoint_step *step, const adjoint_content *inputs) {
    const unroll_origin *o = step->origin;
    for (size_t i = 0; i < op_nargs(step->op, true); i++) {
        const weft_var *is = use_var(step->op->program, &op_args(step->op, true)[i]);
        const weft_var *v = o ? use_var(o->op->program, &op_args(o->op, true)[i]) : is;
        adjoint_content *c = adjoint_held(a, step->op, true, i);
        if (step->type->rule->makes != ADJOINT_PASSES_ON)
            c->is_trained = inputs->is_trained, c->is_stopped = inputs->is_stopped;
        if (ends(a, o, v, c) || !dtype_is_float(is->dtype)) c->is_trained = false;
        c->is_stopped = v->stop_gradient || (!o && c->is_stopped);
    }
}

/* It makes gradients, and of which op it is one is not known. */
static weft_status note_unknown(adjoint *a, const weft_op *op) {
    FOR_EACH_ARG(op, true, use_of) {
        const weft_var *v = use_var(op->program, use_of), *of;
        size_t stem = unroll_has_arg(op, false, v) ? 0 : adjoint_fact_of(a, v)->stem;
        if (!stem || !(of = block_find_text(op->block, v->name->bytes, stem))) continue;
        TRY(unroll_put(a->u, &a->unknown, of->id + UINT64_C(1), a));
    }
    return NULL;
}

static weft_status run_forward(adjoint *a, const adjoint_step *step) {
    const weft_op *op = step->op;
    adjoint_makes makes = step->type->rule->makes;
    bool is_forward = step->origin && !(op_role(op) & (WEFT_ROLE_BACKWARD | WEFT_ROLE_OPTIMIZE));
    adjoint_instance *made = NULL;
    if (is_forward && makes != ADJOINT_PASSES_ON) TRY(keep_instance(a, step, &made));
    if (step->origin && !is_forward && makes == ADJOINT_ANOTHER) TRY(note_unknown(a, step->origin->op));
    adjoint_content inputs = find_trained(a, step);
    adjoint_run_rule(a, step);
    note_trained(a, step, &inputs);
    for (size_t i = 0; made && i < op_nargs(op, true); i++)
        made->args[op_nargs(op, false) + i] = (adjoint_arg){.value = adjoint_held(a, op, true, i)->value};
    return NULL;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* The value that the op had for what its gradient reads under that slot's name. */
static uint64_t value_for(const adjoint *a, const adjoint_instance *of, const slot *s, const weft_var *v) {
    const weft_op *op = of->op;
    int64_t in = adjoint_find_arg(a, op, false, v), out = adjoint_find_arg(a, op, true, v);
    const slot *same = op_find_slot(op, true, s->name->bytes);
    if (out >= 0 && (in < 0 || same)) return of->args[op_nargs(op, false) + (size_t)out].value;
    return of->args[in].value;
}

static weft_status take(adjoint *a, const adjoint_taken *taken) {
    adjoint_taken *t = ARENA_NEW(&a->memory, adjoint_taken);
    if (!t) return base_out_of_memory();
    *t = *taken;
    *a->next_taken = t;
    a->next_taken = &t->next;
    return NULL;
}

/* In block 0 an op reads what is there, in the order of ops, unless a body has written over it. */
static bool reads_what_is_there(const adjoint *a, const weft_op *grad, const weft_var *v) {
    return !grad->block->idx && (v->persistable || !adjoint_fact_of(a, v)->is_written_within);
}

static weft_status read_argument(adjoint *a, const adjoint_instance *of, weft_op *op, const weft_op *grad,
                                 const slot *s, size_t i) {
    const weft_var *v = slot_var(grad, s, i);
    const adjoint_content *c = &a->vars[slot_var(op, s, i)->id];
    if (plan_is_empty_name(v) || adjoint_reads_type_alone(op, s->name->bytes)) return NULL;
    if (!adjoint_fact_of(a, v)->stem) {
        if (reads_what_is_there(a, grad, v) || c->value == value_for(a, of, s, v)) return NULL;
        return take(a, &(adjoint_taken){.by = grad, .had = of->op, .of = v});
    }
    int64_t at = adjoint_find_arg(a, of->op, true, v);
    if (at < 0 || !c->is_gradient) return NULL;
    return take(a, &(adjoint_taken){.by = grad,
                                    .of = use_var(grad->program, &op_args(of->op, true)[at]),
                                    .gradient = v,
                                    .value = of->args[op_nargs(of->op, false) + (size_t)at].value,
                                    .parts = c->parts});
}

static weft_status add_part(adjoint *a, const weft_op *by, uint64_t value, uint64_t number) {
    adjoint_total *total = unroll_get(&a->totals, value);
    adjoint_part *part = ARENA_NEW(&a->memory, adjoint_part);
    if (!part) return base_out_of_memory();
    if (!total) {
        total = ARENA_NEW(&a->memory, adjoint_total);
        if (!total) return base_out_of_memory();
        *total = (adjoint_total){0};
        TRY(unroll_put(a->u, &a->totals, value, total));
    }
    *part = (adjoint_part){total->parts, by, number};
    total->parts = part;
    total->sum += number;
    return NULL;
}

/* Whether each gradient that the op reads is zero: then those that it makes are. */
static bool reads_zero(const adjoint *a, const weft_op *op, const weft_op *grad) {
    size_t count = 0;
    for (uint32_t i = 0; i < op_nargs(grad, false); i++) {
        const weft_var *v = use_var(grad->program, &op_args(grad, false)[i]);
        const adjoint_content *c = adjoint_held(a, op, false, i);
        if (!adjoint_fact_of(a, v)->stem || plan_is_empty_name(v)) continue;
        if (!c->is_gradient || c->parts) return false;
        count++;
    }
    return count > 0;
}

static weft_status make_part(adjoint *a, adjoint_instance *of, const weft_op *grad, size_t at, bool is_zero,
                             adjoint_content *made) {
    bool again = of->gradient && of->gradient->type == grad->type && of->args[at].has_part;
    a->is_several = a->is_several || again;
    of->args[at].has_part = true;
    made->is_gradient = true;
    if (is_zero) return NULL;
    made->parts = adjoint_mix(made->value);
    return add_part(a, grad, of->args[at].value, made->parts);
}

static weft_status make_gradient(adjoint *a, adjoint_instance *of, const weft_op *op, const weft_op *grad,
                                 const slot *s, size_t k, bool is_zero) {
    const weft_var *v = slot_var(grad, s, k);
    adjoint_content made = adjoint_new_content(a);
    if (plan_is_empty_name(v)) return NULL;
    int64_t at = adjoint_find_input(a, of, s, k, v);
    if (at >= 0) TRY(make_part(a, of, grad, (size_t)at, is_zero, &made));
    a->vars[slot_var(op, s, k)->id] = made;
    return NULL;
}

static weft_status run_gradient(adjoint *a, weft_op *op, const weft_op *grad, adjoint_instance *of) {
    bool is_zero = reads_zero(a, op, grad);
    for (int output = 0; output < 2; output++) {
        for (size_t k = 0; k < op_nslots(grad, output); k++) {
            const slot *s = op_slot(grad, output, k);
            for (size_t i = 0; i < s->nargs; i++)
                TRY(output ? make_gradient(a, of, op, grad, s, i, is_zero) : read_argument(a, of, op, grad, s, i));
        }
    }
    of->gradient = grad;
    return NULL;
}

/* The gradient of a var that nothing has written is all of it. */
static weft_status take_whole(adjoint *a, const weft_var *v, bool at_end) {
    const weft_var *of = adjoint_fact_of(a, v)->whole_of;
    const adjoint_content *c = &a->vars[v->id];
    if (!of) return NULL;
    bool is_missed = at_end && c->value == adjoint_first_value(v) && a->vars[of->id].is_trained;
    if ((!c->is_gradient && !is_missed) || a->vars[of->id].value != adjoint_first_value(of)) return NULL;
    return take(a, &(adjoint_taken){.of = of, .gradient = v, .value = adjoint_first_value(of), .parts = c->parts});
}

/* What an optimizer, or an op in place, reads of them, before it is changed. */
static weft_status take_wholes(adjoint *a, const adjoint_step *step) {
    const weft_op *op = step->op;
    if (!step->origin || step->type->rule->makes != ADJOINT_ANOTHER) return NULL;
    FOR_EACH_ARG(op, false, use_of) {
        const weft_var *v = use_var(op->program, use_of);
        if ((op_role(op) & WEFT_ROLE_OPTIMIZE) || unroll_has_arg(op, true, v)) TRY(take_whole(a, v, false));
    }
    return NULL;
}

/* --- one draw ----------------------------------------------------------------------------------------------------- */

static weft_status read_steps(adjoint *a, const adjoint_steps *all);

static weft_status read_step(adjoint *a, const adjoint_step *step) {
    if (step->body) return adjoint_is_true(a, step->op, "Cond") ? read_steps(a, step->body) : NULL;
    TRY(take_wholes(a, step));
    uint64_t key = step->forward ? (uint64_t)step->origin->scope << 32 | step->forward->id : 0;
    adjoint_instance *of = step->forward ? unroll_get(&a->instances, key) : NULL;
    return of ? run_gradient(a, step->op, step->origin->op, of) : run_forward(a, step);
}

static weft_status read_steps(adjoint *a, const adjoint_steps *all) {
    for (size_t i = 0; i < all->count; i++) TRY(read_step(a, &all->steps[i]));
    return NULL;
}

/* Nothing is read or made yet, and the room is kept. */
static weft_status begin_draw(adjoint *a, uint64_t draw) {
    unroll_map *const maps[] = {&a->instances, &a->totals, &a->unknown};
    const weft_program *p = a->u->program;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) unroll_clear(maps[i]);
    arena_reset(&a->memory);
    a->draw = draw;
    a->serial = 0;
    a->is_several = false;
    *(a->next = &a->first) = NULL;
    *(a->next_taken = &a->taken) = NULL;
    a->vars = ARENA_ARRAY(&a->memory, adjoint_content, p->nall_vars);
    if (!a->vars) return base_out_of_memory();
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        a->vars[i] = adjoint_new_content(a);
        a->vars[i].value = adjoint_first_value(v);
        a->vars[i].is_trained = v->is_parameter && !v->stop_gradient;
    }
    return NULL;
}

static weft_status read_program(adjoint *a, const adjoint_steps *all) {
    TRY(read_steps(a, all));
    for (size_t i = 0; i < a->nfacts; i++) TRY(take_whole(a, program_var(a->u->program, i), true));
    return a->is_several ? NULL : adjoint_compare(a);
}

/* Gradients of gradients are not told apart by names. */
static bool has_second_gradients(const unroll *u) {
    for (size_t i = 0; i < u->nnamed; i++) {
        const char *mark = strstr(program_var(u->program, i)->name->bytes, "@GRAD");
        if (mark && strstr(mark + 1, "@GRAD")) return true;
    }
    return false;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static weft_status list_steps(adjoint *a, const weft_block *block, const adjoint_steps **out);

static weft_status make_step(adjoint *a, weft_op *op, adjoint_step *out) {
    const weft_attr *body = op_is(op, "conditional_block") ? op_find_attr(op, "sub_block") : NULL;
    *out = (adjoint_step){.op = op, .origin = unroll_get(&a->u->origins, op->id)};
    TRY(adjoint_type_of(a, op, &out->type));
    if (out->origin && out->type->rule->makes != ADJOINT_PASSES_ON)
        out->forward = unroll_get(&a->u->forward, out->origin->op->id);
    return body ? list_steps(a, a->u->program->blocks[body->u.i], &out->body) : NULL;
}

static weft_status list_steps(adjoint *a, const weft_block *block, const adjoint_steps **out) {
    adjoint_steps *made = ARENA_NEW(&a->kept, adjoint_steps);
    if (!made) return base_out_of_memory();
    *made = (adjoint_steps){.steps = ARENA_ARRAY(&a->kept, adjoint_step, block->nops ? block->nops : 1)};
    if (!made->steps) return base_out_of_memory();
    FOR_EACH_OP(op, block) TRY(make_step(a, op, &made->steps[made->count++]));
    *out = made;
    return NULL;
}

/* A draw that tells something is the last: more would tell the same in other words. */
static weft_status check(adjoint *a) {
    uint64_t ndraws = a->u->guard ? DRAWS : 1;
    const adjoint_steps *all;
    TRY(adjoint_find_facts(a));
    TRY(list_steps(a, a->u->root, &all));
    for (uint64_t draw = 0; draw < ndraws && !a->u->told.npairs; draw++) {
        TRY(begin_draw(a, draw));
        TRY(read_program(a, all));
    }
    return NULL;
}

weft_status unroll_check_gradients(unroll *u) {
    adjoint a = {.u = u};
    unroll_map *const maps[] = {&a.instances, &a.totals, &a.unknown, &a.types};
    if (!u->nnamed || has_second_gradients(u)) return NULL;
    arena_init(&a.kept, &u->b->context->allocator);
    arena_init(&a.memory, &u->b->context->allocator);
    weft_status status = check(&a);
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) unroll_free(u, maps[i]);
    arena_fini(&a.memory);
    arena_fini(&a.kept);
    return status;
}
