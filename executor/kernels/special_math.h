/* special_math.h: functions that the C library lacks, in double. */
#ifndef EXECUTOR_KERNELS_SPECIAL_MATH_H
#define EXECUTOR_KERNELS_SPECIAL_MATH_H

/* The logarithm of the absolute value of the gamma function, without lgamma's global sign. */
double special_lgamma(double x);
/* Its first and second derivative. NaN, or an infinity, at the poles 0, -1, -2, ... */
double special_digamma(double x);
double special_trigamma(double x);
/* Derivative n + 1 of lgamma, of n >= 1 and x > 0; NaN for other n. Infinite at 0, NaN below. */
double special_polygamma(int n, double x);
/* The share of the gamma function of `a` that lies beyond x: 1 at 0 and below, of an `a` at 0 or below too. */
double special_gamma_beyond(double a, double x);
/* The modified Bessel function of order 0 or 1; the same times exp(-|x|). */
double special_bessel_i(int order, double x);
double special_bessel_i_scaled(int order, double x);
/* log(exp(a) + exp(b)); -infinity is the logarithm of nothing. */
double special_log_add(double a, double b);
/* The y of erf(y) = x; infinite at -1 and 1, NaN beyond. */
double special_erfinv(double x);

#endif
