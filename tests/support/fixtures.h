/* fixtures.h: where tests find recorded programs. */
#ifndef TESTS_SUPPORT_FIXTURES_H
#define TESTS_SUPPORT_FIXTURES_H

#include <stdbool.h>
#include <stddef.h>

/* $WEFT_FIXTURES, else ../shared/fixtures where that exists, else tests/data. */
const char *fixture_root(void);

/* Writes the path of a fixture; false if it is not there (then the test skips). */
bool fixture_path(char *out, size_t nbytes, const char *relative);

#endif
