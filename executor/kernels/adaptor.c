/* adaptor.c: what adaptors share. */
#include "executor/kernels/adaptor.h"

weft_status adaptor_reserve(size_t *at, size_t nbytes) {
    size_t padded;
    return base_add(nbytes, 64, &padded) && base_add(*at, padded & ~(size_t)63, at) ? NULL : base_out_of_memory();
}

weft_status adaptor_prepare(kernel_prepare *p, weft_status (*prepare)(kernel_prepare *), tensor *in, tensor *out,
                            size_t own_nbytes, adapted_kernel *out_kernel) {
    kernel_prepare inner = *p;
    inner.in = in;
    inner.out = out;
    inner.state = NULL;
    inner.workspace_nbytes = 0;
    inner.split = (row_split){0};
    weft_status status = prepare(&inner);
    out_kernel->state = inner.state;
    if (status) return status;
    out_kernel->split = inner.split;
    size_t workspace = (own_nbytes + 255) & ~(size_t)255; /* libraries for GPUs ask for so much */
    out_kernel->workspace_at = workspace;
    TRY(adaptor_reserve(&workspace, inner.workspace_nbytes));
    p->split = (row_split){0};
    p->workspace_nbytes = workspace;
    return NULL;
}

kernel_call adaptor_call(const adapted_kernel *k, const kernel_call *c, const tensor *in, tensor *out) {
    kernel_call inner = *c;
    inner.in = in;
    inner.out = out;
    inner.state = k->state;
    inner.workspace = (char *)c->workspace + k->workspace_at;
    inner.split = k->split;
    return inner;
}
