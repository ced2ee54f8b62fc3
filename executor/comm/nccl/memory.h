/* memory.h: memory of GPUs that NCCL gives: what it takes without copies. */
#ifndef EXECUTOR_COMM_NCCL_MEMORY_H
#define EXECUTOR_COMM_NCCL_MEMORY_H

#include "executor/devices/cuda/cuda.h"

typedef struct nccl_block {
    unsigned char *bytes;
    size_t nbytes;
    struct nccl_block *next;
} nccl_block;

/* On the thread's GPU. False: NCCL gives none, and it is to be had elsewhere. */
bool nccl_memory_take(cuda_device *d, size_t nbytes, void **out);
/* False: it is not NCCL's. */
bool nccl_memory_give(cuda_device *d, void *block);
/* The block in which an address lies; NULL: none of NCCL's. Its bytes stay as long as the memory. */
const nccl_block *nccl_memory_find(cuda_device *d, const void *address);

#endif
