/* plan_members.c: a bucket plan in a certificate beside the program: gradients are vars of the bytes that are said, and
 * take the times that are; buckets are those of the program. It finds what the clock needs of a bucket: its bytes,
 * after which instruction of compute it is ready, and which one needs it. */
#include <stdlib.h>

#include "proof/certificate/certificate.h"

#define BAD(c, ...) cert_refuse(c, "bucket plan: " __VA_ARGS__)

typedef struct binder {
    cert_checker *c;
    cert_plan *plan;
    cert_clock *clock;
    cert_gradient ***of_kind; /* by kind: its gradients in order */
    size_t *count, *at;       /* by kind: how many, and how many so far */
    bool *owned;              /* by number of an op: it reduces a bucket */
    json_int_t *now;          /* when so many instructions of compute have ended, if nothing delays them */
} binder;

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static bool has_nbytes(const weft_program *p, const cert_gradient *g) {
    const weft_var *v = block_find_text(p->blocks[0], g->var, strlen(g->var));
    json_int_t n = v ? (json_int_t)weft_dtype_nbytes((weft_dtype)v->dtype) : 0;
    for (size_t i = 0; v && i < v->ndim; i++)
        if (v->dims[i] <= 0 || __builtin_mul_overflow(n, v->dims[i], &n)) return false;
    return n > 0 && n == g->nbytes;
}

static weft_status check_gradient(binder *b, const cert_gradient *g) {
    const cert_bucket_kind *kind = &b->plan->kinds[g->kind];
    cert_checker *c = b->c;
    if (kind->ncosts && !has_nbytes(c->after.p, g) && !has_nbytes(c->before.p, g))
        return BAD(c, "\"%s\" is no var of the bytes that are said", g->var);
    if (kind->ncosts && g->alone != cert_prices_ns(kind->costs, kind->ncosts, g->nbytes))
        return BAD(c, "\"%s\" does not take so long", g->var);
    if (g->ready != b->now[g->after] || g->tail != b->now[b->plan->ncompute] - b->now[g->needed])
        return BAD(c, "\"%s\" is not ready or needed when it is said to be", g->var);
    return NULL;
}

static weft_status list_gradients(binder *b) {
    const cert_plan *plan = b->plan;
    for (size_t k = 0; k < plan->nkinds; k++)
        if (!(b->of_kind[k] = ARENA_ARRAY(b->c->arena, cert_gradient *, plan->ngradients + 1)))
            return base_out_of_memory();
    for (size_t i = 0; i < plan->ncompute; i++) b->now[i + 1] = b->now[i] + plan->compute[i];
    for (size_t i = 0; i < plan->ngradients && !b->c->message; i++) {
        cert_gradient *g = &plan->gradients[i];
        TRY(check_gradient(b, g));
        b->of_kind[g->kind][b->count[g->kind]++] = g;
    }
    return NULL;
}

/* --- what reduces them -------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    return strcmp((*(cert_gradient *const *)a)->var, (*(cert_gradient *const *)b)->var);
}

/* A stream of the program: its name, or without one that of a ring. */
typedef struct lane_stream {
    const char *name; /* NULL: not seen yet */
    int64_t of_ring;
} lane_stream;

static bool is_on_lane(const cert_checker *c, int64_t number, size_t lane, lane_stream *streams) {
    uint32_t at = c->new_position[number];
    if (at == CERT_NONE) return true; /* a later pass removed it, with a claim of its own */
    const char *own = weft_op_stream(c->new_ops[at]);
    int64_t of_ring = *own ? 0 : cert_ring_of(c->new_ops[at]);
    if (!streams[lane].name) streams[lane] = (lane_stream){own, of_ring};
    for (size_t k = 0; k < CERT_LANES; k++) {
        bool same = streams[k].name && strcmp(streams[k].name, own) == 0 && streams[k].of_ring == of_ring;
        if (same != (k == lane)) return false;
    }
    return true;
}

