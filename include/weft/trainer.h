/* weft/trainer.h: what `weft run` does: programs, parameters and feeds become plans, ranks and steps; results come
 * back.
 *
 * A trainer plans each program, makes an executor, and gives every rank its part of the parameters and feeds. It runs
 * steps, and joins what ranks hold into whole tensors. It borrows programs, parameters and feeds until it is destroyed.
 * Use it from one thread at a time; the ranks' own threads are the executor's.
 *
 * It trains what it is given: ask weft_verify_replicas (weft/verify.h) first, as `weft run` does, whether the replicas
 * of a program stay equal.
 *
 * With executor.host (weft/processes.h) it has some of the ranks. Each process makes a trainer of the same options and
 * calls the same functions in the same order. Making it, steps, scalars, results and states of all ranks wait for the
 * other processes. What is of one rank can be had where that rank is. */
#ifndef WEFT_TRAINER_H
#define WEFT_TRAINER_H

#include "weft/plan_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_trainer weft_trainer;

typedef struct weft_trainer_options {
    size_t struct_nbytes;                /* weft/status.h: begin with WEFT_TRAINER_OPTIONS_INIT */
    const weft_program *const *programs; /* one for all ranks, or one each; NULL: of a rank of another process */
    size_t nprograms;
    int nranks; /* 0: as many as programs */

    /* What persistables hold before the first step: from `state`, else `params`, else what a startup program writes.
     * One that a step reads before it writes it must be in one of them, or fed; more than is needed is fine.
     *
     * startups: programs that initialise. One that does not communicate runs on a rank of its own and makes whole
     * tensors. One that does runs on all ranks, as do several, one each. Then each rank keeps what it made. They run
     * once, when the trainer is made, with the seed of `executor`: the same seed gives the same values, equal on all
     * ranks. params: whole tensors by name; a rank's slice follows from the var's dist attr. state: what
     * weft_trainer_state gave. One set of whole tensors, or with state_per_rank one set a rank, as
     * weft_trainer_rank_state gave it, taken as it is. Any may be NULL; they are not used any more once the first plan
     * has been made. */
    const weft_program *const *startups;
    size_t nstartups; /* 0, 1 or nranks */
    const weft_tensors *params;
    const char *params_place; /* the file, for messages; may be NULL */
    const weft_tensors *const *state;
    bool state_per_rank;
    const char *state_place;

    /* Feeds: keys "STEP/NAME", or "NAME" for the same value every step; NAME is any var of block 0, and overrides the
     * parameter of that name. NULL: none. One set holds the global batch: a rank's part follows from the var's dist
     * attr. Without one, rows are split over all ranks where dim 0 is the largest dim 0 of the feeds. Persistables and
     * others are given whole. With feeds_per_rank there is one set a rank, given as it is. A feed may have another
     * shape in another step where its var has an extent of -1: see plan_capacity. */
    const weft_tensors *const *feeds;
    bool feeds_per_rank;

    /* Vars to fetch. None: what the program's fetch ops fetch, named "fetch.0", "fetch.1", ... by column. */
    const char *const *fetches;
    size_t nfetches;

    /* Steps are first_step, first_step + 1, ...: the STEP of feeds, and what random ops draw by. To go on where a run
     * of k steps ended, give its state and first_step k. The result is that of one run, to the bit. */
    size_t first_step;
    size_t nsteps; /* 0: as many as the feeds have from first_step on, else 1 */
    /* How many shapes of the feeds are kept planned: the least recently used goes (weft/plan_cache.h). 0: the
     * default. */
    size_t plan_capacity;
    /* As in weft_plan_options, one for each program; NULL: none. Needs executor.unsafe. They must outlive the
     * trainer. */
    const weft_plan_order *const *orders;
    const weft_executor_options *executor; /* NULL: the defaults. trace_steps 0: all steps */
} weft_trainer_options;
#define WEFT_TRAINER_OPTIONS_INIT .struct_nbytes = sizeof(weft_trainer_options)

/* Errors name the thing. Examples are a feed that no program has, or of the wrong dtype or shape, and a missing
 * parameter with the op that reads it. Others are a ring without the rank that uses it, ranks that disagree on
 * collectives, and an op without kernel. */
WEFT_MUST_USE weft_status weft_trainer_create(weft_context *context, const weft_trainer_options *options,
                                              weft_trainer **out_trainer);
void weft_trainer_destroy(weft_trainer *trainer);

