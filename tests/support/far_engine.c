/* far_engine.c: enqueue copies the request and finds out where its buffers lie. It pushes a piece of work to the
 * stream, which runs the collective on the local engine. A failure is kept by the ring, which is good for nothing from
 * then on, as NCCL's communicators are. */
#include "tests/support/far_engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/comm/local.h"
#include "tests/support/far_memory.h"
#include "tests/support/far_stream.h"

typedef struct far_ring {
    comm_ring view;
    comm_ring *inner;
    const comm_world *world;
    int64_t rank;
    struct far_ring *next;
    pthread_mutex_t lock; /* of what follows */
    weft_code code;       /* of the first failure; WEFT_OK: none */
    char words[800];
} far_ring;

static far_ring *rings; /* of all worlds */
static pthread_mutex_t rings_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_held;

void far_engine_hold(bool holds) {
    is_held = holds;
}

static far_ring *far_ring_of(comm_ring *view) {
    return (far_ring *)(void *)view;
}

/* --- requests that outlive their caller --------------------------------------------------------------------------- */

typedef struct item {
    far_ring *ring;
    comm_request request;
} item;

static void *copy(const void *from, int64_t count, size_t size) {
    if (!from) return NULL;
    void *to = malloc((size_t)count * size + 1);
    if (!to) abort();
    return memcpy(to, from, (size_t)count * size);
}

/* Where the bytes of an address lie; false: the stream does not reach them. */
static bool locate(const far_stream *s, const void **address, int64_t count) {
    if (!*address || count <= 0) return true;
    unsigned char *back = far_back(*address);
    if (back) *address = back;
    return back || far_stream_takes_host(s);
}

static bool locate_parts(const far_stream *s, const void **parts, const int64_t *counts, int64_t n, int64_t count) {
    for (int64_t k = 0; parts && k < n; k++)
        if (!locate(s, &parts[k], counts ? counts[k] : count)) return false;
    return true;
}

static void free_request(comm_request *q) {
    for (int64_t i = 0; q->group && i < q->ngroup; i++) free_request((comm_request *)&q->group[i]);
    free((void *)q->srcs);
    free((void *)q->dsts);
    free((void *)q->src_counts);
    free((void *)q->dst_counts);
    free((void *)q->group);
}

static bool take_request(const comm_ring *ring, const far_stream *s, comm_request *q) {
    int64_t nparts = comm_nparts(ring, q);
    q->srcs = copy(q->srcs, nparts, sizeof *q->srcs);
    q->dsts = copy(q->dsts, nparts, sizeof *q->dsts);
    q->src_counts = copy(q->src_counts, nparts, sizeof *q->src_counts);
    q->dst_counts = copy(q->dst_counts, nparts, sizeof *q->dst_counts);
    q->group = copy(q->group, q->ngroup, sizeof *q->group);
    bool good = locate(s, &q->src, q->count) && locate(s, (const void **)&q->dst, q->count) &&
                locate_parts(s, (const void **)q->srcs, q->src_counts, nparts, q->count) &&
                locate_parts(s, (const void **)q->dsts, q->dst_counts, nparts, q->count);
    comm_request *group = (comm_request *)q->group;
    for (int64_t i = 0; i < q->ngroup && group; i++) good = take_request(ring, s, &group[i]) && good;
    return good;
}

/* --- the engine of a ring ----------------------------------------------------------------------------------------- */

static bool has_failed(far_ring *r) {
    pthread_mutex_lock(&r->lock);
    bool failed = r->code != WEFT_OK;
    pthread_mutex_unlock(&r->lock);
    return failed;
}

static void keep(far_ring *r, weft_status status) {
    pthread_mutex_lock(&r->lock);
    if (r->code == WEFT_OK) {
        r->code = weft_status_code(status);
        snprintf(r->words, sizeof r->words, "%s", weft_status_message(status));
    }
    pthread_mutex_unlock(&r->lock);
    weft_status_free(status);
}

static void run_item(void *arg) {
    item *i = arg;
    while (is_held) usleep(1000);
    if (!has_failed(i->ring)) {
        weft_status status = comm_run(i->ring->inner, &i->request);
        if (status) keep(i->ring, status);
    }
    free_request(&i->request);
    free(i);
}

static weft_status far_enqueue(comm_ring *ring, const comm_request *request, void *device_stream) {
    far_ring *r = far_ring_of(ring);
    comm_request q = *request;
    if (!q.op) q.op = comm_kind_name(q.kind);
    TRY(comm_check_request(ring, r->rank, &q));
    item *i = calloc(1, sizeof *i);
    if (!i) return base_out_of_memory();
    *i = (item){r, q};
    if (take_request(ring, device_stream, &i->request)) {
        far_stream_push(device_stream, run_item, i);
        return NULL;
    }
    free_request(&i->request);
    free(i);
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%s: a buffer is not in the device's memory", q.op);
}

