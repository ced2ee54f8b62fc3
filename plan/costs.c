/* costs.c: prices of a plan's instructions, for those who compare them with what was measured. */
#include "weft/costs.h"

#include "plan/cost.h"
#include "plan/profile.h"

struct weft_costs {
    weft_context *context;
    arena arena;
    const weft_plan *plan;
    int64_t *ns;
    const char **sources;
    double *measured; /* NULL: nothing was */
    op_cost *work;
};

static weft_status fill(weft_costs *c, const weft_cluster *given, const weft_profile *measured, int nranks, int rank) {
    weft_cluster *cluster = ARENA_NEW(&c->arena, weft_cluster);
    size_t n = c->plan->ninstrs;
    c->ns = ARENA_ARRAY(&c->arena, int64_t, n + 1);
    c->sources = ARENA_ARRAY(&c->arena, const char *, n + 1);
    c->work = ARENA_ARRAY(&c->arena, op_cost, n + 1);
    if (!cluster || !c->ns || !c->sources || !c->work) return base_out_of_memory();
    if (nranks < 1) nranks = (int)weft_program_nranks(c->plan->program);
    if (nranks < 2) nranks = 2;
    TRY(plan_cluster_settle(given, cluster));
    TRY(plan_find_costs(c->plan, cluster, nranks, rank, &c->arena, c->ns, c->sources));
    for (size_t i = 0; i < n; i++) TRY(plan_cost_of(c->plan, &c->plan->instrs[i], &c->arena, &c->work[i]));
    return measured ? plan_profile_times(measured, c->plan, rank, true, &c->arena, &c->measured) : NULL;
}

weft_status weft_costs_create(weft_context *context, const weft_plan *plan, const weft_cluster *cluster,
                              const weft_profile *measured, int nranks, int rank, weft_costs **out_costs) {
    weft_costs *c = base_alloc(&context->allocator, sizeof *c);
    if (!c) return base_out_of_memory();
    *c = (weft_costs){.context = context, .plan = plan};
    arena_init(&c->arena, &context->allocator);
    weft_status status = fill(c, cluster, measured, nranks, rank);
    if (status)
        weft_costs_destroy(c);
    else
        *out_costs = c;
    return status;
}

void weft_costs_destroy(weft_costs *c) {
    if (!c) return;
    weft_context *context = c->context;
    arena_fini(&c->arena);
    base_free(&context->allocator, c, sizeof *c);
}

weft_cost weft_costs_at(const weft_costs *c, size_t i) {
    return (weft_cost){.seconds = 1e-9 * (double)c->ns[i],
                       .source = c->sources[i],
                       .flops = c->work[i].flops,
                       .nbytes = c->work[i].bytes,
                       .measured_seconds = c->measured ? c->measured[i] : -1};
}
