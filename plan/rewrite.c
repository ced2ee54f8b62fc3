/* rewrite.c: ops that come to other ops, which have kernels: second gradients of products, sums and quotients, norms,
 * and small ones. A product f(a, b) is linear in a and in b. So its second gradient is f(dda, b) + f(a, ddb), and
 * gradients of f at (a, ddb) and (dda, b). */
#include "plan/unroll.h"

typedef struct rewriting {
    unroll *u;
    unroll_scope *s;
    weft_op *op;
} rewriting;

typedef struct argument {
    const char *slot;
    weft_var *var;
} argument;
enum { MOST_ARGS = 4 };

/* The var in a slot; NULL: there is none. */
static weft_status input(const rewriting *r, const char *slot_name, weft_var **out) {
    weft_var *v = weft_op_input(r->op, slot_name, 0);
    *out = NULL;
    return !v || plan_is_empty_name(v) ? NULL : unroll_var(r->u, r->s, v, out);
}

static weft_status output(const rewriting *r, const char *slot_name, weft_var **out) {
    weft_var *v = weft_op_output(r->op, slot_name, 0);
    *out = NULL;
    return !v || plan_is_empty_name(v) ? NULL : unroll_var(r->u, r->s, v, out);
}

static weft_status temporary(const rewriting *r, weft_var *like, weft_var **out) {
    shape type = shape_env_get(&r->u->env, like);
    return unroll_new_var(r->u, like, &type, out);
}

/* An op with the attrs of the one that is replaced; arguments without a var are left out. */
static weft_status begin(const rewriting *r, const char *type, const argument *in, weft_op **out) {
    TRY(weft_op_create(r->u->program, type, out));
    op_share_attrs(*out, r->op);
    for (int i = 0; i < MOST_ARGS && in[i].slot; i++)
        if (in[i].var) TRY(weft_op_add_input(*out, in[i].slot, in[i].var));
    return NULL;
}

static weft_status emit(const rewriting *r, const char *type, const argument *in, const char *out_slot, weft_var *out) {
    weft_op *op;
    TRY(begin(r, type, in, &op));
    TRY(weft_op_add_output(op, out_slot, out));
    return unroll_emit(r->u, op);
}
#define ARGS(...) ((const argument[MOST_ARGS + 1]){__VA_ARGS__})

static weft_status zeros_like(const rewriting *r, weft_var *like, weft_var *out) {
    return unroll_copy(r->u, r->op, "fill_zeros_like", like, out);
}

static weft_status zeros(const rewriting *r, weft_var *like, weft_var **out) {
    TRY(temporary(r, like, out));
    return zeros_like(r, like, *out);
}

/* --- second gradients --------------------------------------------------------------------------------------------- */

typedef struct product_rule {
    const char *type, *forward, *grad;
    const char *a, *b, *out, *out_grad;          /* slots of the forward op */
    const char *a_grad, *b_grad;                 /* outputs of both gradients */
    const char *dda, *ddb, *dout, *ddout, *da, *db; /* of the second gradient */
} product_rule;

#define OF_XY(second, op, dda, ddb, dout, ddout, da, db) \
    {second, op, op "_grad", "X", "Y", "Out", "Out@GRAD", "X@GRAD", "Y@GRAD", dda, ddb, dout, ddout, da, db}
#define OF_CONV(op)                                                                                                    \
    {op "_grad_grad", op, op "_grad", "Input", "Filter", "Output", "Output@GRAD", "Input@GRAD", "Filter@GRAD",         \
     "grad_input@GRAD", "grad_filter@GRAD", "grad_out", "grad_out@GRAD", "Input@GRAD", "Filter@GRAD"}
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
    TRY(temporary(r, to, &first));
    TRY(temporary(r, to, &second));
    TRY(emit(r, p->forward, ARGS({p->a, dda}, {p->b, b}), p->out, first));
    TRY(emit(r, p->forward, ARGS({p->a, a}, {p->b, ddb}), p->out, second));
    return emit(r, "sum", ARGS({"X", first}, {"X", second}), "Out", to);
}

