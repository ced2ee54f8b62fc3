/* warmup.c: a learning rate that rises in a line for warmup_steps, then falls with the square of what is left of
 * total_steps, to end_lr. The step is counted here. */
#include "executor/kernels/layout.h"

enum { IN_RATE, IN_STEP, OUT_RATE = 0, OUT_STEP };

typedef struct warmup_state {
    int64_t warmup, total;
    double base, end;
} warmup_state;

static weft_status prepare(kernel_prepare *p) {
    warmup_state *s = KERNEL_STATE(p, warmup_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, type_in(p, IN_STEP), "Step"));
    TRY(require_real(p, type_out(p, OUT_RATE), "LearningRateOut"));
    TRY(require_integers(p, type_out(p, OUT_STEP), "StepOut"));
    TRY(require_numel(p, type_in(p, IN_STEP), 1, "Step"));
    TRY(require_numel(p, type_out(p, OUT_RATE), 1, "LearningRateOut"));
    TRY(require_numel(p, type_out(p, OUT_STEP), 1, "StepOut"));
    *s = (warmup_state){attr_int(p->op, "warmup_steps", 0), attr_int(p->op, "total_steps", 0),
                        attr_float(p->op, "base_lr", 0), attr_float(p->op, "end_lr", 0)};
    return s->warmup <= s->total ? NULL : kernel_unsupported(p, "expected warmup_steps of at most total_steps");
}

static weft_status run(const kernel_call *c) {
    const warmup_state *s = c->state;
    int64_t step = tensor_integer(arg_in(c, IN_STEP), 0) + 1;
    double rate = s->end, left = 1 - (double)(step - s->warmup) / (double)(s->total - s->warmup);
    if (step <= s->warmup)
        rate = (double)step / (double)s->warmup * s->base;
    else if (step < s->total)
        rate = (s->base - s->end) * left * left + s->end;
    tensor_set_integer(arg_out(c, OUT_STEP), 0, step);
    tensor_set_real(arg_out(c, OUT_RATE), 0, rate);
    return NULL;
}

const kernel kernel_pow2_decay_with_linear_warmup = {prepare, run};
