/* exact.h: programs whose steps are exact. So two of them compute the same if and only if the same numbers come out, of
 * the inputs that were tried: a recorded program without the ops that round. What those wrote is fed instead, what a
 * better optimizer did sgd does, with a rate of 1/4; all inputs are -2, -1, 1 and 2, all factors powers of two. */
#ifndef TESTS_SUPPORT_EXACT_H
#define TESTS_SUPPORT_EXACT_H

#include "plan/plan.h"
#include "weft/executor.h"
#include "weft/tensor.h"

enum { EXACT_MOST_RANKS = 8 };

typedef struct exact_world {
    weft_program *programs[EXACT_MOST_RANKS]; /* by rank */
    int nranks;                               /* 0: there is no such fixture */
} exact_world;

/* Programs as recorded: FOLDER/rankN.pdmodel, or FOLDER/before.fx.json for all ranks. */
void world_load(exact_world *w, weft_context *context, const char *folder);
/* One with reduces and broadcasts (exact_made.c). */
void world_make_owners(exact_world *w, weft_context *context);
/* Leaves out of every program what rounds. */
void world_make_exact(exact_world *w);
/* Runs a pass list on every program. */
void world_pass(exact_world *w, const char *list);
bool world_try_pass(exact_world *w, const char *list); /* false: a pass refuses */
void world_clone(const exact_world *from, exact_world *out);
void world_free(exact_world *w);

/* What two steps on all ranks leave: persistables and fetches. */
typedef struct exact_result {
    weft_tensors *ranks[EXACT_MOST_RANKS]; /* NULL: it does not run */
    int nranks;
    char why_not[300];
} exact_result;

/* With a delay the plans have the stated waits only. */
void world_run(const exact_world *w, const weft_delay *delay, exact_result *out);
/* The plan that such a run has of a rank. */
WEFT_MUST_USE weft_status world_plan_in_order(const exact_world *w, int rank, weft_plan **out);
/* The same with plans by rank. */
void world_run_plans(const exact_world *w, weft_plan *const *plans, const weft_delay *delay, exact_result *out);
/* Whether all numbers are finite: what overflowed says nothing. */
bool result_is_finite(const exact_result *r);
void result_free(exact_result *r);
/* Whether both ran and every value of `expected` is the same number in `found`; else which in `out`. */
bool result_equal(const exact_result *expected, const exact_result *found, char *out, size_t room);

#endif
