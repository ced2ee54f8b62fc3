/* special_math.c: the gamma function's relatives by recurrence and asymptotic series (Abramowitz and Stegun 6.3, 6.4);
 * polygamma by Hurwitz' zeta function; shares of the gamma function by series and fraction (6.5); Bessel functions by
 * their series (9.6, 9.7); the inverse of erf by Giles' polynomials (2010) and two Newton steps. */
#include "executor/kernels/special_math.h"

#include <math.h>

double special_lgamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

static const double pi = 3.14159265358979323846;

enum { LARGE = 10 }; /* from here on the series below are exact to double */

double special_digamma(double x) {
    double below = 0;
    if (x == 0) return copysign(INFINITY, -x);
    if (x < 0) { /* reflection */
        double whole = trunc(x);
        if (x == whole) return NAN;
        return special_digamma(1 - x) - pi / tan(pi * (x - whole));
    }
    for (; x < LARGE; x++) below += 1 / x;
    double y = 1 / (x * x);
    double series =
        y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * 691.0 / 32760)))));
    return log(x) - 0.5 / x - series - below;
}

double special_trigamma(double x) {
    double below = 0;
    if (x <= 0 && x == floor(x)) return INFINITY;
    if (x < 0) {
        double s = sin(pi * x);
        return pi * pi / (s * s) - special_trigamma(1 - x);
    }
    for (; x < LARGE; x++) below += 1 / (x * x);
    double y = 1 / (x * x);
    double series =
        y * (1.0 / 6 - y * (1.0 / 30 - y * (1.0 / 42 - y * (1.0 / 30 - y * (5.0 / 66 - y * 691.0 / 2730)))));
    return below + 1 / x + 0.5 * y + series / x;
}

double special_polygamma(int n, double x) {
    static const double bernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6};
    double s = n + 1, sum = 0, rise = s, factorial = 2;
    if (n < 1 || !(x >= 0)) return NAN;
    if (x == 0) return n % 2 ? INFINITY : -INFINITY;
    /* zeta(s, x) by Euler and Maclaurin: the sum of (x + k)^-s, its tail as an integral with corrections */
    for (; x < LARGE + n; x++) sum += pow(x, -s);
    sum += pow(x, 1 - s) / (s - 1) + 0.5 * pow(x, -s);
    for (int k = 1; k <= 7; k++) {
        sum += bernoulli[k - 1] / factorial * rise * pow(x, 1 - s - 2 * k);
        rise *= (s + 2 * k - 1) * (s + 2 * k);
        factorial *= (2 * k + 1) * (2 * k + 2);
    }
    return (n % 2 ? 1 : -1) * tgamma(s) * sum;
}

/* Below 1 or a by the series of the share that lies below x (6.5.29), else by the continued fraction (6.5.31). */
double special_gamma_beyond(double a, double x) {
    if (isnan(a) || isnan(x)) return NAN;
    if (x <= 0 || a <= 0) return 1;
    if (isinf(x)) return isinf(a) ? (double)NAN : 0;
    if (isinf(a)) return 1;
    double lead = exp(a * log(x) - x - special_lgamma(a)), term = 1, sum = 1;
    if (x < 1 || x < a) {
        for (double k = a + 1; term > sum * 1e-17; k++) sum += term *= x / k;
        return 1 - sum * lead / a;
    }
    double b = x + 1 - a, c = 1e300, d = 1 / b, value = d, by = 0;
    for (double k = 1; fabs(by - 1) > 1e-16 && k < 1e5; k++) {
        double over = -k * (k - a);
        b += 2;
        d = over * d + b, c = b + over / c;
        if (fabs(d) < 1e-300) d = 1e-300;
        if (fabs(c) < 1e-300) c = 1e-300;
        d = 1 / d, by = d * c;
        value *= by;
    }
    return lead * value;
}

/* Below 20 the power series, of which no term is negative; from there on the asymptotic one (9.7.1). */
double special_bessel_i_scaled(int order, double x) {
    double size = fabs(x), term = 1, sum = 0;
    if (isnan(x)) return x;
    if (size < 20) {
        term = order ? size / 2 : 1;
        for (int k = 1; sum + term != sum; k++) {
            sum += term;
            term *= size * size / 4 / k / (k + order);
        }
        sum *= exp(-size);
    } else {
        for (int k = 1; k < 30 && sum + term != sum; k++) {
            sum += term;
            double odd = 2 * k - 1;
            term *= (odd * odd - 4 * order) / (8 * size * k);
        }
        sum /= sqrt(2 * pi * size);
    }
    return order && x < 0 ? -sum : sum;
}

double special_bessel_i(int order, double x) {
    return special_bessel_i_scaled(order, x) * exp(fabs(x));
}

static double polynomial(const double *c, int n, double x) {
    double value = c[0];
    for (int i = 1; i < n; i++) value = value * x + c[i];
    return value;
}

double special_erfinv(double x) {
    static const double near[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                  -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
    static const double far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                 -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
    if (!(x > -1 && x < 1)) return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
    double w = -log((1 - x) * (1 + x));
    double y = x * (w < 5 ? polynomial(near, 9, w - 2.5) : polynomial(far, 9, sqrt(w) - 3));
    for (int step = 0; step < 2; step++) { /* with erfc at the ends, where erf is 1 but for rounding */
        double off = fabs(x) < 0.5 ? erf(y) - x : x > 0 ? 1 - x - erfc(y) : erfc(-y) - (1 + x);
        y -= off * sqrt(pi) / 2 * exp(y * y);
    }
    return y;
}

double special_log_add(double a, double b) {
    double most = a > b ? a : b, least = a > b ? b : a;
    return least == -INFINITY ? most : most + log1p(exp(least - most));
}
