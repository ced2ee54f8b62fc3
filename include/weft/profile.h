/* weft/profile.h: what instructions were measured to take: a profile that weft_executor_profile wrote as JSON, read
 * back for models of time (weft_cluster.profile). */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include "weft/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_profile weft_profile;

/* Reads a profile. `place` names it in messages. Problems go to the context's sink with line and column.
 *
 * A model takes from it what each op takes that computes: by the op's type, the first var that it writes, and how many
 * such ops came before. So the profile of a program holds for what passes make of it. Collectives are never taken from
 * it, and ops that passes put in or take out (scales, buckets, waits) need not be in both. Of another program it is
 * refused: the error says in which line of the profile, or for which op, the two part. */
WEFT_MUST_USE weft_status weft_profile_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                                             weft_profile **out_profile);
WEFT_MUST_USE weft_status weft_profile_load(weft_context *context, const char *path, weft_profile **out_profile);
void weft_profile_destroy(weft_profile *profile); /* NULL is fine */

/* The step that it was taken from: the median of its steps, in seconds. */
double weft_profile_step_seconds(const weft_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
