/* extrema.c: reductions other than sums: max, min, prod, all, any, logsumexp, and gradients.
 *
 * The gradient of max and min is shared evenly by the elements that tie; in programs of Paddle 2 each gets the whole;
 * that of prod is Out@GRAD * Out / X, so it is not a number where X is 0, as there. Sums and products are kept in
 * double. */
#include <math.h>

#include "executor/kernels/accumulate.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/reduce/reduce.h"

enum { IN_X, GRAD_IN_OUT, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct reduce_state {
    loops l;    /* operand 0: X, operand 1: Out */
    bool whole; /* each of equal extremes gets the whole gradient: programs of Paddle 2 */
} reduce_state;

static weft_status prepare_with(kernel_prepare *p, const char *attr, const tensor *x, const tensor *result) {
    reduce_state *s = KERNEL_STATE(p, reduce_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, result, "Out"));
    TRY(require_same_dtype(p, x, result, "Out"));
    return reduce_loops(p, attr, x, result, &s->l);
}

/* Visits X in order: `at` is the element's index, `to` that of its result. */
#define FOR_EACH_ELEMENT(l, at, to)                                                                                    \
    for (walk w_ = walk_start(l); w_.left; walk_next(l, &w_))                                                          \
        for (int64_t i_ = 0, at = w_.at[0], to = w_.at[1]; i_ < loops_run(l);                                          \
             i_++, at += loops_stride(l, 0), to += loops_stride(l, 1))

/* --- max, min ----------------------------------------------------------------------------------------------------- */

static bool has_order(weft_dtype d) {
    return dtype_is_float(d) || d == WEFT_INT32 || d == WEFT_INT64;
}

static weft_status prepare_extremum(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_with(p, "dim", x, type_out(p, OUT)));
    if (x->numel == 0) return kernel_unsupported(p, "expected elements in X, found none");
    if (!has_order(x->dtype)) return kernel_unsupported(p, "no extremum of %s", dtype_text(x->dtype));
    p->workspace_nbytes = (size_t)type_out(p, OUT)->numel; /* which results have begun */
    return NULL;
}

/* NaN among the elements makes the result NaN: nothing is better than it. */
#define DEFINE_EXTREMUM(fn, type, value, is_nan)                                                                       \
    static void fn(const loops *l, bool smallest, const type *x, type *out, uint8_t *begun) {                          \
        FOR_EACH_ELEMENT(l, at, to) {                                                                                  \
            bool better = smallest ? value(x[at]) < value(out[to]) : value(x[at]) > value(out[to]);                    \
            if (better || is_nan(value(x[at])) || !begun[to]) out[to] = x[at];                                         \
            begun[to] = 1;                                                                                             \
        }                                                                                                              \
    }
#define NEVER(value) false
DEFINE_EXTREMUM(extremum_fp32, float, , isnan)
DEFINE_EXTREMUM(extremum_fp64, double, , isnan)
DEFINE_EXTREMUM(extremum_int32, int32_t, , NEVER)
DEFINE_EXTREMUM(extremum_int64, int64_t, , NEVER)
DEFINE_EXTREMUM(extremum_bf16, uint16_t, bf16_to_f32, isnan)
DEFINE_EXTREMUM(extremum_fp16, uint16_t, fp16_to_f32, isnan)

static weft_status run_extremum(const kernel_call *c, bool smallest) {
    const loops *l = &((const reduce_state *)c->state)->l;
    const tensor *x = arg_in(c, IN_X), *out = arg_out(c, OUT);
    memset(c->workspace, 0, (size_t)out->numel);
    switch ((int)x->dtype) {
    case WEFT_FP32: extremum_fp32(l, smallest, x->data, out->data, c->workspace); break;
    case WEFT_FP64: extremum_fp64(l, smallest, x->data, out->data, c->workspace); break;
    case WEFT_INT32: extremum_int32(l, smallest, x->data, out->data, c->workspace); break;
    case WEFT_INT64: extremum_int64(l, smallest, x->data, out->data, c->workspace); break;
    case WEFT_BF16: extremum_bf16(l, smallest, x->data, out->data, c->workspace); break;
    default: extremum_fp16(l, smallest, x->data, out->data, c->workspace);
    }
    return NULL;
}

static weft_status run_max(const kernel_call *c) {
    return run_extremum(c, false);
}
static weft_status run_min(const kernel_call *c) {
    return run_extremum(c, true);
}

const kernel kernel_reduce_max = {prepare_extremum, run_max};
const kernel kernel_reduce_min = {prepare_extremum, run_min};

/* --- gradients of max, min, prod ---------------------------------------------------------------------------------- */

static weft_status prepare_real_grad(kernel_prepare *p, const char *attr) {
    const tensor *x = type_in(p, IN_X), *y = type_in(p, GRAD_IN_OUT);
    TRY(require_real(p, x, "X"));
    TRY(prepare_with(p, attr, x, y));
    TRY(require_numel(p, type_in(p, GRAD_IN_OUT_GRAD), y->numel, "Out@GRAD"));
    TRY(require_same_dtype(p, x, type_in(p, GRAD_IN_OUT_GRAD), "Out@GRAD"));
    p->workspace_nbytes = (size_t)y->numel * sizeof(int64_t); /* how many elements tie */
    return require_numel(p, type_out(p, OUT), x->numel, "X@GRAD");
}

