/* buckets.c: the checker of a bucket plan. Its times follow from compute, gradients and costs. No buckets end the step
 * before its bound, whichever gradients of a kind go together, and in whatever order a lane sends them.
 *
 * By slowed: C is all of compute, M the least that a lane's collectives take. While both run, for d, compute goes on at
 * speed s and the lane at r. So the step takes C + M - (s + r - 1) d at least. d is no more than M / r. Nor is it more
 * than (C - R) / s, if compute does R before the lane's first gradient is ready.
 *
 * By lines: buckets take a latency and the weights of their gradients (lines.c). If nothing came after, those sent as
 * they get ready would end first. Then let a gradient move to an earlier bucket of its kind that is ready no sooner:
 * that one takes its weight more, the later one as much less, and nothing ends later. So cuts of kinds in order of
 * readiness are the best of all. Without some gradients no buckets take longer: with those alone that have a tail of q
 * or a longer one, the step ends no earlier than they can, and q.
 *
 * By sets: of a few gradients all sets are tried in all orders, at their costs. */
#include <stdlib.h>

#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define LESSER(a, b) ((a) < (b) ? (a) : (b))
enum { MOST_STATES = 1 << 16, MOST_SETS = 1 << 12 };
static const json_int_t never = INT64_MAX;

typedef struct job { /* times of the bound are parts of a nanosecond (CERT_PARTS) */
    json_int_t ready, tail, weight;
    size_t kind, chain;
    const cert_gradient *of;
} job;

typedef struct chain { /* jobs in order of readiness: of a kind, of all kinds, or a single one */
    const job *jobs;
    size_t count, at, stride;
} chain;

typedef struct bucket {
    json_int_t ready, tail, ns, nbytes; /* ns: by lines; else nothing */
    const job *newest;
    size_t count;
} bucket;

typedef struct bound {
    cert_checker *c;
    const cert_plan *plan;
    json_int_t *latency, *weights; /* by kind; by gradient */
    job *jobs;
    chain *chains;
    size_t njobs, nchains, nstates;
    bool by_sets;
    json_int_t limit;
    json_int_t *ends; /* by state, of so many jobs of each chain: the earliest end of the lane */
    json_int_t *sets; /* by state: what it takes as one bucket; 0: not asked yet */
} bound;

/* The least that a step takes where compute and collectives slow one another down. */
static weft_status find_slowed(bound *b, json_int_t compute, json_int_t *out) {
    const cert_plan *p = b->plan;
    json_int_t s = cert_clock_speed(p->compute_factor), r = cert_clock_speed(p->collective_factor);
    json_int_t first = compute, least = 0, both = s + r - CERT_FULL_SPEED;
    for (size_t k = 0; k < p->nkinds; k++)
        if (p->kinds[k].counts && p->kinds[k].ncollectives)
            TRY(cert_weigh(b->c, p, k, p->kinds[k].ncollectives, &b->latency[k], b->weights));
    for (size_t k = 0; k < p->nkinds; k++) least += b->latency[k];
    for (size_t i = 0; i < p->ngradients; i++) {
        least += b->weights[i];
        if (p->kinds[p->gradients[i].kind].lane == p->bound_lane) first = LESSER(first, p->gradients[i].ready);
    }
    least /= CERT_PARTS;
    if (least > INT64_C(1) << 46) return NULL;
    json_int_t beside = both > 0 ? LESSER((least * both + r - 1) / r, ((compute - first) * both + s - 1) / s) : 0;
    *out = compute + least - beside;
    return NULL;
}

static int by_chain(const void *a, const void *b) {
    const job *x = a, *y = b;
    if (x->chain != y->chain) return x->chain < y->chain ? -1 : 1;
    return (x->ready > y->ready) - (x->ready < y->ready);
}

/* By lines kinds that count, each in a chain or all in one; by sets the lane's gradients, each in its own. */
static weft_status list_jobs(bound *b) {
    const cert_plan *p = b->plan;
    json_int_t latency = never;
    for (size_t k = 0; k < p->nkinds && !b->by_sets; k++) {
        if (!p->kinds[k].counts) continue;
        TRY(cert_weigh(b->c, p, k, p->kinds[k].ncosts, &b->latency[k], b->weights));
        latency = LESSER(latency, b->latency[k]);
    }
    if (p->bound_as_one && !b->by_sets) *b->latency = latency;
    for (size_t i = 0; i < p->ngradients; i++) {
        const cert_gradient *g = &p->gradients[i];
        const cert_bucket_kind *kind = &p->kinds[g->kind];
        if (b->by_sets ? kind->lane != p->bound_lane : !kind->counts || g->tail < p->bound_tail) continue;
        json_int_t tail = CERT_PARTS * (b->by_sets ? g->tail : p->bound_tail);
        size_t of = p->bound_as_one && !b->by_sets ? 0 : (size_t)g->kind, own = b->by_sets ? i : of;
        b->jobs[b->njobs++] = (job){g->ready * CERT_PARTS, tail, b->weights[i], of, own, g};
    }
    if (b->njobs) qsort(b->jobs, b->njobs, sizeof *b->jobs, by_chain);
    for (const job *j = b->jobs; j < b->jobs + b->njobs; j++) {
        if (j == b->jobs || j->chain != j[-1].chain) b->chains[b->nchains++].jobs = j;
        b->chains[b->nchains - 1].count++;
    }
    for (chain *own = b->chains; own < b->chains + b->nchains; own++) {
        own->stride = b->nstates;
        b->nstates *= own->count + 1;
        if (b->nstates > (b->by_sets ? MOST_SETS : MOST_STATES) && b->nstates > b->njobs + 1)
            return BAD(b->c, "its bound is of too many gradients or kinds together");
    }
    return NULL;
}

