/* normal_products.c: products with constants, and quotients by them, are factors; so are their gradients. */
#include "proof/equivalence/normal.h"

/* *x times f, or over f; *out_good false and x as it was where that is too large to be exact. */
weft_status normal_times(terms *t, value *x, const factor *f, bool divide, bool *out_good) {
    factor r;
    const factor *own = value_factor(t, *x);
    *out_good = divide ? factor_divide(own, f, &r) : factor_multiply(own, f, &r);
    return *out_good ? factor_id(t, &r, &x->factor) : NULL;
}

static bool is_unit_fill(const terms *t, value x, value beside) {
    size_t a, b;
    if (!term_is(t, x.term, HEAD_FILL) || term_head(t, x.term)->unit != UINT32_MAX) return false;
    if (term_numel(t, x.term) == 1) return true;
    const int64_t *of_x = term_dims(t, x.term, &a), *of_y = term_dims(t, beside.term, &b);
    return of_x && of_y && a == b && memcmp(of_x, of_y, a * sizeof *of_x) == 0;
}

static bool has_dims_of(const terms *t, uint32_t a, uint32_t b) {
    size_t n, m;
    const int64_t *of_a = term_dims(t, a, &n), *of_b = term_dims(t, b, &m);
    return of_a && of_b && n == m && memcmp(of_a, of_b, n * sizeof *of_a) == 0;
}

/* A product with, or a quotient by, a constant is a factor; out->term TERM_NONE: it is something else. */
weft_status normal_product(normal *n, uint32_t id, uint32_t op, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, op);
    bool divides = normal_is_type(h, "elementwise_div") || normal_is_type(h, "aten_div");
    *out = value_of(TERM_NONE);
    if (!divides && !normal_is_type(h, "elementwise_mul") && !normal_is_type(h, "aten_mul")) return NULL;
    if (t->items[op].nargs != 2 || !normal_pulls(n, t->items[id].dtype)) return NULL;
    size_t at = h->roles[0] == ROLE_LINEAR ? 0 : 1;
    value x = normal_of_arg(n, op, at), y = normal_of_arg(n, op, 1 - at);
    bool good;
    if (t->items[x.term].dtype != t->items[id].dtype || !is_unit_fill(t, y, x)) return NULL;
    if (t->items[x.term].ndim < t->items[y.term].ndim) return NULL; /* the product has another shape */
    TRY(normal_times(t, &x, value_factor(t, y), divides, &good));
    if (good) *out = x;
    return NULL;
}

/* The first argument of that role; as many as there are: none. */
static size_t arg_of_role(const terms *t, uint32_t op, uint8_t role) {
    const head *h = term_head(t, op);
    size_t i = 0;
    while (i < h->nargs && (!h->roles || h->roles[i] != role)) i++;
    return i;
}

/* The gradient of X in a product with, or a quotient by, a constant is that of the result times, or over, it. */
weft_status normal_product_grad(normal *n, uint32_t id, uint32_t op, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, op);
    bool divides = normal_is_type(h, "elementwise_div_grad"), good;
    *out = value_of(TERM_NONE);
    if ((!divides && !normal_is_type(h, "elementwise_mul_grad")) || strcmp(term_head(t, id)->label, "X@GRAD") != 0 ||
        !normal_pulls(n, t->items[id].dtype))
        return NULL;
    size_t at_y = arg_of_role(t, op, ROLE_FACTOR), at_grad = arg_of_role(t, op, ROLE_LINEAR);
    if (at_y == h->nargs || at_grad == h->nargs) return NULL;
    value y = normal_of_arg(n, op, at_y), grad = normal_of_arg(n, op, at_grad);
    if (t->items[grad.term].dtype != t->items[id].dtype || !is_unit_fill(t, y, grad)) return NULL;
    if (!has_dims_of(t, grad.term, id)) return NULL; /* X was stretched */
    TRY(normal_times(t, &grad, value_factor(t, y), divides, &good));
    if (good) *out = grad;
    return NULL;
}
