/* memory.h: the blocks of memory that a rank's values lie in. */
#ifndef EXECUTOR_MEMORY_H
#define EXECUTOR_MEMORY_H

#include "executor/executor.h"

/* Memory of the executor's device for the rank's values of a space, or some of them. Where there is none the message
 * says how much it is, and of what. */
WEFT_MUST_USE weft_status memory_alloc(const weft_executor *x, const rank_state *rank, plan_space space, int64_t nbytes,
                                       device_memory *out_memory);

/* As people read it: "12 B", "1.5 MiB". Returns out. */
const char *memory_amount(double nbytes, char *out, size_t out_nbytes);

#endif
