/* executor.c: making and unmaking an executor. bind.c resolves what a step needs, the device records it, step.c runs
 * steps, trace.c reports what happened. */
#include "executor/agree.h"
#include "executor/flight.h"
#include "executor/state.h"
#include "executor/watchdog.h"

static weft_status check_host(const comm_host *host, int nranks) {
    bool good = host->nranks == nranks && host->first_rank >= 0 && host->nlocal >= 1 &&
                host->nlocal <= nranks - host->first_rank;
    if (good) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks from %d on of %d: the run has %d", host->nlocal,
                              host->first_rank, host->nranks, nranks);
}

/* One plan for all, or one for each of this process's ranks. */
static weft_status check_plans(const weft_plan *const *plans, size_t nplans, int nranks, bool unsafe) {
    if (nranks < 1) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", nranks);
    if (nplans != 1 && nplans != (size_t)nranks) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu plans for %d ranks: expected 1 or %d", nplans,
                                  nranks, nranks);
    }
    for (size_t i = 0; i < nplans; i++) {
        if (!plans[i]) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "plan %zu is NULL", i);
        if (plans[i]->given_waits && !unsafe) {
            return weft_status_create(WEFT_INVALID_ARGUMENT, plans[i]->program->place,
                                      "its plan has only the waits that were given with it: it may race, and is run "
                                      "only if that is asked for (unsafe)");
        }
    }
    return NULL;
}

/* Some are so many that arithmetic in nanoseconds does not overflow. */
static double seconds_or(double given, double fallback) {
    if (!(given > 0)) return fallback;
    return given < 1e9 ? given : 1e9;
}

static void set_options(weft_executor *x, const weft_executor_options *options) {
    x->options = *options;
    if (x->options.nthreads < 1) x->options.nthreads = 1;
    x->options.watchdog_seconds = seconds_or(x->options.watchdog_seconds, 5);
    x->options.first_step_seconds = seconds_or(x->options.first_step_seconds, 300);
    if (x->options.first_step_seconds < x->options.watchdog_seconds)
        x->options.first_step_seconds = x->options.watchdog_seconds;
    if (x->options.trace_steps < 0) x->options.trace_steps = 0;
    /* So that each op has an instruction that can be late, or looked at. */
    if (x->options.ndelays || x->options.check_finite_every) x->options.no_fuse = true;
}

static weft_status bind_ranks(weft_executor *x, const weft_plan *const *plans, size_t nplans) {
    x->ranks = ARENA_ARRAY(&x->arena, rank_state, x->nlocal);
    x->indices = ARENA_ARRAY(&x->arena, value_index, nplans);
    if (!x->ranks || !x->indices) return base_out_of_memory();
    x->nplans = nplans;
    for (int r = 0; r < x->nlocal; r++) { /* before anything can fail: destroy looks at all of them */
        size_t p = nplans == 1 ? 0 : (size_t)r;
        x->ranks[r].rank = x->first_rank + r;
        x->ranks[r].plan = plans[p];
        x->ranks[r].index = &x->indices[p];
    }
    for (size_t p = 0; p < nplans; p++) TRY(value_index_init(&x->indices[p], plans[p], &x->arena));
    for (int r = 0; r < x->nlocal; r++) TRY(bind_rank(x, &x->ranks[r]));
    return trace_init(x);
}

/* What ranks meet in. */
static weft_status make_world(weft_executor *x) {
    comm_host host = x->options.host ? *x->options.host : comm_local_host(x->nranks);
    const device_engine *engine = x->device->engine;
    if (x->options.rings && !engine->rings)
        return weft_status_create(WEFT_UNSUPPORTED, NULL, "rings of engine %s: device %s has its own", x->options.rings,
                                  engine->name);
    if (engine->rings && (x->nranks > 1 || x->options.rings)) TRY(engine->rings(x->device, &host, &x->options));
    return comm_world_create(&x->context->allocator, &host, &x->world);
}

/* What runs steps. */
static weft_status start(weft_executor *x) {
    TRY(profile_init(x));
    TRY(x->device->engine->start(x->run));
    return watchdog_start(x);
}

