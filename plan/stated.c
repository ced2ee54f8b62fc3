/* stated.c: the order between streams that a program states itself, and nothing else: the reading in_order.
 *
 * - An op that waits for an event starts when the op that recorded it last is complete.
 * - c_wait_compute lets a ring's own stream wait for what compute was given so far, c_wait_comm compute for the ring's
 *   (paddle/fluid/operators/collective/c_wait_compute_op.cc, c_wait_comm_op.cc).
 * - What blocks the host (c_sync_*, a fetch, a copy to the host) lets everything that is launched later wait.
 * - An asynchronous collective starts when what compute was given before it is complete, and wait_tensor lets compute
 *   wait for the collective that made the value (torch: ProcessGroupNCCL's stream and work.wait()).
 *
 * A plan made so is as unsafe as its program: it is there to show what a missing wait does. */
#include <stdio.h>

#include "plan/builder.h"
#include "program/grow.h"

/* So many instructions of a stream. */
typedef struct moment {
    int32_t stream, count; /* count 0: nothing to wait for */
} moment;

typedef struct stated {
    stated_wait *waits; /* by `from` */
    size_t nwaits, wait_capacity, ntaken;
    interner names; /* of events */
    moment *events; /* by name id: where it was recorded last */
    size_t event_capacity;
    moment *promises; /* by value that is no view: the asynchronous collective that wrote it last */
    size_t promise_capacity;
    int32_t (*pending)[PLAN_MAX_STREAMS]; /* by stream: counts that its next instruction waits for */
    int32_t host[PLAN_MAX_STREAMS];       /* counts that every later instruction waits for */
} stated;

static weft_status get_stated(plan_builder *b, stated **out) {
    if (!b->stated) {
        stated *s = ARENA_NEW(&b->scratch, stated);
        if (!s) return base_out_of_memory();
        s->pending = arena_alloc(&b->scratch, PLAN_MAX_STREAMS * sizeof *s->pending);
        if (!s->pending) return base_out_of_memory();
        interner_init(&s->names, &b->scratch);
        b->stated = s;
    }
    *out = b->stated;
    return NULL;
}

static weft_status add_wait(plan_builder *b, int32_t stream, moment until) {
    stated *s = b->stated;
    if (until.count == 0) return NULL;
    TRY(grow(&b->scratch, &s->waits, &s->wait_capacity, s->nwaits + 1, sizeof *s->waits));
    s->waits[s->nwaits++] = (stated_wait){b->ninstrs, stream, until.stream, until.count};
    return NULL;
}

/* What the stream has been given so far. */
static moment now_of(const plan_builder *b, int32_t stream) {
    return (moment){stream, b->stream_length[stream]};
}

static weft_status ring_stream(plan_builder *b, const weft_op *op, int32_t *out) {
    char of_ring[32];
    snprintf(of_ring, sizeof of_ring, "ring_%lld", (long long)op_ring(op));
    return plan_find_stream(b, op, of_ring, out);
}

static weft_status event_of(plan_builder *b, const char *event, moment **out) {
    stated *s = b->stated;
    const name *n = interner_get(&s->names, event, strlen(event));
    if (!n) return base_out_of_memory();
    TRY(grow(&b->scratch, &s->events, &s->event_capacity, (size_t)n->id + 1, sizeof *s->events));
    *out = &s->events[n->id];
    return NULL;
}

static weft_status promise_of(plan_builder *b, const weft_op *op, const weft_var *v, moment **out) {
    stated *s = b->stated;
    int32_t value;
    int64_t begin;
    TRY(plan_value_of(b, op, v, &value));
    int32_t root = plan_find_root(b, value, &begin);
    TRY(grow(&b->scratch, &s->promises, &s->promise_capacity, (size_t)root + 1, sizeof *s->promises));
    *out = &s->promises[root];
    return NULL;
}

static weft_status wait_for_promises(plan_builder *b, const weft_op *op) {
    FOR_EACH_ARG(op, false, u) {
        moment *made;
        TRY(promise_of(b, op, u->var, &made));
        TRY(add_wait(b, 0, *made));
    }
    return NULL;
}

static weft_status wait_for_events(plan_builder *b, const weft_op *op, int32_t stream) {
    for (size_t i = 0; op->dist && i < op->dist->nevents_to_wait; i++) {
        moment *recorded;
        TRY(event_of(b, op->dist->events_to_wait[i], &recorded));
        TRY(add_wait(b, stream, *recorded));
    }
    return NULL;
}

weft_status plan_stated_before(plan_builder *b, const plan_step *step) {
    weft_op *op = step->op;
    stated *s;
    int32_t stream, of_ring;
    TRY(get_stated(b, &s));
    TRY(plan_stream_of(b, op, &stream));
    TRY(wait_for_events(b, op, stream));
    if (op_is(op, "wait_tensor")) return wait_for_promises(b, op);
    if (attr_bool(op, "async_op", false)) return add_wait(b, stream, now_of(b, 0));
    if (op_is(op, "c_wait_compute")) {
        TRY(ring_stream(b, op, &of_ring));
        return add_wait(b, of_ring, now_of(b, 0));
    }
    if (op_is(op, "c_wait_comm")) {
        TRY(ring_stream(b, op, &of_ring));
        return add_wait(b, 0, now_of(b, of_ring));
    }
    return NULL;
}

static weft_status note_promises(plan_builder *b, const weft_op *op, int32_t stream) {
    FOR_EACH_ARG(op, true, u) {
        moment *made;
        TRY(promise_of(b, op, u->var, &made));
        *made = now_of(b, stream);
    }
    return NULL;
}

weft_status plan_stated_after(plan_builder *b, const plan_step *step) {
    weft_op *op = step->op;
    int32_t stream;
    TRY(plan_stream_of(b, op, &stream));
    if (op->dist && op->dist->event_to_record) {
        moment *recorded;
        TRY(event_of(b, op->dist->event_to_record, &recorded));
        *recorded = now_of(b, stream);
    }
    if (attr_bool(op, "async_op", false)) TRY(note_promises(b, op, stream));
    if (!op_has_effect(op, OP_HOST)) return NULL;
    if (op_is(op, "c_sync_comm_stream")) TRY(ring_stream(b, op, &stream));
    return add_wait(b, -1, now_of(b, stream));
}

static void need_at_least(int32_t *need, int32_t stream, int32_t count) {
    if (need[stream] < count) need[stream] = count;
}

void plan_stated_needs(plan_builder *b, size_t i, int32_t *need) {
    stated *s = b->stated;
    for (; s->ntaken < s->nwaits && s->waits[s->ntaken].from <= i; s->ntaken++) {
        const stated_wait *w = &s->waits[s->ntaken];
        need_at_least(w->stream < 0 ? s->host : s->pending[w->stream], w->on, w->count);
    }
    int32_t *pending = s->pending[b->instrs[i].stream];
    for (size_t t = 0; t < b->nstreams; t++) need[t] = pending[t] > s->host[t] ? pending[t] : s->host[t];
    memset(pending, 0, PLAN_MAX_STREAMS * sizeof *pending);
}
