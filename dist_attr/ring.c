/* ring.c: ordered lists of ranks that communicate together. */
#include <stdio.h>

#include "dist_attr/ranks.h"

int ring_index(const ring *r, int64_t rank) {
    for (int i = 0; i < r->nranks; i++)
        if (r->ranks[i] == rank) return i;
    return -1;
}

bool ring_equal(const ring *a, const ring *b) {
    if (a == b) return true;
    if (!a || !b || a->id != b->id || a->nranks != b->nranks) return false;
    if (strcmp(a->type ? a->type : "", b->type ? b->type : "") != 0) return false;
    return a->nranks == 0 || memcmp(a->ranks, b->ranks, (size_t)a->nranks * sizeof *a->ranks) == 0;
}

weft_status ring_check(const ring *r, const char *place) {
    char owner[32];
    snprintf(owner, sizeof owner, "ring %lld", (long long)r->id);
    if (r->id < 0) return weft_status_create(WEFT_INVALID_PROGRAM, place, "%s: expected an id of 0 or more", owner);
    if (r->nranks < 1) return weft_status_create(WEFT_INVALID_PROGRAM, place, "%s: has no ranks", owner);
    return ranks_check(r->ranks, r->nranks, owner, place);
}
