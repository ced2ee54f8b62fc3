/* cudnn.c: the part of cuDNN that weft_cuda.so uses: convolutions by plain loops, on streams of the stand-in for the
 * CUDA runtime. What it must find in its arguments it checks: extents that fit, a workspace, an algorithm that it
 * proposed for that convolution.
 *
 * It proposes three: one whose sum has no order, one that rounds factors of fp32, and one that will do. Halves are
 * added up in fp32 and rounded once. */
#include <cudnn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "executor/devices/cuda/kernels/kernel.h"
#include "tests/standin/queue.h"

enum { WORKSPACE = 2048 };
static const int no_order = 0, good = 1, rounds = 2; /* algorithms that all three results have */

struct cudnnContext {
    cudaStream_t stream; /* NULL: it only answers questions, and may stay until the end */
    pthread_t owner;     /* who set the stream */
    struct cudnnContext *next;
};
static cudnnHandle_t handles; /* with the lock */
struct cudnnTensorStruct {
    int extent[4], type; /* element_type */
};
struct cudnnFilterStruct {
    int extent[4], type;
};
struct cudnnConvolutionStruct {
    int before[2], stride[2], dilation[2], groups;
    cudnnMathType_t math;
};

typedef struct convolution {
    struct cudnnTensorStruct x, y;
    struct cudnnFilterStruct filter;
    struct cudnnConvolutionStruct how;
    const void *given_first, *given_second; /* the arguments */
    void *given_out;
    float *first, *second, *out; /* the same in fp32, while it runs */
    void *workspace;
} convolution;

/* --- handles and descriptors -------------------------------------------------------------------------------------- */

SHOWN cudnnStatus_t cudnnCreate(cudnnHandle_t *out) {
    if (standin_fails("dnn")) return CUDNN_STATUS_INTERNAL_ERROR;
    cudnnHandle_t handle = calloc(1, sizeof *handle);
    standin_lock();
    handle->next = handles;
    handles = handle;
    standin_unlock();
    *out = handle;
    return CUDNN_STATUS_SUCCESS;
}

SHOWN cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    if (standin_loses("dnngone")) return CUDNN_STATUS_SUCCESS;
    if (handle->stream) standin_count(STANDIN_HANDLES, -1);
    standin_lock();
    cudnnHandle_t *at = &handles;
    while (*at != handle) at = &(*at)->next;
    *at = handle->next;
    standin_unlock();
    free(handle);
    return standin_fails("dnngone") ? CUDNN_STATUS_INTERNAL_ERROR : CUDNN_STATUS_SUCCESS;
}

static void *take_beside(void *handle) {
    ((cudnnHandle_t)handle)->owner = pthread_self();
    return NULL;
}

/* Another thread of the device has the handle from then on. */
static void bend_owner(cudnnHandle_t handle) {
    pthread_t thread;
    if (!pthread_create(&thread, NULL, take_beside, handle)) pthread_join(thread, NULL);
}

SHOWN cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    if (standin_fails("dnnstream")) return CUDNN_STATUS_INTERNAL_ERROR;
    if (handle->stream && standin_bends("dnnstream.beside")) bend_owner(handle);
    if (!handle->stream && stream) standin_count(STANDIN_HANDLES, 1);
    if (handle->stream && !pthread_equal(handle->owner, pthread_self()))
        standin_broken("two threads set the stream of a handle of cuDNN");
    handle->stream = stream;
    handle->owner = pthread_self();
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t create(void **out, size_t nbytes) {
    if (standin_fails("descriptor")) return CUDNN_STATUS_ALLOC_FAILED;
    *out = calloc(1, nbytes);
    standin_count(STANDIN_DESCRIPTORS, 1);
    return CUDNN_STATUS_SUCCESS;
}
static cudnnStatus_t destroy(void *descriptor) {
    if (standin_loses("descriptorgone")) return CUDNN_STATUS_SUCCESS;
    free(descriptor);
    standin_count(STANDIN_DESCRIPTORS, -1);
    return standin_fails("descriptorgone") ? CUDNN_STATUS_INTERNAL_ERROR : CUDNN_STATUS_SUCCESS;
}
SHOWN cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out) {
    return create((void **)out, sizeof **out);
}
SHOWN cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t of) {
    return destroy(of);
}
SHOWN cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *out) {
    return create((void **)out, sizeof **out);
}
SHOWN cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t of) {
    return destroy(of);
}
SHOWN cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *out) {
    return create((void **)out, sizeof **out);
}
SHOWN cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t of) {
    return destroy(of);
}

