/* draw.h: numbers that a seed decides, for random cases (Knuth's 64-bit linear congruential generator, upper bits). */
#ifndef TESTS_SUPPORT_DRAW_H
#define TESTS_SUPPORT_DRAW_H

#include <stdint.h>

static inline uint32_t draw_next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* A number below `below`, which is at least 1. */
static inline uint32_t draw_below(uint64_t *state, uint64_t below) {
    return (uint32_t)(draw_next(state) % below);
}

#endif
