/* far_engine.c: an engine that puts collectives on streams of a device whose memory the host cannot touch: the
 * conformance of all engines, programs with each kind of collective, and failures: how they come back from a stream,
 * and that every rank's step ends in bounded time. A plain main, because streams are threads. */
#include <stdlib.h>
#include <unistd.h>

#include "executor/comm/local.h"
#include "executor/executor.h"
#include "tests/support/comm_conformance.h"
#include "tests/support/far_device.h"
#include "tests/support/far_engine.h"
#include "tests/support/far_memory.h"
#include "tests/support/far_stream.h"
#include "tests/support/plain.h"
#include "weft/program.h"

static weft_allocator libc;

/* --- the conformance ---------------------------------------------------------------------------------------------- */

typedef struct processes {
    int each; /* ranks of a process, as far as they go */
    local_hub *hub;
} processes;

static weft_status open_processes(void *user, int nranks, comm_world **out_worlds, int *out_nworlds) {
    processes *p = user;
    TRY(local_hub_create(&libc, nranks, &p->hub));
    *out_nworlds = 0;
    for (int first = 0; first < nranks; first += p->each) {
        int n = nranks - first < p->each ? nranks - first : p->each;
        comm_host host = far_engine_host(local_hub_host(p->hub, first, n));
        TRY(comm_world_create(&libc, &host, &out_worlds[(*out_nworlds)++]));
    }
    return NULL;
}

static void close_processes(void *user, comm_world **worlds, int nworlds) {
    for (int i = 0; i < nworlds; i++) comm_world_destroy(worlds[i]);
    local_hub_destroy(((processes *)user)->hub);
}

/* The device's memory as the host of this test reaches it. */
static void *alloc(size_t nbytes) {
    far_block *b;
    must(far_block_create(nbytes + 64, &b));
    *(far_block **)(void *)b->back = b;
    return b->back + 64;
}

static void free_block(void *bytes) {
    far_block_destroy(*(far_block **)(void *)((char *)bytes - 64));
}

static void conform(const char *engine_name, int each, int most_ranks) {
    int passed, failed;
    processes p = {.each = each};
    comm_conformance(&(comm_factory){.name = engine_name,
                                     .open = open_processes,
                                     .close = close_processes,
                                     .user = &p,
                                     .most_ranks = most_ranks,
                                     .perform = far_engine_perform,
                                     .alloc = alloc,
                                     .free = free_block},
                     &passed, &failed);
    npassed += passed;
    nfailed += failed;
    check(passed > 10000, "%s: %d checks", engine_name, passed);
}

/* One thread enqueues for all members, one after another, and waits for none of them before it is done with all. */
static void test_one_thread_for_all(void) {
    enum { N = 3, COUNT = 5 };
    static const int64_t ranks[N] = {0, 1, 2};
    processes p = {.each = N};
    comm_world *world;
    int nworlds;
    must(open_processes(&p, N, &world, &nworlds));
    comm_ring *rings[N];
    far_stream *streams[N];
    far_block *blocks[N];
    for (int r = 0; r < N; r++) {
        must(comm_ring_get(world, 4, N, ranks, r, &rings[r]));
        must(far_stream_create(false, &streams[r]));
        must(far_block_create(2 * COUNT * sizeof(float), &blocks[r]));
        for (int i = 0; i < COUNT; i++) ((float *)(void *)blocks[r]->back)[i] = (float)(r + i);
    }
    float on_host[COUNT] = {0};
    for (int twice = 0; twice < 2; twice++)
        for (int r = 0; r < N; r++) {
            comm_request q = {.kind = COMM_ALL_REDUCE,
                              .dtype = WEFT_FP32,
                              .count = COUNT,
                              .src = blocks[r]->front,
                              .dst = twice ? (void *)blocks[r]->front : (float *)(void *)blocks[r]->front + COUNT,
                              .op = "sum"};
            must(comm_enqueue(rings[r], &q, streams[r]));
            memset(&q, 0x5a, sizeof q); /* it may go */
        }
    for (int r = 0; r < N; r++) {
        far_stream_drain(streams[r]);
        weft_status status = comm_error(rings[r]);
        check(!status, "rank %d: %s", r, weft_status_message(status));
        for (int i = 0; i < COUNT; i++)
            check(((float *)(void *)blocks[r]->back)[i] == (float)(3 + 3 * i) &&
                      ((float *)(void *)blocks[r]->back)[COUNT + i] == (float)(3 + 3 * i),
                  "rank %d, element %d", r, i);
    }
    comm_request of_host = {.kind = COMM_BROADCAST, .dtype = WEFT_FP32, .count = COUNT, .src = on_host, .dst = on_host};
    weft_status status = comm_enqueue(rings[0], &of_host, streams[0]);
    check(status != NULL, "a buffer of the host is the device's");
    weft_status_free(status);
    for (int r = 0; r < N; r++) {
        far_stream_destroy(streams[r]);
        far_block_destroy(blocks[r]);
    }
    close_processes(&p, &world, 1);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static comm_host host_of(int nranks) {
    return far_engine_host(comm_local_host(nranks));
}

static void run_programs(void) {
    int passed, failed;
    long before = far_device_counts().nenqueued;
    comm_programs(&device_far, NULL, host_of, true, &passed, &failed);
    npassed += passed;
    nfailed += failed;
    check(far_device_counts().nenqueued > before + 30, "nothing was enqueued");
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Two reduces, and labels of which one may be none of the classes: a kernel that fails. */
static const char source[] =
    "weft: 1\nrings: {0: [0, 1, 2]}\nblocks:\n- vars:\n    x: {float32: [4, 3]}\n    y: {float32: [4, 3]}\n"
    "    l: {int64: [4, 1]}\n    s: {float32: [4, 3]}\n    c: {float32: [4, 1]}\n  ops:\n"
    "  - {scale: {X: [x]}, out: {Out: [y]}, attrs: {scale: 2.0}}\n"
    "  - {c_allreduce_sum: {X: [y]}, out: {Out: [y]}, attrs: {ring_id: 0, use_calc_stream: true}}\n"
    "  - {softmax_with_cross_entropy: {Logits: [y], Label: [l]}, out: {Softmax: [s], Loss: [c]}}\n"
    "  - {c_allreduce_sum: {X: [c]}, out: {Out: [c]}, attrs: {ring_id: 0, use_calc_stream: true}}\n";

typedef struct trial {
    weft_context *context;
    weft_plan *plan;
    comm_host host;
    weft_executor *executor;
} trial;

static weft_status start(trial *t, const device_engine *engine, const weft_delay *late, double watchdog_seconds) {
    weft_program *program;
    *t = (trial){.host = host_of(3)};
    must(weft_context_create(NULL, &t->context));
    if (engine) must(device_register(t->context, engine));
    must(weft_program_parse(t->context, WEFT_FORM_YAML, source, strlen(source), NULL, 0, "p.yaml", &program));
    must(weft_plan_create(
        program, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .fetches = (const char *const[]){"c"}, .nfetches = 1},
        &t->plan));
    weft_program_destroy(program);
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT,
                                     .device = engine ? engine->name : NULL,
                                     .host = &t->host,
                                     .delays = late,
                                     .ndelays = late ? 1 : 0,
                                     .first_step_seconds = watchdog_seconds,
                                     .watchdog_seconds = watchdog_seconds};
    return weft_executor_create(t->context, (const weft_plan *const[]){t->plan}, 1, 3, &options, &t->executor);
}

