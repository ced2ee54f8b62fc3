/* trace_frame.c: what processes of a run share when they print their timelines: one clock and its origin, counts. */
#include "plan/timeline/timeline.h"

int64_t timeline_common_ns(const timeline_clock *c, int64_t own_ns) {
    double lasted = (double)(c->at_ns[1] - c->at_ns[0]), gained = (double)(c->ahead_ns[1] - c->ahead_ns[0]);
    double part = lasted > 0 ? (double)(own_ns - c->at_ns[0]) / lasted : 0;
    return own_ns - c->ahead_ns[0] - (int64_t)(gained * part);
}

/* Start of the first event, by the clock of this process. */
static int64_t first_start(const timeline *t) {
    int64_t found = INT64_MAX;
    uint64_t first;
    size_t n = timeline_steps(t, &first);
    for (uint64_t step = first; step < first + n; step++) {
        for (int r = 0; r < t->nranks; r++) {
            for (int s = 0; s < timeline_plan(t, r)->nstreams; s++) {
                const timeline_lane *l = &t->ranks[r][s];
                const trace_event *events = timeline_events(t, l, step);
                for (size_t i = 0; i < l->instrs->ninstrs; i++) {
                    if (events[i].start_ns >= 0 && events[i].start_ns < found) found = events[i].start_ns;
                }
            }
        }
    }
    return found == INT64_MAX ? 0 : found;
}

timeline_frame timeline_frame_of(const timeline *t, const timeline_clock *clock) {
    uint64_t first;
    return (timeline_frame){.nranks = t->nranks,
                            .nsteps = timeline_steps(t, &first),
                            .clock = *clock,
                            .origin_ns = timeline_common_ns(clock, first_start(t)),
                            .overlap = timeline_measure(t)};
}
