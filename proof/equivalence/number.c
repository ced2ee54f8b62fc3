/* number.c: whole numbers of factors in limbs of 32 bits.
 *
 * Odd numbers make both hard parts short: the greatest common divisor takes differences and drops their twos, and a
 * quotient without rest is found from the lowest limb up, since an odd number has an inverse of 32 bits. */
#include "proof/equivalence/number.h"

#include <math.h>

enum { LIMB = 32 };

static void trim(number *a) {
    while (a->nlimbs && a->limbs[a->nlimbs - 1] == 0) a->nlimbs--;
}

void number_make(uint64_t n, number *out) {
    out->nlimbs = 2;
    out->limbs[0] = (uint32_t)n;
    out->limbs[1] = (uint32_t)(n >> LIMB);
    trim(out);
}

void number_copy(const number *from, number *out) {
    out->nlimbs = from->nlimbs;
    if (from != out) memcpy(out->limbs, from->limbs, (size_t)from->nlimbs * sizeof *from->limbs);
}

bool number_is_one(const number *a) {
    return a->nlimbs == 1 && a->limbs[0] == 1;
}

int number_compare(const number *a, const number *b) {
    if (a->nlimbs != b->nlimbs) return a->nlimbs < b->nlimbs ? -1 : 1;
    for (int i = a->nlimbs; i-- > 0;)
        if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
    return 0;
}

bool number_multiply(const number *a, const number *b, number *out) {
    if (number_is_one(b)) return number_copy(a, out), true;
    if (number_is_one(a)) return number_copy(b, out), true;
    if (a->nlimbs + b->nlimbs > FACTOR_LIMBS) return false;
    number r = {.nlimbs = a->nlimbs + b->nlimbs};
    for (int i = 0; i < a->nlimbs; i++) {
        uint64_t carry = 0;
        for (int k = 0; k < b->nlimbs; k++) {
            carry += r.limbs[i + k] + (uint64_t)a->limbs[i] * b->limbs[k];
            r.limbs[i + k] = (uint32_t)carry;
            carry >>= LIMB;
        }
        r.limbs[i + b->nlimbs] = (uint32_t)carry;
    }
    trim(&r);
    return number_copy(&r, out), true;
}

bool number_shift(const number *a, int nbits, number *out) {
    int limbs = nbits / LIMB, bits = nbits % LIMB;
    if (a->nlimbs + limbs + 1 > FACTOR_LIMBS) return false;
    number r = {.nlimbs = a->nlimbs + limbs + 1};
    for (int i = 0; i < a->nlimbs; i++) {
        uint64_t moved = (uint64_t)a->limbs[i] << bits;
        r.limbs[i + limbs] |= (uint32_t)moved;
        r.limbs[i + limbs + 1] = (uint32_t)(moved >> LIMB);
    }
    trim(&r);
    return number_copy(&r, out), true;
}

bool number_add(const number *a, const number *b, number *out) {
    if (a->nlimbs < b->nlimbs) return number_add(b, a, out);
    if (a->nlimbs == FACTOR_LIMBS) return false;
    uint64_t carry = 0;
    int nlimbs = a->nlimbs;
    for (int i = 0; i < nlimbs; i++) {
        carry += (uint64_t)a->limbs[i] + (i < b->nlimbs ? b->limbs[i] : 0);
        out->limbs[i] = (uint32_t)carry;
        carry >>= LIMB;
    }
    out->limbs[nlimbs] = (uint32_t)carry;
    out->nlimbs = nlimbs + 1;
    trim(out);
    return true;
}

void number_subtract(const number *a, const number *b, number *out) {
    int64_t borrow = 0;
    int of_b = b->nlimbs;
    for (int i = 0; i < a->nlimbs; i++) {
        borrow += (int64_t)a->limbs[i] - (i < of_b ? (int64_t)b->limbs[i] : 0);
        out->limbs[i] = (uint32_t)borrow;
        borrow >>= LIMB;
    }
    out->nlimbs = a->nlimbs;
    trim(out);
}

int number_take_twos(number *a) {
    int limbs = 0;
    while (a->limbs[limbs] == 0) limbs++;
    int bits = __builtin_ctz(a->limbs[limbs]);
    for (int i = limbs; i < a->nlimbs; i++) {
        uint64_t both = a->limbs[i] | (i + 1 < a->nlimbs ? (uint64_t)a->limbs[i + 1] << LIMB : 0);
        a->limbs[i - limbs] = (uint32_t)(both >> bits);
    }
    a->nlimbs -= limbs;
    trim(a);
    return limbs * LIMB + bits;
}

void number_gcd(const number *a, const number *b, number *out) {
    number x, y;
    number_copy(a, &x);
    number_copy(b, &y);
    for (int order; (order = number_compare(&x, &y)) != 0;) {
        number *larger = order < 0 ? &y : &x, *smaller = order < 0 ? &x : &y;
        if (number_is_one(smaller)) break;
        number_subtract(larger, smaller, larger);
        number_take_twos(larger);
    }
    number_copy(number_compare(&x, &y) < 0 ? &x : &y, out);
}

/* Of an odd number, modulo 2^32: each round doubles the bits that are right, of which x itself has 3. */
static uint32_t inverse_of(uint32_t x) {
    uint32_t r = x;
    for (int i = 0; i < 4; i++) r *= 2 - x * r;
    return r;
}

void number_divide(const number *a, const number *b, number *out) {
    number rest, r = {.nlimbs = a->nlimbs - b->nlimbs + 1};
    uint32_t inverse = inverse_of(b->limbs[0]);
    number_copy(a, &rest);
    for (int i = 0; i < r.nlimbs; i++) {
        uint32_t q = r.limbs[i] = rest.limbs[i] * inverse;
        uint64_t borrow = 0; /* what the limbs so far lack */
        for (int k = 0; i + k < rest.nlimbs; k++) {
            uint64_t product = (k < b->nlimbs ? (uint64_t)q * b->limbs[k] : 0) + borrow;
            borrow = (product >> LIMB) + ((uint32_t)product > rest.limbs[i + k]);
            rest.limbs[i + k] -= (uint32_t)product;
        }
    }
    trim(&r);
    number_copy(&r, out);
}

double number_value(const number *a, int *out_exponent) {
    double value = 0;
    int last = a->nlimbs > 3 ? a->nlimbs - 3 : 0, exponent;
    for (int i = a->nlimbs; i-- > last;) value = value * 0x1p32 + a->limbs[i];
    value = frexp(value, &exponent);
    *out_exponent = exponent + last * LIMB;
    return value;
}
