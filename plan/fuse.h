/* fuse.h: groups of instructions whose rows are tiled together (row-tiled fusion). */
#ifndef PLAN_FUSE_H
#define PLAN_FUSE_H

#include "plan/plan.h"

enum { PLAN_GROUP_INSTRS = 16, PLAN_GROUP_ARGS = 24 };

/* Sets nfused of a plan whose memory is laid out. */
WEFT_MUST_USE weft_status plan_fuse(weft_plan *plan);
/* For a plan that was read: an error unless its groups could have been made here. */
WEFT_MUST_USE weft_status plan_check_fused(const weft_plan *plan);

#endif
