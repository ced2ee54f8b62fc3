/* bucket_bound.c: a step that no buckets end earlier, in whatever order they are sent.
 *
 * Below the cost of a kind's buckets lies a line: any bucket takes its latency and the weights of its items, at least
 * (bucket_lines.c). If costs were that, and nothing came after, buckets sent in the order in which they are ready would
 * end first (1 | r | Cmax). Then move an item to an earlier bucket of its kind that is ready no sooner than the item:
 * that one takes its weight more, the later one as much less, and nothing ends later. So it is enough to cut each kind
 * in order of readiness, and the recurrence over prefixes finds the least end. Items that are left out make no plan
 * longer. So take those with a tail of q or more: the step ends no earlier than they can, and q. The bound is the best
 * of all q. Of few items all sets and orders are tried at their true costs (bucket_sets.c).
 *
 * Where kinds have too many prefixes together they may share buckets of the least latency, or each is by itself. All is
 * in whole parts of a nanosecond, so that a checker finds the same. */
#include "passes/bucket_bound.h"

#include <stdlib.h>

#include "passes/bucket_chain.h"

enum { MOST_TAILS = 64, FEW_TAILS = 16, FEW_STATES = 1 << 12, LOWERINGS = 3 };

/* Items that may share buckets, in order of readiness. */
typedef struct group {
    int64_t latency;
    int64_t *ready, *before; /* before: what those before it weigh together, by prefix */
    size_t *place;           /* in the lane */
    size_t count, at, stride;
} group;

/* A kind's items in the lane, in order of readiness. */
typedef struct own_kind {
    const bucket_item **items;
    int64_t *alone;
    size_t count, mean; /* mean: bytes of a bucket of the plan */
    bucket_weighed weighed;
    group group;
    bool counts;
} own_kind;

typedef struct finder {
    const bucket_problem *p;
    arena *scratch;
    bucket_bound *best;
    uint32_t lane;
    const bucket_item **items; /* of the lane, in order of readiness */
    size_t *number;            /* by item of the lane: which of its kind */
    size_t n;
    own_kind *kinds;
    size_t nkinds;  /* that have items in the lane */
    group all;      /* as one */
    int64_t *tails; /* each once, from the least on */
    size_t ntails;
    int64_t *end; /* by prefix, or by combination of prefixes */
} finder;

/* --- a lane ------------------------------------------------------------------------------------------------------- */

