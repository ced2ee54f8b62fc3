/* buckets.c: a bucket plan in a certificate: its times follow from what it says of compute, gradients and costs. Its
 * buckets are those of the program, and none end the step before its bound.
 *
 * Given are the times of compute's instructions, after and before which each gradient is ready and needed, and costs by
 * bytes. A bucket begins when its last gradient is ready and the one before has ended. The bound holds if with one
 * nanosecond less no cuts are left: f[j], earliest end of the first j gradients, in time for the rest. O(n^2). What
 * slows one another down only ends later, so the bound holds there too. */
#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
static const json_int_t most_ns = 10000000000000, alignment = 256;
typedef struct gradient {
    const char *var;
    json_int_t ready, tail, nbytes, padded, after, needed;
} gradient;

typedef struct plan_check {
    cert_checker *c;
    const json_t *plan;
    const cert_price *costs; /* prices.c */
    size_t ncosts;
    gradient *gradients;
    json_int_t *ends;                   /* by gradient, for can_end_by */
    size_t ngradients, ncompute, first, bucket; /* the next bucket, and its first one */
    json_int_t *clock;                  /* when so many instructions of compute have ended */
    json_int_t end, step;               /* of the last bucket so far, and of the step */
    size_t pass, claim;                 /* the next one of the pass */
    json_int_t maker;                   /* of the last bucket: the op */
    cert_slowed slowed;                 /* starts NULL: compute and collectives do not slow one another down */
} plan_check;

static weft_status read_costs(plan_check *p) {
    return cert_prices_read(p->c, json_object_get(p->plan, "costs"), &p->costs, &p->ncosts);
}

static json_int_t cost_of(const plan_check *p, json_int_t nbytes) {
    return cert_prices_ns(p->costs, p->ncosts, nbytes);
}

static weft_status read_clock(plan_check *p) {
    const json_t *compute = json_object_get(p->plan, "compute");
    p->ncompute = json_array_size(compute);
    if (!(p->clock = ARENA_ARRAY(p->c->arena, json_int_t, p->ncompute + 1))) return base_out_of_memory();
    for (size_t i = 0; i < p->ncompute; i++) {
        json_int_t ns = json_integer_value(json_array_get(compute, i));
        if (ns < 0 || ns > most_ns) return BAD(p->c, "instruction %zu takes %lld ns", i, ns);
        p->step = p->clock[i + 1] = p->clock[i] + ns;
    }
    return NULL;
}

static bool has_nbytes(const weft_program *p, const char *var, json_int_t nbytes) {
    const weft_var *v = block_find_text(p->blocks[0], var, strlen(var));
    json_int_t n = v ? (json_int_t)weft_dtype_nbytes((weft_dtype)v->dtype) : 0;
    for (size_t i = 0; v && i < v->ndim; i++)
        if (v->dims[i] <= 0 || __builtin_mul_overflow(n, v->dims[i], &n)) return false;
    return n > 0 && n == nbytes;
}

static weft_status read_gradients(plan_check *p) {
    const json_t *list = json_object_get(p->plan, "gradients");
    json_int_t after, needed, last_after = 0, first_needed = (json_int_t)p->ncompute;
    p->ngradients = json_array_size(list);
    p->gradients = ARENA_ARRAY(p->c->arena, gradient, p->ngradients + 1);
    p->ends = ARENA_ARRAY(p->c->arena, json_int_t, p->ngradients + 1);
    if (!p->gradients || !p->ends) return base_out_of_memory();
    for (size_t i = 0; i < p->ngradients && !p->c->message; i++) {
        gradient *g = &p->gradients[i];
        if (json_unpack(json_array_get(list, i), "{s:s,s:I,s:I,s:I,s:I,s:I}", "var", &g->var, "nbytes", &g->nbytes,
                        "after", &after, "ready_ns", &g->ready, "needed", &needed, "tail_ns", &g->tail) != 0 ||
            !has_nbytes(p->c->after.p, g->var, g->nbytes))
            return BAD(p->c, "gradient %zu is no var of the bytes that are said", i);
        g->padded = (g->nbytes + alignment - 1) / alignment * alignment;
        bool ordered = after >= last_after && after <= needed && needed <= (json_int_t)p->ncompute;
        if (!ordered || g->ready != p->clock[after] || g->tail != p->clock[p->ncompute] - p->clock[needed])
            return BAD(p->c, "\"%s\" is not ready or needed when it is said to be", g->var);
        last_after = g->after = after;
        g->needed = needed;
        if (needed < first_needed) first_needed = needed;
    }
    if (last_after > first_needed) return BAD(p->c, "a sum is needed before the last gradient is ready");
    return NULL;
}

