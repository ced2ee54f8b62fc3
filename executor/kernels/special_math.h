/* special_math.h: functions that the C library lacks, in double. */
#ifndef EXECUTOR_KERNELS_SPECIAL_MATH_H
#define EXECUTOR_KERNELS_SPECIAL_MATH_H

/* The logarithm of the absolute value of the gamma function, without lgamma's global sign. */
double special_lgamma(double x);
/* Its first and second derivative. NaN, or an infinity, at the poles 0, -1, -2, ... */
double special_digamma(double x);
double special_trigamma(double x);
/* The y of erf(y) = x; infinite at -1 and 1, NaN beyond. */
double special_erfinv(double x);

#endif
