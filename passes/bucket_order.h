/* bucket_order.h: an order of reduces in which a step ends earlier than in that in which they stand. */
#ifndef PASSES_BUCKET_ORDER_H
#define PASSES_BUCKET_ORDER_H

#include "passes/bucket_times.h"

/* A reduce moves directly behind another, numbers of bucket_times_find's: in this order, one after another. */
typedef struct bucket_move {
    uint32_t reduce, behind;
} bucket_move;

typedef struct bucket_moves {
    bucket_move *all;
    size_t count;
} bucket_moves;

/* Of what bucket_times_find found. None where the order at hand is as good or its step ends at the bound, where reduces wait for one another, where
 * memory is limited, or where a stream has other instructions than reduces. Deterministic. Cost: some 50 recurrences of
 * bucket_plan.h. */
WEFT_MUST_USE weft_status bucket_order_find(const bucket_times *t, bucket_moves *out);

#endif
