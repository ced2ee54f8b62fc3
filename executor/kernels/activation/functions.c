/* functions.c: functions of one element beyond those of activation.c and pointwise.c: shrinks, trigonometric and
 * hyperbolic functions, their inverses, and those of the gamma function.
 *
 * Conventions of Paddle that formulas alone do not show: gradients at a bound are 0 (brelu, shrinks); logit is NaN
 * outside of [0, 1] where eps is 0, and its gradient 0 outside of [eps, 1 - eps]; trunc's gradient is 0. */
#include <math.h>

#include "executor/kernels/activation/pointwise.h"
#include "executor/kernels/rows.h"
#include "executor/kernels/special_math.h"
#include "executor/kernels/vector_math.h"

#define LN_2 0.69314718055994530942
#define LN_10 2.30258509299404568402
#define HALF_SQRT_PI 0.88622692545275801365

static inline double softened(double x, double threshold) {
    return x > threshold ? x : log1p(exp(x));
}
static inline float softened_fp32(float x, float threshold) {
    return x > threshold ? x : log1pf(vm_exp(x));
}
static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static inline float sigmoid_fp32(float x) {
    return 1 / (1 + vm_exp(-x));
}
static inline double mish_slope(double x, double threshold) {
    double t = tanh(softened(x, threshold));
    return t + x * (1 - t * t) * sigmoid(x);
}
static inline float mish_slope_fp32(float x, float threshold) {
    float t = vm_tanh(softened_fp32(x, threshold));
    return t + x * (1 - t * t) * sigmoid_fp32(x);
}
static inline double stanh_slope(double x, double a, double b) {
    double t = tanh(a * x);
    return a * b * (1 - t * t);
}
/* Derivatives of i0e, i1 and i1e. */
static inline double i0e_slope(double x) {
    double sign = (x > 0) - (x < 0);
    return special_bessel_i_scaled(1, x) - sign * special_bessel_i_scaled(0, x);
}
static inline double i1_slope(double x) {
    return x == 0 ? 0.5 : special_bessel_i(0, x) - special_bessel_i(1, x) / x;
}
static inline double i1e_slope(double x) {
    double sign = (x > 0) - (x < 0);
    return x == 0 ? 0.5 : special_bessel_i_scaled(0, x) - special_bessel_i_scaled(1, x) * (sign + 1 / x);
}
static inline double logit(double x, double eps) {
    if (eps == 0 && (x < 0 || x > 1)) return NAN;
    double inside = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
    return log(inside / (1 - inside));
}

#define BRELU (x < a ? a : x > b ? b : x)
#define HELD (x < -a ? -a : x > a ? a : x)
#define SELU(exp_minus_1) (x > 0 ? a * x : a * b * exp_minus_1(x))
#define CELU(exp_minus_1) (x > 0 ? x : a * exp_minus_1(x / a))
#define SOFTSHRINK (x > a ? x - a : x < -a ? x + a : x - x)
#define THRESHOLDED (x > a ? x : x <= a ? b : x)
#define HARD_SHRINK (x > a || x < -a ? x : x - x)

/* F(name, fp32, fp64): forward, of x and parameters a and b. */
#define FORWARD(F)                                                                                                     \
    F(brelu, BRELU, BRELU)                                                                                             \
    F(soft_relu, log1pf(vm_exp(HELD)), log1p(exp(HELD)))                                                               \
    F(mish, x *vm_tanh(softened_fp32(x, a)), x *tanh(softened(x, a)))                                                  \
    F(selu, SELU(expm1f), SELU(expm1))                                                                                 \
    F(celu, CELU(expm1f), CELU(expm1))                                                                                 \
    F(softshrink, SOFTSHRINK, SOFTSHRINK)                                                                              \
    F(hard_shrink, HARD_SHRINK, HARD_SHRINK)                                                                           \
    F(thresholded_relu, THRESHOLDED, THRESHOLDED)                                                                      \
    F(tanh_shrink, x - tanhf(x), x - tanh(x))                                                                          \
    F(softsign, x / (1 + fabsf(x)), x / (1 + fabs(x)))                                                                 \
    F(stanh, b *vm_tanh(a *x), b *tanh(a *x))                                                                          \
    F(logsigmoid, x < 0 ? x - log1pf(vm_exp(x)) : -log1pf(vm_exp(-x)), x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x)))    \
    F(logit, logit((double)x, (double)a), logit(x, a))                                                                 \
    F(acos, acosf(x), acos(x))                                                                                         \
    F(asin, asinf(x), asin(x))                                                                                         \
    F(atan, atanf(x), atan(x))                                                                                         \
    F(tan, tanf(x), tan(x))                                                                                            \
    F(sinh, sinhf(x), sinh(x))                                                                                         \
    F(cosh, coshf(x), cosh(x))                                                                                         \
    F(asinh, asinhf(x), asinh(x))                                                                                      \
    F(acosh, acoshf(x), acosh(x))                                                                                      \
    F(atanh, atanhf(x), atanh(x))                                                                                      \
    F(log2, log2f(x), log2(x))                                                                                         \
    F(log10, log10f(x), log10(x))                                                                                      \
    F(lgamma, special_lgamma((double)x), special_lgamma(x))                                                            \
    F(digamma, special_digamma((double)x), special_digamma(x))                                                         \
    F(expm1, expm1f(x), expm1(x))                                                                                      \
    F(erfinv, special_erfinv((double)x), special_erfinv(x))                                                            \
    F(i0, special_bessel_i(0, (double)x), special_bessel_i(0, x))                                                      \
    F(i0e, special_bessel_i_scaled(0, (double)x), special_bessel_i_scaled(0, x))                                       \
    F(i1, special_bessel_i(1, (double)x), special_bessel_i(1, x))                                                      \
    F(i1e, special_bessel_i_scaled(1, (double)x), special_bessel_i_scaled(1, x))                                       \
    F(polygamma, special_polygamma((int)a, (double)x), special_polygamma((int)a, x))                                   \
    F(trunc, truncf(x), trunc(x))

