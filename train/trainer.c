/* trainer.c: a trainer's feeds and plans, and its steps; another executor when a step is fed in another shape
 * (plan_cache.c). */
#include "train/trainer.h"

static weft_status begin(weft_trainer *t) {
    const weft_trainer_options *o = &t->options;
    weft_feeds_options feeds = {WEFT_FEEDS_OPTIONS_INIT,     .programs = o->programs, .nprograms = o->nprograms,
                                .nranks = o->nranks,         .sets = o->feeds,        .per_rank = o->feeds_per_rank,
                                .first_step = o->first_step, .nsteps = o->nsteps};
    TRY(weft_feeds_create(t->context, &feeds, &t->feeds));
    t->nranks = t->feeds->options.nranks;
    t->first_step = o->first_step;
    t->nsteps = weft_feeds_nsteps(t->feeds);
    t->first_rank = o->executor->host ? o->executor->host->first_rank : 0;
    t->nlocal = o->executor->host ? o->executor->host->nlocal : t->nranks;
    t->bound_shape = SIZE_MAX;
    return NULL;
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

static weft_status make_cache(weft_trainer *t) {
    const weft_trainer_options *o = &t->options;
    weft_executor_options executor = *o->executor;
    if (executor.trace && (executor.trace_steps <= 0 || (size_t)executor.trace_steps > t->nsteps))
        executor.trace_steps = t->nsteps > INT32_MAX ? INT32_MAX : (int)t->nsteps;
    weft_plan_cache_options options = {WEFT_PLAN_CACHE_OPTIONS_INIT, .programs = o->programs, .nprograms = o->nprograms,
                                       .nranks = t->nranks,          .fetches = o->fetches,   .nfetches = o->nfetches,
                                       .capacity = o->plan_capacity, .orders = o->orders,     .executor = &executor};
    return weft_plan_cache_create(t->context, &options, &t->cache);
}

/* Everything that refers to an executor now refers to that of this shape. After a failure nothing is bound, and the
 * executor of before is still there to be asked. */
static weft_status bind_shape(weft_trainer *t, size_t number) {
    cache_entry *e;
    t->bound_shape = SIZE_MAX;
    const weft_feed_types *types = weft_feeds_types(t->feeds, number) + t->first_rank;
    uint64_t of_all = t->nlocal < t->nranks ? number : 0;
    TRY(plan_cache_get(t->cache, types, (size_t)t->nlocal, of_all, &e));
    t->plans = e->plans;
    t->nplans = e->nplans;
    t->executor = e->executor;
    size_t first = t->feeds->shapes[number].step;
    feeds_set_batch(t->feeds, first);
    TRY(trainer_bind_feeds(t, first));
    if (!e->is_set) TRY(trainer_set_params(t));
    e->is_set = true;
    TRY(trainer_bind_fetches(t));
    t->bound_shape = number;
    return NULL;
}

weft_status trainer_begin(weft_context *context, const weft_trainer_options *options, weft_trainer **out_trainer) {
    weft_trainer *t = base_alloc(&context->allocator, sizeof *t);
    if (!t) return base_out_of_memory();
    *t = (weft_trainer){.context = context};
    arena_init(&t->arena, &context->allocator);
    weft_status status = NULL;
    TRY_DONE(base_take_struct("weft_trainer_options", &t->options, sizeof t->options, options));
    TRY_DONE(base_take_struct("weft_executor_options", &t->executor_options, sizeof t->executor_options,
                              t->options.executor));
    t->options.executor = &t->executor_options;
    TRY_DONE(begin(t));
    TRY_DONE(make_cache(t));
    *out_trainer = t;
    t = NULL;
done:
    weft_trainer_destroy(t);
    return status;
}

weft_status trainer_bind_first(weft_trainer *t) {
    TRY(bind_shape(t, weft_feeds_shape_of(t->feeds, t->first_step)));
    TRY(trainer_find_flat_weights(t));
    return trainer_agree_on_shapes(t);
}

void weft_trainer_destroy(weft_trainer *t) {
    if (!t) return;
    weft_trainer_destroy(t->startup);
    weft_plan_cache_destroy(t->cache);
    weft_feeds_destroy(t->feeds);
    arena_fini(&t->arena);
    base_free(&t->context->allocator, t, sizeof *t);
}

weft_status weft_trainer_step(weft_trainer *t, size_t step) {
    if (!t->is_fed && (step < t->first_step || step - t->first_step >= t->nsteps)) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "step %zu: the steps are %zu to %zu", step,
                                  t->first_step, t->first_step + t->nsteps - 1);
    }
    size_t of_feeds = t->is_fed ? 0 : step, number = weft_feeds_shape_of(t->feeds, of_feeds);
    if (number != t->bound_shape) TRY(bind_shape(t, number));
    TRY(trainer_feed_step(t, of_feeds));
    weft_executor_set_step(t->executor, step);
    return weft_executor_run(t->executor);
}

size_t weft_trainer_first_step(const weft_trainer *t) {
    return t->first_step;
}
size_t weft_trainer_nsteps(const weft_trainer *t) {
    return t->nsteps;
}
int weft_trainer_nranks(const weft_trainer *t) {
    return t->nranks;
}
bool weft_trainer_has_rank(const weft_trainer *t, int rank) {
    return executor_has_rank(t->executor, rank);
}
weft_executor *weft_trainer_executor(const weft_trainer *t) {
    return t->executor;
}

const weft_plan *weft_trainer_plan(const weft_trainer *t, int rank) {
    return executor_has_rank(t->executor, rank) ? trainer_plan(t, rank) : NULL;
}

const weft_plan_cache *weft_trainer_plan_cache(const weft_trainer *t) {
    return t->cache;
}
