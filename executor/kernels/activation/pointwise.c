/* pointwise.c: functions of one element with up to three parameters, and their gradients: what activation.c does for
 * functions without any. Half types are computed in fp32, block by block, and so are integers whose result is fp32.
 *
 * Conventions of Paddle that formulas alone do not show: round takes halves to even and clip's gradient passes at the
 * bounds, neither of which they did in Paddle 2 (ops/versions.def); the gradients of ceil, floor and round are 0;
 * softplus is the identity beyond its threshold; leaky_relu's gradient at 0 is 1. */
#include <math.h>

#include "executor/kernels/activation/pointwise.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/rows.h"
#include "executor/kernels/vector_math.h"

static inline float sigmoid_fp32(float x) {
    return 1 / (1 + vm_exp(-x));
}
static inline double sigmoid_fp64(double x) {
    return 1 / (1 + exp(-x));
}
static inline float softened_fp32(float x, float beta, float threshold) {
    return beta * x > threshold ? x : log1pf(expf(beta * x)) / beta;
}
static inline double softened_fp64(double x, double beta, double threshold) {
    return beta * x > threshold ? x : log1p(exp(beta * x)) / beta;
}
static inline double power(double x, double y) {
    return y == 2 ? x * x : y == 0 ? 1 : pow(x, y);
}
static inline double decimals(double x, double count) {
    double scale = pow(10, count);
    return rint(x * scale) / scale;
}

/* That of what is not a number is not one either. */
#define SIGN(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : (x) == 0 ? 0 : (x))
#define LEAKY_RELU_GRAD (x >= 0 ? g : x < 0 ? g * a : g * x)
#define HARD_SWISH_GRAD (x + c <= 0 ? g * 0 : x + c >= a ? g : g * (2 * x + c) / b)
#define CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))

/* F(name, fp32, fp64): forward, of x, a, b and c. */
#define FORWARD(F)                                                                                                     \
    F(ceil, ceilf(x), ceil(x))                                                                                         \
    F(floor, floorf(x), floor(x))                                                                                      \
    F(cos, cosf(x), cos(x))                                                                                            \
    F(sin, sinf(x), sin(x))                                                                                            \
    F(log1p, log1pf(x), log1p(x))                                                                                      \
    F(erf, erff(x), erf(x))                                                                                            \
    F(reciprocal, 1 / x, 1 / x)                                                                                        \
    F(rsqrt, 1 / sqrtf(x), 1 / sqrt(x))                                                                                \
    F(relu6, CLAMP(x, 0, a), CLAMP(x, 0, a))                                                                           \
    F(silu, x *sigmoid_fp32(x), x *sigmoid_fp64(x))                                                                    \
    F(swish, x *sigmoid_fp32(a *x), x *sigmoid_fp64(a *x))                                                             \
    F(softplus, softened_fp32(x, a, b), softened_fp64(x, a, b))                                                        \
    F(elu, x > 0 ? x : a * expm1f(x), x > 0 ? x : a * expm1(x))                                                        \
    F(leaky_relu, x > 0 ? x : a * x, x > 0 ? x : a * x)                                                                \
    F(hard_sigmoid, CLAMP(a *x + b, 0, 1), CLAMP(a *x + b, 0, 1))                                                      \
    F(hard_swish, x *CLAMP(x + c, 0, a) / b, x * CLAMP(x + c, 0, a) / b)

/* I(name, fp32, fp64, integers): those that integers have too. */
#define FORWARD_OF_INTEGERS(I)                                                                                         \
    I(sign, SIGN(x), SIGN(x), (x > 0) - (x < 0))                                                                       \
    I(pow, power((double)x, (double)a), power(x, a), power((double)x, p[0]))                                           \
    I(clip, CLAMP(x, a, b), CLAMP(x, a, b), CLAMP(x, a, b))

