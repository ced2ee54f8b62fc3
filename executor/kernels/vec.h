/* vec.h: the widest vectors of floats that this target multiplies and adds in one instruction. GCC's and clang's vector
 * types: operators work on all lanes. */
#ifndef EXECUTOR_KERNELS_VEC_H
#define EXECUTOR_KERNELS_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VEC = 16 };
#elif defined(__AVX__)
enum { VEC = 8 };
#else
enum { VEC = 4 };
#endif
typedef float vec __attribute__((vector_size(4 * VEC)));

/* a * b + c, rounded once where the target can. */
static inline vec vec_fma(vec a, vec b, vec c) {
#if defined(__AVX512F__)
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && defined(__AVX2__)
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

static inline vec vec_load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void vec_store(float *p, vec v) {
    memcpy(p, &v, sizeof v);
}
static inline vec vec_all(float x) {
    return x - (vec){0};
}

/* Lanes that take part. */
#if defined(__AVX512F__)
typedef __mmask16 vec_lanes;
#elif defined(__AVX2__)
typedef __m256i vec_lanes;
#else
typedef int64_t vec_lanes;
#endif
static inline vec_lanes vec_first_lanes(int64_t n) {
#if defined(__AVX512F__)
    return (__mmask16)((1u << n) - 1);
#elif defined(__AVX2__)
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
#else
    return n;
#endif
}
/* The others are zero, and not touched in memory. */
static inline vec vec_load_lanes(const float *p, vec_lanes lanes) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_ps(lanes, p);
#elif defined(__AVX2__)
    return (vec)_mm256_maskload_ps(p, lanes);
#else
    vec v = {0};
    memcpy(&v, p, (size_t)lanes * sizeof *p);
    return v;
#endif
}
static inline void vec_store_lanes(float *p, vec v, vec_lanes lanes) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, lanes, (__m512)v);
#elif defined(__AVX2__)
    _mm256_maskstore_ps(p, lanes, (__m256)v);
#else
    memcpy(p, &v, (size_t)lanes * sizeof *p);
#endif
}
#if defined(__AVX2__) && !defined(__AVX512F__)
static inline __m256i vec_lanes_of_bits(uint32_t bits) {
    __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), each), each);
}
#endif
/* Lanes whose bit is set. */
static inline vec vec_load_bits(const float *p, uint32_t bits) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_loadu_ps((__mmask16)bits, p);
#elif defined(__AVX2__)
    return (vec)_mm256_maskload_ps(p, vec_lanes_of_bits(bits));
#else
    vec v = {0};
    for (int i = 0; i < VEC; i++)
        if (bits >> i & 1) v[i] = p[i];
    return v;
#endif
}
static inline void vec_store_bits(float *p, vec v, uint32_t bits) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)bits, (__m512)v);
#elif defined(__AVX2__)
    _mm256_maskstore_ps(p, vec_lanes_of_bits(bits), v);
#else
    for (int i = 0; i < VEC; i++)
        if (bits >> i & 1) p[i] = v[i];
#endif
}
/* The first n lanes, 0 <= n <= VEC. */
static inline vec vec_load_first(const float *p, int64_t n) {
    return vec_load_lanes(p, vec_first_lanes(n));
}
static inline void vec_store_first(float *p, vec v, int64_t n) {
    vec_store_lanes(p, v, vec_first_lanes(n));
}

/* The same, in a register: else a compiler would load a vector again for each use. */
static inline vec vec_keep(vec v) {
#if defined(__AVX512F__)
    __asm__("" : "+v"(v));
#elif defined(__AVX__)
    __asm__("" : "+x"(v));
#endif
    return v;
}

/* Lanes [first, end) of p[lane * step]; the others are zero and not read. end may be below first. */
static inline vec vec_gather_range(const float *p, int64_t step, int64_t first, int64_t end) {
#if defined(__AVX512F__)
    if (end <= first) return (vec){0};
    __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    __m512i at = _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)step));
    __mmask16 mask = (__mmask16)((1u << end) - (1u << first));
    return (vec)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, at, p, 4);
#else
    vec v = {0};
    for (int64_t i = first; i < end; i++) v[i] = p[i * step];
    return v;
#endif
}
static inline vec vec_load_range(const float *p, int64_t first, int64_t end) {
#if defined(__AVX512F__)
    if (end <= first) return (vec){0};
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << end) - (1u << first)), p);
#else
    if (first == 0 && end == VEC) return vec_load(p);
    return vec_gather_range(p, 1, first, end);
#endif
}

/* Lane i is p[at[i]], or 0 and not read where bit i of `lanes` is 0; and the reverse. */
static inline vec vec_gather_at(const float *p, const int32_t at[VEC], uint32_t lanes) {
#if defined(__AVX512F__)
    return (vec)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)lanes, _mm512_loadu_si512(at), p, 4);
#elif defined(__AVX2__)
    return (vec)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, _mm256_loadu_si256((const __m256i *)at),
                                         _mm256_castsi256_ps(vec_lanes_of_bits(lanes)), 4);
#else
    vec v = {0};
    for (int i = 0; i < VEC; i++)
        if (lanes >> i & 1) v[i] = p[at[i]];
    return v;