static void stop(trial *t) {
    weft_executor_destroy(t->executor);
    weft_plan_destroy(t->plan);
    weft_context_destroy(t->context);
}

static void expect(weft_status status, const char *expected) {
    check(status && strstr(weft_status_message(status), expected), "expected \"%s\", found \"%s\"", expected,
          weft_status_message(status));
    weft_status_free(status);
}

static void test_device_without_its_streams(void) {
    trial t;
    expect(start(&t, NULL, NULL, 60),
           "rank 0, c_allreduce_sum #1: rings of engine far run on streams of device far only, and "
           "this is cpu");
    stop(&t);
}

static void test_kernel_fails(void) {
    trial t;
    int64_t labels[4] = {0, 1, 7, 2};
    must(start(&t, &device_far, NULL, 60));
    weft_tensor l = {.dtype = WEFT_INT64, .ndim = 2, .dims = {4, 1}, .nbytes = sizeof labels, .data = labels};
    must(weft_executor_run(t.executor));
    must(weft_executor_set(t.executor, 1, "l", &l));
    expect(weft_executor_run(t.executor), "rank 1, softmax_with_cross_entropy #2");
    stop(&t);
}

static void test_rank_is_late(void) {
    trial t;
    weft_delay late = {.rank = 2, .op_index = 0, .seconds = 30};
    must(start(&t, &device_far, &late, 0.3));
    int64_t start_ns = wait_clock_ns();
    expect(weft_executor_run(t.executor), " for rank 2 (at scale #0)");
    check(wait_clock_ns() - start_ns < 10000000000, "it took %.3g s", (double)(wait_clock_ns() - start_ns) * 1e-9);
    stop(&t);
}

/* An engine that does not end what is on a stream: the step ends all the same, and nothing is freed. */
static void test_ring_holds_its_buffers(void) {
    trial t;
    must(start(&t, &device_far, NULL, 0.3));
    far_engine_hold(true);
    expect(weft_executor_run(t.executor), "member 0 holds its buffers; the memory of the run is not freed");
    weft_executor_destroy(t.executor);
    check(t.executor->ranks[0].values[0].data != NULL, "it is there");
    far_engine_hold(false); /* now it ends: the test frees what nobody touches any more */
    while (!device_far.wait(t.executor->run, 1)) {
    }
    t.executor->is_stuck = false;
    stop(&t);
}

int main(void) {
    libc = base_libc_allocator();
    conform("far", 16, 8);
    conform("far, two ranks a process", 2, 4);
    test_one_thread_for_all();
    run_programs();
    test_device_without_its_streams();
    test_kernel_fails();
    test_rank_is_late();
    test_ring_holds_its_buffers();
    return report_checks();
}
