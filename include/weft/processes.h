/* weft/processes.h: a run whose ranks are in several processes, on one host or many.
 *
 * Processes are started by a launcher (mpirun, srun, `weft run --launch`) and joined by a plugin that is opened at run
 * time: weft_mpi.so, looked for in the folders of WEFT_PLUGIN_PATH (apart by ':'), beside the program that this library is
 * part of, beside the library, and in ../lib/weft of either. The library itself needs no MPI. */
#ifndef WEFT_PROCESSES_H
#define WEFT_PROCESSES_H

#include <stdbool.h>

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_processes weft_processes;
struct comm_host;

/* Whether a launcher has started this process as one of several, by its environment. */
bool weft_processes_launched(void);

/* Joins the others: every process of the launcher's calls it, once. Blocks until they do. */
WEFT_MUST_USE weft_status weft_processes_join(weft_context *context, weft_processes **out_processes);
int weft_processes_index(const weft_processes *processes); /* of this one; 0 speaks for all */
int weft_processes_count(const weft_processes *processes);

/* For weft_executor_options.host: which of a run's `nranks` this process has, at least one of them. Each process has as
 * many as the others, or one more; ranks are in the order of processes. Every process asks for the same. Borrowed. */
WEFT_MUST_USE weft_status weft_processes_host(weft_processes *processes, int nranks,
                                              const struct comm_host **out_host);

/* The last call, when everything that was made of the host has been destroyed. Waits `timeout_seconds` for the others:
 * where one does not come, because it was killed or has stopped, it ends all processes of the run, this one too, with
 * `exit_status` (1 where that is 0). NULL is fine. */
void weft_processes_leave(weft_processes *processes, int exit_status, double timeout_seconds);

#ifdef __cplusplus
}
#endif
#endif
