/* plan_check.h: says whether a plan is right, by brute force and without any of the planner's own reasoning. */
#ifndef TESTS_SUPPORT_PLAN_CHECK_H
#define TESTS_SUPPORT_PLAN_CHECK_H

#include "plan/plan.h"

/* True if
 *  - two accesses to a byte, one of them a write, are ordered by streams and waits, and so are collectives of one ring;
 *  - every read finds what the program last wrote there, as if each buffer had memory of its own;
 *  - no instruction writes over its own inputs, save where its schema allows it;
 *  - without any one of its waits the first would not hold (when `minimal`).
 * Else the reason is in `out`. Cost: cubic in instructions. */
bool plan_check(const weft_plan *plan, bool minimal, char *out, size_t out_nbytes);

#endif
