/* slots.c: collectives with finite resources: a rank launches in program order through one queue, and at most k of its
 * collectives are in flight; the next waits in the queue, and everything behind it too. Or a stream takes so many
 * launches and no more: the host waits with the next until one of them is done. A collective is complete when all
 * members have come to it on their streams. An execution that does whatever can be done is enough: nothing that is done
 * ever keeps something else from being done. A slot, or a place on a stream, is taken by the next in the queue and no
 * other. */
#include "proof/checks/checks.h"
#include "proof/schedule/order.h"

/* One collective of one ring over all its members. */
typedef struct instance {
    uint32_t nmembers, nreached;
} instance;

/* What has happened on a rank. */
typedef struct rank_state {
    uint32_t *instance_of; /* by collective, or PROOF_NONE */
    uint32_t *done;        /* by stream: how many are complete */
    uint32_t launched;     /* all events before this one */
    uint32_t blocker;      /* the host waits for it; PROOF_NONE */
    bool *has_reached;     /* by stream: a collective that is next, and whose instance knows */
    int64_t in_flight;
} rank_state;

typedef struct machine {
    const proof_ranks *r;
    arena *arena;
    order_walk *walks; /* by class: events by stream */
    instance *instances;
    size_t ninstances;
    rank_state *ranks;
    int64_t limit; /* collectives in flight */
    uint32_t room; /* launches that a stream takes */
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
        const int64_t *members = ring_members(m->r, rank, c->sequences[i].ring, &count);
        while (first < count && !is_given(m->r, members[first])) first++;
        if (first == count || members[first] != rank) continue;
        for (size_t k = first; k < count; k++) {
            if (!is_given(m->r, members[k])) continue;
            const proof_class *d = class_at(m, members[k]);
            const ring_sequence *list = sequences_find(d, c->sequences[i].ring);
            ngiven++;
            for (uint32_t n = 0; list && n < list->count; n++)
                m->ranks[members[k]].instance_of[d->order[list->first + n]] = (uint32_t)m->ninstances + n;
        }
        for (uint32_t n = 0; n < c->sequences[i].count; n++) m->instances[m->ninstances++].nmembers = (uint32_t)ngiven;
    }
    return NULL;
}

static weft_status prepare_rank(machine *m, int64_t rank) {
    const proof_schedule *s = class_at(m, rank)->schedule;
    rank_state *q = &m->ranks[rank];
    q->blocker = PROOF_NONE;
    q->instance_of = ARENA_ARRAY(m->arena, uint32_t, s->ncollectives + 1);
    q->done = ARENA_ARRAY(m->arena, uint32_t, s->nstreams + 1);
    q->has_reached = ARENA_ARRAY(m->arena, bool, s->nstreams + 1);
    if (!q->instance_of || !q->done || !q->has_reached) return base_out_of_memory();
    for (size_t i = 0; i < s->ncollectives; i++) q->instance_of[i] = PROOF_NONE;
    return NULL;
}

static weft_status prepare(machine *m) {
    size_t total = 0, n = (size_t)m->r->nranks;
    m->ranks = ARENA_ARRAY(m->arena, rank_state, n + 1);
    m->walks = ARENA_ARRAY(m->arena, order_walk, m->r->nclasses + 1);
    if (!m->ranks || !m->walks) return base_out_of_memory();
    for (size_t c = 0; c < m->r->nclasses; c++) TRY(order_begin(&m->walks[c], m->r->classes[c].schedule, m->arena));
    for (int64_t rank = 0; rank < m->r->nranks; rank++) {
        if (!is_given(m->r, rank)) continue;
        total += class_at(m, rank)->schedule->ncollectives;
        TRY(prepare_rank(m, rank));
    }
    if (!(m->instances = ARENA_ARRAY(m->arena, instance, total + 1))) return base_out_of_memory();
    for (int64_t rank = 0; rank < m->r->nranks; rank++)
        if (is_given(m->r, rank)) TRY(number_rings(m, rank));
    return NULL;
}

/* --- an execution ------------------------------------------------------------------------------------------------- */

static const order_walk *walk_at(const machine *m, int64_t rank) {
    return &m->walks[m->r->class_of[rank]];
}

static bool is_done(const machine *m, int64_t rank, uint32_t event) {
    const order_walk *w = walk_at(m, rank);
    return m->ranks[rank].done[w->s->events[event].stream] >= w->position[event];
}

/* The instance that an event is a part of; NULL: it completes alone. */
static instance *instance_at(const machine *m, int64_t rank, uint32_t event) {
    uint32_t c = walk_at(m, rank)->s->events[event].collective;
    uint32_t i = c == PROOF_NONE ? PROOF_NONE : m->ranks[rank].instance_of[c];
    return i == PROOF_NONE ? NULL : &m->instances[i];
}

/* Whether the stream of the next launch takes no more: as many are before it there, and not done. */
static bool is_full(const machine *m, int64_t rank) {
    const order_walk *w = walk_at(m, rank);
    const rank_state *q = &m->ranks[rank];
    return w->position[q->launched] - 1 - q->done[w->s->events[q->launched].stream] >= m->room;
}

