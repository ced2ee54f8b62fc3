/* conv_transpose.c: transposed 2-D convolution: a convolution's gradient by its input, taken as an op of its own. The
 * op's output is that convolution's input, and the other way round; Filter is [in, out / groups, height, width], just
 * as that convolution has it. */
#include "executor/kernels/conv/conv.h"

enum { IN_INPUT, IN_FILTER, IN_BIAS, GRAD_IN_OUT_GRAD, OUT_OUTPUT = 0, OUT_INPUT_GRAD = 0, OUT_FILTER_GRAD };

static weft_status prepare_transposed(kernel_prepare *p, const tensor *large) {
    conv *c = KERNEL_STATE(p, conv);
    if (!c) return base_out_of_memory();
    TRY(conv_prepare(p, large, type_in(p, IN_FILTER), type_in(p, IN_INPUT), c));
    if (type_in(p, IN_BIAS)) return kernel_unsupported(p, "expected no Bias, found one");
    p->workspace_nbytes = conv_workspace(c, p->nthreads);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_transposed(p, type_out(p, OUT_OUTPUT));
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_transposed(p, type_in(p, GRAD_IN_OUT_GRAD)));
    const tensor *dx = type_out(p, OUT_INPUT_GRAD), *dfilter = type_out(p, OUT_FILTER_GRAD);
    if (dx) TRY(require_numel(p, dx, type_in(p, IN_INPUT)->numel, "Input@GRAD"));
    if (dfilter) TRY(require_numel(p, dfilter, type_in(p, IN_FILTER)->numel, "Filter@GRAD"));
    return NULL;
}

static weft_status run(const kernel_call *call) {
    conv_backward(call->state, NULL, arg_in(call, IN_FILTER)->data, arg_in(call, IN_INPUT)->data,
                  arg_out(call, OUT_OUTPUT)->data, NULL, call->workspace, call);
    return NULL;
}

static weft_status run_grad(const kernel_call *call) {
    const conv *c = call->state;
    const float *dy = arg_in(call, GRAD_IN_OUT_GRAD)->data, *filter = arg_in(call, IN_FILTER)->data;
    tensor *dx = arg_out(call, OUT_INPUT_GRAD), *dfilter = arg_out(call, OUT_FILTER_GRAD);
    if (dx) conv_forward(c, dy, filter, dx->data, call->workspace, call);
    if (dfilter) conv_backward(c, dy, filter, arg_in(call, IN_INPUT)->data, NULL, dfilter->data, call->workspace, call);
    return NULL;
}

const kernel kernel_conv2d_transpose = {prepare, run};
const kernel kernel_conv2d_transpose_grad = {prepare_grad, run_grad};
