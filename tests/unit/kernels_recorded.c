/* Every kernel against what Paddle computed: the folders of fixtures/ops (2.6.2), of tests/data/ops_more (those that
 * only this tree has) and of fixtures/ops3 (3.3.1) whose ops all have a kernel. Each is run and compared, once with
 * every var in memory of its own and once in place where ops.def allows it. A new kernel is tested as soon as ops.def
 * names it. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <glob.h>
#include <stdio.h>

#include "executor/kernel.h"
#include "tests/support/fixtures.h"
#include "tests/support/ops_fixture.h"

enum { MAX_FOLDERS = 1200, NBATCHES = 8 };

/* One folder. */
typedef struct folder {
    char root[8], op[120], dir[400];
} folder;

static size_t add_folders(const glob_t *found, const char *root, folder *out, size_t count, size_t capacity) {
    for (size_t i = 0; i < found->gl_pathc && count < capacity; i++) {
        const char *path = found->gl_pathv[i], *op = strrchr(path, '/') + 1;
        if (strstr(op, ".json")) continue;
        snprintf(out[count].root, sizeof out[count].root, "%s", root);
        snprintf(out[count].op, sizeof out[count].op, "%s", op);
        snprintf(out[count++].dir, sizeof out->dir, "%s", path);
    }
    return count;
}

static size_t list_folders(folder *out, size_t capacity) {
    char pattern[600];
    size_t count = 0;
    glob_t found;
    if (fixture_glob_ops("*", &found) == 0) {
        count = add_folders(&found, "ops", out, count, capacity);
        globfree(&found);
    }
    snprintf(pattern, sizeof pattern, "%s/ops3/*", fixture_root());
    if (glob(pattern, 0, NULL, &found) == 0) {
        count = add_folders(&found, "ops3", out, count, capacity);
        globfree(&found);
    }
    return count;
}

/* Runs every recording of a folder; how many were compared, and a line to stderr for each that failed. */
static size_t run_folder(weft_context *context, const folder *f, size_t *out_failed) {
    const char *dir = f->dir;
    char pattern[640], why[400];
    size_t compared = 0;
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", dir);
    *out_failed = 0;
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *variant = strrchr(found.gl_pathv[i], '/') + 1;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        if (ops_fixture_is_known(context, f->root, f->op, variant)) continue;
        for (int mode = OPS_APART; mode <= OPS_IN_PLACE; mode++) {
            ops_result result = ops_fixture_run(context, dir, f->op, variant, (ops_mode)mode, why, sizeof why);
            compared += result != OPS_SKIPPED;
            if (result != OPS_FAILED) continue;
            ++*out_failed;
            fprintf(stderr, "%s/%s/%s%s: %s\n", f->root, f->op, variant, mode == OPS_IN_PLACE ? " in place" : "", why);
        }
    }
    globfree(&found);
    return compared;
}

/* A kernel whose recordings are all passed over would be tested by nothing. */
static bool must_be_compared(weft_context *context, const folder *f) {
    const op_schema *schema = ops_find(context, f->op);
    return strcmp(f->root, "ops") == 0 && kernel_find(schema) && !(schema->effects & OP_COLLECTIVE);
}

/* Batches, because a process takes longer to start than a folder to run; neighbours in the list are alike in what they
 * take. */
ParameterizedTestParameters(kernels_recorded, folders) {
    static size_t batches[NBATCHES];
    for (size_t i = 0; i < NBATCHES; i++) batches[i] = i;
    return cr_make_param_array(size_t, batches, NBATCHES);
}

ParameterizedTest(size_t *batch, kernels_recorded, folders) {
    static folder folders[MAX_FOLDERS];
    size_t count = list_folders(folders, MAX_FOLDERS);
    weft_context *context;
    cr_assert_null(weft_context_create(NULL, &context));
    for (size_t i = *batch; i < count; i += NBATCHES) {
        const folder *f = &folders[i];
        size_t failed, compared = run_folder(context, f, &failed);
        cr_expect_eq(failed, 0, "%s/%s: %zu recordings differ", f->root, f->op, failed);
        if (must_be_compared(context, f)) cr_expect(compared > 0, "nothing of %s was compared", f->op);
    }
    weft_context_destroy(context);
}

Test(kernels_recorded, many_kernels_have_recordings) {
    static folder folders[MAX_FOLDERS];
    size_t count = list_folders(folders, MAX_FOLDERS), covered = 0;
    weft_context *context;
    if (count == 0) cr_skip_test("no recordings here");
    cr_assert_lt(count, MAX_FOLDERS, "folders beyond these are not run");
    cr_assert_null(weft_context_create(NULL, &context));
    for (size_t i = 0; i < count; i++) covered += must_be_compared(context, &folders[i]);
    weft_context_destroy(context);
    cr_assert_gt(covered, 40, "only %zu kernels have recordings", covered);
}

static size_t check_marks(weft_context *context, const folder *f) {
    const char *dir = f->dir;
    char pattern[640], why[400] = "";
    size_t checked = 0;
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", dir);
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *variant = strrchr(found.gl_pathv[i], '/') + 1;
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        if (ops_fixture_is_known(context, f->root, f->op, variant)) continue;
        ops_result result = ops_fixture_run_linear(context, dir, variant, why, sizeof why);
        checked += result == OPS_PASSED;
        cr_expect_neq(result, OPS_FAILED, "%s/%s: %s", f->op, variant, why);
    }
    globfree(&found);
    return checked;
}

/* The marks from which proofs move factors: each holds of the kernel, bit for bit. */
Test(kernels_recorded, marks_of_linearity_hold) {
    static folder folders[MAX_FOLDERS];
    size_t count = list_folders(folders, MAX_FOLDERS), checked = 0;
    weft_context *context;
    if (count == 0) cr_skip_test("no recordings here");
    cr_assert_null(weft_context_create(NULL, &context));
    for (size_t i = 0; i < count; i++)
        if (strcmp(folders[i].root, "ops") == 0) checked += check_marks(context, &folders[i]);
    weft_context_destroy(context);
    cr_assert_gt(checked, 20, "only %zu recordings have ops that are marked linear", checked);
}
