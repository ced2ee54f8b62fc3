/* gather.h: what the processes of a run tell one another of their ranks. Each function is called by all processes, in
 * the same order. */
#ifndef EXECUTOR_GATHER_H
#define EXECUTOR_GATHER_H

#include "executor/executor.h"

/* `nbytes` of each own rank, to those of every rank. `when` is for messages: "for the timeline". */
WEFT_MUST_USE weft_status executor_gather(const weft_executor *x, const char *when, const void *mine, size_t nbytes,
                                          void *all);
/* nbytes[r] of rank r, which all processes know. */
WEFT_MUST_USE weft_status executor_gather_sized(const weft_executor *x, const char *when, const void *mine,
                                                const size_t *nbytes, void *all);

/* Of every process as many bytes as it likes, one behind another in the order of their ranks. In `a`. */
typedef struct gathered_bytes {
    const char *bytes;
    size_t nbytes;
} gathered_bytes;
WEFT_MUST_USE weft_status executor_gather_bytes(const weft_executor *x, const char *when, arena *a, const buffer *mine,
                                                gathered_bytes *out);

#endif
