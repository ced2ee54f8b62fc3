/* sets.c: whether a lane's few gradients can be reduced so that the step ends by a limit: in any sets of one kind, one
 * after another in any order. f[sent] is the earliest end of the lane once those are sent, each bucket in time for what
 * its gradients are needed for; the last bucket is any part of them. */
#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)
enum { SETS = 1 << CERT_SETS_MOST };
static const json_int_t never = INT64_MAX;

typedef struct bucket {
    json_int_t ns, ready, tail; /* ns -1: such gradients do not go together */
} bucket;

static bucket bucket_of(const cert_plan *plan, const cert_gradient *const *gradients, size_t n, size_t set) {
    bucket b = {0, 0, 0};
    json_int_t nbytes = 0, kind = -1;
    size_t count = 0;
    bool together = true;
    for (size_t i = 0; i < n; i++) {
        const cert_gradient *g = gradients[i];
        if (!(set >> i & 1)) continue;
        together = together && (kind < 0 || kind == g->kind);
        together = !__builtin_add_overflow(nbytes, g->padded, &nbytes) && together;
        kind = g->kind;
        b.ns = g->alone;
        if (g->ready > b.ready) b.ready = g->ready;
        if (g->tail > b.tail) b.tail = g->tail;
        count++;
    }
    const cert_bucket_kind *k = &plan->kinds[kind];
    if (count > 1) b.ns = together && k->ncosts ? cert_prices_ns(k->costs, k->ncosts, nbytes) : -1;
    return b;
}

weft_status cert_sets_end_by(cert_checker *c, const cert_plan *plan, json_int_t limit, bool *out) {
    const cert_gradient *gradients[CERT_SETS_MOST];
    bucket *buckets = ARENA_ARRAY(c->arena, bucket, SETS);
    json_int_t *ends = ARENA_ARRAY(c->arena, json_int_t, SETS);
    size_t n = 0;
    if (!buckets || !ends) return base_out_of_memory();
    for (size_t i = 0; i < plan->ngradients; i++) {
        if (plan->kinds[plan->gradients[i].kind].lane != plan->bound_lane) continue;
        if (n == CERT_SETS_MOST) return BAD(c, "its bound is of all sets of more than %d gradients", CERT_SETS_MOST);
        gradients[n++] = &plan->gradients[i];
    }
    for (size_t sent = 1; sent < (size_t)1 << n; sent++) {
        buckets[sent] = bucket_of(plan, gradients, n, sent);
        ends[sent] = never;
        for (size_t last = sent; last; last = (last - 1) & sent) {
            json_int_t before = ends[sent & ~last], end;
            const bucket *b = &buckets[last];
            if (before == never || b->ns < 0) continue;
            if (__builtin_add_overflow(before > b->ready ? before : b->ready, b->ns, &end)) continue;
            if (end <= limit - b->tail && end < ends[sent]) ends[sent] = end;
        }
    }
    *out = ends[((size_t)1 << n) - 1] != never;
    return NULL;
}
