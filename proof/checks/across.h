/* across.h: order of two launches of one rank that comes from other ranks: a collective is complete only when all of
 * its members have reached it. What they launch behind it may be what this rank waits for later. */
#ifndef PROOF_CHECKS_ACROSS_H
#define PROOF_CHECKS_ACROSS_H

#include "proof/checks/ranks.h"

typedef struct across {
    const proof_ranks *ranks;
    arena *arena;
    arena *scratch;      /* of who asks, empty between questions; NULL: each has its own */
    uint32_t **turns;    /* by class, by collective: its number on its ring; made when first asked for */
    uint32_t **blockers; /* by class, by event: what the host waited for last before it; PROOF_NONE */
    uint32_t **previous; /* by class, by event: the one before on its stream; PROOF_NONE */
    key_set seen;        /* launches that one search has met */
    uint64_t *stack;
    size_t nstack, stack_capacity;
    size_t nasked;
    size_t nsteps; /* of all searches: there is an end to them */
} across;

WEFT_MUST_USE weft_status across_begin(across *x, const proof_ranks *ranks, arena *a);
/* Whether `earlier` is complete before `later` starts, in one step, on every rank of a class. False too if that takes
 * too long to say. */
WEFT_MUST_USE weft_status across_orders(across *x, uint32_t class, uint32_t earlier, uint32_t later, bool *out);

#endif
