/* aten_losses.c: losses of an element and its target: of each (reduction 0), the mean (1), or the sum (2), and
 * gradients (torch: aten/src/ATen/native/{Loss.cpp,cpu/PointwiseOpsKernel.cpp}). */
#include <math.h>

#include "executor/kernels/layout.h"

/* Of x, its target and the attr: the loss, and its slope in x. */
typedef struct loss_function {
    double (*value)(double x, double target, double by);
    double (*slope)(double x, double target, double by);
    const char *attr;
} loss_function;

static double smooth_l1_value(double x, double t, double beta) {
    double d = fabs(x - t);
    return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
}
static double smooth_l1_slope(double x, double t, double beta) {
    double d = x - t;
    return d <= -beta ? -1 : d >= beta ? 1 : d / beta;
}
static double huber_value(double x, double t, double delta) {
    double d = fabs(x - t);
    return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
}
static double huber_slope(double x, double t, double delta) {
    double d = x - t;
    return d <= -delta ? -delta : d >= delta ? delta : d;
}
static double soft_margin_value(double x, double t, double by) {
    (void)by;
    return log1p(exp(-t * x));
}
static double soft_margin_slope(double x, double t, double by) {
    double z = exp(-t * x);
    (void)by;
    return -t * z / (1 + z);
}
/* Logarithms are at least -100, as torch has them. */
static double bce_value(double x, double t, double by) {
    double p = log(x), q = log1p(-x);
    (void)by;
    return (t - 1) * (q < -100 ? -100 : q) - t * (p < -100 ? -100 : p);
}
static double bce_slope(double x, double t, double by) {
    double product = (1 - x) * x;
    (void)by;
    return (x - t) / (product < 1e-12 ? 1e-12 : product);
}

static const loss_function smooth_l1 = {smooth_l1_value, smooth_l1_slope, "beta"};
static const loss_function huber = {huber_value, huber_slope, "delta"};
static const loss_function soft_margin = {soft_margin_value, soft_margin_slope, NULL};
static const loss_function bce = {bce_value, bce_slope, NULL};

typedef struct loss_state {
    const loss_function *f;
    double by;
    int64_t reduction;
    loops loops; /* operands: the weights, which broadcast */
} loss_state;

/* `first`: the input slot of x; its target and its weights follow. */
static weft_status prepare_of(kernel_prepare *p, const loss_function *f, int first, const tensor *loss) {
    loss_state *s = KERNEL_STATE(p, loss_state);
    bool is_weighted = p->schema->ninputs > (size_t)first + 2;
    const tensor *x = type_in(p, first), *target = type_in(p, first + 1);
    const tensor *weight = is_weighted ? type_in(p, first + 2) : NULL;
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK] = {{0}};
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, target, "target"));
    TRY(require_like(p, x, target, x->numel, "target"));
    TRY(require_present(p, loss, "the loss"));
    if (weight) TRY(require_same_dtype(p, x, weight, "weight"));
    if (weight && (weight->ndim > x->ndim || !strides_broadcast(weight, -1, x->ndim, x->dims, strides[0])))
        return kernel_unsupported(p, "expected a weight that broadcasts to self");
    s->f = f;
    s->by = f->attr ? attr_float(p->op, f->attr, 1) : 1;
    s->reduction = attr_int(p->op, "reduction", 1);
    loops_init(&s->loops, x->ndim, x->dims, 1, strides);
    return require_like(p, x, loss, s->reduction ? 1 : x->numel, "the loss");
}

static weft_status run(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *x = arg_in(c, 0), *t = arg_in(c, 1), *weight = c->schema->ninputs > 2 ? arg_in(c, 2) : NULL;
    double sum = 0;
    for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w))
        for (int64_t k = 0; k < loops_run(&s->loops); k++) {
            int64_t i = w.position + k;
            double loss = s->f->value(tensor_real(x, i), tensor_real(t, i), s->by);
            if (weight) loss *= tensor_real(weight, w.at[0] + k * loops_stride(&s->loops, 0));
            sum += loss;
            if (!s->reduction) tensor_set_real(arg_out(c, 0), i, loss);
        }
    if (s->reduction) tensor_set_real(arg_out(c, 0), 0, s->reduction == 1 ? sum / (double)x->numel : sum);
    return NULL;
}

