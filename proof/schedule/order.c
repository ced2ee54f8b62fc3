/* order.c: happens-before of two consecutive steps (vector clocks: Fidge 1988, Mattern 1989). An op starts when the one
 * before it on its stream is complete, what it waits for is, and what the host had waited for when it launched it. */
#include "proof/schedule/order.h"

weft_status order_begin(order_walk *w, const proof_schedule *s, arena *a) {
    size_t n = s->nstreams, square;
    *w = (order_walk){.s = s};
    if (!base_mul(n, n, &square)) return base_out_of_memory();
    w->of_stream = ARENA_ARRAY(a, uint32_t, square);
    w->host = ARENA_ARRAY(a, uint32_t, n);
    w->clock = ARENA_ARRAY(a, uint32_t, n);
    w->kept = ARENA_ARRAY(a, uint32_t *, s->nevents + 1);
    w->position = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    w->by_position = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    w->length = ARENA_ARRAY(a, uint32_t, n);
    w->first = ARENA_ARRAY(a, uint32_t, n + 1);
    if (!w->of_stream || !w->host || !w->clock || !w->kept || !w->position || !w->by_position || !w->length ||
        !w->first)
        return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++) w->position[i] = ++w->length[s->events[i].stream];
    for (size_t t = 0; t < n; t++) w->first[t + 1] = w->first[t] + w->length[t];
    for (size_t i = 0; i < s->nevents; i++)
        w->by_position[w->first[s->events[i].stream] + w->position[i] - 1] = (uint32_t)i;
    for (size_t k = 0; k < s->nwaits; k++)
        if (!w->kept[s->waits[k]] && !(w->kept[s->waits[k]] = ARENA_ARRAY(a, uint32_t, n))) return base_out_of_memory();
    return NULL;
}

static void join(uint32_t *clock, const uint32_t *other, size_t n) {
    for (size_t t = 0; t < n; t++)
        if (other[t] > clock[t]) clock[t] = other[t];
}

void order_start(order_walk *w, size_t event) {
    const proof_schedule *s = w->s;
    const proof_event *e = &s->events[event];
    size_t n = s->nstreams;
    memcpy(w->clock, w->of_stream + e->stream * n, n * sizeof *w->clock);
    if (!s->launches_freely || w->step) join(w->clock, w->host, n);
    for (size_t k = e->first_wait; k < s->events[event + 1].first_wait; k++) join(w->clock, w->kept[s->waits[k]], n);
}

void order_finish(order_walk *w, size_t event) {
    const proof_event *e = &w->s->events[event];
    size_t n = w->s->nstreams;
    w->clock[e->stream] = order_epoch(w, event);
    memcpy(w->of_stream + e->stream * n, w->clock, n * sizeof *w->clock);
    if (w->kept[event]) memcpy(w->kept[event], w->clock, n * sizeof *w->clock);
    if (e->blocks_host && !w->s->launches_freely) join(w->host, w->clock, n);
}

void order_next_step(order_walk *w) {
    size_t n = w->s->nstreams;
    if (w->s->joins_steps)
        for (size_t t = 0; t < n; t++) join(w->host, w->of_stream + t * n, n);
    w->step++;
}
