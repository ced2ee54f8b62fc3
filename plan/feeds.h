/* feeds.h: the structs behind weft/feeds.h, for those who copy what is fed (train/feed.c). */
#ifndef PLAN_FEEDS_H
#define PLAN_FEEDS_H

#include "dist_attr/slice.h"
#include "plan/plan.h"
#include "weft/feeds.h"

/* One fed value: a tensor a step, or the same for every step. */
typedef struct feed_value {
    const char *name;
    bool is_rows;              /* "V#rows" of a SelectedRows var */
    const weft_tensor *always; /* NULL: none */
    const weft_tensor **steps; /* by step; NULL entries take `always` */
    size_t nsteps;
    bool decides; /* a plan is made for each of its values: feed_decides.c */
} feed_value;

/* All feeds of one set, that is of the global batch or of one rank. */
typedef struct feed_set {
    feed_value *items;
    size_t count;
    size_t nsteps; /* the largest */
    int64_t batch; /* of the step at hand: the largest dim 0 of values that are not persistable */
} feed_set;

/* Steps that are fed in the same shapes: one plan holds for them. */
typedef struct feed_shape {
    size_t step;            /* the first of them */
    weft_feed_types *types; /* by rank */
} feed_shape;

struct weft_feeds {
    weft_context *context;
    weft_feeds_options options; /* with nranks and nsteps filled in */
    arena arena;
    feed_set *sets;
    size_t nsets; /* 1, or nranks */
    feed_shape *shapes;
    size_t nshapes;
    uint32_t *shape_of; /* by step from first_step; NULL: all have the first */
};

/* NULL: another process has it. */
static inline const weft_program *feeds_program(const weft_feeds *f, int rank) {
    return f->options.programs[f->options.nprograms == 1 ? 0 : rank];
}
static inline weft_var *feeds_find_var(const weft_program *p, const char *n) {
    return p ? weft_block_find_var(p->blocks[0], n) : NULL;
}
static inline const feed_set *feeds_of(const weft_feeds *f, int rank) {
    return &f->sets[f->nsets == 1 ? 0 : rank];
}

/* --- feed_parts.c ------------------------------------------------------------------------------------------------- */
/* The tensor of a value in a step, or NULL. */
const weft_tensor *feed_at(const feed_value *v, size_t step);
/* What the batch is in a step: before the two that follow. */
void feeds_set_batch(weft_feeds *f, size_t step);
/* Which part of a tensor that is fed to var `v` (NULL: none) a rank gets. */
WEFT_MUST_USE weft_status feeds_part(const weft_feeds *f, int rank, const weft_var *v, const weft_tensor *fed,
                                     slice *out);
/* The types that a rank is fed in a step, for its plan. */
WEFT_MUST_USE weft_status feeds_types(weft_feeds *f, int rank, size_t step, weft_feed_types *out_types);

/* --- feed_decides.c ----------------------------------------------------------------------------------------------- */
/* Which feeds decide how often a loop runs. */
WEFT_MUST_USE weft_status feeds_mark_deciding(weft_feeds *f);
/* An error where one may: a plan for its value may have more runs than a plan that knows none. */
WEFT_MUST_USE weft_status plan_require_undecided(const weft_program *p, arena *memory);

/* --- feed_shapes.c ------------------------------------------------------------------------------------------------ */
/* Which steps are fed alike, and the types that each rank is fed. */
WEFT_MUST_USE weft_status feeds_find_shapes(weft_feeds *f);

#endif
