/* clock.c: compute beside lanes of buckets, event by event, in whole numbers. Where the one slows the other down, a
 * task beside the other goes on more slowly. What is left of it is in parts of a nanosecond at full speed. */
#include "proof/certificate/certificate.h"

typedef struct task {
    json_int_t left; /* nanoseconds at full speed, times CERT_FULL_SPEED; -1: nothing runs */
    json_int_t speed;
    size_t bucket, part; /* of a lane: the one at hand, or that comes next */
} task;

json_int_t cert_clock_speed(double factor) {
    json_int_t speed = (json_int_t)(CERT_FULL_SPEED / factor + 0.5);
    return speed < 1 ? 1 : speed;
}

static json_int_t time_left(const task *t) {
    return t->left < 0 ? INT64_MAX : (t->left + t->speed - 1) / t->speed;
}

static void go_on(task *t, json_int_t ns) {
    if (t->left < 0) return;
    t->left -= ns * t->speed;
    if (t->left < 0) t->left = 0;
}

/* The next bucket of a lane that begins no earlier than `from` in the list. */
static size_t next_of(const cert_clock *clock, const cert_plan *plan, size_t lane, size_t from) {
    while (from < plan->nbuckets && clock->buckets[from].kind->lane != lane) from++;
    return from;
}

static bool may_compute(const cert_clock *clock, const task *lanes, size_t instr) {
    for (size_t lane = 0; lane < CERT_LANES; lane++)
        if (clock->needs[instr * CERT_LANES + lane] > (json_int_t)lanes[lane].bucket) return false;
    return true;
}

static void begin_part(cert_clock *clock, const cert_plan *plan, task *lane, size_t ndone, json_int_t now) {
    if (lane->left >= 0 || lane->bucket == plan->nbuckets) return;
    cert_clock_bucket *b = &clock->buckets[lane->bucket];
    if (b->after > (json_int_t)ndone) return;
    if (lane->part == 0) b->start = now;
    lane->left = (b->kind->ncosts ? cert_price_ns(b->kind->costs, lane->part, b->nbytes) : b->alone) * CERT_FULL_SPEED;
}

static void end_part(cert_clock *clock, const cert_plan *plan, task *lane, json_int_t now) {
    cert_clock_bucket *b = &clock->buckets[lane->bucket];
    lane->left = -1;
    if (++lane->part < b->kind->ncosts) return;
    b->end = now;
    lane->bucket = next_of(clock, plan, b->kind->lane, lane->bucket + 1);
    lane->part = 0;
}

/* Collectives of a lane slow compute down, and it them. */
static void set_speeds(const cert_clock *clock, const cert_plan *plan, task *compute, task *lanes) {
    compute->speed = CERT_FULL_SPEED;
    for (size_t k = 0; k < CERT_LANES; k++) {
        lanes[k].speed = CERT_FULL_SPEED;
        if (compute->left < 0 || lanes[k].left < 0) continue;
        const cert_bucket_kind *kind = clock->buckets[lanes[k].bucket].kind;
        if (kind->ncosts && lanes[k].part >= kind->ncollectives) continue;
        compute->speed = cert_clock_speed(plan->compute_factor);
        lanes[k].speed = cert_clock_speed(plan->collective_factor);
    }
}

void cert_clock_play(cert_clock *clock, const cert_plan *plan) {
    task compute = {-1, CERT_FULL_SPEED, 0, 0}, lanes[CERT_LANES];
    size_t instr = 0;
    for (size_t k = 0; k < CERT_LANES; k++) lanes[k] = (task){-1, CERT_FULL_SPEED, next_of(clock, plan, k, 0), 0};
    for (json_int_t now = 0;; clock->step = now) {
        if (compute.left < 0 && instr < plan->nplayed && may_compute(clock, lanes, instr)) {
            compute.left = plan->played[instr] * CERT_FULL_SPEED;
            clock->compute += plan->played[instr];
        }
        for (size_t k = 0; k < CERT_LANES; k++) begin_part(clock, plan, &lanes[k], instr, now);
        set_speeds(clock, plan, &compute, lanes);
        json_int_t ns = time_left(&compute);
        for (size_t k = 0; k < CERT_LANES; k++) ns = time_left(&lanes[k]) < ns ? time_left(&lanes[k]) : ns;
        if (ns == INT64_MAX) return;
        now += ns;
        json_int_t of_compute = time_left(&compute);
        go_on(&compute, ns);
        for (size_t k = 0; k < CERT_LANES; k++) {
            json_int_t of_lane = time_left(&lanes[k]);
            go_on(&lanes[k], ns);
            if (of_lane == ns) end_part(clock, plan, &lanes[k], now);
        }
        if (of_compute == ns) compute.left = -1, instr++;
    }
}
