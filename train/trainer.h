/* trainer.h: the structs behind weft/trainer.h, shared by trainer*.c. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "plan/feeds.h"
#include "train/plan_cache.h"
#include "weft/trainer.h"

/* A feed on one rank, resolved: what to copy where. */
typedef struct feed_target {
    const feed_value *feed;
    int rank;
    int32_t value; /* of the rank's plan */
    slice part;
    bool once; /* the same every step, and no step writes it */
} feed_target;

typedef struct trainer_fetch {
    const char *name;
    int32_t *values; /* by rank of this process; -1: the rank has none */
} trainer_fetch;

/* A recurrent layer's buffer of weights: the names of both. */
typedef struct flat_weights {
    const char *name;
    const char **parts;
    size_t nparts;
} flat_weights;

struct weft_trainer {
    weft_context *context;
    weft_executor_options executor_options;
    weft_trainer_options options; /* its `executor` is the field before */
    arena arena;
    int nranks;             /* of the run */
    int first_rank, nlocal; /* those of this process */
    size_t first_step, nsteps;
    weft_feeds *feeds;
    weft_trainer *startup; /* has run the startup programs; NULL: none, or no longer needed */
    weft_plan_cache *cache;
    size_t bound_shape; /* what the following is for; SIZE_MAX: none */
    weft_plan **plans;
    size_t nplans; /* 1, or nlocal */
    weft_executor *executor;
    feed_target *targets; /* of all ranks of this process; room for every feed */
    size_t ntargets, target_capacity;
    bool is_fed;  /* by weft_trainer_feed: the feeds are of the next step, whatever its number */
    bool has_fed; /* the targets that are set once */
    trainer_fetch *fetches;
    size_t nfetches;
    bool *has_fetch;      /* scratch: of this process's ranks, then of all */
    weft_scalar *scalars; /* likewise, nfetches of each; NULL: not asked for yet */
    flat_weights *flats;
    size_t nflats, flats_capacity;
    int32_t nuntil_asked; /* steps until processes ask who wants to stop */
};

static inline const weft_program *trainer_program(const weft_trainer *t, int rank) {
    return t->options.programs[t->options.nprograms == 1 ? 0 : rank];
}
static inline const weft_plan *trainer_plan(const weft_trainer *t, int rank) {
    return t->plans[t->nplans == 1 ? 0 : rank - t->first_rank];
}

/* --- train/trainer.c -------------------------------------------------------------------------------------------- */
/* A trainer with its feeds and a cache of plans; it has none yet. */
WEFT_MUST_USE weft_status trainer_begin(weft_context *context, const weft_trainer_options *options,
                                        weft_trainer **out_trainer);
/* Plans the first step, and gives persistables what they hold before it. */
WEFT_MUST_USE weft_status trainer_bind_first(weft_trainer *t);

/* --- train/feed.c ----------------------------------------------------------------------------------------------- */
/* Where a step's feeds go in the executor at hand. Allocates once. */
WEFT_MUST_USE weft_status trainer_bind_feeds(weft_trainer *t, size_t step);
WEFT_MUST_USE weft_status trainer_feed_step(weft_trainer *t, size_t step);
bool trainer_is_fed(const weft_trainer *t, int rank, const char *n);

/* --- train/shapes.c --------------------------------------------------------------------------------------------- */
/* Numbers the shapes of feeds as all processes see them. The first step's stays 0. All processes call it, once. */
WEFT_MUST_USE weft_status trainer_agree_on_shapes(weft_trainer *t);

/* --- train/startup.c -------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status trainer_run_startup(weft_trainer *t);

/* --- train/params.c --------------------------------------------------------------------------------------------- */
/* Sets what the executor at hand has in no earlier one's state. */
WEFT_MUST_USE weft_status trainer_set_params(weft_trainer *t);
/* What was given for a persistable before the first step, as a whole; false: nothing, or the rank's own part. */
bool trainer_find_whole(const weft_trainer *t, int rank, const char *n, weft_tensor *out);

/* --- train/flat_weights.c ---------------------------------------------------------------------------------------- */
/* Looks for the buffers of weights among what was given before the first step. */
WEFT_MUST_USE weft_status trainer_find_flat_weights(weft_trainer *t);
/* Writes them anew from the weights in the set. */
void trainer_put_flat_weights(const weft_trainer *t, weft_tensors *set);

/* --- train/fetch.c ---------------------------------------------------------------------------------------------- */
/* Where the fetches are in the executor at hand. Allocates once. */
WEFT_MUST_USE weft_status trainer_bind_fetches(weft_trainer *t);

#endif
