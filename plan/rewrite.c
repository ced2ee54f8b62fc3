/* rewrite.c: ops that come to other ops, which have kernels: second gradients of products, sums and quotients, norms,
 * and small ones. A product f(a, b) is linear in a and in b. So its second gradient is f(dda, b) + f(a, ddb), and
 * gradients of f at (a, ddb) and (dda, b). */
#include "plan/rewrite.h"

static weft_status zeros_like(const rewriting *r, weft_var *like, weft_var *out) {
    return unroll_copy(r->u, r->op, "fill_zeros_like", like, out);
}

static weft_status zeros(const rewriting *r, weft_var *like, weft_var **out) {
    TRY(rewrite_temporary(r, like, out));
    return zeros_like(r, like, *out);
}

/* --- second gradients --------------------------------------------------------------------------------------------- */

typedef struct product_rule {
    const char *type, *forward, *grad;
    const char *a, *b, *out, *out_grad;             /* slots of the forward op */
    const char *a_grad, *b_grad;                    /* outputs of both gradients */
    const char *dda, *ddb, *dout, *ddout, *da, *db; /* of the second gradient */
} product_rule;

#define OF_XY(second, op, dda, ddb, dout, ddout, da, db)                                                               \
    { second, op, op "_grad", "X", "Y", "Out", "Out@GRAD", "X@GRAD", "Y@GRAD", dda, ddb, dout, ddout, da, db }
#define OF_CONV(op)                                                                                                    \
    {                                                                                                                  \
        op "_grad_grad", op, op "_grad", "Input", "Filter", "Output", "Output@GRAD", "Input@GRAD", "Filter@GRAD",      \
            "grad_input@GRAD", "grad_filter@GRAD", "grad_out", "grad_out@GRAD", "Input@GRAD", "Filter@GRAD"            \
    }
static const product_rule products[] = {
    OF_XY("matmul_v2_grad_grad", "matmul_v2", "grad_x@GRAD", "grad_y@GRAD", "grad_out", "grad_out@GRAD", "X@GRAD",
          "Y@GRAD"),
    OF_XY("elementwise_mul_grad_grad", "elementwise_mul", "DDX", "DDY", "DOut", "DDOut", "X@GRAD", "Y@GRAD"),
    OF_XY("matmul_grad_grad", "matmul", "DDX", "DDY", "DOut", "DDOut", "DX", "DY"),
    OF_XY("mul_grad_grad", "mul", "DDX", "DDY", "DOut", "DDOut", "DX", "DY"),
    OF_CONV("conv2d"),
    OF_CONV("depthwise_conv2d"),
    OF_CONV("conv3d")};

static weft_status both_terms(const rewriting *r, const product_rule *p, weft_var *a, weft_var *b, weft_var *dda,
                              weft_var *ddb, weft_var *to) {
    weft_var *first, *second;
    TRY(rewrite_temporary(r, to, &first));
    TRY(rewrite_temporary(r, to, &second));
    TRY(rewrite_emit(r, p->forward, ARGS({p->a, dda}, {p->b, b}), p->out, first));
    TRY(rewrite_emit(r, p->forward, ARGS({p->a, a}, {p->b, ddb}), p->out, second));
    return rewrite_emit(r, "sum", ARGS({"X", first}, {"X", second}), "Out", to);
}

