/* Factors of terms: what holds of rational numbers, for numbers of any size up to the largest. */
#include <criterion/criterion.h>

#include "proof/equivalence/factor.h"
#include "tests/support/draw.h"

static factor made(int64_t num, int64_t den) {
    factor f;
    cr_assert(factor_make(num, den, &f), "%lld / %lld", (long long)num, (long long)den);
    return f;
}

static factor of(double value) {
    factor f;
    cr_assert(factor_of_attr(value, 1, &f), "%g", value);
    return f;
}

typedef bool operation(const factor *a, const factor *b, factor *out);

static factor apply(operation *op, factor a, factor b) {
    factor r;
    cr_assert(op(&a, &b, &r));
    return r;
}
#define TIMES(a, b) apply(factor_multiply, a, b)
#define OVER(a, b) apply(factor_divide, a, b)
#define PLUS(a, b) apply(factor_add, a, b)

static void same(factor a, factor b, const char *what) {
    char of_a[64], of_b[64];
    cr_assert(factor_equal(&a, &b), "%s: %s, %s", what, factor_print(&a, of_a, 64), factor_print(&b, of_b, 64));
}

/* A few floats multiplied and divided, of either sign; now and then zero. */
static factor drawn(uint64_t *state) {
    factor f = made(1 + (int64_t)draw_below(state, 1000), 1 + (int64_t)draw_below(state, 1000));
    for (uint32_t k = draw_below(state, 6); k > 0; k--) {
        factor by = of((double)((float)draw_below(state, 1 << 24) + 1.0F) * 0x1p-20);
        f = draw_below(state, 2) ? TIMES(f, by) : OVER(f, by);
    }
    f.is_negative = draw_below(state, 2);
    return draw_below(state, 30) ? f : made(0, 1);
}

Test(proof_factors, laws) {
    uint64_t state = 1;
    for (int i = 0; i < 3000; i++) {
        factor a = drawn(&state), b = drawn(&state), c = drawn(&state), minus = a;
        same(TIMES(a, b), TIMES(b, a), "a b = b a");
        same(TIMES(TIMES(a, b), c), TIMES(a, TIMES(b, c)), "(a b) c = a (b c)");
        same(PLUS(a, b), PLUS(b, a), "a + b = b + a");
        same(PLUS(PLUS(a, b), c), PLUS(a, PLUS(b, c)), "(a + b) + c = a + (b + c)");
        same(TIMES(PLUS(a, b), c), PLUS(TIMES(a, c), TIMES(b, c)), "(a + b) c = a c + b c");
        if (!factor_is_zero(&b)) same(OVER(TIMES(a, b), b), a, "a b / b = a");
        if (!factor_is_zero(&a)) minus.is_negative = !a.is_negative;
        same(PLUS(a, minus), made(0, 1), "a - a = 0");
    }
}

Test(proof_factors, of_64_bits) {
    uint64_t state = 2;
    for (int i = 0; i < 3000; i++) {
        int64_t a = 1 + (int64_t)draw_next(&state), b = 1 + (int64_t)draw_next(&state),
                c = 1 + (int64_t)draw_below(&state, 1 << 20);
        same(TIMES(made(a, c), made(b, 1)), OVER(made(a * b, 1), made(c, 1)), "a / c b");
        same(PLUS(made(a, 1), made(-b, 1)), made(a - b, 1), "a - b");
        same(OVER(made(a * c, 1), made(b * c, 1)), made(a, b), "a c / (b c)");
    }
}

Test(proof_factors, ends) {
    factor f = of(0.9F), zero = made(0, 1), r = f;
    int nsquares = 0;
    while (factor_multiply(&f, &f, &r)) f = r, nsquares++;
    cr_expect_eq(nsquares, 6, "%d", nsquares); /* the next has 128 times 23 bits */
    same(OVER(f, f), made(1, 1), "the largest over itself");
    cr_expect_not(factor_divide(&f, &zero, &r), "by zero");
    cr_expect_not(factor_make(1, 0, &r), "over zero");
    same(made(INT64_MIN, INT64_MIN + 1), OVER(made(INT64_MIN, 1), made(INT64_MIN + 1, 1)), "the smallest number");
}

Test(proof_factors, words) {
    static const struct {
        int64_t num, den;
        const char *words;
    } rows[] = {{1, 6, "1/6"}, {-3, 1, "-3"}, {0, 5, "0"}, {4, -8, "-1/2"}, {INT64_C(1) << 50, 3, "3.75299969e+14"}};
    char words[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        factor f = made(rows[i].num, rows[i].den), tenth = of(0.1F);
        cr_expect_str_eq(factor_print(&f, words, 64), rows[i].words);
        for (int k = 0; k < 9; k++) f = TIMES(f, tenth);
        for (int k = 0; k < 9; k++) f = OVER(f, tenth);
        cr_expect_str_eq(factor_print(&f, words, 64), rows[i].words);
    }
    factor small = OVER(of(0.9F), of(0.3F));
    for (int k = 0; k < 40; k++) small = TIMES(small, of(0.1F));
    cr_expect_str_eq(factor_print(&small, words, 64), "3.00000159e-40");
}
