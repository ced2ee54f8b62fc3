/* plan_fixtures.c: every recorded training program can be planned, and its plan read back; small ones are also checked
 * by brute force. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"
#include "tests/support/fixtures.h"
#include "tests/support/plan_check.h"

enum { SMALL = 100, TINY = 60 }; /* instructions: brute force is cubic, and more where waits are left out one by one */

static void must(weft_status status, const char *path) {
    cr_assert_null(status, "%s: %s", path, weft_status_message(status));
}

static void check_text(weft_context *ctx, const weft_plan *plan, const char *path) {
    char *a, *b;
    size_t na, nb;
    weft_plan *read;
    must(weft_plan_print(plan, &a, &na), path);
    must(weft_plan_parse(ctx, a, na, path, &read), path);
    must(weft_plan_print(read, &b, &nb), path);
    cr_assert(na == nb && memcmp(a, b, na) == 0, "%s: the plan reads back differently", path);
    weft_bytes_free(ctx, a, na);
    weft_bytes_free(ctx, b, nb);
    weft_plan_destroy(read);
}

/* Temporaries take up little more than what is live at once. Live bytes are counted without padding; what a few small
 * buffers are padded with is granted. */
static void check_arena(const weft_plan *plan, const char *path) {
    double most = 1.05 * (double)plan->live_nbytes + 256;
    cr_assert_geq(plan->temporary_nbytes, plan->live_nbytes, "%s: more is live than there is room for", path);
    cr_assert_leq((double)plan->temporary_nbytes, most, "%s: %lld bytes of temporaries, %lld are live", path,
                  (long long)plan->temporary_nbytes, (long long)plan->live_nbytes);
}

static void plan_file(weft_context *ctx, const char *path) {
    weft_program *program;
    weft_plan *plan = NULL;
    must(weft_program_load(ctx, path, NULL, &program), path);
    weft_status status = weft_plan_create(program, NULL, &plan);
    bool has_sparse_reduce = strstr(path, "sparse_emb") && strstr(path, "/rank") && !strstr(path, "startup");
    if (has_sparse_reduce) {
        cr_assert_not_null(status, "%s: expected to be refused", path);
        cr_assert_not_null(strstr(weft_status_message(status), "SelectedRows"), "%s: %s", path,
                           weft_status_message(status));
        weft_status_free(status);
    } else {
        char why[300];
        must(status, path);
        check_text(ctx, plan, path);
        check_arena(plan, path);
        if (plan->ninstrs <= SMALL)
            cr_assert(plan_check(plan, plan->ninstrs <= TINY, why, sizeof why), "%s: %s", path, why);
    }
    weft_plan_destroy(plan);
    weft_program_destroy(program);
}

static size_t plan_all(weft_context *ctx, const char *pattern) {
    char full[512];
    glob_t found;
    size_t n = 0;
    snprintf(full, sizeof full, "%s/%s", fixture_root(), pattern);
    if (glob(full, 0, NULL, &found)) return 0;
    for (; n < found.gl_pathc; n++) plan_file(ctx, found.gl_pathv[n]);
    globfree(&found);
    return n;
}

static void plan_folder(const char *folder) {
    static const char *const names[] = {"serial.pdmodel*", "startup.pdmodel*", "rank*.pdmodel*"};
    weft_context *ctx;
    size_t n = 0;
    char pattern[128];
    must(weft_context_create(NULL, &ctx), folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(pattern, sizeof pattern, "%s/*/%s", folder, names[i]);
        n += plan_all(ctx, pattern);
    }
    weft_context_destroy(ctx);
    if (!n) cr_skip_test("no fixtures");
}

Test(plan_fixtures, paddle26) {
    plan_folder("paddle26");
}
Test(plan_fixtures, paddle3) {
    plan_folder("paddle3");
}
