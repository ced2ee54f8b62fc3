/* elementwise.c: add, sub, mul, div, max, min, pow, mod and floordiv of two tensors, comparisons, and, or.
 *
 * Integers wrap, truncate in div, and follow the divisor's sign in mod and floordiv; dividing one by zero is an error.
 */
#include <complex.h>
#include <math.h>

#include "executor/kernels/elementwise/elementwise.h"
#include "executor/kernels/rows.h"

enum { X, Y };

/* `nrows` runs of n elements, so many elements apart in x, y and out; along a run xs and ys are 1, or 0 where one
 * element is repeated. `out` may be x or y. */
typedef struct plane {
    int64_t nrows, n;
    int64_t x_row, y_row, out_row, xs, ys;
} plane;
typedef void (*binary_fn)(const plane *p, const void *x, const void *y, void *out);

/* A run for each way of broadcasting. */
#define DEFINE_RUN(fn, type, result, expression)                                                                       \
    static void fn(const plane *p, const void *xv, const void *yv, void *outv) {                                       \
        const type *x = xv, *y = yv;                                                                                   \
        result *out = outv;                                                                                            \
        int64_t n = p->n;                                                                                              \
        for (int64_t r = 0; r < p->nrows; r++, x += p->x_row, y += p->y_row, out += p->out_row) {                      \
            if (p->xs && p->ys) {                                                                                      \
                INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                          \
                    type a = x[i], b = y[i];                                                                           \
                    out[i] = (result)(expression);                                                                     \
                }                                                                                                      \
            } else if (p->xs) {                                                                                        \
                type b = *y;                                                                                           \
                INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                          \
                    type a = x[i];                                                                                     \
                    out[i] = (result)(expression);                                                                     \
                }                                                                                                      \
            } else {                                                                                                   \
                type a = *x, y0 = *y;                                                                                  \
                INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                          \
                    type b = p->ys ? y[i] : y0;                                                                        \
                    out[i] = (result)(expression);                                                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

static inline double mod_real(double a, double b) {
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* b is not 0; b = -1 is apart because INT64_MIN / -1 traps. */
static inline int64_t div_int(int64_t a, int64_t b) {
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static inline int64_t mod_int(int64_t a, int64_t b) {
    int64_t r = b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* What infinity is divided by leaves no remainder that is a number, and so no quotient. */
static inline float floordiv_float(float a, float b) {
    return isinf(a) ? a - a : floorf(a / b);
}
static inline double floordiv_double(double a, double b) {
    return isinf(a) ? a - a : floor(a / b);
}
static inline int64_t floordiv_int(int64_t a, int64_t b) {
    int64_t q = div_int(a, b);
    return b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
static inline int64_t pow_int(int64_t a, int64_t b) {
    double r = pow((double)a, (double)b);
    return r >= 0x1p63 ? INT64_MAX : r < -0x1p63 || r != r ? INT64_MIN : llrint(r);
}

/* R(name, expression for fp32, for fp64, for integers, whether integers may not be 0 in Y); those of ARITHMETIC are for
 * complex numbers too. */
#define ARITHMETIC(R)                                                                                                  \
    R(add, a + b, a + b, (uint64_t)a + (uint64_t)b, false)                                                             \
    R(sub, a - b, a - b, (uint64_t)a - (uint64_t)b, false)                                                             \
    R(mul, a *b, a *b, (uint64_t)a *(uint64_t)b, false)                                                                \
    R(div, a / b, a / b, div_int(a, b), true)
#define FUNCTIONS(R)                                                                                                   \
    R(max, a > b || a != a ? a : b, a > b || a != a ? a : b, a > b ? a : b, false)                                     \
    R(min, a < b || a != a ? a : b, a < b || a != a ? a : b, a < b ? a : b, false)                                     \
    R(pow, powf(a, b), pow(a, b), pow_int(a, b), false)                                                                \
    R(mod, mod_real((double)a, (double)b), mod_real(a, b), mod_int(a, b), true)                                        \
    R(floordiv, floordiv_float(a, b), floordiv_double(a, b), floordiv_int(a, b), true)

#define DEFINE_FUNCTION(name, fp32, fp64, integer, divides)                                                            \
    DEFINE_RUN(name##_fp32, float, float, fp32)                                                                        \
    DEFINE_RUN(name##_fp64, double, double, fp64)                                                                      \
    DEFINE_RUN(name##_int32, int32_t, int32_t, integer)                                                                \
    DEFINE_RUN(name##_int64, int64_t, int64_t, integer)
ARITHMETIC(DEFINE_FUNCTION)
FUNCTIONS(DEFINE_FUNCTION)
#undef DEFINE_FUNCTION

/* Products of booleans. */
DEFINE_RUN(mul_uint8, uint8_t, uint8_t, a *b)
#define add_uint8 NULL
#define sub_uint8 NULL
#define div_uint8 NULL

#define DEFINE_COMPLEX(name, fp32, fp64, integer, divides)                                                             \
    DEFINE_RUN(name##_complex64, float complex, float complex, fp32)                                                   \
    DEFINE_RUN(name##_complex128, double complex, double complex, fp64)
ARITHMETIC(DEFINE_COMPLEX)
#undef DEFINE_COMPLEX

/* C(name, expression): results are booleans. */
#define COMPARISONS(C)                                                                                                 \
    C(equal, a == b)                                                                                                   \
    C(not_equal, a != b)                                                                                               \
    C(less_than, a < b)                                                                                                \
    C(less_equal, a <= b)                                                                                              \
    C(greater_than, a > b)                                                                                             \
    C(greater_equal, a >= b)
/* Of complex numbers too. */
#define TRUTHS(C)                                                                                                      \
    C(logical_and, a != 0 && b != 0)                                                                                   \
    C(logical_or, a != 0 || b != 0)                                                                                    \
    C(logical_xor, (a != 0) != (b != 0))

/* B(name, operator): on the bits of integers and booleans. */
#define BITWISE(B)                                                                                                     \
    B(bitwise_and, &)                                                                                                  \
    B(bitwise_or, |)                                                                                                   \
    B(bitwise_xor, ^)

#define DEFINE_BITWISE(name, operator)                                                                                 \
    DEFINE_RUN(name##_int32, int32_t, int32_t, a operator b)                                                           \
    DEFINE_RUN(name##_int64, int64_t, int64_t, a operator b)                                                           \
    DEFINE_RUN(name##_int16, int16_t, int16_t, a operator b)                                                           \
    DEFINE_RUN(name##_uint8, uint8_t, uint8_t, a operator b)
BITWISE(DEFINE_BITWISE)
#undef DEFINE_BITWISE

#define DEFINE_COMPARISON(name, expression)                                                                            \
    DEFINE_RUN(name##_fp32, float, uint8_t, expression)                                                                \
    DEFINE_RUN(name##_fp64, double, uint8_t, expression)                                                               \
    DEFINE_RUN(name##_int32, int32_t, uint8_t, expression)                                                             \
    DEFINE_RUN(name##_int64, int64_t, uint8_t, expression)                                                             \
    DEFINE_RUN(name##_uint8, uint8_t, uint8_t, expression)
COMPARISONS(DEFINE_COMPARISON)
TRUTHS(DEFINE_COMPARISON)
#undef DEFINE_COMPARISON

#define DEFINE_COMPLEX_TRUTH(name, expression)                                                                         \
    DEFINE_RUN(name##_complex64, float complex, uint8_t, expression)                                                   \
    DEFINE_RUN(name##_complex128, double complex, uint8_t, expression)
TRUTHS(DEFINE_COMPLEX_TRUTH)
#undef DEFINE_COMPLEX_TRUTH

/* The runs of one op, by element type; half types use fp32's. */
typedef struct function {
    binary_fn fp32, fp64, int32, int64, uint8, int8, int16;
    bool divides; /* an integer divisor of zero is an error */
    binary_fn complex64, complex128;
} function;

typedef struct state {
    loops loops;
    binary_fn run;
    bool checks_divisor;
} state;

weft_status broadcast_strides(const kernel_prepare *p, int axis, const tensor *x, const tensor *y, int ndim,
                              const int64_t *dims, int64_t strides[2][WEFT_MAX_RANK]) {
    if (strides_broadcast(x, x->ndim < ndim ? axis : -1, ndim, dims, strides[0]) &&
        strides_broadcast(y, y->ndim < ndim ? axis : -1, ndim, dims, strides[1]))
        return NULL;
    return kernel_unsupported(p, "expected X and Y (%d and %d axes, axis %d) that broadcast to the result's %d axes",
                              x->ndim, y->ndim, axis, ndim);
}

static binary_fn function_for(const function *f, weft_dtype dtype) {
    switch ((int)dtype) {
    case WEFT_FP32:
    case WEFT_BF16:
    case WEFT_FP16: return f->fp32;
    case WEFT_FP64: return f->fp64;
    case WEFT_INT32: return f->int32;
    case WEFT_INT64: return f->int64;
    case WEFT_BOOL:
    case WEFT_UINT8: return f->uint8;
    case WEFT_INT8: return f->int8;
    case WEFT_INT16: return f->int16;
    case WEFT_COMPLEX64: return f->complex64;
    case WEFT_COMPLEX128: return f->complex128;
    default: return NULL;
    }
}

/* A plane of half types: both operands as fp32, block by block. */
static void run_half(binary_fn run, const plane *p, weft_dtype dtype, const uint16_t *x, const uint16_t *y, void *out,
                     weft_dtype out_dtype) {
    float a[BLOCK], b[BLOCK], result[BLOCK];
    size_t out_size = weft_dtype_nbytes(out_dtype);
    for (int64_t r = 0; r < p->nrows; r++, x += p->x_row, y += p->y_row)
        for (int64_t i = 0; i < p->n; i += BLOCK) {
            plane block = {.nrows = 1, .n = block_size(p->n - i), .xs = 1, .ys = 1};
            char *to = (char *)out + (size_t)(r * p->out_row + i) * out_size;
            half_load(dtype, block.n, x + i * p->xs, p->xs, a);
            half_load(dtype, block.n, y + i * p->ys, p->ys, b);
            run(&block, a, b, out_dtype == WEFT_BOOL ? (void *)to : (void *)result);
            if (out_dtype != WEFT_BOOL) half_store(dtype, block.n, result, to);
        }
}

static void run_plane(const kernel_call *c, const plane *p, const int64_t at[LOOP_OPERANDS]) {
    const state *s = c->state;
    const tensor *x = arg_in(c, X), *y = arg_in(c, Y), *out = arg_out(c, 0);
    size_t size = weft_dtype_nbytes(x->dtype);
    const void *xp = (const char *)x->data + (size_t)at[0] * size, *yp = (const char *)y->data + (size_t)at[1] * size;
    void *op = (char *)out->data + (size_t)at[2] * weft_dtype_nbytes(out->dtype);
    if (dtype_is_half(x->dtype))
        run_half(s->run, p, x->dtype, xp, yp, op, out->dtype);
    else
        s->run(p, xp, yp, op);
}

/* Rows are inner runs, taken as many at a time as the axis around them has; or parts of the only run. */
static void rows(const kernel_call *c, int64_t first, int64_t end) {
    const loops *l = &((const state *)c->state)->loops;
    int last = l->naxes - 1;
    plane p = {.nrows = 1, .n = loops_run(l), .xs = loops_stride(l, 0), .ys = loops_stride(l, 1)};
    int64_t at[LOOP_OPERANDS];
    if (last == 0) {
        element_range e = elements_of(c, l->numel, first, end);
        p.n = e.n;
        run_plane(c, &p, (const int64_t[LOOP_OPERANDS]){e.at * p.xs, e.at * p.ys, e.at});
        return;
    }
    p.x_row = l->stride[0][last - 1];
    p.y_row = l->stride[1][last - 1];
    p.out_row = l->stride[2][last - 1];
    for (int64_t r = first; r < end; r += p.nrows) {
        int64_t left = l->extent[last - 1] - r % l->extent[last - 1];
        p.nrows = left < end - r ? left : end - r;
        loops_at(l, r, at);
        run_plane(c, &p, at);
    }
}

static weft_status prepare(kernel_prepare *p, const function *f, int axis) {
    const tensor *x = type_in(p, X), *y = type_in(p, Y), *out = type_out(p, 0);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    TRY(require_same_dtype(p, x, y, "Y"));
    s->run = function_for(f, x->dtype);
    if (!s->run) return kernel_unsupported(p, "no such operation on %s", dtype_text(x->dtype));
    s->checks_divisor = f->divides && !dtype_is_float(x->dtype) && !dtype_is_complex(x->dtype);
    TRY(broadcast_strides(p, axis, x, y, out->ndim, out->dims, strides));
    strides_dense(out->ndim, out->dims, strides[2]);
    loops_init(&s->loops, out->ndim, out->dims, 3, strides);
    if (s->loops.naxes == 1)
        split_elements(p, rows, out->numel);
    else
        split_rows(p, rows, out->numel ? out->numel / loops_run(&s->loops) : 0);
    p->split.alone = x->height >= 0 || s->checks_divisor;
    return NULL;
}

static bool has_zero(const tensor *y) {
    for (int64_t i = 0; i < y->numel; i++)
        if (tensor_integer(y, i) == 0) return true;
    return false;
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    const tensor *x = arg_in(c, X), *out = arg_out(c, 0);
    if (s->checks_divisor && has_zero(arg_in(c, Y))) return kernel_failed(c, "an integer is divided by zero");
    if (x->rows && out->rows) copy_bytes(out->rows, x->rows, (size_t)x->dims[0] * sizeof *x->rows);
    return kernel_run_rows(c);
}

/* is_divisor: whether integers may not be 0 in Y; behind it what a kernel has beside loops of real numbers. */
#define KERNEL_OF(name, is_divisor, ...)                                                                               \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const function f = {.fp32 = name##_fp32,                                                                \
                                   .fp64 = name##_fp64,                                                                \
                                   .int32 = name##_int32,                                                              \
                                   .int64 = name##_int64,                                                              \
                                   .divides = is_divisor,                                                              \
                                   __VA_ARGS__};                                                                       \
        return prepare(p, &f, (int)attr_int(p->op, "axis", -1));                                                       \
    }                                                                                                                  \
    const kernel kernel_elementwise_##name = {prepare_##name, run};
#define DEFINE_KERNEL(name, real32, real64, integer, divides) KERNEL_OF(name, divides, .uint8 = NULL)
#define DEFINE_ARITHMETIC(name, real32, real64, integer, divides)                                                      \
    KERNEL_OF(name, divides, .uint8 = name##_uint8, .complex64 = name##_complex64, .complex128 = name##_complex128)
FUNCTIONS(DEFINE_KERNEL)
ARITHMETIC(DEFINE_ARITHMETIC)
#undef DEFINE_KERNEL
#undef DEFINE_ARITHMETIC

/* Comparisons ignore `axis` on Paddle's CPU. */
#define COMPARISON_KERNEL(name, ...)                                                                                   \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const function f = {.fp32 = name##_fp32,                                                                \
                                   .fp64 = name##_fp64,                                                                \
                                   .int32 = name##_int32,                                                              \
                                   .int64 = name##_int64,                                                              \
                                   .uint8 = name##_uint8,                                                              \
                                   __VA_ARGS__};                                                                       \
        return prepare(p, &f, -1);                                                                                     \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_##name, run};
#define DEFINE_COMPARISON_KERNEL(name, expression) COMPARISON_KERNEL(name, .complex64 = NULL)
#define DEFINE_TRUTH_KERNEL(name, expression)                                                                          \
    COMPARISON_KERNEL(name, .complex64 = name##_complex64, .complex128 = name##_complex128)
COMPARISONS(DEFINE_COMPARISON_KERNEL)
TRUTHS(DEFINE_TRUTH_KERNEL)
#undef DEFINE_COMPARISON_KERNEL
#undef DEFINE_TRUTH_KERNEL

#define DEFINE_BITWISE_KERNEL(name, operator)                                                                          \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const function f = {.int32 = name##_int32,                                                              \
                                   .int64 = name##_int64,                                                              \
                                   .uint8 = name##_uint8,                                                              \
                                   .int8 = name##_uint8, /* the same bits */                                           \
                                   .int16 = name##_int16};                                                             \
        return prepare(p, &f, -1);                                                                                     \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_##name, run};
BITWISE(DEFINE_BITWISE_KERNEL)
#undef DEFINE_BITWISE_KERNEL
