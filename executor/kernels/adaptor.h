/* adaptor.h: what adaptors share: a kernel that sees other tensors than its call has, and its part of the workspace. */
#ifndef EXECUTOR_KERNELS_ADAPTOR_H
#define EXECUTOR_KERNELS_ADAPTOR_H

#include "executor/kernel.h"

typedef struct adapted_kernel {
    void *state;
    row_split split;
    size_t workspace_at; /* where its part of the workspace begins */
} adapted_kernel;

/* Takes nbytes of a workspace, from *at on, up to the next cache line. */
WEFT_MUST_USE weft_status adaptor_reserve(size_t *at, size_t nbytes);
/* Prepares a kernel on the tensors that it will see. The call's workspace is the adaptor's own, of so many bytes, and
 * the kernel's behind it. The call has no rows to split. out->state is set whatever the status. */
WEFT_MUST_USE weft_status adaptor_prepare(kernel_prepare *p, weft_status (*prepare)(kernel_prepare *), tensor *in,
                                          tensor *out, size_t own_nbytes, adapted_kernel *out_kernel);
/* The call as the kernel sees it. */
kernel_call adaptor_call(const adapted_kernel *k, const kernel_call *c, const tensor *in, tensor *out);

#endif
