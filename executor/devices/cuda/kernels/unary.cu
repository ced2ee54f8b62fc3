/* unary.cu: kernels of unary.def. */
#include "executor/devices/cuda/kernels/kernel.h"

DEVICE float sigmoid_of_x(float x) {
    return 1 / (1 + expf(-x));
}

/* The normal distribution up to x, exact or by tanh. */
DEVICE float gelu_share(float x, float is_approximate) {
    float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    return is_approximate != 0 ? 0.5f * (1 + tanhf(inner)) : 0.5f * (1 + erff(x * 0.7071067812f));
}

DEVICE float gelu_slope(float x, float is_approximate) {
    if (is_approximate == 0) return gelu_share(x, 0) + x * 0.3989422804f * expf(-0.5f * x * x);
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

DEVICE float softened(float x, float threshold) {
    return x > threshold ? x : log1pf(expf(x));
}

/* t is tanh(softened(x)). */
DEVICE float mish_slope(float x, float t) {
    return t + x * (1 - t * t) * sigmoid_of_x(x);
}

#define UNARY(op, first, second, value) \
    DEVICE float unary_##op##_of(float x, float dy, float p, float q) { \
        (void)dy, (void)p, (void)q; \
        return value; \
    } \
    ITEM_KERNEL(unary_##op, unary_args) { \
        float dy = a->dy ? real_at(a->dy, a->type, i) : 0; \
        store_real(a->out, a->type, i, unary_##op##_of(real_at(a->x, a->type, i), dy, a->p, a->q)); \
    }
#include "executor/devices/cuda/kernels/unary.def"
#undef UNARY
