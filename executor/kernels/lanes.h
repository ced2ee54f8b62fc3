/* lanes.h: reductions over contiguous elements in a form that the compiler vectorises.
 *
 * Without -ffast-math a compiler may not reorder a sum, so the order is written down: LANES partial results, element i
 * in lane i % LANES, then a tree. It depends on the count alone, never on addresses, threads or the machine's vector
 * width. */
#ifndef EXECUTOR_KERNELS_LANES_H
#define EXECUTOR_KERNELS_LANES_H

#include "executor/kernels/typed.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { LANES = 32 };

/* Kernels of rows take a few at a time, step by step, so that one row fills the time in which another's lanes are
 * folded: as many as stay in the first-level cache. */
enum { SIDE_BY_SIDE = 8, NEAR_ELEMENTS = 4096 };
static inline int64_t rows_at_a_time(int64_t width, int64_t left) {
    int64_t most = NEAR_ELEMENTS / (width + 1) + 1;
    if (most > SIDE_BY_SIDE) most = SIDE_BY_SIDE;
    return most < left ? most : left;
}

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
typedef uint32_t lanes16_bits __attribute__((vector_size(64)));
typedef float lanes8 __attribute__((vector_size(32)));
typedef float lanes4 __attribute__((vector_size(16)));

#if defined(__AVX512F__)
static inline __mmask16 lanes_mask(int64_t n) {
    return (__mmask16)(n >= 16 ? 0xffffu : n > 0 ? (1u << n) - 1 : 0);
}
#endif

/* The first n lanes from p, the others `rest`; and back. n may be below 0 or above 16. */
static inline lanes16 lanes_load(const float *p, int64_t n, float rest) {
#if defined(__AVX512F__)
    return (lanes16)_mm512_mask_loadu_ps(_mm512_set1_ps(rest), lanes_mask(n), p);
#else
    lanes16 v = rest - (lanes16){0};
    if (n > 0) memcpy(&v, p, (size_t)(n < 16 ? n : 16) * sizeof *p);
    return v;
#endif
}
/* The first n lanes, the others 0. */
static inline lanes16 lanes_keep(lanes16 v, int64_t n) {
    const lanes16_bits number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (lanes16)((lanes16_bits)v & (lanes16_bits)(number < (uint32_t)(n < 0 ? 0 : n > 16 ? 16 : n)));
}
static inline void lanes_store(float *p, lanes16 v, int64_t n) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, lanes_mask(n), (__m512)v);
#else
    if (n > 0) memcpy(p, &v, (size_t)(n < 16 ? n : 16) * sizeof *p);
#endif
}

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
/* b > a ? b : a, which C does not have of vectors. */
#if defined(__AVX512F__)
static inline lanes16 lanes_max16(lanes16 a, lanes16 b) {
    return (lanes16)_mm512_max_ps((__m512)b, (__m512)a);
}
static inline lanes8 lanes_max8(lanes8 a, lanes8 b) {
    return (lanes8)_mm256_max_ps((__m256)b, (__m256)a);
}
static inline lanes4 lanes_max4(lanes4 a, lanes4 b) {
    return (lanes4)_mm_max_ps((__m128)b, (__m128)a);
}
#define LANES_MAX(a, b) _Generic((a), lanes16 : lanes_max16, lanes8 : lanes_max8, lanes4 : lanes_max4)(a, b)
#else
#define LANES_MAX(a, b)                                                                                                \
    (__typeof__(a))((((b) > (a)) & (__typeof__((b) > (a)))(b)) | (~((b) > (a)) & (__typeof__((b) > (a)))(a)))
#endif

static inline float fold_sum_fp32(const float lane[LANES]) {
    lanes16 low, high;
    float sum;
    memcpy(&low, lane, sizeof low);
    memcpy(&high, lane + 16, sizeof high);
    low += high;
    LANES_FOLD(low, LANES_ADD, sum);
    return sum;
}

/* What is left to fold: sum_lanes for sum_fp32, and so on. */
static inline lanes16 sum_lanes(int64_t n, const float *x) {
    lanes16 low = {0}, high = {0}, v;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        low += v;
        memcpy(&v, x + i + 16, sizeof v);
        high += v;
    }
    if (i < n) {
        low += lanes_load(x + i, n - i, 0);
        high += lanes_load(x + i + 16, n - i - 16, 0);
    }
    return low + high;
}

static inline lanes16 sum_squares_lanes(int64_t n, const float *x, float shift) {
    lanes16 low = {0}, high = {0}, v;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        low += (v - shift) * (v - shift);
        memcpy(&v, x + i + 16, sizeof v);
        high += (v - shift) * (v - shift);
    }
    if (i < n) {
        v = lanes_load(x + i, n - i, shift);
        low += (v - shift) * (v - shift);
        v = lanes_load(x + i + 16, n - i - 16, shift);
        high += (v - shift) * (v - shift);
    }
    return low + high;
}

static inline lanes16 dot_lanes(int64_t n, const float *x, float shift, const float *y) {
    lanes16 low = {0}, high = {0}, v, w;
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
        low += (lanes_load(x + i, n - i, shift) - shift) * lanes_load(y + i, n - i, 0);
        high += (lanes_load(x + i + 16, n - i - 16, shift) - shift) * lanes_load(y + i + 16, n - i - 16, 0);
    }
    return low + high;
}

static inline float fold_lanes(lanes16 v) {
    float sum;
    LANES_FOLD(v, LANES_ADD, sum);
    return sum;
}
static inline float sum_fp32(int64_t n, const float *x) {
    return fold_lanes(sum_lanes(n, x));
}
static inline float sum_squares_fp32(int64_t n, const float *x, float shift) {
    return fold_lanes(sum_squares_lanes(n, x, shift));
}
static inline float dot_fp32(int64_t n, const float *x, float shift, const float *y) {
    return fold_lanes(dot_lanes(n, x, shift, y));
}

/* fold_lanes of up to SIDE_BY_SIDE vectors. Eight at a time take the same sums in a third of the instructions. */
static inline void fold_rows(const lanes16 *v, int64_t count, float *out) {
#if defined(__AVX512F__)
    if (count == SIDE_BY_SIDE) {
        __m512 half[4], quarter[2];
        for (int i = 0; i < 4; i++) {
            __m512 a = (__m512)v[2 * i], b = (__m512)v[2 * i + 1];
            half[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
        }
        for (int i = 0; i < 2; i++) {
            __m512 a = half[2 * i], b = half[2 * i + 1];
            quarter[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
        }
        __m512 a = quarter[0], b = quarter[1];
        a = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
        a = _mm512_add_ps(a, _mm512_permute_ps(a, 0xb1));
        __m512i row = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
        _mm256_storeu_ps(out, _mm512_castps512_ps256(_mm512_permutexvar_ps(row, a)));
        return;
    }
#endif
    for (int64_t k = 0; k < count; k++) out[k] = fold_lanes(v[k]);
}

#if defined(__AVX512F__)
static inline float max_fp32(int64_t n, const float *x) {
    lanes16 low = x[0] - (lanes16){0}, high = low, v;
    float most;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        memcpy(&v, x + i, sizeof v);
        low = LANES_MAX(low, v);
        memcpy(&v, x + i + 16, sizeof v);
        high = LANES_MAX(high, v);
    }
    if (i < n) {
        v = lanes_load(x + i, n - i, x[0]);
        low = LANES_MAX(low, v);
        v = lanes_load(x + i + 16, n - i - 16, x[0]);
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
