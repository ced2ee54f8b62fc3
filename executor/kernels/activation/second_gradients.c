/* second_gradients.c: gradients of gradients of functions, element by element.
 *
 * With y = f(x) and dx = f'(x) dy, ddx the gradient of dx: that of dy is f'(x) ddx. That of x, or of y where the
 * gradient is written in terms of y, is what f'(x) dy changes by, times ddx. */
#include <math.h>

#include "executor/kernels/layout.h"

/* What a function needs: x or y (`of`), dy or dx (`down`), ddx, and an attr or two. */
typedef struct element {
    double of, down, ddx, a, b;
} element;

typedef struct second_state {
    void (*each)(const element *, double *first, double *second);
    int of, down, ddx; /* input slots; -1: none */
    int first, second; /* output slots; -1: none */
    double a, b;
} second_state;

static void of_tanh(const element *e, double *first, double *second) {
    *first = (1 - e->of * e->of) * e->ddx;
    *second = -2 * e->of * e->down * e->ddx;
}
static void of_sigmoid(const element *e, double *first, double *second) {
    *first = e->of * (1 - e->of) * e->ddx;
    *second = (1 - 2 * e->of) * e->down * e->ddx;
}
static void of_relu(const element *e, double *first, double *second) {
    *first = e->of > 0 ? e->ddx : 0;
    *second = 0;
}
static void of_leaky_relu(const element *e, double *first, double *second) {
    *first = e->of > 0 ? e->ddx : e->a * e->ddx;
    *second = 0;
}
static void of_square(const element *e, double *first, double *second) {
    *first = 2 * e->of * e->ddx;
    *second = 2 * e->down * e->ddx;
}
static void of_sqrt(const element *e, double *first, double *second) {
    *first = e->ddx / (2 * e->of);
    *second = -e->down * e->ddx / e->of;
}
static void of_rsqrt(const element *e, double *first, double *second) {
    *first = -0.5 * e->of * e->of * e->of * e->ddx;
    *second = 3 * e->down * e->ddx / e->of;
}
static void of_log(const element *e, double *first, double *second) {
    *first = e->ddx / e->of;
    *second = -e->down * e->ddx / (e->of * e->of);
}
static void of_sin(const element *e, double *first, double *second) {
    *first = cos(e->of) * e->ddx;
    *second = -sin(e->of) * e->down * e->ddx;
}
static void of_cos(const element *e, double *first, double *second) {
    *first = -sin(e->of) * e->ddx;
    *second = -cos(e->of) * e->down * e->ddx;
}
static void of_abs(const element *e, double *first, double *second) {
    *first = e->of > 0 ? e->ddx : e->of < 0 ? -e->ddx : 0;
    *second = 0;
}
static void of_pow(const element *e, double *first, double *second) {
    *first = e->a * pow(e->of, e->a - 1) * e->ddx;
    *second = e->a * (e->a - 1) * pow(e->of, e->a - 2) * e->down * e->ddx;
}
static void of_elu(const element *e, double *first, double *second) {
    double slope = e->of > 0 ? 1 : e->a * exp(e->of);
    *first = slope * e->ddx;
    *second = e->of > 0 ? 0 : slope * e->down * e->ddx;
}
static void of_celu(const element *e, double *first, double *second) {
    double slope = e->of > 0 ? 1 : exp(e->of / e->a);
    *first = slope * e->ddx;
    *second = e->of > 0 ? 0 : slope / e->a * e->down * e->ddx;
}
static void of_softplus(const element *e, double *first, double *second) {
    double t = e->a * e->of, s = 1 / (1 + exp(-t));
    *first = t > e->b ? e->ddx : s * e->ddx;
    *second = t > e->b ? 0 : e->a * s * (1 - s) * e->down * e->ddx;
}
static void of_clip(const element *e, double *first, double *second) {
    *first = e->of > e->a && e->of < e->b ? e->ddx : 0;
    *second = 0;
}

static weft_status prepare_second(kernel_prepare *p, second_state made) {
    second_state *s = KERNEL_STATE(p, second_state);
    if (!s) return base_out_of_memory();
    *s = made;
    const tensor *of = type_in(p, s->of);
    TRY(require_real(p, of, p->schema->inputs[s->of].name));
    const int in[] = {s->down, s->ddx}, out[] = {s->first, s->second};
    TRY(require_present(p, type_in(p, s->ddx), p->schema->inputs[s->ddx].name));
    for (int k = 0; k < 2; k++) {
        if (in[k] >= 0) TRY(require_like(p, of, type_in(p, in[k]), of->numel, p->schema->inputs[in[k]].name));
        if (out[k] >= 0) TRY(require_like(p, of, type_out(p, out[k]), of->numel, p->schema->outputs[out[k]].name));
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const second_state *s = c->state;
    const tensor *of = arg_in(c, s->of), *down = s->down < 0 ? NULL : arg_in(c, s->down), *ddx = arg_in(c, s->ddx);
    tensor *first = s->first < 0 ? NULL : arg_out(c, s->first), *second = s->second < 0 ? NULL : arg_out(c, s->second);
    for (int64_t i = 0; i < of->numel; i++) {
        element e = {tensor_real(of, i), down ? tensor_real(down, i) : 0, tensor_real(ddx, i), s->a, s->b};
        double values[2];
        s->each(&e, &values[0], &values[1]);
        if (first) tensor_set_real(first, i, values[0]);
        if (second) tensor_set_real(second, i, values[1]);
    }
    return NULL;
}

/* Slots as in ops.def: x or y, dy or dx, ddx -> the gradient of dy, that of x or y. */
#define SECOND(name, a, b)                                                                                            \
    static weft_status prepare_##name(kernel_prepare *p) {                                                           \
        return prepare_second(p, (second_state){of_##name, 0, 1, 2, 0, 1, a, b});                                    \
    }                                                                                                                \
    const kernel kernel_##name##_second = {prepare_##name, run};
/* Without a second derivative: x or y, ddx -> the gradient of dy. */
#define SECOND_FLAT(name, a, b)                                                                                      \
    static weft_status prepare_##name(kernel_prepare *p) {                                                           \
        return prepare_second(p, (second_state){of_##name, 0, -1, 1, 0, -1, a, b});                                  \
    }                                                                                                                \
    const kernel kernel_##name##_second = {prepare_##name, run};

SECOND(tanh, 0, 0)
SECOND(sigmoid, 0, 0)
SECOND(square, 0, 0)
SECOND(sqrt, 0, 0)
SECOND(rsqrt, 0, 0)
SECOND(log, 0, 0)
SECOND(sin, 0, 0)
SECOND(cos, 0, 0)
SECOND(pow, attr_float(p->op, "factor", 1), 0)
SECOND(elu, attr_float(p->op, "alpha", 1), 0)
SECOND(celu, attr_float(p->op, "alpha", 1), 0)
SECOND(softplus, attr_float(p->op, "beta", 1), attr_float(p->op, "threshold", 20))
SECOND_FLAT(relu, 0, 0)
SECOND_FLAT(leaky_relu, attr_float(p->op, "alpha", 0.02), 0)
SECOND_FLAT(abs, 0, 0)
SECOND_FLAT(clip, attr_float(p->op, "min", -INFINITY), attr_float(p->op, "max", INFINITY))
