/* info.c: which optional parts this build has. */
#include "weft/info.h"

#include "executor/kernel.h"

enum { MATRIX_PRODUCTS, CUDA, NCCL, MPI, NFEATURES };

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
    default: return (weft_feature){"MPI", false, absent};
    }
}
