/* agree.h: before the first step: do the ranks agree on what they communicate? */
#ifndef EXECUTOR_AGREE_H
#define EXECUTOR_AGREE_H

#include "executor/executor.h"

/* All members of every ring have the same list of its ranks and run the same collectives on it, in the same order. If
 * not, every process gets the same status, which names ring, position and both ops. Called by all processes
 * of the world, each for its ranks of `x`; looks at nothing of other ranks but what they give. */
WEFT_MUST_USE weft_status agree_on_collectives(const weft_executor *x, comm_world *world);

#endif
