/* crf.c: the likelihood of labels in a linear chain, its gradient, and the likeliest labels.
 *
 * Transition has a row of weights to begin with, one to end with, and then from each label to each. Weights are kept as
 * exponentials; emissions relative to the largest of a step, and forward sums relative to a step's total, so that
 * nothing overflows. Paddle: paddle/phi/kernels/impl/linear_chain_crf_kernel_impl.h, crf_decoding_kernel_impl.h. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_EMISSION, IN_TRANSITION, IN_LABEL, IN_LENGTH };
enum { OUT_LIKELIHOOD, OUT_ALPHA, OUT_EMISSION_EXPS, OUT_TRANSITION_EXPS };
enum { GRAD_IN_ALPHA = 4, GRAD_IN_EMISSION_EXPS, GRAD_IN_TRANSITION_EXPS, GRAD_IN_LIKELIHOOD };
enum { OUT_EMISSION_GRAD, OUT_TRANSITION_GRAD };

typedef struct crf_state {
    int64_t batch, steps, labels;
} crf_state;

static weft_status prepare_common(kernel_prepare *p, bool needs_label) {
    crf_state *s = KERNEL_STATE(p, crf_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_EMISSION), *w = type_in(p, IN_TRANSITION), *label = type_in(p, IN_LABEL);
    TRY(require_real(p, x, "Emission"));
    TRY(require_same_dtype(p, x, w, "Transition"));
    if (x->ndim != 3 || !type_in(p, IN_LENGTH))
        return kernel_unsupported(p, "expected Emission [sequence, step, label], and Length");
    s->batch = x->dims[0], s->steps = x->dims[1], s->labels = x->dims[2];
    TRY(require_numel(p, w, (s->labels + 2) * s->labels, "Transition"));
    TRY(require_numel(p, type_in(p, IN_LENGTH), s->batch, "Length"));
    if (needs_label || label) TRY(require_numel(p, label, s->batch * s->steps, "Label"));
    return NULL;
}

static weft_status check_sequence(const kernel_call *c, const crf_state *s, int64_t b, bool has_label, int64_t *out) {
    *out = tensor_integer(arg_in(c, IN_LENGTH), b);
    if (*out < 0 || *out > s->steps)
        return kernel_failed(c, "Length: expected 0 to %lld, found %lld", (long long)s->steps, (long long)*out);
    for (int64_t t = 0; has_label && t < *out; t++) {
        int64_t label = tensor_integer(arg_in(c, IN_LABEL), b * s->steps + t);
        if (label < 0 || label >= s->labels)
            return kernel_failed(c, "Label: expected 0 to %lld, found %lld", (long long)s->labels - 1,
                                 (long long)label);
    }
    return NULL;
}

static double weight(const kernel_call *c, const crf_state *s, int64_t row, int64_t label) {
    return tensor_real(arg_in(c, IN_TRANSITION), row * s->labels + label);
}

/* --- likelihood --------------------------------------------------------------------------------------------------- */

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p, true));
    const crf_state *s = p->state;
    int64_t numel = s->batch * s->steps * s->labels;
    TRY(require_numel(p, type_out(p, OUT_LIKELIHOOD), s->batch, "LogLikelihood"));
    TRY(require_numel(p, type_out(p, OUT_ALPHA), numel, "Alpha"));
    TRY(require_numel(p, type_out(p, OUT_EMISSION_EXPS), numel, "EmissionExps"));
    return require_numel(p, type_out(p, OUT_TRANSITION_EXPS), (s->labels + 2) * s->labels, "TransitionExps");
}

/* Divides by their sum, which it gives. */
static double normalise(tensor *t, int64_t first, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += tensor_real(t, first + i);
    for (int64_t i = 0; i < n; i++) tensor_set_real(t, first + i, tensor_real(t, first + i) / sum);
    return sum;
}

/* exp of a step's emissions over the largest, which it gives. */
static double emission_exps(const kernel_call *c, const crf_state *s, int64_t first) {
    const tensor *x = arg_in(c, IN_EMISSION);
    double most = tensor_real(x, first);
    for (int64_t i = 1; i < s->labels; i++) most = fmax(most, tensor_real(x, first + i));
    for (int64_t i = 0; i < s->labels; i++)
        tensor_set_real(arg_out(c, OUT_EMISSION_EXPS), first + i, exp(tensor_real(x, first + i) - most));
    return most;
}

static double score_of_labels(const kernel_call *c, const crf_state *s, int64_t b, int64_t length) {
    double score = 0;
    int64_t last = 0;
    for (int64_t t = 0; t < length; t++) {
        int64_t label = tensor_integer(arg_in(c, IN_LABEL), b * s->steps + t);
        score += tensor_real(arg_in(c, IN_EMISSION), (b * s->steps + t) * s->labels + label);
        score += weight(c, s, t ? last + 2 : 0, label);
        last = label;
    }
    return length ? score + weight(c, s, 1, last) : 0;
}

