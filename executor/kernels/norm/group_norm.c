/* group_norm.c: normalisation of groups of channels of each sample, and of single channels (instance_norm), with
 * gradients.
 *
 * The formulas are layer_norm's, over a group; scale and bias belong to channels. group_norm's Variance is the
 * variance, instance_norm's SavedVariance is 1 / sqrt(variance + epsilon), as in Paddle. */
#include <math.h>

#include "executor/kernels/layout.h"

/* Element i of channel c of sample n is x[(n * channels + c) * plane + i], or x[(n * plane + i) * channels + c]. */
typedef struct group_state {
    int64_t batch, channels, plane, groups;
    int64_t sample_step, channel_step, element_step;
    double epsilon;
    bool saved_inverse;
} group_state;

static weft_status prepare_groups(kernel_prepare *p, const tensor *x, bool instances) {
    group_state *s = KERNEL_STATE(p, group_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    if (x->ndim < 2) return kernel_unsupported(p, "expected X of at least 2 dimensions, found %d", x->ndim);
    bool last = !instances && strcmp(attr_string(p->op, "data_layout", "NCHW"), "NHWC") == 0;
    s->batch = x->dims[0];
    s->channels = x->dims[last ? x->ndim - 1 : 1];
    s->plane = 1;
    for (int i = last ? 1 : 2; i < (last ? x->ndim - 1 : x->ndim); i++) s->plane *= x->dims[i];
    s->groups = instances ? s->channels : attr_int(p->op, "groups", 1);
    if (s->groups < 1 || s->channels % s->groups)
        return kernel_unsupported(p, "expected groups that divide %lld channels, found %lld", (long long)s->channels,
                                  (long long)s->groups);
    s->sample_step = s->channels * s->plane;
    s->channel_step = last ? 1 : s->plane;
    s->element_step = last ? s->channels : 1;
    s->epsilon = attr_float(p->op, "epsilon", 1e-5);
    s->saved_inverse = instances;
    return NULL;
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

enum { IN_X, IN_SCALE, IN_BIAS, OUT_Y = 0, OUT_MEAN, OUT_VARIANCE };

static weft_status prepare_forward(kernel_prepare *p, bool instances) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_groups(p, x, instances));
    const group_state *s = p->state;
    TRY(require_present(p, type_out(p, OUT_Y), "Y"));
    TRY(require_like(p, x, type_out(p, OUT_Y), x->numel, "Y"));
    TRY(require_like(p, x, type_in(p, IN_SCALE), s->channels, "Scale"));
    TRY(require_like(p, x, type_in(p, IN_BIAS), s->channels, "Bias"));
    TRY(require_like(p, x, type_out(p, OUT_MEAN), s->batch * s->groups, "Mean"));
    return require_like(p, x, type_out(p, OUT_VARIANCE), s->batch * s->groups, "Variance");
}

static weft_status prepare_group(kernel_prepare *p) {
    return prepare_forward(p, false);
}
static weft_status prepare_instance(kernel_prepare *p) {
    return prepare_forward(p, true);
}

