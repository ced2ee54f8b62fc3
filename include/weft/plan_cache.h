/* weft/plan_cache.h: one program for feeds of many shapes. Each shape has a plan and an executor, made when it is first
 * fed, kept while it is in use.
 *
 * A plan holds for one shape of what is fed, to the last byte. A program with extents of -1 (a batch, a length) needs
 * one for each shape. A cache keeps the last few. What lives across steps (parameters, optimizer state) is one and the
 * same for all of them. It stays when a plan goes. Use it from one thread at a time. */
#ifndef WEFT_PLAN_CACHE_H
#define WEFT_PLAN_CACHE_H

#include "weft/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_plan_cache weft_plan_cache;

enum { WEFT_PLAN_CACHE_CAPACITY = 8 }; /* by default */

typedef struct weft_plan_cache_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_PLAN_CACHE_OPTIONS_INIT */
    const weft_program *const *programs; /* one for all ranks, or one each; borrowed while the cache lives */
    size_t nprograms;
    int nranks; /* 0: as many as programs */

    /* Vars to keep until the end of a step, on every rank whose program has them ("V#rows" keeps V). Borrowed during
     * the call. None: what the programs' fetch ops fetch. */
    const char *const *fetches;
    size_t nfetches;

    /* As in weft_plan_options, one for each program; NULL: none. Needs executor.unsafe. Borrowed while the cache
     * lives. */
    const weft_plan_order *const *orders;
    size_t capacity; /* how many plans are kept; 0 means WEFT_PLAN_CACHE_CAPACITY */
    /* Bytes that kept plans' executors may hold together beside parameters and state; 0: no limit. The one in use stays
     * even if it is larger. */
    int64_t max_nbytes;
    const weft_executor_options *executor; /* NULL: the defaults */
} weft_plan_cache_options;
#define WEFT_PLAN_CACHE_OPTIONS_INIT .struct_nbytes = sizeof(weft_plan_cache_options)

typedef struct weft_plan_cache_stats {
    size_t nhits, nmisses, nevictions; /* since the cache was made */
    size_t nplans;                     /* shapes kept now */
    int64_t nbytes;                    /* of their executors, without the state */
    int64_t state_nbytes;              /* what all share */
} weft_plan_cache_stats;

/* Plans nothing yet. */
WEFT_MUST_USE weft_status weft_plan_cache_create(weft_context *context, const weft_plan_cache_options *options,
                                                 weft_plan_cache **out_cache);
void weft_plan_cache_destroy(weft_plan_cache *cache); /* NULL is fine */

/* The executor for feeds of these types: `feeds` has 1 entry (every rank is fed alike) or one per rank. If it is there,
 * that costs comparing types, and nothing is allocated. If not, the programs are planned. That takes about as long as
 * weft_plan_create and weft_executor_create do. The least recently used go until the limits hold. The executor is
 * borrowed until the next call. A failed call leaves the cache as it was, up to plans that went to make room. The
 * executor of the call before stays usable. Feeds are set, and fetches read, in the executor that is returned; a
 * persistable may be set in any. Steps of random ops are counted by executor: see weft_executor_set_step. */
WEFT_MUST_USE weft_status weft_plan_cache_get(weft_plan_cache *cache, const weft_feed_types *feeds, size_t nfeeds,
                                              weft_executor **out_executor);

void weft_plan_cache_get_stats(const weft_plan_cache *cache, weft_plan_cache_stats *out_stats);

#ifdef __cplusplus
}
#endif
#endif
