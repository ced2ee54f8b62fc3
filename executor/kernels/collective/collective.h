/* collective.h: what kernels of collectives check alike. */
#ifndef EXECUTOR_KERNELS_COLLECTIVE_COLLECTIVE_H
#define EXECUTOR_KERNELS_COLLECTIVE_COLLECTIVE_H

#include "executor/comm/comm.h"
#include "executor/kernels/typed.h"

/* A dense tensor of a type that rings carry. */
WEFT_MUST_USE weft_status require_ring_type(const kernel_prepare *p, const tensor *x);
/* The kind of request that the op makes; the rows of collectives.def say it. */
comm_kind comm_kind_of(const weft_op *op);
/* Its reduction and root, checked; sum and 0 where it has none. */
WEFT_MUST_USE weft_status read_ring_attrs(const kernel_prepare *p, weft_reduce *out_reduce, int *out_root);

/* For kernels that communicate: their rounds, one after another, on a ring of several members. */
WEFT_MUST_USE weft_status run_rounds(const kernel_call *c, const kernel_rounds *rounds);
static inline bool is_alone(const kernel_call *c) {
    return !c->ring || c->ring->nranks == 1;
}

#endif
