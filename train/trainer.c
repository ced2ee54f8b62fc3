/* trainer.c: from programs, parameters and feeds to an executor that is ready to step; and to another one when a step
 * is fed in another shape (train/shapes.c, plan_cache.c).
 *
 * The order matters for what a user hears first: the feeds' own faults (names, dtypes, shapes, missing steps) before
 * what planning makes of them, missing parameters before a step is tried. */
#include "train/trainer.h"

static weft_status check_options(const weft_trainer_options *o, int nranks) {
    if (!o->nprograms || !o->programs) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "no program to run");
    if (nranks < 1) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", nranks);
    if (o->nprograms != 1 && o->nprograms != (size_t)nranks) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu programs for %d ranks: expected 1 or %d",
                                  o->nprograms, nranks, nranks);
    }
    return NULL;
}

/* How many steps there are, if nobody says: those in the feeds. */
static weft_status count_steps(weft_trainer *t) {
    size_t end = 0;
    for (size_t i = 0; i < t->nsets; i++) {
        if (t->sets[i].nsteps > end) end = t->sets[i].nsteps;
    }
    t->first_step = t->options.first_step;
    t->nsteps = t->options.nsteps;
    if (t->nsteps > SIZE_MAX - t->first_step)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu steps from %zu are too many", t->nsteps,
                                  t->first_step);
    if (t->nsteps) return NULL;
    if (end && end <= t->first_step)
        return weft_status_create(WEFT_NOT_FOUND, NULL, "the feeds have %zu steps: there is none from %zu on", end,
                                  t->first_step);
    t->nsteps = end ? end - t->first_step : 1;
    return NULL;
}

static weft_status begin(weft_trainer *t) {
    const weft_trainer_options *o = &t->options;
    t->nranks = o->nranks > 0 ? o->nranks : (int)o->nprograms;
    t->bound_shape = SIZE_MAX;
    TRY(check_options(o, t->nranks));
    TRY(trainer_read_feeds(t));
    TRY(count_steps(t));
    TRY(trainer_check_steps(t));
    return trainer_find_shapes(t);
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

static weft_status make_cache(weft_trainer *t) {
    const weft_trainer_options *o = &t->options;
    weft_plan_cache_options options = {.programs = o->programs,
                                       .nprograms = o->nprograms,
                                       .nranks = t->nranks,
                                       .fetches = o->fetches,
                                       .nfetches = o->nfetches,
                                       .capacity = o->plan_capacity,
                                       .orders = o->orders,
                                       .executor = o->executor};
    if (options.executor.trace && options.executor.trace_steps <= 0)
        options.executor.trace_steps = t->nsteps > INT32_MAX ? INT32_MAX : (int)t->nsteps;
    return weft_plan_cache_create(t->context, &options, &t->cache);
}

/* The null device takes the shapes of feeds, and nothing else. */
static bool computes_nothing(const weft_trainer *t) {
    return t->options.executor.device == WEFT_DEVICE_NULL;
}

/* Everything that refers to an executor now refers to that of this shape. After a failure nothing is bound, and the
 * executor of before is still there to be asked. */
static weft_status bind_shape(weft_trainer *t, size_t number) {
    cache_entry *e;
    t->bound_shape = SIZE_MAX;
    TRY(plan_cache_get(t->cache, t->shapes[number].types, (size_t)t->nranks, &e));
    t->plans = e->plans;
    t->nplans = e->nplans;
    t->executor = e->executor;
    trainer_set_batch(t, t->shapes[number].step);
    if (!computes_nothing(t)) {
        TRY(trainer_bind_feeds(t, t->shapes[number].step));
        if (!e->is_set) TRY(trainer_set_params(t));
        e->is_set = true;
        TRY(trainer_bind_fetches(t));
    }
    t->bound_shape = number;
    return NULL;
}

static size_t shape_of(const weft_trainer *t, size_t step) {
    return t->shape_of ? t->shape_of[step - t->first_step] : 0;
}

/* What was given for before the first step is not needed any more. */
static void forget_sources(weft_trainer *t) {
    weft_trainer_destroy(t->startup);
    t->startup = NULL;
    t->options.params = NULL;
    t->options.state = NULL;
}

weft_status weft_trainer_create(weft_context *context, const weft_trainer_options *options,
                                weft_trainer **out_trainer) {
    weft_trainer *t = base_alloc(&context->allocator, sizeof *t);
    if (!t) return base_out_of_memory();
    *t = (weft_trainer){.context = context, .options = *options};
    arena_init(&t->arena, &context->allocator);
    weft_status status = NULL;
    TRY_DONE(begin(t));
    TRY_DONE(make_cache(t));
    if (!computes_nothing(t)) TRY_DONE(trainer_run_startup(t));
    TRY_DONE(bind_shape(t, shape_of(t, t->first_step)));
    forget_sources(t);
    *out_trainer = t;
    t = NULL;
done:
    weft_trainer_destroy(t);
    return status;
}

void weft_trainer_destroy(weft_trainer *t) {
    if (!t) return;
    weft_trainer_destroy(t->startup);
    weft_plan_cache_destroy(t->cache);
    arena_fini(&t->arena);
    base_free(&t->context->allocator, t, sizeof *t);
}

weft_status weft_trainer_step(weft_trainer *t, size_t step) {
    if (step < t->first_step || step - t->first_step >= t->nsteps) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "step %zu: the steps are %zu to %zu", step,
                                  t->first_step, t->first_step + t->nsteps - 1);
    }
    size_t number = shape_of(t, step);
    if (number != t->bound_shape) TRY(bind_shape(t, number));
    if (!computes_nothing(t)) trainer_feed_step(t, step);
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
weft_executor *weft_trainer_executor(const weft_trainer *t) {
    return t->executor;
}

const weft_plan *weft_trainer_plan(const weft_trainer *t, int rank) {
    return rank >= 0 && rank < t->nranks ? trainer_plan(t, rank) : NULL;
}

const weft_plan_cache *weft_trainer_plan_cache(const weft_trainer *t) {
    return t->cache;
}