#endif
}
static inline void vec_scatter_at(float *p, const int32_t at[VEC], uint32_t lanes, vec v) {
#if defined(__AVX512F__)
    _mm512_mask_i32scatter_ps(p, (__mmask16)lanes, _mm512_loadu_si512(at), (__m512)v, 4);
#else
    for (int i = 0; i < VEC; i++)
        if (lanes >> i & 1) p[at[i]] = v[i];
#endif
}

/* All lanes, by halves. A call, so that it may stand in an unrolled loop. */
static __attribute__((noinline, unused)) float vec_sum(vec v) {
    float lane[VEC];
    vec_store(lane, v);
    for (int n = VEC / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) lane[i] += lane[i + n];
    return lane[0];
}

static inline void vec_copy(float *to, const float *from, int64_t n) {
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(to + i, vec_load(from + i));
    if (i < n) vec_store_first(to + i, vec_load_first(from + i, n - i), n - i);
}

/* One step of transposing: of every 2 * step lanes, the first result has a's first half and then b's first half, the
 * second one a's second half and then b's. */
#define VEC_FIRST(i, step) (((i) & (step)) ? VEC + (i) - (step) : (i))
#define VEC_SECOND(i, step) (((i) & (step)) ? VEC + (i) : (i) + (step))
#define VEC_LANES_4(which, step) which(0, step), which(1, step), which(2, step), which(3, step)
#define VEC_LANES_8(which, step)                                                                                       \
    VEC_LANES_4(which, step), which(4, step), which(5, step), which(6, step), which(7, step)
#define VEC_LANES_16(which, step)                                                                                      \
    VEC_LANES_8(which, step), which(8, step), which(9, step), which(10, step), which(11, step), which(12, step),       \
        which(13, step), which(14, step), which(15, step)
#if defined(__AVX512F__)
#define VEC_LANES VEC_LANES_16
#elif defined(__AVX__)
#define VEC_LANES VEC_LANES_8
#else
#define VEC_LANES VEC_LANES_4
#endif
#define VEC_EXCHANGE(step) VEC_EXCHANGE_OF(VEC, step)
#define VEC_EXCHANGE_OF(count, step)                                                                                   \
    for (int i = 0; i < (count); i++)                                                                                  \
        if (!(i & (step))) {                                                                                           \
            vec a = v[i], b = v[i + (step)];                                                                           \
            v[i] = __builtin_shufflevector(a, b, VEC_LANES(VEC_FIRST, step));                                          \
            v[i + (step)] = __builtin_shufflevector(a, b, VEC_LANES(VEC_SECOND, step));                                \
        }
/* Four rows of VEC / 4 blocks of four: block b of row q, element k becomes block b of row k, element q; its own
 * reverse. */
static inline __attribute__((always_inline)) void vec_transpose_blocks(vec v[4]) {
    VEC_EXCHANGE_OF(4, 1)
    VEC_EXCHANGE_OF(4, 2)
}
/* Lanes with an even and an odd number of a and b together, and the reverse: the lower and the upper half of the lanes
 * taken alternately. */
#define VEC_EVEN(i, unused) (2 * (i))
#define VEC_ODD(i, unused) (2 * (i) + 1)
#define VEC_LOWER(i, unused) ((i) / 2 + ((i)&1) * VEC)
#define VEC_UPPER(i, unused) (VEC / 2 + VEC_LOWER(i, unused))
static inline vec vec_even(vec a, vec b) {
    return __builtin_shufflevector(a, b, VEC_LANES(VEC_EVEN, 0));
}
static inline vec vec_odd(vec a, vec b) {
    return __builtin_shufflevector(a, b, VEC_LANES(VEC_ODD, 0));
}
static inline vec vec_lower(vec a, vec b) {
    return __builtin_shufflevector(a, b, VEC_LANES(VEC_LOWER, 0));
}
static inline vec vec_upper(vec a, vec b) {
    return __builtin_shufflevector(a, b, VEC_LANES(VEC_UPPER, 0));
}
/* Lane by lane: a > b ? a : b; and a == b ? c : 0, a == b ? 0 : c. */
typedef int32_t vec_bits __attribute__((vector_size(4 * VEC)));
static inline vec vec_larger(vec a, vec b) {
#if defined(__AVX512F__)
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
    vec_bits larger = a > b;
    return (vec)((larger & (vec_bits)a) | (~larger & (vec_bits)b));
#endif
}
static inline vec vec_where_equal(vec a, vec b, vec c) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ), (__m512)c);
#else
    return (vec)((a == b) & (vec_bits)c);
#endif
}
static inline vec vec_where_unequal(vec a, vec b, vec c) {
#if defined(__AVX512F__)
    return (vec)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NEQ_UQ), (__m512)c);
#else
    return (vec)(~(a == b) & (vec_bits)c);
#endif
}

/* Rows become columns. */
static inline __attribute__((always_inline)) void vec_transpose(vec v[VEC]) {
    VEC_EXCHANGE(1)
    VEC_EXCHANGE(2)
#if defined(__AVX__)
    VEC_EXCHANGE(4)
#endif
#if defined(__AVX512F__)
    VEC_EXCHANGE(8)
#endif
}

#endif
