/* slowed.c: the least that a step takes where compute and collectives slow one another down, whatever the buckets.
 *
 * C is all of compute, M the least that a lane's collectives take: their cheapest buckets, without waiting. While both
 * run, for d, compute goes on at speed s and the lane at r. So the step takes at least C + M - (s + r - 1) d, and d is
 * no more than M / r. Nor is it more than (C - R) / s, if compute does R before the lane's first gradient is ready. */
#include "proof/certificate/certificate.h"

enum { FULL = 1 << 16 };

static json_int_t speed_of(double factor) {
    json_int_t speed = (json_int_t)(FULL / factor + 0.5);
    return speed < 1 ? 1 : speed;
}

/* The gradients of a kind in their order, cut as is cheapest. */
static weft_status add_least(cert_checker *c, const cert_plan *plan, size_t kind, json_int_t *sum) {
    const cert_bucket_kind *k = &plan->kinds[kind];
    json_int_t *least = ARENA_ARRAY(c->arena, json_int_t, plan->ngradients + 1);
    const cert_gradient **g = ARENA_ARRAY(c->arena, const cert_gradient *, plan->ngradients + 1);
    size_t n = 0;
    if (!least || !g) return base_out_of_memory();
    for (size_t i = 0; i < plan->ngradients; i++)
        if ((size_t)plan->gradients[i].kind == kind) g[n++] = &plan->gradients[i];
    for (size_t j = 1; j <= n; j++) {
        json_int_t nbytes = g[j - 1]->padded;
        least[j] = least[j - 1] + cert_prices_ns(k->costs, k->ncollectives, g[j - 1]->nbytes);
        for (size_t i = j - 1; i-- > 0;) {
            nbytes += g[i]->padded;
            json_int_t ns = least[i] + cert_prices_ns(k->costs, k->ncollectives, nbytes);
            if (ns < least[j]) least[j] = ns;
        }
    }
    *sum += least[n];
    return NULL;
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

weft_status cert_slowed_bound(cert_checker *c, const cert_plan *plan, json_int_t compute, json_int_t *out) {
    *out = 0;
    for (size_t lane = 0; lane < CERT_LANES && (plan->compute_factor > 1 || plan->collective_factor > 1); lane++) {
        json_int_t first = compute, least = 0;
        for (size_t i = 0; i < plan->ngradients; i++) {
            const cert_gradient *g = &plan->gradients[i];
            if (plan->kinds[g->kind].lane == lane && g->ready < first) first = g->ready;
        }
        for (size_t k = 0; k < plan->nkinds; k++)
            if (plan->kinds[k].lane == lane && plan->kinds[k].ncollectives) TRY(add_least(c, plan, k, &least));
        json_int_t bound = bound_of(plan, compute, first, least);
        if (least > 0 && bound > *out) *out = bound;
    }
    return NULL;
}
