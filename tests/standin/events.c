/* events.c: streams and events of the stand-in. An event is done when the record that was last before it was asked has
 * run. */
#include <stdio.h>
#include <stdlib.h>

#include "executor/comm/wait.h"
#include "tests/standin/graphs.h"

typedef struct event {
    uint64_t nrecorded, ndone;
    int64_t ns; /* when it was done last */
    bool is_timed;
    cudaStream_t stream; /* of the last record */
    standin_clock clock; /* behind it */
    uint64_t capture;    /* that recorded it last; 0: none */
    standin_deps deps;   /* then */
} event;

typedef struct event_item {
    event *of;
    uint64_t count;
} event_item;

static event *event_of(cudaEvent_t e) {
    return (event *)(void *)e;
}
static event_item *of_item(standin_item *item) {
    return (event_item *)(void *)item->bytes;
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

SHOWN cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
    if (standin_fails("stream")) return standin_error(cudaErrorMemoryAllocation);
    if (standin_bends("stream.blocking")) flags = 0;
    if (flags != cudaStreamNonBlocking) standin_broken("a stream that waits for the legacy stream");
    standin_use_gpu();
    *out = (cudaStream_t)(void *)standin_stream_create(priority);
    return cudaSuccess;
}

SHOWN cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (standin_loses("streamdestroy")) return cudaSuccess;
    if (standin_bends("streamdestroy.captures")) standin_begin_capture(stream);
    standin_stream_destroy((standin_stream *)(void *)stream);
    return standin_fails("streamdestroy") ? cudaErrorLaunchFailure : cudaSuccess;
}

static bool is_idle(void *stream) {
    return standin_stream_is_idle(stream);
}

SHOWN cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    standin_check_group("cudaStreamSynchronize");
    standin_check_capture("cudaStreamSynchronize");
    standin_run_until(is_idle, stream);
    standin_lock();
    standin_clock_join(&standin_host, standin_stream_clock(stream));
    standin_host_waits(standin_stream_ns(stream));
    standin_unlock();
    return standin_fails("synchronize") ? standin_error(cudaErrorLaunchFailure) : cudaSuccess;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

SHOWN cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
    if (standin_fails("event")) return standin_error(cudaErrorMemoryAllocation);
    event *e = calloc(1, sizeof *e);
    if (!e) abort();
    e->is_timed = !(flags & cudaEventDisableTiming);
    *out = (cudaEvent_t)(void *)e;
    standin_count(STANDIN_EVENTS, 1);
    return cudaSuccess;
}

SHOWN cudaError_t cudaEventDestroy(cudaEvent_t e) {
    if (standin_loses("eventdestroy")) return cudaSuccess;
    if (event_of(e)->ndone != event_of(e)->nrecorded) standin_broken("an event is destroyed before it is done");
    free(event_of(e));
    standin_count(STANDIN_EVENTS, -1);
    return standin_fails("eventdestroy") ? cudaErrorLaunchFailure : cudaSuccess;
}

static void run_record(standin_item *item) {
    int64_t now = wait_clock_ns();
    standin_lock();
    of_item(item)->of->ndone = of_item(item)->count;
    of_item(item)->of->ns = standin_clock_is_virtual() ? item->start_ns : now;
    standin_unlock();
}

static standin_item *item_of(const char *what, event *e) {
    standin_item *item = standin_item_create(what, sizeof(event_item));
    *of_item(item) = (event_item){e, e->nrecorded};
    return item;
}

static _Thread_local event *captured; /* the last one */

/* A capture keeps what the event stands for. */
static void record_captured(event *e, const standin_stream *s) {
    captured = e;
    e->capture = s->capture;
    e->deps = s->deps;
}

static void record_now(event *e, cudaStream_t stream) {
    e->capture = 0;
    e->nrecorded++;
    e->stream = stream;
    standin_item *item = item_of("an event's record", e);
    item->run = run_record;
    standin_push_locked(stream, item);
    e->clock = *standin_stream_clock(stream);
}

SHOWN cudaError_t cudaEventRecord(cudaEvent_t of, cudaStream_t stream) {
    const standin_stream *s = (const standin_stream *)(void *)stream;
    standin_check_group("cudaEventRecord");
    if (standin_fails("record")) return standin_error(cudaErrorInvalidResourceHandle);
    if (standin_loses("record")) return cudaSuccess;
    standin_lock();
    if (s->capture)
        record_captured(event_of(of), s);
    else
        record_now(event_of(of), stream);
    bool asks = s->capture && standin_bends("record.asks");
    standin_unlock();
    return asks ? cudaEventQuery(of) : cudaSuccess;
}

static void record_again(standin_item *item) {
    event *e = of_item(item)->of;
    e->nrecorded++;
    e->clock = item->clock;
    of_item(item)->count = e->nrecorded;
}

/* Of a stream that captures: a node that records the event each time. */
SHOWN cudaError_t cudaEventRecordWithFlags(cudaEvent_t of, cudaStream_t stream, unsigned flags) {
    const standin_stream *s = (const standin_stream *)(void *)stream;
    if (flags != cudaEventRecordExternal || !s->capture) return cudaEventRecord(of, stream);
    if (standin_fails("recordagain")) return standin_error(cudaErrorInvalidResourceHandle);
    standin_lock();
    standin_item *item = item_of("an event's record", event_of(of));
    item->type = cudaGraphNodeTypeEventRecord;
    item->run = run_record;
    item->again = record_again;
    standin_push_locked(stream, item);
    standin_unlock();
    return cudaSuccess;
}

