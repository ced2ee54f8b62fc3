/* twister.h: the Mersenne Twister of 64 bits, with which Paddle draws on CPUs: equal seeds draw what Paddle draws. */
#ifndef EXECUTOR_KERNELS_FILL_TWISTER_H
#define EXECUTOR_KERNELS_FILL_TWISTER_H

#include <stdint.h>

enum { TWISTER_WORDS = 312 };

typedef struct twister {
    uint64_t words[TWISTER_WORDS];
    int next;
} twister;

void twister_init(twister *t, uint64_t seed);
uint64_t twister_next(twister *t);
/* A whole number of 0 to count - 1, and a number of [0, 1), as the C++ library's distributions take them from it. */
uint64_t twister_below(twister *t, uint64_t count);
double twister_unit(twister *t);

#endif
