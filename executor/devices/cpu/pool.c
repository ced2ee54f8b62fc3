/* pool.c: one pool of helper threads for all streams of an executor.
 *
 * The idea: a stream that has a large kernel call cuts it into at most c->nthreads contiguous parts. It leaves the job
 * at its own slot and works on the parts itself, from the first on. Helpers look at all slots and take parts that
 * nobody has taken. So a job never waits for a helper that is busy or asleep: it only is not helped. Part p covers the
 * same range whoever runs it. With one helper the same thread gets the same part call after call, which keeps its
 * caches warm.
 *
 * The invariant: the next part to take and their number lie in one word, with the number of the job. A helper that has
 * taken a part by changing that word may read the job. The stream does not end the job before all taken parts are done;
 * one that comes late finds another word, and takes nothing.
 *
 * Waiting: where every thread has a core, a helper spins for about as long as a few small kernels take; then, and
 * everywhere else, wait.c's spin, yield, sleep. */
#include "executor/devices/cpu/pool.h"

#include <sched.h>
#include <stdatomic.h>

#include "executor/comm/wait.h"
#include "executor/devices/cpu/denormals.h"

enum { PART_BITS = 16, MOST_PARTS = (1 << PART_BITS) - 1, HELPER_SPINS = 4000 };

struct pool_slot {
    _Atomic uint64_t word; /* job number << 32 | parts << 16 | next part */
    thread_pool *pool;
    parallel_part run;
    void *arg;
    int64_t count;
    int nparts;
    char padding[16];
    wait_word done; /* parts that helpers have completed, over all jobs */
};

typedef struct helper {
    thread_pool *pool;
    executor_thread thread;
} helper;

struct thread_pool {
    wait_word posted; /* jobs, over all slots; and once more to stop */
    _Atomic bool stopping;
    const weft_allocator *allocator;
    bool spins;
    int nhelpers, nslots;
    helper *helpers;
    pool_slot *slots;
};

/* --- parts -------------------------------------------------------------------------------------------------------- */

static int64_t part_start(int64_t count, int nparts, int part) {
    int64_t each = count / nparts, longer = count % nparts;
    return part * each + (part < longer ? part : longer);
}

static void run_part(pool_slot *s, int part) {
    s->run(s->arg, part_start(s->count, s->nparts, part), part_start(s->count, s->nparts, part + 1), part);
}

/* The number of a part that is now the caller's; -1 if none is left. */
static int take_part(pool_slot *s) {
    uint64_t word = atomic_load(&s->word);
    for (;;) {
        int next = (int)(word & MOST_PARTS), nparts = (int)(word >> PART_BITS & MOST_PARTS);
        if (next >= nparts) return -1;
        if (atomic_compare_exchange_weak(&s->word, &word, word + 1)) return next;
    }
}

/* --- helpers ------------------------------------------------------------------------------------------------------ */

static bool help(thread_pool *pool) {
    bool helped = false;
    for (int i = 0; i < pool->nslots; i++) {
        pool_slot *s = &pool->slots[i];
        for (int part = take_part(s); part >= 0; part = take_part(s)) {
            run_part(s, part);
            atomic_fetch_add(&s->done.value, 1);
            wait_wake(&s->done);
            helped = true;
        }
    }
    return helped;
}

static void spin_for_job(thread_pool *pool, uint32_t seen) {
    for (int i = 0; i < HELPER_SPINS && atomic_load_explicit(&pool->posted.value, memory_order_relaxed) == seen; i++)
        wait_pause();
}

