/* plugin.c: opens the plugin of device "cuda" (executor/devices/plugin.h). */
#include "executor/devices/plugin.h"

#include <pthread.h>
#include <stdio.h>

#include "executor/devices/cpu/cpu.h"
#include "executor/plugin_file.h"
#include "executor/plugins.h"
#include "executor/watchdog.h"

static plugin_search cuda = {.file_name = "weft_cuda.so", .symbol = DEVICE_PLUGIN_SYMBOL};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool built_alike(const device_plugin *p) {
    return p->abi == DEVICE_PLUGIN_ABI && p->executor_nbytes == sizeof(weft_executor) &&
           p->call_nbytes == sizeof(device_call) && p->world_nbytes == sizeof(comm_world) &&
           strcmp(p->version, WEFT_VERSION) == 0;
}

static void find(void) {
    plugin_search_run(&cuda);
    const device_plugin *p = cuda.found;
    if (p && !built_alike(p)) plugin_search_differs(&cuda, p->abi, DEVICE_PLUGIN_ABI, p->version);
}

const device_plugin *device_plugin_cuda(const char **out_why) {
    pthread_once(&once, find);
    *out_why = cuda.why;
    return cuda.found;
}

static weft_status measure(device *d, int nthreads, struct roofline *out_roofline) {
    return device_cpu.measure(d, nthreads, out_roofline);
}

const device_engine *device_plugin_engine(const device_plugin *plugin) {
    static const device_services services = {.fail = executor_fail,
                                             .call_make = device_call_make,
                                             .locate = device_instr_locate,
                                             .watched_begin = watched_begin,
                                             .watched_end = watched_end,
                                             .kernel_is_there = kernel_is_there,
                                             .measure = measure,
                                             .local_host = comm_local_host};
    return plugin->engine(&services);
}

static bool describe(bool (*of_plugin)(char *out, size_t nbytes), const char *why, char *out, size_t nbytes) {
    if (of_plugin) return of_plugin(out, nbytes);
    snprintf(out, nbytes, "%s", why);
    return false;
}

bool plugin_cuda_describe(char *out, size_t nbytes) {
    const char *why;
    const device_plugin *p = device_plugin_cuda(&why);
    return describe(p ? p->describe : NULL, why, out, nbytes);
}

bool plugin_nccl_describe(char *out, size_t nbytes) {
    const char *why;
    const device_plugin *p = device_plugin_cuda(&why);
    return describe(p ? p->describe_comm : NULL, why, out, nbytes);
}
