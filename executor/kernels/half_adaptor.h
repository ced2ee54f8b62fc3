/* half_adaptor.h: kernels that have no loops for fp16 and bf16, run on fp32 copies. */
#ifndef EXECUTOR_KERNELS_HALF_ADAPTOR_H
#define EXECUTOR_KERNELS_HALF_ADAPTOR_H

#include "executor/kernel.h"

/* Whether the call has half tensors and the op computes with their elements, rather than with bytes or with other
 * ranks; and, where it asks for master copies of its parameters, has them. */
bool half_adaptor_fits(const kernel_prepare *p);
/* Stands for the kernel of the call's op. */
extern const kernel kernel_half_adaptor;

#endif
