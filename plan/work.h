/* work.h: work that goes on at a speed that changes, to the nanosecond: in whole numbers, so that those who ask more or
 * less often get the same end. */
#ifndef PLAN_WORK_H
#define PLAN_WORK_H

#include <stdint.h>

enum { PLAN_FULL_SPEED = 1 << 16 };

/* What is left, in nanoseconds at full speed times that. */
typedef struct plan_work {
    int64_t left, since_ns, speed;
} plan_work;

/* The speed of what takes `factor` times as long. */
static inline int64_t plan_speed(double factor) {
    int64_t speed = (int64_t)(PLAN_FULL_SPEED / factor + 0.5);
    return speed < 1 ? 1 : speed;
}

/* More than 19 hours count as these. */
static inline void plan_work_begin(plan_work *w, int64_t ns, int64_t now_ns, int64_t speed) {
    const int64_t most = INT64_C(1) << 46;
    *w = (plan_work){(ns < most ? ns : most) * PLAN_FULL_SPEED, now_ns, speed};
}

static inline void plan_work_turn(plan_work *w, int64_t now_ns, int64_t speed) {
    w->left -= (now_ns - w->since_ns) * w->speed;
    if (w->left < 0) w->left = 0;
    w->since_ns = now_ns;
    w->speed = speed;
}

static inline int64_t plan_work_end(const plan_work *w) {
    return w->since_ns + (w->left + w->speed - 1) / w->speed;
}

#endif
