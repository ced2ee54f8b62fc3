/* bucket_slowed.c: a bound for steps in which compute and collectives slow one another down, whatever the buckets.
 *
 * Compute has C to do, the collectives of a lane at least M. While both run, compute goes on at speed s and the lane at
 * speed r. If that is for d, and compute alone for a, and the lane alone for b, then C = a + s d and M = b + r d. The
 * step takes a + b + d at least, which is C + M - (s + r - 1) d. But d is at most M / r, and at most (C - R) / s, as no
 * collective of the lane runs beside the first R of compute: nothing is ready then. Below what buckets of a kind cost
 * is a line (bucket_lines.c): however many there are they take its latency once and all weights, at least. M is the sum
 * of that. Other lanes slow compute down more. */
#include "passes/bucket_play.h"
#include "plan/work.h"

enum { LOWERINGS = 3 };

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

/* Of the lane's items of the kind. */
static size_t list_items(const bucket_times *t, uint32_t kind, const bucket_item **items, int64_t *alone) {
    bucket_kind collectives = t->problem.kinds[kind];
    size_t n = 0;
    collectives.ncurves = collectives.ncollectives;
    for (size_t i = 0; i < t->problem.nitems; i++) {
        const bucket_item *item = &t->problem.items[i];
        if (item->kind != kind) continue;
        alone[n] = bucket_kind_ns(&collectives, item->nbytes);
        items[n++] = item;
    }
    return n;
}

/* Parts of a nanosecond that collectives of a kind take, at least, all together: of some latencies the best. */
static weft_status add_least(const bucket_times *t, uint32_t kind, bucket_line **out_lines, int64_t *parts) {
    const bucket_kind *of = &t->problem.kinds[kind];
    const bucket_item **items = ARENA_ARRAY(t->scratch, const bucket_item *, t->problem.nitems + 1);
    int64_t *alone = ARENA_ARRAY(t->scratch, int64_t, t->problem.nitems + 1), best = -1;
    if (!items || !alone) return base_out_of_memory();
    size_t n = list_items(t, kind, items, alone);
    for (int k = 0; k < LOWERINGS && n; k++) {
        bucket_weighed w;
        TRY(bucket_weigh(of, of->ncollectives, items, alone, n, SIZE_MAX, t->scratch, &w));
        bucket_weigh_lower(&w, w.excess * k / (LOWERINGS - 1), items, alone, n);
        int64_t all = w.latency;
        for (size_t i = 0; i < n; i++) all = plan_later(all, w.weights[i]);
        if (all <= best) continue;
        best = all;
        *out_lines = w.lines;
    }
    *parts = plan_later(*parts, best);
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

static weft_status bound_lane(bucket_times *t, uint32_t lane, int64_t compute) {
    const bucket_problem *p = &t->problem;
    int64_t first = compute, parts = 0;
    bucket_bound b = {.by = BUCKET_BY_SLOWED,
                      .lane = lane,
                      .counts = ARENA_ARRAY(t->scratch, bool, p->nkinds + 1),
                      .lines = ARENA_ARRAY(t->scratch, bucket_line *, p->nkinds + 1)};
    if (!b.counts || !b.lines) return base_out_of_memory();
    for (size_t i = 0; i < p->nitems; i++) {
        const bucket_item *item = &p->items[i];
        if (p->kinds[item->kind].lane != lane) continue;
        if (item->made_ns < first) first = item->made_ns;
        b.counts[item->kind] = p->kinds[item->kind].ncollectives > 0;
    }
    for (uint32_t k = 0; k < p->nkinds; k++)
        if (b.counts[k]) TRY(add_least(t, k, &b.lines[k], &parts));
    b.ns = bound_of(t, compute, first, parts / BUCKET_PARTS);
    if (parts >= BUCKET_PARTS && parts < INT64_MAX >> 8 && b.ns > t->slowed_bound_ns)
        t->bound = b, t->slowed_bound_ns = b.ns;
    return NULL;
}

weft_status bucket_slowed_bound(bucket_times *t) {
    int64_t compute = compute_of(t);
    for (uint32_t lane = 0; lane < t->nlanes && compute >= 0; lane++) TRY(bound_lane(t, lane, compute));
    return NULL;
}

/* --- with or without ---------------------------------------------------------------------------------------------- */

weft_status bucket_times_bound(bucket_times *t) {
    bucket_bound b;
    TRY(bucket_bound_find(&t->problem, t->answer.begins, t->unlimited_ns, BUCKET_SETS_MOST, t->scratch, &b));
    if (b.ns >= t->bound.ns) t->bound = b;
    return NULL;
}
