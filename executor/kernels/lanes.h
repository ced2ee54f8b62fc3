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
    }                                                                                                                  \
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
REAL_TYPES(DEFINE_REDUCTIONS)
#undef DEFINE_REDUCTIONS

#endif
