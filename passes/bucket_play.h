/* bucket_play.h: streams with buckets on virtual clocks: between the files of bucket_times.h. */
#ifndef PASSES_BUCKET_PLAY_H
#define PASSES_BUCKET_PLAY_H

#include "passes/bucket_times.h"

/* An instruction needs the result of an item. */
typedef struct bucket_edge {
    uint32_t instr, item;
} bucket_edge;

/* Streams of the plan as they are played. */
typedef struct player {
    bucket_times *t;
    const weft_plan *plan;
    plan_stream *streams;
    int64_t *start, *end; /* by instruction */
    int64_t *free_at;     /* by lane: when its last bucket has ended */
    bool *waited;         /* by instruction: it waits for a reduce, or for what does */
    size_t edge;          /* the first one of the instruction at hand */
    int64_t *scale_ns;    /* by lane: of the item at hand, scales behind its collectives */
} player;

/* Fills in made, ready and tail of the problem's items, and its compute_ns. */
WEFT_MUST_USE weft_status bucket_play_alone(bucket_times *t, bucket_item *items);
/* Fills in the buckets' times, those of the step, and what is exposed. */
WEFT_MUST_USE weft_status bucket_play(bucket_times *t);

/* --- bucket_contention.c: where compute and collectives slow one another down ------------------------------------- */

/* Whether the model says that they do, and the program is one that can be played so: fills in `contends`, `ignored`.
 * Streams are compute and lanes, a ring is on one of them, and reduces wait for compute alone. */
WEFT_MUST_USE weft_status bucket_contention_find(bucket_times *t);
/* With contention: slowed_bound_ns, and in `bound` what it follows from (bucket_slowed.c). */
WEFT_MUST_USE weft_status bucket_slowed_bound(bucket_times *t);
/* Then `bound`, whatever it follows from. */
WEFT_MUST_USE weft_status bucket_times_bound(bucket_times *t);
WEFT_MUST_USE weft_status bucket_play_contended(player *p, const uint32_t *bucket_of);

/* --- bucket_settle.c ---------------------------------------------------------------------------------------------- */

/* Looks for better buckets than those of the answer, which were played. */
WEFT_MUST_USE weft_status bucket_settle(bucket_times *t, bucket_item *items);

#endif
