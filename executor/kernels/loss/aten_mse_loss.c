/* aten_mse_loss.c: (self - target)^2: of each element (reduction 0), the mean (1), or the sum (2), and its gradient. */
#include "executor/kernels/layout.h"

enum { IN_SELF, IN_TARGET, GRAD_IN_GRAD = 0, GRAD_IN_SELF, GRAD_IN_TARGET };

typedef struct mse_state {
    int64_t reduction, numel;
} mse_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *y, const tensor *loss) {
    mse_state *s = KERNEL_STATE(p, mse_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, y, "target"));
    TRY(require_present(p, loss, "the loss"));
    TRY(require_like(p, x, y, x->numel, "target"));
    *s = (mse_state){attr_int(p->op, "reduction", 1), x->numel};
    return require_like(p, x, loss, s->reduction ? 1 : x->numel, "the loss");
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_common(p, type_in(p, IN_SELF), type_in(p, IN_TARGET), type_out(p, 0));
}
static weft_status prepare_backward(kernel_prepare *p) {
    const tensor *x = type_in(p, GRAD_IN_SELF);
    TRY(prepare_common(p, x, type_in(p, GRAD_IN_TARGET), type_in(p, GRAD_IN_GRAD)));
    TRY(require_present(p, type_out(p, 0), "grad_input"));
    return require_like(p, x, type_out(p, 0), x->numel, "grad_input");
}

static weft_status run(const kernel_call *c) {
    const mse_state *s = c->state;
    const tensor *x = arg_in(c, IN_SELF), *y = arg_in(c, IN_TARGET);
    tensor *loss = arg_out(c, 0);
    double sum = 0;
    for (int64_t i = 0; i < s->numel; i++) {
        double d = tensor_real(x, i) - tensor_real(y, i);
        if (s->reduction)
            sum += d * d;
        else
            tensor_set_real(loss, i, d * d);
    }
    if (s->reduction) tensor_set_real(loss, 0, s->reduction == 1 ? sum / (double)s->numel : sum);
    return NULL;
}

static weft_status run_backward(const kernel_call *c) {
    const mse_state *s = c->state;
    const tensor *dloss = arg_in(c, GRAD_IN_GRAD), *x = arg_in(c, GRAD_IN_SELF), *y = arg_in(c, GRAD_IN_TARGET);
    tensor *dx = arg_out(c, 0);
    double by = s->reduction == 1 ? 2 / (double)s->numel : 2;
    for (int64_t i = 0; i < s->numel; i++)
        tensor_set_real(dx, i, by * (tensor_real(x, i) - tensor_real(y, i)) * tensor_real(dloss, s->reduction ? 0 : i));
    return NULL;
}

const kernel kernel_aten_mse_loss = {prepare, run};
const kernel kernel_aten_mse_loss_backward = {prepare_backward, run_backward};
