/* weft/feeds.h: what is fed in which step to which rank: tensors and programs become types that plans are made for.
 *
 * A plan holds for one shape of everything that is fed. Here steps are sorted by the shapes of their feeds, and the
 * part of each rank is found. With that its program can be planned (weft_plans_create in weft/plan.h). A trainer
 * does so for itself. A host that simulates needs it for programs with extents of -1. */
#ifndef WEFT_FEEDS_H
#define WEFT_FEEDS_H

#include "weft/plan.h"
#include "weft/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_feeds weft_feeds;

/* Programs and tensors are borrowed while the feeds live. */
typedef struct weft_feeds_options {
    size_t struct_nbytes;                /* weft/status.h: begin with WEFT_FEEDS_OPTIONS_INIT */
    const weft_program *const *programs; /* one for all ranks, or one each; NULL: of a rank of another process */
    size_t nprograms;
    int nranks; /* 0: as many as programs */
    /* Keys "STEP/NAME", or "NAME" for the same value every step; NAME is any var of block 0. One set holds the global
     * batch: a rank's part follows from the var's dist attr. Without one, rows are split over all ranks where dim 0 is
     * the largest dim 0 of the feeds. Persistables and others are given whole. With per_rank there is one set a rank,
     * given as it is. NULL: nothing is fed. */
    const weft_tensors *const *sets;
    bool per_rank;
    size_t first_step;
    size_t nsteps; /* 0: as many as the feeds have from first_step on, else 1 */
} weft_feeds_options;
#define WEFT_FEEDS_OPTIONS_INIT .struct_nbytes = sizeof(weft_feeds_options)

/* Errors name the feed: one that no program has, of the wrong dtype or shape, or without a value for a step. */
WEFT_MUST_USE weft_status weft_feeds_create(weft_context *context, const weft_feeds_options *options,
                                            weft_feeds **out_feeds);
void weft_feeds_destroy(weft_feeds *feeds); /* NULL is fine */

/* For a process that has ranks first_rank .. first_rank + nlocal - 1: reads a file of feeds of the global batch as far
 * as these are fed from it. That is the parts that they take in the steps of `options`, whose sets are not used. The
 * set has all tensors, but what is not of these parts holds nothing (weft_tensors_describe). */
WEFT_MUST_USE weft_status weft_feeds_load(weft_context *context, const char *path, const weft_feeds_options *options,
                                          int first_rank, int nlocal, weft_tensors **out_tensors);
/* The same of parameters, or of a state: those that the ranks' programs have. Of those that are sharded, along
 * whichever axes, it reads the ranks' parts. programs: one for all ranks, or one each. */
WEFT_MUST_USE weft_status weft_params_load(weft_context *context, const char *path, const weft_program *const *programs,
                                           size_t nprograms, int first_rank, int nlocal, weft_tensors **out_tensors);

size_t weft_feeds_nsteps(const weft_feeds *feeds); /* from first_step on */
/* Shapes in which steps are fed, numbered in order of their first step. */
size_t weft_feeds_nshapes(const weft_feeds *feeds);
/* The shape of step `step` (one of nsteps from first_step on). */
size_t weft_feeds_shape_of(const weft_feeds *feeds, size_t step);
/* What each rank is fed in shape `shape`: an entry a rank. Borrowed. */
const weft_feed_types *weft_feeds_types(const weft_feeds *feeds, size_t shape);

#ifdef __cplusplus
}
#endif
#endif
