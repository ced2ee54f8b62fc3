/* plan_cache.c: plans and executors by the types of what is fed, the least recently used going first.
 *
 * The idea: few shapes are in use at a time, so entries are an array that is searched from end to end; comparing types
 * is nothing beside a step. Each entry owns its plans and its executor; all executors have one state (state.h), which
 * the cache holds too, so that it outlives every entry.
 *
 * The invariant: the entry that was returned last is not destroyed before another has been made, so a caller whose
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

/* The name without "#rows", where it has that and the program no var of the full name. */
static const char *kept_name(arena *a, const weft_program *p, const char *n) {
    size_t nbytes = strlen(n), suffix = strlen("#rows");
    bool is_rows = nbytes > suffix && strcmp(n + nbytes - suffix, "#rows") == 0;
    if (is_rows && !weft_block_find_var(p->blocks[0], n)) nbytes -= suffix;
    return arena_string(a, n, nbytes);
}

static weft_status find_fetches(weft_plan_cache *c, const weft_plan_cache_options *o) {
    c->fetches = ARENA_ARRAY(&c->arena, const char **, o->nprograms);
    c->nfetches = ARENA_ARRAY(&c->arena, size_t, o->nprograms);
    if (!c->fetches || !c->nfetches) return base_out_of_memory();
    for (size_t p = 0; p < o->nprograms; p++) {
        c->fetches[p] = ARENA_ARRAY(&c->arena, const char *, o->nfetches ? o->nfetches : 1);
        if (!c->fetches[p]) return base_out_of_memory();
        for (size_t i = 0; i < o->nfetches; i++) {
            const char *kept = kept_name(&c->arena, o->programs[p], o->fetches[i]);
            if (!kept) return base_out_of_memory();
            if (weft_block_find_var(o->programs[p]->blocks[0], kept)) c->fetches[p][c->nfetches[p]++] = kept;
        }
    }
    return NULL;
}

static weft_status begin(weft_plan_cache *c) {
    weft_plan_cache_options *o = &c->options;
    if (o->nranks < 1) o->nranks = (int)o->nprograms;
    if (!o->capacity) o->capacity = WEFT_PLAN_CACHE_CAPACITY;
    TRY(check_options(o));
    size_t room;
    if (!base_add(o->capacity, 1, &room)) return base_out_of_memory();
    c->entries = ARENA_ARRAY(&c->arena, cache_entry *, room);
    const weft_program **programs = arena_copy(&c->arena, o->programs, o->nprograms * sizeof *o->programs);
    if (!c->entries || !programs) return base_out_of_memory();
    o->programs = programs;
    TRY(find_fetches(c, o));
    o->fetches = NULL;
    return executor_state_create(&c->context->allocator, o->nranks, &c->state);
}

weft_status weft_plan_cache_create(weft_context *context, const weft_plan_cache_options *options,
                                   weft_plan_cache **out_cache) {
    weft_plan_cache *c = base_alloc(&context->allocator, sizeof *c);
    if (!c) return base_out_of_memory();
    *c = (weft_plan_cache){.context = context, .options = *options};
    arena_init(&c->arena, &context->allocator);
    weft_status status = begin(c);
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
    for (size_t p = 0; p < e->nplans; p++) weft_plan_destroy(e->plans[p]);
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

static size_t count_elements(const weft_feed_type *t) {
    size_t count = 1;
    for (size_t i = 0; i < t->ndim; i++) count *= (size_t)t->dims[i];
    return count;
}

static bool same_type(const weft_feed_type *a, const weft_feed_type *b) {
    if (a->dtype != b->dtype || a->ndim != b->ndim || memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) != 0)
        return false;
    if (strcmp(a->name, b->name) != 0) return false;
    if (!a->values || !b->values) return a->values == b->values;
    return memcmp(a->values, b->values, count_elements(a) * sizeof *a->values) == 0;
}

static bool same_types(const weft_feed_types *a, const weft_feed_types *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!same_type(&a->items[i], &b->items[i])) return false;
    return true;
}

static weft_status copy_types(arena *a, const weft_feed_types *from, weft_feed_types *to) {
    weft_feed_type *items = ARENA_ARRAY(a, weft_feed_type, from->count ? from->count : 1);
    if (!items) return base_out_of_memory();
    if (from->count) memcpy(items, from->items, from->count * sizeof *items);
    for (size_t i = 0; i < from->count; i++) {
        weft_feed_type *t = &items[i];
        t->name = arena_string(a, t->name, strlen(t->name));
        if (!t->name) return base_out_of_memory();
        if (!t->values) continue;
        t->values = arena_copy(a, t->values, count_elements(t) * sizeof *t->values);
        if (!t->values) return base_out_of_memory();
    }
    *to = (weft_feed_types){items, from->count};
    return NULL;
}

