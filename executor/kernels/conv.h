/* conv.h: a prepared 2-D convolution, shared by its kernels. */
#ifndef EXECUTOR_KERNELS_CONV_H
#define EXECUTOR_KERNELS_CONV_H

#include "executor/kernels/window.h"

/* Group g maps in_channels channels of the input to out_channels of the output; a patch is what one window sees. */
typedef struct conv {
    images in, out;
    window w;
    int64_t groups, in_channels, out_channels;
    int64_t patch;      /* in_channels * height * width of the filter */
    int64_t positions;  /* windows in one image */
    int64_t batch;      /* images that share one matrix product */
    bool channels_last; /* NHWC */
    bool pointwise;     /* patches are the image itself: no columns are made */
} conv;

/* prepare: reads and checks everything; x, y and dy have the input's and the output's shapes. */
WEFT_MUST_USE weft_status conv_prepare(const kernel_prepare *p, const tensor *x, const tensor *filter, const tensor *y,
                                       conv *out);
/* Bytes of scratch for conv_forward and conv_backward. */
size_t conv_workspace(const conv *c);
void conv_forward(const conv *c, const float *x, const float *filter, float *y, float *workspace, int nthreads);
/* dx and dfilter may be NULL, and x where dfilter is, filter where dx is. */
void conv_backward(const conv *c, const float *x, const float *filter, const float *dy, float *dx, float *dfilter,
                   float *workspace, int nthreads);

/* The columns of group g of images [first, first + count). */
void conv_gather(const conv *c, int64_t first, int64_t count, int64_t g, const float *x, float *columns);
/* The reverse: columns added into x. */
void conv_scatter_add(const conv *c, int64_t first, int64_t count, int64_t g, const float *columns, float *x);

#endif
