/* pool.c: every item of a job is run exactly once, in contiguous parts of at least the grain. So it is whatever other
 * streams ask the same helpers for at the same time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/devices/cpu/pool.h"

enum { STREAMS = 3, ITEMS = 1000, JOBS = 300 };

typedef struct stream {
    pthread_t thread;
    kernel_call call;
    int64_t count, grain;
    int runs[ITEMS];
    int64_t starts[64], ends[64]; /* by part */
    int npassed, nfailed;
} stream;

static void count_items(void *arg, int64_t first, int64_t end, int part) {
    stream *s = arg;
    for (int64_t i = first; i < end; i++) s->runs[i]++;
    s->starts[part] = first;
    s->ends[part] = end;
}

/* False if an item was not run once, or parts do not tile the items. */
static bool is_right(const stream *s, int nparts) {
    for (int64_t i = 0; i < ITEMS; i++)
        if (s->runs[i] != (i < s->count)) return false;
    int64_t at = 0;
    for (int p = 0; p < nparts && s->count; p++) {
        if (s->starts[p] != at || (nparts > 1 && s->ends[p] - at < s->grain)) return false;
        at = s->ends[p];
    }
    return at == s->count && nparts <= s->call.nthreads;
}

static void *post_jobs(void *arg) {
    stream *s = arg;
    for (int job = 0; job < JOBS; job++) {
        s->count = job * 37 % ITEMS;
        s->grain = 1 + job % 200;
        memset(s->runs, 0, sizeof s->runs);
        parallel_for(&s->call, s->count, s->grain, count_items, s);
        if (is_right(s, parallel_parts(&s->call, s->count, s->grain)))
            s->npassed++;
        else
            s->nfailed++;
    }
    return NULL;
}

static void run_pool(int nhelpers, int nthreads, bool spins, int *npassed, int *nfailed) {
    static stream streams[STREAMS];
    weft_allocator allocator = base_libc_allocator();
    thread_pool *pool = NULL;
    weft_status status = thread_pool_create(&allocator, NULL, nhelpers, STREAMS, spins, &pool);
    if (status) {
        printf("pool of %d: %s\n", nhelpers, weft_status_message(status));
        weft_status_free(status);
        ++*nfailed;
        return;
    }
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = (stream){.call = {.nthreads = nthreads, .slot = thread_pool_slot(pool, i)}};
        if (pthread_create(&streams[i].thread, NULL, post_jobs, &streams[i]) != 0) abort();
    }
    for (int i = 0; i < STREAMS; i++) {
        pthread_join(streams[i].thread, NULL);
        *npassed += streams[i].npassed;
        *nfailed += streams[i].nfailed;
    }
    thread_pool_destroy(pool);
}

int main(void) {
    int npassed = 0, nfailed = 0;
    run_pool(1, 2, false, &npassed, &nfailed);
    run_pool(2, 4, true, &npassed, &nfailed);
    run_pool(5, 3, false, &npassed, &nfailed);
    printf("%d passed, %d failed\n", npassed, nfailed);
    return nfailed > 0;
}
