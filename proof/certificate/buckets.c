/* buckets.c: a bucket plan in a certificate: its times follow from what it says of compute, gradients and costs. Its
 * buckets are those of the program, and none end the step before its bound.
 *
 * Given are compute's times, after and before which instructions each gradient is ready and needed, and costs. A lane
 * is a stream of reduces. A bucket begins when its last gradient is ready and the one before on its lane has ended;
 * compute waits for what it needs (clock.c). The bound is of any buckets in any order (bound.c). */
#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))

typedef struct plan_check {
    cert_checker *c;
    cert_plan plan;
    json_int_t *clock;        /* when so many instructions of compute have ended, if nothing delays them */
    cert_gradient ***of_kind; /* by kind: its gradients in order */
    size_t *count, *at;       /* by kind: how many, and how many so far */
    bool *owned;              /* by number of an op: it reduces a bucket */
    cert_clock played;
} plan_check;

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static bool has_nbytes(const weft_program *p, const cert_gradient *g) {
    const weft_var *v = block_find_text(p->blocks[0], g->var, strlen(g->var));
    json_int_t n = v ? (json_int_t)weft_dtype_nbytes((weft_dtype)v->dtype) : 0;
    for (size_t i = 0; v && i < v->ndim; i++)
        if (v->dims[i] <= 0 || __builtin_mul_overflow(n, v->dims[i], &n)) return false;
    return n > 0 && n == g->nbytes;
}

static weft_status check_gradient(plan_check *p, cert_gradient *g) {
    const cert_plan *plan = &p->plan;
    const cert_bucket_kind *kind = &plan->kinds[g->kind];
    if (kind->ncosts && !has_nbytes(p->c->after.p, g) && !has_nbytes(p->c->before.p, g))
        return BAD(p->c, "\"%s\" is no var of the bytes that are said", g->var);
    if (kind->ncosts && g->alone != cert_prices_ns(kind->costs, kind->ncosts, g->nbytes))
        return BAD(p->c, "\"%s\" does not take so long", g->var);
    if (g->ready != p->clock[g->after] || g->tail != p->clock[plan->ncompute] - p->clock[g->needed])
        return BAD(p->c, "\"%s\" is not ready or needed when it is said to be", g->var);
    p->of_kind[g->kind][p->count[g->kind]++] = g;
    return NULL;
}

static weft_status check_gradients(plan_check *p) {
    const cert_plan *plan = &p->plan;
    for (size_t k = 0; k < plan->nkinds; k++)
        if (!(p->of_kind[k] = ARENA_ARRAY(p->c->arena, cert_gradient *, plan->ngradients + 1)))
            return base_out_of_memory();
    for (size_t i = 0; i < plan->ncompute; i++) p->clock[i + 1] = p->clock[i] + plan->compute[i];
    for (size_t i = 0; i < plan->ngradients && !p->c->message; i++) TRY(check_gradient(p, &plan->gradients[i]));
    return NULL;
}

/* --- buckets ------------------------------------------------------------------------------------------------------ */

/* The next gradients of its kind, which one op of the program reduces, and no other bucket's. */
static weft_status take_bucket(plan_check *p, size_t k) {
    const cert_bucket_said *said = &p->plan.buckets[k];
    const cert_bucket_kind *kind = &p->plan.kinds[said->kind];
    cert_clock_bucket *b = &p->played.buckets[k];
    size_t *at = &p->at[said->kind];
    json_int_t nbytes = 0, op = -1, needed = (json_int_t)p->plan.ncompute;
    if ((size_t)said->count > p->count[said->kind] - *at) return BAD(p->c, "bucket %zu has too many gradients", k);
    for (json_int_t i = 0; i < said->count; i++) {
        const cert_gradient *g = p->of_kind[said->kind][(*at)++];
        if ((g->op >= 0) != (said->count > 1) || (i && g->op != op))
            return BAD(p->c, "bucket %zu, with \"%s\", is not one of the program", k, g->var);
        op = g->op;
        nbytes += said->count == 1 ? g->nbytes : g->padded;
        b->after = LARGER(b->after, g->after);
        needed = g->needed < needed ? g->needed : needed;
        b->alone = g->alone;
    }
    if (nbytes != said->nbytes) return BAD(p->c, "bucket %zu has %lld bytes", k, nbytes);
    if (op >= 0 && p->owned[op]) return BAD(p->c, "bucket %zu is a part of one of the program", k);
    if (op >= 0) p->owned[op] = true;
    if (p->plan.made) b->after = said->after, needed = said->needed;
    b->kind = kind;
    b->nbytes = nbytes;
    p->played.needs[(size_t)needed * CERT_LANES + kind->lane] = (json_int_t)k + 1;
    return NULL;
}

static weft_status check_buckets(plan_check *p) {
    const cert_plan *plan = &p->plan;
    for (size_t k = 0; k < plan->nbuckets && !p->c->message; k++) TRY(take_bucket(p, k));
    for (size_t k = 0; k < plan->nkinds && !p->c->message; k++)
        if (p->at[k] != p->count[k]) return BAD(p->c, "%zu gradients are in no bucket", p->count[k] - p->at[k]);
    if (p->c->message) return NULL;
    cert_clock_play(&p->played, plan);
    for (size_t k = 0; k < plan->nbuckets; k++)
        if (p->played.buckets[k].start != plan->buckets[k].start || p->played.buckets[k].end != plan->buckets[k].end)
            return BAD(p->c, "bucket %zu runs from %lld to %lld ns", k, p->played.buckets[k].start,
                       p->played.buckets[k].end);
    return NULL;
}

/* --- all together ------------------------------------------------------------------------------------------------- */

static weft_status check_bound(plan_check *p) {
    return cert_bound_check(p->c, &p->plan, p->clock[p->plan.ncompute]);
}

static weft_status make_room(plan_check *p) {
    const cert_plan *plan = &p->plan;
    arena *a = p->c->arena;
    p->clock = ARENA_ARRAY(a, json_int_t, plan->ncompute + 1);
    p->of_kind = ARENA_ARRAY(a, cert_gradient **, plan->nkinds + 1);
    p->count = ARENA_ARRAY(a, size_t, plan->nkinds + 1);
    p->at = ARENA_ARRAY(a, size_t, plan->nkinds + 1);
    p->owned = ARENA_ARRAY(a, bool, p->c->nnumbers + 1);
    p->played.buckets = ARENA_ARRAY(a, cert_clock_bucket, plan->nbuckets + 1);
    p->played.needs = ARENA_ARRAY(a, json_int_t, (plan->nplayed + 1) * CERT_LANES);
    bool has_room = p->clock && p->of_kind && p->count && p->at && p->owned && p->played.buckets;
    return has_room && p->played.needs ? NULL : base_out_of_memory();
}

weft_status cert_check_buckets(cert_checker *c, size_t pass) {
    plan_check p = {.c = c};
    static weft_status (*const checks[])(plan_check *) = {make_room, check_gradients, check_buckets, check_bound};
    TRY(cert_plan_read(c, pass, &p.plan));
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !c->message; i++) TRY(checks[i](&p));
    const cert_plan *plan = &p.plan;
    json_int_t compute = p.played.compute;
    if (!c->message && (compute != plan->compute_ns || p.played.step != plan->step || plan->bound < 0 ||
                        plan->step - compute != plan->exposed || plan->step - plan->bound != plan->gap))
        return BAD(c, "the step ends at %lld ns, not as is said", p.played.step);
    c->step_ns = plan->step;
    c->bound_ns = plan->bound;
    return c->message ? NULL : cert_tell_gap(c, plan, &p.played);
}
