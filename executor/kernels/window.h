/* window.h: sliding windows over the two spatial dimensions, for the conv and pool kernels. */
#ifndef EXECUTOR_KERNELS_WINDOW_H
#define EXECUTOR_KERNELS_WINDOW_H

#include "executor/kernels/layout.h"

/* A batch of images. Element (n, c, y, x) is at n * image + c * channel_step + y * row_step + x * column_step. */
typedef struct images {
    int64_t count, channels, height, width;
    int64_t image, channel_step, row_step, column_step;
} images;

/* Window (i, j) starts at row i * stride[0] - before[0], column j * stride[1] - before[1]; its taps are dilation apart.
 */
typedef struct window {
    int64_t size[2], stride[2], before[2], dilation[2];
} window;

/* prepare: reads the layout of t. */
WEFT_MUST_USE weft_status images_prepare(const kernel_prepare *p, const tensor *t, const char *format, images *out);
/* prepare: reads strides, paddings, padding_algorithm and dilations; w->size is set. */
WEFT_MUST_USE weft_status window_prepare(const kernel_prepare *p, const images *in, window *w);

/* The range of positions p in [0, count) with 0 <= p * stride + shift < extent. */
typedef struct span {
    int64_t first, end;
} span;
static inline span span_inside(int64_t count, int64_t stride, int64_t shift, int64_t extent) {
    int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
    int64_t end = extent > shift ? (extent - shift + stride - 1) / stride : 0;
    if (first > count) first = count;
    if (end > count) end = count;
    return (span){first, end < first ? first : end};
}

#endif