static weft_status prepare_dim_grad(kernel_prepare *p) {
    TRY(prepare_real_grad(p, "dim"));
    ((reduce_state *)p->state)->whole = p->older;
    return NULL;
}

#define DEFINE_GRADIENTS(dtype, suffix, real)                                                                          \
    static void share_##suffix(const loops *l, const real *x, const real *y, const real *g, real *dx, int64_t *ties,   \
                               bool whole) {                                                                           \
        FOR_EACH_ELEMENT(l, at, to) ties[to] = whole ? 1 : ties[to] + (x[at] == y[to]);                                \
        FOR_EACH_ELEMENT(l, at, to) dx[at] = x[at] == y[to] ? g[to] / (real)ties[to] : g[to] * 0;                      \
    }                                                                                                                  \
    static void divide_##suffix(const loops *l, const real *x, const real *y, const real *g, real *dx) {               \
        FOR_EACH_ELEMENT(l, at, to) dx[at] = g[to] * y[to] / x[at];                                                    \
    }                                                                                                                  \
    static void soften_##suffix(const loops *l, const real *x, const real *y, const real *g, real *dx) {               \
        FOR_EACH_ELEMENT(l, at, to) dx[at] = (real)((double)g[to] * exp((double)x[at] - (double)y[to]));               \
    }
REAL_TYPES(DEFINE_GRADIENTS)
#undef DEFINE_GRADIENTS

static weft_status run_extremum_grad(const kernel_call *c) {
    const reduce_state *s = c->state;
    const loops *l = &s->l;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, GRAD_IN_OUT), *g = arg_in(c, GRAD_IN_OUT_GRAD);
    memset(c->workspace, 0, (size_t)y->numel * sizeof(int64_t));
    void *dx = arg_out(c, OUT)->data;
    if (x->dtype == WEFT_FP64)
        share_fp64(l, x->data, y->data, g->data, dx, c->workspace, s->whole);
    else
        share_fp32(l, x->data, y->data, g->data, dx, c->workspace, s->whole);
    return NULL;
}

static weft_status run_prod_grad(const kernel_call *c) {
    const loops *l = &((const reduce_state *)c->state)->l;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, GRAD_IN_OUT), *g = arg_in(c, GRAD_IN_OUT_GRAD);
    if (x->dtype == WEFT_FP64)
        divide_fp64(l, x->data, y->data, g->data, arg_out(c, OUT)->data);
    else
        divide_fp32(l, x->data, y->data, g->data, arg_out(c, OUT)->data);
    return NULL;
}

const kernel kernel_reduce_max_grad = {prepare_dim_grad, run_extremum_grad};
const kernel kernel_reduce_min_grad = {prepare_dim_grad, run_extremum_grad};
const kernel kernel_reduce_prod_grad = {prepare_dim_grad, run_prod_grad};

/* --- prod, logsumexp: results in double --------------------------------------------------------------------------- */

static weft_status prepare_prod(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_with(p, "dim", x, type_out(p, OUT)));
    if (x->dtype != WEFT_INT32 && x->dtype != WEFT_INT64) TRY(require_real(p, x, "X"));
    p->workspace_nbytes = (size_t)type_out(p, OUT)->numel * sizeof(double);
    return NULL;
}

static weft_status prepare_logsumexp(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(require_real(p, x, "X"));
    TRY(prepare_with(p, "axis", x, type_out(p, OUT)));
    p->workspace_nbytes = 2 * (size_t)type_out(p, OUT)->numel * sizeof(double); /* largest elements, sums */
    return NULL;
}

static weft_status prepare_logsumexp_grad(kernel_prepare *p) {
    return prepare_real_grad(p, "axis");
}

#define DEFINE_PROD_REAL(type_id, suffix, real)                                                                        \
    static void prod_##suffix(const loops *l, const tensor *x, const tensor *out, double *acc) {                       \
        for (int64_t i = 0; i < out->numel; i++) acc[i] = 1;                                                           \
        FOR_EACH_ELEMENT(l, at, to) acc[to] *= (double)((const real *)x->data)[at];                                    \
        store_doubles(out->dtype, out->numel, acc, out->data);                                                         \
    }                                                                                                                  \
    static void logsumexp_##suffix(const loops *l, const real *x, const tensor *out, double *top) {                    \
        double *sum = top + out->numel;                                                                                \
        for (int64_t i = 0; i < out->numel; i++) top[i] = -INFINITY, sum[i] = 0;                                       \
        FOR_EACH_ELEMENT(l, at, to) top[to] = x[at] <= top[to] ? top[to] : isnan(top[to]) ? top[to] : (double)x[at];   \
        FOR_EACH_ELEMENT(l, at, to) sum[to] += isinf(top[to]) ? 0 : exp((double)x[at] - top[to]);                      \
        for (int64_t i = 0; i < out->numel; i++) top[i] = isinf(top[i]) ? top[i] : top[i] + log(sum[i]);               \
        store_doubles(out->dtype, out->numel, top, out->data);                                                         \
    }
