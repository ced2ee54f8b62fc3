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

/* The placements of all vars, and where they come from. */
typedef struct wanted {
    axes_placed want;
    spmd_origin origin[AXES_MESH];
} wanted;

/* As they are given, and as they spread; NULL: that was not asked for yet. */
typedef struct wants {
    wanted *given, *spread[SPREAD_NONE + 1];
} wants;

static void take_wants(spmd_plan *plan, const wanted *from) {
    for (size_t i = 0; i < plan->nvars; i++) {
        plan->vars[i].want = from[i].want;
        memcpy(plan->vars[i].origin, from[i].origin, sizeof from[i].origin);
    }
}

static weft_status keep_wants(spmd_plan *plan, wanted **out) {
    *out = ARENA_ARRAY(&plan->memory, wanted, plan->nvars + 1);
    if (!*out) return base_out_of_memory();
    for (size_t i = 0; i < plan->nvars; i++) {
        (*out)[i].want = plan->vars[i].want;
        memcpy((*out)[i].origin, plan->vars[i].origin, sizeof(*out)[i].origin);
    }
    return NULL;
}

static weft_status follow_so(spmd_plan *plan, const spmd_policy *how, wants *known) {
    plan->policy = *how;
    bool is_known = known->spread[how->spread] != NULL;
    take_wants(plan, is_known ? known->spread[how->spread] : known->given);
    if (is_known) return NULL;
    TRY(spmd_follow(plan));
    return keep_wants(plan, &known->spread[how->spread]);
}

/* A plan need not be good, so long as one is: a value may have to get to where it is wanted, as a part of an extent
 * that is open cannot. *first_why: of the first one that is not. Nor is one that sends no less than the best. */
static weft_status decide_if_good(spmd_plan *plan, int64_t nopen, double sent, weft_status *first_why, bool *out_good) {
    *out_good = false;
    weft_status status = spmd_decide_below(plan, nopen, sent, out_good);
    if (!status || weft_status_code(status) != WEFT_REFUSED) return status;
    if (*first_why)
        weft_status_free(status);
    else
        *first_why = status;
    return NULL;
}

static weft_status find_cheapest(spmd_plan *plan, wants *known, weft_status *first_why, size_t *out_best) {
    const size_t count = sizeof policies / sizeof *policies;
    double sent = 0;
    int64_t nopen = INT64_MAX;
    *out_best = count;
    for (size_t i = 0; i < count; i++) {
        bool is_better;
        double weight = policies[i].gathers_state ? 2 : 1;
        TRY(follow_so(plan, &policies[i], known));
        TRY(decide_if_good(plan, nopen, sent / weight, first_why, &is_better));
        if (!is_better) continue;
        nopen = plan->nopen;
        *out_best = i;
        sent = plan->cheapest = plan->sent * weight;
        if (i == 0 && sent <= 0) break;
    }
    return NULL;
}

weft_status spmd_plan_cheapest(spmd_plan *plan) {
    wants known = {.given = NULL};
    size_t best;
    weft_status why = NULL;
    plan->policy = policies[0];
    plan->cheapest = 0;
    if (plan->nops > SPMD_MOST_OPS) return spmd_follow(plan);
    TRY(keep_wants(plan, &known.given));
    weft_status status = find_cheapest(plan, &known, &why, &best);
    if (status || best == sizeof policies / sizeof *policies) {
        if (status) weft_status_free(why);
        return status ? status : why;
    }
    weft_status_free(why);
    if (best == 0 && plan->cheapest <= 0) return NULL;
    TRY(follow_so(plan, &policies[best], &known));
    return spmd_place_state(plan);
}
