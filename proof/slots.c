/* slots.c: collectives with finite resources: a rank launches them in program order through one queue, and at most k of
 * its own are in flight; the next waits in the queue, and everything behind it too. A collective is complete when all
 * members have launched it. Launching as soon as possible is the best that can happen, so if it ends before everything
 * is complete, every order does. */
#include "proof/checks.h"

/* One collective of one ring over all its members. */
typedef struct instance {
    uint32_t nmembers, nlaunched;
} instance;

typedef struct machine {
    const proof_ranks *r;
    arena *arena;
    instance *instances;
    size_t ninstances;
    uint32_t **instance_of; /* by rank: by collective, or PROOF_NONE */
    uint32_t *next;         /* by rank: the collective to launch next */
    uint32_t *done;         /* by rank: all before this one are complete */
    int64_t limit;
} machine;

static bool is_given(const proof_ranks *r, int64_t rank) {
    return rank >= 0 && rank < r->nranks && r->class_of[rank] != PROOF_NONE;
}

static const proof_class *class_at(const machine *m, int64_t rank) {
    return &m->r->classes[m->r->class_of[rank]];
}

/* Numbers the collectives of the rings that `rank` is the first given member of, on all members. */
static weft_status number_rings(machine *m, int64_t rank) {
    const proof_class *c = class_at(m, rank);
    for (size_t i = 0; i < c->nsequences; i++) {
        size_t count, first = 0, ngiven = 0;
        const int64_t *members = pairing_members(m->r, rank, c->sequences[i].ring, &count);
        while (first < count && !is_given(m->r, members[first])) first++;
        if (first == count || members[first] != rank) continue;
        for (size_t k = first; k < count; k++) {
            if (!is_given(m->r, members[k])) continue;
            const proof_class *d = class_at(m, members[k]);
            const ring_sequence *list = pairing_find(d, c->sequences[i].ring);
            ngiven++;
            for (uint32_t n = 0; list && n < list->count; n++)
                m->instance_of[members[k]][d->order[list->first + n]] = (uint32_t)m->ninstances + n;
        }
        for (uint32_t n = 0; n < c->sequences[i].count; n++) m->instances[m->ninstances++].nmembers = (uint32_t)ngiven;
    }
    return NULL;
}

static weft_status prepare(machine *m) {
    size_t total = 0, n = (size_t)m->r->nranks;
    m->instance_of = ARENA_ARRAY(m->arena, uint32_t *, n);
    m->next = ARENA_ARRAY(m->arena, uint32_t, n);
    m->done = ARENA_ARRAY(m->arena, uint32_t, n);
    if (!m->instance_of || !m->next || !m->done) return base_out_of_memory();
    for (int64_t rank = 0; rank < m->r->nranks; rank++) {
        if (!is_given(m->r, rank)) continue;
        size_t count = class_at(m, rank)->schedule->ncollectives;
        total += count;
        if (!(m->instance_of[rank] = ARENA_ARRAY(m->arena, uint32_t, count + 1))) return base_out_of_memory();
        for (size_t i = 0; i < count; i++) m->instance_of[rank][i] = PROOF_NONE;
    }
    if (!(m->instances = ARENA_ARRAY(m->arena, instance, total + 1))) return base_out_of_memory();
    for (int64_t rank = 0; rank < m->r->nranks; rank++)
        if (is_given(m->r, rank)) TRY(number_rings(m, rank));
    return NULL;
}

static bool is_complete(const machine *m, int64_t rank, uint32_t collective) {
    uint32_t i = m->instance_of[rank][collective];
    return i == PROOF_NONE || m->instances[i].nlaunched == m->instances[i].nmembers;
}

/* Launches what the rank's slots allow; whether it launched any. */
static bool launch(machine *m, int64_t rank) {
    const proof_schedule *s = class_at(m, rank)->schedule;
    int64_t in_flight = 0;
    bool any = false;
    while (m->done[rank] < m->next[rank] && is_complete(m, rank, m->done[rank])) m->done[rank]++;
    for (uint32_t i = m->done[rank]; i < m->next[rank]; i++) in_flight += !is_complete(m, rank, i);
    while (m->next[rank] < s->ncollectives && in_flight < m->limit) {
        uint32_t i = m->next[rank]++;
        if (m->instance_of[rank][i] != PROOF_NONE) m->instances[m->instance_of[rank][i]].nlaunched++;
        in_flight += !is_complete(m, rank, i);
        any = true;
    }
    return any;
}

static weft_status tell(machine *m, weft_findings *f) {
    weft_finding *found = NULL;
    for (int64_t rank = 0; rank < m->r->nranks; rank++) {
        if (!is_given(m->r, rank)) continue;
        const proof_schedule *s = class_at(m, rank)->schedule;
        if (m->next[rank] == s->ncollectives) continue;
        if (!found) TRY(finding_add(f, WEFT_VERDICT_RESOURCE_DEADLOCK, &found));
        if (!found) return NULL;
        TRY(finding_op(f, found, s, s->collectives[m->next[rank]].event, rank, "waits for a slot"));
        if (found->nops == 4) break; /* enough to see it */
    }
    if (!found) return NULL;
    char words[256];
    int64_t rank = found->ops[0].rank;
    found->ring = class_at(m, rank)->schedule->collectives[m->next[rank]].ring;
    return finding_says(f, &found->message,
                        "with %lld collectives in flight, rank %lld cannot launch %s (ring %lld): those in flight wait "
                        "for ranks that cannot launch either",
                        (long long)m->limit, (long long)rank, finding_op_text(&found->ops[0], words, sizeof words),
                        (long long)found->ring);
}

weft_status check_slots(const proof_ranks *r, int64_t max_in_flight, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &r->context->allocator);
    machine m = {.r = r, .arena = &scratch, .limit = max_in_flight};
    weft_status status = prepare(&m);
    for (bool any = !status; any;) {
        any = false;
        for (int64_t rank = 0; rank < r->nranks; rank++) any |= is_given(r, rank) && launch(&m, rank);
    }
    if (!status) status = tell(&m, f);
    arena_fini(&scratch);
    return status;
}
