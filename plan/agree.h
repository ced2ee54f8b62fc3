/* agree.h: before the first step: do the ranks agree on what they communicate? */
#ifndef PLAN_AGREE_H
#define PLAN_AGREE_H

#include "plan/rings.h"

/* A rank: its plan and that plan's rings, each of which has the rank in its list. */
typedef struct agree_rank {
    const weft_plan *plan;
    const plan_rings *rings;
} agree_rank;

/* How participants tell each other: each speaks for `count` neighbouring ranks from `first` on. */
typedef struct agree_exchange {
    int nranks, first, count;
    /* `mine`: nbytes for each of this participant's ranks; `all`: nbytes for each rank, in order. All participants call
     * with the same nbytes, in the same order. */
    weft_status (*run)(void *user, const void *mine, size_t nbytes, void *all);
    void *user;
} agree_exchange;

/* All members of every ring have the same list of its ranks and run the same collectives on it, in the same order. If
 * not, every participant gets the same status, which names ring, position and both ops. Called by all participants, each
 * with its `ranks`; looks at nothing of other ranks but what they give. */
WEFT_MUST_USE weft_status plan_agree(const weft_allocator *allocator, const agree_rank *ranks,
                                     const agree_exchange *gather);

/* --- between the files of agreement ------------------------------------------------------------------------------- */

/* A ring on which members differ, as all participants know it. */
typedef struct agree_ring {
    const agree_rank *ranks;
    const agree_exchange *gather;
    arena *scratch;
    int64_t id, nmembers;
    const int64_t *members;
} agree_ring;

/* agree_pairs.c: of the sends and receives of member `index` on a ring: adds up to 0 (mod 2^64) over the members if the
 * n-th that one sends another is the n-th that this one receives. Both must be of as many elements of one type. */
uint64_t agree_balance_of_pairs(const weft_plan *plan, const plan_ring *ring, int index);
/* Words for the first that do not fit. */
WEFT_MUST_USE weft_status agree_describe_pairs(const agree_ring *r);

#endif
