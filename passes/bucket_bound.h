/* bucket_bound.h: a step that no buckets end earlier, whichever gradients of a kind go together and in whatever order
 * buckets are sent. bucket_bound.c says why that is so, and what a checker needs to find it anew. */
#ifndef PASSES_BUCKET_BOUND_H
#define PASSES_BUCKET_BOUND_H

#include "passes/bucket_plan.h"

enum {
    BUCKET_PARTS = 1024,           /* of a nanosecond: what is below costs is counted in these */
    BUCKET_SETS_MOST = 12,         /* items of a lane of which a checker tries all sets */
    BUCKET_BOUND_STATES = 1 << 16, /* combinations of prefixes of a lane's kinds */
};
#define BUCKET_MOST_NS (INT64_C(1) << 42) /* an hour: what takes longer has no bound but compute */

/* Below what buckets of so many bytes take: parts of a nanosecond, and nanoseconds for a byte. */
typedef struct bucket_line {
    int64_t latency;
    double slope;
} bucket_line;

typedef enum bucket_bound_by {
    BUCKET_BY_COMPUTE, /* the step ends no earlier than compute */
    BUCKET_BY_SLOWED,  /* than compute and collectives that slow one another down (bucket_slowed.c) */
    BUCKET_BY_LINES,   /* than `tail_ns` after a lane's items of such a tail or a longer one, as cheap as lines say */
    BUCKET_BY_SETS     /* than the best of all sets of a lane's items, in all orders */
} bucket_bound_by;

typedef struct bucket_bound {
    int64_t ns;
    bucket_bound_by by;
    uint32_t lane;
    int64_t tail_ns;
    bool as_one;         /* kinds of the lane may share buckets, which have the least latency of all */
    bool *counts;        /* by kind: its items do; NULL: nothing is said of kinds */
    bucket_line **lines; /* by kind and curve; NULL: of one item, or reduced alone: what it takes is known */
} bucket_bound;

/* The best that is found. `begins` is a good plan: lines are the nearest where its buckets are. Some plan ends the step
 * by most_ns. Lanes of no more than most_set items are tried by sets. Of items it uses made_ns and tail_ns, and no
 * limit of the problem's. Cost: for n items of one kind O(n) for each of the tails that are tried, up to 128; for n in
 * sets 3 to the power of n, times the bits of the step. */
WEFT_MUST_USE weft_status bucket_bound_find(const bucket_problem *p, const bool *begins, int64_t most_ns,
                                            size_t most_set, arena *scratch, bucket_bound *out);

/* --- bucket_lines.c ----------------------------------------------------------------------------------------------- */

/* Items of one kind as lines weigh them: any bucket of some of them takes the latency and their weights, at least. */
typedef struct bucket_weighed {
    bucket_line *lines; /* by curve; NULL: none is needed */
    size_t nlines;
    int64_t latency, *weights; /* parts of a nanosecond; weights by item */
    int64_t excess;            /* by which a weight is less than the bytes' for want of it in the latency, at most */
} bucket_weighed;

/* By the first ncurves of the kind, of which items take alone_ns by themselves; near what buckets of `at` bytes take;
 * without a latency where that is 0. */
WEFT_MUST_USE weft_status bucket_weigh(const bucket_kind *kind, size_t ncurves, const bucket_item *const *items,
                                       const int64_t *alone_ns, size_t n, size_t at, arena *scratch,
                                       bucket_weighed *out);
/* Takes so much from the latency, which may make small items weigh more. */
void bucket_weigh_lower(bucket_weighed *w, int64_t by, const bucket_item *const *items, const int64_t *alone_ns,
                        size_t n);

/* --- bucket_sets.c ------------------------------------------------------------------------------------------------ */

/* The earliest end of a step with a few items of one lane; no earlier than low_ns, no later than
 * high_ns. */
WEFT_MUST_USE weft_status bucket_sets_find(const bucket_problem *p, const bucket_item *const *items, size_t n,
                                           int64_t low_ns, int64_t high_ns, arena *scratch, int64_t *out_ns);

#endif
