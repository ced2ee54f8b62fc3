/* thread.h: threads of an executor: its own, or such as the host lends (weft_executor_options.spawn). */
#ifndef EXECUTOR_THREAD_H
#define EXECUTOR_THREAD_H

#include <pthread.h>

#include "weft/executor.h"

/* All zero: none. It may not move while the thread runs. */
typedef struct executor_thread {
    void *(*run)(void *);
    void *arg;
    pthread_t own;
    pthread_mutex_t lock; /* of has_ended; a lent thread's */
    pthread_cond_t ended;
    bool is_there, is_lent, has_ended;
} executor_thread;

/* Has `run(arg)` run by a thread. `options` NULL: by one of our own. */
WEFT_MUST_USE weft_status executor_thread_start(executor_thread *t, const weft_executor_options *options,
                                                void *(*run)(void *), void *arg);
/* Waits until `run` has returned. None is fine. */
void executor_thread_join(executor_thread *t);

#endif
