#include "tests/support/far_stream.h"

#include <pthread.h>
#include <stdlib.h>

#include "executor/devices/cpu/denormals.h"

typedef struct item {
    void (*work)(void *);
    void *arg;
} item;

struct far_stream {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    item *items; /* `count` of them from `first` on, around the end */
    size_t first, count, capacity;
    bool is_running, is_stopping, takes_host;
    pthread_t thread;
};

static void *run(void *arg) {
    far_stream *s = arg;
    denormals_flush();
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->count && !s->is_stopping) pthread_cond_wait(&s->changed, &s->lock);
        if (!s->count) break;
        item next = s->items[s->first];
        s->first = (s->first + 1) % s->capacity;
        s->count--;
        s->is_running = true;
        pthread_mutex_unlock(&s->lock);
        next.work(next.arg);
        pthread_mutex_lock(&s->lock);
        s->is_running = false;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

weft_status far_stream_create(bool takes_host, far_stream **out) {
    far_stream *s = calloc(1, sizeof *s);
    if (!s) return base_out_of_memory();
    s->takes_host = takes_host;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int failed = pthread_create(&s->thread, NULL, run, s);
    if (failed) {
        free(s);
        return weft_status_create(WEFT_IO, NULL, "far: no thread: %s", strerror(failed));
    }
    *out = s;
    return NULL;
}

void far_stream_destroy(far_stream *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->is_stopping = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s->items);
    free(s);
}

bool far_stream_takes_host(const far_stream *s) {
    return s->takes_host;
}

static void grow(far_stream *s) {
    size_t capacity = s->capacity ? 2 * s->capacity : 64;
    item *items = malloc(capacity * sizeof *items);
    if (!items) abort();
    for (size_t i = 0; i < s->count; i++) items[i] = s->items[(s->first + i) % s->capacity];
    free(s->items);
    s->items = items;
    s->first = 0;
    s->capacity = capacity;
}

void far_stream_push(far_stream *s, void (*work)(void *), void *arg) {
    pthread_mutex_lock(&s->lock);
    if (s->count == s->capacity) grow(s);
    s->items[(s->first + s->count++) % s->capacity] = (item){work, arg};
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void far_stream_drain(far_stream *s) {
    pthread_mutex_lock(&s->lock);
    while (s->count || s->is_running) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}