static double log_partition(const kernel_call *c, const crf_state *s, int64_t b, int64_t length) {
    tensor *alpha = arg_out(c, OUT_ALPHA), *w = arg_out(c, OUT_TRANSITION_EXPS);
    const tensor *x = arg_out(c, OUT_EMISSION_EXPS);
    double total = 0, end = 0;
    for (int64_t t = 0; t < length; t++) {
        int64_t first = (b * s->steps + t) * s->labels;
        total += emission_exps(c, s, first);
        for (int64_t i = 0; i < s->labels; i++) {
            double sum = t ? 0 : tensor_real(w, i);
            for (int64_t j = 0; t && j < s->labels; j++)
                sum += tensor_real(alpha, first - s->labels + j) * tensor_real(w, (j + 2) * s->labels + i);
            tensor_set_real(alpha, first + i, sum * tensor_real(x, first + i));
        }
        total += log(normalise(alpha, first, s->labels));
    }
    for (int64_t i = 0; length && i < s->labels; i++)
        end += tensor_real(alpha, (b * s->steps + length - 1) * s->labels + i) * tensor_real(w, s->labels + i);
    return length ? total + log(end) : 0;
}

static weft_status run(const kernel_call *c) {
    const crf_state *s = c->state;
    for (int o = OUT_ALPHA; o <= OUT_EMISSION_EXPS; o++) tensor_clear(arg_out(c, o));
    for (int64_t i = 0; i < (s->labels + 2) * s->labels; i++)
        tensor_set_real(arg_out(c, OUT_TRANSITION_EXPS), i, exp(tensor_real(arg_in(c, IN_TRANSITION), i)));
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t length;
        TRY(check_sequence(c, s, b, true, &length));
        double total = log_partition(c, s, b, length);
        tensor_set_real(arg_out(c, OUT_LIKELIHOOD), b, total - score_of_labels(c, s, b, length));
    }
    return NULL;
}

/* --- gradient ----------------------------------------------------------------------------------------------------- */

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, true));
    const crf_state *s = p->state;
    int64_t numel = s->batch * s->steps * s->labels, nweights = (s->labels + 2) * s->labels;
    TRY(require_numel(p, type_in(p, GRAD_IN_ALPHA), numel, "Alpha"));
    TRY(require_numel(p, type_in(p, GRAD_IN_EMISSION_EXPS), numel, "EmissionExps"));
    TRY(require_numel(p, type_in(p, GRAD_IN_TRANSITION_EXPS), nweights, "TransitionExps"));
    TRY(require_numel(p, type_in(p, GRAD_IN_LIKELIHOOD), s->batch, "LogLikelihood@GRAD"));
    TRY(require_like(p, type_in(p, IN_EMISSION), type_out(p, OUT_EMISSION_GRAD), numel, "Emission@GRAD"));
    TRY(require_like(p, type_in(p, IN_EMISSION), type_out(p, OUT_TRANSITION_GRAD), nweights, "Transition@GRAD"));
    p->workspace_nbytes = (size_t)((s->steps + s->labels + 3) * s->labels) * sizeof(double);
    return NULL;
}

static void scale_to_one(int64_t n, double *v) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    for (int64_t i = 0; i < n; i++) v[i] /= sum;
}

/* Sums over what follows a step, relative to their total. */
static void backward_sums(const kernel_call *c, const crf_state *s, int64_t b, int64_t length, double *beta) {
    const tensor *w = arg_in(c, GRAD_IN_TRANSITION_EXPS), *x = arg_in(c, GRAD_IN_EMISSION_EXPS);
    for (int64_t t = length - 1; t >= 0; t--) {
        double *row = beta + t * s->labels;
        for (int64_t i = 0; i < s->labels; i++) {
            row[i] = t == length - 1 ? tensor_real(w, s->labels + i) : 0;
            for (int64_t j = 0; t < length - 1 && j < s->labels; j++)
                row[i] += tensor_real(w, (i + 2) * s->labels + j) *
                          tensor_real(x, (b * s->steps + t + 1) * s->labels + j) * row[s->labels + j];
        }
        scale_to_one(s->labels, row);
    }
}

