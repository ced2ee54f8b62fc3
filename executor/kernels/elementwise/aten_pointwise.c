/* aten_pointwise.c: one element of each of two operands at a time, with torch's promotion: the operands become elements
 * of one computing type, the result is rounded once to the output's. The second operand may be a number.
 *
 * The computing type is the output's (fp32 for half types, int64 for integers and booleans); of comparisons the first
 * operand's. A number is made an element of the computing type, so that dividing by it is a division
 * (aten/src/ATen/native/cpu/BinaryOpsKernel.cpp). */
#include <math.h>

#include "executor/kernels/elementwise/elementwise.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/rows.h"

/* An element of the widest computing type. */
typedef union element {
    float fp32;
    double fp64;
    int64_t int64;
} element;

/* out[i] of a[i] and b[i], or b[0] where bs is 0; out may be a or b. Two parameters. */
typedef void (*pair_fn)(int64_t n, const void *a, const void *b, int bs, const element *parameters, void *out);

#define DEFINE_PAIR(fn, type, expression)                                                                              \
    static void fn(int64_t n, const void *av, const void *bv, int bs, const element *parameters, void *outv) {         \
        const type *as = av, *bvs = bv;                                                                                \
        type *out = outv, alpha = *(const type *)&parameters[0], beta = *(const type *)&parameters[1], b0 = bvs[0];    \
        (void)alpha, (void)beta, (void)b0;                                                                             \
        if (bs) {                                                                                                      \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                              \
                type a = as[i], b = bvs[i];                                                                            \
                (void)b;                                                                                               \
                out[i] = (type)(expression);                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                              \
                type a = as[i], b = b0;                                                                                \
                (void)b;                                                                                               \
                out[i] = (type)(expression);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }

/* Powers that torch takes apart (cpu/PowKernel.cpp); the others are libm's. */
static inline double power(double x, double e) {
    return e == 2      ? x * x
           : e == 1    ? x
           : e == 0    ? 1
           : e == 3    ? x * x * x
           : e == 0.5  ? sqrt(x)
           : e == -0.5 ? 1 / sqrt(x)
           : e == -1   ? 1 / x
           : e == -2   ? 1 / (x * x)
                       : pow(x, e);
}

/* Modulo 2^64; the inverse of 1 and of -1 is an integer, others are 0. */
static inline int64_t power_int(int64_t x, int64_t e) {
    uint64_t result = 1, square = (uint64_t)x;
    if (e < 0) return x == 1 ? 1 : x == -1 ? (e % 2 ? -1 : 1) : 0;
    for (; e; e >>= 1, square *= square)
        if (e & 1) result *= square;
    return (int64_t)result;
}

/* The largest integer that is not above a / b, from the exact remainder (cpu/BinaryOpsKernel.cpp, div_floor). */
static inline double floor_quotient(double a, double b, double remainder) {
    if (b == 0) return a / b;
    double quotient = (a - remainder) / b;
    if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0, a / b);
    double whole = floor(quotient);
    return quotient - whole > 0.5 ? whole + 1 : whole;
}

static inline float floor_quotient_fp32(float a, float b, float remainder) {
    if (b == 0) return a / b;
    float quotient = (a - remainder) / b;
    if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
    if (quotient == 0) return copysignf(0, a / b);
    float whole = floorf(quotient);
    return quotient - whole > 0.5f ? whole + 1 : whole;
}

