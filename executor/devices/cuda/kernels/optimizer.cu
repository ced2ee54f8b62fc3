/* optimizer.cu: updates of parameters. */
#include "executor/devices/cuda/kernels/kernel.h"

DEVICE float update_grad(const update_args *a, cuda_index i) {
    return real_at(a->grad, a->grad_type, i);
}
DEVICE void update_store(const update_args *a, cuda_index i, float param) {
    a->param_out[i] = param;
    if (a->rounded) store_real(a->rounded, a->rounded_type, i, param);
}

DEVICE void update_sgd_at(const update_args *a, cuda_index i) {
    update_store(a, i, a->param[i] - *a->rate * update_grad(a, i));
}

DEVICE void update_momentum_at(const update_args *a, cuda_index i) {
    float g = update_grad(a, i) + a->decay * a->param[i], v = a->mu * a->moment[i] + g, rate = *a->rate;
    float param = a->param[i];
    a->moment_out[i] = v;
    update_store(a, i, param - (a->nesterov ? rate * (g + a->mu * v) : rate * v));
}

/* The step's coefficients, and the powers of the next one. */
DEVICE void adam_begin_at(const update_args *a) {
    double rate = *a->rate, pow1 = *a->pow1, pow2 = *a->pow2, correction = sqrt(1 - pow2);
    int is_skipped = a->skip && *a->skip;
    a->step[3] = (float)is_skipped;
    a->step[0] = (float)(rate * correction / (1 - pow1));
    a->step[1] = (float)(a->epsilon * correction);
    a->step[2] = (float)(1 - rate * a->coeff);
    if (a->pow1_out) *a->pow1_out = (float)(is_skipped ? pow1 : pow1 * a->beta1);
    if (a->pow2_out) *a->pow2_out = (float)(is_skipped ? pow2 : pow2 * a->beta2);
}

DEVICE void update_adam_at(const update_args *a, cuda_index i) {
    float b1 = (float)a->beta1, b2 = (float)a->beta2, c1 = (float)(1 - a->beta1), c2 = (float)(1 - a->beta2);
    float g = update_grad(a, i), m = b1 * a->moment[i] + c1 * g, v = b2 * a->second[i] + c2 * g * g;
    float param = a->param[i];
    if (a->step[3] != 0) {
        a->moment_out[i] = a->moment[i];
        a->second_out[i] = a->second[i];
        update_store(a, i, param);
        return;
    }
    a->moment_out[i] = m;
    a->second_out[i] = v;
    update_store(a, i, a->step[2] * param - a->step[0] * (m / (sqrtf(v) + a->step[1])));
}

/* --- one parameter, and many -------------------------------------------------------------------------------------- */

/* The parameter of an item. */
DEVICE int update_of(const updates_args *a, cuda_index i) {
    int low = 0, high = a->n;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (a->first[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#define UPDATE(name) \
    ITEM_KERNEL(name, update_args) { \
        name##_at(a, i); \
    } \
    ITEM_KERNEL(name##_many, updates_args) { \
        int k = update_of(a, i); \
        if (i - a->first[k] < a->table[k].nitems) name##_at(&a->table[k], i - a->first[k]); \
    }
UPDATE(update_sgd)
UPDATE(update_momentum)
UPDATE(update_adam)
#undef UPDATE

ITEM_KERNEL(adam_begin, update_args) {
    if (!i) adam_begin_at(a);
}
ITEM_KERNEL(adam_begin_many, updates_args) {
    adam_begin_at(&a->table[i]);
}
