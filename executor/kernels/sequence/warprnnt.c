/* warprnnt.c: the loss of a recurrent transducer: minus the log probability of all ways in which steps can emit a label
 * sequence; and the gradient, which the forward op makes at once.
 *
 * input [sequence, step, label, class] are logarithms of probabilities. At step t behind u labels either the blank
 * comes, which goes to step t + 1, or label u, which stays at t. Sums are kept as logarithms. fastemit_lambda makes
 * gradients of labels larger, not the loss (Yu et al. 2021). Source: Graves 2012; warp-transducer. */
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/special_math.h"

enum { IN_INPUT, IN_LABEL, IN_STEPS, IN_LABELS, OUT_LOSS = 0, OUT_KEPT };
enum { GRAD_IN_INPUT, GRAD_IN_STEPS, GRAD_IN_KEPT, GRAD_IN_LOSS };

typedef struct rnnt_state {
    int64_t batch, steps, labels, classes, blank; /* labels: places, one more than labels */
    double emit;
} rnnt_state;

static weft_status prepare(kernel_prepare *p) {
    rnnt_state *s = KERNEL_STATE(p, rnnt_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_INPUT), *label = type_in(p, IN_LABEL), *kept = type_out(p, OUT_KEPT);
    TRY(require_real(p, x, "input"));
    TRY(require_present(p, label, "label"));
    if (x->ndim != 4 || label->ndim != 2 || label->dims[0] != x->dims[0] || label->dims[1] + 1 != x->dims[2])
        return kernel_unsupported(p, "expected input [sequence, step, label + 1, class] and label [sequence, label]");
    s->batch = x->dims[0], s->steps = x->dims[1], s->labels = x->dims[2], s->classes = x->dims[3];
    s->blank = attr_int(p->op, "blank", 0);
    s->emit = attr_float(p->op, "fastemit_lambda", 0);
    if (s->blank < 0 || s->blank >= s->classes) return kernel_unsupported(p, "expected a blank that is a class");
    TRY(require_numel(p, type_in(p, IN_STEPS), s->batch, "input_lengths"));
    TRY(require_numel(p, type_in(p, IN_LABELS), s->batch, "label_lengths"));
    TRY(require_present(p, type_out(p, OUT_LOSS), "loss"));
    TRY(require_like(p, x, type_out(p, OUT_LOSS), s->batch, "loss"));
    TRY(require_like(p, x, kept, x->numel, "warprnntgrad"));
    p->workspace_nbytes = (size_t)(2 * s->steps * s->labels) * sizeof(double);
    return NULL;
}

/* One sequence. */
typedef struct lattice {
    const rnnt_state *s;
    const tensor *x, *label;
    int64_t at, steps, nlabels;
} lattice;

static int64_t place_of(const lattice *l, int64_t t, int64_t u, int64_t class) {
    const rnnt_state *s = l->s;
    return ((l->at * s->steps + t) * s->labels + u) * s->classes + class;
}
static int64_t label_of(const lattice *l, int64_t u) {
    return tensor_integer(l->label, l->at * (l->s->labels - 1) + u);
}
static double blank_at(const lattice *l, int64_t t, int64_t u) {
    return tensor_real(l->x, place_of(l, t, u, l->s->blank));
}
static double label_at(const lattice *l, int64_t t, int64_t u) {
    return tensor_real(l->x, place_of(l, t, u, label_of(l, u)));
}

/* What comes before a place. */
static void forward_sums(const lattice *l, double *alpha) {
    for (int64_t t = 0; t < l->steps; t++)
        for (int64_t u = 0; u <= l->nlabels; u++) {
            double sum = t || u ? -INFINITY : 0;
            if (t) sum = alpha[(t - 1) * l->s->labels + u] + blank_at(l, t - 1, u);
            if (u) sum = special_log_add(sum, alpha[t * l->s->labels + u - 1] + label_at(l, t, u - 1));
            alpha[t * l->s->labels + u] = sum;
        }
}

