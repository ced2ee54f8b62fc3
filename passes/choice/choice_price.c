/* choice_price.c: seconds of ops on a rank's part, by the model of plan/cost.h; steps have those of spmd_price.h.
 *
 * Nothing overlaps: what a step sends is waited for. So a choice that hides its collectives is as dear as one that does
 * not. */
#include "passes/choice/choice.h"

/* Types of a rank's part. */
static void localize(const choice *c, const axes_side *side, const axes_placed *placed) {
    for (size_t i = 0; i < side->count; i++) {
        shape *t = &side->types[i];
        const kept_shape whole = {.dims = t->dims, .dtype = t->dtype, .ndim = t->ndim};
        if (t->ndim > 0) placed_largest(&c->plan->mesh, &placed[i], &whole, t->dims);
    }
}

weft_status choice_op_seconds(choice *c, const spmd_op *op, const choice_way *way, double *out) {
    axes_side in, made;
    const op_schema *schema = op_schema_of(op->op);
    *out = 0;
    if (!schema) return NULL;
    TRY(axes_read_side(op->op, false, &c->plan->types, c->memory, &in));
    TRY(axes_read_side(op->op, true, &c->plan->types, c->memory, &made));
    if (in.count != op->kind->rule.nin || made.count != op->kind->rule.nout) return NULL;
    localize(c, &in, way->in);
    localize(c, &made, way->out);
    op_cost cost = op_cost_of(&(op_cost_call){op->op, schema, in.types, made.types, in.first, made.first});
    double flops = cost.flops / c->prices.cluster.flops, bytes = cost.bytes / c->prices.cluster.bytes;
    *out = c->prices.cluster.op_seconds + (flops > bytes ? flops : bytes);
    return NULL;
}
