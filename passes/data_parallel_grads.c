/* data_parallel_grads.c: the list of gradients that are reduced, and those of them that the program names.
 * append_backward writes (parameter, gradient) pairs in the op_role_var of the op that completes a gradient; under AMP
 * the pair names the parameter's cast copy. Files that follow the data flow add to the list what nobody names. */
#include "ops/axes.h"
#include "passes/data_parallel.h"

/* --- the list ----------------------------------------------------------------------------------------------------- */

weft_status dp_begin_gradients(dp_plan *plan) {
    size_t n = plan->program->nall_vars + 1;
    plan->ngradients = plan->nnamed = plan->nsidecar = plan->nfound = 0;
    plan->covered = ARENA_ARRAY(plan->scratch, bool, n);
    plan->joined_after = ARENA_ARRAY(plan->scratch, weft_op *, n);
    return plan->covered && plan->joined_after ? NULL : base_out_of_memory();
}

weft_status dp_add_gradient(dp_plan *plan, dp_gradient g) {
    TRY(vector_reserve(plan->scratch->allocator, &plan->gradients, &plan->gradient_capacity, plan->ngradients + 1,
                       sizeof *plan->gradients));
    plan->gradients[plan->ngradients++] = g;
    plan->joined_after[g.grad->id] = g.last_writer;
    return NULL;
}

/* --- the pairs of op_role_var ------------------------------------------------------------------------------------- */

static const weft_attr *role_vars(const weft_op *op) {
    const weft_attr *pairs = op_find_attr(op, "op_role_var");
    return pairs && pairs->type == ATTR_STRINGS && (op_role(op) & WEFT_ROLE_BACKWARD) ? pairs : NULL;
}

static weft_op *last_backward_writer(const dp_plan *plan, const weft_var *grad) {
    weft_op *last = NULL;
    FOR_EACH_USE(u, grad) {
        weft_op *op = use_op(grad->program, u);
        if (!u->is_output || op->block != plan->block || !(op_role(op) & WEFT_ROLE_BACKWARD)) continue;
        if (op_has_effect(op, OP_NO_BYTES)) continue;
        if (!last || last->order < op->order) last = op;
    }
    return last;
}

/* Nothing of the optimizer may have touched the gradient before it is whole. */
static weft_status check_optimizer_follows(const dp_plan *plan, const dp_gradient *g) {
    FOR_EACH_USE(u, g->grad) {
        const weft_op *op = use_op(g->grad->program, u);
        bool early = op->block == plan->block && op->order < g->last_writer->order;
        if (!early || !(op_role(op) & WEFT_ROLE_OPTIMIZE)) continue;
        char place[160];
        return weft_pass_refuse(plan->pass, "%s uses gradient %s before the last backward op that writes it",
                                op_place(op, place, sizeof place), g->grad->name->bytes);
    }
    return NULL;
}

static bool is_gradient(const name *slot_name) {
    return slot_name->nbytes > 5 && memcmp(slot_name->bytes + slot_name->nbytes - 5, "@GRAD", 5) == 0;
}

/* Whether what an op writes to an output slot is the same whatever the loss is: it reads no gradient there. */
static bool counts_in_slot(weft_op *op, const slot *out) {
    bool reads_gradients = false;
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *in = op_slot(op, false, k);
        if (!is_gradient(in->name)) continue;
        if (axes_reads(op_schema_of(op), out->name->bytes, in->name->bytes)) return false;
        reads_gradients = true;
    }
    return reads_gradients;
}

/* Whether a gradient counts rows, as what data_norm adds to its sums does: that of the batch is the ranks' sum, however
 * their losses combine. A sum of such counts too. */
static bool counts_rows(const dp_plan *plan, weft_op *writer, const weft_var *grad, int depth) {
    if (!writer || !op_schema_of(writer) || depth > 8) return false;
    for (uint32_t k = 0; !op_is(writer, "sum") && k < op_nslots(writer, true); k++) {
        const slot *out = op_slot(writer, true, k);
        for (uint32_t i = 0; i < out->nargs; i++)
            if (slot_var(writer, out, i) == grad) return is_gradient(out->name) && counts_in_slot(writer, out);
    }
    FOR_EACH_ARG(writer, false, u) {
        const weft_var *addend = use_var(writer->program, u);
        if (addend == grad || !counts_rows(plan, last_backward_writer(plan, addend), addend, depth + 1)) return false;
    }
    return op_is(writer, "sum");
}

