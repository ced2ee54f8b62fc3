/* plan_cache.c: plans and executors by the types of what is fed, the least recently used going first.
 *
 * The idea: few shapes are in use at a time, so entries are an array that is searched from end to end; comparing types
 * is nothing beside a step. Each entry owns its plans and its executor; all executors have one state (state.h), which
 * the cache holds too, so that it outlives every entry.
 *
 * The invariant: the entry that was returned last is not destroyed before another has been made. So a caller whose
 * request fails can go on with what it has. */
#include "train/plan_cache.h"

static weft_status check_options(const weft_plan_cache_options *o) {
    if (!o->nprograms || !o->programs) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "no program to run");
    if (o->nranks < 1)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", o->nranks);
    if (o->nprograms == 1 || o->nprograms == (size_t)o->nranks) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu programs for %d ranks: expected 1 or %d", o->nprograms,
                              o->nranks, o->nranks);
}

/* They are borrowed by the caller only for a while. */
static weft_status copy_fetches(weft_plan_cache *c, const weft_plan_cache_options *o) {
    const char **names = ARENA_ARRAY(&c->arena, const char *, o->nfetches + 1);
    if (!names) return base_out_of_memory();
    for (size_t i = 0; i < o->nfetches; i++)
        if (!(names[i] = arena_string(&c->arena, o->fetches[i], strlen(o->fetches[i])))) return base_out_of_memory();
    c->options.fetches = names;
    return NULL;
}

static weft_status begin(weft_plan_cache *c) {
    weft_plan_cache_options *o = &c->options;
    if (o->nranks < 1) o->nranks = (int)o->nprograms;
    if (!o->capacity) o->capacity = WEFT_PLAN_CACHE_CAPACITY;
    TRY(check_options(o));
    c->first_rank = o->executor->host ? o->executor->host->first_rank : 0;
    c->nlocal = o->executor->host ? o->executor->host->nlocal : o->nranks;
    size_t room;
    if (!base_add(o->capacity, 1, &room)) return base_out_of_memory();
    c->entries = ARENA_ARRAY(&c->arena, cache_entry *, room);
    const weft_program **programs = arena_copy(&c->arena, o->programs, o->nprograms * sizeof *o->programs);
    if (!c->entries || !programs) return base_out_of_memory();
    o->programs = programs;
    TRY(copy_fetches(c, o));
    return executor_state_create(c->context, o->executor->device, o->nranks, &c->state);
}

weft_status weft_plan_cache_create(weft_context *context, const weft_plan_cache_options *options,
                                   weft_plan_cache **out_cache) {
    weft_plan_cache *c = base_alloc(&context->allocator, sizeof *c);
    if (!c) return base_out_of_memory();
    *c = (weft_plan_cache){.context = context};
    arena_init(&c->arena, &context->allocator);
    weft_status status = base_take_struct("weft_plan_cache_options", &c->options, sizeof c->options, options);
    if (!status)
        status = base_take_struct("weft_executor_options", &c->executor, sizeof c->executor, c->options.executor);
    c->options.executor = &c->executor;
    if (!status) status = begin(c);
    if (status) {
        weft_plan_cache_destroy(c);
        return status;
    }
    *out_cache = c;
    return NULL;
}

/* --- entries ------------------------------------------------------------------------------------------------------ */

static void entry_destroy(const weft_plan_cache *c, cache_entry *e) {
    if (!e) return;
    weft_executor_destroy(e->executor);
    weft_plans_destroy(c->context, e->plans, e->nplans);
    arena_fini(&e->arena);
    base_free(&c->context->allocator, e, sizeof *e);
}

void weft_plan_cache_destroy(weft_plan_cache *c) {
    if (!c) return;
    for (size_t i = 0; i < c->nentries; i++) entry_destroy(c, c->entries[i]);
    executor_state_release(c->state);
    arena_fini(&c->arena);
    base_free(&c->context->allocator, c, sizeof *c);
}

static weft_status keep_types(cache_entry *e, const weft_feed_types *feeds, size_t nfeeds) {
    e->feeds = ARENA_ARRAY(&e->arena, weft_feed_types, nfeeds);
    if (!e->feeds) return base_out_of_memory();
    e->nfeeds = nfeeds;
    for (size_t i = 0; i < nfeeds; i++) TRY(plan_copy_feeds(&e->arena, &feeds[i], &e->feeds[i]));
    return NULL;
}

