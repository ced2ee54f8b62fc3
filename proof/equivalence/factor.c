/* factor.c: rationals of large whole numbers, with powers of two apart.
 *
 * Averages divide by sizes of rings; attrs hold the quotient as a float. 1/3 as a float is not 1/3, and two passes that
 * round at different places must still be seen to agree: so an attr within one unit in the last place of k/N is k/N. */
#include "proof/equivalence/factor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "proof/equivalence/number.h"

enum { EXACT_BITS = 16, MOST_SHIFT = 4, FLOAT_BITS = 24 };

static void make_zero(factor *out) {
    *out = (factor){.num.nlimbs = 0};
    number_make(1, &out->den);
}

bool factor_equal(const factor *a, const factor *b) {
    return a->is_negative == b->is_negative && a->exp2 == b->exp2 && number_compare(&a->num, &b->num) == 0 &&
           number_compare(&a->den, &b->den) == 0;
}

/* Without what num and den have in common. */
static void reduce(factor *f) {
    number common;
    if (number_is_one(&f->num) || number_is_one(&f->den)) return;
    number_gcd(&f->num, &f->den, &common);
    number_divide(&f->num, &common, &f->num);
    number_divide(&f->den, &common, &f->den);
}

static uint64_t magnitude(int64_t n) {
    return n < 0 ? -(uint64_t)n : (uint64_t)n;
}

bool factor_make(int64_t num, int64_t den, factor *out) {
    if (den == 0) return false;
    make_zero(out);
    if (num == 0) return true;
    number_make(magnitude(num), &out->num);
    number_make(magnitude(den), &out->den);
    out->is_negative = (num < 0) != (den < 0);
    out->exp2 = number_take_twos(&out->num) - number_take_twos(&out->den);
    reduce(out);
    return true;
}

/* a.num over a.den, by b's num over den: each may be what divides another. */
static bool multiply(const factor *a, const number *num, const number *den, factor *r) {
    number one, other, left, right;
    number_gcd(&a->num, den, &one);
    number_gcd(num, &a->den, &other);
    number_divide(&a->num, &one, &left);
    number_divide(num, &other, &right);
    if (!number_multiply(&left, &right, &r->num)) return false;
    number_divide(&a->den, &other, &left);
    number_divide(den, &one, &right);
    return number_multiply(&left, &right, &r->den);
}

bool factor_multiply(const factor *a, const factor *b, factor *out) {
    factor r;
    if (factor_is_zero(a) || factor_is_zero(b)) return make_zero(out), true;
    r.is_negative = a->is_negative != b->is_negative;
    if (__builtin_add_overflow(a->exp2, b->exp2, &r.exp2) || !multiply(a, &b->num, &b->den, &r)) return false;
    *out = r;
    return true;
}

bool factor_divide(const factor *a, const factor *b, factor *out) {
    factor r;
    if (factor_is_zero(b)) return false;
    if (factor_is_zero(a)) return make_zero(out), true;
    r.is_negative = a->is_negative != b->is_negative;
    if (__builtin_sub_overflow(a->exp2, b->exp2, &r.exp2) || !multiply(a, &b->den, &b->num, &r)) return false;
    *out = r;
    return true;
}

/* *left and *right, of which the second is negative: their difference, and whether that is. */
static bool difference(const number *left, const number *right, number *out) {
    bool is_negative = number_compare(left, right) < 0;
    number_subtract(is_negative ? right : left, is_negative ? left : right, out);
    return is_negative;
}

bool factor_add(const factor *a, const factor *b, factor *out) {
    if (factor_is_zero(a)) return *out = *b, true;
    if (factor_is_zero(b)) return *out = *a, true;
    if (a->exp2 > b->exp2) return factor_add(b, a, out);
    int64_t shift = (int64_t)b->exp2 - a->exp2;
    number left, right;
    factor r = {.is_negative = a->is_negative, .exp2 = a->exp2};
    if (shift > 32 * FACTOR_LIMBS || !number_multiply(&a->num, &b->den, &left) ||
        !number_multiply(&b->num, &a->den, &right) || !number_shift(&right, (int)shift, &right) ||
        !number_multiply(&a->den, &b->den, &r.den))
        return false;
    if (a->is_negative != b->is_negative)
        r.is_negative ^= difference(&left, &right, &r.num);
    else if (!number_add(&left, &right, &r.num))
        return false;
    if (factor_is_zero(&r)) return make_zero(out), true;
    r.exp2 += number_take_twos(&r.num);
    reduce(&r);
    *out = r;
    return true;
}

bool factor_of_attr(double value, int64_t odd, factor *out) {
    if (!isfinite(value)) return false;
    if (value == 0) return factor_make(0, 1, out);
    int exponent;
    double mantissa = frexp(fabs(value), &exponent); /* [0.5, 1) */
    int64_t whole = (int64_t)ldexp(mantissa, 53);
    if (!factor_make(whole, 1, out)) return false;
    out->exp2 += exponent - 53;
    if (whole >> __builtin_ctzll((uint64_t)whole) >= INT64_C(1) << EXACT_BITS && odd > 1) {
        for (int shift = 0; shift <= MOST_SHIFT; shift++) {
            int64_t n = odd << shift;
            double k = nearbyint(mantissa * (double)n);
            if (fabs(mantissa - k / (double)n) > ldexp(1, -FLOAT_BITS)) continue;
            if (!factor_make((int64_t)k, n, out)) return false;
            out->exp2 += exponent;
            break;
        }
    }
    out->is_negative = value < 0;
    return true;
}

/* As a whole number where it has so few bits that %lld prints it; 0: it has more. */
static int64_t small_number(const number *a, int exp2) {
    enum { MOST_BITS = 40, MOST_EXP2 = 20 };
    if (exp2 < 0) exp2 = 0;
    if (a->nlimbs > 2 || exp2 >= MOST_EXP2) return 0;
    uint64_t n = a->limbs[0] | (a->nlimbs > 1 ? (uint64_t)a->limbs[1] << 32 : 0);
    return n < UINT64_C(1) << MOST_BITS ? (int64_t)(n << exp2) : 0;
}

static double value_of_factor(const factor *a) {
    int of_num, of_den;
    double num = number_value(&a->num, &of_num), den = number_value(&a->den, &of_den);
    return ldexp(a->is_negative ? -num / den : num / den, of_num - of_den + a->exp2);
}

const char *factor_print(const factor *a, char *out, int nbytes) {
    int64_t num = small_number(&a->num, a->exp2), den = small_number(&a->den, -a->exp2);
    if (a->is_negative) num = -num;
    if (!num || !den)
        snprintf(out, (size_t)nbytes, "%.9g", value_of_factor(a));
    else if (den == 1)
        snprintf(out, (size_t)nbytes, "%" PRId64, num);
    else
        snprintf(out, (size_t)nbytes, "%" PRId64 "/%" PRId64, num, den);
    return out;
}
