/* softmax.h: softmax along an axis, for the softmax and cross entropy kernels. */
#ifndef EXECUTOR_KERNELS_ACTIVATION_SOFTMAX_H
#define EXECUTOR_KERNELS_ACTIVATION_SOFTMAX_H

#include "executor/kernels/layout.h"

/* Scratch for softmax_apply and softmax_grad_apply. */
size_t softmax_workspace(axis_split s, weft_dtype dtype);
/* y = softmax(x) along s.extent; y may be x. */
void softmax_apply(axis_split s, weft_dtype dtype, const void *x, void *y, void *workspace);

/* A cross entropy's label `index` is a class, or the one that costs nothing. */
static inline weft_status loss_check_label(const kernel_call *c, int64_t nclasses, int64_t ignore_index, int64_t label,
                                           int64_t index) {
    if (label == ignore_index || (label >= 0 && label < nclasses)) return NULL;
    return kernel_failed(c, "expected labels of 0 to %lld or %lld, found %lld at %lld", (long long)nclasses - 1,
                         (long long)ignore_index, (long long)label, (long long)index);
}

#endif
