/* ranking.c: losses of pairs and margins: hinge_loss, rank_loss (RankNet; Burges and others, 2005), bpr_loss (Bayesian
 * personalized ranking; Rendle and others, 2009), and the sum of absolute values (l1_norm); with gradients. */
#include <math.h>

#include "executor/kernels/layout.h"

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
/* log(1 + exp(x)) */
static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* Arguments of one type and size. */
static weft_status prepare_alike(kernel_prepare *p, const tensor *first, const tensor *second, const tensor *third) {
    TRY(require_real(p, first, "the first argument"));
    TRY(require_like(p, first, second, first->numel, "an argument"));
    return require_like(p, first, third, first->numel, "an argument");
}

/* --- hinge_loss: max(0, 1 - x (2 label - 1)) ---------------------------------------------------------------------- */

static weft_status prepare_hinge(kernel_prepare *p) {
    return prepare_alike(p, type_in(p, 0), type_in(p, 1), type_out(p, 0));
}
static weft_status prepare_hinge_grad(kernel_prepare *p) {
    TRY(prepare_alike(p, type_in(p, 0), type_in(p, 1), type_in(p, 2)));
    return require_like(p, type_in(p, 0), type_out(p, 0), type_in(p, 0)->numel, "Logits@GRAD");
}

static double margin_at(const kernel_call *c, int64_t i) {
    return 1 - tensor_real(arg_in(c, 0), i) * (2 * tensor_real(arg_in(c, 1), i) - 1);
}

static weft_status run_hinge(const kernel_call *c) {
    for (int64_t i = 0; i < arg_in(c, 0)->numel; i++) {
        double margin = margin_at(c, i);
        tensor_set_real(arg_out(c, 0), i, margin < 0 ? 0 : margin);
    }
    return NULL;
}

static weft_status run_hinge_grad(const kernel_call *c) {
    for (int64_t i = 0; i < arg_in(c, 0)->numel; i++) {
        double slope = margin_at(c, i) <= 0 ? 0 : 1 - 2 * tensor_real(arg_in(c, 1), i);
        tensor_set_real(arg_out(c, 0), i, slope * tensor_real(arg_in(c, 2), i));
    }
    return NULL;
}

const kernel kernel_hinge_loss = {prepare_hinge, run_hinge};
const kernel kernel_hinge_loss_grad = {prepare_hinge_grad, run_hinge_grad};

/* --- rank_loss: log(1 + exp(o)) - label o, o = left - right ------------------------------------------------------- */

enum { RANK_LABEL, RANK_LEFT, RANK_RIGHT, RANK_OUT_GRAD };

static weft_status prepare_rank(kernel_prepare *p) {
    TRY(prepare_alike(p, type_in(p, RANK_LABEL), type_in(p, RANK_LEFT), type_in(p, RANK_RIGHT)));
    return require_like(p, type_in(p, RANK_LABEL), type_out(p, 0), type_in(p, RANK_LABEL)->numel, "a result");
}
static weft_status prepare_rank_grad(kernel_prepare *p) {
    TRY(prepare_rank(p));
    const tensor *label = type_in(p, RANK_LABEL);
    TRY(require_like(p, label, type_in(p, RANK_OUT_GRAD), label->numel, "Out@GRAD"));
    return require_like(p, label, type_out(p, 1), label->numel, "Right@GRAD");
}

static double lead_at(const kernel_call *c, int64_t i) {
    return tensor_real(arg_in(c, RANK_LEFT), i) - tensor_real(arg_in(c, RANK_RIGHT), i);
}

static weft_status run_rank(const kernel_call *c) {
    for (int64_t i = 0; i < arg_in(c, RANK_LABEL)->numel; i++) {
        double lead = lead_at(c, i);
        tensor_set_real(arg_out(c, 0), i, softplus(lead) - tensor_real(arg_in(c, RANK_LABEL), i) * lead);
    }
    return NULL;
}

static weft_status run_rank_grad(const kernel_call *c) {
    tensor *left = arg_out(c, 0), *right = arg_out(c, 1);
    for (int64_t i = 0; i < arg_in(c, RANK_LABEL)->numel; i++) {
        double slope = sigmoid(lead_at(c, i)) - tensor_real(arg_in(c, RANK_LABEL), i);
        double g = slope * tensor_real(arg_in(c, RANK_OUT_GRAD), i);
        if (left) tensor_set_real(left, i, g);
        if (right) tensor_set_real(right, i, -g);
    }
    return NULL;
}

const kernel kernel_rank_loss = {prepare_rank, run_rank};
const kernel kernel_rank_loss_grad = {prepare_rank_grad, run_rank_grad};

/* --- bpr_loss: of each row the mean over the other classes of log(1 + exp(x_j - x_label)) ------------------------- */

