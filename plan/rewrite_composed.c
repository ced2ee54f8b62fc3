/* rewrite_composed.c: ops that are some calls of others: chains of products, losses that are a sum or a mean, a softmax
 * behind a mask, a choice by a mask, and sums to a shape. */
#include "plan/rewrite.h"

static weft_status missing(const rewriting *r) {
    return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "an argument is missing");
}

static weft_status nth_input(const rewriting *r, const char *slot_name, size_t k, weft_var **out) {
    return unroll_var(r->u, r->s, weft_op_input(r->op, slot_name, k), out);
}

static weft_status scaled(const rewriting *r, const char *attr, weft_var *from, weft_var **out) {
    weft_op *op;
    TRY(rewrite_temporary(r, from, out));
    TRY(unroll_make(r->u, r->op, "scale", &op));
    TRY(weft_op_set_attr_float(op, "scale", attr_float(r->op, attr, 1)));
    TRY(weft_op_add_input(op, "X", from));
    TRY(weft_op_add_output(op, "Out", *out));
    return unroll_emit(r->u, op);
}

/* --- multi_dot: from the first factor on; gradients from the last one on ------------------------------------------- */

static weft_status multiply(const rewriting *r, weft_var *x, weft_var *y, weft_var *to) {
    return rewrite_emit(r, "matmul_v2", ARGS({"X", x}, {"Y", y}), "Out", to);
}

/* heads[k]: the product of the factors up to k. */
static weft_status products_of(const rewriting *r, size_t n, weft_var **factors, weft_var **heads) {
    for (size_t k = 0; k < n; k++) {
        TRY(nth_input(r, "X", k, &factors[k]));
        heads[k] = factors[k];
        if (k == 0 || k + 1 == n) continue;
        TRY(rewrite_unknown(r, factors[k], &heads[k]));
        TRY(multiply(r, heads[k - 1], factors[k], heads[k]));
    }
    return NULL;
}

static weft_status room_for_chain(const rewriting *r, size_t *out_n, weft_var ***out_factors, weft_var ***out_heads) {
    *out_n = weft_op_ninputs(r->op, "X");
    if (*out_n < 2) return missing(r);
    *out_factors = ARENA_ARRAY(&r->u->b->scratch, weft_var *, *out_n);
    *out_heads = ARENA_ARRAY(&r->u->b->scratch, weft_var *, *out_n);
    return *out_factors && *out_heads ? NULL : base_out_of_memory();
}

static weft_status multi_dot(const rewriting *r) {
    size_t n;
    weft_var **factors, **heads, *out;
    TRY(room_for_chain(r, &n, &factors, &heads));
    TRY(rewrite_output(r, "Out", &out));
    if (!out) return missing(r);
    TRY(products_of(r, n, factors, heads));
    return multiply(r, heads[n - 2], factors[n - 1], out);
}

static weft_status multi_dot_grad(const rewriting *r) {
    size_t n;
    weft_var **factors, **heads, *down;
    TRY(room_for_chain(r, &n, &factors, &heads));
    TRY(rewrite_input(r, "Out@GRAD", &down));
    if (!down) return missing(r);
    TRY(products_of(r, n, factors, heads));
    for (size_t k = n - 1; k > 0; k--) {
        weft_var *named = weft_op_output(r->op, "X@GRAD", k), *first = weft_op_output(r->op, "X@GRAD", 0), *to = NULL;
        weft_op *op;
        TRY(rewrite_begin(r, "matmul_v2_grad", ARGS({"X", heads[k - 1]}, {"Y", factors[k]}, {"Out@GRAD", down}), &op));
        if (named && !plan_is_empty_name(named)) {
            TRY(unroll_var(r->u, r->s, named, &to));
            TRY(weft_op_add_output(op, "Y@GRAD", to));
        }
        if (k > 1)
            TRY(rewrite_temporary(r, heads[k - 1], &to));
        else if (first && !plan_is_empty_name(first))
            TRY(unroll_var(r->u, r->s, first, &to));
        else
            to = NULL;
        if (to) TRY(weft_op_add_output(op, "X@GRAD", to));
        TRY(unroll_emit(r->u, op));
        down = to;
    }
    return NULL;
}

