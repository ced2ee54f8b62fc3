/* bilinear.c: x W y of each row of X and of Y for every matrix W of a list, and gradients. Paddle:
 * phi/kernels/impl/bilinear_{tensor_product,grad}_kernel_impl.h. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_Y, IN_WEIGHT, IN_BIAS, IN_OUT_GRAD = 3, OUT = 0 };
enum { OUT_X_GRAD, OUT_Y_GRAD, OUT_WEIGHT_GRAD, OUT_BIAS_GRAD };

typedef struct bilinear_state {
    int64_t rows, width, other, count; /* extents of X and Y; matrices */
} bilinear_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *out) {
    bilinear_state *s = KERNEL_STATE(p, bilinear_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y), *w = type_in(p, IN_WEIGHT);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, y, "Y"));
    TRY(require_same_dtype(p, x, w, "Weight"));
    if (x->ndim != 2 || y->ndim != 2 || w->ndim != 3 || y->dims[0] != x->dims[0] || w->dims[1] != x->dims[1] ||
        w->dims[2] != y->dims[1])
        return kernel_unsupported(p, "expected X [row, m], Y [row, n] and Weight [matrix, m, n]");
    *s = (bilinear_state){x->dims[0], x->dims[1], y->dims[1], w->dims[0]};
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, s->rows * s->count, "Out");
}

/* `to` = op(a) op(b), or added to it; dense. */
static void product(const kernel_call *c, weft_dtype dtype, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                    const void *a, const void *b, bool adds, void *to) {
    int64_t lda = ta ? m : k, ldb = tb ? k : n;
    if (m == 0 || n == 0) return;
    if (dtype == WEFT_FP64)
        gemm_f64(ta, tb, m, n, k, 1, a, lda, b, ldb, adds, to, n);
    else
        gemm_f32(c, ta, tb, m, n, k, 1, a, lda, b, ldb, adds, to, n);
}

#define TEMPLATE "executor/kernels/matmul/bilinear_real.h"
#include "executor/kernels/each_real.h"

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p, type_out(p, OUT)));
    const bilinear_state *s = p->state;
    p->workspace_nbytes = (size_t)(s->rows * s->other) * weft_dtype_nbytes(type_in(p, IN_X)->dtype);
    return require_like(p, type_in(p, IN_X), type_in(p, IN_BIAS), s->count, "Bias");
}

static weft_status run(const kernel_call *c) {
    if (arg_in(c, IN_X)->dtype == WEFT_FP64)
        forward_fp64(c, c->state);
    else
        forward_fp32(c, c->state);
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_OUT_GRAD)));
    const bilinear_state *s = p->state;
    const tensor *x = type_in(p, IN_X);
    int64_t widest = s->width > s->other ? s->width : s->other;
    p->workspace_nbytes = (size_t)(s->rows * widest) * weft_dtype_nbytes(x->dtype);
    TRY(require_like(p, x, type_out(p, OUT_X_GRAD), x->numel, "X@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_Y_GRAD), s->rows * s->other, "Y@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_WEIGHT_GRAD), type_in(p, IN_WEIGHT)->numel, "Weight@GRAD"));
    return require_like(p, x, type_out(p, OUT_BIAS_GRAD), s->count, "Bias@GRAD");
}

static weft_status run_grad(const kernel_call *c) {
    if (arg_in(c, IN_X)->dtype == WEFT_FP64)
        backward_fp64(c, c->state);
    else
        backward_fp32(c, c->state);
    return NULL;
}

const kernel kernel_bilinear_tensor_product = {prepare, run};
const kernel kernel_bilinear_tensor_product_grad = {prepare_grad, run_grad};
