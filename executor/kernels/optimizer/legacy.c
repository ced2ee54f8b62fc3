/* legacy.c: optimizers that are ops without a master copy: decayed AdaGrad, FTRL and proximal gradient
 * descent.
 *
 *   decayed_adagrad   m = decay m + (1 - decay) g^2,  param -= rate * g / (sqrt(m) + epsilon)
 *   ftrl              s = squares + g^2, linear += g - (s^-p - squares^-p) / rate * param with p = lr_power,
 *                     param = (l1 sign(linear) - linear) / (s^-p / rate + 2 l2), or 0 where |linear| <= l1
 *   proximal_gd       p = param - rate * g, param = sign(p) max(0, |p| - rate * l1) / (1 + rate * l2)
 *
 * Source: phi/kernels/impl/{decayed_adagrad,ftrl}_kernel_impl.h, with 1e-10 added to l1 and l2 as there;
 * fluid/operators/optimizers/proximal_gd_op.h. */
#include <math.h>

#include "executor/kernels/optimizer/optimizer.h"

typedef struct legacy_rule {
    double rate, epsilon, decay, l1, l2, power;
} legacy_rule;

#define DEFINE_RULES(dtype, suffix, real)                                                                              \
    static void decayed_##suffix(const void *state, const update *u) {                                                 \
        const legacy_rule *rule = state;                                                                               \
        real rate = (real)rule->rate, epsilon = (real)rule->epsilon, decay = (real)rule->decay;                        \
        real *restrict param = u->param, *restrict moment = u->moments[0];                                             \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real m = decay * moment[i] + (1 - decay) * grad[i] * grad[i];                                              \
            moment[i] = m;                                                                                             \
            param[i] -= rate * grad[i] / ((real)sqrt((double)m) + epsilon);                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void ftrl_##suffix(const void *state, const update *u) {                                                    \
        const legacy_rule *rule = state;                                                                               \
        real *restrict param = u->param, *restrict squares = u->moments[0], *restrict linear = u->moments[1];          \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            double g = (double)grad[i], old = (double)squares[i], s = old + g * g, p = -rule->power;                   \
            double root = p == 0.5 ? sqrt(s) : pow(s, p), old_root = p == 0.5 ? sqrt(old) : pow(old, p);               \
            double l = (double)linear[i] + g - (root - old_root) / rule->rate * (double)param[i];                      \
            double shrunk = (l > 0 ? rule->l1 - l : -rule->l1 - l) / (root / rule->rate + 2 * rule->l2);               \
            squares[i] = (real)s;                                                                                      \
            linear[i] = (real)l;                                                                                       \
            param[i] = fabs(l) > rule->l1 ? (real)shrunk : 0;                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void proximal_##suffix(const void *state, const update *u) {                                                \
        const legacy_rule *rule = state;                                                                               \
        real rate = (real)rule->rate, off = rate * (real)rule->l1, by = 1 + rate * (real)rule->l2;                     \
        real *restrict param = u->param;                                                                               \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real p = param[i] - rate * grad[i];                                                                        \
            param[i] = (off > 0 && p > 0   ? (p < off ? 0 : p - off)                                                   \
                        : off > 0 && p < 0 ? (p > -off ? 0 : p + off)                                                  \
                                           : p) /                                                                      \
                       by;                                                                                             \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_RULES)
#undef DEFINE_RULES

static weft_status check_moment(kernel_prepare *p, const tensor *param, int in, int out, const char *what) {
    TRY(require_numel(p, type_in(p, in), param->numel, what));
    TRY(require_numel(p, type_out(p, out), param->numel, what));
    return require_same_dtype(p, param, type_in(p, in), what);
}

static weft_status prepare_dense(kernel_prepare *p, int param_slot, int grad_slot, int rate_slot) {
    const tensor *param = type_in(p, param_slot), *grad = type_in(p, grad_slot);
    TRY(require_real(p, param, "Param"));
    TRY(update_prepare(p, param, grad, NULL));
    if (grad->height >= 0) return kernel_unsupported(p, "expected a dense Grad, found rows");
    TRY(require_present(p, type_in(p, rate_slot), "LearningRate"));
    return require_numel(p, type_out(p, 0), param->numel, "ParamOut");
}

/* --- decayed_adagrad ---------------------------------------------------------------------------------------------- */

enum { DECAYED_PARAM, DECAYED_GRAD, DECAYED_MOMENT, DECAYED_RATE, DECAYED_OUT_PARAM = 0, DECAYED_OUT_MOMENT };

