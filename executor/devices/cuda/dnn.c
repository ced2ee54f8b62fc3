/* dnn.c: a handle of cuDNN has one stream, and its calls are one thread's at a time. So each rank launches by its own.
 * A GPU has one more to ask for algorithms, for which ranks take turns.
 *
 * Algorithms are those that cuDNN proposes for a shape, without trying them out: the first that adds up in a fixed
 * order and needs not too much memory. Factors of fp32 are not rounded (TF32); halves are what tensor cores take as
 * they are. */
#include "executor/devices/cuda/dnn.h"

#include <pthread.h>
#include <stdio.h>

#include "executor/devices/cuda/attrs.h"

enum { MOST_GPUS = 64, MOST_ALGORITHMS = 16 };
static const size_t most_workspace_nbytes = (size_t)256 << 20;

typedef struct dnn_library {
#define CALL(name) __typeof__(&cudnn##name) name;
#include "executor/devices/cuda/dnn.def"
#undef CALL
} dnn_library;

static dnn_library dnn;
static char why_not[700];
static bool is_open;
static cudnnHandle_t handles[MOST_GPUS]; /* until the process ends */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void open_library(void) {
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};
    void *library = library_open(names, why_not, sizeof why_not);
    if (!library) return;
    is_open = true;
#define CALL(name)                                                                                                     \
    dnn.name = (__typeof__(&cudnn##name))library_symbol(library, "cudnn" #name);                                       \
    if (!dnn.name && is_open) {                                                                                        \
        is_open = false;                                                                                               \
        snprintf(why_not, sizeof why_not, "cuDNN lacks cudnn%s", #name);                                               \
    }
#include "executor/devices/cuda/dnn.def"
#undef CALL
}

static weft_status check(cudnnStatus_t status, const char *call) {
    if (status == CUDNN_STATUS_SUCCESS) return NULL;
    /* Statuses of 9 have sub-codes: what is not supported begins with 3000. */
    bool is_unsupported = status == CUDNN_STATUS_NOT_SUPPORTED || (int)status / 1000 == 3 || (int)status == 9;
    return weft_status_create(is_unsupported ? WEFT_UNSUPPORTED : WEFT_RUNTIME, NULL, "%s: cuDNN status %d", call,
                              (int)status);
}
#define DNN_TRY(call, ...) TRY(check(dnn.call(__VA_ARGS__), "cudnn" #call))

/* That of the GPU that is current; with handles_lock. */
static weft_status find_handle(cudnnHandle_t *out) {
    int gpu = 0;
    CUDA_TRY(GetDevice, &gpu);
    if (gpu >= MOST_GPUS) return cuda_refuse("GPU %d", gpu);
    if (!handles[gpu]) DNN_TRY(Create, &handles[gpu]);
    *out = handles[gpu];
    return NULL;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static cudnnDataType_t type_of(weft_dtype dtype) {
    return dtype == WEFT_FP16 ? CUDNN_DATA_HALF : dtype == WEFT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static weft_status describe(cudnnTensorDescriptor_t *out, const int *extents, weft_dtype dtype) {
    DNN_TRY(CreateTensorDescriptor, out);
    DNN_TRY(SetTensor4dDescriptor, *out, CUDNN_TENSOR_NCHW, type_of(dtype), extents[0], extents[1], extents[2],
            extents[3]);
    return NULL;
}

weft_status dnn_prepare(dnn_conv *c, const dnn_shape *s) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    *c = (dnn_conv){.is_half = s->dtype != WEFT_FP32};
    pthread_once(&once, open_library);
    if (!is_open) return cuda_refuse("%.190s", why_not);
    TRY(describe(&c->x, s->x, s->dtype));
    TRY(describe(&c->y, s->y, s->dtype));
    DNN_TRY(CreateFilterDescriptor, &c->filter);
    DNN_TRY(SetFilter4dDescriptor, c->filter, type_of(s->dtype), CUDNN_TENSOR_NCHW, s->filter[0], s->filter[1],
            s->filter[2], s->filter[3]);
    DNN_TRY(CreateConvolutionDescriptor, &c->how);
    DNN_TRY(SetConvolution2dDescriptor, c->how, s->before[0], s->before[1], s->stride[0], s->stride[1], s->dilation[0],
            s->dilation[1], CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    DNN_TRY(SetConvolutionGroupCount, c->how, s->groups);
    DNN_TRY(SetConvolutionMathType, c->how, c->is_half ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH);
    return NULL;
}

/* What cuDNN says of an algorithm, whichever result it is for. */
typedef struct proposal {
    int algorithm, status;
    size_t nbytes;
    cudnnDeterminism_t order;
    cudnnMathType_t math;
} proposal;

#define TAKE(results)                                                                                                  \
    for (int i = 0; i < n; i++)                                                                                        \
        out[i] = (proposal){(int)results[i].algo, (int)results[i].status, results[i].memory, results[i].determinism,   \
                            results[i].mathType};

static weft_status propose(cudnnHandle_t handle, const dnn_conv *c, dnn_result result, proposal *out, int *out_n) {
    cudnnConvolutionFwdAlgoPerf_t of_y[MOST_ALGORITHMS];
    cudnnConvolutionBwdDataAlgoPerf_t of_x[MOST_ALGORITHMS];
    cudnnConvolutionBwdFilterAlgoPerf_t of_filter[MOST_ALGORITHMS];
    int n = 0, most = MOST_ALGORITHMS;
    switch (result) {
    case DNN_Y:
        DNN_TRY(GetConvolutionForwardAlgorithm_v7, handle, c->x, c->filter, c->how, c->y, most, &n, of_y);
        TAKE(of_y)
        break;
    case DNN_X:
        DNN_TRY(GetConvolutionBackwardDataAlgorithm_v7, handle, c->filter, c->y, c->how, c->x, most, &n, of_x);
        TAKE(of_x)
        break;
    default:
        DNN_TRY(GetConvolutionBackwardFilterAlgorithm_v7, handle, c->x, c->y, c->how, c->filter, most, &n, of_filter);
        TAKE(of_filter)
    }
    *out_n = n;
    return NULL;
}
#undef TAKE

static bool will_do(const proposal *p, bool is_half) {
    bool rounds = !is_half && (p->math == CUDNN_TENSOR_OP_MATH || p->math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
    return !p->status && p->order == CUDNN_DETERMINISTIC && !rounds && p->nbytes <= most_workspace_nbytes;
}

static weft_status choose(cudnnHandle_t handle, dnn_conv *c, dnn_result result) {
    proposal proposals[MOST_ALGORITHMS];
    int n;
    TRY(propose(handle, c, result, proposals, &n));
    for (const proposal *p = proposals; p < proposals + n; p++) {
        if (!will_do(p, c->is_half)) continue;
        c->algorithms[result] = p->algorithm;
        c->workspace_nbytes[result] = p->nbytes;
        return NULL;
    }
    return cuda_refuse("no algorithm of cuDNN");
}

weft_status dnn_choose(dnn_conv *c, dnn_result result) {
    cudnnHandle_t handle = NULL;
    pthread_mutex_lock(&handles_lock);
    weft_status status = find_handle(&handle);
    if (!status) status = choose(handle, c, result);
    pthread_mutex_unlock(&handles_lock);
    return status;
}

weft_status dnn_open(void **out_handle) {
    cudnnHandle_t handle;
    DNN_TRY(Create, &handle);
    *out_handle = handle;
    return NULL;
}

void dnn_close(void *handle) {
    dnn.Destroy(handle);
}

void dnn_discard(dnn_conv *c) {
    if (c->x) dnn.DestroyTensorDescriptor(c->x);
    if (c->y) dnn.DestroyTensorDescriptor(c->y);
    if (c->filter) dnn.DestroyFilterDescriptor(c->filter);
    if (c->how) dnn.DestroyConvolutionDescriptor(c->how);
    *c = (dnn_conv){.x = NULL};
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

weft_status dnn_launch(const cuda_launch *l, const dnn_conv *c, dnn_result result, const void *first,
                       const void *second, void *out) {
    static const float one = 1, zero = 0;
    cudnnHandle_t handle = l->handle;
    size_t nbytes = c->workspace_nbytes[result];
    void *workspace = nbytes ? l->call->workspace : NULL;
    int algorithm = c->algorithms[result];
    DNN_TRY(SetStream, handle, l->stream);
    switch (result) {
    case DNN_Y:
        DNN_TRY(ConvolutionForward, handle, &one, c->x, first, c->filter, second, c->how,
                (cudnnConvolutionFwdAlgo_t)algorithm, workspace, nbytes, &zero, c->y, out);
        return NULL;
    case DNN_X:
        DNN_TRY(ConvolutionBackwardData, handle, &one, c->filter, first, c->y, second, c->how,
                (cudnnConvolutionBwdDataAlgo_t)algorithm, workspace, nbytes, &zero, c->x, out);
        return NULL;
    default:
        DNN_TRY(ConvolutionBackwardFilter, handle, &one, c->x, first, c->y, second, c->how,
                (cudnnConvolutionBwdFilterAlgo_t)algorithm, workspace, nbytes, &zero, c->filter, out);
        return NULL;
    }
}
