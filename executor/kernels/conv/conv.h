/* conv.h: a prepared 2-D convolution, shared by its kernels. */
#ifndef EXECUTOR_KERNELS_CONV_CONV_H
#define EXECUTOR_KERNELS_CONV_CONV_H

#include "executor/kernels/matmul/tile.h"
#include "executor/kernels/window.h"

/* Group g maps in_channels channels of the input to out_channels of the output; a patch is what one window sees. */
typedef struct conv {
    images in, out;
    window w;
    int64_t groups, in_channels, out_channels;
    int64_t patch;              /* in_channels * height * width of the filter */
    int64_t positions;          /* windows in one image */
    int64_t batch;              /* images that share one matrix product */
    bool channels_last;         /* NHWC */
    bool pointwise;             /* patches are the image itself: no columns are made */
    struct conv_copy *copy;     /* columns are packed from a padded copy, and not stored (conv_panels.c); NULL */
    struct conv_direct *direct; /* NULL: neither of those */
    bool direct_forward, direct_filter; /* y, the filter's gradient straight from a padded copy (conv_direct.c) */
    struct conv_lanes *lanes;           /* all of them with an image in each lane (conv_lanes.c); else NULL */
    bool winograd;                      /* y by tiles of 4 x 4 (conv_winograd.c) */
    bool winograd_filter;               /* the filter's gradient by such tiles (conv_winograd_filter.c) */
    struct conv *by_input;              /* NULL, or: dx is this convolution of dy, with the filter turned around */
} conv;

/* prepare: reads and checks everything; x, y and dy have the input's and the output's shapes. */
WEFT_MUST_USE weft_status conv_prepare(const kernel_prepare *p, const tensor *x, const tensor *filter, const tensor *y,
                                       conv *out);
/* Bytes of scratch for conv_forward and conv_backward. */
size_t conv_workspace(const conv *c, int nthreads);
void conv_forward(const conv *c, const float *x, const float *filter, float *y, float *workspace,
                  const kernel_call *call);
/* dx and dfilter may be NULL, and x where dfilter is, filter where dx is. */
void conv_backward(const conv *c, const float *x, const float *filter, const float *dy, float *dx, float *dfilter,
                   float *workspace, const kernel_call *call);

/* A register tile of the filter's gradient: so many of its taps by so many output channels. */
#if defined(__AVX512F__)
enum { CONV_TILE_TAPS = 9 };
#define CONV_EACH_TAPS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#else
enum { CONV_TILE_TAPS = 4 };
#define CONV_EACH_TAPS(X) X(1) X(2) X(3) X(4)
#endif
enum { CONV_TILE_CHANNELS = 3 };

/* Images with zeros around them: what a window sees of a tap lies at windows[window] + taps[tap]. */
typedef struct conv_copy {
    int64_t rows, row_length; /* of a channel; a row has stride[1] parts of that length */
    int64_t channel, image;   /* floats of one channel, and of all channels of an image, all groups */
    int32_t *taps, *windows;  /* of a patch of the first group, of the images of a batch */
} conv_copy;
/* prepare: sets c->copy unless images are matrices as they lie. c->batch is set. */
WEFT_MUST_USE weft_status conv_copy_prepare(const kernel_prepare *p, conv *c);
/* Floats of a copy. */
int64_t conv_copy_count(const conv *c, int64_t nimages);
void conv_copy_images(const kernel_call *call, const conv *c, int64_t nimages, const float *x, float *to);

/* C [m, n] (+)= A [m, k] times patches of the images in `copy`: taps by windows, or windows by taps. */
typedef struct conv_product {
    const conv *conv;
    int64_t m, n, k;
    const float *a;
    int64_t lda;
    const float *copy;   /* from the group's first channel on */
    bool windows_inside; /* the inner extent */
    float *c;
    int64_t ldc;
    bool add;
} conv_product;
/* Floats of scratch. */
int64_t conv_product_count(int64_t n, int64_t k);
void conv_product_run(const kernel_call *call, const conv_product *p, float *workspace);

/* dx += the input's gradient of one group of at most c->batch images; dy is [out_channels, windows], rows ld apart. */
int64_t conv_input_count(const conv *c, int nthreads);
void conv_input_add(const kernel_call *call, const conv *c, const float *filter, const float *dy, int64_t ld,
                    int64_t nimages, float *dx, float *workspace);

/* prepare: sets c->direct_forward and direct_filter where that is faster. */
typedef struct conv_direct conv_direct;
WEFT_MUST_USE weft_status conv_direct_prepare(const kernel_prepare *p, conv *c);
size_t conv_direct_workspace(const conv *c);
void conv_direct_forward(const kernel_call *call, const conv *c, const float *x, const float *filter, float *y,
                         float *workspace);
void conv_direct_backward(const kernel_call *call, const conv *c, const float *x, const float *dy, float *dfilter,
                          float *workspace);

/* prepare: sets c->lanes where that is faster. */
typedef struct conv_lanes conv_lanes;
WEFT_MUST_USE weft_status conv_lanes_prepare(const kernel_prepare *p, conv *c);
size_t conv_lanes_workspace(const conv *c, int nthreads);
void conv_lanes_forward(const kernel_call *call, const conv *c, const float *x, const float *filter, float *y,
                        float *workspace);
void conv_lanes_backward(const kernel_call *call, const conv *c, const float *x, const float *dy, float *dfilter,
                         float *workspace);

/* Where a filter's taps lie: strides in floats of groups, output and input channels; turned: last tap first. */
typedef struct conv_filter_order {
    int64_t group, out, in;
    bool turned;
} conv_filter_order;

/* prepare: sets c->winograd where that is faster. */
void conv_winograd_prepare(conv *c);
size_t conv_winograd_workspace(const conv *c, int nthreads);
void conv_winograd_forward(const kernel_call *call, const conv *c, const float *x, const float *filter,
                           conv_filter_order order, float *y, float *workspace);

/* prepare: sets c->winograd_filter where that is faster. */
void conv_winograd_filter_prepare(conv *c);
size_t conv_winograd_filter_workspace(const conv *c, int nthreads);
void conv_winograd_filter(const kernel_call *call, const conv *c, const float *x, const float *dy, float *dfilter,
                          float *workspace);

/* The columns of group g of images [first, first + count). */
void conv_gather(const conv *c, int64_t first, int64_t count, int64_t g, const float *x, float *columns);
/* The reverse: columns added into x. */
void conv_scatter_add(const kernel_call *call, const conv *c, int64_t first, int64_t count, int64_t g,
                      const float *columns, float *x);

#endif
