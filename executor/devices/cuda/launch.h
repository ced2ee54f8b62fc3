/* launch.h: ops that have kernels here. ops.def names them; a family's launchers share a file. */
#ifndef EXECUTOR_DEVICES_CUDA_LAUNCH_H
#define EXECUTOR_DEVICES_CUDA_LAUNCH_H

#include "executor/devices/cuda/cuda.h"
#include "executor/devices/cuda/kernels/args.h"

/* A call on a stream. Addresses are the GPU's. */
typedef struct cuda_launch {
    const cuda_device *device;
    const kernel_call *call;
    cudaStream_t stream;
    const unsigned long long *step; /* where the GPU has the number of the step; for ops that draw */
    void *handle;                   /* of the rank, by cuda_op.open */
} cuda_launch;

/* An optimizer's op, of which neighbours may be one launch (group.h). */
typedef struct cuda_updates {
    update_args (*args)(const kernel_call *c); /* `step` apart */
    cuda_kernel_id begins, updates;            /* begins: CUDA_KERNELS: nothing comes before */
} cuda_updates;

/* matmul.h has the states. */
typedef enum cuda_product { CUDA_NO_PRODUCT, CUDA_PRODUCT, CUDA_PRODUCT_GRADIENTS } cuda_product;

typedef struct cuda_op {
    /* Once, when the CPU's kernel has taken the op already: makes the state, says how much workspace it needs. A
     * status: it cannot compute this on the GPU, and the host does. NULL: nothing to prepare. */
    weft_status (*prepare)(kernel_prepare *p);
    /* Allocates nothing, waits for nothing. What it launches is launched again each step, so that only memory may
     * differ between steps. */
    weft_status (*launch)(const cuda_launch *l);
    /* A library's handle, of which a rank makes one for all such ops: it is one thread's at a time. NULL: none is
     * needed. */
    weft_status (*open)(void **out_handle);
    void (*close)(void *handle);
    /* What the state has beside memory of the arena; also after a prepare that refused. NULL: nothing. */
    void (*discard)(void *state);
    const cuda_updates *updates; /* NULL: it is launched by itself */
    cuda_product product;        /* what its state is of, if of products that may do more (epilogue.h) */
} cuda_op;

/* That of a row of ops/ops.def; NULL: none. */
const cuda_op *cuda_op_find(const op_schema *schema);

/* Why the host runs ops of a row; NULL: it does not. */
const char *cuda_op_hosts(int row);
extern const char cuda_no_kernel[];

enum { CUDA_THREADS = 256 }; /* of a block */

/* Launches a kernel, whose one argument is `args`, by blocks of CUDA_THREADS threads. */
WEFT_MUST_USE weft_status cuda_start(const cuda_launch *l, cuda_kernel_id id, int64_t nblocks, const void *args);
/* By so many blocks that each thread has an item, or a few. */
WEFT_MUST_USE weft_status cuda_start_items(const cuda_launch *l, cuda_kernel_id id, int64_t nitems, const void *args);

#endif
