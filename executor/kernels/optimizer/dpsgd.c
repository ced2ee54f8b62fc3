/* dpsgd.c: gradient descent with differential privacy (Abadi et al., 2016): the gradient is scaled down to a norm of at
 * most `clip`, and noise is added: param -= rate * (grad / max(1, |grad| / clip) + noise / batch_size).
 *
 * As in Paddle (phi/kernels/cpu/dpsgd_kernel.cc) one number is drawn for all elements of a step; with a seed other than
 * 0 the same in every step. */
#include <math.h>

#include "executor/kernels/fill/random.h"
#include "executor/kernels/accumulate.h"
#include "executor/kernels/optimizer/optimizer.h"

enum { IN_PARAM, IN_GRAD, IN_RATE };

typedef struct dpsgd_rule {
    double clip, batch, sigma;
    int64_t seed;
} dpsgd_rule;

typedef struct dpsgd_step {
    double rate, scale, noise;
} dpsgd_step;

#define DEFINE_STEP(dtype, suffix, real)                                                                               \
    static void step_##suffix(const void *state, const update *u) {                                                    \
        const dpsgd_step *s = state;                                                                                   \
        real *restrict param = u->param;                                                                               \
        const real *restrict grad = u->grad;                                                                           \
        real rate = (real)s->rate, scale = (real)s->scale, noise = (real)s->noise;                                     \
        for (int64_t i = 0; i < u->n; i++) param[i] -= rate * (grad[i] / scale + noise);                               \
    }
REAL_TYPES(DEFINE_STEP)
#undef DEFINE_STEP

static weft_status prepare(kernel_prepare *p) {
    dpsgd_rule *rule = KERNEL_STATE(p, dpsgd_rule);
    if (!rule) return base_out_of_memory();
    const tensor *param = type_in(p, IN_PARAM), *grad = type_in(p, IN_GRAD);
    TRY(require_real(p, param, "Param"));
    TRY(update_prepare(p, param, grad, NULL));
    if (grad->height >= 0) return kernel_unsupported(p, "expected a dense Grad, found rows");
    TRY(require_present(p, type_in(p, IN_RATE), "LearningRate"));
    TRY(require_numel(p, type_out(p, 0), param->numel, "ParamOut"));
    *rule = (dpsgd_rule){attr_float(p->op, "clip", 10), attr_float(p->op, "batch_size", 16),
                         attr_float(p->op, "sigma", 1), attr_int(p->op, "seed", 0)};
    return rule->batch > 0 ? NULL : kernel_unsupported(p, "batch_size: expected above 0, found %g", rule->batch);
}

static double normal_of(random_key key) {
    uint32_t bits[4];
    philox(key.seed, key.op_seed, key.step, 0, bits);
    return sqrt(-2 * log(random_above_zero(bits[0]))) * cos(0x1.921fb54442d18p+2 * (double)random_unit(bits[1]));
}

static weft_status run(const kernel_call *c) {
    const dpsgd_rule *rule = c->state;
    const tensor *grad = arg_in(c, IN_GRAD);
    double norm = sqrt(sum_of_squares(grad->dtype, grad->numel, grad->data));
    dpsgd_step s = {host_scalar(c, arg_in(c, IN_RATE)), norm > rule->clip ? norm / rule->clip : 1, 0};
    if (rule->sigma != 0) s.noise = rule->sigma * normal_of(random_key_of(c, rule->seed)) / rule->batch;
    start_from(arg_out(c, 0), arg_in(c, IN_PARAM));
    update u = {.grad = grad->data};
    update_apply(c, arg_out(c, 0), grad, NULL, &s, u, step_fp32, step_fp64);
    return NULL;
}

const kernel kernel_dpsgd = {prepare, run};
