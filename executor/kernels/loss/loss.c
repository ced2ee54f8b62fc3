/* loss.c: losses and their gradients, element by element: a table of functions of a prediction a, a label b and, in a
 * gradient, the loss's gradient; computed in double. Formulas are Paddle's (phi/kernels/cpu/{bce_loss, log_loss,
 * huber_loss, kldiv_loss, sigmoid_cross_entropy_with_logits}_kernel.cc), clamps included. */
#include <math.h>

#include "executor/kernels/layout.h"

typedef struct loss_rule {
    double parameter;    /* epsilon or delta */
    double ignore_index; /* labels of this value cost nothing */
    bool ignores, log_target;
    enum { WHOLE, MEAN, SUM, BATCH_MEAN } reduction;
    bool normalize; /* divides by the number of labels that are not ignored */
} loss_rule;

/* w is the weight of the element (1 where there is none). */
typedef double (*loss_fn)(const loss_rule *r, double a, double b, double w);

static double log_above(double x, double least) {
    double l = log(x);
    return l < least ? least : l;
}

static double bce(const loss_rule *r, double a, double b, double w) {
    (void)r, (void)w;
    return (b - 1) * log_above(1 - a, -100) - b * log_above(a, -100);
}
static double bce_slope(const loss_rule *r, double a, double b, double w) {
    (void)r, (void)w;
    double variance = (1 - a) * a;
    return (a - b) / (variance > 1e-12 ? variance : 1e-12);
}

static double log_loss(const loss_rule *r, double a, double b, double w) {
    (void)w;
    return -b * log(a + r->parameter) - (1 - b) * log(1 - a + r->parameter);
}
static double log_loss_slope(const loss_rule *r, double a, double b, double w) {
    (void)w;
    return -b / (a + r->parameter) + (1 - b) / (1 - a + r->parameter);
}