/* Which op reduces each gradient with others: as the pass claims, and claims.c checks. */
static weft_status find_members(cert_checker *c, size_t pass, cert_plan *to) {
    lane_stream streams[CERT_LANES] = {{NULL, 0}};
    cert_gradient **list = ARENA_ARRAY(c->arena, cert_gradient *, to->ngradients + 1);
    if (!list) return base_out_of_memory();
    for (size_t i = 0; i < to->ngradients; i++) list[i] = &to->gradients[i], list[i]->op = -1;
    if (to->ngradients) qsort(list, to->ngradients, sizeof *list, by_name);
    for (size_t i = 0; i < c->doc.nclaims; i++) {
        const cert_claim *claim = &c->doc.claims[i];
        cert_gradient key = {.var = claim->var}, *at = &key, **found;
        if (claim->kind != CERT_MEMBER || claim->pass != pass) continue;
        found = bsearch(&at, list, to->ngradients, sizeof at, by_name);
        if (!found || claim->op < 0 || (size_t)claim->op >= c->nnumbers)
            return BAD(c, "\"%s\" is in a bucket of the program only", claim->var);
        (*found)->op = claim->op;
        if (!is_on_lane(c, claim->op, to->kinds[(*found)->kind].lane, streams))
            return BAD(c, "lanes are not the streams of the program: \"%s\"", claim->var);
    }
    return NULL;
}

/* --- buckets ------------------------------------------------------------------------------------------------------ */

/* The next gradients of its kind, which one op of the program reduces, and no other bucket's. */
static weft_status take_bucket(binder *p, size_t k) {
    const cert_bucket_said *said = &p->plan->buckets[k];
    const cert_bucket_kind *kind = &p->plan->kinds[said->kind];
    cert_clock_bucket *b = &p->clock->buckets[k];
    size_t *at = &p->at[said->kind];
    json_int_t nbytes = 0, op = -1, needed = (json_int_t)p->plan->ncompute;
    if ((size_t)said->count > p->count[said->kind] - *at) return BAD(p->c, "bucket %zu has too many gradients", k);
    for (json_int_t i = 0; i < said->count; i++) {
        const cert_gradient *g = p->of_kind[said->kind][(*at)++];
        if ((g->op >= 0) != (said->count > 1) || (i && g->op != op))
            return BAD(p->c, "bucket %zu, with \"%s\", is not one of the program", k, g->var);
        op = g->op;
        nbytes += said->count == 1 ? g->nbytes : g->padded;
        b->after = g->after > b->after ? g->after : b->after;
        needed = g->needed < needed ? g->needed : needed;
        b->alone = g->alone;
    }
    if (nbytes != said->nbytes) return BAD(p->c, "bucket %zu has %lld bytes", k, nbytes);
    if (op >= 0 && p->owned[op]) return BAD(p->c, "bucket %zu is a part of one of the program", k);
    if (op >= 0) p->owned[op] = true;
    if (p->plan->made) b->after = said->after, needed = said->needed;
    b->kind = kind;
    b->nbytes = nbytes;
    p->clock->needs[(size_t)needed * CERT_LANES + kind->lane] = (json_int_t)k + 1;
    return NULL;
}

static weft_status take_buckets(binder *b) {
    for (size_t k = 0; k < b->plan->nbuckets && !b->c->message; k++) TRY(take_bucket(b, k));
    for (size_t k = 0; k < b->plan->nkinds && !b->c->message; k++)
        if (b->at[k] != b->count[k]) return BAD(b->c, "%zu gradients are in no bucket", b->count[k] - b->at[k]);
    return NULL;
}

weft_status cert_plan_bind(cert_checker *c, size_t pass, cert_plan *plan, cert_clock *clock) {
    arena *a = c->arena;
    binder b = {.c = c, .plan = plan, .clock = clock};
    b.of_kind = ARENA_ARRAY(a, cert_gradient **, plan->nkinds + 1);
    b.count = ARENA_ARRAY(a, size_t, plan->nkinds + 1);
    b.at = ARENA_ARRAY(a, size_t, plan->nkinds + 1);
    b.owned = ARENA_ARRAY(a, bool, c->nnumbers + 1);
    b.now = ARENA_ARRAY(a, json_int_t, plan->ncompute + 1);
    *clock = (cert_clock){.buckets = ARENA_ARRAY(a, cert_clock_bucket, plan->nbuckets + 1),
                          .needs = ARENA_ARRAY(a, json_int_t, (plan->nplayed + 1) * CERT_LANES)};
    if (!b.of_kind || !b.count || !b.at || !b.owned || !b.now || !clock->buckets || !clock->needs)
        return base_out_of_memory();
    TRY(list_gradients(&b));
    if (!c->message) TRY(find_members(c, pass, plan));
    return c->message ? NULL : take_buckets(&b);
}
