/* wait.h: what a wait's limit means. */
#include <criterion/criterion.h>
#include <errno.h>

#include "executor/comm/wait.h"

/* What is left until a deadline is no limit that has gone: the watchdog once slept forever on it. */
Test(wait, a_deadline_that_has_passed_is_over_at_once, .timeout = 10) {
    wait_word word = {.value = 1};
    const double passed[] = {0, -1e-9, -1, -1e12};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        cr_expect_eq(wait_until(&word, 2, NULL, passed[i]), WAIT_TIMED_OUT, "%g s", passed[i]);
        cr_expect_eq(wait_until(&word, 1, NULL, passed[i]), WAIT_REACHED, "%g s", passed[i]);
    }
}

Test(wait, a_limit_holds, .timeout = 10) {
    wait_word word = {.value = 1};
    int64_t began = wait_clock_ns();
    cr_expect_eq(wait_until(&word, 2, NULL, 0.02), WAIT_TIMED_OUT);
    cr_expect_geq(wait_clock_ns() - began, 20000000);
}

Test(wait, forever_and_more_than_a_clock_holds_are_the_same) {
    cr_expect_eq(wait_deadline_ns(WAIT_FOREVER), INT64_MAX);
    cr_expect_eq(wait_deadline_ns(1e300), INT64_MAX);
    cr_expect_lt(wait_deadline_ns(3600), INT64_MAX);
}

/* Setting the time of day must not matter: limit and condition are both of the clock that nobody sets. */
Test(wait, a_condition_waits_as_long_as_it_is_told, .timeout = 10) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    cr_assert_eq(wait_condition_init(&condition), 0);
    int64_t began = wait_clock_ns();
    struct timespec end = wait_condition_deadline(0.02);
    pthread_mutex_lock(&lock);
    while (pthread_cond_timedwait(&condition, &lock, &end) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&lock);
    cr_expect_geq(wait_clock_ns() - began, 20000000);
    cr_expect_lt(wait_condition_deadline(WAIT_FOREVER).tv_nsec, 1000000000);
    cr_expect_gt(wait_condition_deadline(WAIT_FOREVER).tv_sec, end.tv_sec);
    pthread_cond_destroy(&condition);
}
