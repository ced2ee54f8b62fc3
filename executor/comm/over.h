/* over.h: engines of worlds over another engine. The other one joins the ranks (local, mpi): it carries gathers, aborts
 * and alarms. Rings are the engine's own. */
#ifndef EXECUTOR_COMM_OVER_H
#define EXECUTOR_COMM_OVER_H

#include "executor/comm/comm.h"

/* Begins what an engine keeps of a world. */
typedef struct comm_over {
    comm_world *world;
    struct comm_over *next;
} comm_over;

/* Puts `own` in the place of the host's engine. Of its functions only create, destroy, ring_get and connect are
 * looked at: the rest is that of the host's. `own` lives as long as the process. */
WEFT_MUST_USE weft_status comm_over_host(const comm_world_engine *own, comm_host *host);

/* The world of the engine below, which `own` keeps with `over`; and its end. */
WEFT_MUST_USE weft_status comm_over_create(const weft_allocator *allocator, const comm_host *host, comm_over *over,
                                           comm_world **out_world);
void comm_over_destroy(comm_over *over);
/* What was kept of a world. Any thread. */
comm_over *comm_over_of(const comm_world *world);

#endif
