/* adjoint_warnings.c: what of a reading is no gradient, and in which words that is told, once a var. */
#include <stdio.h>

#include "plan/adjoint.h"

static weft_status tell(adjoint *a, const weft_op *near, const weft_var *of, const char *format, ...) WEFT_PRINTF(4, 5);

static weft_status tell(adjoint *a, const weft_op *near, const weft_var *of, const char *format, ...) {
    unroll *u = a->u;
    const char *place = near && near->block ? unroll_get(&u->places, (uint64_t)near->block->idx) : NULL;
    char why[400];
    va_list args;
    if (unroll_get(&u->told, of->id + UINT64_C(1))) return NULL;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    context_diagnose(u->b->context, WEFT_WARNING, u->program->place, 0, 0,
                     "%s%sthe gradient of \"%s\" is not the derivative: %s", place ? place : "", place ? ": " : "",
                     of->name->bytes, why);
    return unroll_put(u, &u->told, of->id + UINT64_C(1), u);
}

static const adjoint_part *find_part(const adjoint_total *total, uint64_t number) {
    const adjoint_part *part = total ? total->parts : NULL;
    while (part && part->number != number) part = part->next;
    return part;
}

/* One part that the gradient has not, or twice, is named. */
static weft_status tell_parts(adjoint *a, const adjoint_taken *t, const adjoint_total *total) {
    uint64_t sum = total ? total->sum : 0;
    const adjoint_part *missing = find_part(total, sum - t->parts), *twice = find_part(total, t->parts - sum),
                       *part = missing ? missing : twice;
    const weft_op *near = t->by ? t->by : part ? part->by : NULL;
    char where[300];
    snprintf(where, sizeof where, "\"%s\"%s%s%s", t->gradient->name->bytes, t->by ? ", which " : "",
             t->by ? t->by->type->bytes : "", t->by ? " reads" : "");
    if (!part) return tell(a, near, t->of, "what is added to it is not what is in %s", where);
    return tell(a, near, t->of, "what %s adds to it is %s in %s", part->by->type->bytes, missing ? "not" : "twice",
                where);
}

static weft_status compare_taken(adjoint *a, const adjoint_taken *t) {
    const adjoint_total *total = unroll_get(&a->totals, t->value);
    if (t->had)
        return tell(a, t->by, t->of, "%s reads another value of it than %s did", t->by->type->bytes,
                    t->had->type->bytes);
    return t->parts == (total ? total->sum : 0) ? NULL : tell_parts(a, t, total);
}

static bool has_gradient(const adjoint *a, const adjoint_instance *of) {
    size_t nin = op_nargs(of->op, false);
    for (size_t i = 0; i < op_nargs(of->op, true); i++) {
        const adjoint_total *total = unroll_get(&a->totals, of->args[nin + i].value);
        if (total && total->sum) return true;
    }
    return false;
}

/* Of an op that makes of it what has a gradient. */
static weft_status compare_input(adjoint *a, const adjoint_instance *of, const slot *s, size_t i) {
    const adjoint_arg *arg = &of->args[s->first + i];
    const weft_var *v = slot_var(of->op, s, i);
    if (!arg->is_trained || arg->has_part || unroll_get(&a->unknown, v->id + UINT64_C(1))) return NULL;
    if (!adjoint_has_gradient(of->type, s->name->bytes)) return NULL;
    if (arg->is_stopped) return tell(a, of->op, v, "it is marked stop_gradient, but comes of parameters");
    if (of->gradient) return tell(a, of->op, v, "%s leaves it out", of->gradient->type->bytes);
    return tell(a, of->op, v, "%s, which reads it, has no gradient", of->op->type->bytes);
}

static weft_status compare_instance(adjoint *a, const adjoint_instance *of) {
    if (!has_gradient(a, of)) return NULL;
    for (size_t k = 0; k < op_nslots(of->op, false); k++) {
        const slot *s = op_slot(of->op, false, k);
        for (size_t i = 0; i < s->nargs; i++) TRY(compare_input(a, of, s, i));
    }
    return NULL;
}

weft_status adjoint_compare(adjoint *a) {
    for (const adjoint_taken *t = a->taken; t; t = t->next) TRY(compare_taken(a, t));
    for (const adjoint_instance *of = a->first; of; of = of->next) TRY(compare_instance(a, of));
    return NULL;
}
