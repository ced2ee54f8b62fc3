/* adagrad.c: rates divided by the root of past squares: all of them (AdaGrad), or a decaying mean of them (RMSProp).
 *
 *   adagrad   m += g^2,                       param -= rate * g / (sqrt(m) + epsilon)
 *   rmsprop   s = decay s + (1 - decay) g^2,  v = momentum v + rate * g / sqrt(s - c^2 + epsilon),  param -= v
 *
 * with c the decaying mean of g where RMSProp is centered, else 0. Source: phi/kernels/impl/rmsprop_kernel_impl.h. */
#include <math.h>

#include "executor/kernels/optimizer/optimizer.h"

typedef struct adagrad_rule {
    double rate, epsilon, decay, momentum;
    bool centered;
} adagrad_rule;

static float root_fp32(float x) {
    return sqrtf(x);
}
static double root_fp64(double x) {
    return sqrt(x);
}

#define DEFINE_RULES(dtype, suffix, real)                                                                              \
    static void adagrad_##suffix(const void *state, const update *u) {                                                 \
        const adagrad_rule *rule = state;                                                                              \
        real rate = (real)rule->rate, epsilon = (real)rule->epsilon, *restrict param = u->param;                       \
        real *restrict moment = u->moments[0];                                                                         \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real m = moment[i] + grad[i] * grad[i];                                                                    \
            moment[i] = m;                                                                                             \
            param[i] -= rate * grad[i] / (root_##suffix(m) + epsilon);                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void rmsprop_##suffix(const void *state, const update *u) {                                                 \
        const adagrad_rule *rule = state;                                                                              \
        real rate = (real)rule->rate, epsilon = (real)rule->epsilon, decay = (real)rule->decay;                        \
        real momentum = (real)rule->momentum, *restrict param = u->param, *restrict square = u->moments[0];            \
        real *restrict velocity = u->moments[1], *restrict center = u->moments[2];                                     \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real g = grad[i], s = decay * square[i] + (1 - decay) * g * g, c = 0;                                      \
            square[i] = s;                                                                                             \
            if (rule->centered) center[i] = c = decay * center[i] + (1 - decay) * g;                                   \
            velocity[i] = momentum * velocity[i] + rate * g / root_##suffix(s - c * c + epsilon);                      \
            param[i] -= velocity[i];                                                                                   \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_RULES)
#undef DEFINE_RULES

static weft_status check_moment(kernel_prepare *p, const tensor *like, int in, int out, const char *what) {
    TRY(require_numel(p, type_in(p, in), like->numel, what));
    TRY(require_numel(p, type_out(p, out), like->numel, what));
    return require_same_dtype(p, like, type_in(p, in), what);
}

/* What the update is computed on: the parameter, or its master copy. */
static const tensor *computed(const kernel_prepare *p, int param, int master) {
    return dtype_is_half(type_in(p, param)->dtype) ? type_in(p, master) : type_in(p, param);
}

/* --- adagrad ------------------------------------------------------------------------------------------------------ */

enum { ADA_PARAM, ADA_GRAD, ADA_MOMENT, ADA_RATE, ADA_MASTER, ADA_OUT_PARAM = 0, ADA_OUT_MOMENT, ADA_OUT_MASTER };

static weft_status prepare_adagrad(kernel_prepare *p) {
    adagrad_rule *rule = KERNEL_STATE(p, adagrad_rule);
    if (!rule) return base_out_of_memory();
    const tensor *param = type_in(p, ADA_PARAM), *grad = type_in(p, ADA_GRAD), *master = type_in(p, ADA_MASTER);
    TRY(update_prepare(p, param, grad, master));
    TRY(check_moment(p, computed(p, ADA_PARAM, ADA_MASTER), ADA_MOMENT, ADA_OUT_MOMENT, "Moment"));
    TRY(require_present(p, type_in(p, ADA_RATE), "LearningRate"));
    TRY(require_numel(p, type_out(p, ADA_OUT_PARAM), param->numel, "ParamOut"));
    if (dtype_is_half(param->dtype)) TRY(require_numel(p, type_out(p, ADA_OUT_MASTER), param->numel, "MasterParamOut"));
    rule->epsilon = attr_float(p->op, "epsilon", 1e-6);
    p->workspace_nbytes = dense_gradient_nbytes(param, grad);
    return NULL;
}

