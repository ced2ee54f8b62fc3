/* place_orders.c: denser places for blocks: several orders of placing them, the best result kept.
 *
 * A block goes to the lowest gap between the blocks already placed that it may not share bytes with. In which order
 * blocks are placed decides how much is lost between them, and no order is best for all programs (dynamic storage
 * allocation is NP-hard: Garey and Johnson 1979, SR2), so a few are tried: by size, by size times lifetime, by
 * lifetime, by time forwards and backwards. Then the best one is repaired: the block that ends at the top is placed
 * earlier. All of it ends when the top is within 1/SLACK of the largest sum of live bytes, or when every attempt was
 * made. It also ends when MOST_STEPS blocks were looked at, a tenth of a second. Counting steps and not time gives a
 * program the same layout always. Programs too large for an attempt keep the online layout, which is dense where there
 * are many blocks.
 *
 * The invariant: two blocks share bytes only if all accesses of one happen before all accesses of the other. */
#include <stdlib.h>

#include "plan/memory.h"

enum { SLACK = 512, NREPAIRS = 24, MOST_STEPS = 1 << 24 };

typedef struct taken { /* a placed block; they are kept in order of offset */
    int64_t offset, end;
    const plan_block *block;
} taken;

typedef struct ranked {
    double rank; /* larger ones first */
    int32_t block;
} ranked;

typedef struct search {
    plan_block *blocks;
    size_t n, nstreams;
    int64_t bound;
    int64_t nsteps; /* blocks that may still be looked at */
    taken *placed;
    ranked *order, *best_order;
    int64_t *offset; /* by block: of the attempt at hand */
    int64_t best;    /* top of the best layout, which blocks have */
    int64_t here;    /* of the best attempt of this file: the one with best_order */
    int32_t summit;  /* the block that ends there */
} search;

int64_t plan_alignment(int64_t nbytes) {
    int64_t alignment = 1;
    while (alignment < nbytes && alignment < 8) alignment *= 2; /* of any element type */
    while (4 * alignment < nbytes && alignment < PLAN_ALIGNMENT) alignment *= 2;
    return alignment;
}

static bool may_share(const search *s, const plan_block *x, const plan_block *y) {
    if (x->first <= y->last && y->first <= x->last) return false;
    if (s->nstreams == 1) return true;
    const plan_block *early = x->last < y->first ? x : y, *late = early == x ? y : x;
    for (size_t t = 0; t < s->nstreams; t++)
        if (early->end[t] > late->start[t]) return false;
    return true;
}

/* Puts a block, with `nplaced` before it, into the lowest gap that is large enough; where it ends. */
static int64_t put(search *s, size_t nplaced, int32_t index) {
    const plan_block *k = &s->blocks[index];
    int64_t alignment = plan_alignment(k->nbytes), at = 0;
    size_t i = 0;
    for (; i < nplaced && s->placed[i].offset < at + k->nbytes; i++)
        if (s->placed[i].end > at && !may_share(s, k, s->placed[i].block))
            at = (s->placed[i].end + alignment - 1) / alignment * alignment;
    s->nsteps -= (int64_t)i;
    /* Those that were passed begin before the end of the block; some of them behind its begin. */
    while (i > 0 && s->placed[i - 1].offset > at) i--;
    memmove(&s->placed[i + 1], &s->placed[i], (nplaced - i) * sizeof *s->placed);
    s->placed[i] = (taken){at, at + k->nbytes, k};
    s->offset[index] = at;
    return at + k->nbytes;
}

/* Places blocks in `order`; keeps it if it is the best one so far, and the layout if nothing else was better. */
static bool attempt(search *s) {
    int64_t top = 0;
    int32_t summit = -1;
    for (size_t i = 0; i < s->n; i++) {
        int64_t end = put(s, i, s->order[i].block);
        if (end > top) top = end, summit = s->order[i].block;
        if (top >= s->here || s->nsteps < 0) return false;
    }
    memcpy(s->best_order, s->order, s->n * sizeof *s->order);
    s->here = top;
    s->summit = summit;
    if (top >= s->best) return true;
    for (size_t i = 0; i < s->n; i++) s->blocks[i].offset = s->offset[i];
    s->best = top;
    return true;
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static double by_size(const plan_block *k) {
    return (double)k->nbytes;
}
static double by_area(const plan_block *k) {
    return (double)k->nbytes * (double)(k->last - k->first + 1);
}
static double by_lifetime(const plan_block *k) {
    return (double)(k->last - k->first + 1);
}
static double by_begin(const plan_block *k) {
    return -(double)k->first;
}
static double by_end(const plan_block *k) {
    return (double)k->last;
}

static int compare_ranks(const void *x, const void *y) {
    const ranked *a = x, *c = y;
    if (a->rank != c->rank) return a->rank > c->rank ? -1 : 1;
    return (a->block > c->block) - (a->block < c->block);
}

static bool is_good(const search *s) {
    return s->best <= s->bound + s->bound / SLACK;
}

static void try_orders(search *s) {
    static double (*const ranks[])(const plan_block *) = {by_size, by_area, by_lifetime, by_begin, by_end};
    for (size_t r = 0; r < sizeof ranks / sizeof *ranks && !is_good(s) && s->nsteps >= 0; r++) {
        for (size_t i = 0; i < s->n; i++) s->order[i] = (ranked){ranks[r](&s->blocks[i]), (int32_t)i};
        qsort(s->order, s->n, sizeof *s->order, compare_ranks);
        attempt(s);
    }
}

/* The best order again, with the block that ends at the top placed first; if that does not help, before half, a
 * quarter, ... of those that were placed before it. */
static void repair(search *s) {
    size_t part = 1;
    for (int round = 0; round < NREPAIRS && s->summit >= 0 && !is_good(s) && s->nsteps >= 0; round++) {
        size_t at = 0;
        while (s->best_order[at].block != s->summit) at++;
        if (at / part == 0) return;
        size_t to = at - at / part;
        memcpy(s->order, s->best_order, s->n * sizeof *s->order);
        memmove(&s->order[to + 1], &s->order[to], (at - to) * sizeof *s->order);
        s->order[to] = s->best_order[at];
        part = attempt(s) ? 1 : part * 2;
    }
}

weft_status plan_place_orders(plan_builder *b, plan_block *blocks, size_t n, int64_t bound, int64_t *top) {
    search s = {.blocks = blocks,
                .n = n,
                .nstreams = b->nstreams,
                .bound = bound,
                .nsteps = MOST_STEPS,
                .best = *top,
                .here = INT64_MAX,
                .summit = -1};
    if (!n || is_good(&s)) return NULL;
    s.placed = ARENA_ARRAY(&b->scratch, taken, n);
    s.order = ARENA_ARRAY(&b->scratch, ranked, n);
    s.best_order = ARENA_ARRAY(&b->scratch, ranked, n);
    s.offset = ARENA_ARRAY(&b->scratch, int64_t, n);
    if (!s.placed || !s.order || !s.best_order || !s.offset) return base_out_of_memory();
    try_orders(&s);
    repair(&s);
    *top = s.best;
    return NULL;
}
