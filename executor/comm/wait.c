/* wait.c: spin, yield, sleep.
 *
 * The idea: with more threads than cores a spinning waiter keeps the thread that it waits for from running. So spinning
 * is short and then the core is given away; with an idle partner a futex costs 15 us each way, so a few yields come
 * first.
 *
 * The invariant that no wake-up is lost (an event count): a waiter announces itself in `nsleepers`, reads `epoch`,
 * looks at value and abort flag once more and sleeps only while `epoch` is what it read. Whoever changes value or flag
 * does so first, then looks at `nsleepers`, and changes `epoch` if anybody is announced. All of these are sequentially
 * consistent, so either the waiter sees the change or the other one sees the waiter. */
#include "executor/comm/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPINS = 100, YIELDS = 24 };

static _Thread_local bool sleeps_at_once;

void wait_sleep_at_once(bool on) {
    sleeps_at_once = on;
}

int64_t wait_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t wait_deadline_ns(double seconds) {
    const double longest = 1e9;
    if (seconds <= 0) return wait_clock_ns();
    return seconds < longest ? wait_clock_ns() + (int64_t)(seconds * 1e9) : INT64_MAX;
}

int wait_condition_init(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    int failed = pthread_condattr_init(&monotonic);
    if (failed) return failed;
    failed = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (!failed) failed = pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return failed;
}

struct timespec wait_condition_deadline(double seconds) {
    int64_t ns = wait_deadline_ns(seconds);
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

void wait_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool has_reached(wait_word *w, uint32_t target) {
    return (int32_t)(atomic_load(&w->value) - target) >= 0;
}

static bool is_aborted(const _Atomic bool *aborted) {
    return aborted && atomic_load(aborted);
}

void wait_wake(wait_word *w) {
    if (atomic_load(&w->nsleepers) == 0) return;
    atomic_fetch_add(&w->epoch, 1);
    syscall(SYS_futex, &w->epoch, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void wait_publish(wait_word *w, uint32_t value) {
    atomic_store(&w->value, value);
    wait_wake(w);
}

/* Sleeps while epoch is `seen`, until `deadline_ns` (INT64_MAX: no limit); false when that has passed. */
static bool sleep_on(wait_word *w, uint32_t seen, int64_t deadline_ns) {
    struct timespec left, *limit = NULL;
    if (deadline_ns != INT64_MAX) {
        int64_t ns = deadline_ns - wait_clock_ns();
        if (ns <= 0) return false;
        left = (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
        limit = &left;
    }
    syscall(SYS_futex, &w->epoch, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0);
    return true;
}

static wait_result sleep_until(wait_word *w, uint32_t target, const _Atomic bool *aborted, double timeout_seconds) {
    int64_t deadline = wait_deadline_ns(timeout_seconds);
    wait_result result = WAIT_REACHED;
    atomic_fetch_add(&w->nsleepers, 1);
    for (;;) {
        uint32_t seen = atomic_load(&w->epoch);
        if (has_reached(w, target)) break;
        if (is_aborted(aborted)) {
            result = WAIT_ABORTED;
            break;
        }
        if (!sleep_on(w, seen, deadline)) {
            result = has_reached(w, target) ? WAIT_REACHED : WAIT_TIMED_OUT;
            break;
        }
    }
    atomic_fetch_sub(&w->nsleepers, 1);
    return result;
}

wait_result wait_until(wait_word *w, uint32_t target, const _Atomic bool *aborted, double timeout_seconds) {
    for (int i = 0, n = sleeps_at_once ? SPINS : SPINS + YIELDS; i < n; i++) {
        if (has_reached(w, target)) return WAIT_REACHED;
        if (is_aborted(aborted)) return WAIT_ABORTED;
        if (i < SPINS) {
            wait_pause();
        } else {
            sched_yield();
        }
    }
    return sleep_until(w, target, aborted, timeout_seconds);
}
