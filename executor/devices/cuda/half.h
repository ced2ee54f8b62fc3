/* half.h: kernels that take float32 alone, on copies of fp16 and bf16 tensors: as the CPU's (executor/kernels/
 * half_adaptor.h). */
#ifndef EXECUTOR_DEVICES_CUDA_HALF_H
#define EXECUTOR_DEVICES_CUDA_HALF_H

#include "executor/devices/cuda/launch.h"
#include "executor/kernels/half_adaptor.h"

/* A status of WEFT_UNSUPPORTED: the kernel refuses the copies too. v->state is set whatever the status. */
WEFT_MUST_USE weft_status cuda_half_prepare(kernel_prepare *p, const cuda_op *op, half_view *v);
/* Casts, the kernel, and casts. */
WEFT_MUST_USE weft_status cuda_half_launch(const cuda_launch *l, const cuda_op *op, const half_view *v);

#endif
