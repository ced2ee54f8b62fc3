/* cuda_failures.c: each function that device and engine call fails once: the run says so, or ends as ever where the
 * call only let go of something. Nothing is left either way, and nothing hangs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/cuda_standin.h"
#include "tests/support/cuda_training.h"
#include "tests/support/plain.h"

/* --- what is called ----------------------------------------------------------------------------------------------- */

static const char *const functions[] = {
#define CALL(name) "cuda" #name,
#include "executor/devices/cuda/runtime.def"
#undef CALL
#define CALL(name) "cublasLt" #name,
#include "executor/devices/cuda/blas.def"
#undef CALL
#define CALL(name) "cudnn" #name,
#include "executor/devices/cuda/dnn.def"
#undef CALL
#define CALL(name) "nccl" #name,
#define OPTIONAL(name, type) "nccl" #name,
#include "executor/comm/nccl/nccl.def"
#undef OPTIONAL
#undef CALL
};

typedef enum kind {
    WORK,     /* its failure is told */
    ANSWER,   /* told, or done without */
    END,      /* it lets go of something: what failed is of before */
    ALIKE,    /* called as ncclAllReduce is, by scatters of uneven parts */
    ELSEWHERE /* tests/cli/cuda.sh has a program that calls it, and one that asks for no device */
} kind;

/* Of functions that begin so; the first row counts. */
typedef struct failure {
    const char *functions, *call; /* NULL: it cannot fail, or nothing calls it yet */
    kind kind;
    const char *before; /* what has to fail for it to be called */
    bool has_no_windows;
} failure;

