/* positions.c: add_position_encoding: alpha X plus beta times sines (first half of the features) and cosines (second
 * half) of the step, of wavelengths from 2 pi to 20000 pi (Vaswani et al., 2017). Its gradient is alpha times what
 * comes in. Source: fluid/operators/add_position_encoding_op.h. */
#include <math.h>

#include "executor/kernels/layout.h"

typedef struct encoding {
    int64_t steps, width;
    double alpha, beta;
} encoding;

static weft_status prepare(kernel_prepare *p) {
    encoding *s = KERNEL_STATE(p, encoding);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    TRY(require_like(p, x, out, x->numel, "Out"));
    if (x->ndim != 3 || x->dims[2] % 2)
        return kernel_unsupported(p, "expected X [sequence, step, feature] of an even number of features");
    *s = (encoding){x->dims[1], x->dims[2], attr_float(p->op, "alpha", 1), attr_float(p->op, "beta", 1)};
    return NULL;
}

static double encoded(const encoding *s, int64_t step, int64_t feature) {
    int64_t half = s->width / 2, k = feature % half;
    double angle = (double)step / (half > 1 ? pow(10000, (double)k / (double)(half - 1)) : 10000);
    return feature < half ? sin(angle) : cos(angle);
}

static weft_status run(const kernel_call *c) {
    const encoding *s = c->state;
    const tensor *x = arg_in(c, 0);
    for (int64_t i = 0; i < x->numel; i++) {
        double added = encoded(s, i / s->width % s->steps, i % s->width);
        tensor_set_real(arg_out(c, 0), i, s->alpha * tensor_real(x, i) + s->beta * added);
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const encoding *s = c->state;
    const tensor *g = arg_in(c, 0);
    for (int64_t i = 0; i < g->numel; i++) tensor_set_real(arg_out(c, 0), i, s->alpha * tensor_real(g, i));
    return NULL;
}

const kernel kernel_add_position_encoding = {prepare, run};
const kernel kernel_add_position_encoding_grad = {prepare, run_grad};