static bool is_set(standin_item *item) {
    return of_item(item)->of->ndone >= of_item(item)->count;
}
static cudaStream_t recorder_of(const standin_item *item, int k) {
    const event_item *e = (const event_item *)(const void *)item->bytes;
    return k || e->of->ndone >= e->count ? NULL : e->of->stream;
}
static void run_wait(standin_item *item) {
    if (standin_clock_is_virtual() && of_item(item)->of->ns > item->start_ns) item->start_ns = of_item(item)->of->ns;
}

/* WEFT_STANDIN_DROP=SLOT:N: the N-th wait of the stream of that slot is lost, as if the device had not asked for it. In
 * a graph it is an edge that orders nothing.
 * Threads ask for their streams' waits in any order: what is the N-th of all differs from run to run. */
static bool is_dropped(const standin_stream *s) {
    static _Atomic int ncalls;
    int slot = 0, n = 0;
    const char *text = getenv("WEFT_STANDIN_DROP");
    bool is_it = text && sscanf(text, "%d:%d", &slot, &n) == 2 && slot == s->slot && ++ncalls == n;
    if (is_it) fputs("stand-in: a wait is lost\n", stderr);
    return is_it;
}

static void do_nothing(standin_item *item) {
    (void)item;
}

/* As a device might ask for it wrongly: of an event that a capture has. false: it does not wait. */
static bool bend_wait(cudaStream_t *stream, event *e) {
    const standin_stream *s = (const standin_stream *)(void *)*stream;
    if (!e->capture) return true;
    if (standin_bends("wait.joins")) *stream = standin_other_capture();
    if (s->capture && standin_bends("wait.outer")) e->capture = 0;
    if (s->capture && standin_bends("wait.early")) {
        standin_lock();
        standin_capture_early((standin_stream *)(void *)*stream, e->capture, &e->deps);
        standin_unlock();
        return false;
    }
    if (!s->capture && standin_bends("wait.busy")) {
        standin_item *item = standin_item_create("work", 0);
        item->run = do_nothing;
        standin_push(*stream, item);
    }
    standin_lock();
    bool is_origin = standin_is_origin(s);
    standin_unlock();
    return !is_origin || !standin_bends("wait.leaves");
}

/* CUDA takes an event that was never recorded as done, which no plan means. */
SHOWN cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t of, unsigned flags) {
    event *e = event_of(of);
    if (standin_bends("wait.external")) flags = cudaEventWaitExternal;
    if (flags) standin_broken("cudaStreamWaitEvent: flags %u", flags);
    if (!bend_wait(&stream, e)) return cudaSuccess;
    if (is_dropped((standin_stream *)(void *)stream)) {
        standin_lock();
        if (e->capture) standin_capture_early((standin_stream *)(void *)stream, e->capture, &e->deps);
        standin_unlock();
        return cudaSuccess;
    }
    if (standin_fails("wait")) return standin_error(cudaErrorInvalidResourceHandle);
    standin_lock();
    if (e->capture) {
        standin_capture_wait((standin_stream *)(void *)stream, e->capture, &e->deps);
        standin_unlock();
        return cudaSuccess;
    }
    if (((standin_stream *)(void *)stream)->capture)
        standin_broken("a stream that captures waits for an event that was not captured");
    if (!e->nrecorded) standin_broken("a stream waits for an event that was never recorded");
    standin_item *item = item_of("a wait", e);
    item->can_go = is_set;
    item->waits_for = recorder_of;
    item->run = run_wait;
    standin_clock_join(standin_stream_clock(stream), &e->clock);
    standin_push_locked(stream, item);
    standin_unlock();
    return cudaSuccess;
}

cudaError_t standin_wait_for_captured(cudaStream_t stream) {
    return cudaStreamWaitEvent(stream, (cudaEvent_t)(void *)captured, 0);
}

SHOWN cudaError_t cudaEventQuery(cudaEvent_t e) {
    if (standin_fails("eventquery")) return standin_error(cudaErrorLaunchFailure);
    if (standin_bends("eventquery.early")) return cudaSuccess;
    if (event_of(e)->capture) standin_broken("cudaEventQuery of an event that a capture has");
    standin_run(4);
    standin_lock();
    bool done = event_of(e)->ndone >= event_of(e)->nrecorded;
    if (done) standin_clock_join(&standin_host, &event_of(e)->clock);
    if (done && standin_clock_is_virtual()) standin_host_waits(event_of(e)->ns);
    standin_unlock();
    return done ? cudaSuccess : standin_error(cudaErrorNotReady);
}

SHOWN cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    const event *a = event_of(from), *b = event_of(to);
    if (standin_fails("elapsed")) return standin_error(cudaErrorInvalidResourceHandle);
    if (!a->is_timed || !b->is_timed || !a->ndone || !b->ndone) return standin_error(cudaErrorInvalidResourceHandle);
    *ms = (float)((double)(b->ns - a->ns) * 1e-6);
    return cudaSuccess;
}
