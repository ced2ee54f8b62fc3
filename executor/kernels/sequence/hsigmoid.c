/* hierarchical_sigmoid: a class is a leaf of a binary tree, and costs the sigmoids on the way to it; with gradients.
 *
 * Without PathTable the tree is complete: a class c of n stands at number c + n of a heap, whose nodes count from 1. A
 * row of PreOut is as long as the longest way; beyond the end of a shorter one it holds log 2, which Out has in its sum
 * too, as in Paddle (phi/kernels/cpu/hsigmoid_loss_kernel.cc). */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_W, IN_LABEL, IN_PATH, IN_CODE, IN_BIAS, IN_PRE_OUT, IN_OUT_GRAD };
enum { OUT, OUT_PRE, OUT_W, OUT_X_GRAD = 0, OUT_W_GRAD, OUT_BIAS_GRAD };

typedef struct tree_state {
    int64_t rows, width, classes, nodes, steps; /* steps: of the longest way */
} tree_state;

static int64_t highest_bit(uint64_t n) {
    int64_t bits = 0;
    for (; n; n >>= 1) bits++;
    return bits;
}

static weft_status prepare_common(kernel_prepare *p) {
    tree_state *s = KERNEL_STATE(p, tree_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *w = type_in(p, IN_W), *label = type_in(p, IN_LABEL);
    const tensor *path = type_in(p, IN_PATH), *code = type_in(p, IN_CODE);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, w, "W"));
    TRY(require_present(p, label, "Label"));
    if (x->ndim != 2 || w->ndim != 2 || w->dims[1] != x->dims[1] || label->numel != x->dims[0])
        return kernel_unsupported(p, "expected X [row, feature], W [node, feature] and a Label for each row");
    *s = (tree_state){x->dims[0], x->dims[1], attr_int(p->op, "num_classes", 2), w->dims[0], 0};
    if (s->classes < 2)
        return kernel_unsupported(p, "num_classes: expected 2 or more, found %lld", (long long)s->classes);
    if (attr_bool(p->op, "is_sparse", false)) return kernel_unsupported(p, "expected is_sparse = false");
    TRY(require_like(p, x, type_in(p, IN_BIAS), s->nodes, "Bias"));
    if (!path != !code) return kernel_unsupported(p, "expected PathTable and PathCode together");
    if (path && (path->ndim != 2 || path->dims[0] != s->rows || code->numel != path->numel))
        return kernel_unsupported(p, "expected PathTable and PathCode [row, step]");
    s->steps = path ? path->dims[1] : highest_bit((uint64_t)s->classes - 1);
    return NULL;
}

/* Step j of a row's way: its node and whether it goes right. False: the way has ended. */
static bool step_at(const kernel_call *c, const tree_state *s, int64_t row, int64_t j, int64_t *out_node,
                    bool *out_right) {
    if (arg_in(c, IN_PATH)) {
        int64_t at = row * s->steps + j;
        *out_node = tensor_integer(arg_in(c, IN_PATH), at);
        *out_right = tensor_integer(arg_in(c, IN_CODE), at) != 0;
        return *out_node >= 0;
    }
    uint64_t code = (uint64_t)(tensor_integer(arg_in(c, IN_LABEL), row) + s->classes);
    if (j >= highest_bit(code) - 1) return false;
    *out_node = (int64_t)(code >> (j + 1)) - 1;
    *out_right = code >> j & 1;
    return true;
}

