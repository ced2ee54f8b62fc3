/* random.h: where a kernel's random numbers come from. */
#ifndef EXECUTOR_KERNELS_FILL_RANDOM_H
#define EXECUTOR_KERNELS_FILL_RANDOM_H

#include "executor/kernel.h"

/* The words that philox takes beside an element's index. */
typedef struct random_key {
    uint64_t seed, op_seed, step;
} random_key;

/* A dropout with a seed of its own (not 0) draws the same numbers every step and wherever that seed is used again, as
 * in Paddle: recomputed dropout relies on it. Others draw by the run's seed, the op and the step. */
static inline random_key random_key_of(const kernel_call *c, int64_t own_seed) {
    if (own_seed) return (random_key){(uint64_t)own_seed, 0, 0};
    return (random_key){c->seed, c->op_seed, c->step ? *c->step : 0};
}

/* The same in one word, for generators that begin with one. */
static inline uint64_t random_seed_of(const kernel_call *c, int64_t own_seed) {
    random_key key = random_key_of(c, own_seed);
    return key.seed ^ key.op_seed * UINT64_C(0x9E3779B97F4A7C15) ^ key.step << 32;
}

/* The words of blocks index .. index + PHILOX_BLOCKS, as philox gives them one by one. */
enum { PHILOX_BLOCKS = 16 };
void philox_blocks(random_key key, uint64_t index, uint32_t out[4 * PHILOX_BLOCKS]);

/* Initialisers with a seed of their own draw the same numbers every step, but each op its own, by the run's seed too. A
 * program made with one global seed carries it in every op: equal numbers would make all weights of one shape equal. */
static inline random_key initial_key_of(const kernel_call *c, int64_t own_seed) {
    if (!own_seed) return random_key_of(c, 0);
    return (random_key){(uint64_t)own_seed + c->seed * 0x9E3779B97F4A7C15ull, c->op_seed, 0};
}

/* [0, 1) with 24 bits, and (0, 1] for logarithms. */
static inline float random_unit(uint32_t bits) {
    return (float)(bits >> 8) * 0x1p-24f;
}
static inline double random_above_zero(uint32_t bits) {
    return ((double)bits + 1.0) * 0x1p-32;
}

#endif
