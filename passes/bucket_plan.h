/* bucket_plan.h: which gradients are reduced together so that a step ends earliest: an exact answer under a model of
 * times. It knows times and bytes, no program (bucket_times.h makes the one from the other). */
#ifndef PASSES_BUCKET_PLAN_H
#define PASSES_BUCKET_PLAN_H

#include "base/base.h"
#include "plan/cost.h"

/* What is reduced by itself or with others of its kind, in the order in which reduces stand. */
typedef struct bucket_item {
    int64_t ready_ns;      /* its reduce may begin; no earlier than that of the item before of its kind */
    int64_t made_ns;       /* it may, wherever it stands */
    int64_t tail_ns;       /* what the step takes from the end of its reduce on, at least */
    int64_t alone_ns;      /* what its reduce takes alone */
    size_t nbytes, padded; /* alone, and as a part of a bucket */
    uint32_t kind;         /* items of one kind may go together */
    uint32_t position;     /* of its reduce, */
    uint32_t deadline; /* and of what needs the result: a bucket is reduced at its last item, before all deadlines */
} bucket_item;

/* Items of one kind take the sum of these; none: they are reduced alone, whatever comes. */
typedef struct bucket_kind {
    const plan_curve *curves;
    size_t ncurves, ncollectives; /* collectives come first, scales follow */
    uint32_t lane;                /* less than nkinds: its stream; what is on one runs one after another */
} bucket_kind;

typedef struct bucket_problem {
    const bucket_item *items;
    size_t nitems;
    const bucket_kind *kinds;
    size_t nkinds;
    int64_t compute_ns; /* the step ends no earlier */
    size_t most_nbytes; /* padded, of a bucket of two items or more; 0: any number */
    /* By item: how many padded bytes of later items of its kind there is room for when it is made, before these are; a
     * bucket has room for those of its items that come after it. NULL: for any number. */
    const int64_t *rooms;
} bucket_problem;

typedef struct bucket_answer {
    bool *begins; /* by item: a bucket of its kind begins with it */
    size_t nbuckets;
    int64_t step_ns;  /* when the step ends */
    int64_t bound_ns; /* no plan of this form ends it earlier; equal: this one is the best */
} bucket_answer;

/* Collectives of a lane run one after another, each from when it is ready and the one before has ended; lanes do not
 * know of one another. A bucket is some items of
 * one kind that follow one another in it, reduced at the place of the last. Of all such plans the answer ends the step
 * earliest. Two or more kinds are solved exactly up to BUCKET_STATES combinations of their prefixes; beyond by branch
 * and bound (bucket_search.c), and bound_ns says how far it may have been from the best. Deterministic. Cost for n
 * items of one kind: O(n w), w of which become ready while one bucket is sent; times the bits of a step's nanoseconds,
 * at most, where it matters which results the step needs first. */
enum { BUCKET_STATES = 1 << 21 };
WEFT_MUST_USE weft_status bucket_plan_solve(const bucket_problem *problem, arena *scratch, bucket_answer *out_answer);

/* Whether some plan of this form ends the step by then: one recurrence. Items are of one lane. False where several kinds
 * have more than BUCKET_STATES combinations. */
WEFT_MUST_USE weft_status bucket_plan_ends_by(const bucket_problem *problem, int64_t limit_ns, arena *scratch,
                                              bool *out);

/* The same by branch and bound (bucket_search.c) for several kinds: looks for a better plan than `a`, which is one with
 * its bound, and for a higher bound. At most so many nodes are kept at once. */
WEFT_MUST_USE weft_status bucket_search(const bucket_problem *problem, size_t most_nodes, arena *scratch,
                                        bucket_answer *a);

/* When the step ends with these buckets. */
WEFT_MUST_USE weft_status bucket_plan_step(const bucket_problem *problem, const bool *begins, arena *scratch,
                                           int64_t *out_step_ns);
/* What a bucket of so many bytes takes. */
int64_t bucket_kind_ns(const bucket_kind *kind, size_t nbytes);

#endif