static weft_status product(const rewriting *r, const product_rule *p) {
    weft_var *a, *b, *dda, *ddb, *dout, *to;
    TRY(rewrite_input(r, p->a, &a));
    TRY(rewrite_input(r, p->b, &b));
    TRY(rewrite_input(r, p->dda, &dda));
    TRY(rewrite_input(r, p->ddb, &ddb));
    TRY(rewrite_input(r, p->dout, &dout));
    if (!a || !b || !dout)
        return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected %s, %s and %s", p->a, p->b, p->dout);
    TRY(rewrite_output(r, p->ddout, &to));
    if (to && dda && ddb) TRY(both_terms(r, p, a, b, dda, ddb, to));
    if (to && dda && !ddb) TRY(rewrite_emit(r, p->forward, ARGS({p->a, dda}, {p->b, b}), p->out, to));
    if (to && !dda && ddb) TRY(rewrite_emit(r, p->forward, ARGS({p->a, a}, {p->b, ddb}), p->out, to));
    if (to && !dda && !ddb) TRY(zeros_like(r, dout, to));
    TRY(rewrite_output(r, p->da, &to));
    if (to && ddb) TRY(rewrite_emit(r, p->grad, ARGS({p->a, a}, {p->b, ddb}, {p->out_grad, dout}), p->a_grad, to));
    if (to && !ddb) TRY(zeros_like(r, a, to));
    TRY(rewrite_output(r, p->db, &to));
    if (to && dda) TRY(rewrite_emit(r, p->grad, ARGS({p->a, dda}, {p->b, b}, {p->out_grad, dout}), p->b_grad, to));
    if (to && !dda) TRY(zeros_like(r, b, to));
    return NULL;
}

/* DDX + DDY, DDX - DDY. */
static weft_status sum_of(const rewriting *r, const char *type) {
    weft_var *ddx, *ddy, *dout, *to, *none;
    TRY(rewrite_input(r, "DDX", &ddx));
    TRY(rewrite_input(r, "DDY", &ddy));
    TRY(rewrite_input(r, "DOut", &dout));
    TRY(rewrite_output(r, "DDOut", &to));
    if (!to) return NULL;
    if (!ddx || !ddy) {
        if (!dout) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected DOut");
        TRY(zeros(r, dout, &none));
        if (!ddx && !ddy) return unroll_copy(r->u, r->op, "assign", none, to);
        if (!ddy) return rewrite_emit(r, "elementwise_add", ARGS({"X", none}, {"Y", ddx}), "Out", to);
        ddx = none;
    }
    return rewrite_emit(r, type, ARGS({"X", ddx}, {"Y", ddy}), "Out", to);
}

static weft_status second_of_add(const rewriting *r) {
    return sum_of(r, "elementwise_add");
}
static weft_status second_of_sub(const rewriting *r) {
    return sum_of(r, "elementwise_sub");
}

/* DDOut = (DDX - Out DDY) / Y, DOut = -DX DDY, Y@GRAD = sums of (Out DDY - DDX) DX / Y. */
static weft_status second_of_div(const rewriting *r) {
    weft_var *y, *out, *dx, *ddx, *ddy, *to, *rise, *left, *slope;
    TRY(rewrite_input(r, "Y", &y));
    TRY(rewrite_input(r, "Out", &out));
    TRY(rewrite_input(r, "DX", &dx));
    TRY(rewrite_input(r, "DDX", &ddx));
    TRY(rewrite_input(r, "DDY", &ddy));
    if (!y || !out || !dx) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected Y, Out and DX");
    TRY(rewrite_temporary(r, out, &rise));
    TRY(rewrite_temporary(r, out, &left));
    TRY(rewrite_temporary(r, out, &slope));
    if (!ddx) TRY(zeros(r, out, &ddx));
    if (!ddy) TRY(zeros(r, y, &ddy));
    TRY(rewrite_emit(r, "elementwise_mul", ARGS({"X", out}, {"Y", ddy}), "Out", rise));
    TRY(rewrite_emit(r, "elementwise_sub", ARGS({"X", rise}, {"Y", ddx}), "Out", left)); /* Out DDY - DDX */
    TRY(rewrite_emit(r, "elementwise_div", ARGS({"X", dx}, {"Y", y}), "Out", slope));
    TRY(rewrite_output(r, "Y@GRAD", &to));
    if (to)
        TRY(rewrite_emit(r, "elementwise_mul_grad", ARGS({"X", left}, {"Y", y}, {"Out@GRAD", slope}), "Y@GRAD", to));
    TRY(rewrite_output(r, "DDOut", &to));
    if (to) {
        weft_var *difference;
        TRY(rewrite_temporary(r, out, &difference));
        TRY(rewrite_emit(r, "elementwise_sub", ARGS({"X", ddx}, {"Y", rise}), "Out", difference));
        TRY(rewrite_emit(r, "elementwise_div", ARGS({"X", difference}, {"Y", y}), "Out", to));
    }
    TRY(rewrite_output(r, "DOut", &to));
    if (to) {
        weft_var *up, *none;
        TRY(rewrite_temporary(r, out, &up));
        TRY(zeros(r, out, &none));
        TRY(rewrite_emit(r, "elementwise_mul", ARGS({"X", dx}, {"Y", ddy}), "Out", up));
        TRY(rewrite_emit(r, "elementwise_sub", ARGS({"X", none}, {"Y", up}), "Out", to));
    }
    return NULL;
}

