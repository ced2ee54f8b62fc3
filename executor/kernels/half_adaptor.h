/* half_adaptor.h: kernels that have no loops for fp16 and bf16, run on fp32 copies. */
#ifndef EXECUTOR_KERNELS_HALF_ADAPTOR_H
#define EXECUTOR_KERNELS_HALF_ADAPTOR_H

#include "executor/kernels/adaptor.h"

/* Whether the call has half tensors and the op computes with their elements, rather than with bytes or with other
 * ranks; and, where it asks for master copies of its parameters, has them. */
bool half_adaptor_fits(const kernel_prepare *p);
/* Stands for the kernel of the call's op. */
extern const kernel kernel_half_adaptor;

/* --- for kernels of other devices --- */

/* A half tensor of the call, seen as fp32. */
typedef struct wide_arg {
    uint32_t index; /* into in or out */
    int32_t master; /* the argument of that side that stands for it, and is hidden; -1: none */
    size_t at;      /* without one: its fp32 elements in the workspace */
} wide_arg;

/* One side of the call, as the kernel sees it. */
typedef struct wide_side {
    tensor *seen;
    wide_arg *wide;
    uint32_t count, nwide;
} wide_side;

/* A call as a kernel sees it that knows no half types. */
typedef struct half_view {
    adapted_kernel kernel;
    wide_side in, out;
} half_view;

/* Prepares a kernel so; sets p->workspace_nbytes. v->kernel.state is set whatever the status. */
WEFT_MUST_USE weft_status half_view_prepare(kernel_prepare *p, weft_status (*prepare)(kernel_prepare *), half_view *v);
/* The call that the kernel sees: in each of v->in.wide that has no master come fp32 copies before it runs, and behind
 * it those of v->out.wide are rounded. */
kernel_call half_view_call(const half_view *v, const kernel_call *c);

#endif
