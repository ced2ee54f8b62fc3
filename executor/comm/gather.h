/* gather.h: every rank's bytes to every rank, out of band: over no ring, before there are any, and with a time-out.
 * What ranks tell each other to find out whether they agree (executor/agree.c).
 *
 * A participant speaks for some neighbouring ranks: a process for those that are its threads. `local` joins
 * participants of one process, one for all ranks or a thread for each; an engine over processes implements the same
 * table, a participant a process (MPI_Allgatherv with a deadline). */
#ifndef EXECUTOR_COMM_GATHER_H
#define EXECUTOR_COMM_GATHER_H

#include "base/base.h"

typedef struct comm_gather {
    const struct comm_gather_engine *engine;
    int nranks;       /* of the world */
    int first, count; /* the ranks that this participant speaks for */
    void *shared;     /* the engine's */
} comm_gather;

typedef struct comm_gather_engine {
    const char *name;
    /* Blocks until all participants have called. `mine`: nbytes for each of this participant's ranks. `all`: nbytes for
     * each rank of the world, in order. All participants call with the same nbytes, in the same order. Whoever waits
     * too long gets a status that names the ranks that are missing; so do all others, and all later calls. */
    weft_status (*run)(comm_gather *g, const void *mine, size_t nbytes, void *all);
} comm_gather_engine;

static inline weft_status comm_gather_all(comm_gather *g, const void *mine, size_t nbytes, void *all) {
    return g->engine->run(g, mine, nbytes, all);
}

/* --- local: participants are threads of this process, or one that speaks for all ---------------------------------- */

typedef struct local_gather local_gather;

WEFT_MUST_USE weft_status local_gather_create(const weft_allocator *allocator, int nranks, double timeout_seconds,
                                              local_gather **out);
void local_gather_destroy(local_gather *shared); /* NULL is fine */
/* The participant for ranks first .. first + count - 1. Allocates nothing; nothing to undo. */
comm_gather local_gather_join(local_gather *shared, int first, int count);

#endif
