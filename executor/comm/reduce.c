/* reduce.c: elementwise reduction over the members of a ring, in ring order.
 *
 * The invariant: element i of the result is ((s0[i] op s1[i]) op s2[i]) ... in the type of the elements, whatever the
 * blocks and whoever computes them, so a result never depends on bucket sizes or timing. 16-bit floats are widened
 * once, combined in fp32 and rounded once (what NCCL does inside one reduction step; a chain of fp16 additions would
 * round at each). AVG is SUM divided by the number of members. MAX and MIN give NaN where any member has one. bool is a
 * truth value: SUM, MAX and ANY are "or"; PROD, MIN and ALL are "and". */
#include "executor/comm/reduce.h"

#include "executor/kernel.h"

typedef void (*start_fn)(void *acc, const void *src, size_t count);
typedef void (*combine_fn)(void *acc, const void *src, size_t count);
typedef void (*average_fn)(void *acc, size_t count, int nsrcs);
typedef void (*finish_fn)(void *acc, size_t count);

/* How elements of one dtype are reduced. A NULL entry is not supported. */
typedef struct reduce_row {
    weft_dtype dtype;
    start_fn start;        /* acc = src */
    combine_fn combine[7]; /* by weft_reduce: acc = acc op src; AVG combines as SUM */
    average_fn average;    /* acc /= nsrcs */
    finish_fn finish;      /* acc to the element type, in place; NULL: already there */
} reduce_row;

#define SUM(a, b) ((a) + (b))
#define MAX(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define MIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#define PROD(a, b) ((a) * (b))

/* acc[i] = op(acc[i], load(src[i])); T is the accumulator's type, S the element's. */
#define COMBINE(fn, T, S, load, op)                                                                                    \
    static void fn(void *acc_, const void *src_, size_t count) {                                                       \
        T *restrict acc = acc_;                                                                                        \
        const S *restrict src = src_;                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            T a = acc[i], b = load(src[i]);                                                                            \
            acc[i] = (T)op(a, b);                                                                                      \
        }                                                                                                              \
    }
#define START(fn, T, S, load)                                                                                          \
    static void fn(void *acc_, const void *src_, size_t count) {                                                       \
        T *restrict acc = acc_;                                                                                        \
        const S *restrict src = src_;                                                                                  \
        for (size_t i = 0; i < count; i++) acc[i] = load(src[i]);                                                      \
    }
#define AVERAGE(fn, T)                                                                                                 \
    static void fn(void *acc_, size_t count, int nsrcs) {                                                              \
        T *acc = acc_, n = (T)nsrcs;                                                                                   \
        for (size_t i = 0; i < count; i++) acc[i] = (T)(acc[i] / n);                                                   \
    }
