/* bucket_plan.c: the best buckets, by dynamic programming over prefixes.
 *
 * One kind: end[j] is the earliest end of the reduces of the first j items, with a bucket border behind item j:
 *   end[j] = min over i < j of max(end[i], ready[j]) + cost(bytes of i+1 .. j)
 * which is exact, since what follows ends no later if this ends earlier (field survey: MG-WFBP, whose greedy rule is
 * not). Costs grow with bytes, so `end` and `ready` do not fall: of all i with end[i] <= ready[j] only the last one
 * counts, and it moves forward with j. The others must all be asked, for where reduces queue up many differ by rounding
 * alone. Several kinds: the same over tuples of prefixes; the bucket that ends last is of the kind whose last item
 * stands last.
 *
 * The step ends with compute, or the tail of some item after its bucket's end. Whether one can end by a limit is asked
 * by giving each bucket a deadline, limit - tail: `end` under deadlines is the same recurrence. The least limit is
 * found by bisection, between the bound that the recurrence without deadlines gives and what its plan takes: often
 * these are equal. */
#include "passes/bucket_chain.h"

typedef struct solver {
    const bucket_problem *problem;
    arena *scratch;
    chain *chains;
    size_t nstates; /* of the tuples; SIZE_MAX: too many */
    int64_t *end;   /* by state, or by prefix of the chain at hand */
    uint32_t *from; /* how many items of the last bucket's kind come before it */
} solver;

int64_t bucket_kind_ns(const bucket_kind *kind, size_t nbytes) {
    int64_t ns = 0;
    for (size_t i = 0; i < kind->ncurves; i++) ns += plan_curve_ns(&kind->curves[i], (double)nbytes);
    return ns;
}

/* --- chains ------------------------------------------------------------------------------------------------------- */

static weft_status find_lines(arena *scratch, chain *c) {
    const bucket_kind *kind = c->kind;
    line *next = c->lines = ARENA_ARRAY(scratch, line, kind->ncurves * WEFT_CLUSTER_LINKS + 1);
    if (!next) return base_out_of_memory();
    for (size_t i = 0; i < kind->ncurves; i++) {
        const plan_curve *curve = &kind->curves[i];
        for (size_t k = 0; k < curve->nlinks; k++)
            *next++ = (line){1e9 * (curve->times * curve->links[k].seconds + curve->op_seconds),
                             1e9 * curve->times / curve->parts / curve->links[k].bytes};
    }
    return NULL;
}

/* Of items with a later one that is due no later nothing more is to be known. The others lie in `due`, in order of
 * items and of deadlines; those that are due leave it at its front. */
static weft_status find_first(arena *scratch, chain *c) {
    uint32_t *due = ARENA_ARRAY(scratch, uint32_t, c->count + 1), front = 0, back = 0, first = 0;
    if (!due) return base_out_of_memory();
    for (uint32_t j = 0; j < c->count; j++) {
        while (front < back && c->items[due[front]]->deadline <= c->items[j]->position) first = due[front++] + 1;
        while (front < back && c->items[due[back - 1]]->deadline >= c->items[j]->deadline) back--;
        due[back++] = j;
        c->first[j] = c->kind->ncurves ? first : j;
    }
    return NULL;
}

static weft_status fill_chain(const bucket_problem *p, uint32_t kind, arena *scratch, chain *c) {
    c->kind = &p->kinds[kind];
    for (size_t i = 0; i < p->nitems; i++) c->count += p->items[i].kind == kind;
    c->items = ARENA_ARRAY(scratch, const bucket_item *, c->count + 1);
    c->first = ARENA_ARRAY(scratch, uint32_t, c->count + 1);
    c->nbytes = ARENA_ARRAY(scratch, size_t, c->count + 1);
    if (!c->items || !c->first || !c->nbytes) return base_out_of_memory();
    size_t n = 0;
    for (size_t i = 0; i < p->nitems; i++) {
        if (p->items[i].kind != kind) continue;
        c->nbytes[n + 1] = c->nbytes[n] + p->items[i].padded;
        c->items[n++] = &p->items[i];
    }
    TRY(find_lines(scratch, c));
    return find_first(scratch, c);
}

weft_status bucket_chains_create(const bucket_problem *p, arena *scratch, chain **out) {
    chain *chains = ARENA_ARRAY(scratch, chain, p->nkinds + 1);
    if (!chains) return base_out_of_memory();
    for (uint32_t k = 0; k < p->nkinds; k++) TRY(fill_chain(p, k, scratch, &chains[k]));
    *out = chains;
    return NULL;
}

