/* info.c: which optional parts this build has. */
#include "weft/info.h"

#include <pthread.h>

#include "executor/kernel.h"
#include "executor/plugins.h"

enum { MATRIX_PRODUCTS, CUDA, NCCL, MPI, NFEATURES };

/* What a plugin says of itself; found once. */
static weft_feature mpi = {"MPI", false, ""};

static void find_mpi(void) {
    static char detail[600];
    mpi.found = plugin_mpi_describe(detail, sizeof detail);
    mpi.detail = detail;
}

size_t weft_feature_count(void) {
    return NFEATURES;
}

weft_feature weft_feature_at(size_t index) {
    static const char absent[] = "not part of this version";
    switch (index) {
    case MATRIX_PRODUCTS:
#ifdef WEFT_HAVE_DNNL
        return (weft_feature){"oneDNN", true, gemm_library()};
#else
        return (weft_feature){"oneDNN", false, gemm_library()};
#endif
    case CUDA: return (weft_feature){"CUDA", false, absent};
    case NCCL: return (weft_feature){"NCCL", false, absent};
    default: {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, find_mpi);
        return mpi;
    }
    }
}