static cudnnStatus_t set_extents(int *extent, int *out_type, cudnnDataType_t type, cudnnTensorFormat_t format, int n,
                                 int c, int h, int w) {
    if (standin_fails("extents")) return CUDNN_STATUS_BAD_PARAM;
    *out_type = type == CUDNN_DATA_HALF ? ELEMENT_FP16 : type == CUDNN_DATA_BFLOAT16 ? ELEMENT_BF16 : ELEMENT_FP32;
    if (n < 1 || c < 1 || h < 1 || w < 1) return CUDNN_STATUS_BAD_PARAM;
    if (type != CUDNN_DATA_FLOAT && *out_type == ELEMENT_FP32) return CUDNN_STATUS_NOT_SUPPORTED;
    memcpy(extent, (int[]){n, c, h, w}, 4 * sizeof *extent);
    return format == CUDNN_TENSOR_NCHW ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}
SHOWN cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t of, cudnnTensorFormat_t format,
                                               cudnnDataType_t type, int n, int c, int h, int w) {
    return set_extents(of->extent, &of->type, type, format, n, c, h, w);
}
SHOWN cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t of, cudnnDataType_t type,
                                               cudnnTensorFormat_t format, int k, int c, int h, int w) {
    return set_extents(of->extent, &of->type, type, format, k, c, h, w);
}

SHOWN cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t of, int before_h, int before_w,
                                                    int stride_h, int stride_w, int dilation_h, int dilation_w,
                                                    cudnnConvolutionMode_t mode, cudnnDataType_t type) {
    if (standin_fails("convolutionset")) return CUDNN_STATUS_BAD_PARAM;
    if (before_h < 0 || before_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h < 1 || dilation_w < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *of = (struct cudnnConvolutionStruct){
        {before_h, before_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, 1, CUDNN_DEFAULT_MATH};
    return mode == CUDNN_CROSS_CORRELATION && type == CUDNN_DATA_FLOAT ? CUDNN_STATUS_SUCCESS
                                                                       : CUDNN_STATUS_NOT_SUPPORTED;
}
SHOWN cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t of, int groups) {
    of->groups = groups;
    if (standin_fails("groups")) return CUDNN_STATUS_BAD_PARAM;
    return groups > 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
SHOWN cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t of, cudnnMathType_t math) {
    of->math = math;
    return standin_fails("math") ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

/* --- algorithms --------------------------------------------------------------------------------------------------- */

static convolution convolution_of(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t filter,
                                  cudnnConvolutionDescriptor_t how, cudnnTensorDescriptor_t y) {
    return (convolution){.x = *x, .filter = *filter, .how = *how, .y = *y};
}

static bool fits(const convolution *c) {
    const int *x = c->x.extent, *y = c->y.extent, *filter = c->filter.extent;
    bool fit = c->x.type == c->y.type && c->x.type == c->filter.type && x[0] == y[0] &&
               x[1] == filter[1] * c->how.groups && y[1] == filter[0] && !(y[1] % c->how.groups);
    for (int d = 0; d < 2; d++) {
        int reach = (filter[2 + d] - 1) * c->how.dilation[d] + 1;
        fit = fit && (x[2 + d] + 2 * c->how.before[d] - reach) / c->how.stride[d] + 1 == y[2 + d];
    }
    return fit;
}

#define PROPOSE(kind, type)                                                                                            \
    static cudnnStatus_t propose_##kind(const convolution *c, int most, int *n, type *out) {                           \
        if (!fits(c) || most < 3) return CUDNN_STATUS_BAD_PARAM;                                                       \
        if (standin_fails("propose")) return CUDNN_STATUS_INTERNAL_ERROR;                                              \
        out[0] = (type){.algo = no_order, .determinism = CUDNN_NON_DETERMINISTIC, .mathType = CUDNN_FMA_MATH};         \
        out[1] = (type){.algo = rounds,                                                                                \
                        .memory = WORKSPACE,                                                                           \
                        .determinism = CUDNN_DETERMINISTIC,                                                            \
                        .mathType = CUDNN_TENSOR_OP_MATH};                                                             \
        out[2] =                                                                                                       \
            (type){.algo = good, .memory = WORKSPACE, .determinism = CUDNN_DETERMINISTIC, .mathType = CUDNN_FMA_MATH}; \
        *n = 3;                                                                                                        \
        return CUDNN_STATUS_SUCCESS;                                                                                   \
    }
PROPOSE(y, cudnnConvolutionFwdAlgoPerf_t)
PROPOSE(x, cudnnConvolutionBwdDataAlgoPerf_t)
PROPOSE(filter, cudnnConvolutionBwdFilterAlgoPerf_t)
#undef PROPOSE

SHOWN cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                           const cudnnFilterDescriptor_t filter,
                                                           const cudnnConvolutionDescriptor_t how,
                                                           const cudnnTensorDescriptor_t y, const int most, int *n,
                                                           cudnnConvolutionFwdAlgoPerf_t *out) {
    convolution c = convolution_of(x, filter, how, y);
    (void)handle;
    return propose_y(&c, most, n, out);
}
SHOWN cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle,
                                                                const cudnnFilterDescriptor_t filter,
                                                                const cudnnTensorDescriptor_t y,
                                                                const cudnnConvolutionDescriptor_t how,
                                                                const cudnnTensorDescriptor_t x, const int most, int *n,
                                                                cudnnConvolutionBwdDataAlgoPerf_t *out) {
    convolution c = convolution_of(x, filter, how, y);
    (void)handle;
    return propose_x(&c, most, n, out);
}
SHOWN cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                                  const cudnnTensorDescriptor_t y,
                                                                  const cudnnConvolutionDescriptor_t how,
                                                                  const cudnnFilterDescriptor_t filter, const int most,
                                                                  int *n, cudnnConvolutionBwdFilterAlgoPerf_t *out) {
    convolution c = convolution_of(x, filter, how, y);
    (void)handle;
    return propose_filter(&c, most, n, out);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static int64_t numel(const int *extent) {
    return (int64_t)extent[0] * extent[1] * extent[2] * extent[3];
}

/* One tap of one filter over an image's channel: rows x0 and y0 of each output row that it touches. */
typedef struct tap {
    int64_t x, y, filter; /* offsets of the first elements */
    int from, to, step;   /* output columns; columns of x between them */
} tap;

/* Calls `row` for each tap and each output row, in a fixed order. */
static void each_row(const convolution *c, void (*row)(const convolution *c, const tap *t)) {
    const int *x = c->x.extent, *y = c->y.extent, *f = c->filter.extent;
    int outs = y[1] / c->how.groups;
    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t o = 0; o < y[1]; o++)
            for (int64_t i = 0; i < f[1]; i++)
                for (int64_t tap_at = 0; tap_at < (int64_t)f[2] * f[3]; tap_at++)
                    for (int64_t r = 0; r < y[2]; r++) {
                        int64_t at = r * c->how.stride[0] - c->how.before[0] + tap_at / f[3] * c->how.dilation[0];
                        int shift = (int)(tap_at % f[3]) * c->how.dilation[1] - c->how.before[1];
                        int step = c->how.stride[1], from = shift < 0 ? (-shift + step - 1) / step : 0;
                        int to = x[3] > shift ? (x[3] - shift + step - 1) / step : 0;
                        if (at < 0 || at >= x[2]) continue;
                        row(c, &(tap){.x = ((n * x[1] + o / outs * f[1] + i) * x[2] + at) * x[3] + shift,
                                      .y = ((n * y[1] + o) * y[2] + r) * y[3],
                                      .filter = (o * f[1] + i) * f[2] * f[3] + tap_at,
                                      .from = from,
                                      .to = to < y[3] ? to : y[3],
                                      .step = step});
                    }
}

