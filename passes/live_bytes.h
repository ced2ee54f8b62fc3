/* live_bytes.h: how many bytes of temporaries a block keeps at each op, and where there is room for more. */
#ifndef PASSES_LIVE_BYTES_H
#define PASSES_LIVE_BYTES_H

#include "base/base.h"

/* Numbers by position, with the largest of any range at hand. Zeroed by create. */
typedef struct live_bytes {
    int64_t *most; /* by node: largest number below it, without `added` of its ancestors */
    int64_t *added;
    size_t nleaves; /* a power of two */
} live_bytes;

WEFT_MUST_USE weft_status live_bytes_create(live_bytes *l, arena *a, size_t npositions);
/* Adds to every position of [first, end). O(log n), as the others. */
void live_bytes_add(live_bytes *l, size_t first, size_t end, int64_t nbytes);
/* The first position of [first, end) with more than `limit`, or `end`. */
size_t live_bytes_first_above(const live_bytes *l, size_t first, size_t end, int64_t limit);
/* One past the last position of [first, end) with more than `limit`, or `first`. */
size_t live_bytes_last_above(const live_bytes *l, size_t first, size_t end, int64_t limit);

#endif
