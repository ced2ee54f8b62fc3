/* watchdog.h: ends a run in which a collective waits too long, and says for whom. */
#ifndef EXECUTOR_WATCHDOG_H
#define EXECUTOR_WATCHDOG_H

#include "executor/executor.h"

enum { WATCH_STEPS = 100 };

/* How long one type of op takes on a ring, waiting included: the longest of each of the last steps. */
typedef struct watch_history {
    struct watch_history *next; /* another type on the same ring */
    const op_schema *schema;
    _Atomic int64_t longest_ns; /* of the step at hand */
    _Atomic int64_t steps_ns[WATCH_STEPS];
    _Atomic uint32_t nsteps; /* in which it ran; the last WATCH_STEPS are kept, step s at s % WATCH_STEPS */
    _Atomic int64_t late_ns; /* after so long others are late: 3 times what is usual, 50 ms at least; 0: not known */
} watch_history;

/* Where a member of a ring is: written by the thread that runs its collectives, read by the watchdog. Each lies on
 * cache lines of its own. */
typedef struct inflight_record {
    _Atomic uint32_t nentered; /* collectives so far, this one included */
    _Atomic int64_t since_ns;  /* 0: in none */
    _Atomic(const struct watched *) in;
    watch_history *histories;
    char padding[128];
} inflight_record;

/* How long something of this history may take: `least_ns`, or 10 times the 95th percentile if that is longer; first_ns
 * as long as it has never ended. */
int64_t watch_limit(const watch_history *h, int64_t least_ns, int64_t first_ns);
void watch_note(watch_history *h, int64_t ns); /* of the step at hand */
void watch_end_step(watch_history *h);

/* Keeps an in-flight record of a collective of more than one rank, unless the options want no watchdog. */
WEFT_MUST_USE weft_status watchdog_bind(weft_executor *x, device_instr *i);
/* For devices: the collective begins, and has ended. Called in the order of the ring. */
int64_t watched_begin(const struct watched *w);
void watched_end(const struct watched *w, int64_t start_ns);
WEFT_MUST_USE weft_status watchdog_start(weft_executor *x); /* where there is something to watch */
void watchdog_stop(weft_executor *x);                       /* before the workers are */
void watchdog_end_step(weft_executor *x);                   /* between steps */

#endif
