/* spmd_state.c: parameters and accumulators that nothing placed.
 *
 * Biases of a layer may be whole by what was propagated, where all ops compute with the same part of them: what is
 * added to is sharded by the price of products. Then they lie so from the start, if that sends less: updates of parts
 * need not be gathered. */
#include "passes/spmd/spmd.h"

typedef struct usage {
    bool is_used, differs; /* not all ops have it so: */
    axes_placed at;
    size_t op; /* the first of them */
} usage;

static bool is_open(const spmd_var *v) {
    if (!v || !v->var->persistable || v->is_fixed || v->is_pinned) return false;
    for (int d = 0; d < v->whole.ndim; d++)
        if (v->want.naxes[d]) return false;
    return true;
}

static void note_use(spmd_plan *plan, usage *uses, const spmd_var *v, const axes_placed *at, size_t op) {
    if (!is_open(v)) return;
    usage *u = &uses[v->var->id];
    u->differs |=
        placed_is_partial(at, plan->mesh.axes.naxes) || (u->is_used && !placed_same_dims(&u->at, at, v->whole.ndim));
    if (!u->is_used) u->at = *at, u->op = op;
    u->is_used = true;
}

static void find_uses(spmd_plan *plan, usage *uses) {
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        const axes_rule *r = &op->kind->rule;
        for (size_t i = 0; i < r->nin; i++)
            if (!r->in[i].any) note_use(plan, uses, op->in[i], &op->choice->in[i], k);
        for (size_t o = 0; o < r->nout; o++) note_use(plan, uses, op->out[o], &op->choice->out[o], k);
    }
}

/* The op that writes a var last before another. NULL: none does. */
static const spmd_op *writer_before(const spmd_plan *plan, const spmd_var *v, size_t before) {
    size_t last = SIZE_MAX;
    FOR_EACH_USE(u, v->var) {
        const weft_op *op = use_op(plan->program, u);
        bool counts = u->is_output && op->block == plan->block && op->mark < before;
        if (counts && (last == SIZE_MAX || op->mark > last)) last = op->mark;
    }
    return last == SIZE_MAX ? NULL : &plan->ops[last];
}

/* The nearest var before the op whose placement has the axis: what has it between them only lies so by price. */
static uint32_t source_of(const spmd_plan *plan, const spmd_op *op, const spmd_var *of, int axis) {
    while (op) {
        const spmd_var *next = NULL;
        for (size_t i = 0; i < op->kind->rule.nin; i++) {
            const spmd_var *x = op->in[i];
            if (!x || x == of || placed_dim_of(&op->choice->in[i], x->whole.ndim, axis) < 0) continue;
            if (placed_same_dims(&x->want, &op->choice->in[i], x->whole.ndim)) return x->var->id;
            if (!next) next = x;
        }
        op = next ? writer_before(plan, next, op->op->mark) : NULL;
    }
    return of->var->id;
}

static void take_uses(spmd_plan *plan, const usage *uses, bool takes, size_t *out_count) {
    *out_count = 0;
    for (size_t i = 0; i < plan->nvars; i++) {
        spmd_var *v = &plan->vars[i];
        if (!uses[i].is_used || uses[i].differs) continue;
        for (int d = 0; d < v->whole.ndim; d++) {
            v->want.naxes[d] = takes ? uses[i].at.naxes[d] : 0;
            for (int k = 0; k < uses[i].at.naxes[d]; k++) {
                int axis = v->want.axes[d][k] = uses[i].at.axes[d][k];
                const spmd_op *op = &plan->ops[uses[i].op];
                v->origin[axis] = (spmd_origin){0};
                if (takes) v->origin[axis] = (spmd_origin){(uint32_t)(1 + uses[i].op), source_of(plan, op, v, axis)};
                ++*out_count;
            }
        }
    }
}

weft_status spmd_place_state(spmd_plan *plan) {
    size_t count;
    usage *uses = ARENA_ARRAY(&plan->memory, usage, plan->nvars + 1);
    if (!uses) return base_out_of_memory();
    TRY(spmd_decide(plan));
    double sent = plan->sent;
    find_uses(plan, uses);
    take_uses(plan, uses, true, &count);
    if (!count) return NULL;
    TRY(spmd_decide(plan));
    if (plan->sent >= sent) take_uses(plan, uses, false, &count);
    return NULL;
}