static void row_of_y(const convolution *c, const tap *t) {
    for (int j = t->from; j < t->to; j++) c->out[t->y + j] += c->second[t->filter] * c->first[t->x + j * t->step];
}
static void row_of_x(const convolution *c, const tap *t) {
    for (int j = t->from; j < t->to; j++) c->out[t->x + j * t->step] += c->first[t->filter] * c->second[t->y + j];
}
static void row_of_filter(const convolution *c, const tap *t) {
    float sum = 0;
    for (int j = t->from; j < t->to; j++) sum += c->first[t->x + j * t->step] * c->second[t->y + j];
    c->out[t->filter] += sum;
}

static float *take_reals(const void *from, int type, const int *extent) {
    int64_t n = numel(extent);
    float *reals = calloc((size_t)n, sizeof *reals);
    if (!reals) abort();
    for (int64_t i = 0; i < n && from; i++) reals[i] = real_at(from, type, i);
    return reals;
}

static void compute(const standin_item *item, const int *first, const int *second, const int *out,
                    void (*row)(const convolution *c, const tap *t)) {
    convolution c = *(const convolution *)(const void *)item->bytes;
    size_t size = c.x.type == ELEMENT_FP32 ? 4 : 2;
    standin_touch(item, c.workspace, WORKSPACE, true);
    standin_touch(item, c.given_first, (size_t)numel(first) * size, false);
    standin_touch(item, c.given_second, (size_t)numel(second) * size, false);
    standin_touch(item, c.given_out, (size_t)numel(out) * size, true);
    memset(c.workspace, 0x5a, WORKSPACE); /* it is the convolution's to write */
    c.first = take_reals(c.given_first, c.x.type, first);
    c.second = take_reals(c.given_second, c.x.type, second);
    c.out = take_reals(NULL, c.x.type, out);
    each_row(&c, row);
    for (int64_t i = 0; i < numel(out); i++) store_real(c.given_out, c.x.type, i, c.out[i]);
    free(c.first);
    free(c.second);
    free(c.out);
}
static void compute_y(standin_item *item) {
    const convolution *c = (const convolution *)(const void *)item->bytes;
    compute(item, c->x.extent, c->filter.extent, c->y.extent, row_of_y);
}
static void compute_x(standin_item *item) {
    const convolution *c = (const convolution *)(const void *)item->bytes;
    compute(item, c->filter.extent, c->y.extent, c->x.extent, row_of_x);
}
static void compute_filter(standin_item *item) {
    const convolution *c = (const convolution *)(const void *)item->bytes;
    compute(item, c->x.extent, c->y.extent, c->filter.extent, row_of_filter);
}

