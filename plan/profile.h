/* profile.h: measured times of instructions: between the file that reads profiles and those who price plans. */
#ifndef PLAN_PROFILE_H
#define PLAN_PROFILE_H

#include "plan/plan.h"
#include "weft/profile.h"

/* What each instruction took, in seconds; negative where the profile says nothing of it: an op that passes put in, and
 * unless `with_collectives` what communicates. Without these each is so much longer that they add up to the step that
 * was measured, less its collectives. Refuses the profile of another program. Cost: O(n log n). */
WEFT_MUST_USE weft_status plan_profile_times(const weft_profile *profile, const weft_plan *plan, int64_t rank,
                                             bool with_collectives, arena *scratch, double **out_seconds);

#endif
