/* world_clock.c: how the clock of this process goes by that of rank 0's, for what a timeline or a profile tells of all. */
#include "executor/executor.h"

static int64_t now(void *user) {
    (void)user;
    return wait_clock_ns();
}

weft_status world_clock_begin(weft_executor *x) {
    if (!x->timeline && !x->profile) return NULL;
    return clocks_compare(x->world, x->options.first_step_seconds, now, NULL, &x->clock);
}

weft_status world_clock_read(const weft_executor *x, timeline_clock *out) {
    clock_reading end;
    TRY(clocks_compare(x->world, x->options.first_step_seconds, now, NULL, &end));
    *out = (timeline_clock){{x->clock.at_ns, end.at_ns}, {x->clock.ahead_ns, end.ahead_ns}};
    return NULL;
}
