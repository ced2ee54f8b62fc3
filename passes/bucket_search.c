/* bucket_search.c: buckets of several kinds on one link, by branch and bound.
 *
 * Items are taken in their order. At each, its kind's open bucket ends here or stays open; a node is which items are
 * open, and when the link is free. Of nodes with the same open items the earliest one counts. A node is left out if it
 * can no longer end by the limit: the link still has to carry what is open and what comes, which takes no less in many
 * buckets than as one of each kind. Where there is no room for all nodes those with the least such bound go on; the
 * least bound of the others is how good a plan may have been lost. Sources: field survey 2; dominance as in Held and
 * Karp 1962. */
#include <stdlib.h>

#include "passes/bucket_chain.h"

enum { MOST_KINDS = 6, ROUNDS = 6 };
#define NO_NODE UINT32_MAX

typedef struct node {
    int64_t end, bound;
    uint32_t trace;            /* its newest bucket */
    uint32_t open[MOST_KINDS]; /* by kind: the first item of its chain that is in no bucket */
} node;

/* A bucket of the way to a node. */
typedef struct trace {
    uint32_t before; /* NO_NODE: none */
    uint32_t first;  /* item */
} trace;

typedef struct search {
    const bucket_problem *p;
    chain *chains;
    node *nodes, *next; /* before and behind the item at hand */
    size_t nnodes, nnext, most;
    uint32_t *slots; /* a table of `next`: 1 + the node */
    size_t nslots;
    trace *traces;
    size_t ntraces, most_traces;
    int64_t *ahead;            /* by item: no plan ends earlier by what comes from it on; one more for none */
    int64_t *left[MOST_KINDS]; /* by kind: what its items take at least, from the one of its chain on */
    int64_t limit, lost;       /* lost: least bound of a node that was left out for want of room */
} search;

/* --- bounds ------------------------------------------------------------------------------------------------------- */

/* Whether nobody gains by splitting: so it is where a price is a part for each message and one for each byte. So it is
 * in a table in which a byte never takes more in a larger collective; and where no item is cheaper alone than so. */
static bool one_is_best(const chain *c) {
    const bucket_kind *kind = c->kind;
    for (size_t i = 0; i < kind->ncurves; i++) {
        const plan_curve *curve = &kind->curves[i];
        const weft_cluster_table *t = curve->table;
        for (size_t k = 1; t && k < t->npoints; k++)
            if (t->seconds[k] * t->nbytes[k - 1] > t->seconds[k - 1] * t->nbytes[k] * (1 + 1e-12)) return false;
        if (!t && (curve->nccl.machine || curve->is_split)) return false;
    }
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i]->alone_ns < bucket_kind_ns(kind, c->items[i]->nbytes)) return false;
    return true;
}

/* What the items from each one on take at least: as one bucket, of the bytes without padding. A nanosecond a curve and
 * item may be lost in rounding. */
static weft_status find_left(arena *scratch, const chain *c, int64_t **out) {
    int64_t *left = ARENA_ARRAY(scratch, int64_t, c->count + 1);
    bool has_price = c->kind->ncurves > 0, counts = has_price && one_is_best(c);
    size_t nbytes = 0;
    if (!left) return base_out_of_memory();
    for (size_t j = c->count; j-- > 0;) {
        nbytes += c->items[j]->nbytes;
        int64_t lost = (int64_t)(c->kind->ncurves * (c->count - j + 1));
        left[j] = has_price ? 0 : sum(left[j + 1], c->items[j]->alone_ns);
        if (counts) left[j] = later(0, bucket_kind_ns(c->kind, nbytes) - lost);
    }
    *out = left;
    return NULL;
}

/* A bucket more ends behind the item that comes next, and with it all that the link has to carry. */
static int64_t bound_of(const search *s, const node *n, size_t item) {
    int64_t end = item < s->p->nitems ? later(n->end, s->p->items[item].ready_ns) : n->end;
    for (size_t k = 0; k < s->p->nkinds; k++) end = sum(end, s->left[k][n->open[k]]);
    return later(end, s->ahead[item]);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const search *s, const node *n) {
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15);
    for (size_t k = 0; k < s->p->nkinds; k++) h = (h ^ n->open[k]) * UINT64_C(0xD6E8FEB86659FD93), h ^= h >> 32;
    return h;
}

