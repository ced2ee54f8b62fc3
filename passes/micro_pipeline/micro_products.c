/* micro_products.c: what matrix products an op makes, and how one of them can be cut up with the rows of its ranks. */
#include "passes/micro_pipeline/micro_walk.h"

static bool is_term(const micro_term *t) {
    if (!micro_is_dense(t->left) || !micro_is_dense(t->right) || !micro_is_dense(t->out)) return false;
    if (t->left->ndim < 2 || t->right->ndim < 2) return false;
    return t->left->dtype == t->right->dtype && t->left->dtype == t->out->dtype;
}

/* A gradient of a product with a matrix on the right is a product itself. */
static size_t gradients(const weft_op *op, micro_term *out) {
    weft_var *x = weft_op_input(op, "X", 0), *y = weft_op_input(op, "Y", 0), *of = weft_op_input(op, "Out@GRAD", 0);
    bool trans_y = attr_bool(op, "trans_y", false);
    if (attr_bool(op, "trans_x", false) || !micro_is_dense(y) || y->ndim != 2) return 0;
    micro_term of_x = {.left = of, .right = y, .out = weft_op_output(op, "X@GRAD", 0), .trans_right = !trans_y};
    micro_term of_y = {.left = trans_y ? of : x,
                       .right = trans_y ? x : of,
                       .out = weft_op_output(op, "Y@GRAD", 0),
                       .trans_left = true};
    size_t n = 0;
    if (is_term(&of_x)) out[n++] = of_x;
    if (is_term(&of_y)) out[n++] = of_y;
    return n;
}

/* What is added to a product is the same for each of its rows. */
static size_t with_bias(const weft_op *op, micro_term *out) {
    *out = (micro_term){.left = weft_op_input(op, "mat1", 0),
                        .right = weft_op_input(op, "mat2", 0),
                        .out = weft_op_output(op, "out", 0),
                        .bias = weft_op_input(op, "self", 0)};
    const weft_var *b = out->bias;
    return is_term(out) && micro_is_dense(b) && b->dtype == out->out->dtype &&
           (b->ndim == 0 || micro_numel(b, 0, b->ndim - 1) == 1);
}

size_t micro_terms(const weft_op *op, micro_term out[2]) {
    if (op_is(op, "matmul_v2_grad")) return gradients(op, out);
    if (op_is(op, "aten_addmm")) return with_bias(op, out);
    if (!op_is(op, "matmul_v2") && !op_is(op, "bmm")) return 0;
    out[0] = (micro_term){.left = weft_op_input(op, "X", 0),
                          .right = weft_op_input(op, "Y", 0),
                          .out = weft_op_output(op, "Out", 0),
                          .trans_left = attr_bool(op, "trans_x", false),
                          .trans_right = attr_bool(op, "trans_y", false)};
    return is_term(&out[0]);
}

bool micro_is_rows_product(const micro_term *t, const weft_var *a) {
    return t->left == a && t->right != a && !t->trans_left && t->right->ndim == 2 && t->out->ndim == a->ndim;
}

bool micro_is_batched_product(const micro_term *t, const weft_var *a) {
    if (t->left != a || t->right == a || t->trans_left) return false;
    bool are_three = a->ndim == 3 && t->right->ndim == 3 && t->out->ndim == 3;
    return are_three && t->right->dims[0] == a->dims[0] && t->out->dims[0] == a->dims[0];
}

bool micro_is_turned_product(const micro_term *t) {
    if (!t->trans_left || t->trans_right || t->left == t->right || t->out->ndim != 2) return false;
    return t->left->ndim == t->right->ndim &&
           memcmp(t->left->dims, t->right->dims, (t->left->ndim - 1) * sizeof(int64_t)) == 0;
}

/* As many rows, of as many dimensions or as a matrix. */
static bool has_rows_of(const weft_var *v, const weft_var *a) {
    return micro_numel(v, 0, v->ndim - 1) == micro_numel(a, 0, a->ndim - 1);
}

/* The rows of which `v`, a transposed view, has the columns; NULL: it is none. */
static weft_var *turned(const micro_pass *m, const weft_var *v) {
    weft_op *by = micro_writer(m, v);
    return by && micro_is_turn(by) && !op_is(by, "transpose2") ? micro_only_arg(by, false) : NULL;
}

bool micro_is_outer_product(const micro_pass *m, const micro_term *t, const weft_var *a, micro_product *x) {
    if (t->left == t->right || t->out->ndim != 2) return false;
    if (t->left == a && t->trans_left && !t->trans_right) {
        x->is_left = true;
        x->b = t->right;
    } else if (t->right == a && !t->trans_right) {
        x->b = t->trans_left ? t->left : t->left->ndim == 2 && a->ndim == 2 ? turned(m, t->left) : NULL;
    }
    return x->b && x->b != a && has_rows_of(x->b, a);
}
