/* factor.h: exact rational factors of terms: num / den * 2^exp2 with odd num and den. */
#ifndef PROOF_EQUIVALENCE_FACTOR_H
#define PROOF_EQUIVALENCE_FACTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { FACTOR_LIMBS = 64 }; /* 85 odd numbers of a float's 24 bits, one times the other */

/* An odd number in limbs of 32 bits, the lowest first; the highest is not 0, and what is beyond it says nothing. Zero
 * has no limbs. */
typedef struct factor_number {
    int32_t nlimbs;
    uint32_t limbs[FACTOR_LIMBS];
} factor_number;

typedef struct factor {
    bool is_negative;       /* not zero */
    int32_t exp2;           /* 0 for zero */
    factor_number num, den; /* without common divisor; zero is 0 / 1 */
} factor;

static inline bool factor_is_zero(const factor *a) {
    return a->num.nlimbs == 0;
}
static inline bool factor_is_positive(const factor *a) {
    return !a->is_negative && !factor_is_zero(a);
}
bool factor_equal(const factor *a, const factor *b);

/* num / den; false if den is 0. */
bool factor_make(int64_t num, int64_t den, factor *out);
/* False where a number has more limbs than there are: the caller then keeps the two apart. Division by zero is false
 * too. *out may be *a or *b. */
bool factor_multiply(const factor *a, const factor *b, factor *out);
bool factor_divide(const factor *a, const factor *b, factor *out);
bool factor_add(const factor *a, const factor *b, factor *out);
/* What a float attr means: the fraction of a few powers of two over `odd` (a product of ring sizes without their powers
 * of two; 1: none) that is within one unit in the last place of a float of it, else the number exactly. False for
 * infinities and NaN. */
bool factor_of_attr(double value, int64_t odd, factor *out);
/* "1/6", "0.5", "-3": written to `out`. */
const char *factor_print(const factor *a, char *out, int nbytes);

#endif
