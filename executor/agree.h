/* agree.h: before the first step: do the ranks agree on what they communicate? */
#ifndef EXECUTOR_AGREE_H
#define EXECUTOR_AGREE_H

#include "executor/executor.h"

/* All members of every ring have the same list of its ranks and run the same collectives on it, in the same order. If
 * not, every process gets the same status, which names ring, position and both ops. Called by all processes
 * of the world, each for its ranks of `x`; looks at nothing of other ranks but what they give. */
WEFT_MUST_USE weft_status agree_on_collectives(const weft_executor *x, comm_world *world);

/* --- between the files of agreement ------------------------------------------------------------------------------- */

/* A ring on which members differ, as all processes know it. */
typedef struct agree_ring {
    const weft_executor *x;
    comm_world *world;
    arena *scratch;
    int64_t id, nmembers;
    const int64_t *members;
} agree_ring;

/* Rank i of the process. */
static inline const rank_state *agree_rank(const weft_executor *x, const comm_world *world, int i) {
    return executor_rank(x, world->first_rank + i);
}
WEFT_MUST_USE weft_status agree_gather(const weft_executor *x, comm_world *world, const void *mine, size_t nbytes,
                                       void *all);

/* agree_pairs.c: of a rank's sends and receives on a ring: adds up to 0 (mod 2^64) over the members if the n-th that one
 * sends another is the n-th that this one receives, of as many elements of one type. */
uint64_t agree_balance_of_pairs(const rank_state *rank, const ring_use *u);
/* Words for the first that do not fit. */
WEFT_MUST_USE weft_status agree_describe_pairs(const agree_ring *r);

#endif