static weft_status prepare_decayed(kernel_prepare *p) {
    legacy_rule *rule = KERNEL_STATE(p, legacy_rule);
    if (!rule) return base_out_of_memory();
    TRY(prepare_dense(p, DECAYED_PARAM, DECAYED_GRAD, DECAYED_RATE));
    TRY(check_moment(p, type_in(p, DECAYED_PARAM), DECAYED_MOMENT, DECAYED_OUT_MOMENT, "Moment"));
    rule->epsilon = attr_float(p->op, "epsilon", 1e-6);
    rule->decay = attr_float(p->op, "decay", 0.95);
    return NULL;
}

static weft_status run_decayed(const kernel_call *c) {
    const tensor *param = arg_out(c, DECAYED_OUT_PARAM), *moment = arg_out(c, DECAYED_OUT_MOMENT);
    legacy_rule rule = *(const legacy_rule *)c->state;
    rule.rate = host_scalar(c, arg_in(c, DECAYED_RATE));
    start_from(param, arg_in(c, DECAYED_PARAM));
    start_from(moment, arg_in(c, DECAYED_MOMENT));
    update u = {.grad = arg_in(c, DECAYED_GRAD)->data, .moments = {moment->data}};
    update_apply(c, param, arg_in(c, DECAYED_GRAD), NULL, &rule, u, decayed_fp32, decayed_fp64);
    return NULL;
}

/* --- ftrl --------------------------------------------------------------------------------------------------------- */

enum { FTRL_PARAM, FTRL_SQUARES, FTRL_LINEAR, FTRL_GRAD, FTRL_RATE };
enum { FTRL_OUT_PARAM, FTRL_OUT_SQUARES, FTRL_OUT_LINEAR };

static weft_status prepare_ftrl(kernel_prepare *p) {
    legacy_rule *rule = KERNEL_STATE(p, legacy_rule);
    if (!rule) return base_out_of_memory();
    TRY(prepare_dense(p, FTRL_PARAM, FTRL_GRAD, FTRL_RATE));
    TRY(check_moment(p, type_in(p, FTRL_PARAM), FTRL_SQUARES, FTRL_OUT_SQUARES, "SquaredAccumulator"));
    TRY(check_moment(p, type_in(p, FTRL_PARAM), FTRL_LINEAR, FTRL_OUT_LINEAR, "LinearAccumulator"));
    rule->l1 = attr_float(p->op, "l1", 0) + 1e-10;
    rule->l2 = attr_float(p->op, "l2", 0) + 1e-10;
    rule->power = attr_float(p->op, "lr_power", -0.5);
    return NULL;
}

static weft_status run_ftrl(const kernel_call *c) {
    const tensor *param = arg_out(c, FTRL_OUT_PARAM);
    legacy_rule rule = *(const legacy_rule *)c->state;
    rule.rate = host_scalar(c, arg_in(c, FTRL_RATE));
    start_from(param, arg_in(c, FTRL_PARAM));
    start_from(arg_out(c, FTRL_OUT_SQUARES), arg_in(c, FTRL_SQUARES));
    start_from(arg_out(c, FTRL_OUT_LINEAR), arg_in(c, FTRL_LINEAR));
    update u = {.grad = arg_in(c, FTRL_GRAD)->data,
                .moments = {arg_out(c, FTRL_OUT_SQUARES)->data, arg_out(c, FTRL_OUT_LINEAR)->data}};
    update_apply(c, param, arg_in(c, FTRL_GRAD), NULL, &rule, u, ftrl_fp32, ftrl_fp64);
    return NULL;
}

const kernel kernel_decayed_adagrad = {prepare_decayed, run_decayed};
const kernel kernel_ftrl = {prepare_ftrl, run_ftrl};

/* --- proximal_gd -------------------------------------------------------------------------------------------------- */

enum { PROXIMAL_PARAM, PROXIMAL_GRAD, PROXIMAL_RATE };

static weft_status prepare_proximal(kernel_prepare *p) {
    legacy_rule *rule = KERNEL_STATE(p, legacy_rule);
    if (!rule) return base_out_of_memory();
    TRY(prepare_dense(p, PROXIMAL_PARAM, PROXIMAL_GRAD, PROXIMAL_RATE));
    rule->l1 = attr_float(p->op, "l1", 0);
    rule->l2 = attr_float(p->op, "l2", 0);
    return NULL;
}

static weft_status run_proximal(const kernel_call *c) {
    const tensor *param = arg_out(c, 0), *grad = arg_in(c, PROXIMAL_GRAD);
    legacy_rule rule = *(const legacy_rule *)c->state;
    rule.rate = host_scalar(c, arg_in(c, PROXIMAL_RATE));
    start_from(param, arg_in(c, PROXIMAL_PARAM));
    update_apply(c, param, grad, NULL, &rule, (update){.grad = grad->data}, proximal_fp32, proximal_fp64);
    return NULL;
}

const kernel kernel_proximal_gd = {prepare_proximal, run_proximal};
