/* third_gradients.c: gradients of second gradients, element by element.
 *
 * A second gradient (second_gradients.c) makes ddy = f1 ddx and, of what f' is written in, dof = f2 dy ddx. Here f1 is
 * f' in terms of x or of y, f2 its derivative and f3 that of f2. With g and h the gradients of ddy and of dof:
 *
 *   that of x or y   (f2 g + f3 dy h) ddx
 *   that of dy       f2 ddx h
 *   that of ddx      f1 g + f2 dy h
 *
 * One of g and h may be absent, and is 0 then. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_OF, IN_DY, IN_DDX, IN_G, IN_H, OUT_OF = 0, OUT_DY, OUT_DDX };

typedef struct third_state {
    void (*slopes)(double of, double factor, double f[3]);
    double factor;
} third_state;

static void of_tanh(double y, double factor, double f[3]) {
    (void)factor;
    f[0] = 1 - y * y, f[1] = -2 * y, f[2] = -2;
}
static void of_sigmoid(double y, double factor, double f[3]) {
    (void)factor;
    f[0] = y * (1 - y), f[1] = 1 - 2 * y, f[2] = -2;
}
static void of_sin(double x, double factor, double f[3]) {
    (void)factor;
    f[0] = cos(x), f[1] = -sin(x), f[2] = -cos(x);
}
static void of_cos(double x, double factor, double f[3]) {
    (void)factor;
    f[0] = -sin(x), f[1] = -cos(x), f[2] = sin(x);
}
/* A factor of 0 leaves nothing, wherever x is. */
static void of_pow(double x, double a, double f[3]) {
    f[0] = a != 0 ? a * pow(x, a - 1) : 0;
    f[1] = a != 0 && a != 1 ? a * (a - 1) * pow(x, a - 2) : 0;
    f[2] = a != 0 && a != 1 && a != 2 ? a * (a - 1) * (a - 2) * pow(x, a - 3) : 0;
}

static weft_status prepare_third(kernel_prepare *p, third_state made) {
    third_state *s = KERNEL_STATE(p, third_state);
    if (!s) return base_out_of_memory();
    *s = made;
    const tensor *of = type_in(p, IN_OF);
    TRY(require_real(p, of, p->schema->inputs[IN_OF].name));
    for (int k = IN_DY; k <= IN_H; k++) {
        const char *what = p->schema->inputs[k].name;
        if (k < IN_G) TRY(require_present(p, type_in(p, k), what));
        TRY(require_like(p, of, type_in(p, k), of->numel, what));
    }
    for (int k = OUT_OF; k <= OUT_DDX; k++)
        TRY(require_like(p, of, type_out(p, k), of->numel, p->schema->outputs[k].name));
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const third_state *s = c->state;
    const tensor *of = arg_in(c, IN_OF), *dy = arg_in(c, IN_DY), *ddx = arg_in(c, IN_DDX);
    const tensor *g = arg_in(c, IN_G), *h = arg_in(c, IN_H);
    for (int64_t i = 0; i < of->numel; i++) {
        double f[3], down = tensor_real(dy, i), up = tensor_real(ddx, i);
        double of_ddy = g ? tensor_real(g, i) : 0, of_dof = h ? tensor_real(h, i) : 0;
        s->slopes(tensor_real(of, i), s->factor, f);
        const double values[] = {(f[1] * of_ddy + f[2] * down * of_dof) * up, f[1] * up * of_dof,
                                 f[0] * of_ddy + f[1] * down * of_dof};
        for (int k = OUT_OF; k <= OUT_DDX; k++)
            if (arg_out(c, k)) tensor_set_real(arg_out(c, k), i, values[k]);
    }
    return NULL;
}

#define THIRD(name, factor)                                                                                            \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        return prepare_third(p, (third_state){of_##name, factor});                                                     \
    }                                                                                                                  \
    const kernel kernel_##name##_third = {prepare_##name, run};
THIRD(tanh, 0)
THIRD(sigmoid, 0)
THIRD(sin, 0)
THIRD(cos, 0)
THIRD(pow, attr_float(p->op, "factor", 1))
