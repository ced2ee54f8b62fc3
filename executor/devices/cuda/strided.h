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

enum { MOST_OPERANDS = 1 + KERNEL_INPUTS };

/* --- walk.c ------------------------------------------------------------------------------------------------------- */

/* strides[0] are the result's, then those of nin inputs. */
void strided_init(strided_walk *w, int ndim, const int64_t *dims, int nin, int64_t (*strides)[WEFT_MAX_RANK]);
WEFT_MUST_USE weft_status strided_launch(const cuda_launch *l, const strided_walk *w, void *out, const void *a,
                                         const void *b, const void *c);
/* Strides of t along the axes of `into`, by the op's axis. */
WEFT_MUST_USE weft_status strided_broadcast(const kernel_prepare *p, const tensor *t, const tensor *into,
                                            int64_t *out_strides);

/* Walks over elements of other types than fp32 (kernels/elements.def); strides as in strided_init, none summed. */
typedef struct elements_walk {
    elements_args args; /* without addresses */
} elements_walk;
WEFT_MUST_USE weft_status elements_init(elements_walk *w, element_function function, weft_dtype in, weft_dtype out,
                                        int ndim, const int64_t *dims, int nin, int64_t (*strides)[WEFT_MAX_RANK]);
/* Elements of one type that move. */
WEFT_MUST_USE weft_status move_init(elements_walk *w, weft_dtype dtype, int ndim, const int64_t *dims,
                                    int64_t (*strides)[WEFT_MAX_RANK]);
WEFT_MUST_USE weft_status elements_launch(const cuda_launch *l, const elements_walk *w, void *out, const void *a,
                                          const void *b, const void *c);
#define STRIDED_KERNELS(name) CUDA_KERNEL_strided_##name, CUDA_KERNEL_summed_##name

#endif