enum { BPR_X, BPR_LABEL, BPR_Y_GRAD };

/* Of rows of the last dimension; the state is how many. */
static weft_status prepare_classes(kernel_prepare *p, const tensor *y) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, BPR_X), *label = type_in(p, BPR_LABEL);
    TRY(require_real(p, x, "X"));
    TRY(axis_split_prepare(p, x, -1, s));
    TRY(require_present(p, label, "Label"));
    TRY(require_numel(p, label, s->outer, "Label"));
    if (label->dtype != WEFT_INT64 && label->dtype != WEFT_INT32)
        return kernel_unsupported(p, "expected int32 or int64 Label, found %s", dtype_text(label->dtype));
    if (s->extent < 2) return kernel_unsupported(p, "expected 2 or more classes, found %lld", (long long)s->extent);
    TRY(require_present(p, y, "Y"));
    return require_like(p, x, y, s->outer, "Y");
}
static weft_status prepare_bpr(kernel_prepare *p) {
    return prepare_classes(p, type_out(p, 0));
}
static weft_status prepare_bpr_grad(kernel_prepare *p) {
    TRY(prepare_classes(p, type_in(p, BPR_Y_GRAD)));
    return require_like(p, type_in(p, BPR_X), type_out(p, 0), type_in(p, BPR_X)->numel, "X@GRAD");
}

static weft_status label_at(const kernel_call *c, int64_t row, int64_t *out_label) {
    const axis_split *s = c->state;
    *out_label = tensor_integer(arg_in(c, BPR_LABEL), row);
    if (*out_label >= 0 && *out_label < s->extent) return NULL;
    return kernel_failed(c, "expected labels of 0 to %lld, found %lld", (long long)s->extent - 1,
                         (long long)*out_label);
}

static weft_status run_bpr(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *x = arg_in(c, BPR_X);
    for (int64_t row = 0; row < s->outer; row++) {
        int64_t label;
        double sum = 0;
        TRY(label_at(c, row, &label));
        for (int64_t j = 0; j < s->extent; j++)
            if (j != label)
                sum += softplus(tensor_real(x, row * s->extent + j) - tensor_real(x, row * s->extent + label));
        tensor_set_real(arg_out(c, 0), row, sum / (double)(s->extent - 1));
    }
    return NULL;
}

static weft_status run_bpr_grad(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *x = arg_in(c, BPR_X);
    for (int64_t row = 0; row < s->outer; row++) {
        int64_t label, first = row * s->extent;
        double sum = 0, g = tensor_real(arg_in(c, BPR_Y_GRAD), row) / (double)(s->extent - 1);
        TRY(label_at(c, row, &label));
        for (int64_t j = 0; j < s->extent; j++) {
            double slope = j == label ? 0 : g * sigmoid(tensor_real(x, first + j) - tensor_real(x, first + label));
            sum += slope;
            tensor_set_real(arg_out(c, 0), first + j, slope);
        }
        tensor_set_real(arg_out(c, 0), first + label, -sum);
    }
    return NULL;
}

const kernel kernel_bpr_loss = {prepare_bpr, run_bpr};
const kernel kernel_bpr_loss_grad = {prepare_bpr_grad, run_bpr_grad};

/* --- l1_norm ------------------------------------------------------------------------------------------------------ */

static weft_status prepare_l1(kernel_prepare *p) {
    TRY(require_real(p, type_in(p, 0), "X"));
    TRY(require_present(p, type_out(p, 0), "Out"));
    return require_like(p, type_in(p, 0), type_out(p, 0), 1, "Out");
}
static weft_status prepare_l1_grad(kernel_prepare *p) {
    TRY(require_real(p, type_in(p, 0), "X"));
    TRY(require_like(p, type_in(p, 0), type_in(p, 1), 1, "Out@GRAD"));
    return require_like(p, type_in(p, 0), type_out(p, 0), type_in(p, 0)->numel, "X@GRAD");
}

static weft_status run_l1(const kernel_call *c) {
    double sum = 0;
    for (int64_t i = 0; i < arg_in(c, 0)->numel; i++) sum += fabs(tensor_real(arg_in(c, 0), i));
    tensor_set_real(arg_out(c, 0), 0, sum);
    return NULL;
}

static weft_status run_l1_grad(const kernel_call *c) {
    double g = tensor_real(arg_in(c, 1), 0);
    for (int64_t i = 0; i < arg_in(c, 0)->numel; i++) {
        double x = tensor_real(arg_in(c, 0), i);
        tensor_set_real(arg_out(c, 0), i, isnan(x) ? x : g * (double)((x > 0) - (x < 0)));
    }
    return NULL;
}

const kernel kernel_l1_norm = {prepare_l1, run_l1};
const kernel kernel_l1_norm_grad = {prepare_l1_grad, run_l1_grad};
