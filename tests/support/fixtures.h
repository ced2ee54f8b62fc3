/* fixtures.h: where tests find recorded programs. */
#ifndef TESTS_SUPPORT_FIXTURES_H
#define TESTS_SUPPORT_FIXTURES_H

#include <glob.h>
#include <stdbool.h>
#include <stddef.h>

/* $WEFT_FIXTURES, else ../shared/fixtures where that exists, else tests/data. */
const char *fixture_root(void);

/* The recordings of single ops by Paddle 2.6.2 that match `tail` ("*", "NAME/VARIANT.pdmodel"): those of the fixtures, and those
 * that only this tree has (tests/data/ops_more). What glob(3) returns; globfree is the caller's. */
int fixture_glob_ops(const char *tail, glob_t *found);

/* Writes the path of a fixture; false if it is not there (then the test skips). */
bool fixture_path(char *out, size_t nbytes, const char *relative);

#endif