static weft_status run_adagrad(const kernel_call *c) {
    const tensor *param = arg_out(c, ADA_OUT_PARAM), *grad = arg_in(c, ADA_GRAD), *master = arg_out(c, ADA_OUT_MASTER);
    adagrad_rule rule = *(const adagrad_rule *)c->state;
    rule.rate = host_scalar(c, arg_in(c, ADA_RATE));
    start_from(param, arg_in(c, ADA_PARAM));
    start_from(arg_out(c, ADA_OUT_MOMENT), arg_in(c, ADA_MOMENT));
    start_from(master, arg_in(c, ADA_MASTER));
    update u = {.moments = {arg_out(c, ADA_OUT_MOMENT)->data}};
    TRY(dense_gradient(c, param, grad, c->workspace, &u.grad));
    update_apply(c, param, grad, master, &rule, u, adagrad_fp32, adagrad_fp64);
    return NULL;
}

const kernel kernel_adagrad = {prepare_adagrad, run_adagrad};

/* --- rmsprop ------------------------------------------------------------------------------------------------------ */

enum { RMS_PARAM, RMS_GRAD, RMS_MOMENT, RMS_SQUARE, RMS_CENTER, RMS_RATE, RMS_MASTER };
enum { RMS_OUT_PARAM, RMS_OUT_MOMENT, RMS_OUT_SQUARE, RMS_OUT_CENTER, RMS_OUT_MASTER };

static weft_status prepare_rmsprop(kernel_prepare *p) {
    adagrad_rule *rule = KERNEL_STATE(p, adagrad_rule);
    if (!rule) return base_out_of_memory();
    const tensor *param = type_in(p, RMS_PARAM), *grad = type_in(p, RMS_GRAD), *master = type_in(p, RMS_MASTER);
    TRY(update_prepare(p, param, grad, master));
    rule->centered = attr_bool(p->op, "centered", false);
    const tensor *like = computed(p, RMS_PARAM, RMS_MASTER);
    TRY(check_moment(p, like, RMS_MOMENT, RMS_OUT_MOMENT, "Moment"));
    TRY(check_moment(p, like, RMS_SQUARE, RMS_OUT_SQUARE, "MeanSquare"));
    if (rule->centered) TRY(check_moment(p, like, RMS_CENTER, RMS_OUT_CENTER, "MeanGrad"));
    TRY(require_present(p, type_in(p, RMS_RATE), "LearningRate"));
    TRY(require_numel(p, type_out(p, RMS_OUT_PARAM), param->numel, "ParamOut"));
    if (dtype_is_half(param->dtype)) TRY(require_numel(p, type_out(p, RMS_OUT_MASTER), param->numel, "MasterParamOut"));
    rule->epsilon = attr_float(p->op, "epsilon", 1e-10);
    rule->decay = attr_float(p->op, "decay", 0.9);
    rule->momentum = attr_float(p->op, "momentum", 0);
    p->workspace_nbytes = dense_gradient_nbytes(param, grad);
    return NULL;
}

static weft_status run_rmsprop(const kernel_call *c) {
    const tensor *param = arg_out(c, RMS_OUT_PARAM), *grad = arg_in(c, RMS_GRAD), *master = arg_out(c, RMS_OUT_MASTER);
    const tensor *center = arg_out(c, RMS_OUT_CENTER);
    adagrad_rule rule = *(const adagrad_rule *)c->state;
    rule.rate = host_scalar(c, arg_in(c, RMS_RATE));
    start_from(param, arg_in(c, RMS_PARAM));
    start_from(arg_out(c, RMS_OUT_MOMENT), arg_in(c, RMS_MOMENT));
    start_from(arg_out(c, RMS_OUT_SQUARE), arg_in(c, RMS_SQUARE));
    start_from(center, arg_in(c, RMS_CENTER));
    start_from(master, arg_in(c, RMS_MASTER));
    update u = {.moments = {arg_out(c, RMS_OUT_SQUARE)->data, arg_out(c, RMS_OUT_MOMENT)->data,
                            rule.centered ? center->data : NULL}};
    TRY(dense_gradient(c, param, grad, c->workspace, &u.grad));
    update_apply(c, param, grad, master, &rule, u, rmsprop_fp32, rmsprop_fp64);
    return NULL;
}

const kernel kernel_rmsprop = {prepare_rmsprop, run_rmsprop};
