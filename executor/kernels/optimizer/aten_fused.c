/* aten_fused.c: torch's fused steps of optimizers, of all parameters of a list (torch:
 * aten/src/ATen/native/cpu/{FusedAdamKernel,FusedSGDKernel}.cpp). */
#include <math.h>

#include "executor/kernels/layout.h"

/* prepare: lists of slots `first` to `last` have a tensor like each parameter; `optional`: or the last one has none. */
static weft_status require_lists(kernel_prepare *p, int last, bool optional) {
    uint32_t n = p->in_first[1];
    for (int s = 0; s <= last; s++) {
        uint32_t count = p->in_first[s + 1] - p->in_first[s];
        if (count == 0 && s == last && optional) continue;
        if (count != n) return kernel_unsupported(p, "expected lists of %u tensors, found one of %u", n, count);
        for (uint32_t k = 0; k < n; k++) {
            TRY(require_real(p, &p->in[k], "a parameter"));
            TRY(require_like(p, &p->in[k], &p->in[p->in_first[s] + k], p->in[k].numel, "what goes with a parameter"));
        }
    }
    return NULL;
}

static const tensor *in_list(const kernel_call *c, int s, uint32_t k) {
    return &c->in[c->in_first[s] + k];
}
static tensor *out_list(const kernel_call *c, int s, uint32_t k) {
    return &c->out[c->out_first[s] + k];
}

/* --- adam, adamw ----------------------------------------------------------------------------------------------------
 */

enum { PARAMS, GRADS, FIRSTS, SECONDS, MOSTS, STEPS };
enum { PARAMS_OUT, FIRSTS_OUT, SECONDS_OUT, MOSTS_OUT };

typedef struct adam_state {
    double lr, beta1, beta2, weight_decay, eps;
    bool amsgrad, maximize, decoupled;
} adam_state;

static weft_status prepare_adam_of(kernel_prepare *p, bool decoupled) {
    adam_state *s = KERNEL_STATE(p, adam_state);
    if (!s) return base_out_of_memory();
    *s = (adam_state){.lr = attr_float(p->op, "lr", 0),
                      .beta1 = attr_float(p->op, "beta1", 0.9),
                      .beta2 = attr_float(p->op, "beta2", 0.999),
                      .weight_decay = attr_float(p->op, "weight_decay", 0),
                      .eps = attr_float(p->op, "eps", 1e-8),
                      .amsgrad = attr_bool(p->op, "amsgrad", false),
                      .maximize = attr_bool(p->op, "maximize", false),
                      .decoupled = decoupled};
    if (p->in_first[STEPS + 1] - p->in_first[STEPS] != p->in_first[1])
        return kernel_unsupported(p, "expected a step of each parameter");
    for (uint32_t k = p->in_first[STEPS]; k < p->in_first[STEPS + 1]; k++) TRY(require_real(p, &p->in[k], "a step"));
    return require_lists(p, MOSTS, !s->amsgrad);
}

static weft_status prepare_adam(kernel_prepare *p) {
    return prepare_adam_of(p, false);
}
static weft_status prepare_adamw(kernel_prepare *p) {
    return prepare_adam_of(p, true);
}

static void step_adam(const kernel_call *c, const adam_state *s, uint32_t k) {
    double step = tensor_real(in_list(c, STEPS, k), 0);
    double rate = s->lr / (1 - pow(s->beta1, step)), by = sqrt(1 - pow(s->beta2, step));
    for (int64_t i = 0; i < in_list(c, PARAMS, k)->numel; i++) {
        double x = tensor_real(in_list(c, PARAMS, k), i), g = tensor_real(in_list(c, GRADS, k), i);
        if (s->maximize) g = -g;
        if (s->decoupled)
            x -= s->lr * s->weight_decay * x;
        else
            g += s->weight_decay * x;
        double m = tensor_real(in_list(c, FIRSTS, k), i), v = tensor_real(in_list(c, SECONDS, k), i);
        m += (1 - s->beta1) * (g - m);
        v = s->beta2 * v + (1 - s->beta2) * g * g;
        double most = v;
        if (s->amsgrad) {
            most = tensor_real(in_list(c, MOSTS, k), i);
            if (v > most) most = v;
            tensor_set_real(out_list(c, MOSTS_OUT, k), i, most);
        }
        tensor_set_real(out_list(c, FIRSTS_OUT, k), i, m);
        tensor_set_real(out_list(c, SECONDS_OUT, k), i, v);
        tensor_set_real(out_list(c, PARAMS_OUT, k), i, x - rate * m / (sqrt(most) / by + s->eps));
    }
}

static weft_status run_adam(const kernel_call *c) {
    for (uint32_t k = 0; k < c->in_first[1]; k++) step_adam(c, c->state, k);
    return NULL;
}

const kernel kernel_aten_fused_adam = {prepare_adam, run_adam};
const kernel kernel_aten_fused_adamw = {prepare_adamw, run_adam};

/* --- sgd
 * -------------------------------------------------------------------------------------------------------------- */

enum { BUFFERS = 2, BUFFERS_OUT = 1 };

typedef struct sgd_state {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize, is_first;
} sgd_state;

static weft_status prepare_sgd(kernel_prepare *p) {
    sgd_state *s = KERNEL_STATE(p, sgd_state);
    if (!s) return base_out_of_memory();
    *s = (sgd_state){.lr = attr_float(p->op, "lr", 0),
                     .momentum = attr_float(p->op, "momentum", 0),
                     .dampening = attr_float(p->op, "dampening", 0),
                     .weight_decay = attr_float(p->op, "weight_decay", 0),
                     .nesterov = attr_bool(p->op, "nesterov", false),
                     .maximize = attr_bool(p->op, "maximize", false),
                     .is_first = attr_bool(p->op, "is_first_step", false)};
    return require_lists(p, BUFFERS, s->momentum == 0);
}

static weft_status run_sgd(const kernel_call *c) {
    const sgd_state *s = c->state;
    for (uint32_t k = 0; k < c->in_first[1]; k++)
        for (int64_t i = 0; i < in_list(c, PARAMS, k)->numel; i++) {
            double x = tensor_real(in_list(c, PARAMS, k), i), g = tensor_real(in_list(c, GRADS, k), i);
            g = (s->maximize ? -g : g) + s->weight_decay * x;
            if (s->momentum != 0) {
                double before = tensor_real(in_list(c, BUFFERS, k), i);
                double buffered = s->is_first ? g : s->momentum * before + (1 - s->dampening) * g;
                tensor_set_real(out_list(c, BUFFERS_OUT, k), i, buffered);
                g = s->nesterov ? g + s->momentum * buffered : buffered;
            }
            tensor_set_real(out_list(c, PARAMS_OUT, k), i, x - s->lr * g);
        }
    return NULL;
}

const kernel kernel_aten_fused_sgd = {prepare_sgd, run_sgd};