static weft_status check_device(const weft_executor *x) {
    if (!x->options.check_finite_every || x->device->engine->has_host_memory) return NULL;
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "check_finite_every: values are on the device %s, not here",
                              x->device->engine->name);
}

static weft_status take_state(weft_executor *x, executor_state *state) {
    if (state)
        x->state = executor_state_retain(state);
    else
        TRY(executor_state_create(x->context, x->options.device, x->nranks, &x->state));
    x->device = executor_state_device(x->state);
    return NULL;
}

static weft_status begin_run(weft_executor *x) {
    TRY(x->device->engine->begin(x->device, x, &x->run));
    x->run->timed = x->options.trace || x->options.profile;
    return NULL;
}

weft_status weft_executor_create(weft_context *context, const weft_plan *const *plans, size_t nplans, int nranks,
                                 const weft_executor_options *options, weft_executor **out_executor) {
    return executor_create(context, plans, nplans, nranks, options, NULL, out_executor);
}

weft_status executor_create(weft_context *context, const weft_plan *const *plans, size_t nplans, int nranks,
                            const weft_executor_options *given, executor_state *state, weft_executor **out_executor) {
    weft_executor_options taken, *options = &taken;
    TRY(base_take_struct("weft_executor_options", &taken, sizeof taken, given));
    const comm_host *host = options->host;
    if (host) TRY(check_host(host, nranks));
    TRY(check_plans(plans, nplans, host ? host->nlocal : nranks, options->unsafe));
    weft_executor *x = base_alloc(&context->allocator, sizeof *x);
    if (!x) return base_out_of_memory();
    memset(x, 0, sizeof *x);
    x->context = context;
    x->nranks = nranks;
    x->first_rank = host ? host->first_rank : 0;
    x->nlocal = host ? host->nlocal : nranks;
    arena_init(&x->arena, &context->allocator);
    set_options(x, options);
    weft_status status = NULL;
    TRY_DONE(take_state(x, state));
    TRY_DONE(check_device(x));
    TRY_DONE(make_world(x));
    TRY_DONE(begin_run(x));
    TRY_DONE(bind_ranks(x, plans, nplans));
    if (host) flight_await_launcher(host->flight);
    TRY_DONE(agree_on_collectives(x, x->world));
    TRY_DONE(comm_world_connect(x->world));
    TRY_DONE(world_clock_begin(x));
    TRY_DONE(start(x));
    *out_executor = x;
    x = NULL;
done:
    if (status && x->world) comm_world_abort(x->world, weft_status_message(status)); /* other processes wait for it */
    weft_executor_destroy(x);
    return status;
}

static void free_rank(weft_executor *x, rank_state *rank) {
    const device_engine *engine = x->device->engine;
    engine->free(x->device, &rank->persistent);
    engine->free(x->device, &rank->temporary);
    for (size_t i = 0; rank->copies && i < rank->plan->nvalues; i++) engine->free(x->device, &rank->copies[i]);
}

void weft_executor_destroy(weft_executor *x) {
    if (!x) return;
    watchdog_stop(x);
    if (x->is_stuck) return;
    if (x->run) x->device->engine->discard(x->run);
    weft_status_free(atomic_exchange(&x->failure, NULL)); /* of a watchdog that came when the step had ended */
    if (x->timeline) timeline_fini(x->timeline);
    comm_world_destroy(x->world); /* libraries may have told other processes of the memory that goes now */
    for (int r = 0; x->ranks && r < x->nlocal; r++) free_rank(x, &x->ranks[r]);
    executor_state_release(x->state);
    arena_fini(&x->arena);
    base_free(&x->context->allocator, x, sizeof *x);
}

int64_t executor_own_nbytes(const weft_executor *x) {
    size_t nbytes = x->arena.total_nbytes;
    for (int r = 0; r < x->nlocal; r++) {
        const rank_state *rank = &x->ranks[r];
        nbytes += rank->persistent.block_nbytes + rank->temporary.block_nbytes;
    }
    if (x->run) nbytes += x->device->engine->nbytes(x->run);
    return (int64_t)nbytes;
}

void weft_executor_set_step(weft_executor *x, uint64_t step) {
    x->step = step;
}

double weft_executor_step_seconds(const weft_executor *x) {
    return (double)(x->end_ns - x->start_ns) * 1e-9;
}