static const cert_claim *next_slice(plan_check *p) {
    const cert_claim *at = p->c->doc.claims + p->claim, *end = p->c->doc.claims + p->c->doc.nclaims;
    while (at < end && (at->kind != CERT_SLICE || at->pass != p->pass)) at++;
    p->claim = (size_t)(at - p->c->doc.claims) + (at < end);
    return at < end ? at : NULL;
}

/* A bucket of two or more lies in one buffer of the program: slices that the pass claims, in this order. */
static bool has_slices(plan_check *p, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++) {
        const cert_claim *claim = next_slice(p);
        if (!claim || strcmp(claim->var, p->gradients[i].var) || (claim->op == p->maker) == (i == first)) return false;
        p->maker = claim->op;
    }
    return true;
}

static weft_status check_bucket(plan_check *p, json_t *of) {
    json_int_t nbytes = 0, tail = 0, count, said_nbytes, said_start, said_end;
    if (json_unpack(of, "{s:I,s:I,s:I,s:I}", "count", &count, "nbytes", &said_nbytes, "start_ns", &said_start,
                    "end_ns", &said_end) != 0 || count < 1 || (size_t)count > p->ngradients - p->first)
        return BAD(p->c, "the bucket from gradient %zu on is of no gradients", p->first);
    const gradient *g = &p->gradients[p->first], *end = g + count;
    for (; g < end; g++) {
        nbytes += count == 1 ? g->nbytes : g->padded;
        tail = LARGER(tail, g->tail);
    }
    json_int_t start = LARGER(p->end, end[-1].ready);
    p->end = start + cost_of(p, nbytes);
    if (p->slowed.starts) start = p->slowed.starts[p->bucket], p->end = p->slowed.ends[p->bucket++];
    p->step = p->slowed.starts ? p->slowed.step : LARGER(p->step, p->end + tail);
    if (nbytes != said_nbytes || start != said_start || p->end != said_end)
        return BAD(p->c, "the bucket from gradient %zu on runs from %lld to %lld ns", p->first, start, p->end);
    if (count > 1 && !has_slices(p, p->first, (size_t)count))
        return BAD(p->c, "the bucket from gradient %zu on is not one of the program", p->first);
    p->first += (size_t)count;
    return NULL;
}

