/* logcumsumexp.c: the logarithm of a running sum of exp(X), kept as a largest exponent and a sum below it; and its
 * gradient: exp(X) times the running sum, the other way, of Out@GRAD * exp(-Out). */
#include <float.h>
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, GRAD_IN_OUT, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct logcumsumexp_state {
    axis_split split;
    bool exclusive, reverse;
} logcumsumexp_state;

static weft_status prepare(kernel_prepare *p) {
    logcumsumexp_state *s = KERNEL_STATE(p, logcumsumexp_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    TRY(require_real(p, x, "X"));
    TRY(require_numel(p, type_out(p, OUT), x->numel, "the result"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    if (attr_bool(p->op, "flatten", false)) s->split = (axis_split){1, x->numel, 1};
    s->exclusive = attr_bool(p->op, "exclusive", false);
    s->reverse = attr_bool(p->op, "reverse", false);
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, GRAD_IN_OUT), "Out"));
    TRY(require_present(p, type_in(p, GRAD_IN_OUT_GRAD), "Out@GRAD"));
    TRY(require_numel(p, type_in(p, GRAD_IN_OUT_GRAD), type_in(p, IN_X)->numel, "Out@GRAD"));
    return prepare(p);
}

/* A sum of exponentials: exp(top) * sum. */
typedef struct running {
    double top, sum;
} running;

static void add(running *r, double exponent, double factor) {
    if (factor == 0 || exponent == -INFINITY) return;
    if (isnan(exponent)) {
        *r = (running){exponent, exponent};
        return;
    }
    if (exponent > r->top) {
        r->sum *= exp(r->top - exponent);
        r->top = exponent;
    }
    r->sum += factor * (exponent == r->top ? 1 : exp(exponent - r->top));
}

static const running nothing = {-INFINITY, 0};

static weft_status run(const kernel_call *c) {
    const logcumsumexp_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *out = arg_out(c, OUT);
    int64_t n = s->split.extent, inner = s->split.inner;
    for (int64_t line = 0; line < s->split.outer * inner; line++) {
        running r = nothing;
        for (int64_t k = 0; k < n; k++) {
            int64_t i = (line / inner * n + (s->reverse ? n - 1 - k : k)) * inner + line % inner;
            double value = tensor_real(x, i);
            if (!s->exclusive) add(&r, value, 1);
            double empty = !s->exclusive ? -INFINITY : x->dtype == WEFT_FP64 ? -DBL_MAX : -(double)FLT_MAX; /* as Paddle */
            tensor_set_real(out, i, isnan(r.sum) ? r.sum : r.sum > 0 ? r.top + log(r.sum) : empty);
            if (s->exclusive) add(&r, value, 1);
        }
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const logcumsumexp_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, GRAD_IN_OUT), *g = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    int64_t n = s->split.extent, inner = s->split.inner;
    for (int64_t line = 0; line < s->split.outer * inner; line++) {
        running r = nothing;
        for (int64_t k = n - 1; k >= 0; k--) { /* from the last sum that an element is in */
            int64_t i = (line / inner * n + (s->reverse ? n - 1 - k : k)) * inner + line % inner;
            double value = tensor_real(x, i);
            if (!s->exclusive) add(&r, -tensor_real(y, i), tensor_real(g, i));
            tensor_set_real(dx, i, r.sum == 0 ? 0 : r.sum * exp(value + r.top));
            if (s->exclusive) add(&r, -tensor_real(y, i), tensor_real(g, i));
        }
    }
    return NULL;
}

const kernel kernel_logcumsumexp = {prepare, run};
const kernel kernel_logcumsumexp_grad = {prepare_grad, run_grad};
