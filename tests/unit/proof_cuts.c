/* What the proof against a serial program says of ops whose inputs are in parts holds of the recorded kernels. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/ops_fixture.h"

/* All recordings of a folder; returns how many ways to cut were tried. */
static size_t check_folder(weft_context *context, char *dir) {
    char pattern[640], why[400] = "";
    size_t nways = 0, n;
    glob_t found;
    const char *op = strrchr(dir, '/') + 1;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", dir);
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *variant = strrchr(found.gl_pathv[i], '/') + 1;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        if (ops_fixture_is_known(context, "ops", op, variant)) continue;
        ops_result result = ops_fixture_run_cuts(context, dir, variant, &n, why, sizeof why);
        cr_expect_neq(result, OPS_FAILED, "%s/%s: %s", op, variant, why);
        nways += n;
    }
    globfree(&found);
    return nways;
}

Test(proof_cuts, parts_give_parts_and_shares) {
    char pattern[600];
    weft_context *context;
    size_t nfolders = 0;
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/ops/*", fixture_root());
    if (glob(pattern, 0, NULL, &found) != 0) cr_skip_test("no recordings here");
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < found.gl_pathc; i++) nfolders += check_folder(context, found.gl_pathv[i]) > 0;
    weft_context_destroy(context);
    globfree(&found);
    cr_assert_gt(nfolders, 20, "only %zu ops were tried", nfolders);
}
