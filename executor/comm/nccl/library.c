#include "executor/comm/nccl/library.h"

#include <pthread.h>
#include <stdio.h>

#include "executor/devices/cuda/library.h"

nccl_library nccl;

static char why_not[700];
static bool is_open;

static void open_library(void) {
    static const char *const names[] = {"libnccl.so.2", NULL};
    void *library = library_open(names, why_not, sizeof why_not);
    if (!library) return;
    is_open = true;
#define CALL(name)                                                                                                     \
    nccl.name = (__typeof__(&nccl##name))library_symbol(library, "nccl" #name);                                        \
    if (!nccl.name && is_open) {                                                                                       \
        is_open = false;                                                                                               \
        snprintf(why_not, sizeof why_not, "NCCL is too old: it lacks nccl%s", #name);                                  \
    }
#define OPTIONAL(name, type) nccl.name = (__typeof__(type))library_symbol(library, "nccl" #name);
#include "executor/comm/nccl/nccl.def"
#undef OPTIONAL
#undef CALL
}

bool nccl_open(const char **out_why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    *out_why = why_not;
    return is_open;
}

bool nccl_describe(char *out, size_t nbytes) {
    const char *why;
    int version = 0;
    if (!nccl_open(&why)) {
        snprintf(out, nbytes, "%s", why);
        return false;
    }
    if (nccl.GetVersion(&version)) {
        snprintf(out, nbytes, "ncclGetVersion failed");
        return false;
    }
    snprintf(out, nbytes, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return true;
}