/* Where a plan says that they do: the buckets are played beside compute. */
static weft_status play_slowed(plan_check *p) {
    const json_t *slowed = json_object_get(p->plan, "slowed"), *list = json_object_get(p->plan, "buckets");
    cert_slowed *s = &p->slowed;
    json_int_t ncollectives, *compute, *needs, *parts, *after;
    if (!slowed) return NULL;
    if (json_unpack((json_t *)slowed, "{s:F,s:F,s:I}", "compute", &s->compute_factor, "collective",
                    &s->collective_factor, "collectives", &ncollectives) != 0 ||
        !(s->compute_factor >= 1 && s->collective_factor >= 1) || ncollectives < 0)
        return BAD(p->c, "factors of what is slowed down: expected 1 or more");
    s->ncompute = p->ncompute, s->nbuckets = json_array_size(list), s->nparts = p->ncosts;
    s->ncollectives = (size_t)ncollectives;
    s->compute = compute = ARENA_ARRAY(p->c->arena, json_int_t, s->ncompute + 1);
    s->needs = needs = ARENA_ARRAY(p->c->arena, json_int_t, s->ncompute + 1);
    s->parts = parts = ARENA_ARRAY(p->c->arena, json_int_t, s->nbuckets * s->nparts + 1);
    s->after = after = ARENA_ARRAY(p->c->arena, json_int_t, s->nbuckets + 1);
    s->starts = ARENA_ARRAY(p->c->arena, json_int_t, 2 * s->nbuckets + 1);
    if (!compute || !needs || !parts || !after || !s->starts) return base_out_of_memory();
    s->ends = s->starts + s->nbuckets;
    for (size_t i = 0; i < p->ncompute; i++) compute[i] = p->clock[i + 1] - p->clock[i];
    for (size_t k = 0, g = 0; k < s->nbuckets; k++) {
        json_int_t count = json_integer_value(json_object_get(json_array_get(list, k), "count")), nbytes = 0;
        for (json_int_t i = 0; i < count && g < p->ngradients; i++, g++) {
            const gradient *of = &p->gradients[g];
            nbytes += count == 1 ? of->nbytes : of->padded;
            needs[of->needed] = LARGER(needs[of->needed], (json_int_t)k + 1);
            after[k] = of->after;
        }
        for (size_t i = 0; i < s->nparts; i++) parts[k * s->nparts + i] = cert_price_ns(p->costs, i, nbytes);
    }
    cert_play_slowed(s);
    return NULL;
}

static weft_status check_buckets(plan_check *p) {
    const json_t *list = json_object_get(p->plan, "buckets");
    for (size_t k = 0; k < json_array_size(list) && !p->c->message; k++) TRY(check_bucket(p, json_array_get(list, k)));
    if (p->first != p->ngradients) return BAD(p->c, "%zu gradients are in no bucket", p->ngradients - p->first);
    const cert_claim *more = next_slice(p);
    return more ? BAD(p->c, "\"%s\" is in a bucket of the program only", more->var) : NULL;
}

static bool can_end_by(const plan_check *p, json_int_t limit) {
    json_int_t *f = p->ends;
    for (size_t j = 1; j <= p->ngradients; j++) {
        json_int_t nbytes = 0, tail = 0;
        f[j] = INT64_MAX;
        for (size_t i = j; i-- > 0;) {
            nbytes += p->gradients[i].padded;
            tail = LARGER(tail, p->gradients[i].tail);
            if (f[i] == INT64_MAX) continue;
            json_int_t n = i + 1 == j ? p->gradients[i].nbytes : nbytes;
            json_int_t end = LARGER(f[i], p->gradients[j - 1].ready) + cost_of(p, n);
            if (end < f[j] && end + tail <= limit) f[j] = end;
        }
    }
    return f[p->ngradients] != INT64_MAX && p->clock[p->ncompute] <= limit;
}

weft_status cert_check_buckets(cert_checker *c, size_t pass) {
    plan_check p = {.c = c, .plan = c->doc.passes[pass].plan, .pass = pass, .maker = -1};
    static weft_status (*const checks[])(plan_check *) = {read_costs, read_clock, read_gradients, play_slowed,
                                                          check_buckets};
    for (size_t i = 0; i < sizeof checks / sizeof *checks && !c->message; i++) TRY(checks[i](&p));
    if (c->message) return NULL;
    json_int_t step, compute, exposed, bound, gap;
    if (json_unpack(c->doc.passes[pass].plan, "{s:I,s:I,s:I,s:I,s:I}", "step_ns", &step, "compute_ns", &compute,
                    "exposed_ns", &exposed, "bound_ns", &bound, "gap_ns", &gap) != 0 ||
        p.clock[p.ncompute] != compute || p.step != step || step - compute != exposed || step - bound != gap ||
        bound < 0)
        return BAD(c, "the step ends at %lld ns, not as is said", p.step);
    if (can_end_by(&p, bound - 1)) return BAD(c, "some buckets end the step before %lld ns", bound);
    c->step_ns = p.step;
    c->bound_ns = bound;
    return NULL;
}
