/* bucket_chain.h: the items of one kind as the solvers of bucket_plan.h see them. */
#ifndef PASSES_BUCKET_CHAIN_H
#define PASSES_BUCKET_CHAIN_H

#include "passes/bucket_plan.h"

#define NEVER INT64_MAX

/* What a curve takes on one link: nanoseconds, and those for a byte. */
typedef struct line {
    double base_ns, byte_ns;
} line;

/* A kind's items, and its costs. */
typedef struct chain {
    const bucket_kind *kind;
    const bucket_item **items;
    uint32_t *first;  /* by item: the first one that it may go together with */
    size_t *nbytes;   /* by prefix: padded bytes of its items */
    size_t count, at; /* at: digits of a tuple, used by the solver of several kinds */
    size_t stride;
    line *lines; /* of each curve one after another */
} chain;

static inline int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static inline int64_t sum(int64_t a, int64_t b) {
    int64_t ns;
    return __builtin_add_overflow(a, b, &ns) ? NEVER - 1 : ns;
}

/* One of each kind. */
WEFT_MUST_USE weft_status bucket_chains_create(const bucket_problem *p, arena *scratch, chain **out);
/* What the items [i, j) take as a bucket, and whether they may be one if [i + 1, j) may, by sizes and rooms. */
int64_t bucket_chain_ns(const chain *c, size_t i, size_t j);
bool bucket_chain_allows(const bucket_problem *p, const chain *c, size_t i, size_t j);

#endif