/* Gradients of one step: what the model expects of each label, less what is there. */
static void step_grad(const kernel_call *c, const crf_state *s, int64_t b, int64_t t, int64_t length, double slope,
                      const double *beta, double *expected, double *dw) {
    const tensor *alpha = arg_in(c, GRAD_IN_ALPHA), *w = arg_in(c, GRAD_IN_TRANSITION_EXPS),
                 *x = arg_in(c, GRAD_IN_EMISSION_EXPS), *labels = arg_in(c, IN_LABEL);
    tensor *dx = arg_out(c, OUT_EMISSION_GRAD);
    int64_t first = (b * s->steps + t) * s->labels, n = s->labels;
    int64_t label = tensor_integer(labels, b * s->steps + t),
            last = t ? tensor_integer(labels, b * s->steps + t - 1) : 0;
    for (int64_t i = 0; i < n; i++) expected[i] = tensor_real(alpha, first + i) * beta[t * n + i];
    scale_to_one(n, expected);
    expected[label] -= 1;
    for (int64_t i = 0; i < n; i++) {
        if (dx) tensor_set_real(dx, first + i, slope * expected[i]);
        if (t == 0) dw[i] += slope * expected[i];
        if (t == length - 1) dw[n + i] += slope * expected[i];
    }
    if (t == 0) return;
    double sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double both = tensor_real(alpha, first - n + i) * tensor_real(w, (i + 2) * n + j) *
                              tensor_real(x, first + j) * beta[t * n + j];
                if (pass)
                    dw[(i + 2) * n + j] += slope * both / sum;
                else
                    sum += both;
            }
    dw[(last + 2) * n + label] -= slope;
}

static weft_status run_grad(const kernel_call *c) {
    const crf_state *s = c->state;
    double *beta = c->workspace, *dw = beta + s->steps * s->labels, *expected = dw + (s->labels + 2) * s->labels;
    tensor *dx = arg_out(c, OUT_EMISSION_GRAD), *dt = arg_out(c, OUT_TRANSITION_GRAD);
    tensor_clear(dx);
    memset(dw, 0, (size_t)((s->labels + 2) * s->labels) * sizeof *dw);
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t length;
        TRY(check_sequence(c, s, b, true, &length));
        double slope = tensor_real(arg_in(c, GRAD_IN_LIKELIHOOD), b);
        backward_sums(c, s, b, length, beta);
        for (int64_t t = 0; t < length; t++) step_grad(c, s, b, t, length, slope, beta, expected, dw);
    }
    for (int64_t i = 0; dt && i < dt->numel; i++) tensor_set_real(dt, i, dw[i]);
    return NULL;
}

/* --- the likeliest labels ----------------------------------------------------------------------------------------- */

static weft_status prepare_decoding(kernel_prepare *p) {
    TRY(prepare_common(p, false));
    const crf_state *s = p->state;
    const tensor *path = type_out(p, 0);
    TRY(require_numel(p, path, s->batch * s->steps, "ViterbiPath"));
    if (path->dtype != WEFT_INT64) return kernel_unsupported(p, "expected a ViterbiPath of int64");
    p->workspace_nbytes = (size_t)(s->steps * s->labels + 2 * s->labels) * sizeof(double);
    return NULL;
}

static void decode(const kernel_call *c, const crf_state *s, int64_t b, int64_t length, int64_t *path) {
    const tensor *x = arg_in(c, IN_EMISSION);
    double *now = c->workspace, *next = now + s->labels;
    int64_t *from = (int64_t *)(void *)(next + s->labels), n = s->labels, best = 0;
    for (int64_t t = 0; t < length; t++) {
        for (int64_t i = 0; i < n; i++) {
            double most = t ? -INFINITY : weight(c, s, 0, i);
            for (int64_t j = 0; t && j < n; j++)
                if (now[j] + weight(c, s, j + 2, i) > most) most = now[j] + weight(c, s, j + 2, i), from[t * n + i] = j;
            next[i] = most + tensor_real(x, (b * s->steps + t) * n + i);
        }
        memcpy(now, next, (size_t)n * sizeof *now);
    }
    for (int64_t i = 0; i < n && length; i++) now[i] += weight(c, s, 1, i);
    for (int64_t i = 1; i < n && length; i++)
        if (now[i] > now[best]) best = i;
    for (int64_t t = length - 1; t >= 0; t--) path[t] = best, best = t ? from[t * n + best] : 0;
}

static weft_status run_decoding(const kernel_call *c) {
    const crf_state *s = c->state;
    const tensor *label = arg_in(c, IN_LABEL);
    int64_t *path = arg_out(c, 0)->data;
    if (arg_out(c, 0)->numel) memset(path, 0, tensor_nbytes(arg_out(c, 0)));
    for (int64_t b = 0; b < s->batch; b++) {
        int64_t length;
        TRY(check_sequence(c, s, b, false, &length));
        decode(c, s, b, length, path + b * s->steps);
        for (int64_t t = b * s->steps; label && t < b * s->steps + length; t++)
            path[t] = path[t] == tensor_integer(label, t);
    }
    return NULL;
}

const kernel kernel_linear_chain_crf = {prepare, run};
const kernel kernel_linear_chain_crf_grad = {prepare_grad, run_grad};
const kernel kernel_crf_decoding = {prepare_decoding, run_decoding};