/* b is not 0. */
static inline int64_t floor_quotient_int(int64_t a, int64_t b) {
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#define U(x) ((uint64_t)(x))
#define least(x, y) ((x) > (y) ? (y) : (x))

/* F(name, floats, integers) */
#define FUNCTIONS(F)                                                                                                   \
    F(add, a + alpha * b, U(a) + U(alpha) * U(b))                                                                      \
    F(sub, a - alpha * b, U(a) - U(alpha) * U(b))                                                                      \
    F(rsub, b - alpha * a, U(b) - U(alpha) * U(a))                                                                     \
    F(mul, a *b, U(a) * U(b))                                                                                          \
    F(eq, a == b, a == b)                                                                                              \
    F(ne, a != b, a != b)                                                                                              \
    F(lt, a < b, a < b)                                                                                                \
    F(le, a <= b, a <= b)                                                                                              \
    F(gt, a > b, a > b)                                                                                                \
    F(ge, a >= b, a >= b)                                                                                              \
    F(threshold, b <= alpha ? 0 : a, b <= alpha ? 0 : a)                                                               \
    F(maximum, a > b || a != a ? a : b, a > b ? a : b)                                                                 \
    F(minimum, a < b || a != a ? a : b, a < b ? a : b)                                                                 \
    F(clamp, least(a < b ? b : a, alpha), least(a < b ? b : a, alpha))                                                 \
    F(sign, (a > b) - (a < b), (a > b) - (a < b))                                                                      \
    F(logical_xor, (a != 0) != (b != 0), (a != 0) != (b != 0))

#define DEFINE_FUNCTION(name, floats, integers)                                                                        \
    DEFINE_PAIR(name##_fp32, float, floats)                                                                            \
    DEFINE_PAIR(name##_fp64, double, floats)                                                                           \
    DEFINE_PAIR(name##_int64, int64_t, integers)
FUNCTIONS(DEFINE_FUNCTION)
DEFINE_PAIR(leaky_fp32, float, b > 0 ? a : a * alpha)
DEFINE_PAIR(leaky_fp64, double, b > 0 ? a : a * alpha)
DEFINE_PAIR(div_fp32, float, a / b)
DEFINE_PAIR(div_fp64, double, a / b)
DEFINE_PAIR(pow_fp32, float, power((double)a, (double)b))
DEFINE_PAIR(pow_fp64, double, power(a, b))
DEFINE_PAIR(pow_int64, int64_t, power_int(a, b))
DEFINE_PAIR(hardtanh_fp32, float, b <= alpha || b >= beta ? 0 : a)
DEFINE_PAIR(hardtanh_fp64, double, b <= alpha || b >= beta ? 0 : a)
DEFINE_PAIR(mask_fp32, float, a *(b *alpha))
DEFINE_PAIR(mask_fp64, double, a *(b *alpha))
DEFINE_PAIR(lerp_fp32, float, alpha < 0.5f ? a + alpha * (b - a) : b - (b - a) * (1 - alpha))
DEFINE_PAIR(lerp_fp64, double, alpha < 0.5 ? a + alpha * (b - a) : b - (b - a) * (1 - alpha))
DEFINE_PAIR(rpow_fp32, float, power((double)b, (double)a))
DEFINE_PAIR(rpow_fp64, double, power(b, a))
DEFINE_PAIR(rpow_int64, int64_t, power_int(b, a))
DEFINE_PAIR(elu_backward_fp32, float, b <= 0 ? a * alpha * expf(b) : a)
DEFINE_PAIR(elu_backward_fp64, double, b <= 0 ? a * alpha * exp(b) : a)
DEFINE_PAIR(trunc_div_fp32, float, truncf(a / b))
DEFINE_PAIR(trunc_div_fp64, double, trunc(a / b))
DEFINE_PAIR(floor_div_fp32, float, floor_quotient_fp32(a, b, fmodf(a, b)))
DEFINE_PAIR(floor_div_fp64, double, floor_quotient(a, b, fmod(a, b)))
DEFINE_PAIR(floor_div_int64, int64_t, floor_quotient_int(a, b))
DEFINE_PAIR(fmod_fp32, float, fmodf(a, b))
DEFINE_PAIR(fmod_fp64, double, fmod(a, b))
DEFINE_PAIR(bitwise_and_int64, int64_t, a &b)
DEFINE_PAIR(bitwise_or_int64, int64_t, a | b)
DEFINE_PAIR(bitwise_xor_int64, int64_t, a ^ b)
DEFINE_PAIR(flip_int64, int64_t, ~a)
DEFINE_PAIR(not_int64, int64_t, a == 0)

typedef struct function {
    pair_fn fp32, fp64, int64;
    bool compares;
} function;

typedef struct pair_state {
    pair_fn run;
    weft_dtype computing;
    bool has_number;
    element number, parameters[2];
    bool flat; /* operands of one shape: rows are elements */
    loops loops;
} pair_state;

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Elements of the computing type: the operand's own, or converted into `room`. */
static const void *computable(weft_dtype from, weft_dtype to, int64_t n, const void *src, void *room) {
    if (from == to) return src;
    cast_elements(from, to, n, src, room);
    return room;
}

/* n elements of a, with those of b from there on (one where bs is 0), NULL: the number. */
static void run_block(const pair_state *s, int64_t n, const tensor *a, const char *as, const tensor *b, const char *bs,
                      int b_stride, const tensor *out, char *to) {
    element room_a[BLOCK], room_b[BLOCK];
    const void *x = computable(a->dtype, s->computing, n, as, room_a);
    const void *y = b ? computable(b->dtype, s->computing, b_stride ? n : 1, bs, room_b) : &s->number;
    if (out->dtype == s->computing) {
        s->run(n, x, y, b_stride, s->parameters, to);
        return;
    }
    s->run(n, x, y, b_stride, s->parameters, room_a);
    cast_elements(s->computing, out->dtype, n, room_a, to);
}

/* A run of n elements; a's go on, or are one. */
static void run_elements(const pair_state *s, int64_t n, const tensor *a, const char *as, int a_stride, const tensor *b,
                         const char *bs, int b_stride, const tensor *out, char *to) {
    size_t a_size = weft_dtype_nbytes(a->dtype), b_size = b ? weft_dtype_nbytes(b->dtype) : 0;
    size_t out_size = weft_dtype_nbytes(out->dtype);
    element repeated[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = block_size(n - i);
        const char *x = as + (size_t)(a_stride ? i : 0) * a_size;
        if (!a_stride) {
            for (int64_t k = 0; k < count; k++) memcpy((char *)repeated + (size_t)k * a_size, as, a_size);
            x = (const char *)repeated;
        }
        run_block(s, count, a, x, b, b ? bs + (size_t)(b_stride ? i : 0) * b_size : NULL, b_stride, out,
                  to + (size_t)i * out_size);
    }
}

static void rows(const kernel_call *c, int64_t first, int64_t end) {
    const pair_state *s = c->state;
    const tensor *a = arg_in(c, 0), *b = s->has_number ? NULL : arg_in(c, 1), *out = arg_out(c, 0);
    const char *as = a->data, *bs = b ? b->data : NULL;
    size_t a_size = weft_dtype_nbytes(a->dtype), b_size = b ? weft_dtype_nbytes(b->dtype) : 0;
    size_t out_size = weft_dtype_nbytes(out->dtype);
    char *to = out->data;
    if (s->flat) {
        element_range e = elements_of(c, out->numel, first, end);
        run_elements(s, e.n, a, as + (size_t)e.at * a_size, 1, b, b ? bs + (size_t)e.at * b_size : NULL, b != NULL, out,
                     to + (size_t)e.at * out_size);
        return;
    }
    for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w))
        run_elements(s, loops_run(&s->loops), a, as + (size_t)w.at[0] * a_size, loops_stride(&s->loops, 0) != 0, b,
                     bs + (size_t)w.at[1] * b_size, loops_stride(&s->loops, 1) != 0, out,
                     to + (size_t)w.position * out_size);
}

/* A tensor after another, each with the number. */
static weft_status run_each(const kernel_call *c) {
    const pair_state *states = c->state;
    for (uint32_t k = 0; k < c->in_first[1]; k++)
        run_elements(&states[k], c->in[k].numel, &c->in[k], c->in[k].data, 1, NULL, NULL, 0, &c->out[k],
                     c->out[k].data);
    return NULL;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static weft_dtype computing_type(const function *f, const tensor *x, const tensor *out, double number) {
    weft_dtype of = f->compares ? x->dtype : out->dtype;
    if (of == WEFT_FP64) return WEFT_FP64;
    if (dtype_is_float(of)) return WEFT_FP32;
    return f->compares && number != floor(number) ? WEFT_FP32 : WEFT_INT64;
}

static weft_status prepare_function(kernel_prepare *p, const function *f, const tensor *x, const tensor *out,
                                    double number, const char *const parameters[2], pair_state *s) {
    s->computing = computing_type(f, x, out, number);
    s->run = s->computing == WEFT_FP32 ? f->fp32 : s->computing == WEFT_FP64 ? f->fp64 : f->int64;
    if (!s->run || !cast_exists(x->dtype, s->computing) || !cast_exists(s->computing, out->dtype))
        return kernel_unsupported(p, "no such operation on %s that gives %s", dtype_text(x->dtype),
                                  dtype_text(out->dtype));
    for (int k = 0; k < 2; k++) {
        double value = parameters[k] ? attr_float(p->op, parameters[k], 1) : 1;
        cast_elements(WEFT_FP64, s->computing, 1, &value, &s->parameters[k]);
    }
    return NULL;
}

/* Comparisons see the number as an element of x's type, as torch does; other ops keep it as they compute. */
static void set_number(pair_state *s, const function *f, const tensor *x, double number) {
    s->has_number = true;
    if (f->compares && dtype_is_half(x->dtype)) {
        uint16_t half;
        cast_elements(WEFT_FP64, x->dtype, 1, &number, &half);
        cast_elements(x->dtype, WEFT_FP64, 1, &half, &number);
    }
    cast_elements(WEFT_FP64, s->computing, 1, &number, &s->number);
}

/* Of each tensor of the first slot and the number in `attr`: ops of one tensor have a list of one. */
static weft_status prepare_number(kernel_prepare *p, const function *f, const char *attr, const char *alpha,
                                  bool list) {
    const char *const parameters[2] = {alpha, NULL};
    uint32_t count = p->in_first[1];
    pair_state *states = ARENA_ARRAY(p->arena, pair_state, count ? count : 1);
    double number = attr ? attr_float(p->op, attr, 0) : 0;
    if (!states) return base_out_of_memory();
    p->state = states;
    if (p->out_first[1] != count) return kernel_unsupported(p, "expected %u outputs, found %u", count, p->out_first[1]);
    for (uint32_t k = 0; k < count; k++) {
        TRY(require_numel(p, &p->out[k], p->in[k].numel, "the output"));
        TRY(prepare_function(p, f, &p->in[k], &p->out[k], number, parameters, &states[k]));
        set_number(&states[k], f, &p->in[k], number);
        states[k].flat = true;
    }
    if (!list) split_elements(p, rows, p->out[0].numel);
    return NULL;
}

/* Of two tensors the one whose type they are compared in. */
static const tensor *wider(const tensor *x, const tensor *y) {
    bool x_floats = dtype_is_float(x->dtype), y_floats = dtype_is_float(y->dtype);
    return x_floats != y_floats ? (x_floats ? x : y) : y->dtype == WEFT_FP64 ? y : x;
}

static weft_status prepare_pair(kernel_prepare *p, const function *f, const char *alpha, const char *beta) {
    const char *const parameters[2] = {alpha, beta};
    pair_state *s = KERNEL_STATE(p, pair_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *y = type_in(p, 1), *out = type_out(p, 0);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_present(p, x, "the first operand"));
    TRY(require_present(p, y, "the second operand"));
    TRY(require_present(p, out, "the output"));
    TRY(prepare_function(p, f, wider(x, y), out, 0, parameters, s));
    if (!cast_exists(x->dtype, s->computing) || !cast_exists(y->dtype, s->computing))
        return kernel_unsupported(p, "no such operation on %s", dtype_text(y->dtype));
    TRY(broadcast_strides(p, -1, x, y, out->ndim, out->dims, strides));
    loops_init(&s->loops, out->ndim, out->dims, 2, strides);
    s->flat = x->numel == out->numel && y->numel == out->numel;
    if (s->flat)
        split_elements(p, rows, out->numel);
    else
        split_rows(p, rows, out->numel > 0);
    return NULL;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

#define ALL(name, compares)                                                                                            \
    { name##_fp32, name##_fp64, name##_int64, compares }
#define FLOATS(name)                                                                                                   \
    { name##_fp32, name##_fp64, NULL, false }
#define INTEGERS(name)                                                                                                 \
    { NULL, NULL, name##_int64, false }

#define DEFINE_PAIR_KERNEL(name, alpha, beta, ...)                                                                     \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const function f = __VA_ARGS__;                                                                         \
        return prepare_pair(p, &f, alpha, beta);                                                                       \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, kernel_run_rows};
DEFINE_PAIR_KERNEL(add, "alpha", NULL, ALL(add, false))
DEFINE_PAIR_KERNEL(sub, "alpha", NULL, ALL(sub, false))
DEFINE_PAIR_KERNEL(mul, NULL, NULL, ALL(mul, false))
DEFINE_PAIR_KERNEL(div, NULL, NULL, FLOATS(div))
DEFINE_PAIR_KERNEL(threshold_backward, "threshold", NULL, ALL(threshold, false))
DEFINE_PAIR_KERNEL(leaky_relu_backward, "negative_slope", NULL, FLOATS(leaky))

DEFINE_PAIR_KERNEL(maximum, NULL, NULL, ALL(maximum, false))
DEFINE_PAIR_KERNEL(minimum, NULL, NULL, ALL(minimum, false))
DEFINE_PAIR_KERNEL(pow, NULL, NULL, ALL(pow, false))
DEFINE_PAIR_KERNEL(lerp, "weight", NULL, FLOATS(lerp))
DEFINE_PAIR_KERNEL(hardtanh_backward, "min_val", "max_val", FLOATS(hardtanh))
DEFINE_PAIR_KERNEL(elu_backward, "alpha", NULL, FLOATS(elu_backward))
DEFINE_PAIR_KERNEL(native_dropout_backward, "scale", NULL, FLOATS(mask))
DEFINE_PAIR_KERNEL(eq, NULL, NULL, ALL(eq, true))
DEFINE_PAIR_KERNEL(ne, NULL, NULL, ALL(ne, true))
DEFINE_PAIR_KERNEL(lt, NULL, NULL, ALL(lt, true))
DEFINE_PAIR_KERNEL(le, NULL, NULL, ALL(le, true))
DEFINE_PAIR_KERNEL(gt, NULL, NULL, ALL(gt, true))
DEFINE_PAIR_KERNEL(ge, NULL, NULL, ALL(ge, true))
DEFINE_PAIR_KERNEL(logical_xor, NULL, NULL, ALL(logical_xor, true))
DEFINE_PAIR_KERNEL(bitwise_and, NULL, NULL, INTEGERS(bitwise_and))
DEFINE_PAIR_KERNEL(bitwise_or, NULL, NULL, INTEGERS(bitwise_or))
DEFINE_PAIR_KERNEL(bitwise_xor, NULL, NULL, INTEGERS(bitwise_xor))
DEFINE_PAIR_KERNEL(trunc_div, NULL, NULL, FLOATS(trunc_div))
static weft_status prepare_floor_div(kernel_prepare *p) {
    static const function f = ALL(floor_div, false);
    return prepare_pair(p, &f, NULL, NULL);
}
static weft_status run_floor_div(const kernel_call *c) {
    const tensor *y = arg_in(c, 1);
    for (int64_t i = 0; !dtype_is_float(y->dtype) && i < y->numel; i++)
        if (tensor_integer(y, i) == 0) return kernel_failed(c, "expected divisors other than 0, found one");
    return kernel_run_rows(c);
}
const kernel kernel_aten_floor_div = {prepare_floor_div, run_floor_div};
DEFINE_PAIR_KERNEL(fmod, NULL, NULL, FLOATS(fmod))

#define DEFINE_NUMBER_KERNEL(name, attr, ...)                                                                          \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const function f = __VA_ARGS__;                                                                         \
        return prepare_number(p, &f, attr, "alpha", false);                                                            \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, kernel_run_rows};
DEFINE_NUMBER_KERNEL(add_scalar, "other", ALL(add, false))
DEFINE_NUMBER_KERNEL(sub_scalar, "other", ALL(sub, false))
DEFINE_NUMBER_KERNEL(rsub_scalar, "other", ALL(rsub, false))
DEFINE_NUMBER_KERNEL(mul_scalar, "other", ALL(mul, false))
DEFINE_NUMBER_KERNEL(div_scalar, "other", FLOATS(div))
DEFINE_NUMBER_KERNEL(pow_scalar, "exponent", ALL(pow, false))
DEFINE_NUMBER_KERNEL(eq_scalar, "other", ALL(eq, true))
DEFINE_NUMBER_KERNEL(ne_scalar, "other", ALL(ne, true))
DEFINE_NUMBER_KERNEL(lt_scalar, "other", ALL(lt, true))
DEFINE_NUMBER_KERNEL(le_scalar, "other", ALL(le, true))
DEFINE_NUMBER_KERNEL(gt_scalar, "other", ALL(gt, true))
DEFINE_NUMBER_KERNEL(ge_scalar, "other", ALL(ge, true))
DEFINE_NUMBER_KERNEL(sign, NULL, ALL(sign, false))
DEFINE_NUMBER_KERNEL(maximum_scalar, "other", ALL(maximum, false))
DEFINE_NUMBER_KERNEL(minimum_scalar, "other", ALL(minimum, false))
DEFINE_NUMBER_KERNEL(rpow_scalar, "self", ALL(rpow, false))
DEFINE_NUMBER_KERNEL(bitwise_and_scalar, "other", INTEGERS(bitwise_and))
DEFINE_NUMBER_KERNEL(bitwise_or_scalar, "other", INTEGERS(bitwise_or))
DEFINE_NUMBER_KERNEL(bitwise_xor_scalar, "other", INTEGERS(bitwise_xor))
DEFINE_NUMBER_KERNEL(fmod_scalar, "other", FLOATS(fmod))

static weft_status prepare_clamp(kernel_prepare *p) {
    static const function f = ALL(clamp, false);
    return prepare_number(p, &f, "min", "max", false);
}
const kernel kernel_aten_clamp = {prepare_clamp, kernel_run_rows};

static weft_status prepare_not(kernel_prepare *p) {
    static const function flips = {NULL, NULL, flip_int64, false}, negates = {NULL, NULL, not_int64, false};
    const tensor *x = type_in(p, 0);
    return prepare_number(p, x && x->dtype == WEFT_BOOL ? &negates : &flips, NULL, NULL, false);
}
const kernel kernel_aten_bitwise_not = {prepare_not, kernel_run_rows};

#define DEFINE_LIST_KERNEL(name, ...)                                                                                  \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const function f = __VA_ARGS__;                                                                         \
        return prepare_number(p, &f, "scalar", NULL, true);                                                            \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, run_each};
DEFINE_LIST_KERNEL(foreach_add_scalar, ALL(add, false))
DEFINE_LIST_KERNEL(foreach_mul_scalar, ALL(mul, false))
DEFINE_LIST_KERNEL(foreach_div_scalar, FLOATS(div))
