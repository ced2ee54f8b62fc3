/* Every row of ops.def is whole: it has inference, a factor row or a reason for none (axes_table.c), a kernel, a
 * gradient where Paddle has one, a recorded case that is executed and compared; and what it makes of NaN and of empty
 * tensors is known. What a row lacks stands in a table with its reason (ops_complete.inc), and an entry that is no
 * longer true fails too. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/kernel.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/ops_fixture.h"

typedef struct entry {
    const char *op, *text; /* a reason, or another op */
} entry;

#define BEGIN(list) static const entry list[] = {
#define END {NULL, NULL}};
#include "tests/unit/ops_complete.inc"

static const struct {
    const char *op, *family, *infer;
} rows[] = {
#define OP(type, family, inputs, outputs, attrs, effects, infer_name, summary) {#type, #family, #infer_name},
#include "ops/ops.def"
#undef OP
};

enum { NROWS = sizeof rows / sizeof *rows };

static const char *entry_of(const entry *list, const char *op) {
    for (; list->op; list++)
        if (strcmp(list->op, op) == 0) return list->text;
    return NULL;
}

static bool has_row(const char *op) {
    for (size_t i = 0; i < NROWS; i++)
        if (strcmp(rows[i].op, op) == 0) return true;
    return false;
}

static bool is_of_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

static bool ends_with(const char *s, const char *tail) {
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

static bool is_gradient(const char *op) {
    return ends_with(op, "_grad") || ends_with(op, "_grad2") || ends_with(op, "_backward");
}

/* Ops of traced graphs have cases of their own (kernels_aten_cases.inc); collectives are tested on rings. */
static bool is_elsewhere(size_t row) {
    return strcmp(rows[row].family, "aten") == 0 || strcmp(rows[row].family, "collective") == 0;
}

/* `holds` and an entry contradict each other. */
static void expect_either(const char *op, bool holds, const char *reason, const char *what) {
    cr_expect(holds || reason, "%s has no %s: build it, or say why in ops_complete.inc", op, what);
    cr_expect(!holds || !reason, "%s has a %s: it needs no reason (\"%s\")", op, what, reason);
}

Test(ops_complete, entries_name_rows) {
    const entry *lists[] = {no_inference, no_kernel, gradients, no_gradient, no_recording, nan_goes, nan_refused,
                            empty_refused};
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (const entry *e = lists[k]; e->op; e++) cr_expect(has_row(e->op), "ops.def has no row %s", e->op);
}

Test(ops_complete, every_row_has_inference) {
    for (size_t i = 0; i < NROWS; i++)
        expect_either(rows[i].op, strcmp(rows[i].infer, "none") != 0, entry_of(no_inference, rows[i].op), "inference");
}

Test(ops_complete, every_row_has_a_kernel) {
    for (size_t i = 0; i < NROWS; i++)
        expect_either(rows[i].op, kernel_is_there((int)i), entry_of(no_kernel, rows[i].op), "kernel");
}

Test(ops_complete, every_row_has_its_gradient) {
    for (size_t i = 0; i < NROWS; i++) {
        char grad[120];
        const char *other = entry_of(gradients, rows[i].op), *reason = entry_of(no_gradient, rows[i].op);
        if (is_elsewhere(i) || is_gradient(rows[i].op)) continue;
        snprintf(grad, sizeof grad, "%s_grad", rows[i].op);
        expect_either(rows[i].op, has_row(other ? other : grad), reason, "gradient");
    }
}

/* --- recordings --------------------------------------------------------------------------------------------------- */

typedef ops_result (*recording_fn)(weft_context *context, const char *dir, const char *variant, void *arg);

/* Calls `look` for what was found; how many ended as they should. */
static size_t look_at_found(weft_context *context, glob_t *found, recording_fn look, void *arg) {
    size_t passed = 0;
    for (size_t i = 0; i < found->gl_pathc; i++) {
        char *variant = strrchr(found->gl_pathv[i], '/');
        variant[strlen(variant) - strlen(".pdmodel")] = 0;
        *variant++ = 0;
        passed += look(context, found->gl_pathv[i], variant, arg) == OPS_PASSED;
    }
    globfree(found);
    return passed;
}

/* The same for all recordings of an op: of Paddle 2.6.2, or where there are none of 3.3.1. */
static size_t for_each_recording(weft_context *context, const char *op, recording_fn look, void *arg) {
    char pattern[700];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.pdmodel", op);
    if (fixture_glob_ops(pattern, &found) == 0) return look_at_found(context, &found, look, arg);
    snprintf(pattern, sizeof pattern, "%s/ops3/%s/*.pdmodel", fixture_root(), op);
    return glob(pattern, 0, NULL, &found) == 0 ? look_at_found(context, &found, look, arg) : 0;
}

/* Runs and compares until one recording of the op has passed. */
static ops_result look_compared(weft_context *context, const char *dir, const char *variant, void *arg) {
    char why[400];
    const char *op = strrchr(dir, '/') + 1;
    bool *has_passed = arg;
    if (*has_passed || ops_fixture_is_known(context, strstr(dir, "/ops3/") ? "ops3" : "ops", op, variant))
        return OPS_SKIPPED;
    ops_result result = ops_fixture_run(context, dir, op, variant, OPS_APART, why, sizeof why);
    *has_passed = result == OPS_PASSED;
    return result;
}

/* --- where what has no recording is tried -------------------------------------------------------------------------- */

/* The types of ops in all programs that match a pattern. */
typedef struct held {
    const char *pattern;
    bool rows[NROWS];
} held;

static void mark_ops(weft_context *context, const char *path, bool *marks) {
    weft_program *program;
    must(weft_program_load(context, path, NULL, &program));
    for (size_t b = 0; b < program->nblocks; b++)
        FOR_EACH_OP(op, program->blocks[b]) {
            int row = ops_row_of(op->type->bytes);
            if (row >= 0) marks[row] = true;
        }
    weft_program_destroy(program);
}

static const held *programs_of(weft_context *context, const char *pattern) {
    static held known[4];
    size_t k = 0;
    glob_t found;
    char path[600];
    for (; k < 4 && known[k].pattern; k++)
        if (strcmp(known[k].pattern, pattern) == 0) return &known[k];
    cr_assert_lt(k, 4, "room for one more pattern");
    known[k].pattern = pattern;
    bool is_ours = strncmp(pattern, "tests/", 6) == 0;
    snprintf(path, sizeof path, "%s%s%s", is_ours ? "" : fixture_root(), is_ours ? "" : "/", pattern);
    cr_assert_eq(glob(path, 0, NULL, &found), 0, "nothing matches %s", path);
    for (size_t i = 0; i < found.gl_pathc; i++) mark_ops(context, found.gl_pathv[i], known[k].rows);
    globfree(&found);
    return &known[k];
}

static bool file_names(const char *path, const char *op) {
    char line[400];
    size_t n = strlen(op);
    FILE *f = fopen(path, "r");
    bool is_named = false;
    while (f && !is_named && fgets(line, sizeof line, f))
        for (const char *at = line; !is_named && (at = strstr(at, op)); at += n)
            is_named = (at == line || !is_of_word(at[-1])) && !is_of_word(at[n]);
    if (f) fclose(f);
    return is_named;
}

/* A reason ends with a test's file, which names the op, or with a pattern of programs, one of which holds it. */
static void expect_tried_elsewhere(weft_context *context, size_t row, const char *reason) {
    const char *colon = strrchr(reason, ':'), *where = colon ? colon + 2 : reason;
    if (strchr(where, '*'))
        cr_expect(programs_of(context, where)->rows[row], "no program of %s holds %s", where, rows[row].op);
    else
        cr_expect(file_names(where, rows[row].op), "%s does not name %s", where, rows[row].op);
}

static bool has_all_recordings(void) {
    char path[600];
    return fixture_path(path, sizeof path, "ops3");
}

Test(ops_complete, every_row_has_a_recording_that_is_compared) {
    weft_context *context;
    if (!has_all_recordings()) cr_skip_test("the shared recordings are not here");
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < NROWS; i++) {
        bool has_passed = false;
        const char *reason = entry_of(no_recording, rows[i].op);
        if (is_elsewhere(i)) continue;
        for_each_recording(context, rows[i].op, look_compared, &has_passed);
        expect_either(rows[i].op, has_passed, reason, "recording that is executed and compared");
        if (reason) expect_tried_elsewhere(context, i, reason);
    }
    weft_context_destroy(context);
}

