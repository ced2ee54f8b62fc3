/* watch_history.c: how long collectives have taken, and what follows for how long they may. */
#include <stdlib.h>

#include "executor/watchdog.h"

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

enum { LATE_TIMES = 3, LATE_LEAST_NS = 50000000, LATE_EVERY = 16 /* steps, behind the first 16 */ };

/* What 95 of the last 100 steps stayed below; 0: there was none. */
static int64_t usual_ns(const watch_history *h) {
    int64_t sorted[WATCH_STEPS];
    uint32_t nsteps = atomic_load(&h->nsteps), n = nsteps < WATCH_STEPS ? nsteps : WATCH_STEPS;
    if (!n) return 0;
    for (uint32_t i = 0; i < n; i++) sorted[i] = atomic_load(&h->steps_ns[i]);
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted[(n * 95 + 99) / 100 - 1];
}

int64_t watch_limit(const watch_history *h, int64_t least_ns, int64_t first_ns) {
    int64_t usual = usual_ns(h);
    if (!usual) return first_ns;
    return usual > least_ns / 10 ? 10 * usual : least_ns;
}

void watch_note(watch_history *h, int64_t ns) {
    if (ns > atomic_load(&h->longest_ns)) atomic_store(&h->longest_ns, ns);
}

void watch_end_step(watch_history *h) {
    uint32_t nsteps = atomic_load(&h->nsteps);
    int64_t longest = atomic_load(&h->longest_ns);
    if (!longest) return; /* it did not run */
    atomic_store(&h->steps_ns[nsteps % WATCH_STEPS], longest);
    atomic_store(&h->longest_ns, 0);
    atomic_store(&h->nsteps, nsteps + 1);
    if (nsteps >= LATE_EVERY && nsteps % LATE_EVERY) return;
    int64_t usual = usual_ns(h);
    atomic_store(&h->late_ns, usual > LATE_LEAST_NS / LATE_TIMES ? LATE_TIMES * usual : LATE_LEAST_NS);
}