#define SELU_GRAD (x > 0 ? g * a : g * (x + a * b))
#define SHRINK_GRAD (x > a || x < -a ? g : g * 0)
#define ACOSH_SLOPE(root) (g / (root(x - 1) * root(x + 1)))

/* G(name, fp32, fp64): gradient, of g and x; x is X or Out, as the row in ops.def has it. */
#define BACKWARD(G)                                                                                                    \
    G(brelu, x > a && x < b ? g : g * 0, x > a && x < b ? g : g * 0)                                                   \
    G(soft_relu, x <= -a || x >= a ? g * 0 : g * (1 - vm_exp(-x)), x <= -a || x >= a ? g * 0 : g * (1 - exp(-x)))      \
    G(mish, g *mish_slope_fp32(x, a), g *mish_slope(x, a))                                                             \
    G(selu, SELU_GRAD, SELU_GRAD)                                                                                      \
    G(celu, x > 0 ? g : g * expf(x / a), x > 0 ? g : g * exp(x / a))                                                   \
    G(softshrink, SHRINK_GRAD, SHRINK_GRAD)                                                                            \
    G(hard_shrink, SHRINK_GRAD, SHRINK_GRAD)                                                                           \
    G(thresholded_relu, x > a ? g : g * 0, x > a ? g : g * 0)                                                          \
    G(tanh_shrink, g *tanhf(x) * tanhf(x), g * tanh(x) * tanh(x))                                                      \
    G(softsign, g / ((1 + fabsf(x)) * (1 + fabsf(x))), g / ((1 + fabs(x)) * (1 + fabs(x))))                            \
    G(stanh, (double)g *stanh_slope((double)x, (double)a, (double)b), g *stanh_slope(x, a, b))                         \
    G(logsigmoid, g *sigmoid_fp32(-x), g *sigmoid(-x))                                                                 \
    G(logit, x<a || x> 1 - a ? g * 0 : g / (x * (1 - x)), x < a || x > 1 - a ? g * 0 : g / (x * (1 - x)))              \
    G(acos, -g / sqrtf(1 - x * x), -g / sqrt(1 - x * x))                                                               \
    G(asin, g / sqrtf(1 - x * x), g / sqrt(1 - x * x))                                                                 \
    G(atan, g / (1 + x * x), g / (1 + x * x))                                                                          \
    G(tan, g / (cosf(x) * cosf(x)), g / (cos(x) * cos(x)))                                                             \
    G(sinh, g *coshf(x), g *cosh(x))                                                                                   \
    G(cosh, g *sinhf(x), g *sinh(x))                                                                                   \
    G(asinh, g / sqrtf(x * x + 1), g / sqrt(x * x + 1))                                                                \
    G(acosh, ACOSH_SLOPE(sqrtf), ACOSH_SLOPE(sqrt))                                                                    \
    G(atanh, g / (1 - x * x), g / (1 - x * x))                                                                         \
    G(log2, g / (x * (float)LN_2), g / (x * LN_2))                                                                     \
    G(log10, g / (x * (float)LN_10), g / (x * LN_10))                                                                  \
    G(lgamma, (double)g *special_digamma((double)x), g *special_digamma(x))                                            \
    G(digamma, (double)g *special_trigamma((double)x), g *special_trigamma(x))                                         \
    G(expm1, g *(x + 1), g *(x + 1))                                                                                   \
    G(erfinv, g *(float)HALF_SQRT_PI *expf(x *x), g *HALF_SQRT_PI *exp(x *x))                                          \
    G(i0, (double)g *special_bessel_i(1, (double)x), g *special_bessel_i(1, x))                                        \
    G(i0e, (double)g *i0e_slope((double)x), g *i0e_slope(x))                                                           \
    G(i1, (double)g *i1_slope((double)x), g *i1_slope(x))                                                              \
    G(i1e, (double)g *i1e_slope((double)x), g *i1e_slope(x))                                                           \
    G(polygamma, (double)g *special_polygamma((int)a + 1, (double)x), g *special_polygamma((int)a + 1, x))             \
    G(trunc, g * 0, g * 0)

FORWARD(DEFINE_FORWARDS)
BACKWARD(DEFINE_BACKWARDS)

FORWARD(DEFINE_POINTWISE)
BACKWARD(DEFINE_POINTWISE_GRADIENT)
