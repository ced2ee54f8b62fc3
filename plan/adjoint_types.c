/* adjoint_types.c: what is known of an op by its type: what it does to the numbers, and which of its input slots its
 * gradient has a part for, by the table of ops. Looked up once a type. */
#include <stdio.h>

#include "plan/adjoint.h"

/* Ops whose gradient is another op, not TYPE_grad: of slot X. */
static const char *const others[] = {"scale", "sum", "cast", "split"};

static weft_status make_type(adjoint *a, const weft_op *op, adjoint_type *out) {
    char type[96];
    *out = (adjoint_type){.rule = adjoint_rule_of(op)};
    snprintf(type, sizeof type, "%s_grad", op->type->bytes);
    out->gradient = ops_find(a->u->b->context, type);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) out->is_other = out->is_other || op_is(op, others[i]);
    return unroll_put(a->u, &a->types, (uint64_t)(uintptr_t)op->type, out);
}

weft_status adjoint_type_of(adjoint *a, const weft_op *op, const adjoint_type **out) {
    adjoint_type *made;
    if ((*out = unroll_get(&a->types, (uint64_t)(uintptr_t)op->type))) return NULL;
    *out = made = ARENA_NEW(&a->kept, adjoint_type);
    return made ? make_type(a, op, made) : base_out_of_memory();
}

bool adjoint_has_gradient(const adjoint_type *type, const char *slot_name) {
    const op_schema *s = type->gradient;
    size_t n = strlen(slot_name);
    if (type->is_other && strcmp(slot_name, "X") == 0) return true;
    for (size_t k = 0; s && k < s->noutputs; k++)
        if (strncmp(s->outputs[k].name, slot_name, n) == 0 && strcmp(s->outputs[k].name + n, "@GRAD") == 0) return true;
    return false;
}

bool adjoint_reads_type_alone(weft_op *op, const char *slot_name) {
    const op_schema *s = op_schema_of(op);
    for (size_t k = 0; s && k < s->ninputs; k++)
        if (strcmp(s->inputs[k].name, slot_name) == 0) return s->inputs[k].only_type;
    return false;
}
