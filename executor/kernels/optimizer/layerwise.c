/* layerwise.c: optimizers that scale each parameter's step by the ratio of its norm to the step's: LAMB (You et al.,
 * 2020) and LARS (You et al., 2017). Norms are summed in double.
 *
 *   lamb   m, v as Adam's, without bias;  d = m' / (sqrt(v') + epsilon) + weight_decay * param;  param -= rate *
 * |param| / |d| * d The ratio is 1 where a norm is 0, and without weight decay unless always_adapt. lars   local = rate
 * * coeff * |param| / (|g| + decay * |param| + epsilon), or rate where decay or a norm is 0; v = mu v + local * (g +
 * decay * param),  param -= v
 *
 * Sources: phi/kernels/impl/lamb_kernel_impl.h, phi/kernels/cpu/lars_momentum_kernel.cc. */
#include <math.h>

#include "executor/kernels/optimizer/optimizer.h"

static weft_status check_pair(kernel_prepare *p, const tensor *like, const tensor *in, const tensor *out,
                              const char *what) {
    TRY(require_numel(p, in, like->numel, what));
    TRY(require_numel(p, out, like->numel, what));
    TRY(require_same_dtype(p, like, in, what));
    return require_same_dtype(p, like, out, what);
}

/* Full precision. */
static weft_status check_full(kernel_prepare *p, const tensor *param, const tensor *grad) {
    TRY(require_real(p, param, "Param"));
    return update_prepare(p, param, grad, NULL);
}

static weft_status check_dense(kernel_prepare *p, const tensor *param, const tensor *grad) {
    TRY(check_full(p, param, grad));
    return grad->height < 0 ? NULL : kernel_unsupported(p, "expected a dense Grad, found rows");
}

#define DEFINE_NORM(dtype, suffix, real)                                                                               \
    static double norm_##suffix(int64_t n, const real *x) {                                                            \
        double sum = 0;                                                                                                \
        for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];                                            \
        return sqrt(sum);                                                                                              \
    }
REAL_TYPES(DEFINE_NORM)
#undef DEFINE_NORM

/* --- lamb --------------------------------------------------------------------------------------------------------- */

enum { LAMB_PARAM, LAMB_GRAD, LAMB_RATE, LAMB_MOMENT1, LAMB_MOMENT2, LAMB_POW1, LAMB_POW2, LAMB_MASTER, LAMB_SKIP };
enum { LAMB_OUT_PARAM, LAMB_OUT_MOMENT1, LAMB_OUT_MOMENT2, LAMB_OUT_POW1, LAMB_OUT_POW2 };

typedef struct lamb_rule {
    double beta1, beta2, epsilon, weight_decay;
    bool always_adapt;
} lamb_rule;

static weft_status prepare_lamb(kernel_prepare *p) {
    lamb_rule *rule = KERNEL_STATE(p, lamb_rule);
    if (!rule) return base_out_of_memory();
    const tensor *param = type_in(p, LAMB_PARAM);
    TRY(check_full(p, param, type_in(p, LAMB_GRAD)));
    TRY(check_pair(p, param, param, type_out(p, LAMB_OUT_PARAM), "ParamOut"));
    TRY(check_pair(p, param, type_in(p, LAMB_MOMENT1), type_out(p, LAMB_OUT_MOMENT1), "Moment1"));
    TRY(check_pair(p, param, type_in(p, LAMB_MOMENT2), type_out(p, LAMB_OUT_MOMENT2), "Moment2"));
    TRY(require_present(p, type_in(p, LAMB_RATE), "LearningRate"));
    TRY(require_present(p, type_in(p, LAMB_POW1), "Beta1Pow"));
    TRY(require_present(p, type_in(p, LAMB_POW2), "Beta2Pow"));
    *rule = (lamb_rule){attr_float(p->op, "beta1", 0.9), attr_float(p->op, "beta2", 0.999),
                        attr_float(p->op, "epsilon", 1e-6), attr_float(p->op, "weight_decay", 0),
                        attr_bool(p->op, "always_adapt", false)};
    p->workspace_nbytes = tensor_nbytes(param) + dense_gradient_nbytes(param, type_in(p, LAMB_GRAD)); /* d, rows */
    return NULL;
}

