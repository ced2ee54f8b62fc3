/* info.c: which optional parts this build has. */
#include "weft/info.h"

#include <pthread.h>

#include "executor/kernel.h"
#include "executor/plugins.h"

enum { MATRIX_PRODUCTS, CUDA, NCCL, MPI, NFEATURES };

/* What plugins say of themselves; found once. */
static weft_feature plugins[NFEATURES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void) {
    static const struct {
        const char *name;
        bool (*describe)(char *out, size_t nbytes);
    } rows[NFEATURES] = {[CUDA] = {"CUDA", plugin_cuda_describe},
                         [NCCL] = {"NCCL", plugin_nccl_describe},
                         [MPI] = {"MPI", plugin_mpi_describe}};
    static char details[NFEATURES][600];
    for (int i = 0; i < NFEATURES; i++)
        if (rows[i].describe)
            plugins[i] = (weft_feature){rows[i].name, rows[i].describe(details[i], sizeof details[i]), details[i]};
}

size_t weft_feature_count(void) {
    return NFEATURES;
}

weft_feature weft_feature_at(size_t index) {
    if (index != MATRIX_PRODUCTS) {
        pthread_once(&once, find);
        return plugins[index < NFEATURES ? index : MPI];
    }
#ifdef WEFT_HAVE_DNNL
    return (weft_feature){"oneDNN", true, gemm_library()};
#else
    return (weft_feature){"oneDNN", false, gemm_library()};
#endif
}
