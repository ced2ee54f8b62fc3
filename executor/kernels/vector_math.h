/* vector_math.h: exp, tanh and the normal distribution in fp32, without branches or calls, so that loops over them
 * become vector code. Errors of exp and tanh are below 3 units in the last place, those of the distribution below 8.
 *
 * exp: Cody and Waite's reduction x = n ln 2 + r, a polynomial in r, and n added to the exponent's bits. The
 * normal distribution: exp(-z^2) erfcx(z) with erfcx(z) = u P(u), u = 1 / (1 + 0.35 z), so that one exp serves the
 * density and both tails, and tails do not cancel. Coefficients: least squares, weighted until the error was even. */
#ifndef EXECUTOR_KERNELS_VECTOR_MATH_H
#define EXECUTOR_KERNELS_VECTOR_MATH_H

#include <math.h>

#include "executor/kernel.h"

/* Results below e^-87 are 0. */
static inline float vm_exp(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    float shifted = x * 1.44269504f + magic, n = shifted - magic;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 0.00138130854f;
    p = p * r + 0.00836941879f;
    p = p * r + 0.041668456f;
    p = p * r + 0.166665152f;
    p = p * r + 0.49999994f;
    p = p * (r * r) + r + 1.0f;
    uint32_t whole, bits;
    memcpy(&whole, &shifted, sizeof whole);
    memcpy(&bits, &p, sizeof bits);
    bits += whole << 23; /* n is added to the exponent; what lies above the low bits of `shifted` is shifted out */
    memcpy(&p, &bits, sizeof p);
    p = x < -87.0f ? 0.0f : p;
    return x <= 88.7228394f ? p : x + INFINITY; /* a NaN stays one */
}

static inline float vm_tanh(float x) {
    float a = fabsf(x), t = x * x;
    float p = -0.00570489839f;
    p = p * t + 0.0206390135f;
    p = p * t - 0.053739693f;
    p = p * t + 0.133314416f;
    p = p * t - 0.333332807f;
    float near_zero = x + x * (t * p);
    float far = 1.0f - 2.0f / (vm_exp(2.0f * a) + 1.0f);
    return a < 0.625f ? near_zero : copysignf(far, x);
}

/* The share of the standard normal distribution below x, given exp(-x*x/2). */
static inline float vm_normal_below(float x, float exp_half_square) {
    float u = 1.0f / (1.0f + 0.35f * 0.707106781f * fabsf(x));
    float p = 0.0420240238f;
    p = p * u - 0.179918766f;
    p = p * u + 0.233767346f;
    p = p * u - 0.101133153f;
    p = p * u + 0.150867701f;
    p = p * u + 0.110462375f;
    p = p * u + 0.163862944f;
    p = p * u + 0.18512328f;
    p = p * u + 0.197478071f;
    p = p * u + 0.19746615f;
    float tail = 0.5f * exp_half_square * u * p;
    return x < 0.0f ? tail : 1.0f - tail;
}

#endif