static weft_status product(const rewriting *r, const product_rule *p) {
    weft_var *a, *b, *dda, *ddb, *dout, *to;
    TRY(input(r, p->a, &a));
    TRY(input(r, p->b, &b));
    TRY(input(r, p->dda, &dda));
    TRY(input(r, p->ddb, &ddb));
    TRY(input(r, p->dout, &dout));
    if (!a || !b || !dout) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected %s, %s and %s", p->a, p->b,
                                             p->dout);
    TRY(output(r, p->ddout, &to));
    if (to && dda && ddb) TRY(both_terms(r, p, a, b, dda, ddb, to));
    if (to && dda && !ddb) TRY(emit(r, p->forward, ARGS({p->a, dda}, {p->b, b}), p->out, to));
    if (to && !dda && ddb) TRY(emit(r, p->forward, ARGS({p->a, a}, {p->b, ddb}), p->out, to));
    if (to && !dda && !ddb) TRY(zeros_like(r, dout, to));
    TRY(output(r, p->da, &to));
    if (to && ddb) TRY(emit(r, p->grad, ARGS({p->a, a}, {p->b, ddb}, {p->out_grad, dout}), p->a_grad, to));
    if (to && !ddb) TRY(zeros_like(r, a, to));
    TRY(output(r, p->db, &to));
    if (to && dda) TRY(emit(r, p->grad, ARGS({p->a, dda}, {p->b, b}, {p->out_grad, dout}), p->b_grad, to));
    if (to && !dda) TRY(zeros_like(r, b, to));
    return NULL;
}

/* DDX + DDY, DDX - DDY. */
static weft_status sum_of(const rewriting *r, const char *type) {
    weft_var *ddx, *ddy, *dout, *to, *none;
    TRY(input(r, "DDX", &ddx));
    TRY(input(r, "DDY", &ddy));
    TRY(input(r, "DOut", &dout));
    TRY(output(r, "DDOut", &to));
    if (!to) return NULL;
    if (!ddx || !ddy) {
        if (!dout) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected DOut");
        TRY(zeros(r, dout, &none));
        if (!ddx && !ddy) return unroll_copy(r->u, r->op, "assign", none, to);
        if (!ddy) return emit(r, "elementwise_add", ARGS({"X", none}, {"Y", ddx}), "Out", to);
        ddx = none;
    }
    return emit(r, type, ARGS({"X", ddx}, {"Y", ddy}), "Out", to);
}

static weft_status second_of_add(const rewriting *r) {
    return sum_of(r, "elementwise_add");
}
static weft_status second_of_sub(const rewriting *r) {
    return sum_of(r, "elementwise_sub");
}

/* DDOut = (DDX - Out DDY) / Y, DOut = -DX DDY / Y, Y@GRAD = sums of (Out DDY - DDX) DX / Y. */
static weft_status second_of_div(const rewriting *r) {
    weft_var *y, *out, *dx, *ddx, *ddy, *to, *rise, *left, *slope;
    TRY(input(r, "Y", &y));
    TRY(input(r, "Out", &out));
    TRY(input(r, "DX", &dx));
    TRY(input(r, "DDX", &ddx));
    TRY(input(r, "DDY", &ddy));
    if (!y || !out || !dx) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected Y, Out and DX");
    TRY(temporary(r, out, &rise));
    TRY(temporary(r, out, &left));
    TRY(temporary(r, out, &slope));
    if (!ddx) TRY(zeros(r, out, &ddx));
    if (!ddy) TRY(zeros(r, y, &ddy));
    TRY(emit(r, "elementwise_mul", ARGS({"X", out}, {"Y", ddy}), "Out", rise));
    TRY(emit(r, "elementwise_sub", ARGS({"X", rise}, {"Y", ddx}), "Out", left)); /* Out DDY - DDX */
    TRY(emit(r, "elementwise_div", ARGS({"X", dx}, {"Y", y}), "Out", slope));
    TRY(output(r, "Y@GRAD", &to));
    if (to) TRY(emit(r, "elementwise_mul_grad", ARGS({"X", left}, {"Y", y}, {"Out@GRAD", slope}), "Y@GRAD", to));
    TRY(output(r, "DDOut", &to));
    if (to) {
        weft_var *difference;
        TRY(temporary(r, out, &difference));
        TRY(emit(r, "elementwise_sub", ARGS({"X", ddx}, {"Y", rise}), "Out", difference));
        TRY(emit(r, "elementwise_div", ARGS({"X", difference}, {"Y", y}), "Out", to));
    }
    TRY(output(r, "DOut", &to));
    if (to) {
        weft_var *up, *none;
        TRY(temporary(r, out, &up));
        TRY(zeros(r, out, &none));
        TRY(emit(r, "elementwise_mul", ARGS({"X", slope}, {"Y", ddy}), "Out", up));
        TRY(emit(r, "elementwise_sub", ARGS({"X", none}, {"Y", up}), "Out", to));
    }
    return NULL;
}

