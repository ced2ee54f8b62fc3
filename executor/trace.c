/* trace.c: the timeline of an executor (plan/timeline/) seen from outside. */
#include "executor/executor.h"

weft_status trace_init(weft_executor *x) {
    if (!x->options.trace) return NULL;
    timeline *t = ARENA_NEW(&x->arena, timeline);
    const weft_plan **plans = ARENA_ARRAY(&x->arena, const weft_plan *, x->nplans);
    if (!t || !plans) return base_out_of_memory();
    for (size_t p = 0; p < x->nplans; p++) plans[p] = x->ranks[p].plan;
    x->timeline = t;
    return timeline_init(t, &x->arena, plans, x->nplans, x->first_rank, x->nlocal, (size_t)x->options.trace_steps);
}

static trace_event *room_for_step(const weft_executor *x, const stream_state *s) {
    if (!x->timeline) return s->last;
    return timeline_slot(x->timeline, &x->timeline->ranks[s->rank->rank - x->first_rank][s->stream]);
}

void trace_keep_step(weft_executor *x) {
    if (!x->timeline && !x->profile) return;
    for (int r = 0; r < x->nlocal; r++)
        for (int i = 0; i < x->ranks[r].plan->nstreams; i++) {
            stream_state *s = &x->ranks[r].streams[i];
            trace_event *events = room_for_step(x, s);
            profile_cell waiting;
            x->device->engine->times(x->run, s, events, &waiting);
            if (s->cells) profile_add_times(s, events, waiting);
        }
    if (x->timeline) timeline_end_step(x->timeline);
}

static timeline_overlap measure(const weft_executor *x) {
    return x->timeline ? timeline_measure(x->timeline) : (timeline_overlap){0};
}

void weft_executor_overlap(const weft_executor *x, double *out_collective_seconds, double *out_hidden_seconds) {
    timeline_overlap sum = measure(x);
    *out_collective_seconds = (double)sum.collective_ns * 1e-9;
    *out_hidden_seconds = (double)sum.hidden_ns * 1e-9;
}

void weft_executor_hidden(const weft_executor *x, size_t *out_ncollectives, size_t *out_nhidden) {
    timeline_overlap sum = measure(x);
    *out_ncollectives = sum.ncollectives;
    *out_nhidden = sum.nhidden;
}

weft_status weft_executor_rank_times(const weft_executor *x, int rank, weft_rank_times *out_times) {
    return timeline_rank_times(x->timeline, rank, out_times);
}

weft_status weft_executor_trace_json(const weft_executor *x, char **out_bytes, size_t *out_nbytes) {
    return timeline_json(x->timeline, out_bytes, out_nbytes);
}

weft_status weft_executor_trace_html(const weft_executor *x, const char *title, char **out_bytes, size_t *out_nbytes) {
    return timeline_html(x->timeline, title, out_bytes, out_nbytes);
}
