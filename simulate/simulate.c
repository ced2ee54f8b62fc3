/* simulate.c: making and unmaking a simulation, and what is asked of it. step.c plays steps, races.c looks at them. */
#include "simulate/simulate.h"

#include "plan/agree.h"

/* --- making ------------------------------------------------------------------------------------------------------- */

static weft_status check_plans(const weft_plan *const *plans, size_t nplans, int nranks, bool unsafe) {
    if (nranks < 1) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", nranks);
    if (nplans != 1 && nplans != (size_t)nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu plans for %d ranks: expected 1 or %d", nplans,
                                  nranks, nranks);
    for (size_t i = 0; i < nplans; i++) {
        if (!plans[i]) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "plan %zu is NULL", i);
        if (plans[i]->given_waits && !unsafe)
            return weft_status_create(WEFT_INVALID_ARGUMENT, plans[i]->program->place,
                                      "its plan has only the waits that were given with it: it may race, and is "
                                      "simulated only if that is asked for (unsafe)");
    }
    return NULL;
}

static weft_status make_arrays(weft_simulation *x) {
    x->nring_slots = 16;
    while (x->nring_slots < (size_t)x->nranks) x->nring_slots *= 2;
    x->rings = ARENA_ARRAY(&x->arena, sim_ring *, x->nring_slots);
    x->plans = ARENA_ARRAY(&x->arena, sim_plan, x->nplans);
    x->ranks = ARENA_ARRAY(&x->arena, sim_rank, x->nranks);
    for (int r = 0; r < x->nranks; r++) x->nstreams += (size_t)timeline_plan(&x->timeline, r)->nstreams;
    x->streams = ARENA_ARRAY(&x->arena, sim_stream, x->nstreams + 1);
    x->turns = ARENA_ARRAY(&x->arena, sim_turn, x->nstreams + 1);
    return x->rings && x->plans && x->ranks && x->streams && x->turns ? NULL : base_out_of_memory();
}

static weft_status find_times(weft_simulation *x, int rank, sim_plan *p) {
    arena scratch;
    p->ns = ARENA_ARRAY(&x->arena, int64_t, p->plan->ninstrs + 1);
    if (!p->ns) return base_out_of_memory();
    arena_init(&scratch, &x->context->allocator);
    weft_status status = plan_find_times(p->plan, &x->cluster, x->nranks, rank, &scratch, p->ns);
    arena_fini(&scratch);
    return status;
}

static weft_status make_rank(weft_simulation *x, int rank, sim_stream *streams) {
    sim_rank *r = &x->ranks[rank];
    bool is_first = x->nplans > 1 || rank == 0;
    *r =
        (sim_rank){.rank = rank, .plan = &x->plans[x->nplans == 1 ? 0 : rank], .streams = streams, .died_ns = SIM_NONE};
    r->plan->plan = timeline_plan(&x->timeline, rank);
    if (is_first) TRY(plan_find_rings(r->plan->plan, x->nranks, &x->arena, &r->plan->rings));
    for (int s = 0; s < r->plan->plan->nstreams; s++) streams[s].lane = &x->timeline.ranks[rank][s];
    TRY(sim_join_rings(x, r));
    if (!is_first) return NULL;
    TRY(find_times(x, rank, r->plan));
    return sim_find_accesses(x, r->plan);
}

static weft_status make_ranks(weft_simulation *x) {
    sim_stream *next = x->streams;
    for (int r = 0; r < x->nranks; r++) {
        TRY(make_rank(x, r, next));
        next += x->ranks[r].plan->plan->nstreams;
    }
    return NULL;
}

static bool has_op(const weft_plan *plan, int64_t op_index) {
    for (size_t i = 0; i < plan->ninstrs; i++)
        if (plan->instrs[i].op_index == op_index) return true;
    return false;
}

/* Faults are of instructions that there are. */
static weft_status check_faults(const weft_simulation *x) {
    for (size_t i = 0; i < x->options.nfaults; i++) {
        const weft_fault *f = &x->options.faults[i];
        int rank = f->rank < 0 ? 0 : f->rank;
        if (rank >= x->nranks)
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: the run has ranks 0 to %d", rank,
                                      x->nranks - 1);
        if (!has_op(x->ranks[rank].plan->plan, f->op_index))
            return weft_status_create(WEFT_NOT_FOUND, NULL, "a fault before op #%lld: rank %d has no such instruction",
                                      (long long)f->op_index, rank);
    }
    return NULL;
}

/* One participant speaks for all ranks: what it gives is what there is. */
static weft_status tell_oneself(void *user, const void *mine, size_t nbytes, void *all) {
    const weft_simulation *x = user;
    if (nbytes) memcpy(all, mine, nbytes * (size_t)x->nranks);
    return NULL;
}

