/* ops_folders.h: a check of recorded kernels, on all recordings there are. */
#ifndef TESTS_SUPPORT_OPS_FOLDERS_H
#define TESTS_SUPPORT_OPS_FOLDERS_H

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/ops_fixture.h"

/* Checks the recording DIR/VARIANT; *out_n tells how much there was to check. */
typedef ops_result (*ops_folders_check)(weft_context *context, const char *dir, const char *variant, size_t *out_n,
                                        char *why, size_t why_nbytes);

/* All recordings of a folder but those that are known to differ: how much there was to check. */
static size_t ops_folders_look(weft_context *context, ops_folders_check check, char *dir) {
    char pattern[640], why[400] = "";
    size_t sum = 0, n;
    glob_t found;
    const char *op = strrchr(dir, '/') + 1;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", dir);
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *variant = strrchr(found.gl_pathv[i], '/') + 1;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        n = 0;
        if (ops_fixture_is_known(context, "ops", op, variant)) continue;
        cr_expect_neq(check(context, dir, variant, &n, why, sizeof why), OPS_FAILED, "%s/%s: %s", op, variant, why);
        sum += n;
    }
    globfree(&found);
    return sum;
}

/* Over all ops, of which more than 20 have something to check. Skips the test where nothing is recorded. */
static void ops_folders_check_all(ops_folders_check check) {
    weft_context *context;
    size_t nfolders = 0;
    glob_t found;
    if (fixture_glob_ops("*", &found) != 0) cr_skip_test("no recordings here");
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < found.gl_pathc; i++) nfolders += ops_folders_look(context, check, found.gl_pathv[i]) > 0;
    weft_context_destroy(context);
    globfree(&found);
    cr_assert_gt(nfolders, 20, "only %zu ops were tried", nfolders);
}

#endif
