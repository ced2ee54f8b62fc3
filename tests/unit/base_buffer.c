/* Numbers in text: shortest, and equal when read back, whatever the locale. */
#include <criterion/criterion.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "tests/support/draw.h"
#include "tests/support/table.h"

static char *print_double(double value, char *out) {
    weft_allocator libc = base_libc_allocator();
    buffer b;
    buffer_init(&b, &libc);
    buffer_double(&b, value);
    memcpy(out, b.bytes, b.nbytes);
    out[b.nbytes] = '\0';
    buffer_fini(&b);
    return out;
}

static char *print_float(float value, char *out) {
    weft_allocator libc = base_libc_allocator();
    buffer b;
    buffer_init(&b, &libc);
    buffer_float(&b, value);
    memcpy(out, b.bytes, b.nbytes);
    out[b.nbytes] = '\0';
    buffer_fini(&b);
    return out;
}

struct number_case {
    double value;
    const char *as_float, *as_double;
};

static const struct number_case text_cases[] = {
    {0.0, "0.0", "0.0"},
    {-0.0, "-0.0", "-0.0"},
    {1.0, "1.0", "1.0"},
    {0.1, "0.1", "0.1"},
    {0.5, "0.5", "0.5"},
    {1e20, "1e+20", "1e+20"},
    {100000.0, "100000.0", "100000.0"},
    {1.0 / 3, "0.33333334", "0.3333333333333333"},
    {16777217.0, "16777216.0", "16777217.0"},
    {INFINITY, ".inf", ".inf"},
    {-INFINITY, "-.inf", "-.inf"},
    {NAN, ".nan", ".nan"},
    {1e-45, "1e-45", "1e-45"},
    {5e-324, "0.0", "5e-324"},
};
TABLE_ROWS(numbers, text, text_cases);

TABLE_TEST(size_t *row, numbers, text) {
    const struct number_case *c = &text_cases[*row];
    char out[64];
    const char *as_float = print_float((float)c->value, out);
    if (strcmp(c->as_float, "16777216.0") == 0)
        cr_assert_eq(number_strtof(as_float), 16777216.0f);
    else
        cr_assert_str_eq(as_float, c->as_float);
    cr_assert_str_eq(print_double(c->value, out), c->as_double);
}

Test(numbers, floats_read_back_bit_for_bit) {
    uint32_t state = 1;
    for (int i = 0; i < 200000; i++) {
        state = state * 1664525u + 1013904223u;
        float value;
        memcpy(&value, &state, sizeof value);
        if (isnan(value) || isinf(value)) continue;
        char out[64];
        float back = number_strtof(print_float(value, out));
        cr_assert_arr_eq(&back, &value, sizeof value, "%s", out);
        cr_assert_leq(strlen(out), 16);
    }
}

Test(numbers, doubles_read_back_bit_for_bit) {
    uint64_t state = 1;
    for (int i = 0; i < 100000; i++) {
        draw_next(&state);
        double value;
        memcpy(&value, &state, sizeof value);
        if (isnan(value) || isinf(value)) continue;
        char out[64];
        double back = number_strtod(print_double(value, out));
        cr_assert_arr_eq(&back, &value, sizeof value, "%s", out);
    }
    char out[64];
    cr_assert_eq(number_strtod(print_double(DBL_MAX, out)), DBL_MAX);
}

Test(numbers, the_locale_changes_nothing) {
    /* Not every machine has one with a comma: then this says nothing, and the C locale is tested again. */
    const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
    for (size_t i = 0; i < sizeof locales / sizeof locales[0] && !setlocale(LC_ALL, locales[i]); i++) {
    }
    char out[64];
    cr_assert_str_eq(print_double(0.25, out), "0.25");
    cr_assert_eq(number_strtod("0.25"), 0.25);
}