static weft_status keep_types(cache_entry *e, const weft_feed_types *feeds, size_t nfeeds) {
    e->feeds = ARENA_ARRAY(&e->arena, weft_feed_types, nfeeds);
    if (!e->feeds) return base_out_of_memory();
    e->nfeeds = nfeeds;
    for (size_t i = 0; i < nfeeds; i++) TRY(copy_types(&e->arena, &feeds[i], &e->feeds[i]));
    return NULL;
}

/* Ranks that run the same program on the same types share one plan. */
static weft_status make_plans(const weft_plan_cache *c, cache_entry *e) {
    const weft_plan_cache_options *o = &c->options;
    bool equal = o->nprograms == 1;
    for (size_t i = 1; i < e->nfeeds && equal; i++) equal = same_types(&e->feeds[0], &e->feeds[i]);
    size_t nplans = equal ? 1 : (size_t)o->nranks;
    e->plans = ARENA_ARRAY(&e->arena, weft_plan *, nplans);
    if (!e->plans) return base_out_of_memory();
    for (; e->nplans < nplans; e->nplans++) {
        size_t program = o->nprograms == 1 ? 0 : e->nplans;
        const weft_feed_types *feeds = &e->feeds[e->nfeeds == 1 ? 0 : e->nplans];
        weft_plan_options options = {.feeds = feeds->items,
                                     .nfeeds = feeds->count,
                                     .fetches = c->fetches[program],
                                     .nfetches = c->nfetches[program],
                                     .order = o->orders ? o->orders[program] : NULL};
        TRY(weft_plan_create(o->programs[program], &options, &e->plans[e->nplans]));
    }
    return NULL;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static void evict(weft_plan_cache *c) {
    size_t oldest = 0;
    for (size_t i = 1; i < c->nentries; i++)
        if (c->entries[i]->used < c->entries[oldest]->used) oldest = i;
    c->stats.nevictions++;
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
    for (int r = 0; r < c->options.nranks; r++) nbytes += e->plans[e->nplans == 1 ? 0 : r]->temporary_nbytes;
    return nbytes;
}

static weft_status add_entry(weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds, cache_entry **out_entry) {
    const weft_allocator *a = &c->context->allocator;
    cache_entry *e = base_alloc(a, sizeof *e);
    if (!e) return base_out_of_memory();
    *e = (cache_entry){.used = c->clock};
    arena_init(&e->arena, a);
    weft_status status = NULL;
    TRY_DONE(keep_types(e, feeds, nfeeds));
    TRY_DONE(make_plans(c, e));
    make_room(c, c->options.capacity - 1, planned_nbytes(c, e));
    TRY_DONE(executor_create(c->context, (const weft_plan *const *)e->plans, e->nplans, c->options.nranks,
                             &c->options.executor, c->state, &e->executor));
    e->nbytes = executor_own_nbytes(e->executor);
    c->stats.nbytes += e->nbytes;
    c->entries[c->nentries++] = e;
    *out_entry = e;
    e = NULL;
    make_room(c, c->options.capacity, 0);
done:
    entry_destroy(c, e);
    return status;
}

static cache_entry *find_entry(const weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds) {
    for (size_t i = 0; i < c->nentries; i++) {
        bool same = c->entries[i]->nfeeds == nfeeds;
        for (size_t k = 0; k < nfeeds && same; k++) same = same_types(&c->entries[i]->feeds[k], &feeds[k]);
        if (same) return c->entries[i];
    }
    return NULL;
}

weft_status plan_cache_get(weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds, cache_entry **out_entry) {
    if (nfeeds != 1 && nfeeds != (size_t)c->options.nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed types of %zu ranks: expected 1 or %d", nfeeds,
                                  c->options.nranks);
    cache_entry *e = find_entry(c, feeds, nfeeds);
    c->clock++;
    if (e) {
        c->stats.nhits++;
        e->used = c->clock;
        *out_entry = e;
        return NULL;
    }
    c->stats.nmisses++;
    return add_entry(c, feeds, nfeeds, out_entry);
}

weft_status weft_plan_cache_get(weft_plan_cache *c, const weft_feed_types *feeds, size_t nfeeds,
                                weft_executor **out_executor) {
    cache_entry *e;
    TRY(plan_cache_get(c, feeds, nfeeds, &e));
    *out_executor = e->executor;
    return NULL;
}

void weft_plan_cache_get_stats(const weft_plan_cache *c, weft_plan_cache_stats *out_stats) {
    *out_stats = c->stats;
    out_stats->nplans = c->nentries;
    out_stats->state_nbytes = executor_state_nbytes(c->state);
}
