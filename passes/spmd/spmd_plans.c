/* spmd_plans.c: which of a few whole plans is cheapest.
 *
 * How far placements spread, and whether state that is sharded is computed with in parts or gathered first, cannot be
 * settled op by op. So the program is decided several times, and the plan that sends least is kept. The first one does
 * what is annotated as far as that goes. One that gathers state computes more on each rank: it is taken only where it
 * sends less than half. */
#include "passes/spmd/spmd.h"

static const spmd_policy policies[] = {
    {.spread = SPREAD_ALL},
    {.spread = SPREAD_ELEMENTWISE},
    {.spread = SPREAD_NONE},
    {.spread = SPREAD_ALL, .gathers_state = true},
    {.spread = SPREAD_ELEMENTWISE, .gathers_state = true},
    {.spread = SPREAD_NONE, .gathers_state = true},
};

static void take_wants(spmd_plan *plan, const axes_placed *from) {
    for (size_t i = 0; i < plan->nvars; i++) {
        plan->vars[i].want = from[i];
        memset(plan->vars[i].origin, 0, sizeof plan->vars[i].origin);
    }
}

static weft_status keep_wants(spmd_plan *plan, axes_placed **out) {
    *out = ARENA_ARRAY(&plan->memory, axes_placed, plan->nvars + 1);
    if (!*out) return base_out_of_memory();
    for (size_t i = 0; i < plan->nvars; i++) (*out)[i] = plan->vars[i].want;
    return NULL;
}

static weft_status follow_so(spmd_plan *plan, const spmd_policy *how, const axes_placed *given) {
    take_wants(plan, given);
    plan->policy = *how;
    return spmd_follow(plan);
}

weft_status spmd_plan_cheapest(spmd_plan *plan) {
    axes_placed *given;
    size_t best = 0;
    double sent = 0;
    plan->policy = policies[0];
    plan->cheapest = 0;
    if (plan->nops > SPMD_MOST_OPS) return spmd_follow(plan);
    TRY(keep_wants(plan, &given));
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        TRY(follow_so(plan, &policies[i], given));
        TRY(spmd_decide(plan));
        double own = plan->sent * (policies[i].gathers_state ? 2 : 1);
        if (i && own >= sent) continue;
        best = i;
        sent = plan->cheapest = own;
        if (i == 0 && sent <= 0) return NULL;
    }
    TRY(follow_so(plan, &policies[best], given));
    return spmd_place_state(plan);
}
