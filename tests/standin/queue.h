/* queue.h: streams of the stand-in for the CUDA runtime.
 *
 * Nothing runs by itself. Whoever waits or asks (cudaEventQuery, cudaStreamSynchronize) runs items: a scheduler takes
 * the head of some stream that can go, by a seed (WEFT_STANDIN_SEED). So one thread that issues gets the same schedule
 * each time. A stream is always one of a few that could go next: an order that the plan did not ask for is not kept.
 *
 * What the rules of CUDA forbid ends the process: standin_broken. So do two accesses of the same bytes that nothing
 * orders (clocks.h), and streams that wait for one another. */
#ifndef TESTS_STANDIN_QUEUE_H
#define TESTS_STANDIN_QUEUE_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/standin/clocks.h"

#define SHOWN __attribute__((visibility("default")))

typedef struct standin_item {
    const char *what;                          /* for reports */
    bool (*can_go)(struct standin_item *item); /* NULL: it can. Called with the lock */
    void (*run)(struct standin_item *item);    /* without the lock; one item of all streams at a time */
    /* Of one that cannot go: the k-th stream that has what it waits for; NULL: no more that are known. With the lock;
     * no such function: it waits for nothing. */
    cudaStream_t (*waits_for)(const struct standin_item *item, int k);
    /* Of a node: what a launch of the graph makes of a copy of it; with the lock. NULL: nothing. And what is to be done
     * when the graph goes. */
    void (*again)(struct standin_item *item);
    void (*forget)(struct standin_item *item);
    struct standin_item *next;
    enum cudaGraphNodeType type; /* as a node; a kernel's unless it is said */
    cudaStream_t stream;
    int slot; /* of its stream */
    standin_clock clock;
    /* Virtual time: when it was given; when it begins, which run may put off; what it takes. */
    int64_t given_ns, start_ns, cost_ns;
    size_t nbytes;         /* of what follows the item */
    unsigned char bytes[]; /* its own */
} standin_item;

/* An item with room for bytes of its own, zeroed. `what` stays. */
SHOWN standin_item *standin_item_create(const char *what, size_t nbytes);
/* Puts it behind what the stream has; it is freed once it has run. */
SHOWN void standin_push(cudaStream_t stream, standin_item *item);
/* Running, it touches bytes of the device: ends the process when nothing orders that and another touch of them, one of
 * which writes, or when they were freed. */
