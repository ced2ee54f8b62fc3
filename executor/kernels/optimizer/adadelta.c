/* adadelta.c: steps scaled by past steps, or by the largest past gradient.
 *
 *   adadelta  s = rho s + (1 - rho) g^2,  d = g sqrt((q + epsilon) / (s + epsilon)),  q = rho q + (1 - rho) d^2,
 *             param -= rate * d
 *   adamax    m = beta1 m + (1 - beta1) g,  n = max(|g|, beta2 n + epsilon),  param -= rate / (1 - beta1^t) * m / n
 *
 * Of adamax the program itself keeps beta1^t. Source: phi/kernels/impl/{adadelta,adamax}_kernel_impl.h. */
#include <math.h>

#include "executor/kernels/optimizer/optimizer.h"

typedef struct rule {
    double rate, epsilon, decay, norm_decay;
} rule;

#define DEFINE_RULES(dtype, suffix, real, root, magnitude)                                                             \
    static void adadelta_##suffix(const void *state, const update *u) {                                                \
        const rule *r = state;                                                                                         \
        real rate = (real)r->rate, epsilon = (real)r->epsilon, rho = (real)r->decay, *restrict param = u->param;       \
        real *restrict square = u->moments[0], *restrict step = u->moments[1];                                         \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real s = rho * square[i] + (1 - rho) * grad[i] * grad[i];                                                  \
            real d = root((step[i] + epsilon) / (s + epsilon)) * grad[i];                                              \
            square[i] = s;                                                                                             \
            step[i] = rho * step[i] + (1 - rho) * d * d;                                                               \
            param[i] -= rate * d;                                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    static void adamax_##suffix(const void *state, const update *u) {                                                  \
        const rule *r = state;                                                                                         \
        real rate = (real)r->rate, epsilon = (real)r->epsilon, beta1 = (real)r->decay, beta2 = (real)r->norm_decay;    \
        real *restrict param = u->param, *restrict moment = u->moments[0], *restrict norm = u->moments[1];             \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real m = beta1 * moment[i] + (1 - beta1) * grad[i], past = beta2 * norm[i] + epsilon;                      \
            real g = magnitude(grad[i]), n = g > past ? g : past;                                                      \
            moment[i] = m;                                                                                             \
            norm[i] = n;                                                                                               \
            param[i] -= rate * (m / n);                                                                                \
        }                                                                                                              \
    }
DEFINE_RULES(WEFT_FP32, fp32, float, sqrtf, fabsf)
DEFINE_RULES(WEFT_FP64, fp64, double, sqrt, fabs)
#undef DEFINE_RULES

/* Where the slots of one of the two are: Param is the first of inputs and outputs, Grad the second input. */
typedef struct form {
    int rate, moments, master; /* inputs: the first of two moments */
    int out_moments, out_master;
} form;
enum { PARAM, GRAD, OUT_PARAM = 0 };
static const form adadelta_form = {.moments = 2, .rate = 4, .master = 5, .out_moments = 1, .out_master = 3};
static const form adamax_form = {.rate = 2, .moments = 3, .master = 6, .out_moments = 1, .out_master = 3};
enum { ADAMAX_IN_POWER = 5 };

static weft_status prepare(kernel_prepare *p, const form *f) {
    const tensor *param = type_in(p, PARAM), *grad = type_in(p, GRAD), *master = type_in(p, f->master);
    TRY(update_prepare(p, param, grad, master));
    const tensor *like = dtype_is_half(param->dtype) ? master : param;
    for (int m = 0; m < 2; m++) {
        TRY(require_numel(p, type_in(p, f->moments + m), like->numel, "moment"));
        TRY(require_numel(p, type_out(p, f->out_moments + m), like->numel, "moment"));
        TRY(require_same_dtype(p, like, type_in(p, f->moments + m), "moment"));
    }
    TRY(require_present(p, type_in(p, f->rate), "LearningRate"));
    TRY(require_numel(p, type_out(p, OUT_PARAM), param->numel, "ParamOut"));
    if (dtype_is_half(param->dtype)) TRY(require_numel(p, type_out(p, f->out_master), param->numel, "MasterParamOut"));
    p->workspace_nbytes = dense_gradient_nbytes(param, grad);
    return NULL;
}

static weft_status run(const kernel_call *c, const form *f, const rule *r, step_fn step_fp32, step_fn step_fp64) {
    const tensor *param = arg_out(c, OUT_PARAM), *grad = arg_in(c, GRAD), *master = arg_out(c, f->out_master);
    start_from(param, arg_in(c, PARAM));
    start_from(master, arg_in(c, f->master));
    update u = {0};
    for (int m = 0; m < 2; m++) {
        const tensor *moment = arg_out(c, f->out_moments + m);
        start_from(moment, arg_in(c, f->moments + m));
        u.moments[m] = moment->data;
    }
    TRY(dense_gradient(c, param, grad, c->workspace, &u.grad));
    update_apply(c, param, grad, master, r, u, step_fp32, step_fp64);
    return NULL;
}

static weft_status prepare_adadelta(kernel_prepare *p) {
    rule *r = KERNEL_STATE(p, rule);
    if (!r) return base_out_of_memory();
    *r = (rule){.epsilon = attr_float(p->op, "epsilon", 1e-6), .decay = attr_float(p->op, "rho", 0.95)};
    return prepare(p, &adadelta_form);
}

static weft_status run_adadelta(const kernel_call *c) {
    rule r = *(const rule *)c->state;
    r.rate = host_scalar(c, arg_in(c, adadelta_form.rate));
    return run(c, &adadelta_form, &r, adadelta_fp32, adadelta_fp64);
}

static weft_status prepare_adamax(kernel_prepare *p) {
    rule *r = KERNEL_STATE(p, rule);
    if (!r) return base_out_of_memory();
    *r = (rule){.epsilon = attr_float(p->op, "epsilon", 1e-8),
                .decay = attr_float(p->op, "beta1", 0.9),
                .norm_decay = attr_float(p->op, "beta2", 0.999)};
    TRY(require_present(p, type_in(p, ADAMAX_IN_POWER), "Beta1Pow"));
    return prepare(p, &adamax_form);
}

static weft_status run_adamax(const kernel_call *c) {
    rule r = *(const rule *)c->state;
    r.rate = host_scalar(c, arg_in(c, adamax_form.rate)) / (1 - host_scalar(c, arg_in(c, ADAMAX_IN_POWER)));
    return run(c, &adamax_form, &r, adamax_fp32, adamax_fp64);
}

const kernel kernel_adadelta = {prepare_adadelta, run_adadelta};
const kernel kernel_adamax = {prepare_adamax, run_adamax};
