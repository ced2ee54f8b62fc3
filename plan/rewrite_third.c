/* rewrite_third.c: gradients of second gradients of products and sums, as other ops.
 *
 * A product f(a, b) is linear in a and in b. Its second gradient takes what came down, dout, and the gradients dda and
 * ddb of its first ones. It makes ddout = f(dda, b) + f(a, ddb), da = A(ddb, dout) and db = B(dda, dout), where A(b, g)
 * and B(a, g) are the gradients of f. With gradients u of ddout, v of da and w of db, those of the arguments are:
 *
 *   a  A(ddb, u)    b  B(dda, u)    dout  f(v, ddb) + f(dda, w)
 *   dda  A(b, u) + A(w, dout)       ddb  B(a, u) + B(v, dout)
 *
 * What is absent leaves no term. */
#include "plan/rewrite.h"

/* The slots of a product's arguments and of their gradients: a, b, dout, dda, ddb; and of u, v and w. */
enum { OF_ARGS = 5, OF_GRADS = 3 };
typedef struct third_rule {
    const char *type, *forward, *grad;
    const char *args[OF_ARGS], *grads[OF_GRADS], *out[OF_ARGS];
} third_rule;

static const third_rule products[] = {
    {"matmul_v2_triple_grad", "matmul_v2", "matmul_v2_grad",
     {"X", "Y", "grad_out", "grad_grad_x", "grad_grad_y"},
     {"grad_grad_out@GRAD", "grad_x@GRAD", "grad_y@GRAD"},
     {"X@GRAD", "Y@GRAD", "grad_out@GRAD", "grad_grad_x@GRAD", "grad_grad_y@GRAD"}},
    {"elementwise_mul_triple_grad", "elementwise_mul", "elementwise_mul_grad",
     {"X", "Y", "DOut", "DDX", "DDY"},
     {"D_DDOut", "D_DX", "D_DY"},
     {"D_X", "D_Y", "D_DOut", "D_DDX", "D_DDY"}}};

/* The arguments of one; those that are absent are NULL. */
typedef struct third_args {
    weft_var *a, *b, *dout, *dda, *ddb, *u, *v, *w;
} third_args;

static weft_status read_args(const rewriting *r, const third_rule *rule, third_args *x) {
    weft_var **args[OF_ARGS] = {&x->a, &x->b, &x->dout, &x->dda, &x->ddb}, **grads[OF_GRADS] = {&x->u, &x->v, &x->w};
    for (int k = 0; k < OF_ARGS; k++) TRY(rewrite_input(r, rule->args[k], args[k]));
    for (int k = 0; k < OF_GRADS; k++) TRY(rewrite_input(r, rule->grads[k], grads[k]));
    if (x->a && x->b && x->dout) return NULL;
    return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "expected %s, %s and %s", rule->args[0], rule->args[1],
                      rule->args[2]);
}

/* One of f, A and B at its arguments. A does not look at its own operand, nor B. */
typedef struct term {
    enum { PRODUCT, OF_A, OF_B } kind;
    weft_var *x, *y, *g; /* X, Y and Out@GRAD of the call */
} term;

static bool is_there(const term *t) {
    return t->x && t->y && (t->kind == PRODUCT || t->g);
}

static weft_status emit_term(const rewriting *r, const third_rule *rule, const term *t, weft_var *to) {
    if (t->kind == PRODUCT) return rewrite_emit(r, rule->forward, ARGS({"X", t->x}, {"Y", t->y}), "Out", to);
    return rewrite_emit(r, rule->grad, ARGS({"X", t->x}, {"Y", t->y}, {"Out@GRAD", t->g}),
                        t->kind == OF_A ? "X@GRAD" : "Y@GRAD", to);
}

/* The sum of one or two terms, or of none: zeros like `like`. */
static weft_status emit_sum(const rewriting *r, const third_rule *rule, const char *to_slot, weft_var *like,
                            term first, term second) {
    weft_var *to, *parts[2];
    TRY(rewrite_output(r, to_slot, &to));
    if (!to) return NULL;
    if (!is_there(&first)) first = second, second = (term){0};
    if (!is_there(&first)) return unroll_copy(r->u, r->op, "fill_zeros_like", like, to);
    if (!is_there(&second)) return emit_term(r, rule, &first, to);
    for (int k = 0; k < 2; k++) {
        TRY(rewrite_temporary(r, like, &parts[k]));
        TRY(emit_term(r, rule, k ? &second : &first, parts[k]));
    }
    return rewrite_emit(r, "sum", ARGS({"X", parts[0]}, {"X", parts[1]}), "Out", to);
}

static weft_status third_of_product(const rewriting *r, const third_rule *rule) {
    third_args x;
    const term none = {0};
    TRY(read_args(r, rule, &x));
    const struct {
        weft_var *like;
        term first, second;
    } sums[OF_ARGS] = {
        {x.a, {OF_A, x.a, x.ddb, x.u}, none},
        {x.b, {OF_B, x.dda, x.b, x.u}, none},
        {x.dout, {PRODUCT, x.v, x.ddb, NULL}, {PRODUCT, x.dda, x.w, NULL}},
        {x.a, {OF_A, x.a, x.b, x.u}, {OF_A, x.a, x.w, x.dout}},
        {x.b, {OF_B, x.a, x.b, x.u}, {OF_B, x.v, x.b, x.dout}},
    };
    for (int k = 0; k < OF_ARGS; k++)
        TRY(emit_sum(r, rule, rule->out[k], sums[k].like, sums[k].first, sums[k].second));
    return NULL;
}

/* ddout = ddx + ddy: each gets what it was stretched to, summed. */
static weft_status third_of_add(const rewriting *r) {
    static const char *const slots[][2] = {{"DDX", "D_DDX"}, {"DDY", "D_DDY"}};
    weft_var *u, *of, *to;
    TRY(rewrite_input(r, "D_DDOut", &u));
    for (int k = 0; k < 2; k++) {
        TRY(rewrite_input(r, slots[k][0], &of));
        TRY(rewrite_output(r, slots[k][1], &to));
        if (!to) continue;
        if (!u || !of) return plan_error(r->u->b, WEFT_INVALID_PROGRAM, r->op, "an argument is missing");
        TRY(rewrite_sum_to(r, u, of, to));
    }
    return NULL;
}

bool rewrite_is_third(const char *type) {
    for (size_t k = 0; k < sizeof products / sizeof *products; k++)
        if (strcmp(type, products[k].type) == 0) return true;
    return strcmp(type, "elementwise_add_triple_grad") == 0;
}

weft_status rewrite_third(const rewriting *r) {
    for (size_t k = 0; k < sizeof products / sizeof *products; k++)
        if (op_is(r->op, products[k].type)) return third_of_product(r, &products[k]);
    return third_of_add(r);
}