/* plan_curve_ns without a division: it is asked for where the two could round apart. */
static int64_t curve_ns(const plan_curve *curve, const line *lines, size_t nbytes) {
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
static int64_t cost_of(const chain *c, size_t i, size_t j) {
    if (j - i == 1) return c->items[i]->alone_ns;
    const line *lines = c->lines;
    int64_t ns = 0;
    for (size_t k = 0; k < c->kind->ncurves; lines += c->kind->curves[k++].nlinks)
        ns += curve_ns(&c->kind->curves[k], lines, c->nbytes[j] - c->nbytes[i]);
    return ns;
}

/* --- one bucket more ---------------------------------------------------------------------------------------------- */

/* Whether a bucket of the items [i, j) may be, given that one of [i + 1, j) may. */
static inline bool is_allowed(const bucket_problem *p, const chain *c, size_t i, size_t j) {
    if (j - i < 2) return true;
    if (p->most_nbytes && c->nbytes[j] - c->nbytes[i] > p->most_nbytes) return false;
    return !p->rooms || p->rooms[c->items[i] - p->items] >= (int64_t)(c->nbytes[j] - c->nbytes[i + 1]);
}

int64_t bucket_chain_ns(const chain *c, size_t i, size_t j) {
    return cost_of(c, i, j);
}

bool bucket_chain_allows(const bucket_problem *p, const chain *c, size_t i, size_t j) {
    return is_allowed(p, c, i, j);
}

/* The last bucket of a prefix (or tuple) and its end: where [i, j) begins is chosen from `lowest` on, the prefix before
 * it is `stride` states back for each of its items. Of equal ends the larger bucket is taken. */
static void close_bucket(solver *s, const chain *c, size_t j, size_t lowest, size_t state, int64_t limit) {
    int64_t ready = c->items[j - 1]->ready_ns, best = NEVER, tail = 0;
    uint32_t from = 0;
    for (size_t i = j; i-- > lowest;) {
        if (!is_allowed(s->problem, c, i, j)) break;
        tail = later(tail, c->items[i]->tail_ns);
        int64_t before = s->end[state - (j - i) * c->stride], ns = cost_of(c, i, j);
        if (sum(ready, ns) > best) break;
        if (before == NEVER) continue;
        int64_t end = sum(later(before, ready), ns);
        if (end > best || sum(end, tail) > limit) continue;
        best = end;
        from = (uint32_t)i;
    }
    s->end[state] = best;
    s->from[state] = from;
}

/* --- one kind ----------------------------------------------------------------------------------------------------- */

/* Whether the chain can be reduced so that the step ends by `limit`. */
static bool solve_chain(solver *s, const chain *c, int64_t limit) {
    size_t low = 0; /* the last prefix that has ended when item j is ready */
    s->end[0] = 0;
    for (size_t j = 1; j <= c->count; j++) {
        while (low + 1 < j && s->end[low + 1] <= c->items[j - 1]->ready_ns) low++;
        close_bucket(s, c, j, low > c->first[j - 1] ? low : c->first[j - 1], j, limit);
        if (s->end[j] == NEVER) return false;
    }
    return true;
}

/* --- several kinds ------------------------------------------------------------------------------------------------ */

static void count_states(solver *s) {
    size_t n = 1;
    for (size_t k = 0; k < s->problem->nkinds && n != SIZE_MAX; k++) {
        s->chains[k].stride = n;
        if (!base_mul(n, s->chains[k].count + 1, &n) || n > BUCKET_STATES) n = SIZE_MAX;
    }
    s->nstates = n;
}

/* The chain whose last item stands last among those of a tuple. */
static chain *last_of(const solver *s) {
    chain *last = NULL;
    for (size_t k = 0; k < s->problem->nkinds; k++) {
        chain *c = &s->chains[k];
        if (c->at && (!last || c->items[c->at - 1] > last->items[last->at - 1])) last = c;
    }
    return last;
}

static void next_tuple(const solver *s) {
    for (size_t k = 0; k < s->problem->nkinds; k++) {
        if (++s->chains[k].at <= s->chains[k].count) return;
        s->chains[k].at = 0;
    }
}

static bool solve_tuples(solver *s, int64_t limit) {
    s->end[0] = 0;
    for (size_t k = 0; k < s->problem->nkinds; k++) s->chains[k].at = 0;
    for (size_t state = 1; state < s->nstates; state++) {
        next_tuple(s);
        const chain *c = last_of(s);
        close_bucket(s, c, c->at, c->first[c->at - 1], state, limit);
    }
    return s->end[s->nstates - 1] != NEVER;
}

static bool solve(solver *s, int64_t limit) {
    return s->problem->nkinds == 1 ? solve_chain(s, &s->chains[0], limit) : solve_tuples(s, limit);
}

/* Marks the buckets that were found, back from the last state. */
static void mark_buckets(const solver *s, bool *begins) {
    const bucket_item *items = s->problem->items;
    memset(begins, 0, s->problem->nitems * sizeof *begins);
    size_t state = s->nstates - 1;
    for (size_t k = 0; k < s->problem->nkinds; k++) s->chains[k].at = s->chains[k].count;
    while (state) {
        chain *c = last_of(s);
        size_t from = s->from[state];
        begins[c->items[from] - items] = true;
        state -= (c->at - from) * c->stride;
        c->at = from;
    }
}

/* --- the end of the step ------------------------------------------------------------------------------------------ */

typedef struct open_bucket {
    size_t nitems, nbytes;
    int64_t tail_ns;
    uint32_t last; /* item */
} open_bucket;

weft_status bucket_plan_step(const bucket_problem *p, const bool *begins, arena *scratch, int64_t *out_step_ns) {
    uint32_t *last_of_kind = ARENA_ARRAY(scratch, uint32_t, p->nkinds + 1);
    bool *ends = ARENA_ARRAY(scratch, bool, p->nitems + 1);
    open_bucket *open = ARENA_ARRAY(scratch, open_bucket, p->nkinds + 1);
    if (!last_of_kind || !ends || !open) return base_out_of_memory();
    for (size_t i = p->nitems; i-- > 0;) {
        uint32_t k = p->items[i].kind;
        ends[i] = !last_of_kind[k];
        last_of_kind[k] = !begins[i];
    }
    int64_t end = 0, step = p->compute_ns;
    for (size_t i = 0; i < p->nitems; i++) {
        const bucket_item *item = &p->items[i];
        open_bucket *o = &open[item->kind];
        o->nitems++;
        o->nbytes += item->padded;
        o->tail_ns = later(o->tail_ns, item->tail_ns);
        if (!ends[i]) continue;
        int64_t ns = o->nitems == 1 ? item->alone_ns : bucket_kind_ns(&p->kinds[item->kind], o->nbytes);
        end = sum(later(end, item->ready_ns), ns);
        step = later(step, sum(end, o->tail_ns));
        *o = (open_bucket){0};
    }
    *out_step_ns = step;
    return NULL;
}

/* No plan ends before the last item has been reduced and what follows it has run. */
static int64_t bound_of(const solver *s) {
    const bucket_problem *p = s->problem;
    return later(p->compute_ns, sum(s->end[s->nstates - 1], p->items[p->nitems - 1].tail_ns));
}

/* The least limit by which a step can end, and its plan. */
static weft_status find_best(solver *s, bucket_answer *a) {
    (void)solve(s, NEVER);
    mark_buckets(s, a->begins);
    TRY(bucket_plan_step(s->problem, a->begins, s->scratch, &a->step_ns));
    int64_t low = bound_of(s), high = a->step_ns;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (solve(s, middle)) {
            mark_buckets(s, a->begins);
            TRY(bucket_plan_step(s->problem, a->begins, s->scratch, &high));
        } else {
            low = middle + 1;
        }
    }
    a->step_ns = high;
    a->bound_ns = low;
    return NULL;
}

