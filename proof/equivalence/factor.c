/* factor.c: rationals in which powers of two never overflow.
 *
 * Averages divide by sizes of rings; attrs hold the quotient as a float. 1/3 as a float is not 1/3, and two passes that
 * round at different places must still be seen to agree: so an attr within one unit in the last place of k/N is k/N. */
#include "proof/equivalence/factor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { EXACT_BITS = 16, MOST_SHIFT = 4, FLOAT_BITS = 24 };

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

static int take_twos(int64_t *n) {
    int twos = __builtin_ctzll((uint64_t)*n);
    *n /= INT64_C(1) << twos;
    return twos;
}

bool factor_make(int64_t num, int64_t den, factor *out) {
    if (den == 0 || num == INT64_MIN || den == INT64_MIN) return false;
    if (num == 0) {
        *out = (factor){0, 1, 0};
        return true;
    }
    int exp2 = take_twos(&num) - take_twos(&den);
    int64_t common = gcd(num, den);
    if (den < 0) common = -common;
    *out = (factor){num / common, den / common, exp2};
    return true;
}

bool factor_multiply(factor a, factor b, factor *out) {
    if (factor_is_zero(a) || factor_is_zero(b)) return factor_make(0, 1, out);
    int64_t one = gcd(a.num, b.den), other = gcd(b.num, a.den);
    factor r;
    if (__builtin_mul_overflow(a.num / one, b.num / other, &r.num) ||
        __builtin_mul_overflow(a.den / other, b.den / one, &r.den) || r.num == INT64_MIN ||
        __builtin_add_overflow(a.exp2, b.exp2, &r.exp2))
        return false;
    *out = r;
    return true;
}

bool factor_divide(factor a, factor b, factor *out) {
    if (factor_is_zero(b) || b.exp2 == INT32_MIN) return false;
    factor inverse = {b.num < 0 ? -b.den : b.den, b.num < 0 ? -b.num : b.num, -b.exp2};
    return factor_multiply(a, inverse, out);
}

bool factor_add(factor a, factor b, factor *out) {
    if (factor_is_zero(a)) return *out = b, true;
    if (factor_is_zero(b)) return *out = a, true;
    if (a.exp2 > b.exp2) {
        factor swap = a;
        a = b;
        b = swap;
    }
    int64_t shift = (int64_t)b.exp2 - a.exp2, left, right, sum, den;
    if (shift > 40) return false;
    if (__builtin_mul_overflow(b.num, INT64_C(1) << shift, &right) || __builtin_mul_overflow(right, a.den, &right) ||
        __builtin_mul_overflow(a.num, b.den, &left) || __builtin_add_overflow(left, right, &sum) ||
        __builtin_mul_overflow(a.den, b.den, &den))
        return false;
    factor r;
    if (!factor_make(sum, den, &r)) return false;
    if (r.num) r.exp2 += a.exp2;
    *out = r;
    return true;
}

bool factor_of_attr(double value, int64_t odd, factor *out) {
    if (!isfinite(value)) return false;
    if (value == 0) return factor_make(0, 1, out);
    int exponent;
    double mantissa = frexp(fabs(value), &exponent); /* [0.5, 1) */
    double whole = ldexp(mantissa, 53);
    if (!factor_make((int64_t)whole, 1, out)) return false;
    out->exp2 += exponent - 53;
    if (out->num >= INT64_C(1) << EXACT_BITS && odd > 1) {
        for (int shift = 0; shift <= MOST_SHIFT; shift++) {
            int64_t n = odd << shift;
            double k = nearbyint(mantissa * (double)n);
            if (fabs(mantissa - k / (double)n) > ldexp(1, -FLOAT_BITS)) continue;
            if (!factor_make((int64_t)k, n, out)) return false;
            out->exp2 += exponent;
            break;
        }
    }
    if (value < 0) out->num = -out->num;
    return true;
}

const char *factor_print(factor a, char *out, int nbytes) {
    int64_t num = a.num, den = a.den;
    bool small = a.exp2 < 20 && a.exp2 > -20 && num < (INT64_C(1) << 40) && num > -(INT64_C(1) << 40) &&
                 den < (INT64_C(1) << 40);
    if (!small) {
        snprintf(out, (size_t)nbytes, "%.9g", ldexp((double)num / (double)den, a.exp2));
        return out;
    }
    if (a.exp2 >= 0)
        num *= INT64_C(1) << a.exp2;
    else
        den *= INT64_C(1) << -a.exp2;
    if (den == 1)
        snprintf(out, (size_t)nbytes, "%" PRId64, num);
    else
        snprintf(out, (size_t)nbytes, "%" PRId64 "/%" PRId64, num, den);
    return out;
}
