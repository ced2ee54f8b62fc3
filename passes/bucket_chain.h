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

/* plan_curve_ns without a division: it is asked for where the two could round apart. */
static inline int64_t curve_ns(const plan_curve *curve, const line *lines, size_t nbytes) {
    const double most_exact = 1e11; /* beyond, doubles are too coarse to tell */
    double most = 0;
    if (curve->table || curve->nccl.machine || curve->is_split) return plan_curve_ns(curve, (double)nbytes);
    for (size_t k = 0; k < curve->nlinks; k++) {
        double ns = lines[k].base_ns + lines[k].byte_ns * (double)nbytes;
        if (ns > most) most = ns;
    }
    if (!(most > 0 && most < most_exact)) return plan_curve_ns(curve, (double)nbytes);
    int64_t ns = (int64_t)(most + 0.5);
    double over = most + 0.5 - (double)ns;
    return over > 1e-3 && over < 1 - 1e-3 ? ns : plan_curve_ns(curve, (double)nbytes);
}

/* What the items [i, j) take as a bucket. */
static inline int64_t bucket_chain_ns(const chain *c, size_t i, size_t j) {
    if (j - i == 1) return c->items[i]->alone_ns;
    const line *lines = c->lines;
    int64_t ns = 0;
    for (size_t k = 0; k < c->kind->ncurves; lines += c->kind->curves[k++].nlinks)
        ns += curve_ns(&c->kind->curves[k], lines, c->nbytes[j] - c->nbytes[i]);
    return ns;
}

/* Whether a bucket of the items [i, j) may be, given that one of [i + 1, j) may. */
static inline bool bucket_chain_allows(const bucket_problem *p, const chain *c, size_t i, size_t j) {
    if (j - i < 2) return true;
    if (p->most_nbytes && c->nbytes[j] - c->nbytes[i] > p->most_nbytes) return false;
    return !p->rooms || p->rooms[c->items[i] - p->items] >= (int64_t)(c->nbytes[j] - c->nbytes[i + 1]);
}

#endif
