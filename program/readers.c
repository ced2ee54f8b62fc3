/* readers.c: the uses of a var, for hosts (weft/access.h). */
#include "program/ir.h"
#include "weft/access.h"

weft_uses weft_var_uses(const weft_var *var) {
    return (weft_uses){.program = var->program, .next = var->first_use};
}

static const slot *slot_of_arg(const weft_op *op, uint32_t arg) {
    const slot *s = op->slots->slots;
    while (arg >= s->first + s->nargs) s++;
    return s;
}

/* The next one is looked up now: the op at hand may be edited before the next call. */
bool weft_uses_next(weft_uses *uses) {
    const use *u = use_at(uses->program, uses->next);
    if (!u) return false;
    uses->op = use_op(uses->program, u);
    uses->is_output = u->is_output;
    uint32_t arg = (uint32_t)(u - uses->op->args);
    const slot *s = slot_of_arg(uses->op, arg);
    uses->slot = s->name->bytes;
    uses->index = arg - s->first;
    uses->next = u->next;
    return true;
}

size_t weft_var_id(const weft_var *var) {
    return var->id;
}

size_t weft_program_nvar_ids(const weft_program *program) {
    return program->nall_vars;
}
