/* Rules of axes.def hold of the kernels: 0 wrong, over all recorded ops. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/axes_check.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/ops_fixture.h"

static void check_folder(axes_check *c, char *dir) {
    char pattern[640], why[400] = "";
    glob_t found;
    const char *op = strrchr(dir, '/') + 1;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", dir);
    if (glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *variant = strrchr(found.gl_pathv[i], '/') + 1;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        if (ops_fixture_is_known(c->context, "ops", op, variant)) continue;
        cr_expect_neq(ops_fixture_run_axes(c->context, dir, variant, c, why, sizeof why), OPS_FAILED, "%s/%s: %s", op,
                      variant, why);
    }
    globfree(&found);
}

Test(axes_rules, hold_of_recorded_ops) {
    char pattern[600];
    glob_t found;
    axes_check c = {.finds_missing = getenv("WEFT_AXES_MISSING") != NULL};
    size_t nops = 0, nplacements = 0;
    snprintf(pattern, sizeof pattern, "%s/ops/*", fixture_root());
    if (glob(pattern, 0, NULL, &found) != 0) cr_skip_test("no recordings here");
    must(weft_context_create(NULL, &c.context));
    c.tallies = calloc(ops_count(c.context), sizeof *c.tallies);
    for (size_t i = 0; i < found.gl_pathc; i++) check_folder(&c, found.gl_pathv[i]);
    for (size_t i = 0; i < ops_count(c.context); i++) {
        const axes_tally *t = &c.tallies[i];
        nops += t->nchecked > 0;
        nplacements += t->nchecked;
        cr_expect_eq(t->nwrong, 0, "%s: %zu placements are not as its rule says: %s", ops_at(c.context, i)->type,
                     t->nwrong, t->wrong);
        if (c.finds_missing && t->nmissing)
            printf("%s: %zu missing: %s\n", ops_at(c.context, i)->type, t->nmissing, t->missing);
    }
    printf("%zu ops, %zu placements\n", nops, nplacements);
    globfree(&found);
    free(c.tallies);
    weft_context_destroy(c.context);
}
