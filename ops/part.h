/* part.h: which part of an axis start : end : stride means, for inference and for the kernel. */
#ifndef OPS_PART_H
#define OPS_PART_H

#include <stdint.h>

/* How many elements of an axis that is known, every stride-th from start towards end, backwards where stride is
 * negative; and the first of them. */
int64_t strided_extent(int64_t extent, int64_t start, int64_t end, int64_t stride, int64_t *out_first);

#endif