static const failure failures[] = {
    {"cudaGetErrorString", NULL, WORK, NULL, false},
    {"cudaGetLastError", NULL, WORK, NULL, false},
    {"cudaRuntimeGetVersion", "version", ELSEWHERE, NULL, false},
    {"cudaDriverGetVersion", "driverversion", ELSEWHERE, NULL, false},
    {"cudaGetDeviceCount", "devicecount", WORK, NULL, false},
    {"cudaDeviceGetAttribute", "deviceattr", ELSEWHERE, NULL, false},
    {"cudaSetDevice", "setdevice", WORK, NULL, false},
    {"cudaGetDevice", "getdevice", ANSWER, NULL, false},
    {"cudaDeviceGetStreamPriorityRange", "priorities", WORK, NULL, false},
    {"cudaMalloc", "malloc", WORK, NULL, false},
    {"cudaFree", "free", END, NULL, false},
    {"cudaMemcpyAsync", "memcpy", WORK, NULL, false},
    {"cudaMemsetAsync", "memset", WORK, NULL, false},
    {"cudaStreamCreateWithPriority", "stream", WORK, NULL, false},
    {"cudaStreamDestroy", "streamdestroy", END, NULL, false},
    {"cudaStreamSynchronize", "synchronize", WORK, NULL, false},
    {"cudaStreamWaitEvent", "wait", WORK, NULL, false},
    {"cudaEventCreateWithFlags", "event", WORK, NULL, false},
    {"cudaEventDestroy", "eventdestroy", END, NULL, false},
    {"cudaEventRecordWithFlags", "recordagain", WORK, NULL, false},
    {"cudaEventRecord", "record", WORK, NULL, false},
    {"cudaEventQuery", "eventquery", WORK, NULL, false},
    {"cudaEventElapsedTime", "elapsed", ANSWER, NULL, false},
    {"cudaLaunchKernel", "launch", WORK, NULL, false},
    {"cudaLaunchHostFunc", "hostfunc", WORK, NULL, false},
    {"cudaStreamBeginCaptureToGraph", "capture", WORK, NULL, false},
    {"cudaStreamEndCapture", "endcapture", WORK, NULL, false},
    {"cudaGraphCreate", "graph", WORK, NULL, false},
    {"cudaGraphDestroy", "graphdestroy", END, NULL, false},
    {"cudaGraphGetNodes", "nodes", WORK, NULL, false},
    {"cudaGraphGetEdges", "edges", WORK, NULL, false},
    {"cudaGraphNodeGetType", "nodetype", WORK, NULL, false},
    {"cudaGraphInstantiateWithFlags", "instantiate", WORK, NULL, false},
    {"cudaGraphExecDestroy", "execdestroy", END, NULL, false},
    {"cudaGraphLaunch", "graphlaunch", WORK, NULL, false},
    {"cudaLibraryLoadData", "load", WORK, NULL, false},
    {"cudaLibraryUnload", "unload", END, NULL, false},
    {"cudaLibraryGetKernel", "kernel", WORK, NULL, false},
    {"cudaFuncGetAttributes", "attributes", WORK, NULL, false},
    {"cublasLtCreate", "blas", WORK, NULL, false},
    {"cublasLtMatmulDescInit", "blasdescriptor", ANSWER, NULL, false},
    {"cublasLtMatmulDescSetAttribute", "blasattr", ANSWER, NULL, false},
    {"cublasLtMatrixLayoutInit", "layout", ANSWER, NULL, false},
    {"cublasLtMatrixLayoutSetAttribute", "layoutattr", ANSWER, NULL, false},
    {"cublasLtMatmulPreferenceInit", "preference", ANSWER, NULL, false},
    {"cublasLtMatmulPreferenceSetAttribute", "preferenceattr", ANSWER, NULL, false},
    {"cublasLtMatmulAlgoGetHeuristic", "heuristic", ANSWER, NULL, false},
    {"cublasLtMatmul", "product", WORK, NULL, false},
    {"cudnnCreateTensor", "descriptor", WORK, NULL, false},
    {"cudnnCreateFilter", "descriptor", WORK, NULL, false},
    {"cudnnCreateConvolution", "descriptor", WORK, NULL, false},
    {"cudnnCreate", "dnn", WORK, NULL, false},
    {"cudnnDestroyTensor", "descriptorgone", END, NULL, false},
    {"cudnnDestroyFilter", "descriptorgone", END, NULL, false},
    {"cudnnDestroyConvolution", "descriptorgone", END, NULL, false},
    {"cudnnDestroy", "dnngone", END, NULL, false},
    {"cudnnSetStream", "dnnstream", WORK, NULL, false},
    {"cudnnSetTensor4d", "extents", WORK, NULL, false},
    {"cudnnSetFilter4d", "extents", WORK, NULL, false},
    {"cudnnSetConvolution2d", "convolutionset", WORK, NULL, false},
    {"cudnnSetConvolutionGroupCount", "groups", WORK, NULL, false},
    {"cudnnSetConvolutionMathType", "math", WORK, NULL, false},
    {"cudnnGetConvolution", "propose", WORK, NULL, false},
    {"cudnnConvolution", "convolution", WORK, NULL, false},
    {"ncclGetErrorString", NULL, WORK, NULL, false},
    {"ncclGetLastError", NULL, WORK, NULL, false},
    {"ncclGetVersion", "ncclversion", ELSEWHERE, NULL, false},
    {"ncclGetUniqueId", "uniqueid", WORK, NULL, false},
    {"ncclCommInitRankConfig", "init", WORK, NULL, false},
    {"ncclCommSplit", "split", WORK, NULL, false},
    {"ncclCommDestroy", "destroy", END, NULL, false},
    {"ncclCommAbort", "abort", END, "allreduce:3,", false},
    {"ncclCommGetAsyncError", "asyncerror", WORK, NULL, false},
    {"ncclCommRegister", "register", WORK, NULL, true},
    {"ncclCommDeregister", "deregister", END, NULL, true},
    {"ncclCommWindowRegister", "window", WORK, NULL, false},
    {"ncclCommWindowDeregister", "windowgone", END, NULL, false},
    {"ncclMemAlloc", "memalloc", ANSWER, NULL, false},
    {"ncclMemFree", "memfree", END, NULL, false},
    {"ncclGroupStart", "groupstart", WORK, NULL, false},
    {"ncclGroupEnd", "groupend", WORK, NULL, false},
    {"ncclAllReduce", "ncclAllReduce", WORK, NULL, false},
    {"ncclReduceScatter", "ncclReduceScatter", ELSEWHERE, NULL, false},
    {"ncclReduce", "ncclReduce", ALIKE, NULL, false},
    {"ncclBroadcast", "ncclBroadcast", ELSEWHERE, NULL, false},
    {"ncclAllGather", "ncclAllGather", ELSEWHERE, NULL, false},
    {"ncclSend", "ncclSend or ncclRecv", ELSEWHERE, NULL, false},
    {"ncclRecv", "ncclSend or ncclRecv", ELSEWHERE, NULL, false},
};
enum { NFAILURES = sizeof failures / sizeof *failures };

