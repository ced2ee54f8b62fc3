#include "executor/comm/nccl/memory.h"

#include "executor/comm/nccl/library.h"

bool nccl_memory_take(cuda_device *d, size_t nbytes, void **out) {
    if (!d->is_for_nccl || !nccl.MemAlloc || !nccl.MemFree) return false;
    nccl_block *b = base_alloc(d->head.allocator, sizeof *b);
    void *bytes = NULL;
    if (!b || nccl.MemAlloc(&bytes, nbytes) != ncclSuccess) {
        base_free(d->head.allocator, b, b ? sizeof *b : 0);
        return false;
    }
    pthread_mutex_lock(&d->lock);
    *b = (nccl_block){bytes, nbytes, d->nccl_blocks};
    d->nccl_blocks = b;
    pthread_mutex_unlock(&d->lock);
    *out = bytes;
    return true;
}

bool nccl_memory_give(cuda_device *d, void *block) {
    pthread_mutex_lock(&d->lock);
    nccl_block **at = &d->nccl_blocks;
    while (*at && (*at)->bytes != block) at = &(*at)->next;
    nccl_block *b = *at;
    if (b) *at = b->next;
    pthread_mutex_unlock(&d->lock);
    if (!b) return false;
    nccl.MemFree(block);
    base_free(d->head.allocator, b, sizeof *b);
    return true;
}

const nccl_block *nccl_memory_find(cuda_device *d, const void *address) {
    const unsigned char *at = address;
    pthread_mutex_lock(&d->lock);
    const nccl_block *b = d->nccl_blocks;
    while (b && (at < b->bytes || at >= b->bytes + b->nbytes)) b = b->next;
    pthread_mutex_unlock(&d->lock);
    return b;
}
