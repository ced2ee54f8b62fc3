/* bits.h: sets of numbers below a limit, a bit each; and the members' own numbers from 0, so that a table about members
 * alone has no room for others. */
#ifndef PASSES_BITS_H
#define PASSES_BITS_H

#include "base/base.h"

typedef struct bit_set {
    uint64_t *words;
    uint32_t *below; /* by word: how many members are in those before it; NULL before bit_set_number */
    size_t nwords;
} bit_set;

WEFT_MUST_USE static inline bool bit_set_init(bit_set *set, arena *a, size_t limit) {
    *set = (bit_set){.nwords = limit / 64 + 1};
    return (set->words = ARENA_ARRAY(a, uint64_t, set->nwords)) != NULL;
}

static inline bool bit_set_has(const bit_set *set, size_t member) {
    return set->words[member / 64] >> member % 64 & 1;
}

static inline void bit_set_add(bit_set *set, size_t member) {
    set->words[member / 64] |= UINT64_C(1) << member % 64;
}

/* Without an instruction for it the compiler's own is a call. */
static inline uint32_t bit_count(uint64_t bits) {
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (uint32_t)(bits * UINT64_C(0x0101010101010101) >> 56);
}

/* Numbers the members; to be repeated when there are more. */
WEFT_MUST_USE static inline bool bit_set_number(bit_set *set, arena *a, uint32_t *out_count) {
    uint32_t count = 0;
    if (!set->below && !(set->below = ARENA_ARRAY(a, uint32_t, set->nwords))) return false;
    for (size_t i = 0; i < set->nwords; i++) {
        set->below[i] = count;
        count += bit_count(set->words[i]);
    }
    *out_count = count;
    return true;
}

/* How many members are smaller than this one. */
static inline uint32_t bit_set_index(const bit_set *set, size_t member) {
    uint64_t smaller = set->words[member / 64] & ((UINT64_C(1) << member % 64) - 1);
    return set->below[member / 64] + bit_count(smaller);
}

#endif
