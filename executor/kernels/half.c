/* half.c: bf16 and fp16, rounding to nearest even (as Paddle 3; 2.6 truncates).
 *
 * bf16 is the upper half of an fp32: adding 0x7fff plus the last kept bit rounds, and carries into the exponent as it
 * should. NaN keeps its sign and becomes quiet. fp16 goes through integer arithmetic on the fp32's fields. */
#include "executor/kernel.h"
#include "executor/kernels/typed.h"

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

uint16_t f32_to_bf16(float f) {
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float fp16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 0x1f) return float_of(sign | 0x7f800000u | (mantissa << 13));
    if (exponent) return float_of(sign | ((exponent + 112) << 23) | (mantissa << 13));
    float subnormal = (float)mantissa * 0x1p-24f;
    return sign ? -subnormal : subnormal;
}

uint16_t f32_to_fp16(float f) {
    uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and more round to infinity */
    if (magnitude < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, rounded by adding 2^-1 * 2^24 ulps of it */
        float shifted = float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
    }
    uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

void half_load(weft_dtype dtype, int64_t n, const void *src, int64_t stride, float *dst) {
    const uint16_t *h = src;
    if (dtype == WEFT_BF16) {
        for (int64_t i = 0; i < n; i++) dst[i] = bf16_to_f32(h[i * stride]);
    } else {
        for (int64_t i = 0; i < n; i++) dst[i] = fp16_to_f32(h[i * stride]);
    }
}

void half_store(weft_dtype dtype, int64_t n, const float *src, void *dst) {
    uint16_t *h = dst;
    if (dtype == WEFT_BF16) {
        for (int64_t i = 0; i < n; i++) h[i] = f32_to_bf16(src[i]);
    } else {
        for (int64_t i = 0; i < n; i++) h[i] = f32_to_fp16(src[i]);
    }
}
