/* runtime.c: the part of the CUDA runtime that weft_cuda.so uses, on the host: devices, memory, streams, kernels. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/graphs.h"
#include "tests/standin/kernels.h"

/* --- devices ------------------------------------------------------------------------------------------------------ */

/* A number that the environment gives. */
static int given(const char *name, int fallback) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : fallback;
}

SHOWN const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorNotReady: return "device not ready";
    default: return "a failure of the stand-in";
    }
}

/* Of each thread the last one stays until somebody asks for it. What ends something says of errors before it, which are
 * told again and again whatever is asked: those are not kept here. */
static _Thread_local cudaError_t last_error;

cudaError_t standin_error(cudaError_t error) {
    last_error = error;
    return error;
}

SHOWN cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    if (!standin_loses("lasterror")) last_error = cudaSuccess;
    return error;
}

void standin_check_error(const char *call) {
    if (last_error) standin_broken("%s finds the error of a call before: %s", call, cudaGetErrorString(last_error));
}

__attribute__((destructor)) static void check_end(void) {
    standin_check_error("the end of the program");
}

SHOWN cudaError_t cudaRuntimeGetVersion(int *version) {
    if (standin_fails("version")) return standin_error(cudaErrorUnknown);
    *version = 13000;
    return cudaSuccess;
}

SHOWN cudaError_t cudaDriverGetVersion(int *version) {
    if (standin_fails("driverversion")) return standin_error(cudaErrorUnknown);
    *version = 13000;
    return cudaSuccess;
}

/* WEFT_STANDIN_PROBE: the result of counting devices; WEFT_STANDIN_GPUS: how many there are. */
SHOWN cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t result = (cudaError_t)given("WEFT_STANDIN_PROBE", cudaSuccess);
    if (standin_fails("devicecount")) return standin_error(cudaErrorUnknown);
    if (result != cudaSuccess) return standin_error(result);
    *count = given("WEFT_STANDIN_GPUS", 8);
    return cudaSuccess;
}

SHOWN cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int gpu) {
    (void)gpu;
    if (standin_fails("deviceattr")) return standin_error(cudaErrorInvalidDevice);
    *value = attr == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
    return cudaSuccess;
}

static _Thread_local int current;

SHOWN cudaError_t cudaSetDevice(int gpu) {
    if (standin_fails("setdevice")) return standin_error(cudaErrorInvalidDevice);
    current = standin_bends("setdevice.next") ? gpu + 1 : standin_bends("setdevice.first") ? 0 : gpu;
    bool is_there = gpu >= 0 && gpu < given("WEFT_STANDIN_GPUS", 8);
    return is_there ? cudaSuccess : standin_error(cudaErrorInvalidDevice);
}

void standin_use_gpu(void) {
    static _Atomic int first = -1;
    int found = -1;
    if (!getenv("WEFT_STANDIN_ONE_GPU") || atomic_compare_exchange_strong(&first, &found, current)) return;
    if (found != current) standin_broken("memory, a stream or a kernel on GPU %d beside GPU %d", current, found);
}

SHOWN cudaError_t cudaGetDevice(int *gpu) {
    if (standin_fails("getdevice")) return standin_error(cudaErrorUnknown);
    *gpu = current;
    return cudaSuccess;
}

SHOWN cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (standin_fails("priorities")) return standin_error(cudaErrorUnknown);
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static cudaError_t take_block(void **out, size_t nbytes) {
    standin_lock();
    standin_check_capture("cudaMalloc");
    standin_unlock();
    standin_use_gpu();
    if (posix_memalign(out, 256, nbytes ? nbytes : 1)) return standin_error(cudaErrorMemoryAllocation);
    memset(*out, 0xa5, nbytes); /* what nobody has written means nothing */
    standin_lock();
    standin_block_add(*out, standin_bends("malloc.less") ? nbytes / 2 : nbytes);
    if (standin_bends("malloc.gone")) standin_block_end(*out, false);
    standin_unlock();
    standin_count(STANDIN_BLOCKS, 1);
    return cudaSuccess;
}

