/* addmm.c: Beta * Input + Alpha * X Y of matrices, where Input broadcasts; and its gradients. */
#include "executor/kernels/accumulate.h"
#include "executor/kernels/layout.h"

enum { IN_INPUT, IN_X, IN_Y, IN_OUT_GRAD, OUT = 0, OUT_INPUT = 0, OUT_X, OUT_Y };

typedef struct addmm_state {
    int64_t m, n, k;
    double alpha, beta;
    loops input; /* operand 0: the result; operand 1: Input */
} addmm_state;

static weft_status prepare_matrices(kernel_prepare *p, const tensor *result) {
    addmm_state *s = KERNEL_STATE(p, addmm_state);
    if (!s) return base_out_of_memory();
    const tensor *input = type_in(p, IN_INPUT), *x = type_in(p, IN_X), *y = type_in(p, IN_Y);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, y, "Y"));
    TRY(require_same_dtype(p, x, input, "Input"));
    TRY(require_same_dtype(p, x, result, "Out"));
    if (x->ndim != 2 || y->ndim != 2 || result->ndim != 2 || x->dims[1] != y->dims[0])
        return kernel_unsupported(p, "expected matrices X and Y with one inner extent");
    s->m = x->dims[0], s->k = x->dims[1], s->n = y->dims[1];
    s->alpha = attr_float(p->op, "Alpha", 1);
    s->beta = attr_float(p->op, "Beta", 1);
    TRY(require_numel(p, result, s->m * s->n, "Out"));
    strides_dense(2, result->dims, strides[0]);
    if (!strides_broadcast(input, -1, 2, result->dims, strides[1]))
        return kernel_unsupported(p, "expected an Input that broadcasts to the product");
    loops_init(&s->input, 2, result->dims, 2, strides);
    return NULL;
}

static void multiply(const kernel_call *c, weft_dtype dtype, bool tx, bool ty, const int64_t mnk[3], double alpha,
                     const tensor *x, const tensor *y, double beta, tensor *out) {
    if (dtype == WEFT_FP64)
        gemm_f64(tx, ty, mnk[0], mnk[1], mnk[2], alpha, x->data, x->dims[1], y->data, y->dims[1], beta, out->data,
                 mnk[1]);
    else
        gemm_f32(c, tx, ty, mnk[0], mnk[1], mnk[2], (float)alpha, x->data, x->dims[1], y->data, y->dims[1], (float)beta,
                 out->data, mnk[1]);
}

static weft_status prepare(kernel_prepare *p) {
    TRY(require_present(p, type_out(p, OUT), "Out"));
    return prepare_matrices(p, type_out(p, OUT));
}

static weft_status run(const kernel_call *c) {
    const addmm_state *s = c->state;
    tensor *out = arg_out(c, OUT);
    copy_loops(&s->input, weft_dtype_nbytes(out->dtype), out->data, arg_in(c, IN_INPUT)->data);
    if (s->k == 0)
        for (int64_t i = 0; i < out->numel; i++) tensor_set_real(out, i, s->beta * tensor_real(out, i));
    else
        multiply(c, out->dtype, false, false, (int64_t[]){s->m, s->n, s->k}, s->alpha, arg_in(c, IN_X), arg_in(c, IN_Y),
                 s->beta, out);
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, IN_OUT_GRAD), "Out@GRAD"));
    TRY(prepare_matrices(p, type_in(p, IN_OUT_GRAD)));
    for (int k = 0; k < 3; k++)
        if (type_out(p, k)) TRY(require_numel(p, type_out(p, k), type_in(p, k)->numel, "a gradient"));
    p->workspace_nbytes = (size_t)type_in(p, IN_INPUT)->numel * sizeof(double);
    return NULL;
}

/* Sums over what Input was stretched. */
static void input_gradient(const kernel_call *c, const tensor *g, tensor *out) {
    const addmm_state *s = c->state;
    double *sums = c->workspace;
    for (int64_t i = 0; i < out->numel; i++) sums[i] = 0;
    accumulate_loops(&s->input, g->dtype, g->data, sums);
    for (int64_t i = 0; i < out->numel; i++) tensor_set_real(out, i, s->beta * sums[i]);
}

static weft_status run_grad(const kernel_call *c) {
    const addmm_state *s = c->state;
    const tensor *g = arg_in(c, IN_OUT_GRAD);
    tensor *dinput = arg_out(c, OUT_INPUT), *dx = arg_out(c, OUT_X), *dy = arg_out(c, OUT_Y);
    if (dinput) input_gradient(c, g, dinput);
    if (dx) multiply(c, g->dtype, false, true, (int64_t[]){s->m, s->k, s->n}, s->alpha, g, arg_in(c, IN_Y), 0, dx);
    if (dy) multiply(c, g->dtype, true, false, (int64_t[]){s->k, s->n, s->m}, s->alpha, arg_in(c, IN_X), g, 0, dy);
    return NULL;
}

const kernel kernel_addmm = {prepare, run};
const kernel kernel_addmm_grad = {prepare_grad, run_grad};
