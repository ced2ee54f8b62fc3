/* elementwise.h: what the two-operand kernels share: shapes, loops and the conversion of half types. */
#ifndef EXECUTOR_KERNELS_ELEMENTWISE_ELEMENTWISE_H
#define EXECUTOR_KERNELS_ELEMENTWISE_ELEMENTWISE_H

#include "executor/kernels/loops.h"
#include "executor/kernels/typed.h"

/* How X and Y broadcast into the result, which has ndim `dims`: Paddle's rule, where the smaller one's axes stand at
 * `axis` (-1: at the end). Refuses shapes that do not fit. */
WEFT_MUST_USE weft_status broadcast_strides(const kernel_prepare *p, int axis, const tensor *x, const tensor *y,
                                            int ndim, const int64_t *dims, int64_t strides[2][WEFT_MAX_RANK]);

#endif