/* The same reshape of what goes back. */
static weft_status second_of_reshape(const rewriting *r) {
    weft_var *ddx, *to;
    weft_op *op;
    TRY(input(r, "DDX", &ddx));
    TRY(output(r, "DDOut", &to));
    if (!ddx || !to) return NULL;
    shape type = shape_env_get(&r->u->env, to);
    weft_var *of;
    TRY(input(r, "DOut", &of));
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
    TRY(input(r, "X", &x));
    TRY(output(r, "Out", &out));
    if (!x || !out) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected X and Out");
    TRY(temporary(r, x, &squares));
    TRY(temporary(r, out, &total));
    TRY(emit(r, "square", ARGS({"X", x}), "Out", squares));
    TRY(emit(r, "reduce_sum", ARGS({"X", squares}), "Out", total));
    return emit(r, "sqrt", ARGS({"X", total}), "Out", out);
}

/* X (Out@GRAD / Out), stretched as the gradient of a sum is. */
static weft_status frobenius_norm_grad(const rewriting *r) {
    weft_var *x, *out, *g, *to, *ratio, *wide;
    TRY(input(r, "X", &x));
    TRY(input(r, "Out", &out));
    TRY(input(r, "Out@GRAD", &g));
    TRY(output(r, "X@GRAD", &to));
    if (!x || !out || !g || !to) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "an argument is missing");
    TRY(temporary(r, out, &ratio));
    TRY(temporary(r, x, &wide));
    TRY(emit(r, "elementwise_div", ARGS({"X", g}, {"Y", out}), "Out", ratio));
    TRY(emit(r, "reduce_sum_grad", ARGS({"X", x}, {"Out@GRAD", ratio}), "X@GRAD", wide));
    return emit(r, "elementwise_mul", ARGS({"X", x}, {"Y", wide}), "Out", to);
}

static weft_status mv(const rewriting *r) {
    weft_var *x, *v, *out;
    TRY(input(r, "X", &x));
    TRY(input(r, "Vec", &v));
    TRY(output(r, "Out", &out));
    return emit(r, "matmul_v2", ARGS({"X", x}, {"Y", v}), "Out", out);
}

static weft_status mv_grad(const rewriting *r) {
    weft_var *x, *v, *g, *dx, *dv;
    weft_op *op;
    TRY(input(r, "X", &x));
    TRY(input(r, "Vec", &v));
    TRY(input(r, "Out@GRAD", &g));
    TRY(output(r, "X@GRAD", &dx));
    TRY(output(r, "Vec@GRAD", &dv));
    TRY(begin(r, "matmul_v2_grad", ARGS({"X", x}, {"Y", v}, {"Out@GRAD", g}), &op));
    if (dx) TRY(weft_op_add_output(op, "X@GRAD", dx));
    if (dv) TRY(weft_op_add_output(op, "Y@GRAD", dv));
    return unroll_emit(r->u, op);
}

/* The sum of a diagonal. */
static weft_status diagonal_of(const rewriting *r, weft_var *x, weft_var **out) {
    shape one = {.dtype = shape_env_get(&r->u->env, x).dtype, .ndim = -1, .height = -1};
    TRY(unroll_new_var(r->u, x, &one, out));
    return emit(r, "diagonal", ARGS({"Input", x}), "Out", *out);
}

static weft_status last_axis(weft_op *op) {
    TRY(weft_op_set_attr_ints(op, "dim", 1, &(int64_t){-1}));
    TRY(weft_op_set_attr_bool(op, "keep_dim", false));
    return weft_op_set_attr_bool(op, "reduce_all", false);
}

static weft_status trace(const rewriting *r) {
    weft_var *x, *out, *line;
    weft_op *op;
    TRY(input(r, "Input", &x));
    TRY(output(r, "Out", &out));
    if (!x || !out) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected Input and Out");
    TRY(diagonal_of(r, x, &line));
    TRY(unroll_make(r->u, r->op, "reduce_sum", &op));
    TRY(last_axis(op));
    TRY(weft_op_add_input(op, "X", line));
    TRY(weft_op_add_output(op, "Out", out));
    return unroll_emit(r->u, op);
}

