/* clocks.h: how far the clocks of processes are apart. */
#ifndef EXECUTOR_CLOCKS_H
#define EXECUTOR_CLOCKS_H

#include "executor/comm/comm.h"

/* How much this process's clock is ahead of that of rank 0's process, and when, by its own. True within error_ns, if
 * clocks go evenly. */
typedef struct clock_reading {
    int64_t at_ns, ahead_ns, error_ns;
} clock_reading;

/* Called by all processes at the same time. `now` is the clock; a process that has all ranks is not ahead of itself.
 * Cost: some gathers of a few bytes. */
WEFT_MUST_USE weft_status clocks_compare(comm_world *world, double timeout_seconds, int64_t (*now)(void *user),
                                         void *user, clock_reading *out);

#endif
