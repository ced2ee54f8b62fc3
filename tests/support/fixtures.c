#include "tests/support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *fixture_root(void) {
    const char *given = getenv("WEFT_FIXTURES");
    if (given && *given) return given;
    return access("../shared/fixtures", R_OK) == 0 ? "../shared/fixtures" : "tests/data";
}

int fixture_glob_ops(const char *tail, glob_t *found) {
    char pattern[600];
    snprintf(pattern, sizeof pattern, "%s/ops/%s", fixture_root(), tail);
    int failed = glob(pattern, 0, NULL, found);
    snprintf(pattern, sizeof pattern, "tests/data/ops_more/%s", tail);
    int none = glob(pattern, failed ? 0 : GLOB_APPEND, NULL, found);
    return failed ? none : 0;
}

bool fixture_path(char *out, size_t nbytes, const char *relative) {
    int n = snprintf(out, nbytes, "%s/%s", fixture_root(), relative);
    return n > 0 && (size_t)n < nbytes && access(out, R_OK) == 0;
}
