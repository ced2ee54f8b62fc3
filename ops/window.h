/* window.h: sliding windows over the two spatial dimensions of a 4-dimensional tensor, for conv.c and pool.c. */
#ifndef OPS_WINDOW_H
#define OPS_WINDOW_H

#include "ops/infer.h"

typedef struct window {
    bool channels_last;
    bool same; /* padding_algorithm SAME */
    int64_t extent[2], stride[2], before[2], after[2];
} window;

/* Reads strides, paddings, padding_algorithm and the layout in `format_attr`. */
WEFT_MUST_USE weft_status window_read(const infer *i, const shape *x, const char *format_attr, window *out);
/* How many windows of `size` elements fit in spatial dimension d; -1 if not known. */
WEFT_MUST_USE weft_status window_count(const infer *i, const window *w, int d, int64_t size, bool ceil_mode,
                                       int64_t *out);

#endif
