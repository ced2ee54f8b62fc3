/* twister.c: Matsumoto and Nishimura, "Mersenne Twister" (1998), of 64 bits. */
#include "executor/kernels/fill/twister.h"

enum { TWISTER_SHIFT = 156 };

void twister_init(twister *t, uint64_t seed) {
    t->words[0] = seed;
    for (int i = 1; i < TWISTER_WORDS; i++)
        t->words[i] = UINT64_C(6364136223846793005) * (t->words[i - 1] ^ t->words[i - 1] >> 62) + (uint64_t)i;
    t->next = TWISTER_WORDS;
}

uint64_t twister_next(twister *t) {
    if (t->next == TWISTER_WORDS) {
        for (int i = 0; i < TWISTER_WORDS; i++) {
            uint64_t both =
                (t->words[i] & ~UINT64_C(0x7FFFFFFF)) | (t->words[(i + 1) % TWISTER_WORDS] & UINT64_C(0x7FFFFFFF));
            t->words[i] = t->words[(i + TWISTER_SHIFT) % TWISTER_WORDS] ^ both >> 1 ^
                          (both & 1 ? UINT64_C(0xB5026F5AA96619E9) : 0);
        }
        t->next = 0;
    }
    uint64_t x = t->words[t->next++];
    x ^= x >> 29 & UINT64_C(0x5555555555555555);
    x ^= x << 17 & UINT64_C(0x71D67FFFEDA60000);
    x ^= x << 37 & UINT64_C(0xFFF7EEE000000000);
    return x ^ x >> 43;
}

uint64_t twister_below(twister *t, uint64_t count) {
    uint64_t share = UINT64_MAX / count, x;
    do x = twister_next(t);
    while (x >= count * share);
    return x / share;
}

double twister_unit(twister *t) {
    double unit = (double)twister_next(t) / 18446744073709551616.0;
    return unit < 1 ? unit : 0x1.fffffffffffffp-1;
}
