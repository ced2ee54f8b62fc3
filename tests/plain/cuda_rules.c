/* cuda_rules.c: what the stand-ins for the libraries of CUDA do not let pass: each broken rule ends a process with its
 * words. No header of CUDA is needed: where there is no toolkit this is skipped. */
#include <dlfcn.h>
#include <limits.h>
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

static void *runtime, *collectives, *products;

/* --- calls by name ------------------------------------------------------------------------------------------------ */

static void *open_standin(const char *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", getenv("WEFT_CUDA_PATH"), file);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

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

static const struct {
    void (*breaks)(void);
    const char *words;
} rules[] = {
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
};

static void try_rule(size_t i) {
    int ends[2];
    if (pipe(ends)) abort();
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        rules[i].breaks();
        _exit(0);
    }
    close(ends[1]);
    char said[2000];
    size_t n = 0;
    for (ssize_t k = 1; k > 0 && n<sizeof said - 1; n += k> 0 ? (size_t)k : 0)
        k = read(ends[0], said + n, sizeof said - 1 - n);
    said[n] = '\0';
    close(ends[0]);
    int how = 0;
    waitpid(child, &how, 0);
    check(strstr(said, rules[i].words) != NULL, "rule \"%s\": %s", rules[i].words, said);
    check(WIFSIGNALED(how), "rule \"%s\" did not end the process", rules[i].words);
}

int main(void) {
    if (!cuda_standin_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    runtime = open_standin("libcudart.so.13");
    collectives = open_standin("libnccl.so.2");
    products = open_standin("libcublasLt.so.13");
    check(runtime && collectives && products, "the stand-ins open");
    for (size_t i = 0; i < sizeof rules / sizeof *rules && runtime && collectives && products; i++) try_rule(i);
    return report_checks();
}