/* log(1 + exp(x)) */
static double softplus(double x) {
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double sigmoid_loss(const loss_rule *r, double a, double b, double w) {
    (void)r;
    return (1 - b) * a + w * softplus(-a);
}
static double sigmoid_loss_slope(const loss_rule *r, double a, double b, double w) {
    (void)r;
    return (1 - b) - w / (1 + exp(a));
}

/* With weights in programs of Paddle 2 (ops/versions.def). */
static double sigmoid_loss_older(const loss_rule *r, double a, double b, double w) {
    (void)r;
    return (a > 0 ? a : 0) - a * b + w * log1p(exp(-fabs(a)));
}
static double sigmoid_loss_older_slope(const loss_rule *r, double a, double b, double w) {
    (void)r;
    return w / (1 + exp(-a)) - b; /* not the loss's slope where there are weights */
}

static double divergence(const loss_rule *r, double a, double b, double w) {
    (void)w;
    if (r->log_target) return exp(b) * (b - a);
    return b > 0 ? b * (log(b) - a) : 0;
}
static double divergence_slope(const loss_rule *r, double a, double b, double w) {
    (void)a, (void)w;
    if (r->log_target) return -exp(b);
    return b > 0 ? -b : 0;
}

static double huber(const loss_rule *r, double residual, double b, double w) {
    (void)b, (void)w;
    double size = fabs(residual), delta = r->parameter;
    return size <= delta ? 0.5 * residual * residual : delta * (size - 0.5 * delta);
}
static double huber_slope(const loss_rule *r, double residual, double b, double w) {
    (void)b, (void)w;
    double delta = r->parameter;
    return residual > delta ? delta : residual < -delta ? -delta : residual;
}

/* --- one kernel for all ------------------------------------------------------------------------------------------- */

enum { IN_A, IN_B, NONE = -1 };

typedef struct loss_state {
    loss_rule rule;
    loss_fn f;
    int weight, gradient; /* input slots, or NONE */
} loss_state;

static void read_rule(const kernel_prepare *p, loss_rule *r, const char *parameter) {
    const char *reduction = attr_string(p->op, "reduction", "none");
    if (parameter) r->parameter = attr_float(p->op, parameter, 0);
    r->log_target = attr_bool(p->op, "log_target", false);
    r->normalize = attr_bool(p->op, "normalize", false);
    if (strcmp(reduction, "mean") == 0) r->reduction = MEAN;
    if (strcmp(reduction, "sum") == 0) r->reduction = SUM;
    if (strcmp(reduction, "batchmean") == 0) r->reduction = BATCH_MEAN;
}

static weft_status prepare_loss(kernel_prepare *p, loss_fn f, const char *parameter, int weight, int gradient) {
    loss_state *s = KERNEL_STATE(p, loss_state);
    if (!s) return base_out_of_memory();
    *s = (loss_state){.f = f, .weight = weight, .gradient = gradient};
    const tensor *a = type_in(p, IN_A), *b = type_in(p, IN_B), *g = gradient >= 0 ? type_in(p, gradient) : NULL;
    TRY(require_real(p, a, "predictions"));
    read_rule(p, &s->rule, parameter);
    TRY(require_numel(p, b, a->numel, "labels"));
    TRY(require_same_dtype(p, a, b, "labels"));
    if (weight >= 0 && type_in(p, weight)) {
        int64_t n = type_in(p, weight)->numel;
        TRY(require_same_dtype(p, a, type_in(p, weight), "weights"));
        if (n < 1 || a->numel % n) return kernel_unsupported(p, "expected weights that broadcast to X");
    }
    int64_t nlosses = s->rule.reduction == WHOLE ? a->numel : 1;
    if (gradient >= 0) TRY(require_same_dtype(p, a, g, "the loss's gradient"));
    if (gradient >= 0) TRY(require_numel(p, g, nlosses, "the loss's gradient"));
    TRY(require_same_dtype(p, a, type_out(p, 0), "the output"));
    return require_numel(p, type_out(p, 0), gradient >= 0 ? a->numel : nlosses, "the output");
}

static bool ignored(const loss_rule *r, double label) {
    return r->ignores && fabs(label - r->ignore_index) < 1e-6;
}

/* What a loss or its gradient is divided by. */
static double divisor(const loss_rule *r, const tensor *a, const tensor *b) {
    if (r->reduction == MEAN) return (double)a->numel;
    if (r->reduction == BATCH_MEAN) return a->ndim ? (double)a->dims[0] : 1;
    if (!r->normalize) return 1;
    double counted = 0;
    for (int64_t i = 0; i < b->numel; i++) counted += !ignored(r, tensor_real(b, i));
    return counted > 1e-6 ? counted : 1e-6;
}

static weft_status run_loss(const kernel_call *c) {
    const loss_state *s = c->state;
    const loss_rule *r = &s->rule;
    const tensor *a = arg_in(c, IN_A), *b = arg_in(c, IN_B), *w = s->weight >= 0 ? arg_in(c, s->weight) : NULL;
    const tensor *g = s->gradient >= 0 ? arg_in(c, s->gradient) : NULL;
    tensor *out = arg_out(c, 0);
    double sum = 0, by = divisor(r, a, b);
    bool reduces = r->reduction != WHOLE;
    for (int64_t i = 0; i < a->numel; i++) {
        double label = tensor_real(b, i), weight = w ? tensor_real(w, i % w->numel) : 1;
        double value = ignored(r, label) ? 0 : s->f(r, tensor_real(a, i), label, weight);
        if (g)
            value = value * tensor_real(g, reduces ? 0 : i) / by;
        else if (!reduces)
            value /= by;
        else
            sum += value;
        if (g || !reduces) tensor_set_real(out, i, value);
    }
    if (!g && reduces) tensor_set_real(out, 0, sum / by);
    return NULL;
}

static weft_status prepare_bce(kernel_prepare *p) {
    return prepare_loss(p, bce, NULL, NONE, NONE);
}
static weft_status prepare_bce_grad(kernel_prepare *p) {
    return prepare_loss(p, bce_slope, NULL, NONE, 2);
}
static weft_status prepare_log(kernel_prepare *p) {
    return prepare_loss(p, log_loss, "epsilon", NONE, NONE);
}
static weft_status prepare_log_grad(kernel_prepare *p) {
    return prepare_loss(p, log_loss_slope, "epsilon", NONE, 2);
}
static weft_status prepare_kldiv(kernel_prepare *p) {
    return prepare_loss(p, divergence, NULL, NONE, NONE);
}
static weft_status prepare_kldiv_grad(kernel_prepare *p) {
    return prepare_loss(p, divergence_slope, NULL, NONE, 2);
}

static weft_status prepare_ignoring(kernel_prepare *p, loss_fn f, int gradient) {
    TRY(prepare_loss(p, f, NULL, 2, gradient));
    loss_state *s = p->state;
    s->rule.ignores = true;
    s->rule.ignore_index = (double)attr_int(p->op, "ignore_index", -100);
    return NULL;
}
static weft_status prepare_sigmoid(kernel_prepare *p) {
    return prepare_ignoring(p, p->older ? sigmoid_loss_older : sigmoid_loss, NONE);
}
static weft_status prepare_sigmoid_grad(kernel_prepare *p) {
    return prepare_ignoring(p, p->older ? sigmoid_loss_older_slope : sigmoid_loss_slope, 3);
}

const kernel kernel_bce_loss = {prepare_bce, run_loss};
const kernel kernel_bce_loss_grad = {prepare_bce_grad, run_loss};
const kernel kernel_log_loss = {prepare_log, run_loss};
const kernel kernel_log_loss_grad = {prepare_log_grad, run_loss};
const kernel kernel_kldiv_loss = {prepare_kldiv, run_loss};
const kernel kernel_kldiv_loss_grad = {prepare_kldiv_grad, run_loss};
const kernel kernel_sigmoid_cross_entropy_with_logits = {prepare_sigmoid, run_loss};
const kernel kernel_sigmoid_cross_entropy_with_logits_grad = {prepare_sigmoid_grad, run_loss};

/* --- huber_loss: of the residual Y - X, which it keeps ------------------------------------------------------------ */

enum { HUBER_IN_X, HUBER_IN_Y, HUBER_GRAD_IN_RESIDUAL = 0, HUBER_GRAD_IN_OUT_GRAD };
enum { HUBER_OUT, HUBER_OUT_RESIDUAL, HUBER_OUT_X_GRAD = 0, HUBER_OUT_Y_GRAD };

static weft_status prepare_huber(kernel_prepare *p) {
    return prepare_loss(p, huber, "delta", NONE, NONE);
}

static weft_status prepare_huber_grad(kernel_prepare *p) {
    loss_state *s = KERNEL_STATE(p, loss_state);
    if (!s) return base_out_of_memory();
    const tensor *residual = type_in(p, HUBER_GRAD_IN_RESIDUAL);
    TRY(require_real(p, residual, "Residual"));
    read_rule(p, &s->rule, "delta");
    TRY(require_same_dtype(p, residual, type_in(p, HUBER_GRAD_IN_OUT_GRAD), "Out@GRAD"));
    for (int i = HUBER_OUT_X_GRAD; i <= HUBER_OUT_Y_GRAD; i++)
        if (type_out(p, i)) TRY(require_numel(p, type_out(p, i), residual->numel, "a gradient"));
    return require_numel(p, type_in(p, HUBER_GRAD_IN_OUT_GRAD), residual->numel, "Out@GRAD");
}

static weft_status run_huber(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *x = arg_in(c, HUBER_IN_X), *y = arg_in(c, HUBER_IN_Y);
    tensor *residuals = arg_out(c, HUBER_OUT_RESIDUAL);
    for (int64_t i = 0; i < x->numel; i++) {
        double residual = tensor_real(y, i) - tensor_real(x, i);
        if (residuals) tensor_set_real(residuals, i, residual);
        tensor_set_real(arg_out(c, HUBER_OUT), i, huber(&s->rule, residual, 0, 1));
    }
    return NULL;
}

static weft_status run_huber_grad(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *residual = arg_in(c, HUBER_GRAD_IN_RESIDUAL), *dy = arg_in(c, HUBER_GRAD_IN_OUT_GRAD);
    for (int64_t i = 0; i < residual->numel; i++) {
        double slope = huber_slope(&s->rule, tensor_real(residual, i), 0, 1) * tensor_real(dy, i);
        if (arg_out(c, HUBER_OUT_X_GRAD)) tensor_set_real(arg_out(c, HUBER_OUT_X_GRAD), i, -slope);
        if (arg_out(c, HUBER_OUT_Y_GRAD)) tensor_set_real(arg_out(c, HUBER_OUT_Y_GRAD), i, slope);
    }
    return NULL;
}

const kernel kernel_huber_loss = {prepare_huber, run_huber};
const kernel kernel_huber_loss_grad = {prepare_huber_grad, run_huber_grad};

/* --- label_smooth: labels mixed with a prior, or evenly ----------------------------------------------------------- */

enum { SMOOTH_IN_X, SMOOTH_IN_PRIOR };

static weft_status prepare_smooth(kernel_prepare *p) {
    loss_state *s = KERNEL_STATE(p, loss_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, SMOOTH_IN_X);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, type_out(p, 0), "Out"));
    TRY(require_numel(p, type_out(p, 0), x->numel, "Out"));
    read_rule(p, &s->rule, "epsilon");
    return NULL;
}

