/* ranges.h: what a thread of the host issues as ranges of NVTX, which NVIDIA's tools show beside what GPUs do. Without
 * a tool a range costs two calls that return at once. */
#ifndef EXECUTOR_DEVICES_CUDA_RANGES_H
#define EXECUTOR_DEVICES_CUDA_RANGES_H

#include "executor/devices/cuda/cuda.h"

/* Of an op its type and its first result: of a collective that is the bucket, and it names the ring. */
WEFT_MUST_USE weft_status cuda_range_name(arena *a, const weft_plan *plan, const plan_instr *instr,
                                          const char **out_name);
/* Ranges of a thread nest. */
void cuda_range_begin(const char *its_name);
void cuda_range_end(void);

#endif