static cudaError_t take(void **out, size_t nbytes) {
    return standin_fails("malloc") ? standin_error(cudaErrorMemoryAllocation) : take_block(out, nbytes);
}

static cudaError_t give_block(void *block, bool by_nccl) {
    if (!block) return cudaSuccess;
    standin_count(STANDIN_BLOCKS, -1);
    standin_lock();
    standin_check_capture("cudaFree");
    standin_block_end(block, by_nccl);
    standin_unlock();
    return cudaSuccess;
}

static cudaError_t give(void *block) {
    if (standin_loses("free")) return cudaSuccess;
    if (standin_bends("free.again")) give_block(block, false);
    give_block(block, standin_bends("free.other"));
    return standin_fails("free") ? cudaErrorLaunchFailure : cudaSuccess; /* of what went before */
}

void *standin_take(size_t nbytes, bool is_of_nccl) {
    void *block = NULL;
    if (take_block(&block, nbytes)) abort();
    standin_lock();
    if (is_of_nccl) standin_block_is_of_nccl(block);
    standin_unlock();
    return block;
}

void standin_give(void *block) {
    give_block(block, true);
}

SHOWN cudaError_t cudaMalloc(void **out, size_t nbytes) {
    return take(out, nbytes);
}
SHOWN cudaError_t cudaFree(void *block) {
    return give(block);
}
SHOWN cudaError_t cudaMallocHost(void **out, size_t nbytes) {
    return take(out, nbytes);
}
SHOWN cudaError_t cudaFreeHost(void *block) {
    return give(block);
}

/* --- work on streams ---------------------------------------------------------------------------------------------- */

typedef struct copy_item {
    void *to;
    const void *from;
    size_t nbytes;
    int value; /* without a source */
} copy_item;

static void run_copy(standin_item *item) {
    const copy_item *c = (const copy_item *)(const void *)item->bytes;
    if (c->from) standin_touch(item, c->from, c->nbytes, false);
    standin_touch(item, c->to, c->nbytes, true);
    if (c->from)
        memmove(c->to, c->from, c->nbytes);
    else
        memset(c->to, c->value, c->nbytes);
}

static cudaError_t push_copy(cudaStream_t stream, copy_item c) {
    standin_item *item = standin_item_create(c.from ? "cudaMemcpyAsync" : "cudaMemsetAsync", sizeof c);
    memcpy(item->bytes, &c, sizeof c);
    item->type = c.from ? cudaGraphNodeTypeMemcpy : cudaGraphNodeTypeMemset;
    item->run = run_copy;
    standin_push(stream, item);
    return cudaSuccess;
}

SHOWN cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t nbytes, enum cudaMemcpyKind kind,
                                  cudaStream_t stream) {
    (void)kind;
    if (standin_fails("memcpy")) return standin_error(cudaErrorInvalidValue);
    if (standin_bends("memcpy.legacy")) stream = NULL;
    return push_copy(stream, (copy_item){to, from, nbytes, 0});
}

SHOWN cudaError_t cudaMemsetAsync(void *to, int value, size_t nbytes, cudaStream_t stream) {
    if (standin_fails("memset")) return standin_error(cudaErrorInvalidValue);
    cudaError_t result = push_copy(stream, (copy_item){to, NULL, nbytes, value});
    if (!standin_bends("memset.frees")) return result;
    standin_run(4); /* it may have run, which the host has not asked */
    return give_block(to, false);
}

typedef struct host_item {
    cudaHostFn_t call;
    void *arg;
} host_item;

static void run_host(standin_item *item) {
    const host_item *h = (const host_item *)(const void *)item->bytes;
    h->call(h->arg);
}

