/* softmax.h: softmax along an axis, for the softmax and cross entropy kernels. */
#ifndef EXECUTOR_KERNELS_SOFTMAX_H
#define EXECUTOR_KERNELS_SOFTMAX_H

#include "executor/kernels/layout.h"

/* Scratch for softmax_apply and softmax_grad_apply. */
size_t softmax_workspace(axis_split s, weft_dtype dtype);
/* y = softmax(x) along s.extent; y may be x. */
void softmax_apply(axis_split s, weft_dtype dtype, const void *x, void *y, void *workspace);

#endif