/* The last bucket of the state comes behind all of the state before. */
static void end_by(bound *b, size_t state, size_t before, const bucket *last) {
    const cert_bucket_kind *k = &b->plan->kinds[last->newest->kind];
    json_int_t begin = LARGER(b->ends[before], last->ready), ns = last->ns, *set = &b->sets[state - before];
    if (b->by_sets && last->count > 1 && !k->ncosts) return;
    if (b->by_sets && !*set)
        *set = last->count > 1 ? cert_prices_ns(k->costs, k->ncosts, last->nbytes) : last->newest->of->alone;
    if (b->by_sets) ns = *set * CERT_PARTS;
    if (begin < never && begin + ns + last->tail <= b->limit) b->ends[state] = LESSER(b->ends[state], begin + ns);
}

/* Of each chain from `at` on the newest jobs, one or some or none, are in the last bucket, and all of one kind. */
static void try_last(bound *b, size_t at, size_t state, size_t before, bucket last) {
    const chain *own = &b->chains[at];
    if (at == b->nchains && last.count) end_by(b, state, before, &last);
    if (at == b->nchains) return;
    try_last(b, at + 1, state, before, last);
    for (const job *j = own->jobs + own->at; j-- > own->jobs && (!last.count || j->kind == last.newest->kind);) {
        last.ns += j->weight + (last.count++ ? 0 : b->latency[j->kind]);
        last.nbytes += j->of->padded;
        last.ready = LARGER(last.ready, j->ready);
        last.tail = LARGER(last.tail, j->tail);
        last.newest = j;
        if (last.ready + last.ns >= b->ends[state] || last.ready + last.ns + last.tail > b->limit) return;
        try_last(b, at + 1, state, before -= own->stride, last);
    }
}

static weft_status some_end(bound *b, bool *out) {
    TRY(list_jobs(b));
    if (b->c->message) return NULL;
    if (!(b->ends = ARENA_ARRAY(b->c->arena, json_int_t, b->nstates))) return base_out_of_memory();
    if (!(b->sets = ARENA_ARRAY(b->c->arena, json_int_t, b->nstates))) return base_out_of_memory();
    for (size_t state = 1; state < b->nstates; state++) {
        bool carry = true;
        for (chain *own = b->chains; own < b->chains + b->nchains && carry; own++) {
            own->at = own->at < own->count ? own->at + 1 : 0;
            carry = !own->at;
        }
        b->ends[state] = never;
        try_last(b, 0, state, state, (bucket){0});
    }
    *out = b->ends[b->nstates - 1] != never;
    return NULL;
}

static weft_status check_times(cert_checker *c, const cert_plan *p, cert_clock *clock) {
    cert_clock_play(clock, p);
    for (size_t k = 0; k < p->nbuckets; k++)
        if (clock->buckets[k].start != p->buckets[k].start || clock->buckets[k].end != p->buckets[k].end)
            return BAD(c, "bucket %zu runs from %lld to %lld ns", k, clock->buckets[k].start, clock->buckets[k].end);
    if (clock->compute != p->compute_ns || clock->step != p->step || p->step - clock->compute != p->exposed ||
        p->bound < 0 || p->step - p->bound != p->gap)
        return BAD(c, "the step ends at %lld ns, not as is said", clock->step);
    return NULL;
}

static weft_status check_bound(cert_checker *c, const cert_plan *p) {
    bound b = {.c = c, .plan = p, .nstates = 1, .by_sets = p->bound_by == CERT_BY_SETS};
    json_int_t compute = 0, slowed = 0;
    bool ends = true;
    for (size_t i = 0; i < p->ncompute; i++) compute += p->compute[i];
    if (p->bound <= compute) return NULL;
    if (compute >= CERT_MOST_NS || p->bound >> 52) return BAD(c, "its bound is of a step that takes too long");
    b.limit = (p->bound - 1) * CERT_PARTS;
    b.latency = ARENA_ARRAY(c->arena, json_int_t, p->nkinds + 1);
    b.weights = ARENA_ARRAY(c->arena, json_int_t, p->ngradients + 1);
    b.jobs = ARENA_ARRAY(c->arena, job, p->ngradients + 1);
    b.chains = ARENA_ARRAY(c->arena, chain, p->ngradients + 1);
    if (!b.latency || !b.weights || !b.jobs || !b.chains) return base_out_of_memory();
    if (p->bound_by == CERT_BY_SLOWED) TRY(find_slowed(&b, compute, &slowed));
    if (p->bound_by == CERT_BY_LINES || b.by_sets) TRY(some_end(&b, &ends));
    if (c->message || !ends || slowed >= p->bound) return NULL;
    return BAD(c, "some buckets may end the step before %lld ns", p->bound);
}

weft_status cert_check_buckets(cert_checker *c, size_t pass) {
    cert_plan plan;
    cert_clock clock;
    TRY(cert_plan_read(c, pass, &plan));
    if (!c->message) TRY(cert_plan_bind(c, pass, &plan, &clock));
    if (!c->message) TRY(check_times(c, &plan, &clock));
    if (!c->message) TRY(check_bound(c, &plan));
    c->step_ns = plan.step;
    c->bound_ns = plan.bound;
    return c->message ? NULL : cert_tell_gap(c, &plan, &clock);
}
