/* bucket_play.h: streams with buckets on virtual clocks: between the files of bucket_times.h. */
#ifndef PASSES_BUCKET_PLAY_H
#define PASSES_BUCKET_PLAY_H

#include "passes/bucket_times.h"

/* An instruction needs the result of an item. */
typedef struct bucket_edge {
    uint32_t instr, item;
} bucket_edge;

/* Fills in ready and tail of the problem's items, and its compute_ns. */
WEFT_MUST_USE weft_status bucket_play_alone(bucket_times *t, bucket_item *items);
/* Fills in the buckets' times, those of the step, and what is exposed. */
WEFT_MUST_USE weft_status bucket_play(bucket_times *t);

#endif
