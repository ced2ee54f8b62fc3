/* lanes.h: reductions over contiguous elements in a form that the compiler vectorises.
 *
 * Without -ffast-math a compiler may not reorder a sum, so the order is written down: LANES partial results, element i
 * in lane i % LANES, then a tree. It depends on the count alone, never on addresses, threads or the machine's vector
 * width. */
#ifndef EXECUTOR_KERNELS_LANES_H
#define EXECUTOR_KERNELS_LANES_H

#include "executor/kernels/typed.h"

enum { LANES = 32 };

/* fold_sum: 16 + 16 lanes, 8 + 8, ...
 * sum, sum_squares of (x - shift), dot of (x - shift) and y
 * max: the largest of n > 0 elements; NaN where x[0] is */
#define DEFINE_REDUCTIONS(dtype, suffix, real)                                                                         \
    static inline real fold_sum_##suffix(real *lane) {                                                                 \
        for (int half = LANES / 2; half > 0; half /= 2)                                                                \
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];                                                  \
        return lane[0];                                                                                                \
    }                                                                                                                  \
    static inline real sum_##suffix(int64_t n, const real *x) {                                                        \
        real lane[LANES] = {0};                                                                                        \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int j = 0; j < LANES; j++) lane[j] += x[i + j];                                                       \
        for (int j = 0; j < LANES && i < n; i++, j++) lane[j] += x[i];                                                 \
        return fold_sum_##suffix(lane);                                                                                \
    }                                                                                                                  \
    static inline real sum_squares_##suffix(int64_t n, const real *x, real shift) {                                    \
        real lane[LANES] = {0};                                                                                        \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int j = 0; j < LANES; j++) lane[j] += (x[i + j] - shift) * (x[i + j] - shift);                        \
        for (int j = 0; j < LANES && i < n; i++, j++) lane[j] += (x[i] - shift) * (x[i] - shift);                      \
        return fold_sum_##suffix(lane);                                                                                \
    }                                                                                                                  \
    static inline real dot_##suffix(int64_t n, const real *x, real shift, const real *y) {                             \
        real lane[LANES] = {0};                                                                                        \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int j = 0; j < LANES; j++) lane[j] += (x[i + j] - shift) * y[i + j];                                  \
        for (int j = 0; j < LANES && i < n; i++, j++) lane[j] += (x[i] - shift) * y[i];                                \
        return fold_sum_##suffix(lane);                                                                                \
    }
DEFINE_REDUCTIONS(WEFT_FP64, fp64, double)
#undef DEFINE_REDUCTIONS

#define DEFINE_MAX(dtype, suffix, real)                                                                                \
    static inline real max_##suffix(int64_t n, const real *x) {                                                        \
        real lane[LANES];                                                                                              \
        for (int j = 0; j < LANES; j++) lane[j] = x[0];                                                                \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int j = 0; j < LANES; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];                         \
        for (int j = 0; j < LANES && i < n; i++, j++) lane[j] = x[i] > lane[j] ? x[i] : lane[j];                       \
        for (int half = LANES / 2; half > 0; half /= 2)                                                                \
            for (int j = 0; j < half; j++) lane[j] = lane[j + half] > lane[j] ? lane[j + half] : lane[j];              \
        return lane[0];                                                                                                \
    }
DEFINE_MAX(WEFT_FP64, fp64, double)

/* The same of fp32, which is where time goes, in GCC's and clang's vector types: lanes 0 .. 15 and 16 .. 31 are two
 * vectors that stay in registers. A tail is copied to where the other lanes are neutral. */
typedef float lanes16 __attribute__((vector_size(64)));
typedef float lanes8 __attribute__((vector_size(32)));
typedef float lanes4 __attribute__((vector_size(16)));

#define LANES_FOLD(v, combine, out)                                                                                    \
    do {                                                                                                               \
        lanes8 a8_ = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);                                            \
        lanes8 b8_ = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);                                      \
        a8_ = combine(a8_, b8_);                                                                                       \
        lanes4 a4_ = __builtin_shufflevector(a8_, a8_, 0, 1, 2, 3),                                                    \
               b4_ = __builtin_shufflevector(a8_, a8_, 4, 5, 6, 7);                                                    \
        a4_ = combine(a4_, b4_);                                                                                       \
        b4_ = __builtin_shufflevector(a4_, a4_, 2, 3, 2, 3);                                                           \
        a4_ = combine(a4_, b4_);                                                                                       \
        b4_ = __builtin_shufflevector(a4_, a4_, 1, 1, 1, 1);                                                           \
        a4_ = combine(a4_, b4_);                                                                                       \
        (out) = a4_[0];                                                                                                \
    } while (0)
