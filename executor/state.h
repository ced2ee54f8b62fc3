/* state.h: what lives across steps, apart from the executors that compute with it. */
#ifndef EXECUTOR_STATE_H
#define EXECUTOR_STATE_H

#include "executor/executor.h"

/* The persistables of all ranks, by name. Every executor that uses them holds a count; not for several threads. */
typedef struct executor_state executor_state;

/* Opens the device of that name (device_find), whose memory they lie in. */
WEFT_MUST_USE weft_status executor_state_create(weft_context *context, const char *device_name, int nranks,
                                                executor_state **out_state);
device *executor_state_device(const executor_state *state);
executor_state *executor_state_retain(executor_state *state);
void executor_state_release(executor_state *state); /* NULL is fine */
int64_t executor_state_nbytes(const executor_state *state);

/* Gives every persistent value of the rank's plan its address: a persistable's is in the executor's state, shared with
 * the executors that were bound before; what they lack is added, zeroed. Feeds and fetches are the rank's own. */
WEFT_MUST_USE weft_status state_bind(weft_executor *x, rank_state *rank);

#endif