/* G(name, fp32, fp64): gradient, of g and x; x is X or Out, as the row in ops.def has it. */
#define BACKWARD(G)                                                                                                    \
    G(ceil, g * 0, g * 0)                                                                                              \
    G(floor, g * 0, g * 0)                                                                                             \
    G(round, g * 0, g * 0)                                                                                             \
    G(cos, -g *sinf(x), -g *sin(x))                                                                                    \
    G(sin, g *cosf(x), g *cos(x))                                                                                      \
    G(log1p, g / (1 + x), g / (1 + x))                                                                                 \
    G(erf, g * 1.12837917f * expf(-x * x), g * 1.1283791670955126 * exp(-x * x))                                       \
    G(reciprocal, -g *x *x, -g *x *x)                                                                                  \
    G(rsqrt, -0.5f * g * x * x * x, -0.5 * g * x * x * x)                                                              \
    G(relu6, x > 0 && x < a ? g : g * 0, x > 0 && x < a ? g : g * 0)                                                   \
    G(silu, g *sigmoid_fp32(x) * (1 + x * (1 - sigmoid_fp32(x))),                                                      \
      g * sigmoid_fp64(x) * (1 + x * (1 - sigmoid_fp64(x))))                                                           \
    G(swish, g *sigmoid_fp32(a *x) * (1 + a * x * (1 - sigmoid_fp32(a * x))),                                          \
      g * sigmoid_fp64(a * x) * (1 + a * x * (1 - sigmoid_fp64(a * x))))                                               \
    G(softplus, a *x > b ? g : g * sigmoid_fp32(a * x), a * x > b ? g : g * sigmoid_fp64(a * x))                       \
    G(elu, x > 0 ? g : g * a * expf(x), x > 0 ? g : g * a * exp(x))                                                    \
    G(leaky_relu, LEAKY_RELU_GRAD, LEAKY_RELU_GRAD)                                                                    \
    G(hard_sigmoid, x > 0 && x < 1 ? g * a : g * 0, x > 0 && x < 1 ? g * a : g * 0)                                    \
    G(hard_swish, HARD_SWISH_GRAD, HARD_SWISH_GRAD)                                                                    \
    G(pow, (double)g *a *pow((double)x, (double)a - 1), g *a *pow(x, a - 1))

