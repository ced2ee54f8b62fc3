/* cuda_loopback.c: ranks that share one GPU, joined by engine loopback, on stand-ins for the libraries of CUDA: the
 * conformance of all engines, programs with each kind of collective, and recorded programs that train with the bits
 * that they have over engine nccl. */
#include <dirent.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/comm_conformance.h"
#include "tests/support/cuda_standin.h"
#include "tests/support/cuda_training.h"
#include "tests/support/plain.h"

static const device_engine *engine;

/* --- one request, to its end -------------------------------------------------------------------------------------- */

enum { NON_BLOCKING = 1, MOST_STREAMS = 128 };
typedef void call_fn(void);

static call_fn *runtime(const char *function) {
    union {
        void *object;
        call_fn *call;
    } symbol = {dlsym(cuda_standin_library("libcudart.so.13"), function)};
    if (!symbol.object) abort();
    return symbol.call;
}

static void *streams[MOST_STREAMS];
static int nstreams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

static void *new_stream(void) {
    void *s = NULL;
    if (((int (*)(void **, unsigned, int))runtime("cudaStreamCreateWithPriority"))(&s, NON_BLOCKING, 0)) abort();
    pthread_mutex_lock(&streams_lock);
    if (nstreams == MOST_STREAMS) abort();
    streams[nstreams++] = s;
    pthread_mutex_unlock(&streams_lock);
    return s;
}

static void drain(void *stream) {
    if (((int (*)(void *))runtime("cudaStreamSynchronize"))(stream)) abort();
}

static weft_status perform(comm_ring *r, const comm_request *request) {
    static _Thread_local void *stream;
    if (!stream) stream = new_stream();
    weft_status status = comm_enqueue(r, request, stream);
    for (bool is_there = false; !status && !is_there;) {
        status = comm_settle(r, &is_there);
        if (!is_there) usleep(10);
    }
    drain(stream);
    pthread_mutex_lock(&streams_lock);
    for (int i = 0; status && i < nstreams; i++) drain(streams[i]); /* what others do to this member's buffers */
    pthread_mutex_unlock(&streams_lock);
    return status;
}

static weft_status open_world(void *user, int nranks, comm_world **out_worlds, int *out_nworlds) {
    static weft_allocator libc;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .rings = "loopback"};
    comm_host host = comm_local_host(nranks);
    libc = base_libc_allocator();
    device **d = user;
    if (!*d) TRY(engine->open(&libc, 1, d));
    TRY(engine->rings(*d, &host, &options));
    *out_nworlds = 1;
    return comm_world_create(&libc, &host, out_worlds);
}

static void close_world(void *user, comm_world **worlds, int nworlds) {
    (void)user;
    for (int i = 0; i < nworlds; i++) comm_world_destroy(worlds[i]);
    for (int i = 0; i < nstreams; i++) ((int (*)(void *))runtime("cudaStreamDestroy"))(streams[i]);
    nstreams = 0; /* their threads have ended */
}

static void test_conformance(void) {
    device *d = NULL;
    int passed, failed;
    comm_factory f = {.name = "loopback",
                      .open = open_world,
                      .close = close_world,
                      .user = &d,
                      .most_ranks = getenv("WEFT_SANITIZED") ? 4 : 8,
                      .perform = perform};
    comm_conformance(&f, &passed, &failed);
    npassed += passed;
    nfailed += failed;
    engine->close(d);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static void test_programs(void) {
    int passed, failed;
    comm_programs(engine, "loopback", NULL, true, &passed, &failed);
    npassed += passed;
    nfailed += failed;
}

/* --- training ----------------------------------------------------------------------------------------------------- */

static unsigned nschedules; /* of streams */
static int ntrained;

static void compare(const cuda_training *a, const cuda_training *b, double tolerance, const char *what) {
    check((a->status != NULL) == (b->status != NULL), "%s: \"%s\", \"%s\"", what, weft_status_message(a->status),
          weft_status_message(b->status));
    check(a->nlosses == b->nlosses, "%s: %zu losses, %zu", what, a->nlosses, b->nlosses);
    for (size_t i = 0; i < a->nlosses && i < b->nlosses; i++)
        check(fabs(a->losses[i] - b->losses[i]) <= tolerance * fabs(a->losses[i]), "%s: loss %zu is %.9g, not %.9g",
              what, i, b->losses[i], a->losses[i]);
    ntrained += a->nlosses > 0;
}

/* The CPU's losses, and the bits that ranks with a GPU each have. */
static void compare_program(const char *folder, const char *form, int nranks) {
    char what[2 * TRAINING_PATH];
    cuda_training cpu, apart;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .unsafe = true};
    cuda_training_open(&cpu, folder, form, nranks, &options);
    options.device = "cuda";
    if (cuda_standin_is_left_out()) options.rings = "loopback"; /* there may be one GPU: the same again, op by op */
    options.no_graph = cuda_standin_is_left_out();
    cuda_training_open(&apart, folder, form, nranks, &options);
    options.rings = "loopback";
    for (unsigned seed = 0; seed < nschedules; seed++) {
        cuda_training shared;
        options.no_graph = seed == 1;
        cuda_standin_seed(seed);
        cuda_training_open(&shared, folder, form, nranks, &options);
        snprintf(what, sizeof what, "%s %s, schedule %u", folder, form, seed);
        compare(&cpu, &shared, 1e-2, what); /* cuda_device.c holds programs to 1e-4: here bits tell more */
        compare(&apart, &shared, 0, what);
        if (!apart.status && !shared.status)
            check(cuda_training_same_result(&apart, &shared), "%s: values differ", what);
        cuda_training_close(&shared);
    }
    cuda_standin_seed(0);
    cuda_training_close(&cpu);
    cuda_training_close(&apart);
}

