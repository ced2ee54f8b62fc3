/* cuda_rules.c: what the stand-ins for the CUDA runtime and NCCL do not let pass: each broken rule ends a process with
 * its words. No header of CUDA is needed: where there is no toolkit this is skipped. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/cuda_rule.h"
#include "tests/support/plain.h"

typedef struct unique_id {
    char bytes[128];
} unique_id;

/* --- rules -------------------------------------------------------------------------------------------------------- */

static void wait_for_nothing(void) {
    RUNTIME("cudaStreamWaitEvent", (void *, void *, unsigned), rule_stream(), rule_event(), 0);
}
static void destroy_pending_event(void) {
    void *e = rule_event();
    RUNTIME("cudaEventRecord", (void *, void *), e, rule_stream());
    RUNTIME("cudaEventDestroy", (void *), e);
}
static void destroy_busy_stream(void) {
    void *s = rule_stream();
    RUNTIME("cudaEventRecord", (void *, void *), rule_event(), s);
    RUNTIME("cudaStreamDestroy", (void *), s);
}
static void leave_stream(void) {
    rule_stream();
    exit(0);
}
static void leave_memory(void) {
    static void *block; /* no sanitizer's leak */
    RUNTIME("cudaMalloc", (void **, size_t), &block, 100);
    exit(0);
}
static void use_legacy_stream(void) {
    RUNTIME("cudaMemsetAsync", (void *, int, size_t, void *), NULL, 0, 0, NULL);
}
static void make_blocking_stream(void) {
    void *s = NULL;
    RUNTIME("cudaStreamCreateWithPriority", (void **, unsigned, int), &s, 0, 0);
}
static void load_no_image(void) {
    void *library = NULL;
    RUNTIME("cudaLibraryLoadData", (void **, const void *, void *, void *, unsigned, void *, void *, unsigned),
            &library, "no image", NULL, NULL, 0, NULL, NULL, 0);
}
static void launch_unloaded(void) {
    typedef struct extent {
        unsigned x, y, z;
    } extent;
    void *kernel = NULL, *args = NULL;
    RUNTIME("cudaLibraryGetKernel", (void **, void *, const char *), &kernel, NULL, "fill4");
    RUNTIME("cudaLaunchKernel", (const void *, extent, extent, void **, size_t, void *), kernel, (extent){1, 1, 1},
            (extent){256, 1, 1}, &args, 0, rule_stream());
}
static void use_two_gpus(void) {
    setenv("WEFT_STANDIN_ONE_GPU", "1", 1);
    rule_stream();
    RUNTIME("cudaSetDevice", (int), 1);
    rule_stream();
}
static void end_no_group(void) {
    CALL(rule_collectives, "ncclGroupEnd", (void), );
}
static void pass_raw_config(void) {
    char config[1024] = {0};
    void *comm = NULL;
    CALL(rule_collectives, "ncclCommInitRankConfig", (void **, int, unique_id, int, void *), &comm, 2,
         (unique_id){"id"}, 0, config);
}
static void start_in_any_order(void) {
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    ((void (*)(void))rule_find(rule_collectives, "standin_check_launch_order"))();
}
/* --- races, and memory -------------------------------------------------------------------------------------------- */

static void *new_block(size_t nbytes) {
    void *block = NULL;
    RUNTIME("cudaMalloc", (void **, size_t), &block, nbytes);
    return block;
}
static void clear(void *block, size_t nbytes, void *stream) {
    RUNTIME("cudaMemsetAsync", (void *, int, size_t, void *), block, 0, nbytes, stream);
}
static void copy(void *to, const void *from, size_t nbytes, void *stream) {
    RUNTIME("cudaMemcpyAsync", (void *, const void *, size_t, int, void *), to, from, nbytes, 3, stream);
}
static void record(void *e, void *stream) {
    RUNTIME("cudaEventRecord", (void *, void *), e, stream);
}
static void wait_for(void *e, void *stream) {
    RUNTIME("cudaStreamWaitEvent", (void *, void *, unsigned), stream, e, 0);
}
static void synchronize(void *stream) {
    RUNTIME("cudaStreamSynchronize", (void *), stream);
}

