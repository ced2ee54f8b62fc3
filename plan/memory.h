/* memory.h: between memory.c, which finds the blocks of the temporary space, and place_*.c, which place them. */
#ifndef PLAN_MEMORY_H
#define PLAN_MEMORY_H

#include "plan/builder.h"

/* Bytes that one buffer, or several in place of one another, take up. `start` and `end` are vector clocks: of what is
 * complete, stream by stream, before any access starts, and of what must be complete before all accesses are done. */
typedef struct plan_block {
    int32_t root;        /* the first of its values */
    int32_t first, last; /* instructions of the first and the last access, in plan order */
    const int32_t *start, *end;
    int64_t nbytes;
    int64_t offset; /* what is being decided */
} plan_block;

/* place_online.c: in order of first access, as a run would; O(n log n). Blocks come in that order. */
WEFT_MUST_USE weft_status plan_place_online(plan_builder *b, plan_block *blocks, size_t n, int64_t *out_top);

/* place_orders.c: better places than blocks have, if the top can come nearer to `bound`, which no layout can be below.
 * In bounded time. */
WEFT_MUST_USE weft_status plan_place_orders(plan_builder *b, plan_block *blocks, size_t n, int64_t bound, int64_t *top);

#endif
