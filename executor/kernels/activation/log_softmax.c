/* log_softmax.c: logarithm of softmax, with its clamp: shifted logits are no less than -64 (see softmax.c). ATen's
 * has no clamp. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X = 0, GRAD_IN_OUT = 0, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct log_softmax_state {
    axis_split split;
    double least; /* no shifted logit is below it */
} log_softmax_state;

static weft_status prepare_along(kernel_prepare *p, const char *axis, double least) {
    log_softmax_state *s = KERNEL_STATE(p, log_softmax_state);
    if (!s) return base_out_of_memory();
    s->least = least;
    const tensor *x = type_in(p, IN_X);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, type_out(p, OUT), "Out"));
    TRY(require_numel(p, type_out(p, OUT), x->numel, "Out"));
    return axis_split_prepare(p, x, attr_int(p->op, axis, -1), &s->split);
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_along(p, "axis", -64);
}
static weft_status prepare_aten(kernel_prepare *p) {
    return prepare_along(p, "dim", -INFINITY);
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare(p));
    return require_numel(p, type_in(p, GRAD_IN_OUT_GRAD), type_in(p, GRAD_IN_OUT)->numel, "Out@GRAD");
}

#define DEFINE_LOG_SOFTMAX(dtype, suffix, real)                                                                        \
    static void column_##suffix(int64_t n, int64_t step, real least, const real *x, real *y) {                         \
        real top = x[0];                                                                                               \
        double sum = 0;                                                                                                \
        for (int64_t i = 1; i < n; i++) top = x[i * step] > top ? x[i * step] : top;                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            real shifted = x[i * step] - top;                                                                          \
            y[i * step] = shifted < least ? least : shifted;                                                           \
            sum += exp((double)y[i * step]);                                                                           \
        }                                                                                                              \
        real log_sum = (real)log(sum);                                                                                 \
        for (int64_t i = 0; i < n; i++) y[i * step] -= log_sum;                                                        \
    }                                                                                                                  \
    static void grad_column_##suffix(int64_t n, int64_t step, const real *y, const real *dy, real *dx) {               \
        double sum = 0;                                                                                                \
        for (int64_t i = 0; i < n; i++) sum += (double)dy[i * step];                                                   \
        for (int64_t i = 0; i < n; i++) dx[i * step] = (real)((double)dy[i * step] - exp((double)y[i * step]) * sum);  \
    }                                                                                                                  \
    static void forward_##suffix(axis_split s, real least, const real *x, real *y) {                                   \
        for (int64_t o = 0; s.extent > 0 && o < s.outer; o++)                                                          \
            for (int64_t i = 0; i < s.inner; i++) {                                                                    \
                int64_t at = o * s.extent * s.inner + i;                                                               \
                column_##suffix(s.extent, s.inner, least, x + at, y + at);                                             \
            }                                                                                                          \
    }                                                                                                                  \
    static void backward_##suffix(axis_split s, const real *y, const real *dy, real *dx) {                             \
        for (int64_t o = 0; o < s.outer; o++)                                                                          \
            for (int64_t i = 0; i < s.inner; i++) {                                                                    \
                int64_t at = o * s.extent * s.inner + i;                                                               \
                grad_column_##suffix(s.extent, s.inner, y + at, dy + at, dx + at);                                     \
            }                                                                                                          \
    }
REAL_TYPES(DEFINE_LOG_SOFTMAX)
#undef DEFINE_LOG_SOFTMAX

static weft_status run(const kernel_call *c) {
    const log_softmax_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    if (x->dtype == WEFT_FP64)
        forward_fp64(s->split, s->least, x->data, arg_out(c, OUT)->data);
    else
        forward_fp32(s->split, (float)s->least, x->data, arg_out(c, OUT)->data);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    axis_split s = ((const log_softmax_state *)c->state)->split;
    const tensor *y = arg_in(c, GRAD_IN_OUT), *dy = arg_in(c, GRAD_IN_OUT_GRAD);
    if (y->dtype == WEFT_FP64)
        backward_fp64(s, y->data, dy->data, arg_out(c, OUT)->data);
    else
        backward_fp32(s, y->data, dy->data, arg_out(c, OUT)->data);
    return NULL;
}

const kernel kernel_log_softmax = {prepare, run};
const kernel kernel_aten_log_softmax = {prepare_aten, run};
const kernel kernel_log_softmax_grad = {prepare_grad, run_grad};
