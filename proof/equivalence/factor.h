/* factor.h: exact rational factors of terms: num / den * 2^exp2 with odd num and den. */
#ifndef PROOF_EQUIVALENCE_FACTOR_H
#define PROOF_EQUIVALENCE_FACTOR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct factor {
    int64_t num, den; /* odd, without common divisor, den > 0; zero is 0 / 1 */
    int32_t exp2;     /* 0 for zero */
} factor;

static inline factor factor_one(void) {
    return (factor){1, 1, 0};
}
static inline bool factor_equal(factor a, factor b) {
    return a.num == b.num && a.den == b.den && a.exp2 == b.exp2;
}
static inline bool factor_is_zero(factor a) {
    return a.num == 0;
}

/* num / den; false if den is 0. */
bool factor_make(int64_t num, int64_t den, factor *out);
/* False where a number leaves 63 bits: the caller then keeps the two apart. Division by zero is false too. */
bool factor_multiply(factor a, factor b, factor *out);
bool factor_divide(factor a, factor b, factor *out);
bool factor_add(factor a, factor b, factor *out);
/* What a float attr means: the fraction of a few powers of two over `odd` (a product of ring sizes without their powers
 * of two; 1: none) that is within one unit in the last place of a float of it, else the number exactly. False for
 * infinities and NaN. */
bool factor_of_attr(double value, int64_t odd, factor *out);
/* "1/6", "0.5", "-3": written to `out`. */
const char *factor_print(factor a, char *out, int nbytes);

#endif
