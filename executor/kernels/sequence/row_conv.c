/* row_conv.c: every step of a sequence as a sum of itself and the steps ahead, each feature by weights of its own
 * (Deep Speech 2): Out[b, t, d] = sum over k of X[b, t + k, d] Filter[k, d]. */
#include "executor/kernels/layout.h"

enum { ROW_X, ROW_FILTER, ROW_OUT_GRAD };

typedef struct row_conv_state {
    int64_t batch, steps, width, ahead;
} row_conv_state;

static weft_status prepare(kernel_prepare *p, const tensor *out) {
    row_conv_state *s = KERNEL_STATE(p, row_conv_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, ROW_X), *filter = type_in(p, ROW_FILTER);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, filter, "Filter"));
    TRY(require_present(p, out, "Out"));
    if (x->ndim != 3) return kernel_unsupported(p, "expected X [batch, step, feature], found %d dimensions", x->ndim);
    if (filter->ndim != 2 || filter->dims[1] != x->dims[2])
        return kernel_unsupported(p, "expected Filter of %lld columns", (long long)x->dims[2]);
    *s = (row_conv_state){x->dims[0], x->dims[1], x->dims[2], filter->dims[0]};
    TRY(require_like(p, x, filter, s->ahead * s->width, "Filter"));
    return require_like(p, x, out, x->numel, "Out");
}

static weft_status prepare_row_conv(kernel_prepare *p) {
    return prepare(p, type_out(p, 0));
}
static weft_status prepare_row_conv_grad(kernel_prepare *p) {
    TRY(prepare(p, type_in(p, ROW_OUT_GRAD)));
    const row_conv_state *s = p->state;
    const tensor *x = type_in(p, ROW_X);
    p->workspace_nbytes = (size_t)(s->ahead * s->width) * sizeof(double);
    TRY(require_like(p, x, type_out(p, 0), x->numel, "X@GRAD"));
    return require_like(p, x, type_out(p, 1), s->ahead * s->width, "Filter@GRAD");
}

static int64_t lesser(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static weft_status run_row_conv(const kernel_call *c) {
    const row_conv_state *s = c->state;
    for (int64_t i = 0, count = s->batch * s->steps * s->width; i < count; i++) {
        int64_t left = s->steps - i / s->width % s->steps, d = i % s->width;
        double sum = 0;
        for (int64_t k = 0; k < lesser(s->ahead, left); k++)
            sum +=
                tensor_real(arg_in(c, ROW_X), i + k * s->width) * tensor_real(arg_in(c, ROW_FILTER), k * s->width + d);
        tensor_set_real(arg_out(c, 0), i, sum);
    }
    return NULL;
}

static weft_status run_row_conv_grad(const kernel_call *c) {
    const row_conv_state *s = c->state;
    const tensor *x = arg_in(c, ROW_X), *filter = arg_in(c, ROW_FILTER), *g = arg_in(c, ROW_OUT_GRAD);
    tensor *dx = arg_out(c, 0), *df = arg_out(c, 1);
    double *sums = c->workspace;
    memset(sums, 0, (size_t)(s->ahead * s->width) * sizeof *sums);
    for (int64_t i = 0; i < g->numel; i++) {
        int64_t t = i / s->width % s->steps, d = i % s->width;
        double sum = 0;
        for (int64_t k = 0; k < lesser(s->ahead, t + 1); k++)
            sum += tensor_real(g, i - k * s->width) * tensor_real(filter, k * s->width + d);
        if (dx) tensor_set_real(dx, i, sum);
        for (int64_t k = 0; k < lesser(s->ahead, s->steps - t); k++)
            sums[k * s->width + d] += tensor_real(g, i) * tensor_real(x, i + k * s->width);
    }
    for (int64_t i = 0; df && i < s->ahead * s->width; i++) tensor_set_real(df, i, sums[i]);
    return NULL;
}

const kernel kernel_row_conv = {prepare_row_conv, run_row_conv};
const kernel kernel_row_conv_grad = {prepare_row_conv_grad, run_row_conv_grad};