static void *begin_capture(void *stream) {
    void *graph = NULL;
    RUNTIME("cudaGraphCreate", (void **, unsigned), &graph, 0);
    RUNTIME("cudaStreamBeginCaptureToGraph", (void *, void *, void *, void *, size_t, int), stream, graph, NULL, NULL,
            0, 1);
    return graph;
}
static void end_capture(void *stream) {
    void *graph = NULL;
    RUNTIME("cudaStreamEndCapture", (void *, void **), stream, &graph);
}
static void *launch_graph(void *graph, void *stream) {
    void *run = NULL;
    RUNTIME("cudaGraphInstantiateWithFlags", (void **, void *, unsigned long long), &run, graph, 0);
    RUNTIME("cudaGraphLaunch", (void *, void *), run, stream);
    return run;
}

static void write_twice(void) {
    void *block = new_block(100), *s = rule_stream(), *t = rule_stream();
    clear(block, 60, s);
    clear((char *)block + 56, 44, t);
    synchronize(s);
    synchronize(t);
}
static void read_and_write(void) {
    void *block = new_block(100), *other = new_block(100), *s = rule_stream(), *t = rule_stream();
    copy(other, block, 100, s);
    clear(block, 4, t);
    synchronize(s);
    synchronize(t);
}
/* The event is set before what it should order. */
static void record_too_early(void) {
    void *block = new_block(100), *e = rule_event(), *s = rule_stream(), *t = rule_stream();
    record(e, s);
    clear(block, 100, s);
    wait_for(e, t);
    clear(block, 100, t);
    synchronize(s);
    synchronize(t);
}
/* Whether the host has seen the end of one when it launches the other is what counts. */
static void order_well(void) {
    void *block = new_block(100), *other = new_block(100), *e = rule_event(), *s = rule_stream(), *t = rule_stream();
    clear(block, 100, s);
    record(e, s);
    wait_for(e, t);
    clear(block, 100, t);
    synchronize(t);
    copy(other, block, 40, s);
    copy((char *)other + 40, block, 40, s);
    clear((char *)block + 40, 60, t); /* beside what others read */
    synchronize(t);
    synchronize(s);
    copy(other, block, 100, t);
    synchronize(t);
    void *graph = begin_capture(s);
    record(e, s);
    wait_for(e, t);
    clear(block, 40, s);
    clear((char *)block + 40, 60, t);
    record(e, t);
    wait_for(e, s);
    copy(other, block, 100, s);
    end_capture(s);
    launch_graph(graph, s);
    launch_graph(graph, s);
    clear(block, 100, s);
    synchronize(s);
}
static void free_too_early(void) {
    void *block = new_block(100), *s = rule_stream();
    clear(block, 100, s);
    RUNTIME("cudaEventQuery", (void *), rule_event()); /* it runs, and the host does not know */
    RUNTIME("cudaFree", (void *), block);
}
static void touch_freed(void) {
    void *block = new_block(100), *s = rule_stream();
    RUNTIME("cudaFree", (void *), block);
    clear(block, 100, s);
    synchronize(s);
}
static void go_beyond(void) {
    void *block = new_block(100), *s = rule_stream();
    clear(block, 101, s);
    synchronize(s);
}

/* --- captures ----------------------------------------------------------------------------------------------------- */

