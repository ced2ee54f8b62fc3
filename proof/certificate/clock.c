/* clock.c: compute beside buckets where the one slows the other down, event by event, in whole numbers: what is left of
 * a task is in parts of a nanosecond at full speed, and a task beside the other goes on more slowly. */
#include "proof/certificate/certificate.h"

enum { FULL = 1 << 16 };

typedef struct task {
    json_int_t left; /* nanoseconds at full speed, times FULL; -1: nothing runs */
    json_int_t speed;
} task;

static json_int_t slowed(double factor) {
    json_int_t speed = (json_int_t)(FULL / factor + 0.5);
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

void cert_play_slowed(cert_slowed *s) {
    task compute = {-1, FULL}, bucket = {-1, FULL};
    size_t instr = 0, k = 0, part = 0;
    for (json_int_t now = 0;; s->step = now) {
        if (compute.left < 0 && instr < s->ncompute && s->needs[instr] <= (json_int_t)k)
            compute.left = s->compute[instr] * FULL;
        if (bucket.left < 0 && k < s->nbuckets && s->after[k] <= (json_int_t)instr) {
            if (part == 0) s->starts[k] = now;
            bucket.left = s->parts[k * s->nparts + part] * FULL;
        }
        bool both = compute.left >= 0 && bucket.left >= 0 && part < s->ncollectives;
        compute.speed = both ? slowed(s->compute_factor) : FULL;
        bucket.speed = both ? slowed(s->collective_factor) : FULL;
        json_int_t of_compute = time_left(&compute), of_bucket = time_left(&bucket),
                   ns = of_compute < of_bucket ? of_compute : of_bucket;
        if (ns == INT64_MAX) return;
        now += ns;
        go_on(&compute, ns);
        go_on(&bucket, ns);
        if (of_compute == ns) compute.left = -1, instr++;
        if (of_bucket != ns) continue;
        bucket.left = -1;
        if (++part < s->nparts) continue;
        s->ends[k++] = now;
        part = 0;
    }
}
