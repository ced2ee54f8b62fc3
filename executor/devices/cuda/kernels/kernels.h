/* kernels.h: which kernels there are. */
#ifndef EXECUTOR_DEVICES_CUDA_KERNELS_KERNELS_H
#define EXECUTOR_DEVICES_CUDA_KERNELS_KERNELS_H

typedef enum cuda_kernel_id {
#define KERNEL(name) CUDA_KERNEL_##name,
#include "executor/devices/cuda/kernels/kernels.def"
#undef KERNEL
    CUDA_KERNELS
} cuda_kernel_id;

#endif
