/* aten_functions.c: functions of one or two elements that Paddle does not have, or has otherwise (torch:
 * aten/src/ATen/native/cpu/{UnaryOpsKernel,BinaryOpsKernel,Activation}.cpp). */
#include <math.h>

#include "executor/kernels/elementwise/aten_pair.h"

/* F(name, suffix, type): of the C library's functions for the type */
#define LIBM(F) F(fp32, float, f) F(fp64, double, )

static const double pi = 3.14159265358979323846;

/* Sums of exponentials, without overflow: of equal infinities that infinity. */
static inline double log_add(double a, double b) {
    if (a == b && isinf(a)) return a;
    double most = a > b || a != a ? a : b;
    return most + log1p(exp(-fabs(a - b)));
}
static inline double log_add2(double a, double b) {
    if (a == b && isinf(a)) return a;
    double most = a > b || a != a ? a : b;
    return most + log1p(exp2(-fabs(a - b))) / 0.69314718055994530942;
}
static inline double modulo(double a, double b) {
    double rest = fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
static inline int64_t modulo_int(int64_t a, int64_t b) {
    int64_t rest = b == -1 ? 0 : a % b;
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
static inline int64_t quotient_int(int64_t a, int64_t b) {
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

#define DEFINE_FLOATS(suffix, type, f)                                                                                 \
    DEFINE_PAIR(erfc_##suffix, type, erfc##f(a))                                                                       \
    DEFINE_PAIR(exp2_##suffix, type, exp2##f(a))                                                                       \
    DEFINE_PAIR(frac_##suffix, type, a - trunc##f(a))                                                                  \
    DEFINE_PAIR(sinc_##suffix, type, a == 0 ? 1 : sin(pi * (double)a) / (pi * (double)a))                              \
    DEFINE_PAIR(entr_##suffix, type, a > 0 ? -a * log##f(a) : a < 0 ? -(type)INFINITY : a)                             \
    DEFINE_PAIR(elu_##suffix, type, a <= 0 ? expm1##f(a * gamma) * alpha * beta : a * beta)                            \
    DEFINE_PAIR(hardsigmoid_backward_##suffix, type, b > -3 && b < 3 ? a / 6 : 0)                                      \
    DEFINE_PAIR(prelu_##suffix, type, a > 0 ? a : b * a)                                                               \
    DEFINE_PAIR(hypot_##suffix, type, hypot##f(a, b))                                                                  \
    DEFINE_PAIR(logaddexp_##suffix, type, log_add((double)a, (double)b))                                               \
    DEFINE_PAIR(logaddexp2_##suffix, type, log_add2((double)a, (double)b))                                             \
    DEFINE_PAIR(xlogy_##suffix, type, b != b ? b : a == 0 ? 0 : a * log##f(b))                                         \
    DEFINE_PAIR(xlog1py_##suffix, type, b != b ? b : a == 0 ? 0 : a * log1p##f(b))                                     \
    DEFINE_PAIR(ldexp_##suffix, type, a *exp2##f(b))                                                                   \
    DEFINE_PAIR(remainder_##suffix, type, modulo((double)a, (double)b))                                                \
    DEFINE_PAIR(trunc_div_##suffix, type, trunc##f(a / b))                                                             \
    DEFINE_PAIR(threshold_##suffix, type, a <= b ? alpha : a)
LIBM(DEFINE_FLOATS)
DEFINE_PAIR(remainder_int64, int64_t, modulo_int(a, b))
DEFINE_PAIR(trunc_div_int64, int64_t, quotient_int(a, b))
DEFINE_PAIR(threshold_int64, int64_t, a <= b ? alpha : a)

DEFINE_NUMBER_KERNEL(erfc, FLOATS(erfc), NULL, NULL)
DEFINE_NUMBER_KERNEL(exp2, FLOATS(exp2), NULL, NULL)
DEFINE_NUMBER_KERNEL(frac, FLOATS(frac), NULL, NULL)
DEFINE_NUMBER_KERNEL(sinc, FLOATS(sinc), NULL, NULL)
DEFINE_NUMBER_KERNEL(entr, FLOATS(entr), NULL, NULL)
DEFINE_NUMBER_KERNEL(elu, FLOATS(elu), NULL, "alpha", "scale", "input_scale")
DEFINE_NUMBER_KERNEL(threshold, ALL(threshold, false), "threshold", "value")
DEFINE_PAIR_KERNEL(hardsigmoid_backward, FLOATS(hardsigmoid_backward), NULL)
DEFINE_PAIR_KERNEL(prelu, FLOATS(prelu), NULL)
DEFINE_PAIR_KERNEL(hypot, FLOATS(hypot), NULL)
DEFINE_PAIR_KERNEL(logaddexp, FLOATS(logaddexp), NULL)
DEFINE_PAIR_KERNEL(logaddexp2, FLOATS(logaddexp2), NULL)
DEFINE_PAIR_KERNEL(xlogy, FLOATS(xlogy), NULL)
DEFINE_PAIR_KERNEL(xlog1py, FLOATS(xlog1py), NULL)
DEFINE_PAIR_KERNEL(ldexp, FLOATS(ldexp), NULL)

/* A number that integers are divided by. */
static weft_status prepare_divided(kernel_prepare *p, const pair_function *f) {
    static const char *const none[PAIR_PARAMETERS] = {NULL};
    const tensor *x = type_in(p, 0);
    double by = attr_float(p->op, "other", 1);
    if (x && !dtype_is_float(x->dtype) && trunc(by) == 0)
        return kernel_unsupported(p, "other: expected a divisor other than 0");
    return pair_prepare_number(p, f, "other", none);
}
static weft_status prepare_remainder(kernel_prepare *p) {
    static const pair_function f = ALL(remainder, false);
    return prepare_divided(p, &f);
}
static weft_status prepare_trunc_div(kernel_prepare *p) {
    static const pair_function f = ALL(trunc_div, false);
    return prepare_divided(p, &f);
}
const kernel kernel_aten_remainder_scalar = {prepare_remainder, kernel_run_rows};
const kernel kernel_aten_trunc_div_scalar = {prepare_trunc_div, kernel_run_rows};
