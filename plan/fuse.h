/* fuse.h: groups of instructions that take turns at rows. */
#ifndef PLAN_FUSE_H
#define PLAN_FUSE_H

#include "plan/plan.h"

enum { PLAN_GROUP_INSTRS = 16, PLAN_GROUP_ARGS = 24 };

/* Sets nfused of a plan whose memory is laid out. */
WEFT_MUST_USE weft_status plan_fuse(weft_plan *plan);
/* Whether `next`, the next instruction of their stream, may take turns with all of a group. */
bool plan_may_join(const weft_plan *plan, const plan_instr *const *members, size_t count, const plan_instr *next);
/* For a plan that was read: an error unless its groups could have been made here. */
WEFT_MUST_USE weft_status plan_check_fused(const weft_plan *plan);

#endif
