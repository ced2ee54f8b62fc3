/* nccl.c: the part of NCCL that weft_cuda.so uses, on streams of the stand-in for the CUDA runtime. */
#include <nccl.h>

#include "tests/standin/queue.h"

SHOWN ncclResult_t ncclGetVersion(int *version) {
    *version = 22809;
    return ncclSuccess;
}

SHOWN const char *ncclGetErrorString(ncclResult_t result) {
    return result == ncclSuccess ? "no error" : "a failure of the stand-in";
}
