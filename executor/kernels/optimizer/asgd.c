/* asgd.c: stochastic average gradient, an op of Paddle 3. d is the sum of the last gradients of n batches, y the last
 * one of this batch: d += g - y, y = g, param -= rate / n d. Source: phi/kernels/cpu/asgd_kernel.cc. */
#include "executor/kernels/optimizer/optimizer.h"

enum { IN_PARAM, IN_GRAD, IN_RATE, IN_D, IN_Y, IN_N, IN_MASTER };
enum { OUT_PARAM, OUT_D, OUT_Y, OUT_MASTER };

#define DEFINE_RULE(dtype, suffix, real)                                                                               \
    static void step_##suffix(const void *rule, const update *u) {                                                     \
        real rate = (real) * (const double *)rule, *restrict param = u->param;                                         \
        real *restrict d = u->moments[0], *restrict y = u->moments[1];                                                 \
        const real *restrict grad = u->grad;                                                                           \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            d[i] += grad[i] - y[i];                                                                                    \
            y[i] = grad[i];                                                                                            \
            param[i] -= rate * d[i];                                                                                   \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_RULE)
#undef DEFINE_RULE

static weft_status prepare(kernel_prepare *p) {
    const tensor *param = type_in(p, IN_PARAM), *grad = type_in(p, IN_GRAD), *master = type_in(p, IN_MASTER);
    TRY(update_prepare(p, param, grad, master));
    if (grad->height >= 0) return kernel_unsupported(p, "expected a dense gradient, found rows");
    const tensor *computed = dtype_is_half(param->dtype) ? master : param;
    for (int k = 0; k < 2; k++) {
        const char *what = p->schema->inputs[IN_D + k].name;
        TRY(require_present(p, type_in(p, IN_D + k), what));
        TRY(require_present(p, type_out(p, OUT_D + k), what));
        TRY(require_like(p, computed, type_in(p, IN_D + k), param->numel, what));
        TRY(require_like(p, computed, type_out(p, OUT_D + k), param->numel, what));
    }
    TRY(require_numel(p, type_in(p, IN_RATE), 1, "learning_rate"));
    TRY(require_numel(p, type_in(p, IN_N), 1, "n"));
    if (dtype_is_half(param->dtype)) TRY(require_numel(p, type_out(p, OUT_MASTER), param->numel, "master_param_out"));
    return require_numel(p, type_out(p, OUT_PARAM), param->numel, "param_out");
}

static weft_status run(const kernel_call *c) {
    const tensor *param = arg_out(c, OUT_PARAM), *master = arg_out(c, OUT_MASTER);
    double rate = host_scalar(c, arg_in(c, IN_RATE)) / host_scalar(c, arg_in(c, IN_N));
    start_from(param, arg_in(c, IN_PARAM));
    start_from(arg_out(c, OUT_D), arg_in(c, IN_D));
    start_from(arg_out(c, OUT_Y), arg_in(c, IN_Y));
    start_from(master, arg_in(c, IN_MASTER));
    update u = {.grad = arg_in(c, IN_GRAD)->data, .moments = {arg_out(c, OUT_D)->data, arg_out(c, OUT_Y)->data}};
    update_apply(c, param, arg_in(c, IN_GRAD), master, &rate, u, step_fp32, step_fp64);
    return NULL;
}

const kernel kernel_asgd = {prepare, run};
