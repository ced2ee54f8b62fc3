/* trainer.c: from programs, parameters and feeds to an executor that is ready to step.
 *
 * The order matters for what a user hears first: the feeds' own faults (names, dtypes, shapes, missing steps) before
 * what planning makes of them, missing parameters before a step is tried. */
#include "executor/trainer.h"

static weft_status check_options(const weft_trainer_options *o, int nranks) {
    if (!o->nprograms || !o->programs) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "no program to run");
    if (nranks < 1) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", nranks);
    if (o->nprograms != 1 && o->nprograms != (size_t)nranks) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu programs for %d ranks: expected 1 or %d",
                                  o->nprograms, nranks, nranks);
    }
    return NULL;
}

static weft_status begin(weft_trainer *t) {
    const weft_trainer_options *o = &t->options;
    t->nranks = o->nranks > 0 ? o->nranks : (int)o->nprograms;
    TRY(check_options(o, t->nranks));
    TRY(trainer_read_feeds(t));
    t->nsteps = o->nsteps;
    for (size_t i = 0; i < t->nsets && !o->nsteps; i++) {
        if (t->sets[i].nsteps > t->nsteps) t->nsteps = t->sets[i].nsteps;
    }
    if (!t->nsteps) t->nsteps = 1;
    return trainer_check_steps(t);
}

/* --- plans -----------------------------------------------------------------------------------------------------------
 */

static bool same_values(const weft_feed_type *a, const weft_feed_type *b) {
    size_t count = 1;
    for (size_t i = 0; i < a->ndim; i++) count *= (size_t)a->dims[i];
    if (!a->values || !b->values) return a->values == b->values;
    return memcmp(a->values, b->values, count * sizeof *a->values) == 0;
}

static bool same_types(const weft_feed_type *a, size_t na, const weft_feed_type *b, size_t nb) {
    if (na != nb) return false;
    for (size_t i = 0; i < na; i++) {
        if (strcmp(a[i].name, b[i].name) != 0 || a[i].dtype != b[i].dtype || a[i].ndim != b[i].ndim ||
            memcmp(a[i].dims, b[i].dims, a[i].ndim * sizeof *a[i].dims) != 0) {
            return false;
        }
        if (!same_values(&a[i], &b[i])) return false;
    }
    return true;
}

/* Plans what each rank runs. Ranks that run the same program on the same types share one plan. */
static weft_status make_plans(weft_trainer *t) {
    weft_plan_options *options = ARENA_ARRAY(&t->arena, weft_plan_options, t->nranks);
    t->plans = ARENA_ARRAY(&t->arena, weft_plan *, t->nranks);
    if (!options || !t->plans) return base_out_of_memory();
    bool equal = t->options.nprograms == 1;
    for (int r = 0; r < t->nranks; r++) {
        weft_feed_type *types;
        const char **names;
        TRY(trainer_feed_types(t, r, &types, &options[r].nfeeds));
        TRY(trainer_fetch_names(t, r, &names, &options[r].nfetches));
        options[r].feeds = types;
        options[r].fetches = names;
        equal = equal && same_types(options[0].feeds, options[0].nfeeds, types, options[r].nfeeds);
    }
    t->nplans = equal ? 1 : (size_t)t->nranks;
    for (size_t p = 0; p < t->nplans; p++) {
        TRY(weft_plan_create(trainer_program(t, (int)p), &options[p], &t->plans[p]));
    }
    return NULL;
}

static weft_status make_executor(weft_trainer *t) {
    weft_executor_options options = t->options.executor;
    if (options.trace && options.trace_steps <= 0) {
        options.trace_steps = t->nsteps > INT32_MAX ? INT32_MAX : (int)t->nsteps;
    }
    const weft_plan **plans = ARENA_ARRAY(&t->arena, const weft_plan *, t->nplans);
    if (!plans) return base_out_of_memory();
    for (size_t p = 0; p < t->nplans; p++) plans[p] = t->plans[p];
    return weft_executor_create(t->context, plans, t->nplans, t->nranks, &options, &t->executor);
}

weft_status weft_trainer_create(weft_context *context, const weft_trainer_options *options,
                                weft_trainer **out_trainer) {
    weft_trainer *t = base_alloc(&context->allocator, sizeof *t);
    if (!t) return base_out_of_memory();
    *t = (weft_trainer){.context = context, .options = *options};
    arena_init(&t->arena, &context->allocator);
    weft_status status = NULL;
    TRY_DONE(begin(t));
    TRY_DONE(make_plans(t));
    TRY_DONE(make_executor(t));
    TRY_DONE(trainer_bind_feeds(t));
    TRY_DONE(trainer_set_params(t));
    TRY_DONE(trainer_bind_fetches(t));
    *out_trainer = t;
    t = NULL;
done:
    weft_trainer_destroy(t);
    return status;
}

void weft_trainer_destroy(weft_trainer *t) {
    if (!t) return;
    weft_executor_destroy(t->executor);
    for (size_t p = 0; p < t->nplans; p++) weft_plan_destroy(t->plans[p]);
    arena_fini(&t->arena);
    base_free(&t->context->allocator, t, sizeof *t);
}

weft_status weft_trainer_step(weft_trainer *t, size_t step) {
    if (step >= t->nsteps) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "step %zu of %zu", step, t->nsteps);
    }
    trainer_feed_step(t, step);
    return weft_executor_run(t->executor);
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
