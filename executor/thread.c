/* thread.c: threads of an executor, its own or lent by the host. A lent one is not joined: it says that it is done with
 * our memory, and goes back to the host. */
#include "executor/thread.h"

#include <string.h>

static void run_lent(void *arg) {
    executor_thread *t = arg;
    t->run(t->arg);
    pthread_mutex_lock(&t->lock);
    t->has_ended = true;
    pthread_cond_signal(&t->ended);
    pthread_mutex_unlock(&t->lock);
}

static weft_status borrow(executor_thread *t, const weft_executor_options *options) {
    if (pthread_mutex_init(&t->lock, NULL) != 0)
        return weft_status_create(WEFT_IO, NULL, "cannot make a lock for a lent thread");
    if (pthread_cond_init(&t->ended, NULL) != 0) {
        pthread_mutex_destroy(&t->lock);
        return weft_status_create(WEFT_IO, NULL, "cannot make a signal for a lent thread");
    }
    weft_status status = options->spawn(options->spawn_user, run_lent, t);
    t->is_there = t->is_lent = !status;
    if (status) {
        pthread_cond_destroy(&t->ended);
        pthread_mutex_destroy(&t->lock);
    }
    return status;
}

weft_status executor_thread_start(executor_thread *t, const weft_executor_options *options, void *(*run)(void *),
                                  void *arg) {
    *t = (executor_thread){.run = run, .arg = arg};
    if (options && options->spawn) return borrow(t, options);
    int failed = pthread_create(&t->own, NULL, run, arg);
    if (failed) return weft_status_create(WEFT_IO, NULL, "cannot start a thread: %s", strerror(failed));
    t->is_there = true;
    return NULL;
}

void executor_thread_join(executor_thread *t) {
    if (!t->is_there) return;
    t->is_there = false;
    if (!t->is_lent) {
        pthread_join(t->own, NULL);
        return;
    }
    pthread_mutex_lock(&t->lock);
    while (!t->has_ended) pthread_cond_wait(&t->ended, &t->lock);
    pthread_mutex_unlock(&t->lock);
    pthread_cond_destroy(&t->ended);
    pthread_mutex_destroy(&t->lock);
}