static ops_result look_with_nan(weft_context *context, const char *dir, const char *variant, void *arg) {
    char why[400];
    return ops_fixture_run_edges(context, dir, variant, false, arg, why, sizeof why);
}
static ops_result look_without_rows(weft_context *context, const char *dir, const char *variant, void *arg) {
    char why[400];
    ops_result result = ops_fixture_run_edges(context, dir, variant, true, arg, why, sizeof why);
    if (result == OPS_FAILED && getenv("WEFT_SHOW_REFUSED")) fprintf(stderr, "%s/%s: %s\n", dir, variant, why);
    return result;
}

/* NaN in all floats that an op reads is NaN in one that it writes, unless a table says what else. */
Test(ops_complete, nan_is_kept_or_it_is_said_where_it_goes) {
    weft_context *context;
    size_t tried = 0;
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < NROWS; i++) {
        ops_edges e = {0};
        for_each_recording(context, rows[i].op, look_with_nan, &e);
        if (!e.nan_kept && !e.nan_gone && !e.nan_refused) continue;
        expect_either(rows[i].op, !e.nan_gone, entry_of(nan_goes, rows[i].op), "NaN wherever it read some");
        expect_either(rows[i].op, !e.nan_refused, entry_of(nan_refused, rows[i].op), "result for NaN");
        tried++;
    }
    weft_context_destroy(context);
    cr_expect_gt(tried, 100, "%zu ops were tried", tried);
}

/* Tensors without rows run, and leave nothing unwritten, or are refused where a table says why. */
Test(ops_complete, empty_tensors_run_or_it_is_said_why_not) {
    weft_context *context;
    size_t tried = 0;
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < NROWS; i++) {
        ops_edges e = {0};
        for_each_recording(context, rows[i].op, look_without_rows, &e);
        if (!e.empty_run && !e.empty_refused && !e.empty_left) continue;
        cr_expect_eq(e.empty_left, 0, "%s leaves elements unwritten", rows[i].op);
        expect_either(rows[i].op, e.empty_run > 0, entry_of(empty_refused, rows[i].op), "run on tensors without rows");
        tried++;
    }
    weft_context_destroy(context);
    cr_expect_gt(tried, 100, "%zu ops were tried", tried);
}