static void compare_folder(const char *folder, const char *const *forms, size_t nforms, bool first_alone) {
    char path[TRAINING_PATH + 40];
    for (size_t k = 0; k < nforms; k++) {
        int nranks = 0;
        for (; nranks < TRAINING_RANKS; nranks++) {
            snprintf(path, sizeof path, forms[k], folder, nranks);
            if (access(path, R_OK) != 0) break;
        }
        if (nranks > 1) compare_program(folder, forms[k], nranks);
        if (nranks > 1 && first_alone) return;
    }
}

static const char *const forms[] = {"%s/rank%d.after.default.pdmodel", "%s/rank%d.pdmodel", "%s/rank%d.final.pdmodel",
                                    "%s/rank%d.after.group4k.pdmodel"};

static void compare_era(const char *era) {
    char root[TRAINING_PATH], folder[2 * TRAINING_PATH];
    DIR *all = fixture_path(root, sizeof root, era) ? opendir(root) : NULL;
    for (struct dirent *e = all ? readdir(all) : NULL; e; e = readdir(all)) {
        snprintf(folder, sizeof folder, "%s/%s/params.npz", root, e->d_name);
        if (e->d_name[0] == '.' || access(folder, R_OK) != 0) continue;
        *strrchr(folder, '/') = '\0';
        if (strlen(folder) < TRAINING_PATH - 40) compare_folder(folder, forms, sizeof forms / sizeof *forms, false);
    }
    if (all) closedir(all);
}

static void test_training(void) {
    static const char *const few[] = {"paddle26/mlp_sgd_dp2", "paddle26/mlp_dp2_gradmerge", "paddle26/gpt_tiny_dp2_mp2",
                                      "paddle26/mlp_dp2_sp2_tworings", "paddle3/lenet_momentum_dp2"};
    const char *asked = getenv("WEFT_LONG_TESTS");
    bool is_slow = getenv("WEFT_SANITIZED") != NULL, is_on_gpu = cuda_standin_is_left_out();
    bool is_long = (asked && *asked && !is_slow) || is_on_gpu;
    char folder[TRAINING_PATH];
    nschedules = is_slow ? 2 : is_long && !is_on_gpu ? 10 : 3;
    for (size_t i = 0; !is_long && i < (is_slow ? 1 : sizeof few / sizeof *few); i++)
        if (fixture_path(folder, sizeof folder, few[i]))
            compare_folder(folder, forms, sizeof forms / sizeof *forms, true);
    if (is_long) {
        compare_era("paddle26");
        compare_era("paddle3");
    }
    check(ntrained > 1, "%d programs trained", ntrained);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

static void test_failures(void) {
    static const char *const calls[] = {"launch", "event",      "record", "wait",  "memcpy",      "capture",
                                        "graph",  "endcapture", "nodes",  "edges", "instantiate", "graphlaunch"};
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .device = "cuda", .rings = "loopback", .trace = true,
                                     .unsafe = true};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        char what[200];
        check(cuda_training_fails("paddle26/mlp_sgd_dp2", calls[k], &options, what, sizeof what), "%s", what);
    }
}

int main(void) {
    engine = cuda_standin_open();
    if (!engine) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    if (!cuda_standin_is_left_out()) {
        test_failures(); /* before there are threads here */
        test_conformance();
    }
    test_programs();
    test_training();
    return report_checks();
}
