/* optimizer.cu: updates of parameters. */
#include "executor/devices/cuda/kernels/kernel.h"

ITEM_KERNEL(update_sgd, update_args) {
    a->param_out[i] = a->param[i] - *a->rate * a->grad[i];
}

ITEM_KERNEL(update_momentum, update_args) {
    float g = a->grad[i] + a->decay * a->param[i], v = a->mu * a->moment[i] + g, rate = *a->rate;
    float param = a->param[i];
    a->moment_out[i] = v;
    a->param_out[i] = param - (a->nesterov ? rate * (g + a->mu * v) : rate * v);
}

/* The step's coefficients, and the powers of the next one. */
ITEM_KERNEL(adam_begin, update_args) {
    double rate = *a->rate, pow1 = *a->pow1, pow2 = *a->pow2, correction = sqrt(1 - pow2);
    int is_skipped = a->skip && *a->skip;
    if (i) return;
    a->step[3] = (float)is_skipped;
    a->step[0] = (float)(rate * correction / (1 - pow1));
    a->step[1] = (float)(a->epsilon * correction);
    a->step[2] = (float)(1 - rate * a->coeff);
    if (a->pow1_out) *a->pow1_out = (float)(is_skipped ? pow1 : pow1 * a->beta1);
    if (a->pow2_out) *a->pow2_out = (float)(is_skipped ? pow2 : pow2 * a->beta2);
}

ITEM_KERNEL(update_adam, update_args) {
    float b1 = (float)a->beta1, b2 = (float)a->beta2, c1 = (float)(1 - a->beta1), c2 = (float)(1 - a->beta2);
    float g = a->grad[i], m = b1 * a->moment[i] + c1 * g, v = b2 * a->second[i] + c2 * g * g;
    float param = a->param[i];
    if (a->step[3] != 0) {
        a->moment_out[i] = a->moment[i];
        a->second_out[i] = a->second[i];
        a->param_out[i] = param;
        return;
    }
    a->moment_out[i] = m;
    a->second_out[i] = v;
    a->param_out[i] = a->step[2] * param - a->step[0] * (m / (sqrtf(v) + a->step[1]));
}
