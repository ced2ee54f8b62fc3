/* auc.c: the area under a classifier's ROC curve from counts of positive and negative samples by threshold
 * (phi/kernels/cpu/auc_kernel.cc).
 *
 * Without slide_steps the counts of all steps add up. With them the state is a window of so many steps, the sum of
 * these, and the number of steps so far. */
#include "executor/kernels/layout.h"

enum { IN_PREDICT, IN_LABEL, IN_POSITIVE, IN_NEGATIVE, OUT_AUC = 0, OUT_POSITIVE, OUT_NEGATIVE };

typedef struct auc_state {
    int64_t nbuckets, steps, width;
} auc_state;

static weft_status prepare(kernel_prepare *p) {
    auc_state *s = KERNEL_STATE(p, auc_state);
    if (!s) return base_out_of_memory();
    const tensor *predict = type_in(p, IN_PREDICT);
    TRY(require_real(p, predict, "Predict"));
    if (predict->ndim < 1) return kernel_unsupported(p, "expected rows in Predict");
    s->width = predict->ndim < 2 ? 1 : predict->dims[predict->ndim - 1];
    s->nbuckets = attr_int(p->op, "num_thresholds", 4095) + 1;
    s->steps = attr_int(p->op, "slide_steps", 1);
    if (s->nbuckets < 2 || s->steps < 0 || s->width < 1)
        return kernel_unsupported(p, "expected num_thresholds of 1 or more and slide_steps of 0 or more");
    TRY(require_numel(p, type_in(p, IN_LABEL), predict->numel / s->width, "Label"));
    int64_t numel = s->steps ? (s->steps + 1) * s->nbuckets + 1 : s->nbuckets;
    for (int k = 0; k < 2; k++) {
        const tensor *in = type_in(p, IN_POSITIVE + k), *out = type_out(p, OUT_POSITIVE + k);
        TRY(require_numel(p, in, numel, "a state"));
        TRY(require_numel(p, out, numel, "a state"));
        if (in->dtype != WEFT_INT64) return kernel_unsupported(p, "expected counts of int64, found others");
    }
    TRY(require_numel(p, type_out(p, OUT_AUC), 1, "AUC"));
    p->workspace_nbytes = 2 * (size_t)s->nbuckets * sizeof(int64_t);
    return NULL;
}

/* Counts of this step by the bucket of the last column. */
static weft_status count_samples(const kernel_call *c, int64_t *positive, int64_t *negative) {
    const auc_state *s = c->state;
    const tensor *predict = arg_in(c, IN_PREDICT), *label = arg_in(c, IN_LABEL);
    memset(positive, 0, 2 * (size_t)s->nbuckets * sizeof *positive);
    for (int64_t i = 0; i < label->numel; i++) {
        double p = tensor_real(predict, i * s->width + s->width - 1);
        if (!(p >= 0 && p <= 1)) return kernel_failed(c, "expected probabilities of 0 to 1, found %g", p);
        bool is_float = predict->dtype == WEFT_FP32; /* rounded as Paddle's product */
        double bucket = is_float ? (double)((float)p * (float)(s->nbuckets - 1)) : p * (double)(s->nbuckets - 1);
        (tensor_integer(label, i) > 0 ? positive : negative)[(int64_t)bucket]++;
    }
    return NULL;
}

/* Puts this step's counts into a state; returns the counts to measure. */
static const int64_t *add_step(const auc_state *s, const int64_t *step, int64_t *state) {
    int64_t n = s->nbuckets, *sum = state + s->steps * n, *total = sum + n;
    int64_t *window = s->steps ? state + *total % s->steps * n : NULL;
    for (int64_t b = 0; b < n; b++) {
        sum[b] += step[b] - (window ? window[b] : 0);
        if (window) window[b] = step[b];
    }
    if (window) ++*total;
    return sum;
}

static double area(const int64_t *positive, const int64_t *negative, int64_t n) {
    double area = 0, above = 0, beside = 0;
    for (int64_t b = n - 1; b >= 0; b--) {
        double next_above = above + (double)positive[b], next_beside = beside + (double)negative[b];
        area += (next_beside - beside) * (above + next_above) / 2;
        above = next_above;
        beside = next_beside;
    }
    return above > 0 && beside > 0 ? area / above / beside : area;
}

static weft_status run(const kernel_call *c) {
    const auc_state *s = c->state;
    int64_t *step = c->workspace;
    const int64_t *counts[2];
    TRY(count_samples(c, step, step + s->nbuckets));
    for (int k = 0; k < 2; k++) {
        tensor *state = arg_out(c, OUT_POSITIVE + k);
        copy_bytes(state->data, arg_in(c, IN_POSITIVE + k)->data, tensor_nbytes(state));
        counts[k] = add_step(s, step + k * s->nbuckets, state->data);
    }
    tensor *auc = arg_out(c, OUT_AUC);
    fill_elements(auc->dtype, auc->data, 1, area(counts[0], counts[1], s->nbuckets));
    return NULL;
}

const kernel kernel_auc = {prepare, run};
