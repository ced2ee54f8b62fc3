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

/* --- one bucket more ---------------------------------------------------------------------------------------------- */

/* The last bucket of a prefix (or tuple) and its end: where [i, j) begins is chosen from `lowest` on, the prefix before
 * it is `stride` states back for each of its items. Of equal ends the larger bucket is taken. */
static void close_bucket(solver *s, const chain *c, size_t j, size_t lowest, size_t state, int64_t limit) {
    int64_t ready = c->items[j - 1]->ready_ns, best = NEVER, tail = 0;
    uint32_t from = 0;
    for (size_t i = j; i-- > lowest;) {
        if (!bucket_chain_allows(s->problem, c, i, j)) break;
        tail = later(tail, c->items[i]->tail_ns);
        int64_t before = s->end[state - (j - i) * c->stride], ns = bucket_chain_ns(c, i, j);
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

static weft_status solver_init(solver *s, const bucket_problem *problem, arena *scratch) {
    *s = (solver){.problem = problem, .scratch = scratch};
    TRY(bucket_chains_create(problem, scratch, &s->chains));
    count_states(s);
    size_t nstates = s->nstates != SIZE_MAX ? s->nstates : problem->nitems + 1;
    s->end = ARENA_ARRAY(scratch, int64_t, nstates);
    s->from = ARENA_ARRAY(scratch, uint32_t, nstates);
    return s->end && s->from ? NULL : base_out_of_memory();
}

static weft_status solve_lane(const bucket_problem *problem, arena *scratch, bucket_answer *out_answer) {
    solver s;
    bucket_answer a = {.begins = ARENA_ARRAY(scratch, bool, problem->nitems + 1), .step_ns = problem->compute_ns};
    if (!a.begins) return base_out_of_memory();
    TRY(solver_init(&s, problem, scratch));
    a.bound_ns = a.step_ns;
    if (problem->nitems) TRY(s.nstates != SIZE_MAX ? find_best(&s, &a) : find_good(&s, &a));
    for (size_t i = 0; i < problem->nitems; i++) a.nbuckets += a.begins[i];
    *out_answer = a;
    return NULL;
}

weft_status bucket_plan_ends_by(const bucket_problem *problem, int64_t limit_ns, arena *scratch, bool *out) {
    solver s;
    TRY(solver_init(&s, problem, scratch));
    *out = limit_ns >= problem->compute_ns && s.nstates != SIZE_MAX && solve(&s, limit_ns);
    return NULL;
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

/* The items of a lane, which are `places` of the problem's. */
static weft_status take_lane(const bucket_problem *p, uint32_t lane, arena *scratch, bucket_problem *out,
                             size_t *places) {
    bucket_item *items = ARENA_ARRAY(scratch, bucket_item, p->nitems + 1);
    int64_t *rooms = ARENA_ARRAY(scratch, int64_t, p->nitems + 1);
    if (!items || !rooms) return base_out_of_memory();
    *out = *p;
    out->items = items;
    out->rooms = p->rooms ? rooms : NULL;
    out->nitems = 0;
    for (size_t i = 0; i < p->nitems; i++) {
        if (p->kinds[p->items[i].kind].lane != lane) continue;
        if (p->rooms) rooms[out->nitems] = p->rooms[i];
        items[out->nitems] = p->items[i];
        places[out->nitems++] = i;
    }
    return NULL;
}

/* Each lane ends as early as it can, and none delays another. */
weft_status bucket_plan_solve(const bucket_problem *p, arena *scratch, bucket_answer *out_answer) {
    uint32_t nlanes = 1;
    for (size_t k = 0; k < p->nkinds; k++) nlanes = p->kinds[k].lane >= nlanes ? p->kinds[k].lane + 1 : nlanes;
    if (nlanes == 1) return solve_lane(p, scratch, out_answer);
    bucket_answer a = {.begins = ARENA_ARRAY(scratch, bool, p->nitems + 1)}, of;
    size_t *places = ARENA_ARRAY(scratch, size_t, p->nitems + 1);
    if (!a.begins || !places) return base_out_of_memory();
    for (uint32_t lane = 0; lane < nlanes; lane++) {
        bucket_problem own;
        TRY(take_lane(p, lane, scratch, &own, places));
        TRY(solve_lane(&own, scratch, &of));
        for (size_t i = 0; i < own.nitems; i++) a.begins[places[i]] = of.begins[i];
        a.nbuckets += of.nbuckets;
        a.step_ns = later(a.step_ns, of.step_ns);
        a.bound_ns = later(a.bound_ns, of.bound_ns);
    }
    *out_answer = a;
    return NULL;
}