static weft_status trace_grad(const rewriting *r) {
    weft_var *x, *g, *to, *line, *wide;
    weft_op *op;
    TRY(input(r, "Input", &x));
    TRY(input(r, "Out@GRAD", &g));
    TRY(output(r, "Input@GRAD", &to));
    if (!x || !g || !to) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "an argument is missing");
    TRY(diagonal_of(r, x, &line));
    TRY(temporary(r, line, &wide));
    TRY(unroll_make(r->u, r->op, "reduce_sum_grad", &op));
    TRY(last_axis(op));
    TRY(weft_op_add_input(op, "X", line));
    TRY(weft_op_add_input(op, "Out@GRAD", g));
    TRY(weft_op_add_output(op, "X@GRAD", wide));
    TRY(unroll_emit(r->u, op));
    return emit(r, "diagonal_grad", ARGS({"Input", x}, {"Out@GRAD", wide}), "Input@GRAD", to);
}

/* The sum over what a value was stretched to, where it was. */
static weft_status sum_to(const rewriting *r, weft_var *from, weft_var *like, weft_var *to) {
    shape a = shape_env_get(&r->u->env, from), b = shape_env_get(&r->u->env, like);
    bool same = a.ndim == b.ndim;
    for (int i = 0; i < a.ndim && same; i++) same = a.dims[i] == b.dims[i];
    if (same) return unroll_copy(r->u, r->op, "assign", from, to);
    weft_op *op;
    TRY(unroll_make(r->u, r->op, "elementwise_add_grad", &op));
    TRY(weft_op_add_input(op, "X", from));
    TRY(weft_op_add_input(op, "Y", like));
    TRY(weft_op_add_input(op, "Out@GRAD", from));
    TRY(weft_op_add_output(op, "Y@GRAD", to));
    return unroll_emit(r->u, op);
}

/* Zeros where the value was put; of the value the box that it was put to. */
static weft_status set_value_grad(const rewriting *r) {
    weft_var *g, *value, *to, *none, *box;
    weft_op *op;
    TRY(input(r, "Out@GRAD", &g));
    TRY(input(r, "ValueTensor", &value));
    if (!g) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected Out@GRAD");
    if (weft_op_ninputs(r->op, "StartsTensorList") || weft_op_ninputs(r->op, "EndsTensorList") ||
        weft_op_ninputs(r->op, "StepsTensorList"))
        return plan_error(r->u->b, WEFT_UNSUPPORTED, r->op, "expected a box that attrs give");
    shape one = {.dtype = shape_env_get(&r->u->env, g).dtype, .ndim = 1, .dims = {1}, .height = -1};
    TRY(output(r, "Input@GRAD", &to));
    if (to) {
        TRY(unroll_new_var(r->u, g, &one, &none));
        TRY(unroll_make(r->u, r->op, "fill_constant", &op));
        TRY(weft_op_set_attr_longs(op, "shape", 1, &(int64_t){1}));
        TRY(weft_op_set_attr_int(op, "dtype", one.dtype));
        TRY(weft_op_add_output(op, "Out", none));
        TRY(unroll_emit(r->u, op));
        TRY(emit(r, "set_value", ARGS({"Input", g}, {"ValueTensor", none}), "Out", to));
    }
    TRY(output(r, "ValueTensor@GRAD", &to));
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
    return sum_to(r, box, value, to);
}

static const struct {
    const char *type;
    weft_status (*run)(const rewriting *);
} rewrites[] = {{"elementwise_add_grad_grad", second_of_add}, {"elementwise_sub_grad_grad", second_of_sub},
                {"elementwise_div_grad_grad", second_of_div}, {"reshape2_grad_grad", second_of_reshape},
                {"frobenius_norm", frobenius_norm},           {"frobenius_norm_grad", frobenius_norm_grad},
                {"mv", mv},                                   {"mv_grad", mv_grad},
                {"set_value_grad", set_value_grad},           {"trace", trace},
                {"trace_grad", trace_grad}};

bool unroll_is_rewritten(const weft_op *op) {
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++)
        if (op_is(op, rewrites[i].type)) return true;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (op_is(op, products[i].type)) return true;
    return unroll_is_fused(op);
}

weft_status unroll_rewrite(unroll *u, unroll_scope *s, weft_op *op) {
    rewriting r = {.u = u, .s = s, .op = op};
    for (size_t i = 0; i < sizeof rewrites / sizeof *rewrites; i++)
        if (op_is(op, rewrites[i].type)) return rewrites[i].run(&r);
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (op_is(op, products[i].type)) return product(&r, &products[i]);
    if (unroll_is_fused(op)) return unroll_fused(u, s, op);
    return NULL;
}
