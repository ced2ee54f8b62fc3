/* order.c: happens-before of two consecutive steps (vector clocks: Fidge 1988, Mattern 1989). An op starts when the one
 * before it on its stream is complete, and what it waits for. So must be what the host had waited for when it launched
 * it. A stream's clock is changed where it lies: most launches add one to it and nothing else. */
#include "proof/schedule/order.h"

weft_status order_begin_clocks(order_walk *w, const proof_schedule *s, arena *a) {
    size_t n = s->nstreams, square, nkept = 0;
    *w = (order_walk){.s = s};
    if (!base_mul(n, n, &square)) return base_out_of_memory();
    w->of_stream = w->clock = ARENA_ARRAY(a, uint32_t, square);
    w->host = ARENA_ARRAY(a, uint32_t, n);
    w->host_known = ARENA_ARRAY(a, uint32_t, n);
    w->kept_at = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    if (!w->of_stream || !w->host || !w->host_known || !w->kept_at) return base_out_of_memory();
    for (size_t k = 0; k < s->nwaits; k++)
        if (!w->kept_at[s->waits[k]]) w->kept_at[s->waits[k]] = (uint32_t)++nkept;
    w->kept = base_mul(nkept + 1, n, &nkept) ? ARENA_ARRAY(a, uint32_t, nkept) : NULL;
    return w->kept ? NULL : base_out_of_memory();
}

weft_status order_begin(order_walk *w, const proof_schedule *s, arena *a) {
    size_t n = s->nstreams;
    TRY(order_begin_clocks(w, s, a));
    w->position = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    w->by_position = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    w->length = ARENA_ARRAY(a, uint32_t, n);
    w->first = ARENA_ARRAY(a, uint32_t, n + 1);
    if (!w->position || !w->by_position || !w->length || !w->first) return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++) w->position[i] = ++w->length[s->events[i].stream];
    for (size_t t = 0; t < n; t++) w->first[t + 1] = w->first[t] + w->length[t];
    for (size_t i = 0; i < s->nevents; i++)
        w->by_position[w->first[s->events[i].stream] + w->position[i] - 1] = (uint32_t)i;
    return NULL;
}

static void join(uint32_t *clock, const uint32_t *other, size_t n) {
    for (size_t t = 0; t < n; t++)
        if (other[t] > clock[t]) clock[t] = other[t];
}

static uint32_t *kept_of(const order_walk *w, size_t event) {
    return w->kept_at[event] ? w->kept + (w->kept_at[event] - 1) * w->s->nstreams : NULL;
}

void order_join(order_walk *w, size_t event) {
    const proof_schedule *s = w->s;
    const proof_event *e = &s->events[event];
    size_t n = s->nstreams;
    if ((!s->launches_freely || w->step) && w->host_known[e->stream] != w->nhost) {
        join(w->clock, w->host, n);
        w->host_known[e->stream] = w->nhost;
    }
    for (size_t k = e->first_wait; k < e[1].first_wait; k++) join(w->clock, kept_of(w, s->waits[k]), n);
}

void order_keep(order_walk *w, size_t event) {
    const proof_schedule *s = w->s;
    size_t n = s->nstreams;
    uint32_t *kept = kept_of(w, event);
    if (kept) memcpy(kept, w->clock, n * sizeof *w->clock);
    if (!s->events[event].blocks_host || s->launches_freely) return;
    join(w->host, w->clock, n);
    w->nhost++;
}

void order_next_step(order_walk *w) {
    size_t n = w->s->nstreams;
    for (size_t t = 0; t < n && w->s->joins_steps; t++) join(w->host, w->of_stream + t * n, n);
    w->nhost++;
    w->step++;
}
