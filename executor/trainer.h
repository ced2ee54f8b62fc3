/* trainer.h: the structs behind weft/trainer.h, shared by trainer*.c. */
#ifndef EXECUTOR_TRAINER_H
#define EXECUTOR_TRAINER_H

#include "executor/executor.h"
#include "executor/slice.h"
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
    int64_t batch; /* the largest dim 0 of values that are not persistable */
} trainer_feeds;

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
    size_t nsteps;
    trainer_feeds *sets;
    size_t nsets; /* 1, or nranks */
    weft_plan **plans;
    size_t nplans; /* 1, or nranks */
    weft_executor *executor;
    feed_target *targets; /* of all ranks */
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

/* --- trainer_feed.c ----------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status trainer_read_feeds(weft_trainer *t);
/* Every feed has a value for every step. */
WEFT_MUST_USE weft_status trainer_check_steps(const weft_trainer *t);
/* The types that `rank` is fed, for its plan. */
WEFT_MUST_USE weft_status trainer_feed_types(weft_trainer *t, int rank, weft_feed_type **out_types, size_t *out_ntypes);
WEFT_MUST_USE weft_status trainer_bind_feeds(weft_trainer *t);
void trainer_feed_step(weft_trainer *t, size_t step);
bool trainer_is_fed(const weft_trainer *t, int rank, const char *n);

/* --- trainer_params.c --------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status trainer_set_params(weft_trainer *t);

/* --- trainer_fetch.c ---------------------------------------------------------------------------------------------- */
/* The vars that the plan of `rank` must keep. */
WEFT_MUST_USE weft_status trainer_fetch_names(weft_trainer *t, int rank, const char ***out_names, size_t *out_nnames);
WEFT_MUST_USE weft_status trainer_bind_fetches(weft_trainer *t);

#endif
