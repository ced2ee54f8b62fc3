/* reshape.c: ops that change a tensor's shape and leave its elements where they are: a copy, or nothing at all when the
 * planner gave input and output the same memory. XShape, which only carries a shape, is never touched. */
#include "executor/kernels/layout.h"

enum { FORWARD_IN_X = 0, GRAD_IN_OUT_GRAD = 1, OUT = 0 };

static weft_status check_pair(const kernel_prepare *p, const tensor *from) {
    const tensor *to = type_out(p, OUT);
    TRY(require_present(p, from, "input"));
    TRY(require_present(p, to, "output"));
    TRY(require_same_dtype(p, from, to, "output"));
    return require_numel(p, to, from->numel, "output");
}

static weft_status prepare(kernel_prepare *p) {
    return check_pair(p, type_in(p, FORWARD_IN_X));
}
static weft_status prepare_grad(kernel_prepare *p) {
    return check_pair(p, type_in(p, GRAD_IN_OUT_GRAD));
}

static weft_status run(const kernel_call *c) {
    const tensor *x = arg_in(c, FORWARD_IN_X);
    copy_bytes(arg_out(c, OUT)->data, x->data, tensor_nbytes(x));
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const tensor *dy = arg_in(c, GRAD_IN_OUT_GRAD);
    copy_bytes(arg_out(c, OUT)->data, dy->data, tensor_nbytes(dy));
    return NULL;
}

const kernel kernel_reshape2 = {prepare, run};
const kernel kernel_squeeze2 = {prepare, run};
const kernel kernel_unsqueeze2 = {prepare, run};
const kernel kernel_flatten_contiguous_range = {prepare, run};
const kernel kernel_reshape2_grad = {prepare_grad, run_grad};
const kernel kernel_squeeze2_grad = {prepare_grad, run_grad};
const kernel kernel_unsqueeze2_grad = {prepare_grad, run_grad};
const kernel kernel_flatten_contiguous_range_grad = {prepare_grad, run_grad};