static weft_status far_error(comm_ring *ring) {
    far_ring *r = far_ring_of(ring);
    pthread_mutex_lock(&r->lock);
    weft_status status = r->code == WEFT_OK ? NULL : weft_status_create(r->code, NULL, "%s", r->words);
    pthread_mutex_unlock(&r->lock);
    return status ? status : comm_error(r->inner);
}

/* What has not begun finds the world aborted, and touches nothing. */
static weft_status far_abort(comm_ring *ring, double timeout_seconds) {
    if (is_held) return weft_status_create(WEFT_RUNTIME, NULL, "member %d holds its buffers", ring->index);
    return comm_abort(far_ring_of(ring)->inner, timeout_seconds);
}

static const comm_ring_engine ring_engine = {
    .name = "far", .enqueues_on = "far", .enqueue = far_enqueue, .error = far_error, .abort = far_abort};

/* --- worlds: those of the local engine, but for their rings ------------------------------------------------------- */

static const comm_world_engine *local(void) {
    return comm_local_host(1).engine;
}

static weft_status create(const weft_allocator *allocator, const comm_host *host, comm_world **out_world) {
    return local()->create(allocator, host, out_world);
}

static void destroy(comm_world *world) {
    pthread_mutex_lock(&rings_lock);
    for (far_ring **at = &rings; *at;) {
        far_ring *r = *at;
        if (r->world != world) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        pthread_mutex_destroy(&r->lock);
        free(r);
    }
    pthread_mutex_unlock(&rings_lock);
    local()->destroy(world);
}

static weft_status ring_get(comm_world *world, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                            comm_ring **out_ring) {
    comm_ring *inner;
    TRY(local()->ring_get(world, id, nranks, ranks, rank, &inner));
    pthread_mutex_lock(&rings_lock);
    far_ring *r = rings;
    while (r && r->inner != inner) r = r->next;
    if (!r && (r = calloc(1, sizeof *r))) {
        *r = (far_ring){.view = *inner, .inner = inner, .world = world, .rank = rank, .next = rings};
        r->view.engine = &ring_engine;
        pthread_mutex_init(&r->lock, NULL);
        rings = r;
    }
    pthread_mutex_unlock(&rings_lock);
    if (!r) return base_out_of_memory();
    *out_ring = &r->view;
    return NULL;
}

static weft_status gather(comm_world *world, const comm_gather *g) {
    return local()->gather(world, g);
}
static void abort_world(comm_world *world, const char *why) {
    local()->abort(world, why);
}
static const char *why(const comm_world *world) {
    return local()->why(world);
}
static void alarm_all(comm_world *world) {
    local()->alarm(world);
}

static const comm_world_engine world_engine = {.name = "far",
                                               .create = create,
                                               .destroy = destroy,
                                               .ring_get = ring_get,
                                               .gather = gather,
                                               .abort = abort_world,
                                               .why = why,
                                               .alarm = alarm_all};

bool far_engine_has_rings(void) {
    pthread_mutex_lock(&rings_lock);
    bool has = rings != NULL;
    pthread_mutex_unlock(&rings_lock);
    return has;
}

comm_host far_engine_host(comm_host host) {
    host.engine = &world_engine;
    return host;
}

/* --- one request, to its end -------------------------------------------------------------------------------------- */

static pthread_key_t stream_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void destroy_stream(void *s) {
    far_stream_destroy(s);
}
static void make_key(void) {
    if (pthread_key_create(&stream_of_thread, destroy_stream)) abort();
}

static const void *front(const void *address) {
    const void *far = address ? far_front(address) : NULL;
    return far ? far : address;
}

/* The request with the device's addresses; its arrays are copies. */
static comm_request with_fronts(const comm_ring *ring, const comm_request *from) {
    comm_request q = *from;
    int64_t nparts = comm_nparts(ring, &q);
    const void **srcs = copy(q.srcs, nparts, sizeof *q.srcs), **dsts = copy(q.dsts, nparts, sizeof *q.dsts);
    comm_request *group = copy(q.group, q.ngroup, sizeof *q.group);
    q.src = front(q.src);
    q.dst = (void *)front(q.dst);
    for (int64_t k = 0; k < nparts && srcs; k++) srcs[k] = front(srcs[k]);
    for (int64_t k = 0; k < nparts && dsts; k++) dsts[k] = front(dsts[k]);
    for (int64_t i = 0; i < q.ngroup && group; i++) {
        group[i].src = front(group[i].src);
        group[i].dst = (void *)front(group[i].dst);
    }
    q.srcs = srcs;
    q.dsts = (void *const *)dsts;
    q.group = group;
    return q;
}

weft_status far_engine_perform(comm_ring *ring, const comm_request *request) {
    pthread_once(&once, make_key);
    far_stream *s = pthread_getspecific(stream_of_thread);
    if (!s) {
        TRY(far_stream_create(true, &s));
        pthread_setspecific(stream_of_thread, s);
    }
    comm_request q = with_fronts(ring, request);
    weft_status status = comm_enqueue(ring, &q, s);
    free((void *)q.srcs);
    free((void *)q.dsts);
    free((void *)q.group);
    if (status) return status;
    far_stream_drain(s);
    return comm_error(ring);
}