static weft_status prepare_smooth_prior(kernel_prepare *p) {
    TRY(prepare_smooth(p));
    const tensor *x = type_in(p, SMOOTH_IN_X), *prior = type_in(p, SMOOTH_IN_PRIOR);
    if (x->ndim < 1) return kernel_unsupported(p, "expected X of at least one dimension");
    if (!prior) return NULL;
    TRY(require_same_dtype(p, x, prior, "PriorDist"));
    return require_numel(p, prior, x->dims[x->ndim - 1], "PriorDist");
}

static weft_status run_smooth(const kernel_call *c) {
    const loss_rule *r = &((const loss_state *)c->state)->rule;
    const tensor *x = arg_in(c, SMOOTH_IN_X), *prior = arg_in(c, SMOOTH_IN_PRIOR);
    int64_t classes = x->dims[x->ndim - 1];
    for (int64_t i = 0; i < x->numel; i++) {
        double share = prior ? tensor_real(prior, i % classes) : 1 / (double)classes;
        tensor_set_real(arg_out(c, 0), i, (1 - r->parameter) * tensor_real(x, i) + r->parameter * share);
    }
    return NULL;
}

static weft_status run_smooth_grad(const kernel_call *c) {
    const loss_rule *r = &((const loss_state *)c->state)->rule;
    const tensor *dy = arg_in(c, 0);
    for (int64_t i = 0; i < dy->numel; i++) tensor_set_real(arg_out(c, 0), i, (1 - r->parameter) * tensor_real(dy, i));
    return NULL;
}

const kernel kernel_label_smooth = {prepare_smooth_prior, run_smooth};
const kernel kernel_label_smooth_grad = {prepare_smooth, run_smooth_grad};
