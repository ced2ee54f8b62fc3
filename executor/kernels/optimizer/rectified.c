/* rectified.c: RAdam, NAdam and Rprop, ops of Paddle 3.
 *
 *   radam   m, v as Adam's; rho_t = rho_inf - 2 t b2^t / (1 - b2^t). Where it is above 5 the step is
 *           rate * m / (1 - b1^t) * r_t * sqrt(1 - b2^t) / (sqrt(v) + epsilon), else rate * m / (1 - b1^t)
 *   nadam   Adam with Nesterov's look ahead: a rate of the first moment that grows with 0.96^(t * momentum_decay)
 *   rprop   a rate for each element, which grows while the sign of the gradient stays and shrinks when it turns
 *
 * Source: phi/kernels/impl/{radam,nadam}_kernel_impl.h, phi/kernels/cpu/rprop_kernel.cc. */
#include <math.h>

#include "executor/kernels/optimizer/optimizer.h"

typedef struct rectified_rule {
    double beta1, beta2, epsilon, decay;
    double rate, of_first, of_grad, second; /* of one step */
    double least, most, shrink, grow;       /* rprop */
    bool rectifies;
} rectified_rule;

/* The step is rate * (of_first m + of_grad g), over sqrt(v) * second + epsilon where `rectifies`. */
#define DEFINE_RULES(dtype, suffix, real)                                                                              \
    static void moments_##suffix(const void *state, const update *u) {                                                 \
        const rectified_rule *rule = state;                                                                            \
        real b1 = (real)rule->beta1, b2 = (real)rule->beta2, *restrict param = u->param;                               \
        real *restrict first = u->moments[0], *restrict square = u->moments[1];                                        \
        real rate = (real)rule->rate, cm = (real)rule->of_first, cg = (real)rule->of_grad;                             \
        real second = (real)rule->second, epsilon = (real)rule->epsilon;                                               \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real g = grad[i], m = b1 * first[i] + (1 - b1) * g, v = b2 * square[i] + (1 - b2) * g * g;                 \
            first[i] = m;                                                                                              \
            square[i] = v;                                                                                             \
            real below = rule->rectifies ? (real)sqrt((double)v) * second + epsilon : 1;                               \
            param[i] -= rate * (cm * m + cg * g) / below;                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    static void rprop_##suffix(const void *state, const update *u) {                                                   \
        const rectified_rule *rule = state;                                                                            \
        real *restrict param = u->param, *restrict prev = u->moments[0], *restrict rate = u->moments[1];               \
        real least = (real)rule->least, most = (real)rule->most;                                                       \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real g = grad[i], turn = g * prev[i];                                                                      \
            real r = rate[i] * (turn > 0 ? (real)rule->grow : turn < 0 ? (real)rule->shrink : 1);                      \
            r = r < least ? least : r > most ? most : r;                                                               \
            if (turn < 0) g = 0;                                                                                       \
            rate[i] = r;                                                                                               \
            param[i] -= (real)((g > 0) - (g < 0)) * r;                                                                 \
            prev[i] = g;                                                                                               \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_RULES)
#undef DEFINE_RULES

static weft_status prepare_update(kernel_prepare *p, int grad_slot, int master_slot, int master_out) {
    const tensor *param = type_in(p, 0), *grad = type_in(p, grad_slot), *master = type_in(p, master_slot);
    TRY(update_prepare(p, param, grad, master));
    if (grad->height >= 0) return kernel_unsupported(p, "expected a dense gradient, found rows");
    TRY(require_numel(p, type_out(p, 0), param->numel, "param_out"));
    return dtype_is_half(param->dtype) ? require_numel(p, type_out(p, master_out), param->numel, "master_param_out")
                                       : NULL;
}

static const tensor *computed(const kernel_prepare *p, int master_slot) {
    return dtype_is_half(type_in(p, 0)->dtype) ? type_in(p, master_slot) : type_in(p, 0);
}

