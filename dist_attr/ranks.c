/* ranks.c: duplicates are found with one bit per possible rank, so that a long hostile list costs no more than its
 * length. */
#include "dist_attr/ranks.h"

weft_status ranks_check(const int64_t *ranks, int64_t count, const char *owner, const char *place) {
    uint64_t seen[MAX_RANKS / 64] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t rank = ranks[i];
        if (rank < 0 || rank >= MAX_RANKS)
            return weft_status_create(WEFT_INVALID_PROGRAM, place, "%s: expected ranks from 0 to %d, found %lld", owner,
                                      MAX_RANKS - 1, (long long)rank);
        uint64_t bit = (uint64_t)1 << (rank % 64);
        if (seen[rank / 64] & bit)
            return weft_status_create(WEFT_INVALID_PROGRAM, place, "%s: rank %lld is given twice", owner,
                                      (long long)rank);
        seen[rank / 64] |= bit;
    }
    return NULL;
}
