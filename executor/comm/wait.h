/* wait.h: a number that threads wait for without burning cores: spin briefly, yield, then sleep in the kernel.
 *
 * Cost: a publish to nobody is one store and one load; a waiter that finds the value there costs one load. */
#ifndef EXECUTOR_COMM_WAIT_H
#define EXECUTOR_COMM_WAIT_H

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* One word lies alone on its cache line in an array, so that waiting for one does not slow down another. */
typedef struct wait_word {
    _Atomic uint32_t value;
    _Atomic uint32_t epoch; /* what sleepers sleep on: changes with every wake */
    _Atomic uint32_t nsleepers;
    char padding[52];
} wait_word;

typedef enum wait_result { WAIT_REACHED, WAIT_ABORTED, WAIT_TIMED_OUT } wait_result;

/* Sets the value and wakes whoever sleeps on it. Everything written before is visible to those who see the value. */
void wait_publish(wait_word *w, uint32_t value);

/* Wakes whoever sleeps on `w` so that they look at their abort flag again. */
void wait_wake(wait_word *w);

/* Blocks until the value has reached `target` (it may wrap around), `*aborted` is set (NULL: never) or
 * `timeout_seconds` have passed. 0 or less only looks: it is what is left until a deadline that has passed. */
#define WAIT_FOREVER HUGE_VAL
wait_result wait_until(wait_word *w, uint32_t target, const _Atomic bool *aborted, double timeout_seconds);

/* For the thread that calls it: whether waits sleep as soon as spinning was for nothing. That is best where another
 * thread would compute on the core for long once this one yields, and a wake-up goes before it. */
void wait_sleep_at_once(bool on);

/* Tells the core that this thread spins. */
void wait_pause(void);

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t wait_clock_ns(void);

/* The clock in `seconds`, now if they are less than 0; INT64_MAX if that is WAIT_FOREVER, or more than 30 years. */
int64_t wait_deadline_ns(double seconds);

/* A condition whose limits are of that clock: setting the time of day neither ends nor prolongs a wait. 0, or errno. */
int wait_condition_init(pthread_cond_t *condition);

/* wait_deadline_ns() as pthread_cond_timedwait takes it. */
struct timespec wait_condition_deadline(double seconds);

#endif
