/* weft/trainer.h: what `weft run` does: programs, parameters and feeds become plans, ranks and steps; results come
 * back.
 *
 * A trainer plans each program, makes an executor, gives every rank its part of the parameters and feeds, runs steps,
 * and joins what ranks hold into whole tensors. It borrows programs, parameters and feeds until it is destroyed. Use it
 * from one thread at a time; the ranks' own threads are the executor's. */
#ifndef WEFT_TRAINER_H
#define WEFT_TRAINER_H

#include "weft/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_trainer weft_trainer;

typedef struct weft_trainer_options {
    const weft_program *const *programs; /* one for all ranks, or one each */
    size_t nprograms;
    int nranks; /* 0: as many as programs */

    /* Whole tensors by name; a rank's slice follows from the var's dist attr. More than is needed is fine. A
     * persistable that a step reads before it writes it must be here or fed. May be NULL. */
    const weft_tensors *params;
    const char *params_place; /* the file, for messages; may be NULL */

    /* Feeds: keys "STEP/NAME", or "NAME" for the same value every step; NAME is any var of block 0, and overrides the
     * parameter of that name. NULL: none. One set holds the global batch: a rank's part follows from the var's dist
     * attr; without one, rows are split over all ranks where dim 0 is the largest dim 0 of the feeds (and the var is
     * not persistable), else the whole is given. With feeds_per_rank there is one set a rank, given as it is. */
    const weft_tensors *const *feeds;
    bool feeds_per_rank;

    /* Vars to fetch. None: what the program's fetch ops fetch, named "fetch.0", "fetch.1", ... by column. */
    const char *const *fetches;
    size_t nfetches;

    size_t nsteps;                  /* 0: as many as the feeds have, else 1 */
    weft_executor_options executor; /* trace_steps 0: all steps */
} weft_trainer_options;

/* Errors name the thing: a feed that no program has or of the wrong dtype or shape, a missing parameter and the op that
 * reads it, a ring without the rank that uses it, ranks that disagree on collectives, an op without kernel. */
WEFT_MUST_USE weft_status weft_trainer_create(weft_context *context, const weft_trainer_options *options,
                                              weft_trainer **out_trainer);
void weft_trainer_destroy(weft_trainer *trainer);

size_t weft_trainer_nsteps(const weft_trainer *trainer);
int weft_trainer_nranks(const weft_trainer *trainer);
/* Borrowed: for timelines, times and overlap. */
weft_executor *weft_trainer_executor(const weft_trainer *trainer);
const weft_plan *weft_trainer_plan(const weft_trainer *trainer, int rank);

/* Feeds step `step` (0, 1, ... below weft_trainer_nsteps) and runs it on all ranks. Allocates nothing. */
WEFT_MUST_USE weft_status weft_trainer_step(weft_trainer *trainer, size_t step);

/* What is fetched, in order. */
size_t weft_trainer_nfetches(const weft_trainer *trainer);
const char *weft_trainer_fetch_name(const weft_trainer *trainer, size_t index);
/* The value of a fetch on one rank after the last step; borrowed until the next. NULL data: that rank has no such var.
 */
WEFT_MUST_USE weft_status weft_trainer_fetch(const weft_trainer *trainer, int rank, size_t index,
                                             weft_tensor *out_tensor);
/* The same as a number; false unless the rank has it and it is one element of a real type. */
bool weft_trainer_fetch_scalar(const weft_trainer *trainer, int rank, size_t index, double *out_value);

/* After the last step, by name: every persistable of any rank (sharded ones joined by dist attr, others from the lowest
 * rank that uses them) and every fetch (joined by dist attr, else rank 0's, else the lowest rank's that has it; of a
 * SelectedRows var V also "V#rows"). The caller destroys the set. Copies all of it. */
WEFT_MUST_USE weft_status weft_trainer_result(const weft_trainer *trainer, weft_tensors **out_tensors);
/* The same of one rank, as that rank holds it. */
WEFT_MUST_USE weft_status weft_trainer_rank_result(const weft_trainer *trainer, int rank, weft_tensors **out_tensors);

#ifdef __cplusplus
}
#endif
#endif