static weft_status check_agreement(weft_simulation *x) {
    agree_exchange exchange = {x->nranks, 0, x->nranks, tell_oneself, x};
    agree_rank *ranks = ARENA_ARRAY(&x->arena, agree_rank, x->nranks);
    if (!ranks) return base_out_of_memory();
    for (int r = 0; r < x->nranks; r++) ranks[r] = (agree_rank){x->ranks[r].plan->plan, &x->ranks[r].plan->rings};
    return plan_agree(&x->context->allocator, ranks, &exchange);
}

static weft_status make(weft_simulation *x, const weft_plan *const *plans) {
    size_t most_steps = x->options.trace_steps > 0 ? (size_t)x->options.trace_steps : 0;
    TRY(plan_cluster_settle(x->options.cluster, &x->cluster));
    x->contends = x->cluster.compute_beside_collective > 1 || x->cluster.collective_beside_compute > 1;
    x->compute_speed = plan_speed(x->cluster.compute_beside_collective);
    x->collective_speed = plan_speed(x->cluster.collective_beside_compute);
    TRY(timeline_init(&x->timeline, &x->arena, plans, x->nplans, 0, x->nranks, most_steps));
    TRY(make_arrays(x));
    TRY(make_ranks(x));
    TRY(check_faults(x));
    TRY(sim_make_nodes(x));
    return check_agreement(x);
}

weft_status weft_simulation_create(weft_context *context, const weft_plan *const *plans, size_t nplans, int nranks,
                                   const weft_simulation_options *options, weft_simulation **out_simulation) {
    weft_simulation_options taken;
    TRY(base_take_struct("weft_simulation_options", &taken, sizeof taken, options));
    TRY(check_plans(plans, nplans, nranks, taken.unsafe));
    weft_simulation *x = base_alloc(&context->allocator, sizeof *x);
    if (!x) return base_out_of_memory();
    *x = (weft_simulation){.context = context, .options = taken, .nranks = nranks, .nplans = nplans};
    arena_init(&x->arena, &context->allocator);
    weft_status status = make(x, plans);
    if (status) {
        weft_simulation_destroy(x);
        return status;
    }
    x->options.cluster = NULL;
    *out_simulation = x;
    return NULL;
}

void weft_simulation_destroy(weft_simulation *x) {
    if (!x) return;
    timeline_fini(&x->timeline);
    arena_fini(&x->arena);
    base_free(&x->context->allocator, x, sizeof *x);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

void weft_simulation_set_step(weft_simulation *x, uint64_t step) {
    x->step = step;
}

weft_status weft_simulation_run(weft_simulation *x) {
    if (x->has_failed)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "the simulation failed in an earlier step: destroy it");
    TRY(timeline_reserve(&x->timeline));
    weft_status status = sim_play_step(x);
    if (!status) status = sim_check_end(x);
    if (!status) status = sim_find_races(x);
    x->has_failed = status != NULL;
    timeline_end_step(&x->timeline); /* a step that failed is in the timeline, too */
    x->step++;
    return status;
}

double weft_simulation_step_seconds(const weft_simulation *x) {
    return (double)(x->end_ns - x->start_ns) * 1e-9;
}

weft_status weft_simulation_rank_times(const weft_simulation *x, int rank, weft_rank_times *out_times) {
    return timeline_rank_times(&x->timeline, rank, out_times);
}

void weft_simulation_overlap(const weft_simulation *x, double *out_collective_seconds, double *out_hidden_seconds) {
    timeline_overlap sum = timeline_measure(&x->timeline);
    *out_collective_seconds = (double)sum.collective_ns * 1e-9;
    *out_hidden_seconds = (double)sum.hidden_ns * 1e-9;
}

void weft_simulation_hidden(const weft_simulation *x, size_t *out_ncollectives, size_t *out_nhidden) {
    timeline_overlap sum = timeline_measure(&x->timeline);
    *out_ncollectives = sum.ncollectives;
    *out_nhidden = sum.nhidden;
}

weft_status weft_simulation_trace_json(const weft_simulation *x, char **out_bytes, size_t *out_nbytes) {
    return timeline_print(&x->timeline, TIMELINE_JSON, NULL, out_bytes, out_nbytes);
}

weft_status weft_simulation_trace_html(const weft_simulation *x, const char *title, char **out_bytes,
                                       size_t *out_nbytes) {
    return timeline_print(&x->timeline, TIMELINE_HTML, title, out_bytes, out_nbytes);
}

weft_status weft_simulation_trace_beside(const weft_simulation *const *simulations, const char *const *labels,
                                         size_t count, weft_trace_form form, const char *title, char **out_bytes,
                                         size_t *out_nbytes) {
    enum { MOST = 64 };
    const timeline *timelines[MOST];
    if (count == 0 || count > MOST)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu simulations: expected 1 to %d", count, MOST);
    for (size_t i = 0; i < count; i++) timelines[i] = &simulations[i]->timeline;
    return timeline_print_beside(timelines, labels, count, form == WEFT_TRACE_HTML ? TIMELINE_HTML : TIMELINE_JSON,
                                 title, out_bytes, out_nbytes);
}
