/* plugin.c: what weft_cuda.so shows. */
#include "executor/devices/plugin.h"

#include <stdio.h>

#include "executor/comm/nccl/library.h"
#include "executor/devices/cuda/cuda.h"

/* What fails says why the device is not usable. */
static bool is_well(cudaError_t result, const char *call, char *out, size_t nbytes) {
    if (cuda_result(result)) snprintf(out, nbytes, "%s: %s", call, cuda.GetErrorString(result));
    return !result;
}

static bool describe(char *out, size_t nbytes) {
    int n, runtime = 0, driver = 0, major = 0, minor = 0;
    if (!cuda_probe(&n, out, nbytes)) return false;
    bool all = is_well(cuda.RuntimeGetVersion(&runtime), "cudaRuntimeGetVersion", out, nbytes) &&
               is_well(cuda.DriverGetVersion(&driver), "cudaDriverGetVersion", out, nbytes);
    all = all && is_well(cuda.DeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0),
                         "cudaDeviceGetAttribute", out, nbytes);
    all = all && is_well(cuda.DeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0),
                         "cudaDeviceGetAttribute", out, nbytes);
    if (!all) return false;
    snprintf(out, nbytes, "%d.%d, driver for %d.%d, %d device%s, the first sm_%d%d", runtime / 1000,
             runtime % 1000 / 10, driver / 1000, driver % 1000 / 10, n, n == 1 ? "" : "s", major, minor);
    return true;
}

static const device_engine *engine(const device_services *given) {
    services = given;
    return &device_cuda;
}

const device_plugin *weft_device_plugin(void);
__attribute__((visibility("default"))) const device_plugin *weft_device_plugin(void) {
    static const device_plugin plugin = {.abi = DEVICE_PLUGIN_ABI,
                                         .executor_nbytes = sizeof(weft_executor),
                                         .call_nbytes = sizeof(device_call),
                                         .world_nbytes = sizeof(comm_world),
                                         .version = WEFT_VERSION,
                                         .describe = describe,
                                         .describe_comm = nccl_describe,
                                         .engine = engine};
    return &plugin;
}