static void *work(void *arg) {
    thread_pool *pool = ((helper *)arg)->pool;
    uint64_t host_mode = denormals_flush(); /* as the threads that it helps */
    for (;;) {
        uint32_t seen = atomic_load(&pool->posted.value);
        if (atomic_load(&pool->stopping)) break;
        if (help(pool)) continue;
        if (pool->spins) spin_for_job(pool, seen);
        wait_until(&pool->posted, seen + 1, NULL, WAIT_FOREVER);
    }
    denormals_restore(host_mode); /* the thread may be the host's */
    return NULL;
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

int parallel_parts(const kernel_call *c, int64_t count, int64_t grain) {
    int64_t most = grain > 1 ? count / grain : count;
    if (!c || !c->slot || most < 2) return 1;
    if (most > c->nthreads) most = c->nthreads;
    return most > MOST_PARTS ? MOST_PARTS : (int)most;
}

void parallel_for(const kernel_call *c, int64_t count, int64_t grain, parallel_part run, void *arg) {
    if (count <= 0) return;
    int nparts = parallel_parts(c, count, grain);
    if (nparts < 2) {
        run(arg, 0, count, 0);
        return;
    }
    pool_slot *s = c->slot;
    s->run = run;
    s->arg = arg;
    s->count = count;
    s->nparts = nparts;
    uint32_t done = atomic_load(&s->done.value);
    uint64_t job = (atomic_load(&s->word) >> 32) + 1;
    atomic_store(&s->word, job << 32 | (uint64_t)nparts << PART_BITS | 1);
    atomic_fetch_add(&s->pool->posted.value, 1);
    wait_wake(&s->pool->posted);
    int own = 0;
    for (int part = 0; part >= 0; part = take_part(s), own++) run_part(s, part);
    wait_until(&s->done, done + (uint32_t)(nparts - own), NULL, WAIT_FOREVER);
}

/* --- making ------------------------------------------------------------------------------------------------------- */

int thread_pool_cores(void) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return CPU_SETSIZE; /* more cores than the set holds */
    return CPU_COUNT(&cores);
}

pool_slot *thread_pool_slot(thread_pool *pool, int member) {
    return &pool->slots[member];
}

static weft_status start_helpers(thread_pool *pool, const weft_executor_options *options) {
    for (int i = 0; i < pool->nhelpers; i++) {
        helper *h = &pool->helpers[i];
        h->pool = pool;
        weft_status status = executor_thread_start(&h->thread, options, work, h);
        if (!status) continue;
        weft_status worded = weft_status_create(weft_status_code(status), NULL, "intra-op thread %d of %d: %s", i + 1,
                                                pool->nhelpers, weft_status_message(status));
        weft_status_free(status);
        return worded;
    }
    return NULL;
}

weft_status thread_pool_create(const weft_allocator *allocator, const weft_executor_options *options, int nhelpers,
                               int nslots, bool spins, thread_pool **out_pool) {
    weft_status status = NULL;
    thread_pool *pool = base_alloc(allocator, sizeof *pool);
    if (!pool) return base_out_of_memory();
    memset(pool, 0, sizeof *pool);
    *pool = (thread_pool){.allocator = allocator, .spins = spins, .nhelpers = nhelpers, .nslots = nslots};
    pool->helpers = base_alloc(allocator, (size_t)nhelpers * sizeof *pool->helpers);
    pool->slots = base_alloc(allocator, (size_t)nslots * sizeof *pool->slots);
    if (!pool->helpers || !pool->slots) {
        status = base_out_of_memory();
        goto done;
    }
    memset(pool->helpers, 0, (size_t)nhelpers * sizeof *pool->helpers);
    memset(pool->slots, 0, (size_t)nslots * sizeof *pool->slots);
    for (int i = 0; i < nslots; i++) pool->slots[i].pool = pool;
    TRY_DONE(start_helpers(pool, options));
    *out_pool = pool;
    pool = NULL;
done:
    thread_pool_destroy(pool);
    return status;
}

void thread_pool_destroy(thread_pool *pool) {
    if (!pool) return;
    atomic_store(&pool->stopping, true);
    atomic_fetch_add(&pool->posted.value, 1);
    wait_wake(&pool->posted);
    for (int i = 0; pool->helpers && i < pool->nhelpers; i++) executor_thread_join(&pool->helpers[i].thread);
    base_free(pool->allocator, pool->helpers, (size_t)pool->nhelpers * sizeof *pool->helpers);
    base_free(pool->allocator, pool->slots, (size_t)pool->nslots * sizeof *pool->slots);
    base_free(pool->allocator, pool, sizeof *pool);
}