static bool same_open(const search *s, const node *a, const node *b) {
    for (size_t k = 0; k < s->p->nkinds; k++)
        if (a->open[k] != b->open[k]) return false;
    return true;
}

static int by_bound(const void *a, const void *b) {
    const node *x = a, *y = b;
    if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
    return memcmp(x->open, y->open, sizeof x->open);
}

static void put_slots(search *s) {
    memset(s->slots, 0, s->nslots * sizeof *s->slots);
    for (size_t i = 0; i < s->nnext; i++) {
        size_t at = hash_of(s, &s->next[i]) & (s->nslots - 1);
        while (s->slots[at]) at = (at + 1) & (s->nslots - 1);
        s->slots[at] = (uint32_t)i + 1;
    }
}

/* The better half goes on. */
static void leave_out(search *s) {
    qsort(s->next, s->nnext, sizeof *s->next, by_bound);
    s->nnext /= 2;
    if (s->next[s->nnext].bound < s->lost) s->lost = s->next[s->nnext].bound;
    put_slots(s);
}

static void add_node(search *s, const node *made, size_t item) {
    node n = *made;
    n.bound = bound_of(s, &n, item);
    if (n.bound > s->limit) return;
    size_t at = hash_of(s, &n) & (s->nslots - 1);
    for (; s->slots[at]; at = (at + 1) & (s->nslots - 1)) {
        node *other = &s->next[s->slots[at] - 1];
        if (!same_open(s, other, &n)) continue;
        if (n.end < other->end) *other = n;
        return;
    }
    s->next[s->nnext++] = n;
    s->slots[at] = (uint32_t)s->nnext;
    if (s->nnext == s->most) leave_out(s);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* The kind's open bucket ends with item j of its chain. */
static void close_bucket(search *s, const node *from, uint32_t kind, size_t j, size_t item, int64_t most_end) {
    const chain *c = &s->chains[kind];
    node n = *from;
    size_t i = n.open[kind];
    int64_t tail = 0;
    for (size_t k = i; k <= j && most_end != NEVER; k++) tail = later(tail, c->items[k]->tail_ns);
    n.end = sum(later(n.end, c->items[j]->ready_ns), bucket_chain_ns(c, i, j + 1));
    if (sum(n.end, tail) > most_end || s->ntraces == s->most_traces) {
        if (s->ntraces == s->most_traces && from->bound < s->lost) s->lost = from->bound;
        return;
    }
    s->traces[s->ntraces] = (trace){from->trace, (uint32_t)(c->items[i] - s->p->items)};
    n.trace = (uint32_t)s->ntraces++;
    n.open[kind] = (uint32_t)j + 1;
    add_node(s, &n, item + 1);
}

static void take_item(search *s, size_t item, size_t j, int64_t most_end) {
    uint32_t kind = s->p->items[item].kind;
    const chain *c = &s->chains[kind];
    bool is_limited = s->p->rooms || s->p->most_nbytes;
    s->nnext = 0;
    memset(s->slots, 0, s->nslots * sizeof *s->slots);
    for (size_t i = 0; i < s->nnodes; i++) {
        const node *n = &s->nodes[i];
        bool fits = n->open[kind] >= c->first[j];
        for (size_t from = j; is_limited && fits && from-- > n->open[kind];)
            fits = bucket_chain_allows(s->p, c, from, j + 1);
        if (!fits) continue;
        close_bucket(s, n, kind, j, item, most_end);
        if (j + 1 < c->count && c->kind->ncurves) add_node(s, n, item + 1);
    }
    node *swap = s->nodes;
    s->nodes = s->next;
    s->next = swap;
    s->nnodes = s->nnext;
}

/* The earliest end of all reduces where no bucket's tail ends behind most_end; NEVER: none was found. */
static int64_t run(search *s, int64_t limit, int64_t most_end, bool *begins) {
    size_t at[MOST_KINDS] = {0};
    *s->nodes = (node){.trace = NO_NODE};
    s->nnodes = 1;
    s->ntraces = 0;
    s->limit = limit;
    s->lost = NEVER;
    for (size_t i = 0; i < s->p->nitems; i++) take_item(s, i, at[s->p->items[i].kind]++, most_end);
    if (!s->nnodes) return NEVER;
    memset(begins, 0, s->p->nitems * sizeof *begins);
    for (uint32_t t = s->nodes->trace; t != NO_NODE; t = s->traces[t].before) begins[s->traces[t].first] = true;
    return s->nodes->end;
}

/* --- all together ------------------------------------------------------------------------------------------------- */

static weft_status find_ahead(search *s, arena *scratch) {
    const bucket_problem *p = s->p;
    size_t at[MOST_KINDS];
    for (size_t k = 0; k < p->nkinds; k++) {
        TRY(find_left(scratch, &s->chains[k], &s->left[k]));
        at[k] = s->chains[k].count;
    }
    if (!(s->ahead = ARENA_ARRAY(scratch, int64_t, p->nitems + 1))) return base_out_of_memory();
    for (size_t i = p->nitems; i-- > 0;) {
        int64_t end = p->items[i].ready_ns;
        at[p->items[i].kind]--;
        for (size_t k = 0; k < p->nkinds; k++) end = sum(end, s->left[k][at[k]]);
        s->ahead[i] = later(s->ahead[i + 1], end);
    }
    return NULL;
}

static weft_status make_room(search *s, size_t most_nodes, arena *scratch) {
    size_t n = s->p->nitems;
    s->most_traces = most_nodes < 2 * n ? 2 * n : most_nodes;
    s->most = s->most_traces / (n + 1) < 8 ? 8 : s->most_traces / (n + 1);
    if (s->most > 1 << 16) s->most = 1 << 16;
    for (s->nslots = 16; s->nslots < 4 * s->most; s->nslots *= 2) {
    }
    s->most_traces *= 2; /* a level makes more than it keeps */
    s->nodes = ARENA_ARRAY(scratch, node, s->most + 1);
    s->next = ARENA_ARRAY(scratch, node, s->most + 1);
    s->slots = ARENA_ARRAY(scratch, uint32_t, s->nslots);
    s->traces = ARENA_ARRAY(scratch, trace, s->most_traces + 1);
    return s->nodes && s->next && s->slots && s->traces ? NULL : base_out_of_memory();
}

static weft_status keep_better(const search *s, const bool *begins, arena *scratch, bucket_answer *a) {
    int64_t step;
    TRY(bucket_plan_step(s->p, begins, scratch, &step));
    if (step >= a->step_ns) return NULL;
    a->step_ns = step;
    memcpy(a->begins, begins, s->p->nitems * sizeof *begins);
    return NULL;
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Without tails first: then what the reduces end at, and the last one's tail, is a bound. */
static weft_status improve(search *s, bool *begins, arena *scratch, bucket_answer *a) {
    int64_t tail = s->p->items[s->p->nitems - 1].tail_ns;
    int64_t end = run(s, a->step_ns - tail, NEVER, begins);
    if (end != NEVER) TRY(keep_better(s, begins, scratch, a));
    a->bound_ns = later(a->bound_ns, lesser(a->step_ns, sum(lesser(end, s->lost), tail)));
    for (int round = 0; round < ROUNDS && a->bound_ns < a->step_ns; round++) {
        int64_t middle = a->bound_ns + (a->step_ns - a->bound_ns) / 2, before = a->step_ns;
        end = run(s, middle - tail, middle, begins);
        if (end != NEVER)
            TRY(keep_better(s, begins, scratch, a));
        else if (s->lost == NEVER)
            a->bound_ns = middle + 1;
        if (end == NEVER && s->lost != NEVER) break;
        if (end != NEVER && a->step_ns == before) break;
    }
    return NULL;
}

weft_status bucket_search(const bucket_problem *problem, size_t most_nodes, arena *scratch, bucket_answer *a) {
    search s = {.p = problem};
    bool *begins = ARENA_ARRAY(scratch, bool, problem->nitems + 1);
    if (!begins) return base_out_of_memory();
    if (problem->nkinds > MOST_KINDS || !problem->nitems) return NULL;
    TRY(bucket_chains_create(problem, scratch, &s.chains));
    TRY(make_room(&s, most_nodes, scratch));
    TRY(find_ahead(&s, scratch));
    return improve(&s, begins, scratch, a);
}