static weft_status make_plans(const weft_plan_cache *c, cache_entry *e) {
    const weft_plan_cache_options *o = &c->options;
    size_t first = o->nprograms == 1 ? 0 : (size_t)c->first_rank; /* of this process */
    weft_plans_options options = {WEFT_PLANS_OPTIONS_INIT,
                                  .programs = o->programs + first,
                                  .nprograms = o->nprograms == 1 ? 1 : (size_t)c->nlocal,
                                  .nranks = c->nlocal,
                                  .feeds = e->feeds,
                                  .nfeeds = e->nfeeds,
                                  .fetches = o->fetches,
                                  .nfetches = o->nfetches,
                                  .orders = o->orders ? o->orders + first : NULL};
    return weft_plans_create(c->context, &options, &e->plans, &e->nplans);
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void evict(weft_plan_cache *c) {
    size_t oldest = 0;
    for (size_t i = 1; i < c->nentries; i++)
        if (c->entries[i]->used < c->entries[oldest]->used) oldest = i;
    c->stats.nevictions++;
    context_log(c->context, WEFT_NOTE, "plans", "the one used least recently goes, with %lld bytes",
                (long long)c->entries[oldest]->nbytes);
    c->stats.nbytes -= c->entries[oldest]->nbytes;
    entry_destroy(c, c->entries[oldest]);
    c->entries[oldest] = c->entries[--c->nentries];
}

/* Until at most `count` are left and they leave room for `nbytes`; the one asked for last stays. */
static void make_room(weft_plan_cache *c, size_t count, int64_t nbytes) {
    int64_t most = c->options.max_nbytes;
    while (c->nentries > 1 && (c->nentries > count || (most > 0 && c->stats.nbytes > most - nbytes))) evict(c);
}

/* What the executor will need, nearly: its scratch is known when it is made. */
static int64_t planned_nbytes(const weft_plan_cache *c, const cache_entry *e) {
    int64_t nbytes = 0;
    for (int r = 0; r < c->nlocal; r++) nbytes += e->plans[e->nplans == 1 ? 0 : r]->temporary_nbytes;
    return nbytes;
}

static weft_status add_entry(weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds, uint64_t of_all,
                             cache_entry **out_entry) {
    const weft_allocator *a = &c->context->allocator;
    cache_entry *e = base_alloc(a, sizeof *e);
    if (!e) return base_out_of_memory();
    *e = (cache_entry){.used = c->clock, .of_all = of_all};
    arena_init(&e->arena, a);
    weft_status status = NULL;
    TRY_DONE(keep_types(e, feeds, nfeeds));
    TRY_DONE(make_plans(c, e));
    make_room(c, c->options.capacity - 1, planned_nbytes(c, e));
    TRY_DONE(executor_create(c->context, (const weft_plan *const *)e->plans, e->nplans, c->options.nranks, &c->executor,
                             c->state, &e->executor));
    e->nbytes = executor_own_nbytes(e->executor);
    c->stats.nbytes += e->nbytes;
    c->entries[c->nentries++] = e;
    context_log(c->context, WEFT_NOTE, "plans", "made one for another shape of feeds: %zu instructions, %lld bytes",
                e->plans[0]->ninstrs, (long long)e->nbytes);
    *out_entry = e;
    e = NULL;
    make_room(c, c->options.capacity, 0);
done:
    entry_destroy(c, e);
    return status;
}

static cache_entry *find_entry(const weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds, uint64_t of_all) {
    for (size_t i = 0; i < c->nentries; i++) {
        bool same = c->entries[i]->nfeeds == nfeeds && c->entries[i]->of_all == of_all;
        for (size_t k = 0; k < nfeeds && same; k++) same = plan_same_feeds(&c->entries[i]->feeds[k], &feeds[k]);
        if (same) return c->entries[i];
    }
    return NULL;
}

weft_status plan_cache_get(weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds, uint64_t of_all,
                           cache_entry **out_entry) {
    if (nfeeds != 1 && nfeeds != (size_t)c->nlocal)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed types of %zu ranks: expected 1 or %d", nfeeds,
                                  c->nlocal);
    cache_entry *e = find_entry(c, feeds, nfeeds, of_all);
    c->clock++;
    if (e) {
        c->stats.nhits++;
        e->used = c->clock;
        *out_entry = e;
        return NULL;
    }
    c->stats.nmisses++;
    return add_entry(c, feeds, nfeeds, of_all, out_entry);
}

weft_status weft_plan_cache_get(weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds,
                                weft_executor **out_executor) {
    cache_entry *e;
    TRY(plan_cache_get(c, feeds, nfeeds, 0, &e));
    *out_executor = e->executor;
    return NULL;
}

void weft_plan_cache_get_stats(const weft_plan_cache *c, weft_plan_cache_stats *out_stats) {
    *out_stats = c->stats;
    out_stats->nplans = c->nentries;
    out_stats->state_nbytes = executor_state_nbytes(c->state);
}
