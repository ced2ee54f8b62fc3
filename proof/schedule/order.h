/* order.h: what is complete when a launch starts, whatever the timing: vector clocks over streams. */
#ifndef PROOF_SCHEDULE_ORDER_H
#define PROOF_SCHEDULE_ORDER_H

#include "proof/schedule/schedule.h"

/* Two consecutive steps are one sequence of launches: step * nevents + event. The epoch of a launch counts those of its
 * stream up to it, from 1; over two steps. A clock says of each stream how many of its launches are complete. */
typedef struct order_walk {
    const proof_schedule *s;
    uint32_t *of_stream;   /* nstreams clocks: what a stream's next launch knows from the stream itself */
    uint32_t *host;        /* what the host has waited for */
    uint32_t nhost;        /* how often that has grown */
    uint32_t *host_known;  /* by stream: nhost when its clock took it over */
    uint32_t *clock;       /* of the launch at hand, before it starts: its stream's, in of_stream */
    uint32_t *kept_at;     /* by event: where its clock is kept when complete, plus one; 0: nobody waits for it */
    uint32_t *kept;        /* clocks: of the latest launch */
    uint32_t *position;    /* by event: epoch in step 0 */
    uint32_t *length;      /* by stream: launches a step */
    uint32_t *first;       /* by stream, nstreams + 1: into by_position */
    uint32_t *by_position; /* events, stream after stream */
    uint32_t step;
} order_walk;

WEFT_MUST_USE weft_status order_begin(order_walk *w, const proof_schedule *s, arena *a);
/* The same for one who asks for clocks alone: no positions, lengths or events of epochs. */
WEFT_MUST_USE weft_status order_begin_clocks(order_walk *w, const proof_schedule *s, arena *a);
void order_next_step(order_walk *w);

/* For the two below: joins w->clock with what the host and the launches that `event` waits for know; keeps it for those
 * that wait for `event`, and the host. */
void order_join(order_walk *w, size_t event);
void order_keep(order_walk *w, size_t event);

/* Sets w->clock to what is complete when `event` starts in the step at hand; events come in launch order. Most launches
 * add one to their stream's clock and nothing else. */
static inline void order_start(order_walk *w, size_t event) {
    const proof_event *e = &w->s->events[event];
    w->clock = w->of_stream + e->stream * w->s->nstreams;
    if (w->host_known[e->stream] != w->nhost || e[1].first_wait > e->first_wait) order_join(w, event);
}
/* Then takes it as launched. */
static inline void order_finish(order_walk *w, size_t event) {
    const proof_event *e = &w->s->events[event];
    w->clock[e->stream]++;
    if (w->kept_at[event] || e->blocks_host) order_keep(w, event);
}

/* Of the launch at hand: one more than are known of its stream. */
static inline uint32_t order_epoch_at_hand(const order_walk *w, size_t event) {
    return w->clock[w->s->events[event].stream] + 1;
}
static inline uint32_t order_epoch(const order_walk *w, size_t event) {
    return w->position[event] + w->step * w->length[w->s->events[event].stream];
}
/* The event of an epoch of a stream, and whether it is of an earlier step than the one at hand. */
static inline uint32_t order_event_at(const order_walk *w, uint32_t stream, uint32_t epoch, bool *out_earlier) {
    uint32_t n = w->length[stream], step = (epoch - 1) / n;
    *out_earlier = step < w->step;
    return w->by_position[w->first[stream] + (epoch - 1) % n];
}

#endif
