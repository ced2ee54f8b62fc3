/* number.c: strtod depends on the locale, which belongs to the host. glibc's "C" locale object is static: making it
 * allocates nothing. */
#include <locale.h>
#include <stdlib.h>

#include "base/number.h"

float number_strtof(const char *digits) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    float value = c ? strtof_l(digits, NULL, c) : strtof(digits, NULL);
    if (c) freelocale(c);
    return value;
}

double number_strtod(const char *digits) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = c ? strtod_l(digits, NULL, c) : strtod(digits, NULL);
    if (c) freelocale(c);
    return value;
}