/* As a device might ask for it wrongly. */
static convolution bend(cudnnHandle_t handle, const convolution *given, int *algorithm) {
    convolution c = *given;
    if (standin_bends("convolution.any")) *algorithm = no_order;
    if (standin_bends("convolution.rounds")) c.how.math = CUDNN_TENSOR_OP_MATH;
    if (standin_bends("convolution.aside")) c.workspace = (char *)c.workspace + 64;
    if (standin_bends("convolution.beside")) bend_owner(handle);
    return c;
}

static cudnnStatus_t push(cudnnHandle_t handle, const char *what, const convolution *given, int algorithm,
                          size_t nbytes, const void *alpha, const void *beta, void (*run)(standin_item *item)) {
    const convolution bent = bend(handle, given, &algorithm), *c = &bent;
    standin_check_error(what);
    if (algorithm == no_order) standin_broken("a convolution whose sum has no order");
    bool is_half = c->x.type != ELEMENT_FP32;
    if (!is_half && (algorithm == rounds || c->how.math != CUDNN_FMA_MATH))
        standin_broken("a convolution that rounds its factors");
    if (!handle->stream || !pthread_equal(handle->owner, pthread_self()))
        standin_broken("a handle of cuDNN whose stream another thread set");
    if ((uintptr_t)c->workspace % 256) standin_broken("a convolution's workspace is not aligned to 256 bytes");
    if (!fits(c) || (algorithm != good && !(is_half && algorithm == rounds)) || nbytes < WORKSPACE || !c->workspace ||
        *(const float *)alpha != 1 || *(const float *)beta != 0)
        return CUDNN_STATUS_BAD_PARAM;
    if (standin_fails("convolution")) return CUDNN_STATUS_EXECUTION_FAILED;
    standin_item *item = standin_item_create(what, sizeof *c);
    memcpy(item->bytes, c, sizeof *c);
    item->run = run;
    item->cost_ns = 5000 + numel(c->y.extent);
    standin_push(handle->stream, item);
    return CUDNN_STATUS_SUCCESS;
}

/* Each names its arguments and their descriptors in an order of its own. */
#define CONVOLVE(computes)                                                                                             \
    convolution c = convolution_of(x, filter, how, y);                                                                 \
    c.given_first = first;                                                                                             \
    c.given_second = second;                                                                                           \
    c.given_out = to;                                                                                                  \
    c.workspace = workspace;                                                                                           \
    return push(handle, __func__, &c, (int)algorithm, nbytes, alpha, beta, computes)

SHOWN cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x,
                                            const void *first, const cudnnFilterDescriptor_t filter, const void *second,
                                            const cudnnConvolutionDescriptor_t how, cudnnConvolutionFwdAlgo_t algorithm,
                                            void *workspace, size_t nbytes, const void *beta,
                                            const cudnnTensorDescriptor_t y, void *to) {
    CONVOLVE(compute_y);
}
SHOWN cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                                 const cudnnFilterDescriptor_t filter, const void *first,
                                                 const cudnnTensorDescriptor_t y, const void *second,
                                                 const cudnnConvolutionDescriptor_t how,
                                                 cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace,
                                                 size_t nbytes, const void *beta, const cudnnTensorDescriptor_t x,
                                                 void *to) {
    CONVOLVE(compute_x);
}
SHOWN cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha,
                                                   const cudnnTensorDescriptor_t x, const void *first,
                                                   const cudnnTensorDescriptor_t y, const void *second,
                                                   const cudnnConvolutionDescriptor_t how,
                                                   cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace,
                                                   size_t nbytes, const void *beta,
                                                   const cudnnFilterDescriptor_t filter, void *to) {
    CONVOLVE(compute_filter);
}