static bool lacks_slot(const machine *m, int64_t rank) {
    return m->ranks[rank].in_flight >= m->limit && instance_at(m, rank, m->ranks[rank].launched);
}

/* Launches what the rank's host, slots and streams allow. */
static bool launch(const machine *m, int64_t rank) {
    const proof_schedule *s = walk_at(m, rank)->s;
    rank_state *q = &m->ranks[rank];
    bool any = false;
    while (q->launched < s->nevents && (q->blocker == PROOF_NONE || is_done(m, rank, q->blocker))) {
        if (lacks_slot(m, rank) || is_full(m, rank)) break;
        q->in_flight += instance_at(m, rank, q->launched) != NULL;
        q->blocker = s->events[q->launched].blocks_host && !s->launches_freely ? q->launched : PROOF_NONE;
        q->launched++;
        any = true;
    }
    return any;
}

static bool can_start(const machine *m, int64_t rank, uint32_t event) {
    const proof_schedule *s = walk_at(m, rank)->s;
    if (event >= m->ranks[rank].launched) return false;
    for (size_t k = 0; k < proof_nwaits(s, event); k++) {
        uint32_t wait = s->waits[s->events[event].first_wait + k];
        if (wait < event && !is_done(m, rank, wait)) return false;
    }
    return true;
}

/* Does what can be done on a stream; a collective that all members have reached each member ends by itself. */
static bool advance(const machine *m, int64_t rank, uint32_t stream) {
    const order_walk *w = walk_at(m, rank);
    rank_state *q = &m->ranks[rank];
    bool any = false;
    while (q->done[stream] < w->length[stream]) {
        uint32_t event = w->by_position[w->first[stream] + q->done[stream]];
        instance *i = instance_at(m, rank, event);
        if (!q->has_reached[stream] && !can_start(m, rank, event)) break;
        if (i && !q->has_reached[stream]) i->nreached++, any = true;
        q->has_reached[stream] = i != NULL;
        if (i && i->nreached < i->nmembers) break;
        q->has_reached[stream] = false;
        q->in_flight -= i != NULL;
        q->done[stream]++;
        any = true;
    }
    return any;
}

static bool go_on(const machine *m, int64_t rank) {
    bool any = launch(m, rank);
    for (uint32_t t = 0; t < walk_at(m, rank)->s->nstreams; t++) any |= advance(m, rank, t);
    return any;
}

static weft_status report(const machine *m, weft_findings *f) {
    weft_finding *found = NULL;
    char message[256];
    bool is_slot = false;
    for (int64_t rank = 0; rank < m->r->nranks; rank++) {
        if (!is_given(m->r, rank)) continue;
        const proof_schedule *s = walk_at(m, rank)->s;
        uint32_t next = m->ranks[rank].launched;
        if (next == s->nevents || !(lacks_slot(m, rank) || is_full(m, rank))) continue;
        if (!found) TRY(finding_add(f, WEFT_VERDICT_RESOURCE_DEADLOCK, &found));
        if (!found) return NULL;
        if (!found->nops) is_slot = lacks_slot(m, rank);
        if (!found->nops && s->events[next].collective != PROOF_NONE)
            found->ring = s->collectives[s->events[next].collective].ring;
        TRY(finding_op(f, found, s, next, rank, is_slot ? "waits for a slot" : "waits for its stream"));
        if (found->nops == 4) break; /* enough to see it */
    }
    if (!found) return NULL;
    finding_op_text(&found->ops[0], message, sizeof message);
    if (!is_slot)
        return finding_says(f, &found->message,
                            "with room for %lld launches on a stream, rank %lld cannot launch %s on stream %s: those "
                            "before it there wait for ranks that cannot launch either",
                            (long long)m->room, (long long)found->ops[0].rank, message, found->ops[0].stream);
    return finding_says(f, &found->message,
                        "with %lld collectives in flight, rank %lld cannot launch %s (ring %lld): those in flight wait "
                        "for ranks that cannot launch either",
                        (long long)m->limit, (long long)found->ops[0].rank, message, (long long)found->ring);
}

weft_status check_slots(const proof_ranks *r, weft_findings *f) {
    arena scratch;
    arena_init(&scratch, &r->context->allocator);
    machine m = {.r = r, .arena = &scratch};
    m.limit = r->max_in_flight ? r->max_in_flight : INT64_MAX;
    m.room = r->max_queued && r->max_queued < UINT32_MAX ? (uint32_t)r->max_queued : UINT32_MAX;
    weft_status status = prepare(&m);
    for (bool any = !status; any;) {
        any = false;
        for (int64_t rank = 0; rank < r->nranks; rank++) any |= is_given(r, rank) && go_on(&m, rank);
    }
    if (!status) status = report(&m, f);
    arena_fini(&scratch);
    return status;
}
