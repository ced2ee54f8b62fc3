/* cross_entropy.c: softmax with cross entropy, its labels class indexes (hard) or distributions (soft).
 *
 * Follows Paddle's phi/kernels/cpu/cross_entropy_kernel.cc: the softmax is written out, the loss is -log of it, so that
 * the clamp of softmax.c bounds the loss; without use_softmax the logits already are shares, and log 0 counts as -1e20.
 * A hard label equal to ignore_index costs nothing and has no gradient. */
#include <math.h>

#include "executor/kernels/activation/softmax.h"

enum { IN_LOGITS, IN_LABEL, OUT_SOFTMAX = 0, OUT_LOSS };
enum { GRAD_IN_LABEL, GRAD_IN_SOFTMAX, GRAD_IN_LOSS_GRAD, GRAD_OUT_LOGITS_GRAD = 0 };

typedef struct loss_state {
    axis_split split;
    int64_t ignore_index;
    bool soft, use_softmax;
} loss_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *label, const tensor *loss) {
    loss_state *s = KERNEL_STATE(p, loss_state);
    if (!s) return base_out_of_memory();
    s->ignore_index = attr_int(p->op, "ignore_index", -100);
    s->soft = attr_bool(p->op, "soft_label", false);
    s->use_softmax = attr_bool(p->op, "use_softmax", true);
    TRY(require_real(p, x, "logits"));
    TRY(require_present(p, label, "Label"));
    TRY(require_same_dtype(p, x, loss, "losses"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    int64_t nlosses = s->split.outer * s->split.inner;
    TRY(require_numel(p, loss, nlosses, "losses"));
    if (s->soft) TRY(require_same_dtype(p, x, label, "soft labels"));
    if (!s->soft && dtype_is_float(label->dtype))
        return kernel_unsupported(p, "expected labels of an integer type, found %s", dtype_text(label->dtype));
    TRY(require_numel(p, label, s->soft ? x->numel : nlosses, "Label"));
    p->workspace_nbytes = softmax_workspace(s->split, x->dtype);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_LOGITS), *softmax = type_out(p, OUT_SOFTMAX);
    TRY(prepare_common(p, x, type_in(p, IN_LABEL), type_out(p, OUT_LOSS)));
    return require_numel(p, softmax, x->numel, "Softmax");
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *y = type_in(p, GRAD_IN_SOFTMAX);
    TRY(prepare_common(p, y, type_in(p, GRAD_IN_LABEL), type_in(p, GRAD_IN_LOSS_GRAD)));
    return require_numel(p, type_out(p, GRAD_OUT_LOGITS_GRAD), y->numel, "Logits@GRAD");
}

/* Class k of column i of slab o lies at (o * extent + k) * inner + i. */
static int64_t element_at(const loss_state *s, int64_t o, int64_t k, int64_t i) {
    return (o * s->split.extent + k) * s->split.inner + i;
}

#define TEMPLATE "executor/kernels/loss/cross_entropy_real.h"
#include "executor/kernels/each_real.h"

static weft_status loss_of(const kernel_call *c, const tensor *labels, const tensor *y, tensor *loss) {
    const loss_state *s = c->state;
    if (y->dtype == WEFT_FP64)
        return s->soft ? soft_fp64(s, labels->data, y->data, loss->data) : hard_fp64(c, s, labels, y->data, loss->data);
    return s->soft ? soft_fp32(s, labels->data, y->data, loss->data) : hard_fp32(c, s, labels, y->data, loss->data);
}

static weft_status gradient_of(const kernel_call *c, const tensor *labels, const tensor *y, const tensor *dloss,
                               tensor *dx) {
    const loss_state *s = c->state;
    if (y->dtype == WEFT_FP64)
        return s->soft ? soft_grad_fp64(s, labels->data, y->data, dloss->data, dx->data)
                       : hard_grad_fp64(c, s, labels, y->data, dloss->data, dx->data);
    return s->soft ? soft_grad_fp32(s, labels->data, y->data, dloss->data, dx->data)
                   : hard_grad_fp32(c, s, labels, y->data, dloss->data, dx->data);
}

static weft_status run(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *x = arg_in(c, IN_LOGITS);
    tensor *y = arg_out(c, OUT_SOFTMAX);
    if (s->use_softmax)
        softmax_apply(s->split, x->dtype, x->data, y->data, c->workspace);
    else
        copy_bytes(y->data, x->data, tensor_nbytes(x));
    return loss_of(c, arg_in(c, IN_LABEL), y, arg_out(c, OUT_LOSS));
}

static weft_status run_grad(const kernel_call *c) {
    return gradient_of(c, arg_in(c, GRAD_IN_LABEL), arg_in(c, GRAD_IN_SOFTMAX), arg_in(c, GRAD_IN_LOSS_GRAD),
                       arg_out(c, GRAD_OUT_LOGITS_GRAD));
}

const kernel kernel_softmax_with_cross_entropy = {prepare, run};
const kernel kernel_softmax_with_cross_entropy_grad = {prepare_grad, run_grad};

/* --- cross_entropy, cross_entropy2: of shares, along the last axis; the second also keeps the labels' shares ------ */

enum { SHARES_IN_X, SHARES_IN_LABEL, SHARES_IN_LOSS_GRAD, SHARES_OUT_LOSS = 0, SHARES_OUT_MATCH };
enum { MATCH_IN_LABEL, MATCH_IN_MATCH, MATCH_IN_SHAPE, MATCH_IN_LOSS_GRAD };

static weft_status prepare_shares(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, SHARES_IN_X), type_in(p, SHARES_IN_LABEL), type_out(p, SHARES_OUT_LOSS)));
    ((loss_state *)p->state)->use_softmax = false;
    return NULL;
}

