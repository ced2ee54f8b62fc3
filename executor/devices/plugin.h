/* plugin.h: devices that are opened at run time, so that nothing else needs their libraries.
 *
 * A plugin is a shared object weft_NAME.so with one symbol, DEVICE_PLUGIN_SYMBOL, a function that gives a
 * device_plugin. It has copies of what it uses of the folders below executor/; what it needs of the executor is handed
 * to it. Both sides must be of the same build. */
#ifndef EXECUTOR_DEVICES_PLUGIN_H
#define EXECUTOR_DEVICES_PLUGIN_H

#include "executor/comm/comm.h"
#include "executor/devices/call.h"

/* Counted up when anything changes that both sides see. */
enum { DEVICE_PLUGIN_ABI = 2 };

/* What the executor does for a device of a plugin: functions of device.h, executor.h, watchdog.h and call.h. */
typedef struct device_services {
    void (*fail)(weft_executor *x, int rank, const plan_instr *instr, weft_status status);
    weft_status (*call_make)(const device_run *run, const rank_state *rank, device_instr *i, int nthreads,
                             device_call *out);
    void (*locate)(const rank_state *rank, device_instr *i);
    int64_t (*watched_begin)(const struct watched *w);
    void (*watched_end)(const struct watched *w, int64_t start_ns);
    bool (*kernel_is_there)(int row);
    weft_status (*measure)(device *d, int nthreads, struct roofline *out_roofline);
    comm_host (*local_host)(int nranks);
} device_services;

typedef struct device_plugin {
    uint32_t abi;                                        /* DEVICE_PLUGIN_ABI */
    uint32_t executor_nbytes, call_nbytes, world_nbytes; /* sizeof weft_executor, device_call, comm_world */
    const char *version;                                 /* of Weft */
    /* Whether the device, and the communicator that goes with it, can be used, and which they are; else why not. No
     * lasting effect. */
    bool (*describe)(char *out, size_t nbytes);
    bool (*describe_comm)(char *out, size_t nbytes);
    const device_engine *(*engine)(const device_services *services); /* services live as long as the process */
} device_plugin;

typedef const device_plugin *device_plugin_fn(void);
#define DEVICE_PLUGIN_SYMBOL "weft_device_plugin"

/* --- devices/plugin.c: the executor's side ------------------------------------------------------------------------ */

/* The plugin of device "cuda", opened once; NULL: there is none, and *out_why, which nobody frees, says why. */
const device_plugin *device_plugin_cuda(const char **out_why);
const device_engine *device_plugin_engine(const device_plugin *plugin);

#endif