/* The same reshape of what goes back. */
static weft_status second_of_reshape(const rewriting *r) {
    weft_var *ddx, *to;
    weft_op *op;
    TRY(rewrite_input(r, "DDX", &ddx));
    TRY(rewrite_output(r, "DDOut", &to));
    if (!ddx || !to) return NULL;
    shape type = shape_env_get(&r->u->env, to);
    weft_var *of;
    TRY(rewrite_input(r, "DOut", &of));
    if (of) type = shape_env_get(&r->u->env, of);
    for (int i = 0; i < type.ndim; i++)
        if (type.dims[i] < 0) return plan_error(r->u->b, WEFT_UNSUPPORTED, r->op, "extents are not known");
    TRY(unroll_make(r->u, r->op, "reshape2", &op));
    TRY(weft_op_add_input(op, "X", ddx));
    int64_t extents[WEFT_MAX_RANK];
    for (int i = 0; i < type.ndim; i++) extents[i] = type.dims[i];
    TRY(weft_op_set_attr_ints(op, "shape", (size_t)type.ndim, extents));
    TRY(weft_op_add_output(op, "Out", to));
    return unroll_emit(r->u, op);
}

/* --- norms and products ------------------------------------------------------------------------------------------- */

static weft_status frobenius_norm(const rewriting *r) {
    weft_var *x, *out, *squares, *total;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_output(r, "Out", &out));
    if (!x || !out) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected X and Out");
    TRY(rewrite_temporary(r, x, &squares));
    TRY(rewrite_temporary(r, out, &total));
    TRY(rewrite_emit(r, "square", ARGS({"X", x}), "Out", squares));
    TRY(rewrite_emit(r, "reduce_sum", ARGS({"X", squares}), "Out", total));
    return rewrite_emit(r, "sqrt", ARGS({"X", total}), "Out", out);
}

/* X (Out@GRAD / Out), stretched as the gradient of a sum is. */
static weft_status frobenius_norm_grad(const rewriting *r) {
    weft_var *x, *out, *g, *to, *ratio, *wide;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "Out", &out));
    TRY(rewrite_input(r, "Out@GRAD", &g));
    TRY(rewrite_output(r, "X@GRAD", &to));
    if (!x || !out || !g || !to) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "an argument is missing");
    TRY(rewrite_temporary(r, out, &ratio));
    TRY(rewrite_temporary(r, x, &wide));
    TRY(rewrite_emit(r, "elementwise_div", ARGS({"X", g}, {"Y", out}), "Out", ratio));
    TRY(rewrite_emit(r, "reduce_sum_grad", ARGS({"X", x}, {"Out@GRAD", ratio}), "X@GRAD", wide));
    return rewrite_emit(r, "elementwise_mul", ARGS({"X", x}, {"Y", wide}), "Out", to);
}

static weft_status mv(const rewriting *r) {
    weft_var *x, *v, *out;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "Vec", &v));
    TRY(rewrite_output(r, "Out", &out));
    return rewrite_emit(r, "matmul_v2", ARGS({"X", x}, {"Y", v}), "Out", out);
}