static weft_status check_moment(kernel_prepare *p, const tensor *like, int in, int out, const char *what) {
    TRY(require_numel(p, type_in(p, in), like->numel, what));
    TRY(require_numel(p, type_out(p, out), like->numel, what));
    return require_same_dtype(p, like, type_in(p, in), what);
}

static weft_status prepare_betas(kernel_prepare *p) {
    rectified_rule *rule = KERNEL_STATE(p, rectified_rule);
    if (!rule) return base_out_of_memory();
    rule->beta1 = attr_float(p->op, "beta1", 0.9);
    rule->beta2 = attr_float(p->op, "beta2", 0.999);
    rule->epsilon = attr_float(p->op, "epsilon", 1e-8);
    rule->decay = attr_float(p->op, "momentum_decay", 0.004);
    return NULL;
}

static void set_scalar(const kernel_call *c, int out, double value) {
    tensor *t = arg_out(c, out);
    if (t) fill_elements(t->dtype, t->data, t->numel, value); /* Paddle keeps one for each element */
}

/* --- radam and nadam: two moments, and three scalars that each has of its own ------------------------------------ */

enum { TWO_PARAM, TWO_GRAD, TWO_RATE, TWO_SCALARS, TWO_M = 6, TWO_V, TWO_MASTER };
enum { TWO_OUT, TWO_OUT_SCALARS, TWO_OUT_M = 4, TWO_OUT_V, TWO_OUT_MASTER };

static weft_status prepare_two_moments(kernel_prepare *p) {
    TRY(prepare_betas(p));
    TRY(prepare_update(p, TWO_GRAD, TWO_MASTER, TWO_OUT_MASTER));
    TRY(check_moment(p, computed(p, TWO_MASTER), TWO_M, TWO_OUT_M, "moment1"));
    TRY(check_moment(p, computed(p, TWO_MASTER), TWO_V, TWO_OUT_V, "moment2"));
    for (int s = TWO_RATE; s < TWO_M; s++) TRY(require_present(p, type_in(p, s), p->schema->inputs[s].name));
    return NULL;
}

static void update_two_moments(const kernel_call *c, const rectified_rule *rule, const double *scalars) {
    const tensor *param = arg_out(c, TWO_OUT), *grad = arg_in(c, TWO_GRAD), *master = arg_out(c, TWO_OUT_MASTER);
    start_from(param, arg_in(c, TWO_PARAM));
    start_from(arg_out(c, TWO_OUT_M), arg_in(c, TWO_M));
    start_from(arg_out(c, TWO_OUT_V), arg_in(c, TWO_V));
    start_from(master, arg_in(c, TWO_MASTER));
    update u = {.grad = grad->data, .moments = {arg_out(c, TWO_OUT_M)->data, arg_out(c, TWO_OUT_V)->data}};
    update_apply(c, param, grad, master, rule, u, moments_fp32, moments_fp64);
    for (int k = 0; k < TWO_OUT_M - TWO_OUT_SCALARS; k++) set_scalar(c, TWO_OUT_SCALARS + k, scalars[k]);
}

enum { RADAM_POW1 = TWO_SCALARS, RADAM_POW2, RADAM_RHO };

static weft_status run_radam(const kernel_call *c) {
    rectified_rule rule = *(const rectified_rule *)c->state;
    double pow1 = host_scalar(c, arg_in(c, RADAM_POW1)) * rule.beta1, b2 = rule.beta2;
    double pow2 = host_scalar(c, arg_in(c, RADAM_POW2)) * b2, rho = host_scalar(c, arg_in(c, RADAM_RHO));
    double most = 2 / (1 - b2) - 1, kept = (rho * (b2 - pow2) + pow2) / (1 - pow2), now = most - 2 * kept;
    rule.rectifies = now > 5;
    double rectified = sqrt((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now)) * sqrt(1 - pow2);
    rule.rate = host_scalar(c, arg_in(c, TWO_RATE));
    rule.of_first = (rule.rectifies ? rectified : 1) / (1 - pow1);
    rule.second = 1;
    update_two_moments(c, &rule, (const double[]){pow1, pow2, kept});
    return NULL;
}

