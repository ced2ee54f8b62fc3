/* memory.c: memory of GPUs, and pinned memory of the host. */
#include "executor/devices/cuda/cuda.h"

/* What is copied between steps has a stream of its own: a copy on the legacy stream would not be ordered before kernels
 * on streams that do not block. */
static weft_status finish(const cuda_device *d, int gpu) {
    CUDA_TRY(StreamSynchronize, d->copies[gpu]);
    return NULL;
}

static weft_status take(cuda_device *d, int gpu, size_t nbytes, device_memory *out) {
    if (out->space == DEVICE_HOST) {
        CUDA_TRY(MallocHost, &out->block, nbytes);
        memset(out->block, 0, nbytes);
        return NULL;
    }
    CUDA_TRY(Malloc, &out->block, nbytes);
    weft_status status = cuda_check(cuda.MemsetAsync(out->block, 0, nbytes, d->copies[gpu]), "cudaMemsetAsync");
    if (!status) status = finish(d, gpu);
    if (status) cuda.Free(out->block);
    return status;
}

weft_status cuda_alloc(device *head, int rank, device_space space, size_t nbytes, device_memory *out) {
    cuda_device *d = cuda_device_of(head);
    int gpu = cuda_gpu_of(d, rank);
    *out = (device_memory){.space = space};
    if (!nbytes) return NULL;
    CUDA_TRY(SetDevice, gpu);
    device_memory m = *out;
    TRY(take(d, gpu, nbytes, &m));
    m.bytes = m.block;
    m.block_nbytes = nbytes;
    *out = m;
    return NULL;
}

void cuda_free(device *d, device_memory *m) {
    (void)d;
    if (m->bytes && m->space == DEVICE_HOST) cuda.FreeHost(m->block);
    if (m->bytes && m->space == DEVICE_OWN) cuda.Free(m->block);
    *m = (device_memory){0};
}

static weft_status copy(device *head, int rank, void *to, const void *from, size_t nbytes, enum cudaMemcpyKind kind) {
    cuda_device *d = cuda_device_of(head);
    int gpu = cuda_gpu_of(d, rank);
    if (!nbytes) return NULL;
    CUDA_TRY(SetDevice, gpu);
    CUDA_TRY(MemcpyAsync, to, from, nbytes, kind, d->copies[gpu]);
    return finish(d, gpu);
}

weft_status cuda_copy_in(device *d, int rank, void *to, const void *from, size_t nbytes) {
    return copy(d, rank, to, from, nbytes, cudaMemcpyHostToDevice);
}

weft_status cuda_copy_out(device *d, int rank, void *to, const void *from, size_t nbytes) {
    return copy(d, rank, to, from, nbytes, cudaMemcpyDeviceToHost);
}
