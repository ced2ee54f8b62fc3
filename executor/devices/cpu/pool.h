/* pool.h: threads that help streams with parts of one kernel call. Kernels ask for help through parallel_for
 * (executor/kernel.h). */
#ifndef EXECUTOR_DEVICES_CPU_POOL_H
#define EXECUTOR_DEVICES_CPU_POOL_H

#include "executor/kernel.h"
#include "executor/thread.h"
#include "weft/context.h"

/* Where one stream leaves its job; one thread at a time may use it. */
typedef struct pool_slot pool_slot;
typedef struct thread_pool thread_pool;

/* `nhelpers` threads, made as the options say (NULL: our own), for `nslots` streams. `spins`: every thread of the run has a core of its own, so helpers may wait
 * for the next job without giving theirs away. */
WEFT_MUST_USE weft_status thread_pool_create(const weft_allocator *allocator, const weft_executor_options *options,
                                             int nhelpers, int nslots, bool spins, thread_pool **out_pool);
/* No job may be running. NULL is fine. */
void thread_pool_destroy(thread_pool *pool);

pool_slot *thread_pool_slot(thread_pool *pool, int slot);

/* Cores that this process may run on. */
int thread_pool_cores(void);

#endif
