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

/* The exponents of fp16 are 112 less. A subnormal is what its digits behind a leading one are above 2^-14: no step has
 * a subnormal fp32, which may count as zero (executor/devices/cpu/denormals.h). */
float fp16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, fields = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t subnormal = bits_of(float_of(fields + 0x38800000u) - 0x1p-14f), special = fields | 0x7f800000u;
    uint32_t finite = fields < 0x00800000u ? subnormal : fields + 0x38000000u;
    return float_of(sign | (fields >= 0x0f800000u ? special : finite));
}

uint16_t f32_to_fp16(float f) {
    uint32_t u = bits_of(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    /* Below 2^-14: a multiple of 2^-24, rounded by adding 2^-1 * 2^24 ulps of it. */
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    uint32_t special = magnitude > 0x7f800000u ? nan : 0x7c00u;
    return (uint16_t)(sign | (magnitude >= 0x477ff000u ? special : finite)); /* 65520 and more round to infinity */
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
