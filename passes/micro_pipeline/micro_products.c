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

/* Whether what is added to `v` is the same for each of its rows. */
static bool is_row(const weft_var *added, const weft_var *v) {
    return micro_is_dense(added) && added->dtype == v->dtype && added->ndim <= v->ndim &&
           (added->ndim < 2 || added->dims[added->ndim - 2] == 1);
}

/* A batch of one would be cut up as a matrix, which the same op does not take. */
static size_t with_bias(const weft_op *op, const char *left, const char *right, micro_term *out) {
    *out = (micro_term){.left = weft_op_input(op, left, 0),
                        .right = weft_op_input(op, right, 0),
                        .out = weft_op_output(op, "out", 0),
                        .bias = weft_op_input(op, "self", 0)};
    return is_term(out) && is_row(out->bias, out->out) && (out->left->ndim == 2 || out->left->dims[0] > 1);
}

static bool adds_row(const weft_op *op, weft_var **out_rows, weft_var **out_row) {
    weft_var *x = weft_op_input(op, "X", 0), *row = weft_op_input(op, "Y", 0), *out = weft_op_output(op, "Out", 0);
    if (!op_is(op, "elementwise_add") || !micro_is_dense(x) || !row || !micro_is_dense(out)) return false;
    int64_t axis = attr_int(op, "axis", -1);
    bool is_last = axis == -1 || axis == (int64_t)x->ndim - (int64_t)row->ndim;
    if (!is_last || !is_row(row, x) || x->dtype != out->dtype || !micro_same_dims(x, out)) return false;
    *out_rows = x;
    *out_row = row;
    return row->ndim < 2 || micro_numel(row, 0, row->ndim - 1) == 1;
}

weft_status micro_step_added(micro_pass *m, micro_pair *p, micro_product *x, weft_op **by, weft_var **v) {
    weft_var *rows, *row;
    if (!*by || x->adds || m->form == MICRO_FUSED || !adds_row(*by, &rows, &row)) return NULL;
    weft_op *made = micro_writer(m, rows);
    if (!made || micro_reader(m, rows) != *by) return NULL;
    x->adds = *by;
    x->bias = row;
    *by = made;
    *v = rows;
    return micro_add_op(m, p, x->adds);
}

size_t micro_terms(const weft_op *op, micro_term out[2]) {
    if (op_is(op, "matmul_v2_grad")) return gradients(op, out);
    if (op_is(op, "aten_addmm")) return with_bias(op, "mat1", "mat2", out);
    if (op_is(op, "aten_baddbmm")) return with_bias(op, "batch1", "batch2", out);
    if (!op_is(op, "matmul_v2") && !op_is(op, "bmm")) return 0;
    out[0] = (micro_term){.left = weft_op_input(op, "X", 0),
                          .right = weft_op_input(op, "Y", 0),
                          .out = weft_op_output(op, "Out", 0),
                          .trans_left = attr_bool(op, "trans_x", false),
                          .trans_right = attr_bool(op, "trans_y", false)};
    return is_term(&out[0]);
}

/* Ops that make products: why torch has no fused op of theirs, or none that we write; why one is no term here. */
static const struct {
    const char *type, *unfused, *unfit;
} product_ops[] = {
    {"matmul_v2", NULL, "a product with a vector, or of two types"},
    {"bmm", "torch has no fused op of a product of batches", "a product of two types"},
    {"aten_addmm", "torch has no fused op of a product with a bias",
     "what is added to the product is not one row for all"},
    {"aten_baddbmm", "torch has no fused op of a product with a bias",
     "what is added to the products of a batch is not one row for all of each, or the batch is one"},
    {"matmul_v2_grad", "torch has no fused op of two gradients",
     "the gradients of a product of batches, or of transposed rows, are not products of rows"},
};

weft_status micro_no_product(micro_pass *m, const weft_op *op, const char *lack, micro_refusal *why) {
    micro_term terms[2];
    for (size_t i = 0; i < sizeof product_ops / sizeof *product_ops; i++) {
        if (!op_is(op, product_ops[i].type)) continue;
        const char *unfused = m->form == MICRO_FUSED ? product_ops[i].unfused : NULL;
        *why = unfused ? (micro_refusal){WEFT_REASON_NOTHING, unfused}
               : !micro_terms(op, terms)
                   ? (micro_refusal){WEFT_REASON_SHAPE, product_ops[i].unfit}
                   : (micro_refusal){WEFT_REASON_SHAPE, "its rows lie in batches: those of one dimension are cut "
                                                        "up, where their rows are gathered or scattered"};
        return NULL;
    }
    *why = (micro_refusal){WEFT_REASON_NOTHING, arena_format(m->scratch, "%s, but %s does", lack, weft_op_type(op))};
    return why->words ? NULL : base_out_of_memory();
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
