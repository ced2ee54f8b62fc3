/* ring_order.c: where each stream launches by itself, nothing but streams and waits keeps the collectives of one ring
 * in order; on two streams of a rank they could go either way, and other than on the next rank. */
#include "proof/checks/checks.h"
#include "proof/schedule/order.h"

typedef struct ring_tracker {
    const proof_class *class;
    order_walk walk;
    uint32_t *last; /* by sequence: an event, or PROOF_NONE */
    bool *reported;
    int64_t rank;
    weft_findings *findings;
} ring_tracker;

static weft_status report(ring_tracker *t, uint32_t earlier, uint32_t later, int64_t ring_id) {
    weft_finding *found;
    const proof_schedule *s = t->class->schedule;
    char x[256], y[256];
    TRY(finding_add(t->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = ring_id;
    TRY(finding_op(t->findings, found, s, earlier, t->rank, "communicates"));
    TRY(finding_op(t->findings, found, s, later, t->rank, "communicates"));
    return finding_says(t->findings, &found->message,
                        "ring %lld: %s on stream %s and %s on stream %s may start in either order on rank %lld, and in "
                        "another on another rank",
                        (long long)ring_id, finding_op_text(&found->ops[0], x, sizeof x), found->ops[0].stream,
                        finding_op_text(&found->ops[1], y, sizeof y), found->ops[1].stream, (long long)t->rank);
}

static weft_status check_event(ring_tracker *t, uint32_t event) {
    const proof_schedule *s = t->class->schedule;
    const proof_event *e = &s->events[event];
    const ring_sequence *on = NULL;
    if (e->collective != PROOF_NONE && s->collectives[e->collective].peer < 0)
        on = sequences_find(t->class, s->collectives[e->collective].ring);
    order_start(&t->walk, event);
    size_t i = on ? (size_t)(on - t->class->sequences) : 0;
    if (on && t->last[i] != PROOF_NONE && !t->reported[i]) {
        uint32_t before = t->last[i], stream = s->events[before].stream;
        if (stream != e->stream && t->walk.clock[stream] < t->walk.position[before]) {
            t->reported[i] = true;
            TRY(report(t, before, event, on->ring));
        }
    }
    if (on) t->last[i] = event;
    order_finish(&t->walk, event);
    return NULL;
}

static weft_status track(ring_tracker *t, arena *a) {
    const proof_schedule *s = t->class->schedule;
    t->last = ARENA_ARRAY(a, uint32_t, t->class->nsequences + 1);
    t->reported = ARENA_ARRAY(a, bool, t->class->nsequences + 1);
    if (!t->last || !t->reported) return base_out_of_memory();
    for (size_t i = 0; i < t->class->nsequences; i++) t->last[i] = PROOF_NONE;
    TRY(order_begin(&t->walk, s, a));
    for (uint32_t i = 0; i < s->nevents; i++) TRY(check_event(t, i));
    return NULL;
}

weft_status check_ring_order(const proof_class *class, int64_t rank, weft_findings *f) {
    const proof_schedule *s = class->schedule;
    if (!s->launches_freely || s->nstreams < 2 || !s->ncollectives) return NULL;
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    ring_tracker t = {.class = class, .rank = rank, .findings = f};
    weft_status status = track(&t, &scratch);
    arena_fini(&scratch);
    return status;
}
