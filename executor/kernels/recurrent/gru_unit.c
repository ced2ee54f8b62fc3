/* gru_unit.c: one step of a gated recurrent unit, whose input is projected already, and gradients.
 *
 *   u, r = gate(Input + Bias + HiddenPrev W)   c = activation(Input + Bias + (r HiddenPrev) W')
 *   Hidden = u c + (1 - u) HiddenPrev, or with origin_mode u HiddenPrev + (1 - u) c
 *
 * Gate keeps [u, r, c], ResetHiddenPrev r HiddenPrev. Weight holds W [hidden, 2 hidden], then W' [hidden, hidden].
 * Source: fluid/operators/gru_unit_op.h. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_INPUT, IN_BEFORE, IN_WEIGHT, IN_BIAS, IN_GATE, IN_RESET, IN_HIDDEN_GRAD };
enum { OUT_GATE, OUT_RESET, OUT_HIDDEN };
enum { OUT_INPUT_GRAD, OUT_BEFORE_GRAD, OUT_WEIGHT_GRAD, OUT_BIAS_GRAD };
enum { IDENTITY, SIGMOID, TANH, RELU, NACTIVATIONS };

typedef struct unit {
    int64_t rows, width;
    int activation, gate;
    bool origin;
} unit;

static weft_status check_given(kernel_prepare *p, unit *s) {
    const tensor *before = type_in(p, IN_BEFORE), *input = type_in(p, IN_INPUT);
    TRY(require_real(p, before, "HiddenPrev"));
    if (before->ndim != 2) return kernel_unsupported(p, "expected HiddenPrev [row, hidden]");
    s->rows = before->dims[0];
    s->width = before->dims[1];
    s->activation = (int)attr_int(p->op, "activation", TANH);
    s->gate = (int)attr_int(p->op, "gate_activation", SIGMOID);
    s->origin = attr_bool(p->op, "origin_mode", false);
    if (s->activation < 0 || s->activation >= NACTIVATIONS || s->gate < 0 || s->gate >= NACTIVATIONS)
        return kernel_unsupported(p, "expected activations of 0 to %d, found %d and %d", NACTIVATIONS - 1,
                                  s->activation, s->gate);
    TRY(require_present(p, input, "Input"));
    TRY(require_present(p, type_in(p, IN_WEIGHT), "Weight"));
    TRY(require_like(p, before, input, 3 * before->numel, "Input"));
    TRY(require_like(p, before, type_in(p, IN_WEIGHT), 3 * s->width * s->width, "Weight"));
    return require_like(p, before, type_in(p, IN_BIAS), 3 * s->width, "Bias");
}

static weft_status prepare(kernel_prepare *p) {
    unit *s = KERNEL_STATE(p, unit);
    if (!s) return base_out_of_memory();
    TRY(check_given(p, s));
    const tensor *before = type_in(p, IN_BEFORE), *gate = type_out(p, OUT_GATE), *reset = type_out(p, OUT_RESET);
    TRY(require_present(p, gate, "Gate"));
    TRY(require_present(p, reset, "ResetHiddenPrev"));
    TRY(require_present(p, type_out(p, OUT_HIDDEN), "Hidden"));
    TRY(require_like(p, before, gate, 3 * before->numel, "Gate"));
    TRY(require_like(p, before, reset, before->numel, "ResetHiddenPrev"));
    return require_like(p, before, type_out(p, OUT_HIDDEN), before->numel, "Hidden");
}

static weft_status prepare_grad(kernel_prepare *p) {
    unit *s = KERNEL_STATE(p, unit);
    if (!s) return base_out_of_memory();
    TRY(check_given(p, s));
    const tensor *before = type_in(p, IN_BEFORE), *gate = type_in(p, IN_GATE), *reset = type_in(p, IN_RESET);
    const tensor *g = type_in(p, IN_HIDDEN_GRAD);
    TRY(require_present(p, gate, "Gate"));
    TRY(require_present(p, reset, "ResetHiddenPrev"));
    TRY(require_present(p, g, "Hidden@GRAD"));
    TRY(require_like(p, before, gate, 3 * before->numel, "Gate"));
    TRY(require_like(p, before, reset, before->numel, "ResetHiddenPrev"));
    TRY(require_like(p, before, g, before->numel, "Hidden@GRAD"));
    TRY(require_like(p, before, type_out(p, OUT_INPUT_GRAD), 3 * before->numel, "Input@GRAD"));
    TRY(require_like(p, before, type_out(p, OUT_BEFORE_GRAD), before->numel, "HiddenPrev@GRAD"));
    TRY(require_like(p, before, type_out(p, OUT_WEIGHT_GRAD), 3 * s->width * s->width, "Weight@GRAD"));
    TRY(require_like(p, before, type_out(p, OUT_BIAS_GRAD), 3 * s->width, "Bias@GRAD"));
    /* gradients of the gates before they are activated, of r HiddenPrev, and of HiddenPrev */
    p->workspace_nbytes = (size_t)(5 * before->numel) * weft_dtype_nbytes(before->dtype);
    return NULL;
}

static double activated(int kind, double x) {
    return kind == SIGMOID ? 1 / (1 + exp(-x)) : kind == TANH ? tanh(x) : kind == RELU && x < 0 ? 0 : x;
}
/* By what came out. */
static double slope(int kind, double y) {
    return kind == SIGMOID ? y * (1 - y) : kind == TANH ? 1 - y * y : kind == RELU && y <= 0 ? 0 : 1;
}

/* C += or = op(A) op(B), with strides between rows; the pointers are of `dtype`. */
typedef struct matrix {
    const void *data;
    int64_t stride;
    bool turned;
} matrix;
static void product(const kernel_call *c, weft_dtype dtype, int64_t m, int64_t n, int64_t k, matrix a, matrix b,
                    bool adds, void *to, int64_t stride) {
    if (m == 0 || n == 0) return;
    if (dtype == WEFT_FP64)
        gemm_f64(a.turned, b.turned, m, n, k, 1, a.data, a.stride, b.data, b.stride, adds, to, stride);
    else
        gemm_f32(c, a.turned, b.turned, m, n, k, 1, a.data, a.stride, b.data, b.stride, adds, to, stride);
}

#define TEMPLATE "executor/kernels/recurrent/gru_unit_real.h"
#include "executor/kernels/each_real.h"

static weft_status run(const kernel_call *c) {
    if (arg_in(c, IN_BEFORE)->dtype == WEFT_FP64)
        forward_fp64(c, c->state);
    else
        forward_fp32(c, c->state);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    if (arg_in(c, IN_BEFORE)->dtype == WEFT_FP64)
        backward_fp64(c, c->state);
    else
        backward_fp32(c, c->state);
    return NULL;
}

const kernel kernel_gru_unit = {prepare, run};
const kernel kernel_gru_unit_grad = {prepare_grad, run_grad};
