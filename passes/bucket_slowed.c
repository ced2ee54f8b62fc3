/* bucket_slowed.c: a bound for steps in which compute and collectives slow one another down, whatever the buckets.
 *
 * Compute has C to do, the collectives of a lane at least M. While both run, compute goes on at speed s and the lane at
 * speed r. If that is for d, and compute alone for a, and the lane alone for b, then C = a + s d and M = b + r d. The
 * step takes a + b + d at least, which is C + M - (s + r - 1) d. But d is at most M / r, and at most (C - R) / s, as no
 * collective of the lane runs beside the first R of compute: nothing is ready then. M is what the cheapest buckets take
 * that wait for nothing. Other lanes slow compute down more. */
#include "passes/bucket_play.h"
#include "plan/work.h"

/* Of compute; -1: collectives on its stream slow nobody down, and say nothing here. */
static int64_t compute_of(const bucket_times *t) {
    int64_t sum = 0;
    for (size_t i = 0; i < t->plan->ninstrs; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        if (instr->stream != 0) continue;
        if (instr->ring_id >= 0) return -1;
        sum = plan_later(sum, t->ns[i]);
    }
    return sum;
}

/* What collectives of a kind take, at least, all together. */
static weft_status add_least(const bucket_times *t, uint32_t kind, int64_t *sum) {
    bucket_kind collectives = t->problem.kinds[kind];
    bucket_item *items = ARENA_ARRAY(t->scratch, bucket_item, t->problem.nitems + 1);
    bucket_answer answer;
    size_t n = 0;
    if (!items) return base_out_of_memory();
    collectives.ncurves = collectives.ncollectives;
    collectives.lane = 0;
    for (size_t i = 0; i < t->problem.nitems; i++) {
        const bucket_item *item = &t->problem.items[i];
        if (item->kind != kind) continue;
        items[n++] = (bucket_item){.alone_ns = bucket_kind_ns(&collectives, item->nbytes),
                                   .nbytes = item->nbytes,
                                   .padded = item->padded,
                                   .position = item->position,
                                   .deadline = UINT32_MAX};
    }
    TRY(bucket_plan_solve(&(bucket_problem){.items = items, .nitems = n, .kinds = &collectives, .nkinds = 1},
                          t->scratch, &answer));
    *sum = plan_later(*sum, answer.bound_ns);
    return NULL;
}

static int64_t rounded_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Beyond a day the products do not fit into 64 bits: no bound. */
static int64_t bound_of(const bucket_times *t, int64_t compute, int64_t first, int64_t least) {
    const int64_t most = INT64_C(1) << 46;
    int64_t s = plan_speed(t->cluster.compute_beside_collective), r = plan_speed(t->cluster.collective_beside_compute);
    int64_t both = s + r - PLAN_FULL_SPEED;
    if (compute > most || least > most) return 0;
    if (both <= 0) return compute + least;
    int64_t by_lane = rounded_up(least * both, r), by_compute = rounded_up((compute - first) * both, s);
    return compute + least - (by_lane < by_compute ? by_lane : by_compute);
}

weft_status bucket_slowed_bound(bucket_times *t) {
    const bucket_problem *p = &t->problem;
    int64_t compute = compute_of(t);
    for (uint32_t lane = 0; lane < t->nlanes && compute >= 0; lane++) {
        int64_t first = compute, least = 0;
        for (size_t i = 0; i < p->nitems; i++) {
            const bucket_item *item = &p->items[i];
            if (p->kinds[item->kind].lane == lane && item->ready_ns < first) first = item->ready_ns;
        }
        for (uint32_t k = 0; k < p->nkinds; k++)
            if (p->kinds[k].lane == lane && p->kinds[k].ncollectives) TRY(add_least(t, k, &least));
        int64_t bound = bound_of(t, compute, first, least);
        if (bound > t->slowed_bound_ns) t->slowed_bound_ns = bound;
    }
    return NULL;
}