const kernel kernel_radam = {prepare_two_moments, run_radam};

enum { NADAM_DECAY = TWO_SCALARS, NADAM_POW2, NADAM_PRODUCT };

static weft_status run_nadam(const kernel_call *c) {
    rectified_rule rule = *(const rectified_rule *)c->state;
    double decay = host_scalar(c, arg_in(c, NADAM_DECAY)) * 0.96;
    double pow2 = host_scalar(c, arg_in(c, NADAM_POW2)) * rule.beta2;
    double mu = rule.beta1 * (1 - 0.5 * pow(decay, rule.decay));
    double next = rule.beta1 * (1 - 0.5 * pow(decay, rule.decay) * pow(0.96, rule.decay));
    double product = host_scalar(c, arg_in(c, NADAM_PRODUCT)) * mu;
    rule.rectifies = true;
    rule.rate = host_scalar(c, arg_in(c, TWO_RATE));
    rule.of_first = next / (1 - product * next);
    rule.of_grad = (1 - mu) / (1 - product);
    rule.second = 1 / sqrt(1 - pow2);
    update_two_moments(c, &rule, (const double[]){decay, pow2, product});
    return NULL;
}

const kernel kernel_nadam = {prepare_two_moments, run_nadam};

/* --- rprop -------------------------------------------------------------------------------------------------------- */

enum { RPROP_PARAM, RPROP_GRAD, RPROP_PREV, RPROP_RATE, RPROP_MASTER, RPROP_RANGE, RPROP_ETAS };
enum { RPROP_OUT, RPROP_OUT_PREV, RPROP_OUT_RATE, RPROP_OUT_MASTER };

static weft_status prepare_rprop(kernel_prepare *p) {
    TRY(prepare_betas(p));
    TRY(prepare_update(p, RPROP_GRAD, RPROP_MASTER, RPROP_OUT_MASTER));
    TRY(check_moment(p, computed(p, RPROP_MASTER), RPROP_PREV, RPROP_OUT_PREV, "prev"));
    TRY(check_moment(p, computed(p, RPROP_MASTER), RPROP_RATE, RPROP_OUT_RATE, "learning_rate"));
    TRY(require_numel(p, type_in(p, RPROP_RANGE), 2, "learning_rate_range"));
    return require_numel(p, type_in(p, RPROP_ETAS), 2, "etas");
}

static weft_status run_rprop(const kernel_call *c) {
    rectified_rule rule = *(const rectified_rule *)c->state;
    const tensor *param = arg_out(c, RPROP_OUT), *grad = arg_in(c, RPROP_GRAD), *master = arg_out(c, RPROP_OUT_MASTER);
    rule.least = host_scalar_at(c, arg_in(c, RPROP_RANGE), 0);
    rule.most = host_scalar_at(c, arg_in(c, RPROP_RANGE), 1);
    rule.shrink = host_scalar_at(c, arg_in(c, RPROP_ETAS), 0);
    rule.grow = host_scalar_at(c, arg_in(c, RPROP_ETAS), 1);
    start_from(param, arg_in(c, RPROP_PARAM));
    start_from(arg_out(c, RPROP_OUT_PREV), arg_in(c, RPROP_PREV));
    start_from(arg_out(c, RPROP_OUT_RATE), arg_in(c, RPROP_RATE));
    start_from(master, arg_in(c, RPROP_MASTER));
    update u = {.grad = grad->data, .moments = {arg_out(c, RPROP_OUT_PREV)->data, arg_out(c, RPROP_OUT_RATE)->data}};
    update_apply(c, param, grad, master, &rule, u, rprop_fp32, rprop_fp64);
    return NULL;
}

const kernel kernel_rprop = {prepare_rprop, run_rprop};
