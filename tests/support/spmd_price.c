#include "tests/support/spmd_price.h"

static double elements(const spmd_var *v, double nbytes) {
    return nbytes / (double)weft_dtype_nbytes((weft_dtype)v->whole.dtype);
}

void spmd_price_want(spmd_plan *plan, const char *named, const axes_placed *placed, bool given) {
    spmd_var *v = spmd_var_of(plan, weft_block_find_var(plan->block, named));
    if (!v) return;
    v->want = *placed;
    v->is_fixed = true;
    v->is_kept = given;
    if (!given) v->nreaders++;
}

static weft_status add_version(spmd_plan *plan, spmd_state *s, const axes_placed *placed, spmd_version *next) {
    spmd_version *made = s->versions = ARENA_NEW(&plan->decided, spmd_version);
    if (!made) return base_out_of_memory();
    *made = (spmd_version){.placed = placed, .next = next};
    return NULL;
}

static weft_status step_op(spmd_plan *plan, spmd_op *op, spmd_price *price) {
    TRY(spmd_choose(plan, price->states, op));
    price->sent += op->choice->sent / 4; /* losses and norms: float32 */
    for (size_t i = 0; i < op->kind->rule.nin; i++) {
        const spmd_var *v = op->in[i];
        spmd_path path;
        if (!v || op->kind->rule.in[i].any) continue;
        spmd_state *s = &price->states[v->var->id];
        if (!spmd_nearest(plan, v, s, &op->choice->in[i], &path)) return price->is_illegal = true, NULL;
        price->sent += elements(v, path.sent);
        TRY(add_version(plan, s, &op->choice->in[i], s->versions));
    }
    for (size_t o = 0; o < op->kind->rule.nout; o++) {
        const spmd_var *v = op->out[o];
        if (v) TRY(add_version(plan, &price->states[v->var->id], &op->choice->out[o], NULL));
    }
    return NULL;
}

weft_status spmd_price_program(spmd_plan *plan, spmd_price *out) {
    *out = (spmd_price){.sent = 0};
    TRY(spmd_follow(plan));
    TRY(spmd_known_begin(plan));
    out->states = ARENA_ARRAY(&plan->decided, spmd_state, plan->nvars + 1);
    if (!out->states) return base_out_of_memory();
    for (size_t i = 0; i < plan->nvars; i++)
        if (plan->vars[i].is_kept && plan->vars[i].counts)
            TRY(add_version(plan, &out->states[i], &plan->vars[i].want, NULL));
    for (size_t k = 0; k < plan->nops && !out->is_illegal; k++)
        if (!op_is(plan->ops[k].op, "feed") && !op_is(plan->ops[k].op, "fetch")) TRY(step_op(plan, &plan->ops[k], out));
    return NULL;
}

bool spmd_price_settle(const spmd_plan *plan, spmd_price *price, const char *named, const axes_placed *to) {
    weft_var *var = weft_block_find_var(plan->block, named);
    const spmd_var *v = spmd_var_of(plan, var);
    spmd_path path;
    if (!v || !price->states[var->id].versions) return true;
    if (!spmd_nearest(plan, v, &price->states[var->id], to, &path)) return false;
    price->sent += elements(v, path.sent);
    return true;
}