static weft_status mv_grad(const rewriting *r) {
    weft_var *x, *v, *g, *dx, *dv;
    weft_op *op;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "Vec", &v));
    TRY(rewrite_input(r, "Out@GRAD", &g));
    TRY(rewrite_output(r, "X@GRAD", &dx));
    TRY(rewrite_output(r, "Vec@GRAD", &dv));
    TRY(rewrite_begin(r, "matmul_v2_grad", ARGS({"X", x}, {"Y", v}, {"Out@GRAD", g}), &op));
    if (dx) TRY(weft_op_add_output(op, "X@GRAD", dx));
    if (dv) TRY(weft_op_add_output(op, "Y@GRAD", dv));
    return unroll_emit(r->u, op);
}

/* The sum of a diagonal. */
static weft_status diagonal_of(const rewriting *r, weft_var *x, weft_var **out) {
    TRY(rewrite_unknown(r, x, out));
    return rewrite_emit(r, "diagonal", ARGS({"Input", x}), "Out", *out);
}

static weft_status last_axis(weft_op *op) {
    TRY(weft_op_set_attr_ints(op, "dim", 1, &(int64_t){-1}));
    TRY(weft_op_set_attr_bool(op, "keep_dim", false));
    return weft_op_set_attr_bool(op, "reduce_all", false);
}

static weft_status trace(const rewriting *r) {
    weft_var *x, *out, *line;
    weft_op *op;
    TRY(rewrite_input(r, "Input", &x));
    TRY(rewrite_output(r, "Out", &out));
    if (!x || !out) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected Input and Out");
    TRY(diagonal_of(r, x, &line));
    TRY(unroll_make(r->u, r->op, "reduce_sum", &op));
    TRY(last_axis(op));
    TRY(weft_op_set_attr_int(op, "out_dtype", shape_env_get(&r->u->env, x).dtype)); /* a sum of int32 would be wider */
    TRY(weft_op_add_input(op, "X", line));
    TRY(weft_op_add_output(op, "Out", out));
    return unroll_emit(r->u, op);
}

static weft_status trace_grad(const rewriting *r) {
    weft_var *x, *g, *to, *line, *wide;
    weft_op *op;
    TRY(rewrite_input(r, "Input", &x));
    TRY(rewrite_input(r, "Out@GRAD", &g));
    TRY(rewrite_output(r, "Input@GRAD", &to));
    if (!x || !g || !to) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "an argument is missing");
    TRY(diagonal_of(r, x, &line));
    TRY(rewrite_temporary(r, line, &wide));
    TRY(unroll_make(r->u, r->op, "reduce_sum_grad", &op));
    TRY(last_axis(op));
    TRY(weft_op_add_input(op, "X", line));
    TRY(weft_op_add_input(op, "Out@GRAD", g));
    TRY(weft_op_add_output(op, "X@GRAD", wide));
    TRY(unroll_emit(r->u, op));
    return rewrite_emit(r, "diagonal_grad", ARGS({"Input", x}, {"Out@GRAD", wide}), "Input@GRAD", to);
}

