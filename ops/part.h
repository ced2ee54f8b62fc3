/* part.h: which part of an axis start : end : stride means, for inference and for the kernel. */
#ifndef OPS_PART_H
#define OPS_PART_H

#include <stdbool.h>
#include <stdint.h>

/* The end of strided_slice as strided_extent takes it. `older`: in programs of an older version (versions.def) an end
 * of -1 of a stride below 0 is the beginning, and any other stops in front of element 0. */
int64_t strided_end(bool older, int64_t extent, int64_t end, int64_t stride);
/* How many elements of an axis that is known, every stride-th from start towards end, backwards where stride is
 * negative; and the first of them. */
int64_t strided_extent(int64_t extent, int64_t start, int64_t end, int64_t stride, int64_t *out_first);

#endif