/* --- baddbmm: Beta Input + Alpha X Y ------------------------------------------------------------------------------- */

static weft_status baddbmm(const rewriting *r) {
    weft_var *input, *x, *y, *out, *product, *left, *right;
    TRY(rewrite_input(r, "Input", &input));
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "Y", &y));
    TRY(rewrite_output(r, "Out", &out));
    if (!input || !x || !y || !out) return missing(r);
    TRY(rewrite_temporary(r, out, &product));
    TRY(rewrite_emit(r, "bmm", ARGS({"X", x}, {"Y", y}), "Out", product));
    TRY(scaled(r, "Alpha", product, &left));
    TRY(scaled(r, "Beta", input, &right));
    return rewrite_emit(r, "elementwise_add", ARGS({"X", left}, {"Y", right}), "Out", out);
}

static weft_status baddbmm_grad(const rewriting *r) {
    weft_var *input, *x, *y, *g, *dinput, *dx, *dy, *part;
    weft_op *op;
    TRY(rewrite_input(r, "Input", &input));
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "Y", &y));
    TRY(rewrite_input(r, "Out@GRAD", &g));
    TRY(rewrite_output(r, "Input@GRAD", &dinput));
    TRY(rewrite_output(r, "X@GRAD", &dx));
    TRY(rewrite_output(r, "Y@GRAD", &dy));
    if (!input || !x || !y || !g) return missing(r);
    if (dinput) {
        TRY(scaled(r, "Beta", g, &part));
        TRY(rewrite_sum_to(r, part, input, dinput));
    }
    if (!dx && !dy) return NULL;
    TRY(scaled(r, "Alpha", g, &part));
    TRY(rewrite_begin(r, "bmm_grad", ARGS({"X", x}, {"Y", y}, {"Out@GRAD", part}), &op));
    if (dx) TRY(weft_op_add_output(op, "X@GRAD", dx));
    if (dy) TRY(weft_op_add_output(op, "Y@GRAD", dy));
    return unroll_emit(r->u, op);
}

/* --- identity_loss: a sum, a mean, or a copy ----------------------------------------------------------------------- */

enum { LOSS_SUM, LOSS_MEAN, LOSS_COPY };

static weft_status loss_call(const rewriting *r, const char *sum, const char *mean, const argument *in,
                             const char *out_slot, weft_var *out) {
    weft_op *op;
    bool is_mean = attr_int(r->op, "reduction", LOSS_MEAN) == LOSS_MEAN;
    TRY(rewrite_begin(r, is_mean ? mean : sum, in, &op));
    if (!is_mean) TRY(weft_op_set_attr_bool(op, "reduce_all", true));
    TRY(weft_op_add_output(op, out_slot, out));
    return unroll_emit(r->u, op);
}

static weft_status identity_loss(const rewriting *r) {
    weft_var *x, *out;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_output(r, "Out", &out));
    if (!x || !out) return missing(r);
    if (attr_int(r->op, "reduction", LOSS_MEAN) == LOSS_COPY) return unroll_copy(r->u, r->op, "assign", x, out);
    return loss_call(r, "reduce_sum", "mean", ARGS({"X", x}), "Out", out);
}

static weft_status identity_loss_grad(const rewriting *r) {
    weft_var *x, *g, *to;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "Out@GRAD", &g));
    TRY(rewrite_output(r, "X@GRAD", &to));
    if (!x || !g || !to) return missing(r);
    if (attr_int(r->op, "reduction", LOSS_MEAN) == LOSS_COPY) return unroll_copy(r->u, r->op, "assign", g, to);
    return loss_call(r, "reduce_sum_grad", "mean_grad", ARGS({"X", x}, {"Out@GRAD", g}), "X@GRAD", to);
}

/* --- masks --------------------------------------------------------------------------------------------------------- */

