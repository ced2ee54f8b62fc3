/* adjoint_ops.c: what ops do to the numbers of values, to parts of gradients and to conditions.
 *
 * Ops that pass on what they read, add parts up or make zeros are known. What other ops make is a new value. Conditions
 * that only a run knows hold or do not, as drawn: all in the first draw, none in the second. */
#include <math.h>

#include "plan/adjoint.h"

adjoint_content adjoint_new_content(adjoint *a) {
    adjoint_content c = {.value = adjoint_mix(++a->serial), .number = NAN};
    c.truth = a->draw == 0 || (a->draw > 1 && adjoint_mix(c.value + a->draw) % 2);
    return c;
}

static adjoint_content *in_slot(const adjoint *a, const weft_op *op, bool output, const char *slot_name, size_t i) {
    const weft_var *v = output ? weft_op_output(op, slot_name, i) : weft_op_input(op, slot_name, i);
    return v ? &a->vars[v->id] : NULL;
}

bool adjoint_is_true(const adjoint *a, const weft_op *op, const char *slot_name) {
    const adjoint_content *c = in_slot(a, op, false, slot_name, 0);
    return c && c->truth;
}

static void run_copy(adjoint *a, const weft_op *op) {
    const adjoint_content *from = in_slot(a, op, false, "X", 0);
    adjoint_content *to = in_slot(a, op, true, "Out", 0);
    if (from && to) *to = *from;
}

static void run_zeros(adjoint *a, const weft_op *op) {
    adjoint_content *to = in_slot(a, op, true, "Out", 0);
    if (!to) return;
    *to = adjoint_new_content(a);
    to->number = attr_float(op, "value", 0);
    to->is_gradient = to->number == 0;
}

static void run_sum(adjoint *a, const weft_op *op) {
    adjoint_content sum = adjoint_new_content(a);
    sum.is_gradient = true;
    for (size_t i = 0; i < op_nargs(op, false); i++) {
        sum.is_gradient = sum.is_gradient && adjoint_held(a, op, false, i)->is_gradient;
        sum.parts += adjoint_held(a, op, false, i)->parts;
    }
    if (op_nargs(op, true)) *adjoint_held(a, op, true, 0) = sum;
}

static void run_truth(adjoint *a, const weft_op *op) {
    bool x = adjoint_is_true(a, op, "X"), y = adjoint_is_true(a, op, "Y");
    const adjoint_content *from = in_slot(a, op, false, "X", 0);
    adjoint_content *to = in_slot(a, op, true, "Out", 0), made = adjoint_new_content(a);
    if (!from || !to) return;
    if (op_is(op, "cast")) made.number = from->number;
    made.truth = op_is(op, "logical_not") ? !x : op_is(op, "logical_and") ? x && y : op_is(op, "cast") ? x : x || y;
    *to = made;
}

/* A number that is not known is one of few, so that it is equal to one of them alone. */
static void run_equal(adjoint *a, const weft_op *op) {
    const adjoint_content *x = in_slot(a, op, false, "X", 0), *y = in_slot(a, op, false, "Y", 0);
    adjoint_content *to = in_slot(a, op, true, "Out", 0), made = adjoint_new_content(a);
    if (!x || !y || !to) return;
    double number = isnan(x->number) ? (double)(adjoint_mix(x->value + a->draw) % 4) : x->number;
    made.truth = number == y->number;
    *to = made;
}

static void run_scale(adjoint *a, const weft_op *op) {
    const adjoint_content *from = in_slot(a, op, false, "X", 0);
    adjoint_content *to = in_slot(a, op, true, "Out", 0), made = adjoint_new_content(a);
    if (!from || !to) return;
    made.number = from->number * attr_float(op, "scale", 1) + attr_float(op, "bias", 0);
    *to = made;
}

/* It goes there and back: what a loop counts, its gradient counts back. */
static void run_increment(adjoint *a, const weft_op *op) {
    const adjoint_content *from = in_slot(a, op, false, "X", 0);
    adjoint_content *to = in_slot(a, op, true, "Out", 0), made = adjoint_new_content(a);
    double step = attr_float(op, "step", 1);
    if (!from || !to) return;
    made.value = from->value + (uint64_t)(int64_t)step * UINT64_C(0x9E3779B97F4A7C15);
    made.number = from->number + step;
    *to = made;
}

static void run_select_input(adjoint *a, const weft_op *op) {
    const adjoint_content *from = in_slot(a, op, false, "X", adjoint_is_true(a, op, "Mask"));
    adjoint_content *to = in_slot(a, op, true, "Out", 0);
    if (from && to) *to = *from;
}

static void run_select_output(adjoint *a, const weft_op *op) {
    const adjoint_content *x = in_slot(a, op, false, "X", 0);
    adjoint_content from = x ? *x : adjoint_new_content(a);
    size_t chosen = adjoint_is_true(a, op, "Mask");
    for (size_t i = 0; i < weft_op_noutputs(op, "Out"); i++) {
        adjoint_content *to = in_slot(a, op, true, "Out", i);
        *to = adjoint_new_content(a);
        to->is_gradient = true;
        if (i == chosen) *to = from;
    }
}

static void run_others(adjoint *a, const weft_op *op) {
    for (size_t i = 0; i < op_nargs(op, true); i++) *adjoint_held(a, op, true, i) = adjoint_new_content(a);
}

static const adjoint_rule rules[] = {{"assign", run_copy, ADJOINT_PASSES_ON, false},
                                     {"select_input", run_select_input, ADJOINT_PASSES_ON, false},
                                     {"select_output", run_select_output, ADJOINT_PASSES_ON, false},
                                     {"fill_zeros_like", run_zeros, ADJOINT_PARTS, false},
                                     {"fill_zeros_like2", run_zeros, ADJOINT_PARTS, false},
                                     {"fill_any_like", run_zeros, ADJOINT_PARTS, false},
                                     {"fill_constant", run_zeros, ADJOINT_PARTS, false},
                                     {"sum", run_sum, ADJOINT_PARTS, false},
                                     {"grad_add", run_sum, ADJOINT_PARTS, false},
                                     {"logical_not", run_truth, ADJOINT_ANOTHER, false},
                                     {"logical_and", run_truth, ADJOINT_ANOTHER, false},
                                     {"logical_or", run_truth, ADJOINT_ANOTHER, false},
                                     {"cast", run_truth, ADJOINT_ANOTHER, false},
                                     {"equal", run_equal, ADJOINT_ANOTHER, true},
                                     {"increment", run_increment, ADJOINT_ANOTHER, false},
                                     {"scale", run_scale, ADJOINT_ANOTHER, false}};

const adjoint_rule *adjoint_rule_of(const weft_op *op) {
    static const adjoint_rule other = {NULL, run_others, ADJOINT_ANOTHER, false};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (op_is(op, rules[i].type)) return &rules[i];
    return &other;
}

void adjoint_run_rule(adjoint *a, const adjoint_step *step) {
    const adjoint_rule *rule = step->type->rule;
    (rule->is_made && step->origin ? run_others : rule->run)(a, step->op);
}