FORWARD(DEFINE_FORWARDS)
DEFINE_FORWARDS(round, a == 0 ? rintf(x) : (float)decimals(x, a), a == 0 ? rint(x) : decimals(x, a))
DEFINE_FORWARDS(round_away, roundf(x), round(x))
#define DEFINE_ALL_FORWARDS(name, fp32, fp64, integer)                                                                 \
    DEFINE_FORWARDS(name, fp32, fp64)                                                                                  \
    DEFINE_FORWARD(name##_int32, int32_t, integer)                                                                     \
    DEFINE_FORWARD(name##_int64, int64_t, integer)
FORWARD_OF_INTEGERS(DEFINE_ALL_FORWARDS)

BACKWARD(DEFINE_BACKWARDS)
DEFINE_BACKWARDS(clip, x >= a && x <= b ? g : 0, x >= a && x <= b ? g : 0)
DEFINE_BACKWARDS(clip_inside, x > a && x < b ? g : 0, x > a && x < b ? g : 0)

/* --- parameters --------------------------------------------------------------------------------------------------- */

/* Where an op's parameters come from: attrs, with defaults, or tensors that override them. */
typedef struct parameter {
    const char *attr;
    double default_value;
    const char *tensor; /* slot, or NULL */
} parameter;

typedef struct op_parameters {
    const char *op, *gradient;
    parameter list[PARAMETERS];
} op_parameters;

static const op_parameters parameters[] = {
    {"round", "round_grad", {{"decimals", 0, NULL}}},
    {"relu6", "relu6_grad", {{"threshold", 6, NULL}}},
    {"swish", "swish_grad", {{"beta", 1, NULL}}},
    {"softplus", "softplus_grad", {{"beta", 1, NULL}, {"threshold", 20, NULL}}},
    {"elu", "elu_grad", {{"alpha", 1, NULL}}},
    {"leaky_relu", "leaky_relu_grad", {{"alpha", 0.02, NULL}}},
    {"hard_sigmoid", "hard_sigmoid_grad", {{"slope", 0.2, NULL}, {"offset", 0.5, NULL}}},
    {"hard_swish", "hard_swish_grad", {{"threshold", 6, NULL}, {"scale", 6, NULL}, {"offset", 3, NULL}}},
    {"pow", "pow_grad", {{"factor", 1, "FactorTensor"}}},
    {"clip", "clip_grad", {{"min", 0, "Min"}, {"max", 0, "Max"}}},
    {"brelu", "brelu_grad", {{"t_min", 0, NULL}, {"t_max", 24, NULL}}},
    {"soft_relu", "soft_relu_grad", {{"threshold", 40, NULL}}},
    {"mish", "mish_grad", {{"threshold", 20, NULL}}},
    {"selu", "selu_grad", {{"scale", 1.0507009873554804, NULL}, {"alpha", 1.6732632423543772, NULL}}},
    {"celu", "celu_grad", {{"alpha", 1, NULL}}},
    {"softshrink", "softshrink_grad", {{"lambda", 0.5, NULL}}},
    {"hard_shrink", "hard_shrink_grad", {{"threshold", 0.5, NULL}}},
    {"thresholded_relu", "thresholded_relu_grad", {{"threshold", 1, NULL}, {"value", 0, NULL}}},
    {"stanh", "stanh_grad", {{"scale_a", 0.67, NULL}, {"scale_b", 1.7159, NULL}}},
    {"polygamma", "polygamma_grad", {{"n", 1, NULL}}},
    {"logit", "logit_grad", {{"eps", 1e-6, NULL}}},
};

/* ATen's ops that write what they read: whose parameters they have. */
static const char *const in_place[][2] = {
    {"aten_leaky_relu_", "leaky_relu"},
    {"aten_hardsigmoid_", "hard_sigmoid"},
    {"aten_hardswish_", "hard_swish"},
    {"aten_mish_", "mish"},
    {"aten_celu_", "celu"},
};

typedef struct pointwise_state {
    pointwise_fn run;
    int x, gradient; /* input slots; gradient -1 in a forward op */
    double p[PARAMETERS];
    int tensors[PARAMETERS]; /* slots that override p, or -1 */
} pointwise_state;

/* --- runs --------------------------------------------------------------------------------------------------------- */

static void run_rows(const kernel_call *c, int64_t first, int64_t end) {
    const pointwise_state *s = c->state;
    const tensor *x = arg_in(c, s->x), *g = s->gradient >= 0 ? arg_in(c, s->gradient) : NULL;
    element_range e = elements_of(c, x->numel, first, end);
    size_t size = weft_dtype_nbytes(x->dtype), out_size = weft_dtype_nbytes(arg_out(c, 0)->dtype);
    size_t at = (size_t)e.at * size;
    const char *xs = (const char *)x->data + at, *gs = g ? (const char *)g->data + at : NULL;
    char *to = (char *)arg_out(c, 0)->data + (size_t)e.at * out_size;
    double p[PARAMETERS];
    for (int k = 0; k < PARAMETERS; k++) p[k] = s->tensors[k] >= 0 ? host_scalar(c, arg_in(c, s->tensors[k])) : s->p[k];
    if (x->dtype == arg_out(c, 0)->dtype && !dtype_is_half(x->dtype)) {
        s->run(e.n, p, xs, gs, to);
        return;
    }
    float a[BLOCK], b[BLOCK];
    for (int64_t i = 0; i < e.n; i += BLOCK) {
        int64_t n = block_size(e.n - i);
        cast_elements(x->dtype, WEFT_FP32, n, xs + (size_t)i * size, a);
        if (g) cast_elements(x->dtype, WEFT_FP32, n, gs + (size_t)i * size, b);
        s->run(n, p, a, g ? b : NULL, a);
        cast_elements(WEFT_FP32, arg_out(c, 0)->dtype, n, a, to + (size_t)i * out_size);
    }
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static int slot_named(const kernel_prepare *p, const char *slot_name) {
    for (size_t i = 0; slot_name && i < p->schema->ninputs; i++)
        if (strcmp(p->schema->inputs[i].name, slot_name) == 0) return (int)i;
    return -1;
}

static const char *not_in_place(const char *type) {
    for (size_t i = 0; i < sizeof in_place / sizeof *in_place; i++)
        if (strcmp(type, in_place[i][0]) == 0) return in_place[i][1];
    return type;
}

static void read_parameters(kernel_prepare *p, pointwise_state *s) {
    const char *type = not_in_place(p->schema->type);
    for (int k = 0; k < PARAMETERS; k++) s->tensors[k] = -1;
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        if (strcmp(type, parameters[i].op) != 0 && strcmp(type, parameters[i].gradient) != 0) continue;
        for (int k = 0; k < PARAMETERS; k++) {
            const parameter *one = &parameters[i].list[k];
            if (one->attr) s->p[k] = attr_float(p->op, one->attr, one->default_value);
            int slot_index = slot_named(p, one->tensor);
            if (slot_index >= 0 && type_in(p, slot_index)) s->tensors[k] = slot_index;
        }
    }
}

static weft_status prepare_runs(kernel_prepare *p, const pointwise_runs *f, int x, int gradient) {
    pointwise_state *s = KERNEL_STATE(p, pointwise_state);
    if (!s) return base_out_of_memory();
    s->x = x;
    s->gradient = gradient;
    const tensor *t = type_in(p, x), *out = type_out(p, 0);
    TRY(require_present(p, t, "X"));
    bool floats = out && out->dtype == WEFT_FP32 && (t->dtype == WEFT_INT32 || t->dtype == WEFT_INT64);
    if (!floats) TRY(require_same_dtype(p, t, out, "the output"));
    TRY(require_numel(p, out, t->numel, "the output"));
    if (gradient >= 0) TRY(require_numel(p, type_in(p, gradient), t->numel, "Out@GRAD"));
    if (gradient >= 0) TRY(require_same_dtype(p, t, type_in(p, gradient), "Out@GRAD"));
    s->run = floats || dtype_is_half(t->dtype) || t->dtype == WEFT_FP32 ? f->fp32
             : t->dtype == WEFT_FP64                                    ? f->fp64
             : t->dtype == WEFT_INT32                                   ? f->int32
             : t->dtype == WEFT_INT64                                   ? f->int64
                                                                        : NULL;
    if (!s->run) return kernel_unsupported(p, "no such function of %s", dtype_text(t->dtype));
    read_parameters(p, s);
    split_elements(p, run_rows, t->numel);
    return NULL;
}

/* A gradient sees X if it can, else Out, else (where it is 0 anyway) nothing but Out@GRAD. */
weft_status pointwise_prepare_gradient(kernel_prepare *p, pointwise_fn fp32, pointwise_fn fp64) {
    pointwise_runs f = {.fp32 = fp32, .fp64 = fp64};
    int gradient = slot_named(p, "Out@GRAD"), x = slot_named(p, "X"), y = slot_named(p, "Out");
    if (gradient < 0) gradient = slot_named(p, "out@GRAD"), x = slot_named(p, "x"); /* as newer ops spell it */
    return prepare_runs(p, &f, x >= 0 ? x : y >= 0 ? y : gradient, gradient);
}

weft_status pointwise_prepare(kernel_prepare *p, const pointwise_runs *f) {
    return prepare_runs(p, f, 0, -1);
}

FORWARD(DEFINE_POINTWISE)
FORWARD_OF_INTEGERS(DEFINE_INTEGER_POINTWISE)
BACKWARD(DEFINE_POINTWISE_GRADIENT)

static weft_status prepare_round(kernel_prepare *p) {
    static const pointwise_runs to_even = {round_fp32, round_fp64, NULL, NULL};
    static const pointwise_runs away = {round_away_fp32, round_away_fp64, NULL, NULL};
    return pointwise_prepare(p, p->older ? &away : &to_even);
}
const kernel kernel_round = {prepare_round, kernel_run_rows};

static weft_status prepare_clip_grad(kernel_prepare *p) {
    return p->older ? pointwise_prepare_gradient(p, clip_inside_grad_fp32, clip_inside_grad_fp64)
                    : pointwise_prepare_gradient(p, clip_grad_fp32, clip_grad_fp64);
}
const kernel kernel_clip_grad = {prepare_clip_grad, kernel_run_rows};