#define DEFINE_LAMB(dtype, suffix, real)                                                                               \
    static void lamb_##suffix(const kernel_call *c, const lamb_rule *rule, const void *grad, double rate, double pow1,  \
                              double pow2) {                                                                           \
        real *restrict param = arg_out(c, LAMB_OUT_PARAM)->data, *restrict d = c->workspace;                           \
        real *restrict m = arg_out(c, LAMB_OUT_MOMENT1)->data, *restrict v = arg_out(c, LAMB_OUT_MOMENT2)->data;       \
        const real *restrict g = grad;                                                                                 \
        real b1 = (real)rule->beta1, b2 = (real)rule->beta2, epsilon = (real)rule->epsilon;                            \
        real decay = (real)rule->weight_decay, fix1 = (real)(1 / (1 - pow1)), fix2 = (real)(1 / (1 - pow2));           \
        int64_t n = arg_out(c, LAMB_OUT_PARAM)->numel;                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            m[i] = b1 * m[i] + (1 - b1) * g[i];                                                                        \
            v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];                                                                 \
            d[i] = m[i] * fix1 / ((real)sqrt((double)(v[i] * fix2)) + epsilon) + decay * param[i];                     \
        }                                                                                                              \
        double of_param = norm_##suffix(n, param), of_step = norm_##suffix(n, d);                                      \
        bool adapts = (rule->weight_decay > 0 || rule->always_adapt) && of_param > 0 && of_step > 0;                   \
        real scale = (real)(rate * (adapts ? of_param / of_step : 1));                                                 \
        for (int64_t i = 0; i < n; i++) param[i] -= scale * d[i];                                                      \
    }
REAL_TYPES(DEFINE_LAMB)
#undef DEFINE_LAMB

static weft_status run_lamb(const kernel_call *c) {
    const lamb_rule *rule = c->state;
    const tensor *skip = arg_in(c, LAMB_SKIP);
    tensor *pow1 = arg_out(c, LAMB_OUT_POW1), *pow2 = arg_out(c, LAMB_OUT_POW2);
    double at1 = host_scalar(c, arg_in(c, LAMB_POW1)), at2 = host_scalar(c, arg_in(c, LAMB_POW2));
    bool skips = skip && host_scalar(c, skip) != 0;
    start_from(arg_out(c, LAMB_OUT_PARAM), arg_in(c, LAMB_PARAM));
    start_from(arg_out(c, LAMB_OUT_MOMENT1), arg_in(c, LAMB_MOMENT1));
    start_from(arg_out(c, LAMB_OUT_MOMENT2), arg_in(c, LAMB_MOMENT2));
    double rate = host_scalar(c, arg_in(c, LAMB_RATE));
    const tensor *param = arg_in(c, LAMB_PARAM);
    const void *grad = NULL;
    TRY(dense_gradient(c, param, arg_in(c, LAMB_GRAD), (char *)c->workspace + tensor_nbytes(param), &grad));
    if (!skips && param->dtype == WEFT_FP64) lamb_fp64(c, rule, grad, rate, at1, at2);
    if (!skips && param->dtype == WEFT_FP32) lamb_fp32(c, rule, grad, rate, at1, at2);
    if (pow1) fill_elements(pow1->dtype, pow1->data, 1, skips ? at1 : at1 * rule->beta1);
    if (pow2) fill_elements(pow2->dtype, pow2->data, 1, skips ? at2 : at2 * rule->beta2);
    return NULL;
}

const kernel kernel_lamb = {prepare_lamb, run_lamb};

/* --- lars_momentum ------------------------------------------------------------------------------------------------ */

enum { LARS_PARAM, LARS_GRAD, LARS_VELOCITY, LARS_RATE, LARS_OUT_PARAM = 0, LARS_OUT_VELOCITY };

