/* strided.h: ops that are strided walks over their arguments (kernels/strided.def): broadcasting, reducing,
 * transposing. */
#ifndef EXECUTOR_DEVICES_CUDA_STRIDED_H
#define EXECUTOR_DEVICES_CUDA_STRIDED_H

#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"

/* A walk over `dims`. Of axes along which the result has stride 0, elements are added up. */
typedef struct strided_walk {
    strided_args args; /* without addresses */
    cuda_kernel_id items, blocks;
} strided_walk;

/* strides[0] are the result's, then those of nin inputs. */
void strided_init(strided_walk *w, int ndim, const int64_t *dims, int nin, int64_t (*strides)[WEFT_MAX_RANK]);
WEFT_MUST_USE weft_status strided_launch(const cuda_launch *l, const strided_walk *w, void *out, const void *a,
                                         const void *b, const void *c);
#define STRIDED_KERNELS(name) CUDA_KERNEL_strided_##name, CUDA_KERNEL_summed_##name

#endif
