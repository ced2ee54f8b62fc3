/* aten_activation.c: activations whose gradients torch computes otherwise than Paddle: log_sigmoid with its buffer, the
 * slopes of prelu, halves that gate one another (torch: aten/src/ATen/native/cpu/{Activation,GluKernel}.cpp). */
#include <math.h>

#include "executor/kernels/layout.h"

/* --- log_sigmoid: the buffer is exp(-|self|) ---------------------------------------------------------------------- */

static weft_status prepare_log_sigmoid(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, type_out(p, 0), "output"));
    TRY(require_like(p, x, type_out(p, 0), x->numel, "output"));
    return require_like(p, x, type_out(p, 1), x->numel, "buffer");
}

static weft_status run_log_sigmoid(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    tensor *out = arg_out(c, 0), *kept = arg_out(c, 1);
    for (int64_t i = 0; i < x->numel; i++) {
        double v = tensor_real(x, i), e = exp(-fabs(v));
        tensor_set_real(out, i, (v < 0 ? v : v - v) - log1p(e));
        if (kept) tensor_set_real(kept, i, e);
    }
    return NULL;
}

static weft_status prepare_log_sigmoid_backward(kernel_prepare *p) {
    const tensor *x = type_in(p, 1);
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, type_in(p, 0), "grad_output"));
    TRY(require_present(p, type_out(p, 0), "grad_input"));
    TRY(require_like(p, x, type_in(p, 0), x->numel, "grad_output"));
    return require_like(p, x, type_out(p, 0), x->numel, "grad_input");
}

static weft_status run_log_sigmoid_backward(const kernel_call *c) {
    const tensor *grad = arg_in(c, 0), *x = arg_in(c, 1);
    for (int64_t i = 0; i < x->numel; i++) {
        double v = tensor_real(x, i), e = exp(-fabs(v));
        tensor_set_real(arg_out(c, 0), i, tensor_real(grad, i) * (v < 0 ? 1 - e / (1 + e) : e / (1 + e)));
    }
    return NULL;
}

const kernel kernel_aten_log_sigmoid_forward = {prepare_log_sigmoid, run_log_sigmoid};
const kernel kernel_aten_log_sigmoid_backward = {prepare_log_sigmoid_backward, run_log_sigmoid_backward};

/* --- prelu: gradients of both operands, each as large as the result ----------------------------------------------- */

static weft_status prepare_prelu_backward(kernel_prepare *p) {
    loops *l = KERNEL_STATE(p, loops);
    const tensor *out = type_out(p, 0), *other = type_out(p, 1);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    if (!l) return base_out_of_memory();
    TRY(require_real(p, out, "grad_input"));
    TRY(require_present(p, other, "grad_weight"));
    TRY(require_like(p, out, other, out->numel, "grad_weight"));
    for (int k = 0; k < LOOP_OPERANDS; k++) {
        const tensor *t = type_in(p, k);
        TRY(require_present(p, t, "an operand"));
        TRY(require_same_dtype(p, out, t, "an operand"));
        if (t->ndim > out->ndim || !strides_broadcast(t, -1, out->ndim, out->dims, strides[k]))
            return kernel_unsupported(p, "expected operands that broadcast to the gradient");
    }
    loops_init(l, out->ndim, out->dims, LOOP_OPERANDS, strides);
    return NULL;
}

static weft_status run_prelu_backward(const kernel_call *c) {
    const loops *l = c->state;
    for (walk w = walk_start(l); w.left; walk_next(l, &w))
        for (int64_t i = 0; i < loops_run(l); i++) {
            double grad = tensor_real(arg_in(c, 0), w.at[0] + i * loops_stride(l, 0));
            double x = tensor_real(arg_in(c, 1), w.at[1] + i * loops_stride(l, 1));
            double slope = tensor_real(arg_in(c, 2), w.at[2] + i * loops_stride(l, 2));
            tensor_set_real(arg_out(c, 0), w.position + i, x > 0 ? grad : slope * grad);
            tensor_set_real(arg_out(c, 1), w.position + i, x > 0 ? 0 : x * grad);
        }
    return NULL;
}

const kernel kernel_aten_prelu_backward = {prepare_prelu_backward, run_prelu_backward};

/* --- glu: the first half along dim times sigmoid of the second ---------------------------------------------------- */

static weft_status prepare_glu_of(kernel_prepare *p, const tensor *x, const tensor *half) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, half, "a half"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "dim", -1), s));
    if (s->extent % 2) return kernel_unsupported(p, "expected two halves, found %lld", (long long)s->extent);
    return require_like(p, x, half, x->numel / 2, "a half");
}

static weft_status prepare_glu(kernel_prepare *p) {
    return prepare_glu_of(p, type_in(p, 0), type_out(p, 0));
}
static weft_status prepare_glu_backward(kernel_prepare *p) {
    const tensor *x = type_in(p, 1);
    TRY(prepare_glu_of(p, x, type_in(p, 0)));
    TRY(require_present(p, type_out(p, 0), "grad_input"));
    return require_like(p, x, type_out(p, 0), x->numel, "grad_input");
}

/* Where element i of a half stands in the whole; the other half's is *other. */
static int64_t place_in_whole(const axis_split *s, int64_t i, int64_t *other) {
    int64_t row = s->extent / 2 * s->inner, at = i / row * 2 * row + i % row;
    *other = at + row;
    return at;
}

static weft_status run_glu(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *x = arg_in(c, 0);
    for (int64_t i = 0, gate; i < arg_out(c, 0)->numel; i++) {
        double value = tensor_real(x, place_in_whole(s, i, &gate));
        tensor_set_real(arg_out(c, 0), i, value / (1 + exp(-tensor_real(x, gate))));
    }
    return NULL;
}

static weft_status run_glu_backward(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *grad = arg_in(c, 0), *x = arg_in(c, 1);
    for (int64_t i = 0, gate; i < grad->numel; i++) {
        int64_t at = place_in_whole(s, i, &gate);
        double open = 1 / (1 + exp(-tensor_real(x, gate))), g = tensor_real(grad, i);
        double value = tensor_real(x, at);
        tensor_set_real(arg_out(c, 0), at, g * open);
        tensor_set_real(arg_out(c, 0), gate, g * value * open * (1 - open));
    }
    return NULL;
}

const kernel kernel_aten_glu = {prepare_glu, run_glu};
const kernel kernel_aten_glu_backward = {prepare_glu_backward, run_glu_backward};
