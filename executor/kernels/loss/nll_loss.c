/* nll_loss.c: negative log likelihood of log-probabilities [batch, classes, ...]: -weight[label] * x[label], whole,
 * summed, or divided by the sum of weights. Labels equal to ignore_index count for nothing; a mean of nothing is 0 in
 * Paddle, NaN in ATen (which counts reductions: 0 none, 1 mean, 2 sum). */
#include "executor/kernels/layout.h"

enum { IN_X, IN_LABEL, IN_WEIGHT, GRAD_IN_TOTAL, GRAD_IN_OUT_GRAD, OUT = 0, OUT_TOTAL };

typedef struct nll_state {
    axis_split split; /* of X at the classes */
    int64_t ignore_index;
    bool whole, mean;
    bool aten;
} nll_state;

/* [classes] of one label, [batch, classes, ...] else. */
static axis_split split_of(const tensor *x) {
    return axis_split_at(x, x->ndim == 1 ? 0 : 1);
}

static void read_reduction(const kernel_prepare *p, nll_state *s) {
    const char *reduction = attr_string(p->op, "reduction", "mean");
    int64_t number = attr_int(p->op, "reduction", 1);
    s->whole = s->aten ? number == 0 : strcmp(reduction, "none") == 0;
    s->mean = s->aten ? number == 1 : strcmp(reduction, "mean") == 0;
}

static weft_status prepare_common(kernel_prepare *p, const tensor *loss, bool aten) {
    nll_state *s = KERNEL_STATE(p, nll_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *label = type_in(p, IN_LABEL), *weight = type_in(p, IN_WEIGHT);
    int least = aten ? 1 : 2;
    TRY(require_real(p, x, "X"));
    if (x->ndim < least) return kernel_unsupported(p, "expected X of at least %d dimensions, found %d", least, x->ndim);
    s->split = split_of(x);
    s->aten = aten;
    read_reduction(p, s);
    s->ignore_index = attr_int(p->op, "ignore_index", -100);
    int64_t n = s->split.outer * s->split.inner;
    TRY(require_numel(p, label, n, "Label"));
    if (dtype_is_float(label->dtype)) return kernel_unsupported(p, "expected Label of an integer type");
    if (weight) TRY(require_numel(p, weight, s->split.extent, "Weight"));
    if (weight) TRY(require_same_dtype(p, x, weight, "Weight"));
    TRY(require_same_dtype(p, x, loss, "the loss"));
    return require_numel(p, loss, s->whole ? n : 1, "the loss");
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_out(p, OUT), false);
}
static weft_status prepare_aten(kernel_prepare *p) {
    return prepare_common(p, type_out(p, OUT), true);
}
static weft_status prepare_backward(kernel_prepare *p, bool aten) {
    TRY(prepare_common(p, type_in(p, GRAD_IN_OUT_GRAD), aten));
    const nll_state *s = p->state;
    if (s->mean) TRY(require_numel(p, type_in(p, GRAD_IN_TOTAL), 1, "Total_weight"));
    return require_numel(p, type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD");
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_backward(p, false);
}
static weft_status prepare_aten_grad(kernel_prepare *p) {
    return prepare_backward(p, true);
}

/* The weight of label i, 0 where it is ignored, and the element of X that it names. */
static weft_status weigh(const kernel_call *c, const nll_state *s, int64_t i, double *out_weight, int64_t *out_at) {
    int64_t label = tensor_integer(arg_in(c, IN_LABEL), i), n = s->split.inner;
    const tensor *weight = arg_in(c, IN_WEIGHT);
    *out_weight = 0;
    *out_at = 0;
    if (label == s->ignore_index) return NULL;
    if (label < 0 || label >= s->split.extent)
        return kernel_failed(c, "expected labels of 0 to %lld, found %lld", (long long)s->split.extent - 1,
                             (long long)label);
    *out_weight = weight ? tensor_real(weight, label) : 1;
    *out_at = (i / n * s->split.extent + label) * n + i % n;
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const nll_state *s = c->state;
    double sum = 0, total = 0;
    for (int64_t i = 0; i < s->split.outer * s->split.inner; i++) {
        double weight = 0;
        int64_t at = 0;
        TRY(weigh(c, s, i, &weight, &at));
        double loss = weight == 0 ? 0 : -weight * tensor_real(arg_in(c, IN_X), at);
        if (s->whole) tensor_set_real(arg_out(c, OUT), i, loss);
        sum += loss;
        total += weight;
    }
    if (!s->whole) tensor_set_real(arg_out(c, OUT), 0, s->mean && (total != 0 || s->aten) ? sum / total : sum);
    if (arg_out(c, OUT_TOTAL)) tensor_set_real(arg_out(c, OUT_TOTAL), 0, s->whole ? 0 : total);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const nll_state *s = c->state;
    const tensor *dloss = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    double by = s->mean ? tensor_real(arg_in(c, GRAD_IN_TOTAL), 0) : 1;
    tensor_clear(dx);
    for (int64_t i = 0; i < s->split.outer * s->split.inner; i++) {
        double weight = 0;
        int64_t at = 0;
        TRY(weigh(c, s, i, &weight, &at));
        if (weight != 0) tensor_set_real(dx, at, -weight * tensor_real(dloss, s->whole ? i : 0) / by);
    }
    return NULL;
}

const kernel kernel_nll_loss = {prepare, run};
const kernel kernel_aten_nll_loss_forward = {prepare_aten, run};
const kernel kernel_aten_nll_loss_backward = {prepare_aten_grad, run_grad};
const kernel kernel_nll_loss_grad = {prepare_grad, run_grad};
