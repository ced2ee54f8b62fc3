/* group.h: neighbours on a stream that are the same optimizer's ops become one launch.
 *
 * The last of them launches for all. So nobody waits for one before the last, and none behind the first waits for
 * another stream: what is ready is not held up. What they touch is apart, but for what they only read. */
#ifndef EXECUTOR_DEVICES_CUDA_GROUP_H
#define EXECUTOR_DEVICES_CUDA_GROUP_H

#include "executor/devices/cuda/launch.h"

typedef struct cuda_group {
    device_memory memory; /* tables */
    updates_args args;
    const cuda_updates *of;
} cuda_group;

/* Once the lane is recorded, and has its memory. */
WEFT_MUST_USE weft_status cuda_group_lane(cuda_lane *l);
void cuda_group_discard(device *d, cuda_group *g);
WEFT_MUST_USE weft_status cuda_group_launch(const cuda_launch *l, const cuda_group *g);

#endif