typedef struct lars_rule {
    double mu, coeff, epsilon;
    size_t ndecays;
    const double *decays;
} lars_rule;

static weft_status prepare_lars(kernel_prepare *p) {
    lars_rule *rule = KERNEL_STATE(p, lars_rule);
    if (!rule) return base_out_of_memory();
    uint32_t n = p->in_first[1], nrates = p->in_first[LARS_RATE + 1] - p->in_first[LARS_RATE];
    for (int s = LARS_PARAM; s <= LARS_VELOCITY; s++)
        if (p->in_first[s + 1] - p->in_first[s] != n || (s < 2 && p->out_first[s + 1] - p->out_first[s] != n))
            return kernel_unsupported(p, "expected %u parameters, gradients and velocities", n);
    if (nrates != n && nrates != 1) return kernel_unsupported(p, "expected a LearningRate for each parameter");
    rule->mu = attr_float(p->op, "mu", 0.9);
    rule->coeff = attr_float(p->op, "lars_coeff", 0.001);
    rule->epsilon = attr_float(p->op, "epsilon", 0);
    const double *decays = attr_floats(p->op, "lars_weight_decay", &rule->ndecays);
    if (rule->ndecays != n && rule->ndecays != 1)
        return kernel_unsupported(p, "expected lars_weight_decay for each of %u parameters, found %zu", n,
                                  rule->ndecays);
    rule->decays = arena_copy(p->arena, decays, rule->ndecays * sizeof *decays);
    if (!rule->decays) return base_out_of_memory();
    for (uint32_t k = 0; k < n; k++) {
        const tensor *param = &p->in[k], *grad = &p->in[p->in_first[LARS_GRAD] + k];
        TRY(check_dense(p, param, grad));
        TRY(check_pair(p, param, param, &p->out[k], "ParamOut"));
        TRY(check_pair(p, param, &p->in[p->in_first[LARS_VELOCITY] + k], &p->out[p->out_first[LARS_OUT_VELOCITY] + k],
                       "Velocity"));
    }
    return NULL;
}

#define DEFINE_LARS(dtype, suffix, real)                                                                               \
    static void lars_##suffix(const lars_rule *rule, double decay, double rate, int64_t n, real *restrict param,       \
                              const real *restrict grad, real *restrict velocity) {                                    \
        double of_param = norm_##suffix(n, param), of_grad = norm_##suffix(n, grad), local = rate;                     \
        if (decay > 0 && of_param > 0 && of_grad > 0)                                                                  \
            local = rate * rule->coeff * of_param / (of_grad + decay * of_param + rule->epsilon);                      \
        real step = (real)local, mu = (real)rule->mu, d = (real)decay;                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            velocity[i] = mu * velocity[i] + step * (grad[i] + d * param[i]);                                          \
            param[i] -= velocity[i];                                                                                   \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_LARS)
#undef DEFINE_LARS

static weft_status run_lars(const kernel_call *c) {
    const lars_rule *rule = c->state;
    uint32_t n = c->in_first[1], nrates = c->in_first[LARS_RATE + 1] - c->in_first[LARS_RATE];
    for (uint32_t k = 0; k < n; k++) {
        const tensor *grad = &c->in[c->in_first[LARS_GRAD] + k];
        tensor *param = &c->out[k], *velocity = &c->out[c->out_first[LARS_OUT_VELOCITY] + k];
        double rate = host_scalar(c, &c->in[c->in_first[LARS_RATE] + (nrates == 1 ? 0 : k)]);
        double decay = rule->decays[rule->ndecays == 1 ? 0 : k];
        start_from(param, &c->in[k]);
        start_from(velocity, &c->in[c->in_first[LARS_VELOCITY] + k]);
        if (param->dtype == WEFT_FP64)
            lars_fp64(rule, decay, rate, param->numel, param->data, grad->data, velocity->data);
        else
            lars_fp32(rule, decay, rate, param->numel, param->data, grad->data, velocity->data);
    }
    return NULL;
}

const kernel kernel_lars_momentum = {prepare_lars, run_lars};
