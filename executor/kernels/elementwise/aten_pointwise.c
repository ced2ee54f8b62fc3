/* aten_pointwise.c: functions of one or two elements, and kernels of tensors and of lists of tensors that compute them
 * (torch: aten/src/ATen/native/cpu/{BinaryOpsKernel,PowKernel}.cpp). */
#include <math.h>

#include "executor/kernels/elementwise/aten_pair.h"

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
    F(abs, a < 0 ? -a : a, a < 0 ? 0 - U(a) : U(a))                                                                    \
    F(fill, b, b)                                                                                                      \
    F(second, b, b)                                                                                                    \
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
DEFINE_PAIR(elu_backward_fp32, float, b <= 0 ? a * gamma * alpha * beta * expf(b * gamma) : a * beta)
DEFINE_PAIR(elu_backward_fp64, double, b <= 0 ? a * gamma * alpha * beta * exp(b * gamma) : a * beta)
DEFINE_PAIR(elu_backward_of_result_fp32, float, b <= 0 ? a * gamma * (b + alpha * beta) : a * beta)
DEFINE_PAIR(elu_backward_of_result_fp64, double, b <= 0 ? a * gamma * (b + alpha * beta) : a * beta)
DEFINE_PAIR(exp_fp32, float, expf(a))
DEFINE_PAIR(exp_fp64, double, exp(a))
DEFINE_PAIR(log_fp32, float, logf(a))
DEFINE_PAIR(log_fp64, double, log(a))
DEFINE_PAIR(sqrt_fp32, float, sqrtf(a))
DEFINE_PAIR(sqrt_fp64, double, sqrt(a))
DEFINE_PAIR(rsqrt_fp32, float, 1 / sqrtf(a))
DEFINE_PAIR(rsqrt_fp64, double, 1 / sqrt(a))
DEFINE_PAIR(reciprocal_fp32, float, 1 / a)
DEFINE_PAIR(reciprocal_fp64, double, 1 / a)
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

/* --- kernels ------------------------------------------------------------------------------------------------------ */

DEFINE_PAIR_KERNEL(add, ALL(add, false), "alpha")
DEFINE_PAIR_KERNEL(sub, ALL(sub, false), "alpha")
DEFINE_PAIR_KERNEL(mul, ALL(mul, false), NULL)
DEFINE_PAIR_KERNEL(div, FLOATS(div), NULL)
DEFINE_PAIR_KERNEL(threshold_backward, ALL(threshold, false), "threshold")
DEFINE_PAIR_KERNEL(leaky_relu_backward, FLOATS(leaky), "negative_slope")

DEFINE_PAIR_KERNEL(maximum, ALL(maximum, false), NULL)
DEFINE_PAIR_KERNEL(minimum, ALL(minimum, false), NULL)
DEFINE_PAIR_KERNEL(pow, ALL(pow, false), NULL)
DEFINE_PAIR_KERNEL(lerp, FLOATS(lerp), "weight")
DEFINE_PAIR_KERNEL(hardtanh_backward, FLOATS(hardtanh), "min_val", "max_val")
DEFINE_PAIR_KERNEL(native_dropout_backward, FLOATS(mask), "scale")
DEFINE_PAIR_KERNEL(eq, ALL(eq, true), NULL)
DEFINE_PAIR_KERNEL(ne, ALL(ne, true), NULL)
DEFINE_PAIR_KERNEL(lt, ALL(lt, true), NULL)
DEFINE_PAIR_KERNEL(le, ALL(le, true), NULL)
DEFINE_PAIR_KERNEL(gt, ALL(gt, true), NULL)
DEFINE_PAIR_KERNEL(ge, ALL(ge, true), NULL)
DEFINE_PAIR_KERNEL(logical_xor, ALL(logical_xor, true), NULL)
DEFINE_PAIR_KERNEL(bitwise_and, INTEGERS(bitwise_and), NULL)
DEFINE_PAIR_KERNEL(bitwise_or, INTEGERS(bitwise_or), NULL)
DEFINE_PAIR_KERNEL(bitwise_xor, INTEGERS(bitwise_xor), NULL)
DEFINE_PAIR_KERNEL(trunc_div, FLOATS(trunc_div), NULL)

static const char *const none[PAIR_PARAMETERS] = {NULL};

static weft_status prepare_floor_div(kernel_prepare *p) {
    static const pair_function f = ALL(floor_div, false);
    return pair_prepare(p, &f, none);
}
static weft_status run_floor_div(const kernel_call *c) {
    const tensor *y = arg_in(c, 1);
    for (int64_t i = 0; !dtype_is_float(y->dtype) && i < y->numel; i++)
        if (tensor_integer(y, i) == 0) return kernel_failed(c, "expected divisors other than 0, found one");
    return kernel_run_rows(c);
}
const kernel kernel_aten_floor_div = {prepare_floor_div, run_floor_div};

static weft_status prepare_floor_div_scalar(kernel_prepare *p) {
    static const pair_function f = ALL(floor_div, false);
    const tensor *x = type_in(p, 0);
    if (x && !dtype_is_float(x->dtype) && trunc(attr_float(p->op, "other", 1)) == 0)
        return kernel_unsupported(p, "other: expected a divisor other than 0");
    return pair_prepare_number(p, &f, "other", none);
}
const kernel kernel_aten_floor_div_scalar = {prepare_floor_div_scalar, kernel_run_rows};

