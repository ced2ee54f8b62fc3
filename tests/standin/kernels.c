#include "tests/standin/kernels.h"

#include "executor/devices/cuda/kernels/all.cu"

const standin_kernel standin_kernels[] = {
#define KERNEL(name) {#name, standin_##name, &standin_##name##_nbytes},
#include "executor/devices/cuda/kernels/kernels.def"
#undef KERNEL
    {NULL, NULL, NULL},
};
