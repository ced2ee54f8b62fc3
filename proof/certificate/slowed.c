/* slowed.c: the least that a step takes where compute and collectives slow one another down, whatever the buckets.
 *
 * C is all of compute, M the least that a lane's collectives take: of each kind a latency once, and what its gradients
 * weigh (lines.c). While both run, for d, compute goes on at speed s and the lane at r. So the step takes at least
 * C + M - (s + r - 1) d, and d is no more than M / r. Nor is it more than (C - R) / s, if compute does R before the
 * lane's first gradient is ready. */
#include "proof/certificate/certificate.h"

enum { FULL = 1 << 16 };

static json_int_t speed_of(double factor) {
    json_int_t speed = (json_int_t)(FULL / factor + 0.5);
    return speed < 1 ? 1 : speed;
}

static json_int_t divided(json_int_t a, json_int_t b) {
    return (a + b - 1) / b;
}

static json_int_t bound_of(const cert_plan *plan, json_int_t compute, json_int_t first, json_int_t least) {
    json_int_t s = speed_of(plan->compute_factor), r = speed_of(plan->collective_factor), both = s + r - FULL;
    if (compute > INT64_C(1) << 46 || least > INT64_C(1) << 46) return 0;
    if (both <= 0) return compute + least;
    json_int_t by_lane = divided(least * both, r), by_compute = divided((compute - first) * both, s);
    return compute + least - (by_lane < by_compute ? by_lane : by_compute);
}

weft_status cert_step_slowed(cert_checker *c, const cert_plan *plan, json_int_t compute, json_int_t *out) {
    json_int_t *weights = ARENA_ARRAY(c->arena, json_int_t, plan->ngradients + 1), first = compute, parts = 0;
    if (!weights) return base_out_of_memory();
    *out = compute;
    for (size_t k = 0; k < plan->nkinds && !c->message; k++) {
        json_int_t latency;
        if (!plan->kinds[k].counts || !plan->kinds[k].ncollectives) continue;
        TRY(cert_weigh(c, plan, k, plan->kinds[k].ncollectives, &latency, weights));
        parts += latency;
        for (size_t i = 0; i < plan->ngradients; i++)
            if ((size_t)plan->gradients[i].kind == k) parts += weights[i];
    }
    for (size_t i = 0; i < plan->ngradients; i++) {
        const cert_gradient *g = &plan->gradients[i];
        if (plan->kinds[g->kind].lane == plan->bound_lane && g->ready < first) first = g->ready;
    }
    if (parts >= CERT_PARTS) *out = bound_of(plan, compute, first, parts / CERT_PARTS);
    return NULL;
}