static void leave_fork(void) {
    void *block = new_block(100), *e = rule_event(), *s = rule_stream(), *t = rule_stream();
    begin_capture(s);
    record(e, s);
    wait_for(e, t);
    clear(block, 100, t);
    end_capture(s);
}
static void capture_and_wait(void) {
    void *s = rule_stream();
    begin_capture(s);
    synchronize(s);
}
static void capture_and_allocate(void) {
    begin_capture(rule_stream());
    new_block(100);
}
static void *end_capture_here(void *stream) {
    end_capture(stream);
    return NULL;
}
static void end_elsewhere(void) {
    pthread_t thread;
    void *s = rule_stream();
    begin_capture(s);
    pthread_create(&thread, NULL, end_capture_here, s);
    pthread_join(thread, NULL);
}
static void wait_for_captured(void) {
    void *e = rule_event(), *s = rule_stream();
    begin_capture(s);
    record(e, s);
    end_capture(s);
    wait_for(e, rule_stream());
}
static void ask_for_captured(void) {
    void *e = rule_event(), *s = rule_stream();
    begin_capture(s);
    record(e, s);
    end_capture(s);
    RUNTIME("cudaEventQuery", (void *), e);
}
static void capture_outer_event(void) {
    void *e = rule_event(), *s = rule_stream();
    record(e, rule_stream());
    begin_capture(s);
    wait_for(e, s);
}
/* Two nodes that no edge orders write the same. */
static void race_in_graph(void) {
    void *block = new_block(100), *e = rule_event(), *f = rule_event(), *s = rule_stream(), *t = rule_stream();
    void *graph = begin_capture(s);
    record(e, s);
    wait_for(e, t);
    clear(block, 100, s);
    clear(block, 100, t);
    record(f, t);
    wait_for(f, s);
    end_capture(s);
    launch_graph(graph, s);
    synchronize(s);
}
/* A graph and a stream beside it. */
static void race_with_graph(void) {
    void *block = new_block(100), *s = rule_stream(), *t = rule_stream();
    void *graph = begin_capture(s);
    clear(block, 100, s);
    end_capture(s);
    launch_graph(graph, s);
    clear(block, 100, t);
    synchronize(s);
    synchronize(t);
}
static void leave_graph(void) {
    void *s = rule_stream();
    begin_capture(s);
    end_capture(s);
    RUNTIME("cudaStreamDestroy", (void *), s);
    exit(0);
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

typedef void *comm_of(const char *, int, int);

static void make_comms(const char *id, void *comms[2]) {
    for (int r = 0; r < 2; r++) comms[r] = ((comm_of *)rule_find(rule_collectives, "standin_comm_create"))(id, 2, r);
}
static void reduce(void *block, size_t count, void *comm, void *stream) {
    CALL(rule_collectives, "ncclAllReduce", (const void *, void *, size_t, int, int, void *, void *), block, block,
         count, 7, 0, comm, stream);
}
static void launch(void *comm) {
    int state;
    for (int i = 0; i < 4; i++) CALL(rule_collectives, "ncclCommGetAsyncError", (void *, int *), comm, &state);
}
static void *reduce_beside(void *comm) {
    reduce(NULL, 0, comm, rule_stream());
    return NULL;
}

static void reduce_differently(void) {
    void *comms[2];
    make_comms("a", comms);
    for (int r = 0; r < 2; r++) reduce(new_block(8), (size_t)r + 1, comms[r], rule_stream());
}
/* Two collectives of two ranks in opposite orders, a stream each. */
static void cross(void) {
    void *a[2], *b[2], *s[2] = {rule_stream(), rule_stream()}, *block = new_block(8);
    make_comms("a", a);
    make_comms("b", b);
    for (int r = 0; r < 2; r++) {
        reduce(block, 1, r ? b[r] : a[r], s[r]);
        launch(r ? b[r] : a[r]);
        reduce(block, 1, r ? a[r] : b[r], s[r]);
        launch(r ? a[r] : b[r]);
    }
    synchronize(s[0]);
}
static void share_comm(void) {
    void *comms[2];
    pthread_t thread;
    make_comms("a", comms);
    CALL(rule_collectives, "ncclGroupStart", (void), );
    reduce(new_block(8), 1, comms[0], rule_stream());
    pthread_create(&thread, NULL, reduce_beside, comms[0]);
    pthread_join(thread, NULL);
}
static void record_in_group(void) {
    CALL(rule_collectives, "ncclGroupStart", (void), );
    record(rule_event(), rule_stream());
}
static void wait_in_group(void) {
    CALL(rule_collectives, "ncclGroupStart", (void), );
    synchronize(rule_stream());
}
static void destroy_busy_comm(void) {
    void *comms[2];
    make_comms("a", comms);
    reduce(new_block(8), 1, comms[0], rule_stream());
    CALL(rule_collectives, "ncclCommDestroy", (void *), comms[0]);
}
static void keep_graph_of_comm(void) {
    void *comms[2], *s = rule_stream(), *block = new_block(8);
    make_comms("a", comms);
    begin_capture(s);
    reduce(block, 1, comms[0], s);
    launch(comms[0]);
    end_capture(s);
    CALL(rule_collectives, "ncclCommDestroy", (void *), comms[0]);
}
/* By the thread that ought to let go of the graph. */
static void abort_graph_of_comm(void) {
    void *comms[2], *s = rule_stream(), *block = new_block(8);
    setenv("WEFT_STANDIN_PATIENCE_MS", "20", 1);
    make_comms("a", comms);
    begin_capture(s);
    reduce(block, 1, comms[0], s);
    launch(comms[0]);
    end_capture(s);
    CALL(rule_collectives, "ncclCommAbort", (void *), comms[0]);
}
/* What asks whether it is done is told by an error, if it is not. */
static void leave_error(void) {
    void *comms[2], *e = rule_event(), *s = rule_stream(), *block = new_block(8);
    make_comms("a", comms);
    reduce(block, 1, comms[0], s);
    launch(comms[0]);
    record(e, s);
    RUNTIME("cudaEventQuery", (void *), e);
    reduce(block, 1, comms[1], s);
}
static void leave_error_at_end(void) {
    RUNTIME("cudaSetDevice", (int), 1000);
    exit(0);
}
static void leave_comm(void) {
    void *comms[2];
    make_comms("a", comms);
    exit(0);
}

static const rule rules[] = {
    {wait_for_nothing, "waits for an event that was never recorded"},
    {destroy_pending_event, "an event is destroyed before it is done"},
    {destroy_busy_stream, "a stream is destroyed that has work"},
    {leave_stream, "1 streams left at the end"},
    {leave_memory, "1 blocks of memory left at the end"},
    {use_legacy_stream, "the legacy stream"},
    {make_blocking_stream, "a stream that waits for the legacy stream"},
    {load_no_image, "expected a fatbin"},
    {launch_unloaded, "fill4 is loaded while streams run"},
    {use_two_gpus, "memory, a stream or a kernel on GPU 1 beside GPU 0"},
    {end_no_group, "ncclGroupEnd without ncclGroupStart"},
    {pass_raw_config, "a config that was not initialised"},
    {start_in_any_order, "NCCL_LAUNCH_ORDER_IMPLICIT is not set"},
    {write_twice, "nothing orders cudaMemsetAsync on stream "},
    {read_and_write, "nothing orders cudaMem"},
    {record_too_early, "nothing orders cudaMemsetAsync on stream "},
    {free_too_early, "memory is freed while cudaMemsetAsync on stream 0 may touch it"},
    {touch_freed, "touches memory that was freed"},
    {go_beyond, "goes 1 bytes beyond a block of 100"},
    {leave_fork, "the capture ends before a stream is joined: cudaMemsetAsync is left"},
    {capture_and_wait, "cudaStreamSynchronize while this thread captures"},
    {capture_and_allocate, "cudaMalloc while this thread captures"},
    {end_elsewhere, "another thread ends a capture"},
    {wait_for_captured, "which has ended"},
    {ask_for_captured, "cudaEventQuery of an event that a capture has"},
    {capture_outer_event, "waits for an event that was not captured"},
    {race_in_graph, "nothing orders cudaMemsetAsync on stream "},
    {race_with_graph, "nothing orders cudaMemsetAsync on stream "},
    {leave_graph, "1 graphs left at the end"},
    {keep_graph_of_comm, "destroyed before graphs that have its collectives"},
    {abort_graph_of_comm, "ncclCommAbort waits for graphs that have its collectives"},
    {reduce_differently, "ranks do not launch the same collective"},
    {cross, "nothing can go: stream"},
    {share_comm, "two threads use a communicator at once"},
    {record_in_group, "cudaEventRecord within a group"},
    {wait_in_group, "cudaStreamSynchronize within a group"},
    {destroy_busy_comm, "a communicator is destroyed that has work"},
    {leave_error, "ncclAllReduce finds the error of a call before: device not ready"},
    {leave_error_at_end, "the end of the program finds the error of a call before"},
    {leave_comm, "2 communicators left at the end"},
};

static void try_good_order(void) {
    char said[2000];
    int how = rule_break(order_well, said, sizeof said);
    check(WIFEXITED(how) && WEXITSTATUS(how) == 0, "what is ordered is refused: %s", said);
}

int main(void) {
    char what[2500];
    if (!rules_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check(rule_holds(&rules[i], what, sizeof what), "%s", what);
    try_good_order();
    return report_checks();
}
