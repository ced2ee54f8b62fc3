/* plain.h: counting for tests that are plain mains, because they run threads: a check a line, a failure printed where
 * it happens, the sum last. Include it once in a test's file. */
#ifndef TESTS_SUPPORT_PLAIN_H
#define TESTS_SUPPORT_PLAIN_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "tests/support/must.h"

static _Atomic int npassed, nfailed;

static void check(bool good, const char *format, ...) WEFT_PRINTF(2, 3);
static void check(bool good, const char *format, ...) {
    if (good) {
        npassed++;
        return;
    }
    nfailed++;
    char line[600]; /* printed at once, whole, whatever other threads print */
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    printf("FAIL %s\n", line);
}

/* The last line of a test; what its main returns. */
static inline int report_checks(void) {
    printf("%d passed, %d failed\n", npassed, nfailed);
    return nfailed > 0;
}

#endif