size_t weft_trainer_first_step(const weft_trainer *trainer);
size_t weft_trainer_nsteps(const weft_trainer *trainer); /* how many from there */
int weft_trainer_nranks(const weft_trainer *trainer);
bool weft_trainer_has_rank(const weft_trainer *trainer, int rank); /* in this process */
/* Those of the last step (at first of the first); borrowed until a step is fed another shape. For timelines, times and
 * overlap: they cover the steps of that shape. */
weft_executor *weft_trainer_executor(const weft_trainer *trainer);
const weft_plan *weft_trainer_plan(const weft_trainer *trainer, int rank);
/* The plans of the shapes that were fed so far. Borrowed. */
const weft_plan_cache *weft_trainer_plan_cache(const weft_trainer *trainer);

/* Feeds step `step` (one of nsteps from first_step on) and runs it on all ranks. Allocates nothing if it is fed in the
 * shape of the step before, or in one that is still planned. */
WEFT_MUST_USE weft_status weft_trainer_step(weft_trainer *trainer, size_t step);

/* Says what the next step is fed, in the forms of weft_trainer_options.feeds, without step numbers in its keys. It is
 * for hosts that read or make their data while they train. Steps may have any number from then on. The trainer is made
 * with the feeds of the first step. The tensors are borrowed until the next call. Another shape finds its plan, or has
 * one made, in the step. Allocates. */
WEFT_MUST_USE weft_status weft_trainer_feed(weft_trainer *trainer, const weft_tensors *const *feeds, bool per_rank);

/* Between steps: gives a persistable (a learning rate, say) a new value on all ranks; each takes its part of a whole
 * tensor. A learning rate that the program computes is what it computes. */
WEFT_MUST_USE weft_status weft_trainer_set(weft_trainer *trainer, const char *name, const weft_tensor *whole);
WEFT_MUST_USE weft_status weft_trainer_set_scalar(weft_trainer *trainer, const char *name, double value);

/* Whether the run ends here because some process wants it to, as this one does with `wants`. Called by every process
 * after each step. They ask one another some ten times a second, so all end behind the same step, not at once. One that
 * has all ranks asks nobody. */
WEFT_MUST_USE weft_status weft_trainer_stops(weft_trainer *trainer, bool wants, bool *out_stops);

/* What is fetched, in order. */
size_t weft_trainer_nfetches(const weft_trainer *trainer);
const char *weft_trainer_fetch_name(const weft_trainer *trainer, size_t index);
/* The value of a fetch on one rank after the last step; borrowed until the next. NULL data: that rank has no such var.
 */
WEFT_MUST_USE weft_status weft_trainer_fetch(const weft_trainer *trainer, int rank, size_t index,
                                             weft_tensor *out_tensor);
/* The same as a number; false unless the rank has it and it is one element of a real type. */
bool weft_trainer_fetch_scalar(const weft_trainer *trainer, int rank, size_t index, double *out_value);
/* All of them after the last step: nfetches * nranks, those of one fetch side by side. Where ranks are in several
 * processes, each process calls it, and gets those of all. */
typedef struct weft_scalar {
    double value;
    bool is_there;
} weft_scalar;
WEFT_MUST_USE weft_status weft_trainer_fetch_scalars(weft_trainer *trainer, weft_scalar *out_scalars);

/* After the last step, by name: every persistable of any rank, and every fetch. Sharded ones are joined by dist attr.
 * Other persistables are those of the lowest rank that uses them. Other fetches are rank 0's, or else those of the
 * lowest rank that has them. A SelectedRows var V has "V#rows" too. The caller destroys the set. Copies all of it. */
WEFT_MUST_USE weft_status weft_trainer_result(const weft_trainer *trainer, weft_tensors **out_tensors);
/* The same of one rank, as that rank holds it. */
WEFT_MUST_USE weft_status weft_trainer_rank_result(const weft_trainer *trainer, int rank, weft_tensors **out_tensors);
/* The persistables alone: parameters, optimizer state and whatever else lives across steps; of all ranks, or of one.
 * What options.state takes. Some persistables are no replicas and have no sharded dist attr: gradients that ranks add
 * up for themselves, statistics of a rank's batch. Only a state per rank keeps them. */
WEFT_MUST_USE weft_status weft_trainer_state(const weft_trainer *trainer, weft_tensors **out_tensors);
WEFT_MUST_USE weft_status weft_trainer_rank_state(const weft_trainer *trainer, int rank, weft_tensors **out_tensors);

#ifdef __cplusplus
}
#endif
#endif
