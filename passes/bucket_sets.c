/* bucket_sets.c: the best of all ways to put a few items into buckets and to send these in some order, by dynamic
 * programming over sets (Held and Karp 1962): what is sent so far has ended by end[set] at the earliest, in time for
 * what each bucket's results are needed for. */
#include "passes/bucket_bound.h"
#include "passes/bucket_chain.h"

typedef struct sets {
    const bucket_problem *p;
    const bucket_item *const *items;
    size_t n, nsets;
    int64_t *ns, *ready, *tail; /* by set, as a bucket; ns NEVER: it is none */
    int64_t *end;               /* by set, sent */
    uint32_t *last;             /* by set, sent: the last bucket of the way that ends first */
} sets;

static void describe(sets *s, uint32_t set) {
    size_t nbytes = 0, count = 0;
    const bucket_item *any = NULL;
    bool mixed = false;
    for (size_t i = 0; i < s->n; i++) {
        const bucket_item *item = s->items[i];
        if (!(set >> i & 1)) continue;
        mixed = mixed || (any && any->kind != item->kind);
        any = item;
        nbytes += item->padded;
        count++;
        s->ready[set] = later(s->ready[set], item->made_ns);
        s->tail[set] = later(s->tail[set], item->tail_ns);
    }
    const bucket_kind *kind = &s->p->kinds[any->kind];
    s->ns[set] = count == 1 ? any->alone_ns : mixed || !kind->ncurves ? NEVER : bucket_kind_ns(kind, nbytes);
}

static weft_status describe_all(sets *s, arena *scratch) {
    s->nsets = (size_t)1 << s->n;
    s->ns = ARENA_ARRAY(scratch, int64_t, s->nsets);
    s->ready = ARENA_ARRAY(scratch, int64_t, s->nsets);
    s->tail = ARENA_ARRAY(scratch, int64_t, s->nsets);
    s->end = ARENA_ARRAY(scratch, int64_t, s->nsets);
    s->last = ARENA_ARRAY(scratch, uint32_t, s->nsets);
    if (!s->ns || !s->ready || !s->tail || !s->end || !s->last) return base_out_of_memory();
    for (uint32_t set = 1; set < s->nsets; set++) describe(s, set);
    return NULL;
}

/* Whether all can be sent so that the step ends by then. */
static bool solve(sets *s, int64_t limit) {
    for (uint32_t set = 1; set < s->nsets; set++) {
        int64_t best = NEVER;
        for (uint32_t b = set; b; b = (b - 1) & set) {
            int64_t before = s->end[set ^ b];
            if (before == NEVER || s->ns[b] == NEVER) continue;
            int64_t end = sum(later(before, s->ready[b]), s->ns[b]);
            if (end >= best || sum(end, s->tail[b]) > limit) continue;
            best = end;
            s->last[set] = b;
        }
        s->end[set] = best;
    }
    return s->end[s->nsets - 1] != NEVER;
}

/* When the step ends the way that was found. */
static int64_t step_of(const sets *s) {
    int64_t step = s->p->compute_ns;
    for (uint32_t set = (uint32_t)s->nsets - 1; set; set ^= s->last[set])
        step = later(step, sum(s->end[set], s->tail[s->last[set]]));
    return step;
}

weft_status bucket_sets_find(const bucket_problem *p, const bucket_item *const *items, size_t n, int64_t low_ns,
                             int64_t high_ns, arena *scratch, int64_t *out_ns) {
    sets s = {.p = p, .items = items, .n = n};
    if (low_ns < high_ns) TRY(describe_all(&s, scratch));
    for (int64_t limit = high_ns - 1; low_ns < high_ns; limit = low_ns + (high_ns - low_ns) / 2) {
        if (solve(&s, limit))
            high_ns = step_of(&s);
        else
            low_ns = limit + 1;
    }
    *out_ns = high_ns;
    return NULL;
}
