/* plugin.h: engines of communicators that are opened at run time, so that nothing else links their library.
 *
 * A plugin is a shared object weft_NAME.so with one symbol, comm_plugin_symbol, a function that gives a comm_plugin. It
 * has copies of what it uses of Weft (statuses, reductions): both sides must be of the same build. */
#ifndef EXECUTOR_COMM_PLUGIN_H
#define EXECUTOR_COMM_PLUGIN_H

#include "executor/comm/comm.h"

/* Counted up when anything changes that both sides see: this file, comm.h, statuses, allocators. */
enum { COMM_PLUGIN_ABI = 3 };

/* What this process is among those of a run. */
typedef struct comm_process {
    int index, count; /* of processes; index 0 speaks for all */
    void *shared;     /* the plugin's */
} comm_process;

typedef struct comm_plugin {
    uint32_t abi;                          /* COMM_PLUGIN_ABI */
    uint32_t world_nbytes, request_nbytes; /* sizeof comm_world, comm_request */
    const char *version;                   /* of Weft */
    /* Which library it has found, in words; no lasting effect. */
    void (*describe)(char *out, size_t nbytes);
    /* Joins the processes that a launcher has started. Once a process. */
    weft_status (*join)(const weft_allocator *allocator, comm_process *out_process);
    /* This process's part of a run of `nranks`: equal for all. */
    weft_status (*host)(comm_process *process, int nranks, comm_host *out_host);
    /* After the worlds. Waits `timeout_seconds` for the others; if one does not come, or this one has failed, ends all
     * processes of the run with `exit_status` where that is not 0. */
    void (*leave)(comm_process *process, int exit_status, double timeout_seconds);
} comm_plugin;

typedef const comm_plugin *comm_plugin_fn(void);
#define COMM_PLUGIN_SYMBOL "weft_comm_plugin"

#endif
