/* select.c: select_input: a copy of the argument that Mask counts to. Where a program branches, each branch leaves its
 * value in one of the arguments. Source: paddle/fluid/operators/select_input_op.cc. */
#include "executor/kernels/layout.h"

enum { SELECT_IN_X, SELECT_IN_MASK };

static weft_status prepare_select_input(kernel_prepare *p) {
    const tensor *out = type_out(p, 0);
    TRY(require_present(p, out, "Out"));
    TRY(require_present(p, type_in(p, SELECT_IN_MASK), "Mask"));
    TRY(require_numel(p, type_in(p, SELECT_IN_MASK), 1, "Mask"));
    for (uint32_t i = p->in_first[SELECT_IN_X]; i < p->in_first[SELECT_IN_X + 1]; i++) {
        TRY(require_same_dtype(p, out, &p->in[i], "X"));
        TRY(require_numel(p, &p->in[i], out->numel, "X"));
    }
    return NULL;
}

static weft_status run_select_input(const kernel_call *c) {
    const tensor *out = arg_out(c, 0);
    int64_t chosen = host_integer(c, arg_in(c, SELECT_IN_MASK), 0);
    uint32_t count = c->in_first[SELECT_IN_X + 1] - c->in_first[SELECT_IN_X];
    if (chosen < 0 || chosen >= count)
        return kernel_failed(c, "Mask: expected a number below %u, found %lld", count, (long long)chosen);
    copy_bytes(out->data, c->in[c->in_first[SELECT_IN_X] + (uint32_t)chosen].data, tensor_nbytes(out));
    return NULL;
}

const kernel kernel_select_input = {prepare_select_input, run_select_input};
