/* least.c: when a step ends at the earliest if buckets cost what lines say (lines.c): a latency, and what their
 * gradients weigh.
 *
 * If nothing came after the last bucket, buckets that are sent in the order in which they are ready would end first.
 * Then let a gradient move to an earlier bucket of its kind that is ready no sooner than it: that one takes its weight
 * more, the later one as much less, and nothing ends later. So some cuts of each kind in order of readiness are the
 * best of all sets in all orders. f[state], of so many gradients of each kind, is the earliest end of the lane; the
 * last bucket is of the kind whose last gradient is ready last. Gradients that are left out make no buckets longer:
 * with those alone that have a tail of q or a longer one, the step ends no earlier than f of all, and q. */
#include <stdlib.h>

#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)

typedef struct job {
    json_int_t ready, weight;
    const cert_gradient *of;
} job;

/* Of one kind, or of all as one. */
typedef struct group {
    const job **jobs;
    json_int_t *sum; /* of the weights, by prefix */
    json_int_t latency;
    size_t count, at, stride;
} group;

typedef struct least {
    cert_checker *c;
    const cert_plan *plan;
    job *jobs; /* in order of readiness */
    size_t njobs;
    group *groups;
    size_t ngroups;
    json_int_t *ends; /* by state */
} least;

static int by_ready(const void *a, const void *b) {
    const job *x = a, *y = b;
    if (x->ready != y->ready) return x->ready < y->ready ? -1 : 1;
    return (x->of > y->of) - (x->of < y->of);
}

static weft_status list_jobs(least *l) {
    const cert_plan *plan = l->plan;
    json_int_t *weights = ARENA_ARRAY(l->c->arena, json_int_t, plan->ngradients + 1);
    l->jobs = ARENA_ARRAY(l->c->arena, job, plan->ngradients + 1);
    l->ngroups = plan->bound_as_one ? 1 : plan->nkinds;
    l->groups = ARENA_ARRAY(l->c->arena, group, l->ngroups + 1);
    if (!weights || !l->jobs || !l->groups) return base_out_of_memory();
    for (size_t k = 0; k < l->ngroups; k++) l->groups[k].latency = INT64_MAX;
    for (size_t k = 0; k < plan->nkinds && !l->c->message; k++) {
        json_int_t latency;
        if (!plan->kinds[k].counts) continue;
        TRY(cert_weigh(l->c, plan, k, plan->kinds[k].ncosts, &latency, weights));
        group *g = &l->groups[plan->bound_as_one ? 0 : k];
        if (latency < g->latency) g->latency = latency;
    }
    for (size_t i = 0; i < plan->ngradients; i++) {
        const cert_gradient *g = &plan->gradients[i];
        if (plan->kinds[g->kind].counts && g->tail >= plan->bound_tail)
            l->jobs[l->njobs++] = (job){g->ready * CERT_PARTS, weights[i], g};
    }
    if (l->njobs) qsort(l->jobs, l->njobs, sizeof *l->jobs, by_ready);
    return NULL;
}

static weft_status fill_groups(least *l) {
    for (size_t k = 0; k < l->ngroups; k++) {
        group *g = &l->groups[k];
        if (g->latency == INT64_MAX) continue;
        g->jobs = ARENA_ARRAY(l->c->arena, const job *, l->njobs + 1);
        g->sum = ARENA_ARRAY(l->c->arena, json_int_t, l->njobs + 1);
        if (!g->jobs || !g->sum) return base_out_of_memory();
        for (size_t i = 0; i < l->njobs; i++) {
            const job *j = &l->jobs[i];
            if (!l->plan->bound_as_one && (size_t)j->of->kind != k) continue;
            g->jobs[g->count++] = j;
            g->sum[g->count] = g->sum[g->count - 1] + j->weight;
        }
    }
    return NULL;
}

/* The last bucket is of the group's newest gradients. */
static json_int_t end_of(const least *l, const group *g, size_t state) {
    json_int_t ready = g->jobs[g->at - 1]->ready, best = INT64_MAX;
    for (size_t i = g->at; i-- > 0;) {
        json_int_t ns = g->latency + g->sum[g->at] - g->sum[i], before = l->ends[state - (g->at - i) * g->stride];
        if (ready + ns >= best) break;
        if ((before > ready ? before : ready) + ns < best) best = (before > ready ? before : ready) + ns;
    }
    return best;
}

static void find_ends(least *l, size_t nstates) {
    for (size_t state = 1; state < nstates; state++) {
        const group *last = NULL;
        size_t carry = 1;
        for (size_t k = 0; k < l->ngroups; k++) {
            group *g = &l->groups[k];
            g->at += carry;
            if ((carry = g->at > g->count)) g->at = 0;
            if (g->at && (!last || g->jobs[g->at - 1] > last->jobs[last->at - 1])) last = g;
        }
        l->ends[state] = end_of(l, last, state);
    }
}

weft_status cert_step_by_lines(cert_checker *c, const cert_plan *plan, json_int_t *out) {
    least l = {.c = c, .plan = plan};
    size_t nstates = 1;
    *out = 0;
    TRY(list_jobs(&l));
    if (c->message || !l.njobs) return NULL;
    TRY(fill_groups(&l));
    for (size_t k = 0; k < l.ngroups; k++) {
        l.groups[k].stride = nstates;
        nstates *= l.groups[k].count + 1;
        if (nstates > CERT_STATES && nstates > l.njobs + 1) return BAD(c, "its bound is of too many kinds together");
    }
    if (!(l.ends = ARENA_ARRAY(c->arena, json_int_t, nstates))) return base_out_of_memory();
    find_ends(&l, nstates);
    *out = (l.ends[nstates - 1] + CERT_PARTS - 1) / CERT_PARTS + plan->bound_tail;
    return NULL;
}
