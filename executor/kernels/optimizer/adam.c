/* adam.c: Adam and AdamW (Kingma and Ba, 2015; Loshchilov and Hutter, 2019), as phi/kernels/cpu/adam_kernel.cc writes
 * them:
 *
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g g
 *   param -= rate sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon sqrt(1 - b2^t))
 *
 * with b^t from Beta1Pow and Beta2Pow, which are multiplied on after. AdamW first shrinks the parameter by rate *
 * lr_ratio * coeff; here, as on Paddle's CPU, lr_ratio scales nothing else. amsgrad divides by the root of the largest
 * v so far. lazy_mode updates those rows alone that a gradient by rows has. SkipUpdate leaves everything as it was.
 * With a gradient by rows Paddle multiplies the powers on before the step, so that it is corrected for t + 1. */
#include <math.h>

#include "executor/kernels/optimizer/optimizer.h"

enum {
    IN_PARAM,
    IN_GRAD,
    IN_RATE,
    IN_MOMENT1,
    IN_MOMENT2,
    IN_BETA1_POW,
    IN_BETA2_POW,
    IN_MOMENT2_MAX,
    IN_MASTER,
    IN_BETA1,
    IN_BETA2,
    IN_EPSILON,
    IN_SKIP
};
enum { OUT_PARAM, OUT_MOMENT1, OUT_MOMENT2, OUT_BETA1_POW, OUT_BETA2_POW, OUT_MOMENT2_MAX, OUT_MASTER };

typedef struct adam_rule {
    double beta1, beta2, epsilon;
    double decay;        /* AdamW: coeff * lr_ratio, else 0 */
    double rate, shrink; /* of one step: bias-corrected rate, and what the parameter is multiplied with */
    bool amsgrad, lazy, global_pow;
} adam_rule;

static weft_status check_moment(kernel_prepare *p, const tensor *like, int in, int out, const char *what) {
    TRY(require_numel(p, type_in(p, in), like->numel, what));
    TRY(require_numel(p, type_out(p, out), like->numel, what));
    return require_same_dtype(p, like, type_in(p, in), what);
}

static weft_status prepare_rule(kernel_prepare *p, double decay) {
    adam_rule *rule = KERNEL_STATE(p, adam_rule);
    if (!rule) return base_out_of_memory();
    const tensor *param = type_in(p, IN_PARAM), *grad = type_in(p, IN_GRAD), *master = type_in(p, IN_MASTER);
    TRY(update_prepare(p, param, grad, master));
    rule->beta1 = attr_float(p->op, "beta1", 0.9);
    rule->beta2 = attr_float(p->op, "beta2", 0.999);
    rule->epsilon = attr_float(p->op, "epsilon", 1e-8);
    rule->amsgrad = attr_bool(p->op, "amsgrad", false);
    rule->lazy = attr_bool(p->op, "lazy_mode", false);
    rule->global_pow = attr_bool(p->op, "use_global_beta_pow", false);
    rule->decay = decay;
    const tensor *computed = dtype_is_half(param->dtype) ? master : param;
    if (computed == master) TRY(require_present(p, type_out(p, OUT_MASTER), "MasterParamOut"));
    TRY(require_present(p, type_out(p, OUT_PARAM), "ParamOut"));
    TRY(check_moment(p, computed, IN_MOMENT1, OUT_MOMENT1, "Moment1"));
    TRY(check_moment(p, computed, IN_MOMENT2, OUT_MOMENT2, "Moment2"));
    if (rule->amsgrad) TRY(check_moment(p, computed, IN_MOMENT2_MAX, OUT_MOMENT2_MAX, "Moment2Max"));
    TRY(require_present(p, type_in(p, IN_RATE), "LearningRate"));
    TRY(require_present(p, type_in(p, IN_BETA1_POW), "Beta1Pow"));
    TRY(require_present(p, type_in(p, IN_BETA2_POW), "Beta2Pow"));
    /* A dense gradient, and which rows it has. */
    size_t dense = dense_gradient_nbytes(param, grad);
    p->workspace_nbytes = dense + (dense ? (size_t)param->dims[0] : 0);
    return NULL;
}

static weft_status prepare_adam(kernel_prepare *p) {
    return prepare_rule(p, 0);
}

static weft_status prepare_adamw(kernel_prepare *p) {
    bool decays = attr_bool(p->op, "with_decay", false);
    return prepare_rule(p, decays ? attr_float(p->op, "coeff", 0.01) * attr_float(p->op, "lr_ratio", 1) : 0);
}

static float root_fp32(float x) {
    return sqrtf(x);
}
static double root_fp64(double x) {
    return sqrt(x);
}

