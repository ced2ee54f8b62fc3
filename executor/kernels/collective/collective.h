/* collective.h: what kernels of collectives check alike. */
#ifndef EXECUTOR_KERNELS_COLLECTIVE_COLLECTIVE_H
#define EXECUTOR_KERNELS_COLLECTIVE_COLLECTIVE_H

#include "executor/kernels/typed.h"

/* A dense tensor of a type that rings carry. */
WEFT_MUST_USE weft_status require_ring_type(const kernel_prepare *p, const tensor *x);
WEFT_MUST_USE weft_status require_ring_attrs(const kernel_prepare *p, weft_reduce reduce, int64_t root);

#endif
