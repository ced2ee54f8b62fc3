/* rrelu.c: leaky relu whose slopes are drawn, evenly from [lower, upper], or in a test halfway between. Noise keeps
 * every element's slope for the gradient. */
#include "executor/kernels/fill/random.h"
#include "executor/kernels/layout.h"

typedef struct rrelu_state {
    double lower, upper;
    bool is_test;
} rrelu_state;

static weft_status prepare_rrelu(kernel_prepare *p) {
    rrelu_state *s = KERNEL_STATE(p, rrelu_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    TRY(require_real(p, x, "X"));
    for (int o = 0; o < 2; o++) {
        TRY(require_present(p, type_out(p, o), p->schema->outputs[o].name));
        TRY(require_like(p, x, type_out(p, o), x->numel, p->schema->outputs[o].name));
    }
    s->lower = attr_float(p->op, "lower", 1.0 / 8);
    s->upper = attr_float(p->op, "upper", 1.0 / 3);
    s->is_test = attr_bool(p->op, "is_test", false);
    return NULL;
}

static weft_status run_rrelu(const kernel_call *c) {
    const rrelu_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    random_key key = random_key_of(c, 0);
    for (int64_t i = 0; i < x->numel; i++) {
        double at = 0.5, slope = 1, value = tensor_real(x, i);
        if (value < 0) {
            uint32_t bits[4];
            if (!s->is_test) {
                philox(key.seed, key.op_seed, key.step, (uint64_t)i, bits);
                at = (double)random_unit(bits[0]);
            }
            slope = s->lower + at * (s->upper - s->lower);
        }
        tensor_set_real(arg_out(c, 1), i, slope);
        tensor_set_real(arg_out(c, 0), i, value * slope);
    }
    return NULL;
}

enum { GRAD_NOISE = 1, GRAD_OUT };

static weft_status prepare_rrelu_grad(kernel_prepare *p) {
    const tensor *g = type_in(p, GRAD_OUT);
    TRY(require_real(p, g, "Out@GRAD"));
    TRY(require_present(p, type_in(p, GRAD_NOISE), "Noise"));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    TRY(require_like(p, g, type_in(p, GRAD_NOISE), g->numel, "Noise"));
    return require_like(p, g, type_out(p, 0), g->numel, "X@GRAD");
}

static weft_status run_rrelu_grad(const kernel_call *c) {
    const tensor *g = arg_in(c, GRAD_OUT);
    for (int64_t i = 0; i < g->numel; i++)
        tensor_set_real(arg_out(c, 0), i, tensor_real(g, i) * tensor_real(arg_in(c, GRAD_NOISE), i));
    return NULL;
}

const kernel kernel_rrelu = {prepare_rrelu, run_rrelu};
const kernel kernel_rrelu_grad = {prepare_rrelu_grad, run_rrelu_grad};
