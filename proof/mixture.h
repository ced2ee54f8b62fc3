/* mixture.h: 128 bits of hash. Two contents that differ and have one hash are not to be expected. */
#ifndef PROOF_MIXTURE_H
#define PROOF_MIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct mixture {
    uint64_t a, b;
} mixture;

static inline void mix(mixture *d, uint64_t word) {
    d->a = (d->a ^ word) * 0x9E3779B97F4A7C15u;
    d->a ^= d->a >> 29;
    d->b = (d->b + word) * 0xC2B2AE3D27D4EB4Fu;
    d->b ^= d->b >> 31;
}

/* Three words as one: what adds up to the same in both sums is not to be expected either. */
static inline void mix_three(mixture *d, uint64_t x, uint64_t y, uint64_t z) {
    d->a = (d->a ^ (x * 0xA24BAED4963EE407u + y * 0x9FB21C651E98DF25u + z)) * 0x9E3779B97F4A7C15u;
    d->a ^= d->a >> 29;
    d->b =
        (d->b + (x * 0xD6E8FEB86659FD93u ^ (y * 0xE7037ED1A0B428DBu + z * 0x8EBC6AF09C88C6E3u))) * 0xC2B2AE3D27D4EB4Fu;
    d->b ^= d->b >> 31;
}

static inline void mix_bytes(mixture *d, const void *bytes, size_t nbytes) {
    const unsigned char *at = bytes;
    mix(d, nbytes);
    for (; nbytes >= 8; at += 8, nbytes -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        mix(d, word);
    }
    uint64_t rest = 0;
    if (nbytes) memcpy(&rest, at, nbytes);
    mix(d, rest);
}

static inline mixture mixture_of_text(const char *bytes, size_t nbytes) {
    mixture d = {1, 2};
    mix_bytes(&d, bytes, nbytes);
    return d;
}

static inline void mix_text(mixture *d, const char *bytes) {
    mix_bytes(d, bytes ? bytes : "", bytes ? strlen(bytes) : 0);
}

static inline bool mixture_equal(const mixture *x, const mixture *y) {
    return x->a == y->a && x->b == y->b;
}

#endif