#define LANES_ADD(a, b) ((a) + (b))
/* A choice by a mask: C has no ?: of vectors. Compilers make it one instruction with AVX-512, and many without. */
#define LANES_MAX(a, b)                                                                                                \
    (__typeof__(a))((((b) > (a)) & (__typeof__((b) > (a)))(b)) | (~((b) > (a)) & (__typeof__((b) > (a)))(a)))

static inline float fold_sum_fp32(const float lane[LANES]) {
    lanes16 low, high;
    float sum;
    memcpy(&low, lane, sizeof low);
    memcpy(&high, lane + 16, sizeof high);
    low += high;
    LANES_FOLD(low, LANES_ADD, sum);
    return sum;
}

static inline float sum_fp32(int64_t n, const float *x) {
    lanes16 low = {0}, high = {0}, v;
    float tail[LANES] = {0}, sum;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        low += v;
        memcpy(&v, x + i + 16, sizeof v);
        high += v;
    }
    if (i < n) {
        memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
        memcpy(&v, tail, sizeof v);
        low += v;
        memcpy(&v, tail + 16, sizeof v);
        high += v;
    }
    low += high;
    LANES_FOLD(low, LANES_ADD, sum);
    return sum;
}

static inline float sum_squares_fp32(int64_t n, const float *x, float shift) {
    lanes16 low = {0}, high = {0}, v;
    float tail[LANES], sum;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        low += (v - shift) * (v - shift);
        memcpy(&v, x + i + 16, sizeof v);
        high += (v - shift) * (v - shift);
    }
    if (i < n) {
        for (int j = 0; j < LANES; j++) tail[j] = shift;
        memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
        memcpy(&v, tail, sizeof v);
        low += (v - shift) * (v - shift);
        memcpy(&v, tail + 16, sizeof v);
        high += (v - shift) * (v - shift);
    }
    low += high;
    LANES_FOLD(low, LANES_ADD, sum);
    return sum;
}

static inline float dot_fp32(int64_t n, const float *x, float shift, const float *y) {
    lanes16 low = {0}, high = {0}, v, w;
    float tail[LANES] = {0}, other[LANES] = {0}, sum;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        memcpy(&w, y + i, sizeof w);
        low += (v - shift) * w;
        memcpy(&v, x + i + 16, sizeof v);
        memcpy(&w, y + i + 16, sizeof w);
        high += (v - shift) * w;
    }
    if (i < n) {
        for (int j = 0; j < LANES; j++) tail[j] = shift;
        memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
        memcpy(other, y + i, (size_t)(n - i) * sizeof *y);
        memcpy(&v, tail, sizeof v);
        memcpy(&w, other, sizeof w);
        low += (v - shift) * w;
        memcpy(&v, tail + 16, sizeof v);
        memcpy(&w, other + 16, sizeof w);
        high += (v - shift) * w;
    }
    low += high;
    LANES_FOLD(low, LANES_ADD, sum);
    return sum;
}

#if defined(__AVX512F__)
static inline float max_fp32(int64_t n, const float *x) {
    lanes16 low = x[0] - (lanes16){0}, high = low, v;
    float tail[LANES], most;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        low = LANES_MAX(low, v);
        memcpy(&v, x + i + 16, sizeof v);
        high = LANES_MAX(high, v);
    }
    if (i < n) {
        for (int j = 0; j < LANES; j++) tail[j] = x[0];
        memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
        memcpy(&v, tail, sizeof v);
        low = LANES_MAX(low, v);
        memcpy(&v, tail + 16, sizeof v);
        high = LANES_MAX(high, v);
    }
    low = LANES_MAX(low, high);
    LANES_FOLD(low, LANES_MAX, most);
    return most;
}
#else
DEFINE_MAX(WEFT_FP32, fp32, float)
#endif
#undef DEFINE_MAX

#endif
