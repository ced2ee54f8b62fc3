/* memory.c: memory of GPUs, and pinned memory of the host. */
#include "executor/comm/nccl/memory.h"
#include "executor/devices/cuda/cuda.h"

/* --- GPUs --------------------------------------------------------------------------------------------------------- */

/* Otherwise a kernel is loaded when it is first launched, which may wait for all that the GPU does: for a collective,
 * say, which waits for that launch. What was compiled for other GPUs is found here too. */
static weft_status load_kernels(const cuda_device *d, int gpu) {
    struct cudaFuncAttributes unused;
    for (int i = 0; i < CUDA_KERNELS; i++) {
        cudaError_t result = cuda_result(cuda.FuncGetAttributes(&unused, (const void *)d->kernels[i]));
        if (result)
            return weft_status_create(WEFT_UNSUPPORTED, NULL, "device cuda: kernels on GPU %d: %s", gpu,
                                      cuda.GetErrorString(result));
    }
    return NULL;
}

static weft_status begin_gpu(cuda_device *d, int gpu) {
    if (d->copies[gpu]) return NULL;
    TRY(load_kernels(d, gpu));
    CUDA_TRY(StreamCreateWithPriority, &d->copies[gpu], cudaStreamNonBlocking, 0);
    return NULL;
}

/* GPUs of ranks in other processes are left alone: whatever is made there takes memory. */
weft_status cuda_use(cuda_device *d, int rank) {
    int gpu = cuda_gpu_of(d, rank);
    CUDA_TRY(SetDevice, gpu);
    pthread_mutex_lock(&d->lock);
    weft_status status = begin_gpu(d, gpu);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* What is copied between steps has a stream of its own: a copy on the legacy stream would not be ordered before kernels
 * on streams that do not block. */
static weft_status finish(const cuda_device *d, int gpu) {
    CUDA_TRY(StreamSynchronize, d->copies[gpu]);
    return NULL;
}

static void give(cuda_device *d, void *block) {
    if (!nccl_memory_give(d, block)) cuda.Free(block);
}

static weft_status take(cuda_device *d, int gpu, size_t nbytes, device_memory *out) {
    if (out->space == DEVICE_HOST) {
        CUDA_TRY(MallocHost, &out->block, nbytes);
        memset(out->block, 0, nbytes);
        return NULL;
    }
    if (!nccl_memory_take(d, nbytes, &out->block)) CUDA_TRY(Malloc, &out->block, nbytes);
    weft_status status = cuda_check(cuda.MemsetAsync(out->block, 0, nbytes, d->copies[gpu]), "cudaMemsetAsync");
    if (!status) status = finish(d, gpu);
    if (status) give(d, out->block);
    return status;
}

weft_status cuda_alloc(device *head, int rank, device_space space, size_t nbytes, device_memory *out) {
    cuda_device *d = cuda_device_of(head);
    int gpu = cuda_gpu_of(d, rank);
    *out = (device_memory){.space = space};
    if (!nbytes) return NULL;
    TRY(cuda_use(d, rank));
    device_memory m = *out;
    TRY(take(d, gpu, nbytes, &m));
    m.bytes = m.block;
    m.block_nbytes = nbytes;
    *out = m;
    return NULL;
}

void cuda_free(device *d, device_memory *m) {
    if (m->bytes && m->space == DEVICE_HOST) cuda.FreeHost(m->block);
    if (m->bytes && m->space == DEVICE_OWN) give(cuda_device_of(d), m->block);
    *m = (device_memory){0};
}

static weft_status copy(device *head, int rank, void *to, const void *from, size_t nbytes, enum cudaMemcpyKind kind) {
    cuda_device *d = cuda_device_of(head);
    int gpu = cuda_gpu_of(d, rank);
    if (!nbytes) return NULL;
    TRY(cuda_use(d, rank));
    CUDA_TRY(MemcpyAsync, to, from, nbytes, kind, d->copies[gpu]);
    return finish(d, gpu);
}

weft_status cuda_copy_in(device *d, int rank, void *to, const void *from, size_t nbytes) {
    return copy(d, rank, to, from, nbytes, cudaMemcpyHostToDevice);
}

weft_status cuda_copy_out(device *d, int rank, void *to, const void *from, size_t nbytes) {
    return copy(d, rank, to, from, nbytes, cudaMemcpyDeviceToHost);
}
