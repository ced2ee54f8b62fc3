/* warpctc.c: connectionist temporal classification: minus the log probability of all ways in which steps can spell a
 * label sequence, blanks between and around; and the gradient, which the forward op makes at once.
 *
 * Logits [step, sequence, class] are normalised here. States are blank, label 0, blank, label 1, ..., blank. Sums are
 * kept as logarithms. A sequence too short for its labels costs 0. Source: Graves et al. 2006; warp-ctc. */
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/special_math.h"

enum { IN_LOGITS, IN_LABEL, IN_LOGITS_LENGTH, IN_LABEL_LENGTH, OUT_LOSS = 0, OUT_KEPT };
enum { GRAD_IN_LOGITS, GRAD_IN_KEPT, GRAD_IN_LOSS, GRAD_IN_LENGTH };

typedef struct ctc_state {
    int64_t steps, batch, classes, labels, blank, states;
    bool by_times;
} ctc_state;

static weft_status prepare(kernel_prepare *p) {
    ctc_state *s = KERNEL_STATE(p, ctc_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_LOGITS), *label = type_in(p, IN_LABEL);
    TRY(require_real(p, x, "Logits"));
    if (x->ndim != 3 || !label || label->ndim != 2 || !type_in(p, IN_LOGITS_LENGTH) || !type_in(p, IN_LABEL_LENGTH))
        return kernel_unsupported(p,
                                  "expected Logits [step, sequence, class], Label [sequence, label] and both lengths");
    s->steps = x->dims[0], s->batch = x->dims[1], s->classes = x->dims[2], s->labels = label->dims[1];
    s->blank = attr_int(p->op, "blank", 0);
    s->states = 2 * s->labels + 1;
    if (s->blank < 0 || s->blank >= s->classes) return kernel_unsupported(p, "expected a blank that is a class");
    if (label->dims[0] != s->batch) return kernel_unsupported(p, "expected labels for each sequence");
    TRY(require_numel(p, type_in(p, IN_LOGITS_LENGTH), s->batch, "LogitsLength"));
    TRY(require_numel(p, type_in(p, IN_LABEL_LENGTH), s->batch, "LabelLength"));
    TRY(require_numel(p, type_out(p, OUT_LOSS), s->batch, "Loss"));
    if (type_out(p, OUT_KEPT)) TRY(require_like(p, x, type_out(p, OUT_KEPT), x->numel, "WarpCTCGrad"));
    p->workspace_nbytes = (size_t)(s->steps * (s->classes + s->states) + 2 * s->states + s->classes) * sizeof(double);
    return NULL;
}

typedef struct spelling {
    const ctc_state *s;
    const double *log_p; /* [step, class] */
    const tensor *label;
    int64_t at, length, steps; /* where its labels begin; how many labels, how many steps */
} spelling;

static int64_t class_of(const spelling *w, int64_t state) {
    return state % 2 ? tensor_integer(w->label, w->at + state / 2) : w->s->blank;
}
static bool may_skip(const spelling *w, int64_t state) {
    return state % 2 && state >= 2 && class_of(w, state) != class_of(w, state - 2);
}

static void forward_sums(const spelling *w, double *alpha) {
    int64_t n = 2 * w->length + 1;
    for (int64_t t = 0; t < w->steps; t++, alpha += w->s->states) {
        const double *before = alpha - w->s->states;
        for (int64_t i = 0; i < n; i++) {
            double sum = t ? before[i] : i < 2 ? 0 : -INFINITY;
            if (t && i >= 1) sum = special_log_add(sum, before[i - 1]);
            if (t && may_skip(w, i)) sum = special_log_add(sum, before[i - 2]);
            alpha[i] = sum + w->log_p[t * w->s->classes + class_of(w, i)];
        }
    }
}

/* What follows state i of step t, that step's own probability left out; from that of step t + 1. */
static void backward_step(const spelling *w, int64_t t, const double *behind, double *beta) {
    int64_t n = 2 * w->length + 1;
    const double *p = w->log_p + (t + 1) * w->s->classes;
    for (int64_t i = 0; i < n; i++) {
        if (t == w->steps - 1) {
            beta[i] = i >= n - 2 ? 0 : -INFINITY;
            continue;
        }
        double sum = behind[i] + p[class_of(w, i)];
        if (i + 1 < n) sum = special_log_add(sum, behind[i + 1] + p[class_of(w, i + 1)]);
        if (i + 2 < n && may_skip(w, i + 2)) sum = special_log_add(sum, behind[i + 2] + p[class_of(w, i + 2)]);
        beta[i] = sum;
    }
}

static void log_softmax_of(const ctc_state *s, const tensor *x, int64_t b, int64_t steps, double *log_p) {
    for (int64_t t = 0; t < steps; t++, log_p += s->classes) {
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < s->classes; k++) {
            log_p[k] = tensor_real(x, (t * s->batch + b) * s->classes + k);
            most = fmax(most, log_p[k]);
        }
        for (int64_t k = 0; k < s->classes; k++) sum += exp(log_p[k] - most);
        for (int64_t k = 0; k < s->classes; k++) log_p[k] -= most + log(sum);
    }
}

