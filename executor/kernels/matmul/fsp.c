/* fsp.c: how the channels of two maps of one size go together (flow of a solution procedure, Yim et al., 2017): for
 * each image the mean over positions of every product of a channel of X and one of Y, and gradients. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_Y, IN_OUT_GRAD };

typedef struct fsp_state {
    int64_t images, channels[2], positions;
} fsp_state;

static weft_status prepare_pair(kernel_prepare *p, const tensor *out) {
    fsp_state *s = KERNEL_STATE(p, fsp_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, y, "Y"));
    if (x->ndim != 4 || y->ndim != 4 || x->dims[0] != y->dims[0] || x->dims[2] != y->dims[2] ||
        x->dims[3] != y->dims[3])
        return kernel_unsupported(p, "expected X and Y of 4 dimensions that differ in channels alone");
    *s = (fsp_state){x->dims[0], {x->dims[1], y->dims[1]}, x->dims[2] * x->dims[3]};
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, s->images * s->channels[0] * s->channels[1], "Out");
}
static weft_status prepare(kernel_prepare *p) {
    return prepare_pair(p, type_out(p, 0));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_pair(p, type_in(p, IN_OUT_GRAD)));
    TRY(require_like(p, type_in(p, IN_X), type_out(p, 0), type_in(p, IN_X)->numel, "X@GRAD"));
    return require_like(p, type_in(p, IN_X), type_out(p, 1), type_in(p, IN_Y)->numel, "Y@GRAD");
}

/* `to` = op(a) op(b) / positions, m x n, of image k; all dense. */
static void mean_product(const kernel_call *c, bool ta, bool tb, int64_t m, int64_t n, int64_t inner, const tensor *a,
                         const tensor *b, tensor *to, int64_t k) {
    const fsp_state *s = c->state;
    int64_t lda = ta ? m : inner, ldb = tb ? inner : n, a_at = k * m * inner, b_at = k * n * inner, at = k * m * n;
    double share = s->positions ? 1 / (double)s->positions : 0;
    if (m == 0 || n == 0) return;
    if (a->dtype == WEFT_FP64)
        gemm_f64(ta, tb, m, n, inner, share, (const double *)a->data + a_at, lda, (const double *)b->data + b_at, ldb,
                 0, (double *)to->data + at, n);
    else
        gemm_f32(c, ta, tb, m, n, inner, (float)share, (const float *)a->data + a_at, lda,
                 (const float *)b->data + b_at, ldb, 0, (float *)to->data + at, n);
}

static weft_status run(const kernel_call *c) {
    const fsp_state *s = c->state;
    for (int64_t k = 0; k < s->images; k++)
        mean_product(c, false, true, s->channels[0], s->channels[1], s->positions, arg_in(c, IN_X), arg_in(c, IN_Y),
                     arg_out(c, 0), k);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const fsp_state *s = c->state;
    const tensor *g = arg_in(c, IN_OUT_GRAD);
    for (int64_t k = 0; k < s->images; k++) {
        if (arg_out(c, 0))
            mean_product(c, false, false, s->channels[0], s->positions, s->channels[1], g, arg_in(c, IN_Y),
                         arg_out(c, 0), k);
        if (arg_out(c, 1))
            mean_product(c, true, false, s->channels[1], s->positions, s->channels[0], g, arg_in(c, IN_X),
                         arg_out(c, 1), k);
    }
    return NULL;
}

const kernel kernel_fsp = {prepare, run};
const kernel kernel_fsp_grad = {prepare_grad, run_grad};
