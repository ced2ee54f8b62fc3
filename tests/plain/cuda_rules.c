/* cuda_rules.c: what the stand-ins for the libraries of CUDA do not let pass: each broken rule ends a process with its
 * words. No header of CUDA is needed: where there is no toolkit this is skipped. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cuda_standin.h"
#include "tests/support/plain.h"

enum { NON_BLOCKING = 1, NO_TIMING = 2 };

typedef void call_fn(void);
typedef struct unique_id {
    char bytes[128];
} unique_id;

static void *runtime, *collectives, *products, *convolutions;

/* --- calls by name ------------------------------------------------------------------------------------------------ */

static call_fn *find(void *library, const char *function) {
    union {
        void *object;
        call_fn *call;
    } symbol = {dlsym(library, function)};
    if (!symbol.object) _exit(9);
    return symbol.call;
}
#define CALL(library, function, types, ...) ((int(*) types)find(library, function))(__VA_ARGS__)
#define RUNTIME(function, types, ...) CALL(runtime, function, types, __VA_ARGS__)

static void *new_stream(void) {
    void *s = NULL;
    RUNTIME("cudaStreamCreateWithPriority", (void **, unsigned, int), &s, NON_BLOCKING, 0);
    return s;
}
static void *new_event(void) {
    void *e = NULL;
    RUNTIME("cudaEventCreateWithFlags", (void **, unsigned), &e, NO_TIMING);
    return e;
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

static void wait_for_nothing(void) {
    RUNTIME("cudaStreamWaitEvent", (void *, void *, unsigned), new_stream(), new_event(), 0);
}
static void destroy_pending_event(void) {
    void *e = new_event();
    RUNTIME("cudaEventRecord", (void *, void *), e, new_stream());
    RUNTIME("cudaEventDestroy", (void *), e);
}
static void destroy_busy_stream(void) {
    void *s = new_stream();
    RUNTIME("cudaEventRecord", (void *, void *), new_event(), s);
    RUNTIME("cudaStreamDestroy", (void *), s);
}
static void leave_stream(void) {
    new_stream();
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
static void end_no_group(void) {
    CALL(collectives, "ncclGroupEnd", (void), );
}
static void pass_raw_config(void) {
    char config[1024] = {0};
    void *comm = NULL;
    CALL(collectives, "ncclCommInitRankConfig", (void **, int, unique_id, int, void *), &comm, 2, (unique_id){"id"}, 0,
         config);
}
static void ask_for_any_order(void) {
    unsigned schemes = 7;
    char preference[64];
    CALL(products, "cublasLtMatmulPreferenceSetAttribute", (void *, int, const void *, size_t), preference, 3, &schemes,
         sizeof schemes);
}

/* --- convolutions ------------------------------------------------------------------------------------------------- */

enum { ADDS_IN_ANY_ORDER, ADDS_IN_ORDER, FMA_MATH = 3 };
#define DNN(function, types, ...) CALL(convolutions, function, types, __VA_ARGS__)

/* Of one element. */
static void *new_tensor(void) {
    void *t = NULL;
    DNN("cudnnCreateTensorDescriptor", (void **), &t);
    DNN("cudnnSetTensor4dDescriptor", (void *, int, int, int, int, int, int), t, 0, 0, 1, 1, 1, 1);
    return t;
}
static void *new_handle(void *stream) {
    void *handle = NULL;
    DNN("cudnnCreate", (void **), &handle);
    DNN("cudnnSetStream", (void *, void *), handle, stream);
    return handle;
}
static void convolve(void *handle, int algorithm, int math) {
    static const float one = 1, zero = 0;
    void *filter = NULL, *how = NULL, *x = new_tensor(), *y = new_tensor();
    DNN("cudnnCreateFilterDescriptor", (void **), &filter);
    DNN("cudnnSetFilter4dDescriptor", (void *, int, int, int, int, int, int), filter, 0, 0, 1, 1, 1, 1);
    DNN("cudnnCreateConvolutionDescriptor", (void **), &how);
    DNN("cudnnSetConvolution2dDescriptor", (void *, int, int, int, int, int, int, int, int), how, 0, 0, 1, 1, 1, 1, 1,
        0);
    DNN("cudnnSetConvolutionMathType", (void *, int), how, math);
    DNN("cudnnConvolutionForward",
        (void *, const void *, void *, const void *, void *, const void *, void *, int, void *, size_t, const void *,
         void *, void *),
        handle, &one, x, NULL, filter, NULL, how, algorithm, NULL, 0, &zero, y, NULL);
}
static void convolve_in_any_order(void) {
    convolve(new_handle(new_stream()), ADDS_IN_ANY_ORDER, FMA_MATH);
}
static void convolve_with_rounding(void) {
    convolve(new_handle(new_stream()), ADDS_IN_ORDER, 0);
}
static void *convolve_beside(void *handle) {
    convolve(handle, ADDS_IN_ORDER, FMA_MATH);
    return NULL;
}
static void share_handle(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, convolve_beside, new_handle(new_stream()));
    pthread_join(thread, NULL);
}
static void leave_descriptor(void) {
    new_tensor();
    exit(0);
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
    void *block = new_block(100), *s = new_stream(), *t = new_stream();
    clear(block, 60, s);
    clear((char *)block + 56, 44, t);
    synchronize(s);
    synchronize(t);
}
static void read_and_write(void) {
    void *block = new_block(100), *other = new_block(100), *s = new_stream(), *t = new_stream();
    copy(other, block, 100, s);
    clear(block, 4, t);
    synchronize(s);
    synchronize(t);
}
/* The event is set before what it should order. */
static void record_too_early(void) {
    void *block = new_block(100), *e = new_event(), *s = new_stream(), *t = new_stream();
    record(e, s);
    clear(block, 100, s);
    wait_for(e, t);
    clear(block, 100, t);
    synchronize(s);
    synchronize(t);
}
/* Whether the host has seen the end of one when it launches the other is what counts. */
static void order_well(void) {
    void *block = new_block(100), *other = new_block(100), *e = new_event(), *s = new_stream(), *t = new_stream();
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
    void *block = new_block(100), *s = new_stream();
    clear(block, 100, s);
    RUNTIME("cudaStreamQuery", (void *), new_stream()); /* it runs, and the host does not know */
    RUNTIME("cudaFree", (void *), block);
}
static void touch_freed(void) {
    void *block = new_block(100), *s = new_stream();
    RUNTIME("cudaFree", (void *), block);
    clear(block, 100, s);
    synchronize(s);
}
static void go_beyond(void) {
    void *block = new_block(100), *s = new_stream();
    clear(block, 101, s);
    synchronize(s);
}

/* --- captures ----------------------------------------------------------------------------------------------------- */

static void leave_fork(void) {
    void *block = new_block(100), *e = new_event(), *s = new_stream(), *t = new_stream();
    begin_capture(s);
    record(e, s);
    wait_for(e, t);
    clear(block, 100, t);
    end_capture(s);
}
static void capture_and_wait(void) {
    void *s = new_stream();
    begin_capture(s);
    synchronize(s);
}
static void capture_and_allocate(void) {
    begin_capture(new_stream());
    new_block(100);
}
static void *end_capture_here(void *stream) {
    end_capture(stream);
    return NULL;
}
static void end_elsewhere(void) {
    pthread_t thread;
    void *s = new_stream();
    begin_capture(s);
    pthread_create(&thread, NULL, end_capture_here, s);
    pthread_join(thread, NULL);
}
static void wait_for_captured(void) {
    void *e = new_event(), *s = new_stream();
    begin_capture(s);
    record(e, s);
    end_capture(s);
    wait_for(e, new_stream());
}
static void ask_for_captured(void) {
    void *e = new_event(), *s = new_stream();
    begin_capture(s);
    record(e, s);
    end_capture(s);
    RUNTIME("cudaEventQuery", (void *), e);
}
static void capture_outer_event(void) {
    void *e = new_event(), *s = new_stream();
    record(e, new_stream());
    begin_capture(s);
    wait_for(e, s);
}
/* Two nodes that no edge orders write the same. */
static void race_in_graph(void) {
    void *block = new_block(100), *e = new_event(), *f = new_event(), *s = new_stream(), *t = new_stream();
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
    void *block = new_block(100), *s = new_stream(), *t = new_stream();
    void *graph = begin_capture(s);
    clear(block, 100, s);
    end_capture(s);
    launch_graph(graph, s);
    clear(block, 100, t);
    synchronize(s);
    synchronize(t);
}
static void leave_graph(void) {
    void *s = new_stream();
    begin_capture(s);
    end_capture(s);
    RUNTIME("cudaStreamDestroy", (void *), s);
    exit(0);
}

/* --- communicators ------------------------------------------------------------------------------------------------ */

typedef void *comm_of(const char *, int, int);

static void make_comms(const char *id, void *comms[2]) {
    for (int r = 0; r < 2; r++) comms[r] = ((comm_of *)find(collectives, "standin_comm_create"))(id, 2, r);
}
static void reduce(void *block, size_t count, void *comm, void *stream) {
    CALL(collectives, "ncclAllReduce", (const void *, void *, size_t, int, int, void *, void *), block, block, count, 7,
         0, comm, stream);
}
static void launch(void *comm) {
    int state;
    for (int i = 0; i < 4; i++) CALL(collectives, "ncclCommGetAsyncError", (void *, int *), comm, &state);
}
static void *reduce_beside(void *comm) {
    reduce(NULL, 0, comm, new_stream());
    return NULL;
}

static void reduce_differently(void) {
    void *comms[2];
    make_comms("a", comms);
    for (int r = 0; r < 2; r++) reduce(new_block(8), (size_t)r + 1, comms[r], new_stream());
}
/* Two collectives of two ranks in opposite orders, a stream each. */
static void cross(void) {
    void *a[2], *b[2], *s[2] = {new_stream(), new_stream()}, *block = new_block(8);
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
    CALL(collectives, "ncclGroupStart", (void), );
    reduce(new_block(8), 1, comms[0], new_stream());
    pthread_create(&thread, NULL, reduce_beside, comms[0]);
    pthread_join(thread, NULL);
}
static void record_in_group(void) {
    CALL(collectives, "ncclGroupStart", (void), );
    record(new_event(), new_stream());
}
static void wait_in_group(void) {
    CALL(collectives, "ncclGroupStart", (void), );
    synchronize(new_stream());
}
static void destroy_busy_comm(void) {
    void *comms[2];
    make_comms("a", comms);
    reduce(new_block(8), 1, comms[0], new_stream());
    CALL(collectives, "ncclCommDestroy", (void *), comms[0]);
}
static void keep_graph_of_comm(void) {
    void *comms[2], *s = new_stream(), *block = new_block(8);
    make_comms("a", comms);
    begin_capture(s);
    reduce(block, 1, comms[0], s);
    launch(comms[0]);
    end_capture(s);
    CALL(collectives, "ncclCommDestroy", (void *), comms[0]);
}
static void leave_comm(void) {
    void *comms[2];
    make_comms("a", comms);
    exit(0);
}

typedef struct rule {
    void (*breaks)(void);
    const char *words;
} rule;

static const rule rules[] = {
    {wait_for_nothing, "waits for an event that was never recorded"},
    {destroy_pending_event, "an event is destroyed before it is done"},
    {destroy_busy_stream, "a stream is destroyed that has work"},
    {leave_stream, "1 streams left at the end"},
    {leave_memory, "1 blocks of memory left at the end"},
    {use_legacy_stream, "the legacy stream"},
    {make_blocking_stream, "a stream that waits for the legacy stream"},
    {load_no_image, "expected a fatbin"},
    {end_no_group, "ncclGroupEnd without ncclGroupStart"},
    {pass_raw_config, "a config that was not initialised"},
    {ask_for_any_order, "a product whose sum has no order"},
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
    {reduce_differently, "ranks do not launch the same collective"},
    {cross, "nothing can go: stream"},
    {share_comm, "two threads use a communicator at once"},
    {record_in_group, "cudaEventRecord within a group"},
    {wait_in_group, "cudaStreamSynchronize within a group"},
    {destroy_busy_comm, "a communicator is destroyed that has work"},
    {leave_comm, "2 communicators left at the end"},
};

static const rule dnn_rules[] = {
    {convolve_in_any_order, "a convolution whose sum has no order"},
    {convolve_with_rounding, "a convolution that rounds its factors"},
    {share_handle, "a handle of cuDNN whose stream another thread set"},
    {leave_descriptor, "1 descriptors left at the end"},
};

static void break_rule(void *breaks) {
    (*(void (**)(void))breaks)();
}

static void try_rule(const rule *r) {
    void (*breaks)(void) = r->breaks;
    char said[2000];
    int how = cuda_standin_listen(break_rule, &breaks, said, sizeof said);
    check(strstr(said, r->words) != NULL, "rule \"%s\": %s", r->words, said);
    check(WIFSIGNALED(how), "rule \"%s\" did not end the process", r->words);
}

static void try_good_order(void) {
    void (*orders)(void) = order_well;
    char said[2000];
    int how = cuda_standin_listen(break_rule, &orders, said, sizeof said);
    check(WIFEXITED(how) && WEXITSTATUS(how) == 0, "what is ordered is refused: %s", said);
}

int main(void) {
    if (!cuda_standin_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    runtime = cuda_standin_library("libcudart.so.13");
    collectives = cuda_standin_library("libnccl.so.2");
    products = cuda_standin_library("libcublasLt.so.13");
    convolutions = cuda_standin_library("libcudnn.so.9"); /* only where there is its header */
    check(runtime && collectives && products, "the stand-ins open");
    for (size_t i = 0; i < sizeof rules / sizeof *rules && runtime && collectives && products; i++) try_rule(&rules[i]);
    for (size_t i = 0; i < sizeof dnn_rules / sizeof *dnn_rules && convolutions; i++) try_rule(&dnn_rules[i]);
    try_good_order();
    return report_checks();
}
