/* spmd_sums.c: which of an op's inputs are sums over ranks, and what the op can do with them: pass all of them on
 * through one group, to which others are added in shares; or read parts of them along a factor that they share. */
#include "passes/spmd/spmd.h"

const axes_placed *spmd_sum_of(const spmd_state *states, const spmd_op *op, size_t i, int axis) {
    const spmd_var *v = op->kind->reads[i] ? op->in[i] : NULL;
    const spmd_version *x = v ? states[v->var->id].versions : NULL;
    while (x && !x->placed->partial[axis]) x = x->next;
    return x ? x->placed : NULL;
}

uint32_t spmd_adding_group(const spmd_state *states, const spmd_op *op, int axis) {
    const axes_rule *r = &op->kind->rule;
    for (size_t g = 0; g < r->ngroups; g++) {
        bool takes = r->groups[g].all >> WEFT_REDUCE_SUM & 1;
        for (size_t i = 0; i < r->nin && takes; i++) {
            const axes_placed *p = spmd_sum_of(states, op, i, axis);
            takes = !p || (p->partial[axis] == 1 + WEFT_REDUCE_SUM && r->in[i].in_group >> g & 1);
        }
        if (takes) return UINT32_C(1) << g;
    }
    return 0;
}

static bool leads(const axes_rule *r, const axes_arg *x, size_t factor) {
    for (int d = 0; d < x->ndim; d++)
        if (spmd_lead(r, x, d) == (int)factor) return true;
    return false;
}

bool spmd_sums_share(const spmd_state *states, const spmd_op *op, int axis, size_t factor) {
    const axes_rule *r = &op->kind->rule;
    const spmd_var *first = NULL;
    bool several = false;
    for (size_t i = 0; i < r->nin; i++) {
        const axes_placed *p = spmd_sum_of(states, op, i, axis);
        if (!p || (factor == op->kind->special && spmd_form_adds(op, i))) continue; /* it stays a sum */
        if (p->partial[axis] != 1 + WEFT_REDUCE_SUM || !leads(r, &r->in[i], factor)) return false;
        several |= first && first != op->in[i];
        first = op->in[i];
    }
    return several;
}