/* What follows it: the last blank ends the sequence. */
static double behind(const lattice *l, const double *beta, int64_t t, int64_t u) {
    if (t == l->steps) return u == l->nlabels ? 0 : -INFINITY;
    return u > l->nlabels ? -INFINITY : beta[t * l->s->labels + u];
}
static void backward_sums(const lattice *l, double *beta) {
    for (int64_t t = l->steps - 1; t >= 0; t--)
        for (int64_t u = l->nlabels; u >= 0; u--) {
            double sum = behind(l, beta, t + 1, u) + blank_at(l, t, u);
            if (u < l->nlabels) sum = special_log_add(sum, behind(l, beta, t, u + 1) + label_at(l, t, u));
            beta[t * l->s->labels + u] = sum;
        }
}

/* Minus the share of each way in all. */
static void gradient(const lattice *l, const double *alpha, const double *beta, double total, tensor *out) {
    for (int64_t t = 0; t < l->steps; t++)
        for (int64_t u = 0; u <= l->nlabels; u++) {
            double before = alpha[t * l->s->labels + u] - total;
            double blank = exp(before + blank_at(l, t, u) + behind(l, beta, t + 1, u));
            tensor_add_real(out, place_of(l, t, u, l->s->blank), -blank);
            if (u == l->nlabels) continue;
            double label = exp(before + label_at(l, t, u) + behind(l, beta, t, u + 1));
            tensor_add_real(out, place_of(l, t, u, label_of(l, u)), -(1 + l->s->emit) * label);
        }
}

static weft_status check(const kernel_call *c, lattice *l) {
    const rnnt_state *s = l->s;
    l->steps = tensor_integer(arg_in(c, IN_STEPS), l->at);
    l->nlabels = tensor_integer(arg_in(c, IN_LABELS), l->at);
    if (l->steps < 1 || l->steps > s->steps || l->nlabels < 0 || l->nlabels >= s->labels)
        return kernel_failed(c, "expected lengths of 1 to %lld steps and at most %lld labels, found %lld and %lld",
                             (long long)s->steps, (long long)s->labels - 1, (long long)l->steps,
                             (long long)l->nlabels);
    for (int64_t u = 0; u < l->nlabels; u++)
        if (label_of(l, u) < 0 || label_of(l, u) >= s->classes)
            return kernel_failed(c, "label: expected 0 to %lld, found %lld", (long long)s->classes - 1,
                                 (long long)label_of(l, u));
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const rnnt_state *s = c->state;
    tensor *kept = arg_out(c, OUT_KEPT);
    double *alpha = c->workspace, *beta = alpha + s->steps * s->labels;
    tensor_clear(kept);
    for (int64_t b = 0; b < s->batch; b++) {
        lattice l = {.s = s, .x = arg_in(c, IN_INPUT), .label = arg_in(c, IN_LABEL), .at = b};
        TRY(check(c, &l));
        forward_sums(&l, alpha);
        double total = alpha[(l.steps - 1) * s->labels + l.nlabels] + blank_at(&l, l.steps - 1, l.nlabels);
        tensor_set_real(arg_out(c, OUT_LOSS), b, -total);
        if (!kept) continue;
        backward_sums(&l, beta);
        gradient(&l, alpha, beta, total, kept);
    }
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    rnnt_state *s = KERNEL_STATE(p, rnnt_state);
    if (!s) return base_out_of_memory();
    const tensor *kept = type_in(p, GRAD_IN_KEPT);
    TRY(require_real(p, kept, "warprnntgrad"));
    if (kept->ndim != 4) return kernel_unsupported(p, "expected a warprnntgrad of 4 dimensions");
    s->batch = kept->dims[0];
    TRY(require_present(p, type_in(p, GRAD_IN_LOSS), "loss@GRAD"));
    TRY(require_like(p, kept, type_in(p, GRAD_IN_LOSS), s->batch, "loss@GRAD"));
    TRY(require_present(p, type_out(p, 0), "input@GRAD"));
    return require_like(p, kept, type_out(p, 0), kept->numel, "input@GRAD");
}

static weft_status run_grad(const kernel_call *c) {
    const rnnt_state *s = c->state;
    const tensor *kept = arg_in(c, GRAD_IN_KEPT);
    for (int64_t i = 0; i < kept->numel; i++) {
        double down = tensor_real(arg_in(c, GRAD_IN_LOSS), i / (kept->numel / s->batch));
        tensor_set_real(arg_out(c, 0), i, down * tensor_real(kept, i));
    }
    return NULL;
}

const kernel kernel_warprnnt = {prepare, run};
const kernel kernel_warprnnt_grad = {prepare_grad, run_grad};
