/* momentum.c: gradient descent with momentum, for one parameter, for many at once
 * (merged_momentum), and of some rows of the gradient (sparse_momentum).
 *
 *   velocity = mu * velocity + g,   param -= rate * velocity, or rate * (g + mu * velocity) with Nesterov
 *
 * with g the gradient plus decay * param where there is L2 regularization. rescale_grad is read by nobody: Paddle's CPU
 * kernel (phi/kernels/impl/momentum_kernel_impl.h) takes no notice of it either. */
#include "executor/kernels/optimizer/optimizer.h"

typedef struct momentum_rule {
    double rate, mu, decay;
    bool nesterov;
} momentum_rule;

#define DEFINE_MOMENTUM(dtype, suffix, real)                                                                           \
    static void momentum_##suffix(const void *rule, const update *u) {                                                 \
        const momentum_rule *m = rule;                                                                                 \
        real rate = (real)m->rate, mu = (real)m->mu, decay = (real)m->decay;                                           \
        real *restrict param = u->param, *restrict velocity = u->moments[0];                                           \
        const real *restrict grad = u->grad;                                                                           \
        if (!m->nesterov && decay == 0) {                                                                              \
            for (int64_t i = 0; i < u->n; i++) {                                                                       \
                velocity[i] = mu * velocity[i] + grad[i];                                                              \
                param[i] -= rate * velocity[i];                                                                        \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < u->n; i++) {                                                                           \
            real g = grad[i] + decay * param[i], v = mu * velocity[i] + g;                                             \
            velocity[i] = v;                                                                                           \
            param[i] -= m->nesterov ? rate * (g + mu * v) : rate * v;                                                  \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_MOMENTUM)
#undef DEFINE_MOMENTUM

/* One parameter's tensors. */
typedef struct momentum_args {
    const tensor *param, *grad, *velocity, *master, *rate; /* inputs; master may be NULL */
    const tensor *param_out, *velocity_out, *master_out;
} momentum_args;

static weft_status check_args(kernel_prepare *p, const momentum_args *a) {
    TRY(update_prepare(p, a->param, a->grad, a->master));
    TRY(require_numel(p, a->velocity, a->param->numel, "Velocity"));
    TRY(require_numel(p, a->velocity_out, a->param->numel, "VelocityOut"));
    TRY(require_numel(p, a->param_out, a->param->numel, "ParamOut"));
    TRY(require_present(p, a->rate, "LearningRate"));
    bool half = dtype_is_half(a->param->dtype);
    if (half) TRY(require_numel(p, a->master_out, a->param->numel, "MasterParamOut"));
    TRY(require_same_dtype(p, half ? a->master : a->param, a->velocity, "Velocity"));
    size_t nbytes = dense_gradient_nbytes(a->param, a->grad);
    if (nbytes > p->workspace_nbytes) p->workspace_nbytes = nbytes;
    return NULL;
}

static weft_status apply(const kernel_call *c, momentum_rule rule, const momentum_args *a) {
    rule.rate = host_scalar(c, a->rate);
    start_from(a->param_out, a->param);
    start_from(a->velocity_out, a->velocity);
    start_from(a->master_out, a->master);
    update u = {.moments = {a->velocity_out->data}};
    TRY(dense_gradient(c, a->param, a->grad, c->workspace, &u.grad));
    update_apply(c, a->param_out, a->grad, a->master_out, &rule, u, momentum_fp32, momentum_fp64);
    return NULL;
}

/* --- momentum ----------------------------------------------------------------------------------------------------- */

enum { IN_PARAM, IN_GRAD, IN_VELOCITY, IN_RATE, IN_MASTER, OUT_PARAM = 0, OUT_VELOCITY, OUT_MASTER };

static weft_status prepare(kernel_prepare *p) {
    momentum_rule *rule = KERNEL_STATE(p, momentum_rule);
    if (!rule) return base_out_of_memory();
    rule->mu = attr_float(p->op, "mu", 0.9);
    rule->nesterov = attr_bool(p->op, "use_nesterov", false);
    bool l2 = strcmp(attr_string(p->op, "regularization_method", ""), "l2_decay") == 0;
    rule->decay = l2 ? attr_float(p->op, "regularization_coeff", 0) : 0;
    momentum_args a = {type_in(p, IN_PARAM),      type_in(p, IN_GRAD),    type_in(p, IN_VELOCITY),
                       type_in(p, IN_MASTER),     type_in(p, IN_RATE),    type_out(p, OUT_PARAM),
                       type_out(p, OUT_VELOCITY), type_out(p, OUT_MASTER)};
    return check_args(p, &a);
}

static weft_status run(const kernel_call *c) {
    momentum_args a = {arg_in(c, IN_PARAM), arg_in(c, IN_GRAD),    arg_in(c, IN_VELOCITY),   arg_in(c, IN_MASTER),
                       arg_in(c, IN_RATE),  arg_out(c, OUT_PARAM), arg_out(c, OUT_VELOCITY), arg_out(c, OUT_MASTER)};
    return apply(c, *(const momentum_rule *)c->state, &a);
}

const kernel kernel_momentum = {prepare, run};

/* --- merged_momentum: lists of the same --------------------------------------------------------------------------- */

typedef struct merged_state {
    size_t count;
    momentum_rule rules[]; /* one a parameter */
} merged_state;

/* Argument k of a list, the first of a list of one, or NULL of an empty one. */
static const tensor *list_at(const tensor *args, const uint32_t *first, int s, uint32_t k) {
    uint32_t n = first[s + 1] - first[s];
    return n == 0 ? NULL : &args[first[s] + (k < n ? k : 0)];
}

static momentum_args args_of(const tensor *in, const uint32_t *in_first, const tensor *out, const uint32_t *out_first,
                             uint32_t k) {
    return (momentum_args){list_at(in, in_first, IN_PARAM, k),       list_at(in, in_first, IN_GRAD, k),
                           list_at(in, in_first, IN_VELOCITY, k),    list_at(in, in_first, IN_MASTER, k),
                           list_at(in, in_first, IN_RATE, k),        list_at(out, out_first, OUT_PARAM, k),
                           list_at(out, out_first, OUT_VELOCITY, k), list_at(out, out_first, OUT_MASTER, k)};
}

static weft_status check_lists(const kernel_prepare *p, uint32_t n) {
    for (int s = IN_PARAM; s <= IN_VELOCITY; s++)
        if (p->in_first[s + 1] - p->in_first[s] != n)
            return kernel_unsupported(p, "expected %u arguments in %s", n, p->schema->inputs[s].name);
    for (int s = OUT_PARAM; s <= OUT_VELOCITY; s++)
        if (p->out_first[s + 1] - p->out_first[s] != n)
            return kernel_unsupported(p, "expected %u arguments in %s", n, p->schema->outputs[s].name);
    uint32_t nrates = p->in_first[IN_RATE + 1] - p->in_first[IN_RATE];
    if (nrates == 1 || nrates == n) return NULL;
    return kernel_unsupported(p, "expected 1 or %u arguments in LearningRate, found %u", n, nrates);
}

static weft_status prepare_merged(kernel_prepare *p) {
    uint32_t n = p->in_first[IN_PARAM + 1];
    merged_state *s = p->state = arena_alloc(p->arena, sizeof *s + n * sizeof *s->rules);
    if (!s) return base_out_of_memory();
    size_t nmethods = 0, ncoefficients;
    const weft_attr *methods = op_find_attr(p->op, "regularization_method");
    const double *coefficients = attr_floats(p->op, "regularization_coeff", &ncoefficients);
    if (methods && methods->type == ATTR_STRINGS) nmethods = methods->count;
    s->count = n;
    TRY(check_lists(p, n));
    for (uint32_t k = 0; k < n; k++) {
        bool l2 = k < nmethods && k < ncoefficients && strcmp(methods->u.strings[k]->bytes, "l2_decay") == 0;
        s->rules[k] = (momentum_rule){.mu = attr_float(p->op, "mu", 0.9),
                                      .nesterov = attr_bool(p->op, "use_nesterov", false),
                                      .decay = l2 ? coefficients[k] : 0};
        momentum_args a = args_of(p->in, p->in_first, p->out, p->out_first, k);
        TRY(check_args(p, &a));
    }
    return NULL;
}

static weft_status run_merged(const kernel_call *c) {
    const merged_state *s = c->state;
    for (uint32_t k = 0; k < s->count; k++) {
        momentum_args a = args_of(c->in, c->in_first, c->out, c->out_first, k);
        TRY(apply(c, s->rules[k], &a));
    }
    return NULL;
}

const kernel kernel_merged_momentum = {prepare_merged, run_merged};

/* --- sparse_momentum ---------------------------------------------------------------------------------------------- */

/* Grad has the rows, or columns, that Index names, in any order. One that is named twice counts twice. */
enum { SPARSE_PARAM, SPARSE_GRAD, SPARSE_VELOCITY, SPARSE_INDEX, SPARSE_RATE, SPARSE_MASTER, SPARSE_AXIS };

typedef struct sparse_rule {
    momentum_rule rule;
    double scale;
    axis_split param, grad; /* around the axis */
} sparse_rule;

static weft_status prepare_sparse(kernel_prepare *p) {
    sparse_rule *s = KERNEL_STATE(p, sparse_rule);
    if (!s) return base_out_of_memory();
    const tensor *param = type_in(p, SPARSE_PARAM), *grad = type_in(p, SPARSE_GRAD), *index = type_in(p, SPARSE_INDEX);
    int64_t axis = attr_int(p->op, "axis", 0);
    TRY(require_real(p, param, "Param"));
    TRY(require_present(p, grad, "Grad"));
    TRY(require_same_dtype(p, param, grad, "Grad"));
    TRY(require_present(p, index, "Index"));
    TRY(require_integers(p, index, "Index"));
    TRY(require_present(p, type_in(p, SPARSE_RATE), "LearningRate"));
    if (type_in(p, SPARSE_MASTER) || type_in(p, SPARSE_AXIS))
        return kernel_unsupported(p, "expected neither MasterParam nor Axis");
    TRY(axis_split_prepare(p, param, axis, &s->param));
    TRY(axis_split_prepare(p, grad, axis, &s->grad));
    if (grad->ndim != param->ndim || s->grad.outer != s->param.outer || s->grad.inner != s->param.inner)
        return kernel_unsupported(p, "expected Grad that differs from Param along axis %lld alone", (long long)axis);
    TRY(require_numel(p, index, s->grad.extent, "Index"));
    TRY(require_like(p, param, type_in(p, SPARSE_VELOCITY), param->numel, "Velocity"));
    TRY(require_like(p, param, type_out(p, OUT_VELOCITY), param->numel, "VelocityOut"));
    TRY(require_like(p, param, type_out(p, OUT_PARAM), param->numel, "ParamOut"));
    bool l2 = strcmp(attr_string(p->op, "regularization_method", ""), "l2_decay") == 0;
    s->rule = (momentum_rule){0, attr_float(p->op, "mu", 0.9), l2 ? attr_float(p->op, "regularization_coeff", 0) : 0,
                              attr_bool(p->op, "use_nesterov", false)};
    s->scale = attr_float(p->op, "rescale_grad", 1);
    p->workspace_nbytes = tensor_nbytes(param);
    return NULL;
}

/* The gradient of the whole parameter: zeros where Index names none. */
static weft_status spread_gradient(const kernel_call *c, const sparse_rule *s, tensor *out) {
    const tensor *grad = arg_in(c, SPARSE_GRAD), *index = arg_in(c, SPARSE_INDEX);
    tensor_clear(out);
    for (int64_t i = 0; i < grad->numel; i++) {
        int64_t inner = i % s->grad.inner, k = i / s->grad.inner % s->grad.extent;
        int64_t outer = i / s->grad.inner / s->grad.extent, row = tensor_integer(index, k);
        if (row < 0 || row >= s->param.extent)
            return kernel_failed(c, "Index: expected 0 to %lld, found %lld", (long long)s->param.extent - 1,
                                 (long long)row);
        int64_t to = (outer * s->param.extent + row) * s->param.inner + inner;
        tensor_set_real(out, to, tensor_real(out, to) + s->scale * tensor_real(grad, i));
    }
    return NULL;
}

static weft_status run_sparse(const kernel_call *c) {
    const sparse_rule *s = c->state;
    const tensor *param = arg_out(c, OUT_PARAM), *velocity = arg_out(c, OUT_VELOCITY);
    momentum_rule rule = s->rule;
    tensor whole = *arg_in(c, SPARSE_PARAM);
    whole.data = c->workspace;
    rule.rate = host_scalar(c, arg_in(c, SPARSE_RATE));
    TRY(spread_gradient(c, s, &whole));
    start_from(param, arg_in(c, SPARSE_PARAM));
    start_from(velocity, arg_in(c, SPARSE_VELOCITY));
    update_apply(c, param, &whole, NULL, &rule, (update){.grad = whole.data, .moments = {velocity->data}},
                 momentum_fp32, momentum_fp64);
    return NULL;
}

const kernel kernel_sparse_momentum = {prepare_sparse, run_sparse};
