/* plans.c: the plans of all ranks: ranks that run the same program on the same types share one. */
#include "plan/plan.h"

static weft_status check_options(const weft_plans_options *o, int nranks) {
    if (!o->nprograms || !o->programs) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "no program to run");
    if (nranks < 1) return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d ranks: expected at least 1", nranks);
    if (o->nprograms != 1 && o->nprograms != (size_t)nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%zu programs for %d ranks: expected 1 or %d",
                                  o->nprograms, nranks, nranks);
    if (o->nfeeds > 1 && o->nfeeds != (size_t)nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "feed types of %zu ranks: expected 1 or %d", o->nfeeds,
                                  nranks);
    return NULL;
}

/* --- types -------------------------------------------------------------------------------------------------------- */

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

bool plan_same_feeds(const weft_feed_types *a, const weft_feed_types *b) {
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!same_type(&a->items[i], &b->items[i])) return false;
    return true;
}

weft_status plan_copy_feeds(arena *a, const weft_feed_types *from, weft_feed_types *to) {
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

/* --- fetches ------------------------------------------------------------------------------------------------------ */

/* The name without "#rows", where it has that and the program no var of the full name. */
static const char *kept_name(arena *a, const weft_program *p, const char *n) {
    size_t nbytes = strlen(n), suffix = strlen("#rows");
    bool is_rows = nbytes > suffix && strcmp(n + nbytes - suffix, "#rows") == 0;
    if (is_rows && !weft_block_find_var(p->blocks[0], n)) nbytes -= suffix;
    return arena_string(a, n, nbytes);
}

/* The vars that the plans of one program keep. */
static weft_status find_fetches(const weft_plans_options *o, const weft_program *p, arena *a, const char ***out,
                                size_t *out_count) {
    const char **names = ARENA_ARRAY(a, const char *, o->nfetches + 1);
    size_t n = 0;
    if (!names) return base_out_of_memory();
    for (size_t i = 0; i < o->nfetches; i++) {
        const char *kept = kept_name(a, p, o->fetches[i]);
        if (!kept) return base_out_of_memory();
        if (block_find_used(p->blocks[0], kept)) names[n++] = kept;
    }
    *out = names;
    *out_count = n;
    return NULL;
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

static weft_status make_plan(const weft_plans_options *o, size_t rank, arena *scratch, weft_plan **out) {
    size_t program = o->nprograms == 1 ? 0 : rank;
    const weft_feed_types *feeds = o->nfeeds ? &o->feeds[o->nfeeds == 1 ? 0 : rank] : NULL;
    const char **fetches = NULL;
    weft_plan_options options = {WEFT_PLAN_OPTIONS_INIT, .feeds = feeds ? feeds->items : NULL,
                                 .nfeeds = feeds ? feeds->count : 0, .order = o->orders ? o->orders[program] : NULL};
    TRY(find_fetches(o, o->programs[program], scratch, &fetches, &options.nfetches));
    options.fetches = fetches;
    return weft_plan_create(o->programs[program], &options, out);
}

static bool can_share(const weft_plans_options *o) {
    bool equal = o->nprograms == 1;
    for (size_t i = 1; i < o->nfeeds && equal; i++) equal = plan_same_feeds(&o->feeds[0], &o->feeds[i]);
    return equal;
}

weft_status weft_plans_create(weft_context *context, const weft_plans_options *options, weft_plan ***out_plans,
                              size_t *out_nplans) {
    weft_plans_options taken, *o = &taken;
    TRY(base_take_struct("weft_plans_options", &taken, sizeof taken, options));
    int nranks = o->nranks > 0 ? o->nranks : (int)o->nprograms;
    TRY(check_options(o, nranks));
    size_t nplans = can_share(o) ? 1 : (size_t)nranks;
    weft_plan **plans = base_alloc(&context->allocator, nplans * sizeof *plans);
    if (!plans) return base_out_of_memory();
    memset(plans, 0, nplans * sizeof *plans);
    arena scratch;
    arena_init(&scratch, &context->allocator);
    weft_status status = NULL;
    for (size_t p = 0; p < nplans && !status; p++) status = make_plan(o, p, &scratch, &plans[p]);
    arena_fini(&scratch);
    if (status) {
        weft_plans_destroy(context, plans, nplans);
        return status;
    }
    *out_plans = plans;
    *out_nplans = nplans;
    return NULL;
}

void weft_plans_destroy(weft_context *context, weft_plan **plans, size_t nplans) {
    for (size_t p = 0; plans && p < nplans; p++) weft_plan_destroy(plans[p]);
    base_free(&context->allocator, plans, nplans * sizeof *plans);
}