static size_t row_of(const char *function) {
    size_t i = 0;
    while (i < NFAILURES && strncmp(function, failures[i].functions, strlen(failures[i].functions)) != 0) i++;
    return i;
}

/* --- failing ------------------------------------------------------------------------------------------------------ */

enum { SAID_SO = 3, NO_FIXTURE = 4 };

typedef struct attempt {
    const failure *of;
    const char *program;
    int n;
} attempt;

static void train_failing(void *arg) {
    const attempt *a = arg;
    char faults[100], folder[TRAINING_PATH];
    cuda_training s;
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .device = "cuda", .trace = true, .unsafe = true};
    snprintf(faults, sizeof faults, "%s%s:%d", a->of->before ? a->of->before : "", a->of->call, a->n);
    setenv("WEFT_STANDIN_FAIL", faults, 1);
    setenv("WEFT_STANDIN_TELL", "1", 1);
    if (a->of->has_no_windows) setenv("WEFT_STANDIN_NO_WINDOWS", "1", 1);
    if (!fixture_path(folder, sizeof folder, a->program)) exit(NO_FIXTURE);
    cuda_training_open(&s, folder, "%s/rank%d.after.default.pdmodel", 2, &options);
    int result = s.status ? SAID_SO : 0;
    cuda_training_close(&s);
    exit(result);
}

/* The n-th call for more and more n, until there are no more. Sanitizers take a second for each. */
static void try_failure(const failure *f, const char *program) {
    bool is_slow = getenv("WEFT_SANITIZED") != NULL;
    int nmade = 0, ntold = 0;
    char said[20000], words[100];
    snprintf(words, sizeof words, "stand-in: %s fails", f->call);
    for (int n = 1; n < 4000; n = is_slow ? 8 * n : n + n / 2 + 1) {
        attempt a = {f, program, n};
        int how = cuda_standin_listen(train_failing, &a, said, sizeof said);
        int ended = WIFEXITED(how) ? WEXITSTATUS(how) : 100;
        if (ended == NO_FIXTURE) return;
        check(ended == 0 || ended == SAID_SO, "%s:%d ends with %x: %.500s", f->call, n, (unsigned)how, said);
        if (!strstr(said, words)) break;
        nmade++;
        ntold += ended == SAID_SO;
    }
    check(nmade > 0, "%s: no call failed", f->call);
    check(f->kind != WORK || ntold > 0, "%s: %d calls failed, and none was told", f->call, nmade);
}

int main(void) {
    if (cuda_standin_is_left_out() || !cuda_standin_prepare()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    bool is_used[NFAILURES] = {false}, has_dnn = cuda_standin_library("libcudnn.so.9") != NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        size_t row = row_of(functions[i]);
        check(row < NFAILURES, "no row says how %s fails", functions[i]);
        if (row < NFAILURES) is_used[row] = true;
    }
    for (size_t i = 0; i < NFAILURES; i++) {
        const failure *f = &failures[i];
        bool is_of_dnn = strncmp(f->functions, "cudnn", 5) == 0;
        check(is_used[i], "nothing that is called begins with %s", f->functions);
        if (!f->call || f->kind >= ALIKE || (is_of_dnn && !has_dnn)) continue;
        try_failure(f, is_of_dnn ? "paddle3/lenet_momentum_dp2" : "paddle26/mlp_sgd_dp2");
    }
    return report_checks();
}