static weft_status run_backward(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *grad = arg_in(c, 0), *x = arg_in(c, 1), *t = arg_in(c, 2);
    const tensor *weight = c->schema->ninputs > 3 ? arg_in(c, 3) : NULL;
    double by = s->reduction == 1 ? 1 / (double)x->numel : 1;
    for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w))
        for (int64_t k = 0; k < loops_run(&s->loops); k++) {
            int64_t i = w.position + k;
            double slope = by * s->f->slope(tensor_real(x, i), tensor_real(t, i), s->by);
            if (weight) slope *= tensor_real(weight, w.at[0] + k * loops_stride(&s->loops, 0));
            tensor_set_real(arg_out(c, 0), i, slope * tensor_real(grad, s->reduction ? 0 : i));
        }
    return NULL;
}

#define DEFINE_LOSS(name, f)                                                                                           \
    static weft_status prepare_##f(kernel_prepare *p) {                                                                \
        return prepare_of(p, &f, 0, type_out(p, 0));                                                                   \
    }                                                                                                                  \
    static weft_status prepare_##f##_backward(kernel_prepare *p) {                                                     \
        TRY(prepare_of(p, &f, 1, type_in(p, 0)));                                                                      \
        TRY(require_present(p, type_out(p, 0), "grad_input"));                                                         \
        return require_like(p, type_in(p, 1), type_out(p, 0), type_in(p, 1)->numel, "grad_input");                     \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##f, run};                                                              \
    const kernel kernel_aten_##name##_backward = {prepare_##f##_backward, run_backward};
DEFINE_LOSS(smooth_l1_loss, smooth_l1)
DEFINE_LOSS(huber_loss, huber)
DEFINE_LOSS(soft_margin_loss, soft_margin)
DEFINE_LOSS(binary_cross_entropy, bce)

/* --- of logits: (1 - t) x + (1 + (positive - 1) t) log(1 + exp(-x)) ----------------------------------------------- */

enum { IN_SELF, IN_TARGET, IN_WEIGHT, IN_POSITIVE };

static weft_status prepare_logits(kernel_prepare *p) {
    loss_state *s = KERNEL_STATE(p, loss_state);
    const tensor *x = type_in(p, IN_SELF), *target = type_in(p, IN_TARGET);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK] = {{0}};
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, target, "target"));
    TRY(require_like(p, x, target, x->numel, "target"));
    for (int k = 0; k < 2; k++) {
        const tensor *w = type_in(p, IN_WEIGHT + k);
        if (!w) continue;
        TRY(require_same_dtype(p, x, w, "a weight"));
        if (w->ndim > x->ndim || !strides_broadcast(w, -1, x->ndim, x->dims, strides[k]))
            return kernel_unsupported(p, "expected weights that broadcast to self");
    }
    loops_init(&s->loops, x->ndim, x->dims, 2, strides);
    s->reduction = attr_int(p->op, "reduction", 1);
    TRY(require_present(p, type_out(p, 0), "the loss"));
    return require_like(p, x, type_out(p, 0), s->reduction ? 1 : x->numel, "the loss");
}

static weft_status run_logits(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *x = arg_in(c, IN_SELF), *t = arg_in(c, IN_TARGET);
    const tensor *weight = arg_in(c, IN_WEIGHT), *positive = arg_in(c, IN_POSITIVE);
    double sum = 0;
    for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w))
        for (int64_t k = 0; k < loops_run(&s->loops); k++) {
            int64_t i = w.position + k;
            double v = tensor_real(x, i), to = tensor_real(t, i);
            double log_weight =
                positive ? 1 + (tensor_real(positive, w.at[1] + k * loops_stride(&s->loops, 1)) - 1) * to : 1;
            double loss = (1 - to) * v + log_weight * (log1p(exp(-fabs(v))) + (v < 0 ? -v : 0));
            if (weight) loss *= tensor_real(weight, w.at[0] + k * loops_stride(&s->loops, 0));
            sum += loss;
            if (!s->reduction) tensor_set_real(arg_out(c, 0), i, loss);
        }
    if (s->reduction) tensor_set_real(arg_out(c, 0), 0, s->reduction == 1 ? sum / (double)x->numel : sum);
    return NULL;
}

const kernel kernel_aten_binary_cross_entropy_with_logits = {prepare_logits, run_logits};
