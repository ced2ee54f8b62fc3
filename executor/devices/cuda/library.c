#include "executor/devices/cuda/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

cuda_runtime cuda;

/* --- files -------------------------------------------------------------------------------------------------------- */

/* NULL: where the system looks. */
static void *open_in(const char *folder, const char *file, char *why, size_t nbytes) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", file);
    if (n < 0 || (size_t)n >= sizeof path) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed */
    const char *error = library ? NULL : dlerror();
    if (!library && !*why) snprintf(why, nbytes, "%s", error ? error : path);
    return library;
}

void *library_open(const char *const *names, char *why, size_t nbytes) {
    static const char *const folders[] = {NULL, "/usr/local/cuda/lib64", "/usr/local/cuda/lib"};
    const char *given = getenv("WEFT_CUDA_PATH");
    void *library = NULL;
    *why = '\0';
    if (given && !*given) given = NULL;
    for (; *names && !library; names++) {
        if (given) library = open_in(given, *names, why, nbytes);
        for (size_t i = 0; !given && !library && i < sizeof folders / sizeof *folders; i++)
            library = open_in(folders[i], *names, why, nbytes);
    }
    return library;
}

library_symbol_fn *library_symbol(void *library, const char *function) {
    union { /* ISO C has no cast from an object to a function */
        void *object;
        library_symbol_fn *call;
    } symbol = {dlsym(library, function)};
    return symbol.object ? symbol.call : NULL;
}

/* --- the runtime -------------------------------------------------------------------------------------------------- */

static char why_not[700];
static bool is_open;

static void open_runtime(void) {
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", NULL};
    void *library = library_open(names, why_not, sizeof why_not);
    if (!library) return;
    is_open = true;
#define CALL(name)                                                                                                     \
    cuda.name = (__typeof__(&cuda##name))library_symbol(library, "cuda" #name);                                        \
    if (!cuda.name && is_open) {                                                                                       \
        is_open = false;                                                                                               \
        snprintf(why_not, sizeof why_not, "the CUDA runtime is too old: it lacks cuda%s", #name);                      \
    }
#include "executor/devices/cuda/runtime.def"
#undef CALL
    /* CUDA 12 has what we call by this name. */
    library_symbol_fn *edges = library_symbol(library, "cudaGraphGetEdges_v2");
    if (edges) cuda.GraphGetEdges = (__typeof__(&cudaGraphGetEdges))edges;
}

/* Once a process. false: *out_why, which nobody frees, says why it cannot be used. */
static bool open_once(const char **out_why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_runtime);
    *out_why = why_not;
    return is_open;
}

bool cuda_probe(int *out_ndevices, char *why, size_t nbytes) {
    const char *no_runtime;
    if (!open_once(&no_runtime)) {
        snprintf(why, nbytes, "%s", no_runtime);
        return false;
    }
    int n = 0;
    cudaError_t result = cuda_result(cuda.GetDeviceCount(&n));
    if (result == cudaSuccess && n > 0) {
        *out_ndevices = n;
        return true;
    }
    const char *what = result == cudaErrorInsufficientDriver                  ? "no driver, or one that is too old"
                       : result == cudaErrorNoDevice || result == cudaSuccess ? "no device"
                                                                              : "no usable device";
    snprintf(why, nbytes, "%s: %s", what, result ? cuda.GetErrorString(result) : "the runtime counts 0");
    return false;
}

cudaError_t cuda_result(cudaError_t result) {
    if (result != cudaSuccess) (void)cuda.GetLastError();
    return result;
}

void cuda_turn_to(int gpu) {
    (void)cuda_result(cuda.SetDevice(gpu));
}

cudaError_t cuda_query(cudaEvent_t event) {
    return cuda_result(cuda.EventQuery(event));
}

weft_status cuda_check(cudaError_t result, const char *call) {
    if (cuda_result(result) == cudaSuccess) return NULL;
    if (result == cudaErrorMemoryAllocation)
        return weft_status_create(WEFT_OUT_OF_MEMORY, NULL, "%s: %s", call, cuda.GetErrorString(result));
    return weft_status_create(WEFT_RUNTIME, NULL, "%s: %s", call, cuda.GetErrorString(result));
}
