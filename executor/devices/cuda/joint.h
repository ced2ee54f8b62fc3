/* joint.h: steps of ranks that share a GPU, as one graph. Their collectives order one rank's work behind another's, so
 * that no rank's part is a graph by itself. The second step is captured: the first rank's thread begins and ends, all
 * issue into it, one at a time. */
#ifndef EXECUTOR_DEVICES_CUDA_JOINT_H
#define EXECUTOR_DEVICES_CUDA_JOINT_H

#include "executor/devices/cuda/graph.h"

/* Once all ranks are recorded. Steps are graphs if the host has nothing to decide on any rank. */
WEFT_MUST_USE weft_status cuda_joint_record(cuda_run *run);
void cuda_joint_discard(cuda_run *run);
/* A step, but for the first. All ranks' threads call it. */
void cuda_joint_step(cuda_rank *r);

#endif