#define FAMILY(name, T, S, load)                                                                                       \
    START(start_##name, T, S, load)                                                                                    \
    COMBINE(sum_##name, T, S, load, SUM)                                                                               \
    COMBINE(max_##name, T, S, load, MAX)                                                                               \
    COMBINE(min_##name, T, S, load, MIN)                                                                               \
    COMBINE(prod_##name, T, S, load, PROD)                                                                             \
    AVERAGE(average_##name, T)

/* Signed sums wrap around: they are computed on the unsigned type of the same bits. */
#define WRAPPING_FAMILY(name, T, U)                                                                                    \
    START(start_##name, T, T, )                                                                                        \
    COMBINE(sum_##name, U, U, , SUM)                                                                                   \
    COMBINE(max_##name, T, T, , MAX)                                                                                   \
    COMBINE(min_##name, T, T, , MIN)                                                                                   \
    COMBINE(prod_##name, U, U, , PROD)                                                                                 \
    AVERAGE(average_##name, T)

FAMILY(f32, float, float, )
FAMILY(f64, double, double, )
FAMILY(f16, float, uint16_t, fp16_to_f32)
FAMILY(bf16, float, uint16_t, bf16_to_f32)
WRAPPING_FAMILY(i32, int32_t, uint32_t)
WRAPPING_FAMILY(i64, int64_t, uint64_t)
FAMILY(u64, uint64_t, uint64_t, )

/* Narrower integers: C computes in int, the store cuts to the element; the product of two int16 fits an int. */
#define NARROW_FAMILY(name, T)                                                                                         \
    START(start_##name, T, T, )                                                                                        \
    COMBINE(sum_##name, T, T, , SUM)                                                                                   \
    COMBINE(max_##name, T, T, , MAX)                                                                                   \
    COMBINE(min_##name, T, T, , MIN)                                                                                   \
    COMBINE(prod_##name, T, T, , PROD)                                                                                 \
    AVERAGE(average_##name, T)
NARROW_FAMILY(i16, int16_t)
NARROW_FAMILY(i8, int8_t)
NARROW_FAMILY(u8, uint8_t)

#define TRUTH(x) ((x) != 0)
#define OR(a, b) ((a) | (b))
#define AND(a, b) ((a) & (b))
START(start_bool, uint8_t, uint8_t, TRUTH)
COMBINE(or_bool, uint8_t, uint8_t, TRUTH, OR)
COMBINE(and_bool, uint8_t, uint8_t, TRUTH, AND)

static void finish_f16(void *acc, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float wide;
        memcpy(&wide, (char *)acc + 4 * i, 4);
        uint16_t narrow = f32_to_fp16(wide);
        memcpy((char *)acc + 2 * i, &narrow, 2); /* never ahead of what is still to be read */
    }
}

static void finish_bf16(void *acc, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float wide;
        memcpy(&wide, (char *)acc + 4 * i, 4);
        uint16_t narrow = f32_to_bf16(wide);
        memcpy((char *)acc + 2 * i, &narrow, 2);
    }
}

/* A complex number is a pair of reals, and its sums are theirs. */
static void start_c64(void *acc, const void *src, size_t count) {
    start_f32(acc, src, 2 * count);
}
static void sum_c64(void *acc, const void *src, size_t count) {
    sum_f32(acc, src, 2 * count);
}
static void average_c64(void *acc, size_t count, int nsrcs) {
    average_f32(acc, 2 * count, nsrcs);
}
static void start_c128(void *acc, const void *src, size_t count) {
    start_f64(acc, src, 2 * count);
}
static void sum_c128(void *acc, const void *src, size_t count) {
    sum_f64(acc, src, 2 * count);
}
static void average_c128(void *acc, size_t count, int nsrcs) {
    average_f64(acc, 2 * count, nsrcs);
}

#define NUMBERS(name)                                                                                                  \
    { sum_##name, max_##name, min_##name, prod_##name, sum_##name, NULL, NULL }
static const reduce_row rows[] = {
    {WEFT_FP32, start_f32, NUMBERS(f32), average_f32, NULL},
    {WEFT_FP64, start_f64, NUMBERS(f64), average_f64, NULL},
    {WEFT_FP16, start_f16, NUMBERS(f16), average_f16, finish_f16},
    {WEFT_BF16, start_bf16, NUMBERS(bf16), average_bf16, finish_bf16},
    {WEFT_INT64, start_i64, NUMBERS(i64), average_i64, NULL},
    {WEFT_INT32, start_i32, NUMBERS(i32), average_i32, NULL},
    {WEFT_INT16, start_i16, NUMBERS(i16), average_i16, NULL},
    {WEFT_INT8, start_i8, NUMBERS(i8), average_i8, NULL},
    {WEFT_UINT8, start_u8, NUMBERS(u8), average_u8, NULL},
    {WEFT_SIZE_T, start_u64, NUMBERS(u64), average_u64, NULL},
    {WEFT_BOOL, start_bool, {or_bool, or_bool, and_bool, and_bool, NULL, or_bool, and_bool}, NULL, NULL},
    {WEFT_COMPLEX64, start_c64, {sum_c64, NULL, NULL, NULL, sum_c64, NULL, NULL}, average_c64, NULL},
    {WEFT_COMPLEX128, start_c128, {sum_c128, NULL, NULL, NULL, sum_c128, NULL, NULL}, average_c128, NULL},
};

static const reduce_row *find_row(weft_dtype dtype) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].dtype == dtype) return &rows[i];
    }
    return NULL;
}

bool reduce_supports(weft_dtype dtype, weft_reduce reduce) {
    const reduce_row *row = find_row(dtype);
    return row && reduce >= WEFT_REDUCE_SUM && reduce <= WEFT_REDUCE_ALL && row->combine[reduce];
}

bool reduce_widens(weft_dtype dtype) {
    const reduce_row *row = find_row(dtype);
    return row && row->finish;
}

void reduce_sources(weft_dtype dtype, weft_reduce reduce, const void *const *srcs, int nsrcs, size_t count,
                    reduce_block *block) {
    const reduce_row *row = find_row(dtype);
    void *acc = block->bytes;
    row->start(acc, srcs[0], count);
    for (int i = 1; i < nsrcs; i++) row->combine[reduce](acc, srcs[i], count);
    if (reduce == WEFT_REDUCE_AVG) row->average(acc, count, nsrcs);
    if (row->finish) row->finish(acc, count);
}

const char *reduce_name(weft_reduce reduce) {
    static const char *const names[] = {"sum", "max", "min", "prod", "avg", "any", "all"};
    return reduce >= WEFT_REDUCE_SUM && reduce <= WEFT_REDUCE_ALL ? names[reduce] : "unknown";
}
