/* comm_conformance.h: what every engine of executor/comm/comm.h must do, run against any of them. */
#ifndef TESTS_SUPPORT_COMM_CONFORMANCE_H
#define TESTS_SUPPORT_COMM_CONFORMANCE_H

#include "executor/comm/comm.h"
#include "executor/device.h"

enum { COMM_MOST_RANKS = 16 };

/* Opens worlds of `nranks` ranks: those of the processes that are here, one or several in the order of their ranks. An
 * engine of real processes opens one in each, all of which run the conformance at the same time. */
typedef struct comm_factory {
    const char *name;
    weft_status (*open)(void *user, int nranks, comm_world **out_worlds, int *out_nworlds);
    void (*close)(void *user, comm_world **worlds, int nworlds);
    void *user;
    int most_ranks; /* that it can open: 4 at least */
    /* Of an engine that only enqueues: the request on a stream, its end waited for, then what comm_error says. NULL:
     * comm_run. And buffers that its streams reach, zeroed. NULL: those of the host. */
    weft_status (*perform)(comm_ring *ring, const comm_request *request);
    void *(*alloc)(size_t nbytes);
    void (*free)(void *bytes);
} comm_factory;

/* Counts checks; prints those that fail. */
void comm_conformance(const comm_factory *factory, int *out_passed, int *out_failed);

/* comm_programs.c: the same of programs with each kind of collective, on a device (engine; NULL: cpu), with rings of
 * the engine of that name (options.rings), and on the hosts of an engine that have all ranks (NULL: local).
 * compares_requests: rings say when members ask for different things; NCCL does not. */
void comm_programs(const device_engine *engine, const char *rings, comm_host (*host)(int nranks),
                   bool compares_requests, int *out_passed, int *out_failed);

#endif