/* Zeros where the value was put; of the value the box that it was put to. */
static weft_status set_value_grad(const rewriting *r) {
    weft_var *g, *value, *to, *none, *box;
    weft_op *op;
    TRY(rewrite_input(r, "Out@GRAD", &g));
    TRY(rewrite_input(r, "ValueTensor", &value));
    if (!g) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected Out@GRAD");
    if (weft_op_ninputs(r->op, "StartsTensorList") || weft_op_ninputs(r->op, "EndsTensorList") ||
        weft_op_ninputs(r->op, "StepsTensorList"))
        return plan_error(r->u->b, WEFT_UNSUPPORTED, r->op, "expected a box that attrs give");
    shape one = {.dtype = shape_env_get(&r->u->env, g).dtype, .ndim = 1, .dims = {1}, .height = -1};
    TRY(rewrite_output(r, "Input@GRAD", &to));
    if (to) {
        TRY(unroll_new_var(r->u, g, &one, &none));
        TRY(unroll_make(r->u, r->op, "fill_constant", &op));
        TRY(weft_op_set_attr_longs(op, "shape", 1, &(int64_t){1}));
        TRY(weft_op_set_attr_int(op, "dtype", one.dtype));
        TRY(weft_op_add_output(op, "Out", none));
        TRY(unroll_emit(r->u, op));
        TRY(rewrite_emit(r, "set_value", ARGS({"Input", g}, {"ValueTensor", none}), "Out", to));
    }
    TRY(rewrite_output(r, "ValueTensor@GRAD", &to));
    if (!to || !value) return NULL;
    static const char *const from[] = {"axes", "starts", "ends", "steps", "decrease_axes"};
    static const char *const as[] = {"axes", "starts", "ends", "strides", "decrease_axis"};
    TRY(unroll_new_var(r->u, g, &one, &box));
    TRY(unroll_make(r->u, r->op, "strided_slice", &op));
    for (int k = 0; k < 5; k++) {
        size_t n;
        const int64_t *all = attr_ints(r->op, from[k], &n);
        TRY(weft_op_set_attr_ints(op, as[k], n, all));
    }
    TRY(weft_op_add_input(op, "Input", g));
    TRY(weft_op_add_output(op, "Out", box));
    TRY(unroll_emit(r->u, op));
    return rewrite_sum_to(r, box, value, to);
}

/* A run reads the window of scales that it writes, of which the program says only that it is written. */
static weft_status range_of_scales(const rewriting *r) {
    weft_var *x, *scale, *iter, *scales, *out;
    weft_op *op;
    TRY(rewrite_input(r, "X", &x));
    TRY(rewrite_input(r, "InScale", &scale));
    TRY(rewrite_input(r, "Iter", &iter));
    TRY(rewrite_output(r, "OutScales", &scales));
    TRY(rewrite_begin(r, "quantize_by_window", ARGS({"X", x}, {"InScale", scale}, {"Iter", iter}, {"InScales", scales}),
                      &op));
    if (scales) TRY(weft_op_add_output(op, "OutScales", scales));
    TRY(rewrite_output(r, "Out", &out));
    if (out) TRY(weft_op_add_output(op, "Out", out));
    TRY(rewrite_output(r, "OutScale", &out));
    if (out) TRY(weft_op_add_output(op, "OutScale", out));
    return unroll_emit(r->u, op);
}

static const struct {
    const char *type;
    weft_status (*run)(const rewriting *);
} rewrites[] = {{"elementwise_add_grad_grad", second_of_add},
                {"elementwise_sub_grad_grad", second_of_sub},
                {"elementwise_div_grad_grad", second_of_div},
                {"reshape2_grad_grad", second_of_reshape},
                {"frobenius_norm", frobenius_norm},
                {"frobenius_norm_grad", frobenius_norm_grad},
                {"mv", mv},
                {"mv_grad", mv_grad},
                {"set_value_grad", set_value_grad},
                {"trace", trace},
                {"trace_grad", trace_grad},
                {"fake_quantize_range_abs_max", range_of_scales}};

bool unroll_rewrites(const char *type) {
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++)
        if (strcmp(type, rewrites[i].type) == 0) return true;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (strcmp(type, products[i].type) == 0) return true;
    return rewrite_is_third(type) || rewrite_is_composed(type) || unroll_is_fused(type);
}

weft_status unroll_rewrite(unroll *u, unroll_scope *s, weft_op *op) {
    rewriting r = {.u = u, .s = s, .op = op};
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++)
        if (op_is(op, rewrites[i].type)) return rewrites[i].run(&r);
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (op_is(op, products[i].type)) return product(&r, &products[i]);
    if (rewrite_is_third(weft_op_type(op))) return rewrite_third(&r);
    if (rewrite_is_composed(weft_op_type(op))) return rewrite_composed(&r);
    return unroll_is_fused(weft_op_type(op)) ? unroll_fused(u, s, op) : NULL;
}