static weft_status prepare_elu_backward(kernel_prepare *p) {
    static const pair_function of_self = FLOATS(elu_backward), of_result = FLOATS(elu_backward_of_result);
    static const char *const parameters[PAIR_PARAMETERS] = {"alpha", "scale", "input_scale"};
    return pair_prepare(p, attr_bool(p->op, "is_result", false) ? &of_result : &of_self, parameters);
}
const kernel kernel_aten_elu_backward = {prepare_elu_backward, kernel_run_rows};

DEFINE_PAIR_KERNEL(fmod, FLOATS(fmod), NULL)

DEFINE_NUMBER_KERNEL(add_scalar, ALL(add, false), "other", "alpha")
DEFINE_NUMBER_KERNEL(sub_scalar, ALL(sub, false), "other", "alpha")
DEFINE_NUMBER_KERNEL(rsub_scalar, ALL(rsub, false), "other", "alpha")
DEFINE_NUMBER_KERNEL(mul_scalar, ALL(mul, false), "other", NULL)
DEFINE_NUMBER_KERNEL(div_scalar, FLOATS(div), "other", NULL)
DEFINE_NUMBER_KERNEL(pow_scalar, ALL(pow, false), "exponent", NULL)
DEFINE_NUMBER_KERNEL(eq_scalar, ALL(eq, true), "other", NULL)
DEFINE_NUMBER_KERNEL(ne_scalar, ALL(ne, true), "other", NULL)
DEFINE_NUMBER_KERNEL(lt_scalar, ALL(lt, true), "other", NULL)
DEFINE_NUMBER_KERNEL(le_scalar, ALL(le, true), "other", NULL)
DEFINE_NUMBER_KERNEL(gt_scalar, ALL(gt, true), "other", NULL)
DEFINE_NUMBER_KERNEL(ge_scalar, ALL(ge, true), "other", NULL)
DEFINE_NUMBER_KERNEL(sign, ALL(sign, false), NULL, NULL)
DEFINE_NUMBER_KERNEL(maximum_scalar, ALL(maximum, false), "other", NULL)
DEFINE_NUMBER_KERNEL(minimum_scalar, ALL(minimum, false), "other", NULL)
DEFINE_NUMBER_KERNEL(rpow_scalar, ALL(rpow, false), "self", NULL)
DEFINE_NUMBER_KERNEL(bitwise_and_scalar, INTEGERS(bitwise_and), "other", NULL)
DEFINE_NUMBER_KERNEL(bitwise_or_scalar, INTEGERS(bitwise_or), "other", NULL)
DEFINE_NUMBER_KERNEL(bitwise_xor_scalar, INTEGERS(bitwise_xor), "other", NULL)
DEFINE_NUMBER_KERNEL(fmod_scalar, FLOATS(fmod), "other", NULL)

DEFINE_NUMBER_KERNEL(clamp, ALL(clamp, false), "min", "max")

static weft_status prepare_not(kernel_prepare *p) {
    static const pair_function flips = {NULL, NULL, flip_int64, false}, negates = {NULL, NULL, not_int64, false};
    const tensor *x = type_in(p, 0);
    return pair_prepare_number(p, x && x->dtype == WEFT_BOOL ? &negates : &flips, NULL, none);
}
const kernel kernel_aten_bitwise_not = {prepare_not, kernel_run_rows};

/* --- lists: a tensor after another ------------------------------------------------------------------------------- */

DEFINE_NUMBERS_KERNEL(foreach_add_scalar, ALL(add, false))
DEFINE_NUMBERS_KERNEL(foreach_sub_scalar, ALL(sub, false))
DEFINE_NUMBERS_KERNEL(foreach_mul_scalar, ALL(mul, false))
DEFINE_NUMBERS_KERNEL(foreach_div_scalar, FLOATS(div))
DEFINE_NUMBERS_KERNEL(foreach_pow_scalar, ALL(pow, false))
DEFINE_NUMBERS_KERNEL(foreach_rpow_scalar, ALL(rpow, false))
DEFINE_NUMBERS_KERNEL(foreach_maximum_scalar, ALL(maximum, false))
DEFINE_NUMBERS_KERNEL(foreach_minimum_scalar, ALL(minimum, false))
DEFINE_LISTS_KERNEL(foreach_add, ALL(add, false), "alpha")
DEFINE_LISTS_KERNEL(foreach_sub, ALL(sub, false), "alpha")
DEFINE_LISTS_KERNEL(foreach_mul, ALL(mul, false), NULL)
DEFINE_LISTS_KERNEL(foreach_div, FLOATS(div), NULL)
DEFINE_LISTS_KERNEL(foreach_maximum, ALL(maximum, false), NULL)
DEFINE_LISTS_KERNEL(foreach_minimum, ALL(minimum, false), NULL)
DEFINE_LISTS_KERNEL(foreach_lerp, FLOATS(lerp), "weight")
DEFINE_NUMBERS_KERNEL(foreach_abs, ALL(abs, false))
DEFINE_NUMBERS_KERNEL(foreach_sign, ALL(sign, false))
DEFINE_NUMBERS_KERNEL(foreach_exp, FLOATS(exp))
DEFINE_NUMBERS_KERNEL(foreach_log, FLOATS(log))
DEFINE_NUMBERS_KERNEL(foreach_sqrt, FLOATS(sqrt))
DEFINE_NUMBERS_KERNEL(foreach_rsqrt, FLOATS(rsqrt))
DEFINE_NUMBERS_KERNEL(foreach_reciprocal, FLOATS(reciprocal))
DEFINE_NUMBERS_KERNEL(foreach_fill, ALL(fill, false))
DEFINE_LISTS_KERNEL(foreach_copy, ALL(second, false), NULL)