static weft_status fused_softmax_mask(const rewriting *r) {
    weft_var *x, *mask, *out, *sum;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "Mask", &mask));
    TRY(rewrite_output(r, "Out", &out));
    if (!x || !mask || !out) return missing(r);
    TRY(rewrite_temporary(r, x, &sum));
    TRY(rewrite_emit(r, "elementwise_add", ARGS({"X", x}, {"Y", mask}), "Out", sum));
    return rewrite_emit(r, "softmax", ARGS({"X", sum}), "Out", out);
}

static weft_status choose(const rewriting *r, weft_var *mask, weft_var *there, weft_var *else_, weft_var *to) {
    return rewrite_emit(r, "aten_where", ARGS({"condition", mask}, {"self", there}, {"other", else_}), "out", to);
}

static weft_status masked_fill(const rewriting *r) {
    weft_var *x, *mask, *value, *out;
    TRY(rewrite_input(r, "x", &x));
    TRY(rewrite_input(r, "mask", &mask));
    TRY(rewrite_input(r, "value", &value));
    TRY(rewrite_output(r, "out", &out));
    return x && mask && value && out ? choose(r, mask, value, x, out) : missing(r);
}

static weft_status masked_fill_grad(const rewriting *r) {
    weft_var *x, *mask, *value, *g, *dx, *dvalue, *none, *part;
    TRY(rewrite_input(r, "x", &x));
    TRY(rewrite_input(r, "mask", &mask));
    TRY(rewrite_input(r, "value", &value));
    TRY(rewrite_input(r, "out@GRAD", &g));
    TRY(rewrite_output(r, "x@GRAD", &dx));
    TRY(rewrite_output(r, "value@GRAD", &dvalue));
    if (!x || !mask || !value || !g) return missing(r);
    TRY(rewrite_temporary(r, value, &none));
    TRY(unroll_copy(r->u, r->op, "fill_zeros_like", value, none));
    if (dx) {
        TRY(rewrite_temporary(r, g, &part));
        TRY(choose(r, mask, none, g, part));
        TRY(rewrite_sum_to(r, part, x, dx));
    }
    if (!dvalue) return NULL;
    TRY(rewrite_temporary(r, g, &part));
    TRY(choose(r, mask, g, none, part));
    return rewrite_sum_to(r, part, value, dvalue);
}

/* --- reduce_as ----------------------------------------------------------------------------------------------------- */

static weft_status reduce_as(const rewriting *r) {
    weft_var *x, *target, *out;
    TRY(rewrite_input(r, "x", &x));
    TRY(rewrite_input(r, "target", &target));
    TRY(rewrite_output(r, "out", &out));
    if (!x || !target || !out) return missing(r);
    return rewrite_sum_to(r, x, target, out);
}

static weft_status reduce_as_grad(const rewriting *r) {
    weft_var *x, *g, *to;
    TRY(rewrite_input(r, "x", &x));
    TRY(rewrite_input(r, "out@GRAD", &g));
    TRY(rewrite_output(r, "x@GRAD", &to));
    if (!x || !g || !to) return missing(r);
    return rewrite_emit(r, "expand_as_v2", ARGS({"X", g}, {"Y", x}), "Out", to);
}

static const struct {
    const char *type;
    weft_status (*run)(const rewriting *);
} composed[] = {{"multi_dot", multi_dot},
                {"multi_dot_grad", multi_dot_grad},
                {"baddbmm", baddbmm},
                {"baddbmm_grad", baddbmm_grad},
                {"identity_loss", identity_loss},
                {"identity_loss_grad", identity_loss_grad},
                {"fused_softmax_mask", fused_softmax_mask},
                {"masked_fill", masked_fill},
                {"masked_fill_grad", masked_fill_grad},
                {"reduce_as", reduce_as},
                {"reduce_as_grad", reduce_as_grad}};

bool rewrite_is_composed(const char *type) {
    for (size_t i = 0; i < sizeof composed / sizeof *composed; i++)
        if (strcmp(type, composed[i].type) == 0) return true;
    return false;
}

weft_status rewrite_composed(const rewriting *r) {
    for (size_t i = 0; i < sizeof composed / sizeof *composed; i++)
        if (op_is(r->op, composed[i].type)) return composed[i].run(r);
    return NULL;
}
