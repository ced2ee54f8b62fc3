/* random.h: where a kernel's random numbers come from. */
#ifndef EXECUTOR_KERNELS_RANDOM_H
#define EXECUTOR_KERNELS_RANDOM_H

#include "executor/kernel.h"

/* The words that philox takes beside an element's index. */
typedef struct random_key {
    uint64_t seed, op_seed, step;
} random_key;

/* An op with a seed of its own (not 0) draws the same numbers every step and wherever that seed is used again, as in
 * Paddle: recomputed dropout relies on it. Others draw by the run's seed, the op and the step. */
static inline random_key random_key_of(const kernel_call *c, int64_t own_seed) {
    if (own_seed) return (random_key){(uint64_t)own_seed, 0, 0};
    return (random_key){c->seed, c->op_seed, c->step};
}

/* [0, 1) with 24 bits, and (0, 1] for logarithms. */
static inline float random_unit(uint32_t bits) {
    return (float)(bits >> 8) * 0x1p-24f;
}
static inline double random_above_zero(uint32_t bits) {
    return ((double)bits + 1.0) * 0x1p-32;
}

#endif
