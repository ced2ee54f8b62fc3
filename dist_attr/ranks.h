/* ranks.h: what meshes and rings both ask of a list of ranks. */
#ifndef DIST_ATTR_RANKS_H
#define DIST_ATTR_RANKS_H

#include "dist_attr/dist_attr.h"

/* Each rank in [0, MAX_RANKS) and given once; `owner` ("mesh", "ring 3") names the owner in the error. O(count). */
WEFT_MUST_USE weft_status ranks_check(const int64_t *ranks, int64_t count, const char *owner, const char *place);

#endif