REAL_TYPES(DEFINE_PROD_REAL)
#undef DEFINE_PROD_REAL

/* Integers wrap. */
static void prod_integers(const loops *l, const tensor *x, const tensor *out, uint64_t *acc) {
    for (int64_t i = 0; i < out->numel; i++) acc[i] = 1;
    FOR_EACH_ELEMENT(l, at, to) acc[to] *= (uint64_t)tensor_integer(x, at);
    for (int64_t i = 0; i < out->numel; i++) {
        if (out->dtype == WEFT_INT64)
            ((int64_t *)out->data)[i] = (int64_t)acc[i];
        else
            ((int32_t *)out->data)[i] = (int32_t)(uint32_t)acc[i];
    }
}

static weft_status run_prod(const kernel_call *c) {
    const loops *l = &((const reduce_state *)c->state)->l;
    const tensor *x = arg_in(c, IN_X), *out = arg_out(c, OUT);
    if (x->dtype == WEFT_FP32)
        prod_fp32(l, x, out, c->workspace);
    else if (x->dtype == WEFT_FP64)
        prod_fp64(l, x, out, c->workspace);
    else
        prod_integers(l, x, out, c->workspace);
    return NULL;
}

static weft_status run_logsumexp(const kernel_call *c) {
    const loops *l = &((const reduce_state *)c->state)->l;
    const tensor *x = arg_in(c, IN_X);
    if (x->dtype == WEFT_FP64)
        logsumexp_fp64(l, x->data, arg_out(c, OUT), c->workspace);
    else
        logsumexp_fp32(l, x->data, arg_out(c, OUT), c->workspace);
    return NULL;
}

static weft_status run_logsumexp_grad(const kernel_call *c) {
    const loops *l = &((const reduce_state *)c->state)->l;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, GRAD_IN_OUT), *g = arg_in(c, GRAD_IN_OUT_GRAD);
    if (x->dtype == WEFT_FP64)
        soften_fp64(l, x->data, y->data, g->data, arg_out(c, OUT)->data);
    else
        soften_fp32(l, x->data, y->data, g->data, arg_out(c, OUT)->data);
    return NULL;
}

const kernel kernel_reduce_prod = {prepare_prod, run_prod};
const kernel kernel_logsumexp = {prepare_logsumexp, run_logsumexp};
const kernel kernel_logsumexp_grad = {prepare_logsumexp_grad, run_logsumexp_grad};

/* --- all, any ----------------------------------------------------------------------------------------------------- */

enum { ALL_IN_AXES = 1, ALL_IN_AXIS_LIST };

static weft_status prepare_truth(kernel_prepare *p) {
    reduce_state *s = KERNEL_STATE(p, reduce_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *out = type_out(p, OUT);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    if (type_in(p, ALL_IN_AXES) || type_in(p, ALL_IN_AXIS_LIST))
        return kernel_unsupported(p, "expected axes in the attr dim, found a tensor of them");
    if (dtype_is_half(x->dtype) || dtype_is_complex(x->dtype))
        return kernel_unsupported(p, "expected booleans or numbers, found %s", dtype_text(x->dtype));
    if (out->dtype != WEFT_BOOL) return kernel_unsupported(p, "expected Out of bool, found %s", dtype_text(out->dtype));
    return reduce_loops(p, "dim", x, out, &s->l);
}

/* A number is true unless it is 0; NaN is. */
static bool is_true(const tensor *x, int64_t at) {
    tensor element = *x;
    element.data = (char *)x->data + (size_t)at * weft_dtype_nbytes(x->dtype);
    return tensor_scalar(&element) != 0;
}

static weft_status run_truth(const kernel_call *c, bool all) {
    const loops *l = &((const reduce_state *)c->state)->l;
    const tensor *x = arg_in(c, IN_X);
    const uint8_t *truths = x->data;
    uint8_t *out = arg_out(c, OUT)->data;
    memset(out, all, (size_t)arg_out(c, OUT)->numel);
    if (x->dtype == WEFT_BOOL)
        FOR_EACH_ELEMENT(l, at, to) out[to] = all ? out[to] && truths[at] : out[to] || truths[at];
    else
        FOR_EACH_ELEMENT(l, at, to) out[to] = all ? out[to] && is_true(x, at) : out[to] || is_true(x, at);
    return NULL;
}

static weft_status run_all(const kernel_call *c) {
    return run_truth(c, true);
}
static weft_status run_any(const kernel_call *c) {
    return run_truth(c, false);
}

const kernel kernel_reduce_all = {prepare_truth, run_all};
const kernel kernel_reduce_any = {prepare_truth, run_any};