/* softmax less the share of each class in all spellings. */
static void gradient(const spelling *w, const double *alpha, double total, double *scratch, int64_t b, tensor *out) {
    const ctc_state *s = w->s;
    double *now = scratch, *behind = now + s->states, *share = behind + s->states;
    for (int64_t t = w->steps - 1; t >= 0; t--) {
        backward_step(w, t, behind, now);
        for (int64_t k = 0; k < s->classes; k++) share[k] = 0;
        for (int64_t i = 0; i < 2 * w->length + 1; i++)
            share[class_of(w, i)] += exp(alpha[t * s->states + i] + now[i] - total);
        for (int64_t k = 0; k < s->classes; k++)
            tensor_set_real(out, (t * s->batch + b) * s->classes + k, exp(w->log_p[t * s->classes + k]) - share[k]);
        double *swap = now;
        now = behind, behind = swap;
    }
}

static weft_status check(const kernel_call *c, const ctc_state *s, int64_t b, spelling *w, bool *out_fits) {
    w->steps = tensor_integer(arg_in(c, IN_LOGITS_LENGTH), b);
    w->length = tensor_integer(arg_in(c, IN_LABEL_LENGTH), b);
    w->at = b * s->labels;
    if (w->steps < 0 || w->steps > s->steps || w->length < 0 || w->length > s->labels)
        return kernel_failed(c, "expected lengths of at most %lld steps and %lld labels, found %lld and %lld",
                             (long long)s->steps, (long long)s->labels, (long long)w->steps, (long long)w->length);
    int64_t needed = w->length;
    for (int64_t i = 0; i < w->length; i++) {
        int64_t label = tensor_integer(w->label, w->at + i);
        if (label < 0 || label >= s->classes)
            return kernel_failed(c, "Label: expected 0 to %lld, found %lld", (long long)s->classes - 1,
                                 (long long)label);
        needed += i && label == tensor_integer(w->label, w->at + i - 1);
    }
    *out_fits = needed <= w->steps && w->steps > 0;
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const ctc_state *s = c->state;
    tensor *kept = arg_out(c, OUT_KEPT);
    double *log_p = c->workspace, *alpha = log_p + s->steps * s->classes, *scratch = alpha + s->steps * s->states;
    tensor_clear(kept);
    for (int64_t b = 0; b < s->batch; b++) {
        spelling w = {.s = s, .log_p = log_p, .label = arg_in(c, IN_LABEL)};
        bool fits = false;
        TRY(check(c, s, b, &w, &fits));
        tensor_set_real(arg_out(c, OUT_LOSS), b, 0);
        if (!fits) continue;
        log_softmax_of(s, arg_in(c, IN_LOGITS), b, w.steps, log_p);
        forward_sums(&w, alpha);
        const double *last = alpha + (w.steps - 1) * s->states;
        double total = last[2 * w.length];
        if (w.length) total = special_log_add(total, last[2 * w.length - 1]);
        tensor_set_real(arg_out(c, OUT_LOSS), b, -total);
        if (kept) gradient(&w, alpha, total, scratch, b, kept);
    }
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    ctc_state *s = KERNEL_STATE(p, ctc_state);
    if (!s) return base_out_of_memory();
    const tensor *kept = type_in(p, GRAD_IN_KEPT);
    TRY(require_real(p, kept, "WarpCTCGrad"));
    if (kept->ndim != 3) return kernel_unsupported(p, "expected a WarpCTCGrad of 3 dimensions");
    s->steps = kept->dims[0], s->batch = kept->dims[1], s->classes = kept->dims[2];
    s->by_times = attr_bool(p->op, "norm_by_times", false);
    TRY(require_numel(p, type_in(p, GRAD_IN_LOSS), s->batch, "Loss@GRAD"));
    if (s->by_times) TRY(require_numel(p, type_in(p, GRAD_IN_LENGTH), s->batch, "LogitsLength"));
    TRY(require_present(p, type_out(p, 0), "Logits@GRAD"));
    return require_like(p, kept, type_out(p, 0), kept->numel, "Logits@GRAD");
}

static weft_status run_grad(const kernel_call *c) {
    const ctc_state *s = c->state;
    const tensor *kept = arg_in(c, GRAD_IN_KEPT);
    for (int64_t i = 0; i < kept->numel; i++) {
        int64_t b = i / s->classes % s->batch;
        double slope = tensor_real(arg_in(c, GRAD_IN_LOSS), b);
        if (s->by_times) slope /= (double)tensor_integer(arg_in(c, GRAD_IN_LENGTH), b);
        tensor_set_real(arg_out(c, 0), i, slope * tensor_real(kept, i));
    }
    return NULL;
}

const kernel kernel_warpctc = {prepare, run};
const kernel kernel_warpctc_grad = {prepare_grad, run_grad};
