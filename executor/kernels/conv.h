/* conv.h: a prepared 2-D convolution, shared by its kernels. */
#ifndef EXECUTOR_KERNELS_CONV_H
#define EXECUTOR_KERNELS_CONV_H

#include "executor/kernels/gemm.h"
#include "executor/kernels/window.h"

/* Group g maps in_channels channels of the input to out_channels of the output; a patch is what one window sees. */
typedef struct conv {
    images in, out;
    window w;
    int64_t groups, in_channels, out_channels;
    int64_t patch;                      /* in_channels * height * width of the filter */
    int64_t positions;                  /* windows in one image */
    int64_t batch;                      /* images that share one matrix product */
    bool channels_last;                 /* NHWC */
    bool pointwise;                     /* patches are the image itself: no columns are made */
    bool panels;                        /* columns are packed as they are multiplied, and not stored (conv_panels.c) */
    struct conv_direct *direct;         /* how images are copied for those; else NULL */
    bool direct_forward, direct_filter; /* y, the filter's gradient straight from a padded copy (conv_direct.c) */
    bool winograd;                      /* y by tiles of 4 x 4 (conv_winograd.c) */
    struct conv *by_input;              /* NULL, or: dx is this convolution of dy, with the filter turned around */
} conv;

/* prepare: reads and checks everything; x, y and dy have the input's and the output's shapes. */
WEFT_MUST_USE weft_status conv_prepare(const kernel_prepare *p, const tensor *x, const tensor *filter, const tensor *y,
                                       conv *out);
/* Bytes of scratch for conv_forward and conv_backward. */
size_t conv_workspace(const conv *c);
void conv_forward(const conv *c, const float *x, const float *filter, float *y, float *workspace,
                  const kernel_call *call);
/* dx and dfilter may be NULL, and x where dfilter is, filter where dx is. */
void conv_backward(const conv *c, const float *x, const float *filter, const float *dy, float *dx, float *dfilter,
                   float *workspace, const kernel_call *call);

/* Patches of images as matrices that are never stored. x: one group's first channel in the first image. */
typedef struct conv_patches {
    const conv *conv;
    const float *x;
} conv_patches;
gemm_source conv_taps_by_windows(const conv_patches *p);
gemm_source conv_windows_by_taps(const conv_patches *p);

/* prepare: sets c->direct_forward and direct_filter where that is faster. */
typedef struct conv_direct conv_direct;
WEFT_MUST_USE weft_status conv_direct_prepare(const kernel_prepare *p, conv *c);
size_t conv_direct_workspace(const conv *c);
void conv_direct_forward(const kernel_call *call, const conv *c, const float *x, const float *filter, float *y,
                         float *workspace);
void conv_direct_backward(const kernel_call *call, const conv *c, const float *x, const float *dy, float *dfilter,
                          float *workspace);

/* Where a filter's taps lie: strides in floats of groups, output and input channels; turned: last tap first. */
typedef struct conv_filter_order {
    int64_t group, out, in;
    bool turned;
} conv_filter_order;

/* prepare: sets c->winograd where that is faster. */
void conv_winograd_prepare(conv *c);
size_t conv_winograd_workspace(const conv *c);
void conv_winograd_forward(const kernel_call *call, const conv *c, const float *x, const float *filter,
                           conv_filter_order order, float *y, float *workspace);

/* The columns of group g of images [first, first + count). */
void conv_gather(const conv *c, int64_t first, int64_t count, int64_t g, const float *x, float *columns);
/* The reverse: columns added into x. */
void conv_scatter_add(const kernel_call *call, const conv *c, int64_t first, int64_t count, int64_t g,
                      const float *columns, float *x);

#endif