static int by_readiness(const void *a, const void *b) {
    const bucket_item *x = *(const bucket_item *const *)a, *y = *(const bucket_item *const *)b;
    if (x->made_ns != y->made_ns) return x->made_ns < y->made_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static weft_status group_init(group *g, size_t n, arena *scratch) {
    g->ready = ARENA_ARRAY(scratch, int64_t, n + 1);
    g->before = ARENA_ARRAY(scratch, int64_t, n + 1);
    g->place = ARENA_ARRAY(scratch, size_t, n + 1);
    return g->ready && g->before && g->place ? NULL : base_out_of_memory();
}

static weft_status finder_init(finder *f) {
    size_t n = f->p->nitems + 1, nkinds = f->p->nkinds + 1;
    size_t nstates = f->p->nkinds > 1 && n < BUCKET_BOUND_STATES ? BUCKET_BOUND_STATES : n;
    f->items = ARENA_ARRAY(f->scratch, const bucket_item *, n);
    f->number = ARENA_ARRAY(f->scratch, size_t, n);
    f->kinds = ARENA_ARRAY(f->scratch, own_kind, nkinds);
    f->tails = ARENA_ARRAY(f->scratch, int64_t, n);
    f->end = ARENA_ARRAY(f->scratch, int64_t, nstates);
    f->best->counts = ARENA_ARRAY(f->scratch, bool, nkinds);
    f->best->lines = ARENA_ARRAY(f->scratch, bucket_line *, nkinds);
    bool has_room = f->items && f->number && f->kinds && f->tails && f->end && f->best->counts && f->best->lines;
    return has_room ? group_init(&f->all, n, f->scratch) : base_out_of_memory();
}

static weft_status take_kind(finder *f, uint32_t kind) {
    own_kind *k = &f->kinds[kind];
    size_t n = 0;
    *k = (own_kind){.mean = k->mean};
    for (size_t i = 0; i < f->n; i++) k->count += f->items[i]->kind == kind;
    k->items = ARENA_ARRAY(f->scratch, const bucket_item *, k->count + 1);
    k->alone = ARENA_ARRAY(f->scratch, int64_t, k->count + 1);
    if (!k->items || !k->alone) return base_out_of_memory();
    for (size_t i = 0; i < f->n; i++) {
        if (f->items[i]->kind != kind) continue;
        f->number[i] = n;
        k->items[n] = f->items[i];
        k->alone[n++] = f->items[i]->alone_ns;
    }
    f->nkinds += n > 0;
    return group_init(&k->group, n, f->scratch);
}

static weft_status take_lane(finder *f, uint32_t lane) {
    const bucket_problem *p = f->p;
    f->lane = lane;
    f->n = f->ntails = f->nkinds = 0;
    for (size_t i = 0; i < p->nitems; i++)
        if (p->kinds[p->items[i].kind].lane == lane) f->items[f->n++] = &p->items[i];
    if (f->n) qsort(f->items, f->n, sizeof *f->items, by_readiness);
    for (size_t i = 0; i < f->n; i++) f->tails[i] = f->items[i]->tail_ns;
    if (f->n) qsort(f->tails, f->n, sizeof *f->tails, by_size);
    for (size_t i = 0; i < f->n; i++)
        if (!i || f->tails[i] != f->tails[i - 1]) f->tails[f->ntails++] = f->tails[i];
    for (uint32_t k = 0; k < p->nkinds; k++) TRY(take_kind(f, k));
    return NULL;
}

/* Bytes of a bucket of the plan in the mean, by kind. */
static weft_status find_means(finder *f, const bool *begins) {
    const bucket_problem *p = f->p;
    size_t *nbuckets = ARENA_ARRAY(f->scratch, size_t, p->nkinds + 1);
    if (!nbuckets) return base_out_of_memory();
    for (size_t i = 0; i < p->nitems; i++) {
        f->kinds[p->items[i].kind].mean += p->items[i].padded;
        nbuckets[p->items[i].kind] += begins[i];
    }
    for (size_t k = 0; k < p->nkinds; k++)
        if (nbuckets[k]) f->kinds[k].mean /= nbuckets[k];
    return NULL;
}

/* --- the least end, by lines -------------------------------------------------------------------------------------- */

/* Of one group. Of prefixes that have ended when the next bucket is ready the last one counts; of the others the first:
 * what is left of an end without the weights does not fall, since without its last item a prefix ends earlier by its
 * weight at least. */
static int64_t end_of_one(const group *g, int64_t *end) {
    size_t low = 0;
    end[0] = 0;
    for (size_t j = 1; j <= g->count; j++) {
        int64_t ready = g->ready[j - 1];
        while (low + 1 < j && end[low + 1] <= ready) low++;
        end[j] = ready + g->latency + g->before[j] - g->before[low];
        if (low + 1 == j) continue;
        int64_t queued = end[low + 1] + g->latency + g->before[j] - g->before[low + 1];
        if (queued < end[j]) end[j] = queued;
    }
    return end[g->count];
}

/* A bucket of the group's items up to the one at hand, as the last one of a combination. */
static int64_t end_of_last(const group *g, const int64_t *end, size_t state) {
    int64_t ready = g->ready[g->at - 1], best = NEVER;
    for (size_t i = g->at; i-- > 0;) {
        int64_t ns = g->latency + g->before[g->at] - g->before[i];
        if (ready + ns >= best) break;
        int64_t ended = later(end[state - (g->at - i) * g->stride], ready) + ns;
        if (ended < best) best = ended;
    }
    return best;
}

/* Of several: the bucket that ends last is of the group whose last item is ready last. */
static int64_t end_of_several(finder *f, size_t nstates) {
    const bucket_problem *p = f->p;
    f->end[0] = 0;
    for (size_t k = 0; k < p->nkinds; k++) f->kinds[k].group.at = 0;
    for (size_t state = 1; state < nstates; state++) {
        const group *last = NULL;
        bool carry = true;
        for (size_t k = 0; k < p->nkinds; k++) {
            group *g = &f->kinds[k].group;
            if (carry) g->at = g->at < g->count ? g->at + 1 : 0;
            carry = carry && !g->at;
            if (g->at && (!last || g->place[g->at - 1] > last->place[last->at - 1])) last = g;
        }
        f->end[state] = end_of_last(last, f->end, state);
    }
    return f->end[nstates - 1];
}

/* --- of items with a tail ----------------------------------------------------------------------------------------- */

static void add_item(group *g, size_t place, int64_t made_ns, int64_t weight) {
    g->ready[g->count] = made_ns * BUCKET_PARTS;
    g->place[g->count] = place;
    g->before[g->count + 1] = g->before[g->count] + weight;
    g->count++;
}

/* Those of kinds that count, with such a tail or a longer one. */
static void fill_groups(finder *f, int64_t tail_ns, bool as_one) {
    f->all.count = 0;
    f->all.latency = NEVER;
    for (size_t k = 0; k < f->p->nkinds; k++) {
        own_kind *own = &f->kinds[k];
        own->group.count = 0;
        own->group.latency = own->weighed.latency;
        if (own->counts && own->count && own->weighed.latency < f->all.latency) f->all.latency = own->weighed.latency;
    }
    for (size_t i = 0; i < f->n; i++) {
        const bucket_item *item = f->items[i];
        own_kind *own = &f->kinds[item->kind];
        if (!own->counts || item->tail_ns < tail_ns) continue;
        add_item(as_one ? &f->all : &own->group, i, item->made_ns, own->weighed.weights[f->number[i]]);
    }
}

static size_t count_states(finder *f) {
    size_t n = 1;
    for (size_t k = 0; k < f->p->nkinds && n <= BUCKET_BOUND_STATES; k++) {
        f->kinds[k].group.stride = n;
        if (!base_mul(n, f->kinds[k].group.count + 1, &n)) return SIZE_MAX;
    }
    return n;
}

static weft_status keep(finder *f, int64_t ns, int64_t tail_ns, bool as_one) {
    bucket_bound *b = f->best;
    if (ns <= b->ns) return NULL;
    b->ns = ns;
    b->by = BUCKET_BY_LINES;
    b->lane = f->lane;
    b->tail_ns = tail_ns;
    b->as_one = as_one;
    for (size_t k = 0; k < f->p->nkinds; k++) {
        const own_kind *own = &f->kinds[k];
        b->counts[k] = own->counts && own->count;
        b->lines[k] = NULL;
        if (!b->counts[k] || !own->weighed.lines) continue;
        b->lines[k] = arena_copy(f->scratch, own->weighed.lines, own->weighed.nlines * sizeof(bucket_line));
        if (!b->lines[k]) return base_out_of_memory();
    }
    return NULL;
}

/* By the kinds that count now: as one, or each for itself if that is few combinations. */
static weft_status try_tail(finder *f, int64_t tail_ns, bool as_one, size_t most_states) {
    int64_t end = 0;
    fill_groups(f, tail_ns, as_one);
    if (as_one) {
        end = end_of_one(&f->all, f->end);
    } else {
        size_t nstates = count_states(f);
        if (nstates > most_states) return NULL;
        end = end_of_several(f, nstates);
    }
    return keep(f, (end + BUCKET_PARTS - 1) / BUCKET_PARTS + tail_ns, tail_ns, as_one);
}

static void count_kind(finder *f, size_t only) {
    for (size_t k = 0; k < f->p->nkinds; k++) f->kinds[k].counts = only == SIZE_MAX || k == only;
}

/* Kinds by themselves, and as one those that have a latency. */
static weft_status try_roughly(finder *f, int64_t tail_ns) {
    for (size_t k = 0; k < f->p->nkinds; k++) {
        count_kind(f, k);
        if (f->kinds[k].count) TRY(try_tail(f, tail_ns, true, 0));
    }
    for (size_t k = 0; k < f->p->nkinds; k++) f->kinds[k].counts = f->kinds[k].weighed.latency > 0;
    TRY(try_tail(f, tail_ns, true, 0));
    count_kind(f, SIZE_MAX);
    return try_tail(f, tail_ns, true, 0);
}

static weft_status try_one_tail(finder *f, int64_t tail_ns, size_t nstates) {
    count_kind(f, SIZE_MAX);
    if (f->nkinds == 1) return try_tail(f, tail_ns, true, 0);
    if (nstates > FEW_STATES) return try_roughly(f, tail_ns);
    return try_tail(f, tail_ns, false, BUCKET_BOUND_STATES);
}

/* All tails or so many of them, then those around the best; where combinations are many they are for the best alone. */
static weft_status try_tails(finder *f) {
    count_kind(f, SIZE_MAX);
    fill_groups(f, 0, false);
    size_t nstates = count_states(f), most = f->nkinds > 1 ? FEW_TAILS : MOST_TAILS, best = 0;
    size_t step = (f->ntails + most - 1) / most;
    for (size_t i = 0; i < f->ntails; i += step) {
        int64_t before = f->best->ns;
        TRY(try_one_tail(f, f->tails[i], nstates));
        if (f->best->ns > before) best = i;
    }
    size_t low = best < step ? 0 : best - step + 1, fine = (2 * step + most - 1) / most;
    for (size_t i = low; step > 1 && i < best + step && i < f->ntails; i += fine)
        TRY(try_one_tail(f, f->tails[i], nstates));
    if (f->nkinds == 1 || nstates <= FEW_STATES) return NULL;
    count_kind(f, SIZE_MAX);
    TRY(try_tail(f, f->tails[0], false, BUCKET_BOUND_STATES));
    return best ? try_tail(f, f->tails[best], false, BUCKET_BOUND_STATES) : NULL;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

static bool is_known(const own_kind *own, const bucket_kind *kind) {
    bool known = true;
    for (size_t i = 0; i < kind->ncurves && own->count > 1; i++)
        known = known && kind->curves[i].nlinks == 1 && !kind->curves[i].table && !kind->curves[i].nccl.machine &&
                !kind->curves[i].is_split;
    return known;
}

/* Lines near the plan's buckets, near the largest one, or without a latency. */
typedef enum anchor { NEAR_MEAN, NEAR_LARGEST, NEAR_NONE, ANCHORS } anchor;

/* False: some items weigh too much to be counted. */
static weft_status weigh(finder *f, anchor near, bool *out_fits, bool *out_has_excess) {
    int64_t all = 0;
    *out_fits = true;
    for (size_t k = 0; k < f->p->nkinds; k++) {
        own_kind *own = &f->kinds[k];
        const bucket_kind *kind = &f->p->kinds[k];
        size_t at = near == NEAR_MEAN ? own->mean : near == NEAR_LARGEST ? SIZE_MAX : 0;
        TRY(bucket_weigh(kind, kind->ncurves, own->items, own->alone, own->count, at, f->scratch, &own->weighed));
        all = sum(all, own->weighed.latency);
        for (size_t i = 0; i < own->count; i++) all = sum(all, own->weighed.weights[i]);
        *out_has_excess = *out_has_excess || own->weighed.excess > 0;
    }
    *out_fits = all < NEVER >> 8;
    return NULL;
}

/* With the whole latency, with half of what small items lack, and without what they lack. */
static weft_status try_lines(finder *f, anchor near) {
    bool fits, has_excess = false;
    for (int k = 0; k < LOWERINGS; k++) {
        TRY(weigh(f, near, &fits, &has_excess));
        if (!fits) return NULL;
        for (size_t i = 0; i < f->p->nkinds; i++) {
            own_kind *own = &f->kinds[i];
            bucket_weigh_lower(&own->weighed, own->weighed.excess * k / (LOWERINGS - 1), own->items, own->alone,
                               own->count);
        }
        TRY(try_tails(f));
        if (!has_excess) break;
    }
    return NULL;
}

static weft_status bound_by_lines(finder *f) {
    bool known = true;
    for (size_t k = 0; k < f->p->nkinds; k++) known = known && is_known(&f->kinds[k], &f->p->kinds[k]);
    for (anchor near = NEAR_MEAN; near < (known ? NEAR_LARGEST : ANCHORS); near++) TRY(try_lines(f, near));
    return NULL;
}

static weft_status bound_by_sets(finder *f, int64_t most_ns) {
    int64_t ns;
    TRY(bucket_sets_find(f->p, f->items, f->n, f->best->ns, most_ns, f->scratch, &ns));
    if (ns <= f->best->ns) return NULL;
    f->best->ns = ns;
    f->best->by = BUCKET_BY_SETS;
    f->best->lane = f->lane;
    return NULL;
}

weft_status bucket_bound_find(const bucket_problem *p, const bool *begins, int64_t most_ns, size_t most_set,
                              arena *scratch, bucket_bound *out) {
    uint32_t nlanes = 1;
    finder f = {.p = p, .scratch = scratch, .best = out};
    *out = (bucket_bound){.ns = p->compute_ns};
    if (p->compute_ns >= BUCKET_MOST_NS) return NULL;
    TRY(finder_init(&f));
    TRY(find_means(&f, begins));
    for (size_t k = 0; k < p->nkinds; k++) nlanes = p->kinds[k].lane >= nlanes ? p->kinds[k].lane + 1 : nlanes;
    for (uint32_t lane = 0; lane < nlanes; lane++) {
        TRY(take_lane(&f, lane));
        if (f.n) TRY(bound_by_lines(&f));
        if (f.n && f.n <= most_set) TRY(bound_by_sets(&f, most_ns));
    }
    return NULL;
}
