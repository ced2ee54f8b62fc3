/* lanes.h: reductions over contiguous elements in a form that the compiler vectorises.
 *
 * Without -ffast-math a compiler may not reorder a sum, so the order is written down: LANES partial results, element i
 * in lane i % LANES, then a tree. It depends on the count alone, never on addresses, threads or the machine's vector
 * width. */
#ifndef EXECUTOR_KERNELS_LANES_H
#define EXECUTOR_KERNELS_LANES_H

#include "executor/kernels/typed.h"
#include "executor/kernels/vec.h"

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
#undef DEFINE_MAX

/* The same of fp32, which is where time goes, in vectors of the machine: all lanes are PARTS of them that stay in
 * registers. A tail is read into where the other lanes are neutral. */
enum { PARTS = LANES / VEC };
#define EACH_PART(j) _Pragma("GCC unroll 8") for (int j = 0; j < PARTS; j++)

/* Lanes 0 .. 15 with lanes 16 .. 31 added to them. */
typedef struct lanes16 {
    vec part[PARTS / 2];
} lanes16;
static inline __attribute__((always_inline)) lanes16 lanes_halve(const vec lane[PARTS]) {
    lanes16 half;
    _Pragma("GCC unroll 4") for (int j = 0; j < PARTS / 2; j++) half.part[j] = lane[j] + lane[j + PARTS / 2];
    return half;
}

#define LANES_NUMBER(i, unused) (i)
/* Whether a lane is one of the first n. */
static inline vec_bits lanes_among(int64_t n) {
    const vec_bits number = {VEC_LANES(LANES_NUMBER, 0)};
    return number < (int32_t)n - (vec_bits){0};
}
static inline int64_t lanes_count(int64_t n) {
    return n < 0 ? 0 : n > VEC ? VEC : n;
}
/* The first n lanes from p, the others `rest`; those of v, the others 0; and back. n may be below 0 or above VEC. */
static inline vec lanes_load(const float *p, int64_t n, float rest) {
    if (n >= VEC) return vec_load(p);
    int64_t count = lanes_count(n);
    vec_bits among = lanes_among(count);
    return (vec)(((vec_bits)vec_load_first(p, count) & among) | ((vec_bits)vec_all(rest) & ~among));
}
static inline vec lanes_keep(vec v, int64_t n) {
    return n >= VEC ? v : (vec)((vec_bits)v & lanes_among(lanes_count(n)));
}
static inline void lanes_store(float *p, vec v, int64_t n) {
    if (n >= VEC)
        vec_store(p, v);
    else
        vec_store_first(p, v, lanes_count(n));
}

/* Lane 0: all lanes added up, or (largest) b > a ? b : a of them; a half is combined with the other, and so on. */
#define LANES_BEHIND(i, step) (((i) + (step)) % VEC)
#define LANES_COMBINE(step)                                                                                            \
    if (VEC > (step)) {                                                                                                \
        vec b = __builtin_shufflevector(v, v, VEC_LANES(LANES_BEHIND, step));                                          \
        v = largest ? vec_larger(b, v) : v + b;                                                                        \
    }
static inline __attribute__((always_inline)) float fold_vec(vec v, bool largest) {
    LANES_COMBINE(8)
    LANES_COMBINE(4)
    LANES_COMBINE(2)
    LANES_COMBINE(1)
    return v[0];
}
static inline __attribute__((always_inline)) vec fold_parts(lanes16 v) {
    for (int n = PARTS / 4; n > 0; n /= 2)
        for (int j = 0; j < n; j++) v.part[j] += v.part[j + n];
    return v.part[0];
}
static inline float fold_lanes(lanes16 v) {
    return fold_vec(fold_parts(v), false);
}

/* What is left to fold: sum_lanes for sum_fp32, and so on. */
static inline lanes16 sum_lanes(int64_t n, const float *x) {
    vec lane[PARTS] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        EACH_PART(j) lane[j] += vec_load(x + i + j * VEC);
    }
    for (int j = 0; j < PARTS && i < n; j++, i += VEC) lane[j] += lanes_load(x + i, n - i, 0);
    return lanes_halve(lane);
}

static inline lanes16 sum_squares_lanes(int64_t n, const float *x, float shift) {
    vec lane[PARTS] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        EACH_PART(j) lane[j] += (vec_load(x + i + j * VEC) - shift) * (vec_load(x + i + j * VEC) - shift);
    }
    for (int j = 0; j < PARTS && i < n; j++, i += VEC) {
        vec v = lanes_load(x + i, n - i, shift) - shift;
        lane[j] += v * v;
    }
    return lanes_halve(lane);
}

static inline lanes16 dot_lanes(int64_t n, const float *x, float shift, const float *y) {
    vec lane[PARTS] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        EACH_PART(j) lane[j] += (vec_load(x + i + j * VEC) - shift) * vec_load(y + i + j * VEC);
    }
    for (int j = 0; j < PARTS && i < n; j++, i += VEC)
        lane[j] += (lanes_load(x + i, n - i, shift) - shift) * lanes_load(y + i, n - i, 0);
    return lanes_halve(lane);
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

static inline float max_fp32(int64_t n, const float *x) {
    vec lane[PARTS];
    int64_t i = 0;
    EACH_PART(j) lane[j] = vec_all(x[0]);
    for (; i + LANES <= n; i += LANES) {
        EACH_PART(j) lane[j] = vec_larger(vec_load(x + i + j * VEC), lane[j]);
    }
    for (int j = 0; j < PARTS && i < n; j++, i += VEC) lane[j] = vec_larger(lanes_load(x + i, n - i, x[0]), lane[j]);
    for (int half = PARTS / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) lane[j] = vec_larger(lane[j + half], lane[j]);
    return fold_vec(lane[0], true);
}

/* fold_lanes of up to SIDE_BY_SIDE vectors. Eight at a time take the same sums in a third of the instructions. */
static inline void fold_rows(const lanes16 *v, int64_t count, float *out) {
#if defined(__AVX512F__)
    if (count == SIDE_BY_SIDE) {
        __m512 half[4], quarter[2];
        for (int i = 0; i < 4; i++) {
            __m512 a = (__m512)v[2 * i].part[0], b = (__m512)v[2 * i + 1].part[0];
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
#elif defined(__AVX__)
    if (count == SIDE_BY_SIDE) {
        vec row[SIDE_BY_SIDE];
        for (int i = 0; i < SIDE_BY_SIDE; i++) row[i] = fold_parts(v[i]);
        vec_transpose(row);
        for (int half = SIDE_BY_SIDE / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++) row[i] += row[i + half];
        vec_store(out, row[0]);
        return;
    }
#endif
    for (int64_t k = 0; k < count; k++) out[k] = fold_lanes(v[k]);
}

#endif
