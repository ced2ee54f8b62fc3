/* weft/timeline.h: what running plans (weft/executor.h) and simulating them (weft/simulate.h) have in common: ops that
 * are made late, and where a rank's time went. */
#ifndef WEFT_TIMELINE_H
#define WEFT_TIMELINE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes an op slow, to see what depends on its being fast. Each instruction of op number `op_index` of block 0 starts
 * so much later than it could, on that rank (-1: on all). */
typedef struct weft_delay {
    int rank;
    int64_t op_index;
    double seconds;
} weft_delay;

/* Of one rank in the last step, three sums of seconds. In the first its compute stream ran other instructions than
 * collectives. In the second any of its streams was in a collective, waiting for other ranks included. The third are
 * those of the second in which its compute stream ran nothing else. */
typedef struct weft_rank_times {
    double compute_seconds, collective_seconds, exposed_seconds;
} weft_rank_times;

#ifdef __cplusplus
}
#endif
#endif
