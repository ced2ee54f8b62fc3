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

/* A plan need not be good, so long as one is: a value may have to get to where it is wanted, as a part of an extent
 * that is open cannot. *first_why: of the first one that is not. */
static weft_status decide_if_good(spmd_plan *plan, weft_status *first_why, bool *out_good) {
    weft_status status = spmd_decide(plan);
    *out_good = !status;
    if (!status || weft_status_code(status) != WEFT_REFUSED) return status;
    if (*first_why)
        weft_status_free(status);
    else
        *first_why = status;
    return NULL;
}

static weft_status find_cheapest(spmd_plan *plan, const axes_placed *given, weft_status *first_why, size_t *out_best) {
    const size_t count = sizeof policies / sizeof *policies;
    double sent = 0;
    int64_t nopen = 0;
    *out_best = count;
    for (size_t i = 0; i < count; i++) {
        bool is_good;
        TRY(follow_so(plan, &policies[i], given));
        TRY(decide_if_good(plan, first_why, &is_good));
        double own = plan->sent * (policies[i].gathers_state ? 2 : 1);
        bool is_first = *out_best == count, fewer = plan->nopen < nopen, as_many = plan->nopen == nopen;
        if (!is_good || !(is_first || fewer || (as_many && own < sent))) continue;
        nopen = plan->nopen;
        *out_best = i;
        sent = plan->cheapest = own;
        if (i == 0 && sent <= 0) break;
    }
    return NULL;
}

weft_status spmd_plan_cheapest(spmd_plan *plan) {
    axes_placed *given;
    size_t best;
    weft_status why = NULL;
    plan->policy = policies[0];
    plan->cheapest = 0;
    if (plan->nops > SPMD_MOST_OPS) return spmd_follow(plan);
    TRY(keep_wants(plan, &given));
    weft_status status = find_cheapest(plan, given, &why, &best);
    if (status || best == sizeof policies / sizeof *policies) {
        if (status) weft_status_free(why);
        return status ? status : why;
    }
    weft_status_free(why);
    if (best == 0 && plan->cheapest <= 0) return NULL;
    TRY(follow_so(plan, &policies[best], given));
    return spmd_place_state(plan);
}