static weft_status add_gradient(dp_plan *plan, weft_op *op, text param, text grad, bool *seen) {
    char place[160];
    dp_gradient g = {.param = op_find_var(op, param), .grad = op_find_var(op, grad), .mean = plan->combine == DP_MEAN};
    if (op->block != plan->block)
        return weft_pass_refuse(plan->pass,
                                "%s: gradient %.*s is made in a sub-block, which ranks may run unequally often",
                                op_place(op, place, sizeof place), (int)grad.nbytes, grad.bytes);
    if (!g.param || !g.grad)
        return weft_pass_refuse(plan->pass, "%s: op_role_var names %.*s, which no block declares",
                                op_place(op, place, sizeof place), (int)(g.param ? grad : param).nbytes,
                                (g.param ? grad : param).bytes);
    if (seen[g.grad->id]) return NULL;
    seen[g.grad->id] = true;
    g.last_writer = last_backward_writer(plan, g.grad);
    if (!g.last_writer)
        return weft_pass_refuse(plan->pass, "%s: op_role_var names the gradient %s, which no backward op writes",
                                op_place(op, place, sizeof place), g.grad->name->bytes);
    TRY(check_optimizer_follows(plan, &g));
    g.counts = counts_rows(plan, g.last_writer, g.grad, 0);
    g.mean = g.mean && !g.counts;
    plan->nnamed++;
    return dp_add_gradient(plan, g);
}

static weft_status collect_gradients(dp_plan *plan) {
    bool *seen = ARENA_ARRAY(plan->scratch, bool, plan->program->nall_vars);
    if (!seen) return base_out_of_memory();
    for (size_t i = 0; i < plan->program->nblocks; i++) {
        FOR_EACH_OP(op, plan->program->blocks[i]) {
            const weft_attr *pairs = role_vars(op);
            if (!pairs) continue;
            for (size_t k = 0; k + 1 < pairs->count; k += 2)
                TRY(add_gradient(plan, op, text_of_name(pairs->u.strings[k]), text_of_name(pairs->u.strings[k + 1]),
                                 seen));
        }
    }
    return NULL;
}

/* --- every parameter must be covered ------------------------------------------------------------------------------ */

/* A parameter is covered through a pair that names it, or a cast of it. */
static void mark_covered(const weft_var *param, bool *covered) {
    covered[param->id] = true;
    FOR_EACH_USE(u, param) {
        const weft_op *op = use_op(param->program, u);
        if (!u->is_output || !op_is(op, "cast")) continue;
        FOR_EACH_ARG(op, false, in) covered[in->var_id] = true;
    }
}

/* Known optimizers, and unknown ops with the same slots. */
const slot *dp_updated_params(weft_op *op) {
    if (op_schema_of(op) && !op_has_effect(op, OP_OPTIMIZER)) return NULL;
    return op_param_slot(op);
}

/* The pairs of the sidecar, for parameters that no op_role_var names. */
static weft_status add_sidecar_gradients(dp_plan *plan) {
    const weft_program *p = plan->program;
    for (size_t i = 0; i < p->nparams_grads; i++) {
        dp_gradient g = {.param = block_find(plan->block, p->params_grads[2 * i]),
                         .grad = block_find(plan->block, p->params_grads[2 * i + 1]),
                         .mean = plan->combine == DP_MEAN};
        if (!g.param || !g.grad || plan->covered[g.param->id] || plan->joined_after[g.grad->id]) continue;
        g.last_writer = last_backward_writer(plan, g.grad);
        if (!g.last_writer) continue; /* whoever wrote the sidecar meant another program: the data flow tells */
        TRY(check_optimizer_follows(plan, &g));
        g.counts = counts_rows(plan, g.last_writer, g.grad, 0);
        g.mean = g.mean && !g.counts;
        TRY(dp_add_gradient(plan, g));
        plan->nsidecar++;
        mark_covered(g.param, plan->covered);
    }
    return NULL;
}

/* Of updates in sub-blocks the data flow says nothing. */
static weft_status check_sub_blocks(dp_plan *plan) {
    for (size_t i = 1; i < plan->program->nblocks; i++) {
        FOR_EACH_OP(op, plan->program->blocks[i]) {
            const slot *params = dp_updated_params(op);
            for (size_t k = 0; params && k < params->nargs; k++) {
                if (plan->covered[slot_args(op, params)[k].var_id]) continue;
                char place[160];
                return weft_pass_refuse(
                    plan->pass,
                    "%s updates %s, but no backward op names its gradient in op_role_var, nor does the sidecar: its "
                    "ranks would drift apart",
                    op_place(op, place, sizeof place), slot_var(op, params, k)->name->bytes);
            }
        }
    }
    return NULL;
}

weft_status dp_find_named(dp_plan *plan) {
    TRY(collect_gradients(plan));
    for (size_t i = 0; i < plan->ngradients; i++) mark_covered(plan->gradients[i].param, plan->covered);
    TRY(add_sidecar_gradients(plan));
    return check_sub_blocks(plan);
}