#define DEFINE_ADAM(dtype, suffix, real)                                                                               \
    static void adam_##suffix(const void *state, const update *u) {                                                    \
        const adam_rule *rule = state;                                                                                 \
        real b1 = (real)rule->beta1, b2 = (real)rule->beta2, c1 = (real)(1 - rule->beta1);                             \
        real c2 = (real)(1 - rule->beta2), rate = (real)rule->rate, shrink = (real)rule->shrink;                       \
        real epsilon = (real)rule->epsilon, *restrict param = u->param;                                                \
        real *restrict moment1 = u->moments[0], *restrict moment2 = u->moments[1];                                     \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real g = grad[i], m = b1 * moment1[i] + c1 * g, v = b2 * moment2[i] + c2 * g * g;                          \
            moment1[i] = m;                                                                                            \
            moment2[i] = v;                                                                                            \
            param[i] = shrink * param[i] - rate * (m / (root_##suffix(v) + epsilon));                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void amsgrad_##suffix(const void *state, const update *u) {                                                 \
        const adam_rule *rule = state;                                                                                 \
        real b1 = (real)rule->beta1, b2 = (real)rule->beta2, c1 = (real)(1 - rule->beta1);                             \
        real c2 = (real)(1 - rule->beta2), rate = (real)rule->rate, shrink = (real)rule->shrink;                       \
        real epsilon = (real)rule->epsilon, *restrict param = u->param, *restrict largest = u->moments[2];             \
        real *restrict moment1 = u->moments[0], *restrict moment2 = u->moments[1];                                     \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real g = grad[i], m = b1 * moment1[i] + c1 * g, v = b2 * moment2[i] + c2 * g * g;                          \
            real top = v > largest[i] ? v : largest[i];                                                                \
            moment1[i] = m;                                                                                            \
            moment2[i] = v;                                                                                            \
            largest[i] = top;                                                                                          \
            param[i] = shrink * param[i] - rate * (m / (root_##suffix(top) + epsilon));                                \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_ADAM)
#undef DEFINE_ADAM

/* The step's coefficients, from the tensors that override attrs and the powers so far. */
static adam_rule rule_of_step(const kernel_call *c) {
    adam_rule rule = *(const adam_rule *)c->state;
    if (arg_in(c, IN_BETA1)) rule.beta1 = host_scalar(c, arg_in(c, IN_BETA1));
    if (arg_in(c, IN_BETA2)) rule.beta2 = host_scalar(c, arg_in(c, IN_BETA2));
    if (arg_in(c, IN_EPSILON)) rule.epsilon = host_scalar(c, arg_in(c, IN_EPSILON));
    double rate = host_scalar(c, arg_in(c, IN_RATE));
    bool is_ahead = arg_in(c, IN_GRAD)->rows && !rule.global_pow;
    double correction = sqrt(1 - host_scalar(c, arg_in(c, IN_BETA2_POW)) * (is_ahead ? rule.beta2 : 1));
    rule.rate = rate * correction / (1 - host_scalar(c, arg_in(c, IN_BETA1_POW)) * (is_ahead ? rule.beta1 : 1));
    rule.epsilon *= correction;
    rule.shrink = 1 - rate * rule.decay;
    return rule;
}

static void advance_power(const kernel_call *c, int out, int in, double beta, bool keep) {
    tensor *power = arg_out(c, out);
    if (!power) return;
    double value = host_scalar(c, arg_in(c, in));
    fill_elements(power->dtype, power->data, 1, keep ? value : value * beta);
}

/* lazy_mode: one update a row that the gradient has. */
static void update_rows(const kernel_call *c, const tensor *param, const tensor *grad, const adam_rule *rule, update u,
                        step_fn step_fp32, step_fn step_fp64) {
    unsigned char *touched = (unsigned char *)c->workspace + tensor_nbytes(param);
    memset(touched, 0, (size_t)param->dims[0]);
    for (int64_t i = 0; i < grad->dims[0]; i++) touched[grad->rows[i]] = 1;
    int64_t width = param->numel / param->dims[0], nbytes = width * (int64_t)weft_dtype_nbytes(param->dtype);
    for (int64_t r = 0; r < param->dims[0]; r++) {
        if (!touched[r]) continue;
        update row = {.n = width, .param = (char *)param->data + r * nbytes, .grad = (const char *)u.grad + r * nbytes};
        for (int k = 0; k < MOMENTS; k++) row.moments[k] = u.moments[k] ? (char *)u.moments[k] + r * nbytes : NULL;
        (param->dtype == WEFT_FP64 ? step_fp64 : step_fp32)(rule, &row);
    }
}

static weft_status run(const kernel_call *c) {
    static const int pairs[][2] = {{OUT_PARAM, IN_PARAM},
                                   {OUT_MOMENT1, IN_MOMENT1},
                                   {OUT_MOMENT2, IN_MOMENT2},
                                   {OUT_MOMENT2_MAX, IN_MOMENT2_MAX},
                                   {OUT_MASTER, IN_MASTER}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        start_from(arg_out(c, pairs[i][0]), arg_in(c, pairs[i][1]));
    const tensor *skip = arg_in(c, IN_SKIP), *param = arg_out(c, OUT_PARAM), *grad = arg_in(c, IN_GRAD);
    bool skips = skip && host_scalar(c, skip) != 0;
    adam_rule rule = rule_of_step(c);
    if (!skips) {
        update u = {.moments = {arg_out(c, OUT_MOMENT1)->data, arg_out(c, OUT_MOMENT2)->data,
                                rule.amsgrad ? arg_out(c, OUT_MOMENT2_MAX)->data : NULL}};
        step_fn step_fp32 = rule.amsgrad ? amsgrad_fp32 : adam_fp32,
                step_fp64 = rule.amsgrad ? amsgrad_fp64 : adam_fp64;
        TRY(dense_gradient(c, param, grad, c->workspace, &u.grad));
        if (grad->rows && rule.lazy)
            update_rows(c, param, grad, &rule, u, step_fp32, step_fp64);
        else
            update_apply(c, param, grad, arg_out(c, OUT_MASTER), &rule, u, step_fp32, step_fp64);
    }
    advance_power(c, OUT_BETA1_POW, IN_BETA1_POW, rule.beta1, skips || rule.global_pow);
    advance_power(c, OUT_BETA2_POW, IN_BETA2_POW, rule.beta2, skips || rule.global_pow);
    return NULL;
}

const kernel kernel_adam = {prepare_adam, run};
const kernel kernel_adamw = {prepare_adamw, run};
