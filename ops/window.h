/* window.h: sliding windows over the two spatial dimensions of a 4-dimensional tensor, for conv.c and pool.c. */
#ifndef OPS_WINDOW_H
#define OPS_WINDOW_H

#include "ops/infer.h"

typedef struct window {
    int first; /* the first spatial dimension: 1 where channels are last, else 2 */
    int channel;
    bool same; /* padding_algorithm SAME */
    int64_t extent[2], stride[2], before[2], after[2];
} window;

/* Two or more numbers of 32 bits from an attr. */
WEFT_MUST_USE weft_status window_attr(const infer *i, const char *attr, size_t count, int64_t least,
                                      const int64_t **out);
/* Reads strides, paddings, padding_algorithm and data_format for a tensor like `x`. */
WEFT_MUST_USE weft_status window_read(const infer *i, const shape *x, window *out);
/* How many windows of `size` elements fit in spatial dimension d; -1 if not known. */
WEFT_MUST_USE weft_status window_count(const infer *i, const window *w, int d, int64_t size, bool ceil_mode,
                                       int64_t *out);
/* The extent that SAME leaves of a transposed convolution of windows of `size`: it takes off what it would pad to cover
 * `extent` with such windows. */
int64_t window_transposed_same(int64_t extent, int64_t stride, int64_t size);

#endif
