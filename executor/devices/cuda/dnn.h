/* dnn.h: convolutions by cuDNN, which is opened when the first of them is prepared.
 *
 * By its functions for convolutions, not by its graphs of operations: these few are the same in 8.9 and in all of 9,
 * and take any layout of fp32, and halves. They say of each algorithm whether it adds up in a fixed order. */
#ifndef EXECUTOR_DEVICES_CUDA_DNN_H
#define EXECUTOR_DEVICES_CUDA_DNN_H

#include <cudnn.h>

#include "executor/devices/cuda/launch.h"

/* Extents are [batch, channels, height, width]; of the filter [out, in / groups, height, width]. */
typedef struct dnn_shape {
    int x[4], y[4], filter[4];
    int before[2], stride[2], dilation[2], groups;
    weft_dtype dtype; /* of all three: fp32, or halves, whose products are added up in fp32 */
} dnn_shape;

/* What of x, the filter and y is computed of the others. */
typedef enum dnn_result { DNN_Y, DNN_X, DNN_FILTER, DNN_RESULTS } dnn_result;

/* A dense convolution, channels first. */
typedef struct dnn_conv {
    bool is_half;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t how;
    int algorithms[DNN_RESULTS];
    size_t workspace_nbytes[DNN_RESULTS];
} dnn_conv;

/* On the GPU that is current. A status of WEFT_UNSUPPORTED: it cannot, or there is no library. Whatever the status,
 * dnn_discard takes it. */
WEFT_MUST_USE weft_status dnn_prepare(dnn_conv *c, const dnn_shape *shape);
WEFT_MUST_USE weft_status dnn_choose(dnn_conv *c, dnn_result result);
/* The arguments but the result, in the order x, filter, y. */
WEFT_MUST_USE weft_status dnn_launch(const cuda_launch *l, const dnn_conv *c, dnn_result result, const void *first,
                                     const void *second, void *out);
void dnn_discard(dnn_conv *c);

/* What launches need, on the GPU that is current: of one thread at a time (cuda_op.open). */
WEFT_MUST_USE weft_status dnn_open(void **out_handle);
void dnn_close(void *handle);

#endif
