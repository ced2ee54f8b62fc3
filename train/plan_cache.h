/* plan_cache.h: the struct behind weft/plan_cache.h, for the trainer. */
#ifndef TRAIN_PLAN_CACHE_H
#define TRAIN_PLAN_CACHE_H

#include "executor/state.h"
#include "weft/plan_cache.h"

/* One shape of the feeds: its types, plans and executor. */
typedef struct cache_entry {
    arena arena;            /* of the types */
    weft_feed_types *feeds; /* nfeeds of them: 1, or one per rank */
    size_t nfeeds;
    uint64_t of_all; /* what all ranks are fed, as a number */
    weft_plan **plans;
    size_t nplans; /* 1, or one per rank */
    weft_executor *executor;
    int64_t nbytes;
    uint64_t used; /* when it was asked for last */
    bool is_set;   /* for the owner of the cache: what the executor added to the state has its values */
} cache_entry;

struct weft_plan_cache {
    weft_context *context;
    arena arena;
    weft_executor_options executor;
    /* With the defaults filled in; its `executor` is the field before, fetches lie in the arena. */
    weft_plan_cache_options options;
    int first_rank, nlocal; /* the ranks of this process */
    executor_state *state;
    cache_entry **entries; /* room for capacity + 1 */
    size_t nentries;
    uint64_t clock; /* counts calls */
    weft_plan_cache_stats stats;
};

/* weft_plan_cache_get, with the plans. An entry is for one value of `of_all`: an executor runs beside those of other
 * processes, whose ranks may be fed in another shape where these are not. */
WEFT_MUST_USE weft_status plan_cache_get(weft_plan_cache *cache, const weft_feed_types *feeds, size_t nfeeds,
                                         uint64_t of_all, cache_entry **out_entry);

#endif
