/* group.h: row-tiled fusion: instructions that run tile by tile, a few rows at a time. */
#ifndef EXECUTOR_GROUP_H
#define EXECUTOR_GROUP_H

#include "executor/executor.h"

typedef struct bound_group bound_group;

/* Makes the groups of a stream whose instructions are bound: the first one of a group then runs all of them. */
WEFT_MUST_USE weft_status groups_bind(weft_executor *x, stream_state *s);
/* How many instructions this one runs, itself included; 0: it is not the first of a group. */
size_t group_count(const bound_instr *b);
/* Runs a group by its first instruction; how long each member took, in nanoseconds. */
const int64_t *group_run_timed(bound_instr *head);

#endif