#define DEFINE_FORWARD(dtype, suffix, real)                                                                            \
    static double sum_##suffix(const group_state *s, const real *x, double shift, bool squares) {                      \
        double sum = 0;                                                                                                \
        for (int64_t c = 0; c < s->channels / s->groups; c++)                                                          \
            for (int64_t i = 0; i < s->plane; i++) {                                                                   \
                double d = (double)x[c * s->channel_step + i * s->element_step] - shift;                               \
                sum += squares ? d * d : d;                                                                            \
            }                                                                                                          \
        return sum;                                                                                                    \
    }                                                                                                                  \
    static void forward_##suffix(const kernel_call *call, const group_state *s) {                                      \
        const real *x = arg_in(call, IN_X)->data, *scale = data_or_null(arg_in(call, IN_SCALE));                       \
        const real *bias = data_or_null(arg_in(call, IN_BIAS));                                                        \
        real *y = arg_out(call, OUT_Y)->data, *means = data_or_null(arg_out(call, OUT_MEAN));                          \
        real *variances = data_or_null(arg_out(call, OUT_VARIANCE));                                                   \
        int64_t size = s->channels / s->groups;                                                                        \
        for (int64_t g = 0; g < s->batch * s->groups; g++) {                                                           \
            int64_t first = g % s->groups * size, at = g / s->groups * s->sample_step + first * s->channel_step;       \
            double mean = sum_##suffix(s, x + at, 0, false) / (double)(size * s->plane);                               \
            double variance = sum_##suffix(s, x + at, mean, true) / (double)(size * s->plane);                         \
            double r = 1 / sqrt(variance + s->epsilon);                                                                \
            if (means) means[g] = (real)mean;                                                                          \
            if (variances) variances[g] = (real)(s->saved_inverse ? r : variance);                                     \
            for (int64_t c = 0; c < size; c++) {                                                                       \
                real m = (real)mean, f = (real)(scale ? r * (double)scale[first + c] : r);                             \
                real b = bias ? bias[first + c] : 0;                                                                   \
                for (int64_t i = 0; i < s->plane; i++) {                                                               \
                    int64_t e = at + c * s->channel_step + i * s->element_step;                                        \
                    y[e] = (x[e] - m) * f + b;                                                                         \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_FORWARD)
#undef DEFINE_FORWARD

static weft_status run(const kernel_call *c) {
    if (arg_in(c, IN_X)->dtype == WEFT_FP64)
        forward_fp64(c, c->state);
    else
        forward_fp32(c, c->state);
    return NULL;
}

static weft_status prepare_aten(kernel_prepare *p) {
    TRY(prepare_forward(p, false));
    ((group_state *)p->state)->saved_inverse = true;
    return NULL;
}

const kernel kernel_aten_native_group_norm = {prepare_aten, run};
const kernel kernel_group_norm = {prepare_group, run};
const kernel kernel_instance_norm = {prepare_instance, run};

/* --- gradients ---------------------------------------------------------------------------------------------------- */

/* Input slots of instance_norm_grad; group_norm_grad has Y after X, and the others one further. */
enum { GRAD_IN_X, GRAD_IN_SCALE, GRAD_IN_BIAS, GRAD_IN_MEAN, GRAD_IN_VARIANCE, GRAD_IN_DY };
enum { OUT_DX, OUT_DSCALE, OUT_DBIAS };

typedef struct group_grad {
    group_state s;
    int scale, mean, variance, dy; /* input slots */
} group_grad;

static weft_status check_gradient(kernel_prepare *p, group_grad slots) {
    const tensor *x = type_in(p, GRAD_IN_X);
    group_state s = slots.s;
    group_grad *g = KERNEL_STATE(p, group_grad);
    if (!g) return base_out_of_memory();
    *g = slots;
    TRY(require_present(p, type_in(p, g->dy), "Y@GRAD"));
    TRY(require_like(p, x, type_in(p, g->dy), x->numel, "Y@GRAD"));
    TRY(require_like(p, x, type_in(p, g->scale), s.channels, "Scale"));
    TRY(require_present(p, type_in(p, g->mean), "the mean"));
    TRY(require_present(p, type_in(p, g->variance), "the variance"));
    TRY(require_like(p, x, type_in(p, g->mean), s.batch * s.groups, "the mean"));
    TRY(require_like(p, x, type_in(p, g->variance), s.batch * s.groups, "the variance"));
    TRY(require_like(p, x, type_out(p, OUT_DX), x->numel, "X@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_DSCALE), s.channels, "Scale@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_DBIAS), s.channels, "Bias@GRAD"));
    p->workspace_nbytes = 2 * (size_t)s.channels * sizeof(double); /* dscale, dbias */
    return NULL;
}

static weft_status prepare_gradient(kernel_prepare *p, bool instances) {
    TRY(prepare_groups(p, type_in(p, GRAD_IN_X), instances));
    group_state s = *(const group_state *)p->state;
    int y = instances ? 0 : 1;
    return check_gradient(p,
                          (group_grad){s, GRAD_IN_SCALE + y, GRAD_IN_MEAN + y, GRAD_IN_VARIANCE + y, GRAD_IN_DY + y});
}

/* input, weight, mean, rstd, grad_out */
static weft_status prepare_aten_grad(kernel_prepare *p) {
    TRY(prepare_groups(p, type_in(p, GRAD_IN_X), false));
    group_state s = *(const group_state *)p->state;
    s.saved_inverse = true;
    return check_gradient(p, (group_grad){s, 1, 2, 3, 4});
}

static weft_status prepare_group_grad(kernel_prepare *p) {
    return prepare_gradient(p, false);
}
static weft_status prepare_instance_grad(kernel_prepare *p) {
    return prepare_gradient(p, true);
}

#define TEMPLATE "executor/kernels/norm/group_norm_real.h"
#include "executor/kernels/each_real.h"

static weft_status run_grad(const kernel_call *c) {
    if (arg_in(c, GRAD_IN_X)->dtype == WEFT_FP64)
        backward_fp64(c, c->state);
    else
        backward_fp32(c, c->state);
    return NULL;
}

const kernel kernel_aten_native_group_norm_backward = {prepare_aten_grad, run_grad};
const kernel kernel_group_norm_grad = {prepare_group_grad, run_grad};
const kernel kernel_instance_norm_grad = {prepare_instance_grad, run_grad};