/* --- too many combinations ---------------------------------------------------------------------------------------- */

/* Each kind as if the others' reduces took no time: together that is a plan, and each by itself is a bound. */
static weft_status find_good(solver *s, bucket_answer *a) {
    const bucket_problem *p = s->problem;
    a->bound_ns = p->compute_ns;
    for (size_t k = 0; k < p->nkinds; k++) {
        chain *c = &s->chains[k];
        c->stride = 1;
        if (!c->count) continue;
        (void)solve_chain(s, c, NEVER);
        a->bound_ns = later(a->bound_ns, sum(s->end[c->count], c->items[c->count - 1]->tail_ns));
        for (size_t j = c->count; j; j = s->from[j]) a->begins[c->items[s->from[j]] - p->items] = true;
    }
    TRY(bucket_plan_step(p, a->begins, s->scratch, &a->step_ns));
    return bucket_search(p, BUCKET_STATES / 4, s->scratch, a);
}

weft_status bucket_plan_solve(const bucket_problem *problem, arena *scratch, bucket_answer *out_answer) {
    solver s = {.problem = problem, .scratch = scratch};
    bucket_answer a = {.begins = ARENA_ARRAY(scratch, bool, problem->nitems + 1), .step_ns = problem->compute_ns};
    if (!a.begins) return base_out_of_memory();
    TRY(bucket_chains_create(problem, scratch, &s.chains));
    count_states(&s);
    size_t nstates = s.nstates != SIZE_MAX ? s.nstates : problem->nitems + 1;
    s.end = ARENA_ARRAY(scratch, int64_t, nstates);
    s.from = ARENA_ARRAY(scratch, uint32_t, nstates);
    if (!s.end || !s.from) return base_out_of_memory();
    a.bound_ns = a.step_ns;
    if (problem->nitems) TRY(s.nstates != SIZE_MAX ? find_best(&s, &a) : find_good(&s, &a));
    for (size_t i = 0; i < problem->nitems; i++) a.nbuckets += a.begins[i];
    *out_answer = a;
    return NULL;
}