SHOWN cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *arg) {
    if (standin_fails("hostfunc")) return standin_error(cudaErrorInvalidValue);
    standin_item *item = standin_item_create("a function of the host", sizeof(host_item));
    memcpy(item->bytes, &(host_item){call, arg}, sizeof(host_item));
    item->type = cudaGraphNodeTypeHost;
    item->run = run_host;
    standin_push(stream, item);
    return cudaSuccess;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

SHOWN cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, enum cudaJitOption *jit, void **jit_values,
                                      unsigned njit, enum cudaLibraryOption *options, void **values,
                                      unsigned noptions) {
    (void)jit, (void)jit_values, (void)njit, (void)options, (void)values, (void)noptions;
    uint32_t magic;
    memcpy(&magic, code, sizeof magic);
    if (standin_bends("load.other")) magic = 0;
    if (magic != 0xba55ed50) standin_broken("cudaLibraryLoadData: expected a fatbin, found %x", magic);
    if (standin_fails("load")) return standin_error(cudaErrorNoKernelImageForDevice);
    *out = (cudaLibrary_t)(uintptr_t)code;
    standin_count(STANDIN_LIBRARIES, 1);
    return cudaSuccess;
}

SHOWN cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
    (void)library;
    if (standin_loses("unload")) return cudaSuccess;
    standin_count(STANDIN_LIBRARIES, -1);
    return standin_fails("unload") ? cudaErrorLaunchFailure : cudaSuccess;
}

SHOWN cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t library, const char *name) {
    (void)library;
    if (standin_fails("kernel")) return standin_error(cudaErrorSymbolNotFound);
    for (const standin_kernel *k = standin_kernels; k->name; k++) {
        if (strcmp(k->name, name) != 0) continue;
        *out = (cudaKernel_t)(uintptr_t)k;
        return cudaSuccess;
    }
    return standin_error(cudaErrorSymbolNotFound);
}

typedef struct kernel_item {
    const standin_kernel *kernel;
    long long args[]; /* the kernel's struct */
} kernel_item;

static void run_kernel(standin_item *item) {
    const kernel_item *k = (const kernel_item *)(const void *)item->bytes;
    standin_kernel_begins(item);
    k->kernel->run(k->args);
}

/* How often a kernel was put on a stream, or into a graph. */
SHOWN int standin_launches(const char *kernel);
static _Atomic int nlaunches[1024];

int standin_launches(const char *kernel) {
    for (size_t k = 0; standin_kernels[k].name; k++)
        if (strcmp(standin_kernels[k].name, kernel) == 0) return nlaunches[k % 1024];
    return 0;
}

/* By GPU, which kernels are there. One that is not is loaded by its first launch: nothing may run meanwhile. */
static _Atomic bool is_loaded[64][1024];

SHOWN cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function) {
    const standin_kernel *kernel = function;
    if (standin_fails("attributes")) return standin_error(cudaErrorNoKernelImageForDevice);
    standin_use_gpu();
    memset(out, 0, sizeof *out);
    if (standin_loses("attributes")) return cudaSuccess;
    is_loaded[current % 64][(size_t)(kernel - standin_kernels) % 1024] = true;
    return cudaSuccess;
}

SHOWN cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t nshared,
                                   cudaStream_t stream) {
    const standin_kernel *kernel = function;
    if (!grid.x || grid.y != 1 || block.x != STANDIN_THREADS || nshared)
        return standin_error(cudaErrorInvalidConfiguration);
    if (standin_fails("launch")) return standin_error(cudaErrorLaunchOutOfResources);
    if (!is_loaded[current % 64][(size_t)(kernel - standin_kernels) % 1024])
        standin_broken("%s is loaded while streams run", kernel->name);
    nlaunches[(size_t)(kernel - standin_kernels) % 1024]++;
    standin_item *item = standin_item_create(kernel->name, sizeof(kernel_item) + *kernel->nbytes);
    kernel_item *k = (kernel_item *)(void *)item->bytes;
    k->kernel = kernel;
    memcpy(k->args, args[0], *kernel->nbytes);
    item->cost_ns = standin_kernel_ns(kernel, k->args);
    if (item->cost_ns < 0)
        item->cost_ns = 2000 + 100 * (int64_t)strlen(kernel->name) + 50 * (int64_t)grid.x; /* they differ */
    item->run = run_kernel;
    standin_push(stream, item);
    return cudaSuccess;
}