static weft_status prepare_shares_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, SHARES_IN_X);
    TRY(prepare_common(p, x, type_in(p, SHARES_IN_LABEL), type_in(p, SHARES_IN_LOSS_GRAD)));
    ((loss_state *)p->state)->use_softmax = false;
    return require_numel(p, type_out(p, 0), x->numel, "X@GRAD");
}

static weft_status run_shares(const kernel_call *c) {
    return loss_of(c, arg_in(c, SHARES_IN_LABEL), arg_in(c, SHARES_IN_X), arg_out(c, SHARES_OUT_LOSS));
}

static weft_status run_shares_grad(const kernel_call *c) {
    return gradient_of(c, arg_in(c, SHARES_IN_LABEL), arg_in(c, SHARES_IN_X), arg_in(c, SHARES_IN_LOSS_GRAD),
                       arg_out(c, 0));
}

static weft_status run_match(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *x = arg_in(c, SHARES_IN_X), *labels = arg_in(c, SHARES_IN_LABEL);
    tensor *match = arg_out(c, SHARES_OUT_MATCH);
    TRY(run_shares(c)); /* labels are in range */
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    for (int64_t i = 0; match && i < labels->numel; i++) {
        int64_t label = tensor_integer(labels, i);
        char *to = (char *)match->data + (size_t)i * nbytes;
        if (label == s->ignore_index)
            memset(to, 0, nbytes);
        else
            memcpy(to, (const char *)x->data + (size_t)element_at(s, i, label, 0) * nbytes, nbytes);
    }
    return NULL;
}

static weft_status prepare_match_grad(kernel_prepare *p) {
    const tensor *match = type_in(p, MATCH_IN_MATCH), *dx = type_out(p, 0);
    TRY(require_present(p, match, "MatchX"));
    TRY(prepare_common(p, dx, type_in(p, MATCH_IN_LABEL), type_in(p, MATCH_IN_LOSS_GRAD)));
    TRY(require_same_dtype(p, dx, match, "MatchX"));
    return require_numel(p, match, type_in(p, MATCH_IN_LABEL)->numel, "MatchX");
}

static weft_status run_match_grad(const kernel_call *c) {
    const loss_state *s = c->state;
    const tensor *labels = arg_in(c, MATCH_IN_LABEL), *match = arg_in(c, MATCH_IN_MATCH);
    const tensor *dloss = arg_in(c, MATCH_IN_LOSS_GRAD);
    tensor *dx = arg_out(c, 0);
    tensor_clear(dx);
    for (int64_t i = 0; i < labels->numel; i++) {
        int64_t label = tensor_integer(labels, i), at = element_at(s, i, label, 0);
        TRY(loss_check_label(c, s->split.extent, s->ignore_index, label, i));
        if (label == s->ignore_index) continue;
        if (dx->dtype == WEFT_FP64)
            ((double *)dx->data)[at] = -((const double *)dloss->data)[i] / ((const double *)match->data)[i];
        else
            ((float *)dx->data)[at] = -((const float *)dloss->data)[i] / ((const float *)match->data)[i];
    }
    return NULL;
}

const kernel kernel_cross_entropy = {prepare_shares, run_shares};
const kernel kernel_cross_entropy_grad = {prepare_shares_grad, run_shares_grad};
const kernel kernel_cross_entropy2 = {prepare_shares, run_match};
const kernel kernel_cross_entropy_grad2 = {prepare_match_grad, run_match_grad};