SHOWN void standin_touch(const standin_item *item, const void *address, size_t nbytes, bool writes);
/* With the lock. */
SHOWN bool standin_is_capturing(cudaStream_t stream);
/* As if the device had begun one more capture there. */
void standin_begin_capture(cudaStream_t stream);
/* A stream that captures on its own. */
cudaStream_t standin_other_capture(void);
/* Waits, beside a capture, for what this thread recorded last in one. */
cudaError_t standin_wait_for_captured(cudaStream_t stream);
/* Nodes that a library captures on a stream of its own, one behind another, which nobody joins. */
typedef struct standin_beside {
    uint64_t capture;
    struct standin_node *last;
} standin_beside;
/* With the lock. The first of them in a capture: what the stream is given next comes behind it. */
SHOWN bool standin_beside_begins(standin_beside *b, cudaStream_t stream, standin_item *item);
/* One more, behind what the stream has. */
SHOWN void standin_beside_add(standin_beside *b, cudaStream_t stream, standin_item *item);
/* With the lock: when the head of a queue can begin, in virtual time, as far as its queue goes. */
SHOWN int64_t standin_item_ns(const standin_item *item);
/* When the stream has done what it did so far. */
int64_t standin_stream_ns(cudaStream_t stream);
/* How many groups of NCCL this thread has open. */
SHOWN int *standin_group_depth(void);
SHOWN void standin_lock(void);
SHOWN void standin_unlock(void);
/* Says which rule was broken, and ends the process. */
SHOWN void standin_broken(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- within libcudart --- */

/* What the next item of a stream that captures comes behind. */
enum { STANDIN_MOST_DEPS = 32 };
typedef struct standin_deps {
    int n;
    struct standin_node *of[STANDIN_MOST_DEPS];
} standin_deps;

/* A stream, or a node of a graph that was launched: a queue of one item. */
typedef struct standin_stream {
    standin_item *first, **end;
    struct standin_stream *next;
    int priority, slot;
    standin_clock clock;
    int64_t ns;                        /* virtual time: the end of what it did last */
    int mark;                          /* of the search for a cycle */
    uint64_t capture;                  /* 0: none */
    standin_deps deps, early;          /* early: it may begin when those have begun */
    struct standin_launched *launched; /* of a node; else NULL */
    int node;
} standin_stream;
/* With the lock: whether a capture began there. */
bool standin_is_origin(const standin_stream *s);
standin_stream *standin_stream_create(int priority);
void standin_stream_destroy(standin_stream *s);
bool standin_stream_is_idle(const standin_stream *s); /* with the lock */
/* All with the lock. A node of a launch is a stream that is not counted. */
void standin_stream_add(standin_stream *s);
SHOWN void standin_push_locked(cudaStream_t stream, standin_item *item);
standin_clock *standin_stream_clock(cudaStream_t stream);
const char *standin_slot_name(int slot, uint32_t count);
/* WEFT_STANDIN_CLOCK: events have virtual time, which work takes by its cost, and the host none. */
bool standin_clock_is_virtual(void);
/* The host goes on behind that time. */
void standin_host_waits(int64_t ns);
/* Refuses within a group: its collectives are not on their streams yet. */
void standin_check_group(const char *call);
/* Runs items that can go, at most `most`; how many ran. */
int standin_run(int most);
/* Waits until `is_done(arg)`, which is called with the lock, running items. */
void standin_run_until(bool (*is_done)(void *arg), void *arg);
/* The thread's GPU is used. WEFT_STANDIN_ONE_GPU: the process may use no other than the first. */
void standin_use_gpu(void);
/* WEFT_STANDIN_FAIL=CALL:N[,...]: whether this is the N-th call of that kind. WEFT_STANDIN_TELL: that is said. What
 * ends something does it, and says that something failed before, as CUDA's may. */
SHOWN bool standin_fails(const char *call);
/* WEFT_STANDIN_LOSE=CALL:N[,...]: the N-th call of that kind is as good as not made, as if the device had not. */
SHOWN bool standin_loses(const char *call);
/* WEFT_STANDIN_BEND=WAY:N[,...]: the N-th call of a kind is made another way, as if the device had. Ways are named
 * where they are gone: "register.more". */
SHOWN bool standin_bends(const char *way);
/* WEFT_STANDIN_EARLY=CALL:N: before the N-th call of that kind the communicator ends, as if the device had ended it. */
SHOWN bool standin_ends_early(const char *call);
/* The same error, which is the thread's last one then. */
SHOWN cudaError_t standin_error(cudaError_t error);
/* Refuses an error that a call of this thread before has left: who launches asks for it, and takes it for his own. */
SHOWN void standin_check_error(const char *call);
/* Memory for NCCL: no call of the runtime's that could fail. */
SHOWN void *standin_take(size_t nbytes, bool is_of_nccl);
SHOWN void standin_give(void *block);
/* Counts what is alive of a kind, for the report of leaks. */
typedef enum standin_kind {
    STANDIN_STREAMS,
    STANDIN_EVENTS,
    STANDIN_BLOCKS,
    STANDIN_LIBRARIES,
    STANDIN_GRAPHS,
    STANDIN_EXECS,
    STANDIN_DESCRIPTORS,
    STANDIN_HANDLES,
    STANDIN_KINDS
} standin_kind;
SHOWN void standin_count(standin_kind kind, int change);

#endif
