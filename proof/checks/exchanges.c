/* exchanges.c: what one member of a ring gives to another in an all-to-all of unequal parts is what that one expects.
 *
 * Equal parts are compared as all that a collective moves is (pairing_sequences.c). Here each member whose parts are
 * not equal is held against each other: rank i's part j against rank j's part i. */
#include "proof/checks/checks.h"
#include "proof/findings.h"

typedef struct exchange_side {
    int64_t rank;
    size_t place; /* in the ring */
    const proof_class *class;
    const proof_collective *c;
} exchange_side;

typedef struct exchange_pairs {
    const proof_ranks *ranks;
    weft_findings *findings;
    bool *reported; /* by rank: the first difference on a ring of it */
} exchange_pairs;

static const weft_op *op_of(const exchange_side *x) {
    return x->class->schedule->events[x->c->event].op;
}

static weft_status report(exchange_pairs *p, const exchange_side *giver, const exchange_side *taker, int64_t given,
                          int64_t expected) {
    weft_finding *found;
    char message[256];
    size_t n;
    const int64_t *members = ring_members(p->ranks, giver->rank, giver->c->ring, &n);
    for (size_t i = 0; i < n; i++)
        if (members[i] >= 0 && members[i] < p->ranks->nranks) p->reported[members[i]] = true;
    TRY(finding_add(p->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = giver->c->ring;
    TRY(finding_op(p->findings, found, giver->class->schedule, giver->c->event, giver->rank, "communicates"));
    TRY(finding_op(p->findings, found, taker->class->schedule, taker->c->event, taker->rank, "communicates"));
    finding_op_text(&found->ops[0], message, sizeof message);
    return finding_says(p->findings, &found->message,
                        "ring %lld: %s on rank %lld gives %lld elements to rank %lld, which expects %lld of it",
                        (long long)found->ring, message, (long long)giver->rank, (long long)given,
                        (long long)taker->rank, (long long)expected);
}

static weft_status compare_one_way(exchange_pairs *p, const exchange_side *giver, const exchange_side *taker,
                                   size_t n) {
    int64_t given = exchange_part(op_of(giver), false, n, taker->place);
    int64_t expected = exchange_part(op_of(taker), true, n, giver->place);
    bool differ = given >= 0 && expected >= 0 && given != expected;
    return differ && !p->reported[giver->rank] ? report(p, giver, taker, given, expected) : NULL;
}

/* Collective number k of the other on the ring, if it is an exchange too. */
static bool find_side(const proof_ranks *r, int64_t rank, int64_t ring_id, uint32_t k, exchange_side *out) {
    if (rank < 0 || rank >= r->nranks || r->class_of[rank] == PROOF_NONE) return false;
    out->rank = rank;
    out->class = &r->classes[r->class_of[rank]];
    const ring_sequence *list = sequences_find(out->class, ring_id);
    if (!list || k >= list->count) return false;
    out->c = &out->class->schedule->collectives[out->class->order[list->first + k]];
    return op_of(out) && exchange_is(op_of(out));
}

static weft_status compare_with_members(exchange_pairs *p, exchange_side *own, uint32_t k) {
    size_t n;
    const int64_t *members = ring_members(p->ranks, own->rank, own->c->ring, &n);
    own->place = n;
    for (size_t i = 0; i < n; i++)
        if (members[i] == own->rank) own->place = i;
    if (own->place == n) return NULL;
    for (size_t i = 0; i < n && !p->reported[own->rank]; i++) {
        exchange_side other = {.place = i};
        if (!find_side(p->ranks, members[i], own->c->ring, k, &other)) continue;
        if (i < own->place && !exchange_is_even(op_of(&other))) continue; /* that one compared */
        TRY(compare_one_way(p, own, &other, n));
        TRY(compare_one_way(p, &other, own, n));
    }
    return NULL;
}

static weft_status compare_class(exchange_pairs *p, uint32_t class) {
    const proof_class *c = &p->ranks->classes[class];
    for (size_t i = 0; i < c->nsequences; i++) {
        for (uint32_t k = 0; k < c->sequences[i].count; k++) {
            exchange_side own = {.class = c, .c = &c->schedule->collectives[c->order[c->sequences[i].first + k]]};
            if (!op_of(&own) || !exchange_is(op_of(&own)) || exchange_is_even(op_of(&own))) continue;
            for (own.rank = 0; own.rank < p->ranks->nranks; own.rank++)
                if (p->ranks->class_of[own.rank] == class) TRY(compare_with_members(p, &own, k));
        }
    }
    return NULL;
}

weft_status check_exchanges(const proof_ranks *r, weft_findings *f) {
    size_t n = (size_t)r->nranks;
    exchange_pairs p = {.ranks = r, .findings = f};
    if (!(p.reported = base_alloc(&r->context->allocator, n + 1))) return base_out_of_memory();
    memset(p.reported, 0, n + 1);
    weft_status status = NULL;
    for (uint32_t i = 0; i < r->nclasses && !status; i++) status = compare_class(&p, i);
    base_free(&r->context->allocator, p.reported, n + 1);
    return status;
}
