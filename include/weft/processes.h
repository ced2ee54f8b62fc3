/* weft/processes.h: a run whose ranks are in several processes, on one host or many.
 *
 * A launcher starts the processes: mpirun, srun or `weft run --launch`. A plugin that is opened at run time joins them:
 * weft_mpi.so. It is looked for in the folders of WEFT_PLUGIN_PATH (apart by ':'), beside the program, beside the
 * library, and in ../lib/weft of either. The library itself needs no MPI. */
#ifndef WEFT_PROCESSES_H
#define WEFT_PROCESSES_H

#include <stdbool.h>

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_processes weft_processes;
struct comm_host;

/* Whether a launcher of MPI's kind has started this process as one of several, by its environment. torchrun is none:
 * its processes know no MPI. */
bool weft_processes_launched(void);

/* Joins the others: every process of the launcher's calls it, once. Blocks until they do. */
WEFT_MUST_USE weft_status weft_processes_join(weft_context *context, weft_processes **out_processes);
int weft_processes_index(const weft_processes *processes); /* of this one; 0 speaks for all */
int weft_processes_count(const weft_processes *processes);
/* Whether a launcher that has made weft_flights, on this machine, has started this process. */
bool weft_processes_watched(const weft_processes *processes);
/* Whether no other process of such a launcher's has told this text before: of an error that all have, one is enough.
 * Without such a launcher true. */
bool weft_processes_tells_first(weft_processes *processes, const char *text);

/* Who adds up between processes. Before weft_processes_host; the same in all processes. ORDERED, the default: Weft, in
 * the order of a ring's ranks, so that results have the bits of thread ranks. LIBRARY: MPI's own all_reduce, reduce and
 * reduce_scatter, in an order of its choice. That can be faster, with several ranks a process above all; bits
 * differ from those of ORDERED and may from run to run. Up to 8 KiB, what is no sum or average, and what MPI has no
 * type for stay ORDERED. */
typedef enum weft_collectives { WEFT_COLLECTIVES_ORDERED, WEFT_COLLECTIVES_LIBRARY } weft_collectives;
void weft_processes_set_collectives(weft_processes *processes, weft_collectives how);

/* For weft_executor_options.host: which of a run's `nranks` this process has, at least one of them. Each process has as
 * many as the others, or one more; ranks are in the order of processes. Every process asks for the same. Borrowed. */
WEFT_MUST_USE weft_status weft_processes_host(weft_processes *processes, int nranks, const struct comm_host **out_host);

/* The same as numbers. */
void weft_processes_ranks(const weft_processes *processes, int nranks, int *out_first, int *out_nlocal);

/* The last call, when everything that was made of the host has been destroyed. Waits `timeout_seconds` for the others.
 * One may not come, because it was killed or has stopped. Then it ends all processes of the run, this one too, with
 * `exit_status` (1 where that is 0). NULL is fine. */
void weft_processes_leave(weft_processes *processes, int exit_status, double timeout_seconds);

/* --- for launchers: what processes of this machine are at, also when they are dead ---------------------------------
 */

typedef struct weft_flights weft_flights;
typedef struct weft_flight {
    long pid;
    char host[64];
    bool has_left; /* it ends by itself, with exit_status */
    int exit_status;
    char doing[500]; /* "rank 1, in c_allreduce_sum #3, ring 0, step 57" */
} weft_flight;

WEFT_MUST_USE weft_status weft_flights_create(int nprocesses, weft_flights **out_flights);
void weft_flights_destroy(weft_flights *flights); /* NULL is fine */
/* "NAME=VALUE", to be put into the environment of the processes. Returns its length, as snprintf. */
size_t weft_flights_variable(const weft_flights *flights, char *out, size_t nbytes);
/* False: process `index` has not come yet, or is on another machine. */
bool weft_flights_get(const weft_flights *flights, int index, weft_flight *out_flight);
/* Whether a rank waits in a collective for three times as long as it usually does, and for 50 ms at least. Then who
 * waits longest, and for whom, in words: "rank 0, c_allreduce_sum #3, ring 0: has waited 0.2 s (0.05 s are usual at
 * most) for rank 1 (pid 4711 on a, behind c_allreduce_sum #1, ring 0, step 57)". Usual is what 95 of the last 100 steps
 * stayed below. */
bool weft_flights_late(const weft_flights *flights, char *out, size_t nbytes);
/* The launcher hears of the death of process `index`, or cannot. Until then its ranks do not begin, for 5 s at most: of
 * two that die the launcher knows the first. */
void weft_flights_set_seen(weft_flights *flights, int index);

#ifdef __cplusplus
}
#endif
#endif
