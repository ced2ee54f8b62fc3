/* trainer.h: the structs behind weft/trainer.h, shared by trainer*.c. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "train/plan_cache.h"
#include "dist_attr/slice.h"
#include "weft/trainer.h"

/* One fed value: a tensor a step, or the same for every step. */
typedef struct trainer_feed {
    const char *name;
    bool is_rows;              /* "V#rows" of a SelectedRows var */
    const weft_tensor *always; /* NULL: none */
    const weft_tensor **steps; /* by step; NULL entries take `always` */
    size_t nsteps;
} trainer_feed;

/* All feeds of one set, that is of the global batch or of one rank. */
typedef struct trainer_feeds {
    trainer_feed *items;
    size_t count;
    size_t nsteps; /* the largest */
    int64_t batch; /* of the step at hand: the largest dim 0 of values that are not persistable */
} trainer_feeds;

/* Steps that are fed in the same shapes: one plan holds for them. */
typedef struct trainer_shape {
    size_t step;            /* the first of them */
    weft_feed_types *types; /* by rank */
} trainer_shape;

/* A feed on one rank, resolved: what to copy where. */
typedef struct feed_target {
    const trainer_feed *feed;
    tensor to;
    slice part;
    bool once; /* the same every step, and no step writes it */
} feed_target;

typedef struct trainer_fetch {
    const char *name;
    int32_t *values; /* by rank; -1: the rank has none */
} trainer_fetch;

struct weft_trainer {
    weft_context *context;
    weft_trainer_options options;
    arena arena;
    int nranks;
    size_t first_step, nsteps;
    trainer_feeds *sets;
    size_t nsets; /* 1, or nranks */
    trainer_shape *shapes;
    size_t nshapes;
    uint32_t *shape_of;    /* by step from first_step */
    weft_trainer *startup; /* has run the startup programs; NULL: none, or no longer needed */
    weft_plan_cache *cache;
    size_t bound_shape; /* what the following is for; SIZE_MAX: none */
    weft_plan **plans;
    size_t nplans; /* 1, or nranks */
    weft_executor *executor;
    feed_target *targets; /* of all ranks; room for every feed */
    size_t ntargets;
    bool has_fed; /* the targets that are set once */
    trainer_fetch *fetches;
    size_t nfetches;
};

static inline const weft_program *trainer_program(const weft_trainer *t, int rank) {
    return t->options.programs[t->options.nprograms == 1 ? 0 : rank];
}
static inline const trainer_feeds *trainer_set(const weft_trainer *t, int rank) {
    return &t->sets[t->nsets == 1 ? 0 : rank];
}
static inline const weft_plan *trainer_plan(const weft_trainer *t, int rank) {
    return t->plans[t->nplans == 1 ? 0 : rank];
}

/* --- train/feed.c ----------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status trainer_read_feeds(weft_trainer *t);
/* Every feed has a value for every step. */
WEFT_MUST_USE weft_status trainer_check_steps(const weft_trainer *t);
/* The tensor of a feed in a step, or NULL. */
const weft_tensor *trainer_fed(const trainer_feed *f, size_t step);
/* What the batch is in a step: before the two that follow. */
void trainer_set_batch(weft_trainer *t, size_t step);
/* The types that `rank` is fed in a step, for its plan. */
WEFT_MUST_USE weft_status trainer_feed_types(weft_trainer *t, int rank, size_t step, weft_feed_types *out_types);
/* Where a step's feeds go in the executor at hand. Allocates once. */
WEFT_MUST_USE weft_status trainer_bind_feeds(weft_trainer *t, size_t step);
void trainer_feed_step(weft_trainer *t, size_t step);
bool trainer_is_fed(const weft_trainer *t, int rank, const char *n);

/* --- train/shapes.c --------------------------------------------------------------------------------------------- */
/* Which steps are fed alike, and the types that each rank is fed. */
WEFT_MUST_USE weft_status trainer_find_shapes(weft_trainer *t);

/* --- train/startup.c -------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status trainer_run_startup(weft_trainer *t);
/* What the startup programs wrote to a persistable; false if nothing. `out_is_part`: it is the rank's own part. */
bool trainer_startup_value(const weft_trainer *t, int rank, const char *n, weft_tensor *out_tensor, bool *out_is_part);

/* --- train/params.c --------------------------------------------------------------------------------------------- */
/* Sets what the executor at hand has in no earlier one's state. */
WEFT_MUST_USE weft_status trainer_set_params(weft_trainer *t);

/* --- train/fetch.c ---------------------------------------------------------------------------------------------- */
/* Where the fetches are in the executor at hand. Allocates once. */
WEFT_MUST_USE weft_status trainer_bind_fetches(weft_trainer *t);

#endif