static weft_status check_row(const kernel_call *c, const tree_state *s, int64_t row) {
    int64_t label = tensor_integer(arg_in(c, IN_LABEL), row), node;
    bool right;
    if (!arg_in(c, IN_PATH) && (label < 0 || label >= s->classes))
        return kernel_failed(c, "Label: expected 0 to %lld, found %lld", (long long)s->classes - 1, (long long)label);
    for (int64_t j = 0; j < s->steps && step_at(c, s, row, j, &node, &right); j++)
        if (node >= s->nodes)
            return kernel_failed(c, "a way leads to node %lld of %lld", (long long)node, (long long)s->nodes);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p));
    const tree_state *s = p->state;
    const tensor *x = type_in(p, IN_X), *w_out = type_out(p, OUT_W);
    TRY(require_present(p, type_out(p, OUT), "Out"));
    TRY(require_present(p, type_out(p, OUT_PRE), "PreOut"));
    TRY(require_like(p, x, type_out(p, OUT), s->rows, "Out"));
    TRY(require_like(p, x, w_out, type_in(p, IN_W)->numel, "W_Out"));
    return require_like(p, x, type_out(p, OUT_PRE), s->rows * s->steps, "PreOut");
}

static double clamped(double x) {
    return x < -40 ? -40 : x > 40 ? 40 : x;
}

static weft_status run(const kernel_call *c) {
    const tree_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *w = arg_in(c, IN_W), *bias = arg_in(c, IN_BIAS);
    if (arg_out(c, OUT_W)) copy_bytes(arg_out(c, OUT_W)->data, w->data, tensor_nbytes(w));
    for (int64_t i = 0; i < s->rows; i++) {
        double cost = 0;
        bool goes = true, right;
        int64_t node;
        TRY(check_row(c, s, i));
        for (int64_t j = 0; j < s->steps; j++) {
            double sum = 0;
            if (goes && (goes = step_at(c, s, i, j, &node, &right))) {
                sum = bias ? tensor_real(bias, node) : 0;
                for (int64_t k = 0; k < s->width; k++)
                    sum += tensor_real(x, i * s->width + k) * tensor_real(w, node * s->width + k);
                sum = clamped(sum);
                cost -= right ? sum : 0;
            }
            double soft = log1p(exp(sum));
            tensor_set_real(arg_out(c, OUT_PRE), i * s->steps + j, soft);
            cost += soft;
        }
        tensor_set_real(arg_out(c, OUT), i, cost);
    }
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p));
    const tree_state *s = p->state;
    const tensor *x = type_in(p, IN_X);
    TRY(require_present(p, type_in(p, IN_PRE_OUT), "PreOut"));
    TRY(require_present(p, type_in(p, IN_OUT_GRAD), "Out@GRAD"));
    TRY(require_like(p, x, type_in(p, IN_PRE_OUT), s->rows * s->steps, "PreOut"));
    TRY(require_like(p, x, type_in(p, IN_OUT_GRAD), s->rows, "Out@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_X_GRAD), x->numel, "X@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_W_GRAD), type_in(p, IN_W)->numel, "W@GRAD"));
    return require_like(p, x, type_out(p, OUT_BIAS_GRAD), s->nodes, "Bias@GRAD");
}

static weft_status run_grad(const kernel_call *c) {
    const tree_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *w = arg_in(c, IN_W);
    tensor *dx = arg_out(c, OUT_X_GRAD), *dw = arg_out(c, OUT_W_GRAD), *db = arg_out(c, OUT_BIAS_GRAD);
    tensor_clear(dx), tensor_clear(dw), tensor_clear(db);
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t node;
        bool right;
        TRY(check_row(c, s, i));
        for (int64_t j = 0; j < s->steps && step_at(c, s, i, j, &node, &right); j++) {
            double share = 1 - exp(-tensor_real(arg_in(c, IN_PRE_OUT), i * s->steps + j));
            double slope = (share - right) * tensor_real(arg_in(c, IN_OUT_GRAD), i);
            tensor_add_real(db, node, slope);
            for (int64_t k = 0; k < s->width; k++) {
                tensor_add_real(dw, node * s->width + k, slope * tensor_real(x, i * s->width + k));
                tensor_add_real(dx, i * s->width + k, slope * tensor_real(w, node * s->width + k));
            }
        }
    }
    return NULL;
}

const kernel kernel_hierarchical_sigmoid = {prepare, run};
const kernel kernel_hierarchical_sigmoid_grad = {prepare_grad, run_grad};
