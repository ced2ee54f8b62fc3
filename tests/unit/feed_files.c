/* What a process with some of the ranks reads of files of feeds and parameters: the rows of its ranks, and no more. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>
#include <zip.h>

#include "base/context.h"
#include "tests/support/folder.h"
#include "weft/feeds.h"
#include "weft/program.h"

enum { NRANKS = 4, ROWS = 256, COLUMNS = 1024, NSTEPS = 3 };

static weft_context *context;
static weft_program *program;

/* x is split by rows, w over the ranks, v along its columns; u is whole. */
static const char source[] =
    "weft: 1\nrings: {0: [0, 1, 2, 3]}\nmeshes:\n- {shape: [4], ids: [0, 1, 2, 3], dims: [dp]}\n"
    "blocks:\n- vars:\n    x: {float32: [-1, 1024]}\n"
    "    w: {float32: [64, 1024], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1]}}\n"
    "    v: {float32: [256, 256], persistable: true, dist: {mesh: 0, dims_mapping: [-1, 0]}}\n"
    "    u: {float32: [256, 1024], persistable: true}\n    y: {float32: [-1, 1024]}\n  ops:\n"
    "  - {scale: {X: [x]}, out: {Out: [y]}, attrs: {scale: 2.0}}\n";

static void begin(void) {
    cr_assert_null(weft_context_create(NULL, &context));
    cr_assert_null(weft_program_parse(context, WEFT_FORM_YAML, source, strlen(source), NULL, 0, "p.yaml", &program));
    folder_begin();
}

static void end(void) {
    folder_end();
    weft_program_destroy(program);
    weft_context_destroy(context);
}
TestSuite(feed_files, .init = begin, .fini = end);

static void put(weft_tensors *set, const char *n, int64_t rows) {
    weft_tensor *t;
    cr_assert_null(weft_tensors_add(set, n, WEFT_FP32, 2, (const int64_t[]){rows, COLUMNS}, &t));
    for (int64_t i = 0; i < rows * COLUMNS; i++) ((float *)t->data)[i] = (float)i + (float)n[0];
}

static weft_tensors *save(const char *path, const char *const *names, size_t count) {
    weft_tensors *set;
    cr_assert_null(weft_tensors_create(context, &set));
    for (size_t i = 0; i < count; i++) put(set, names[i], ROWS);
    cr_assert_null(weft_tensors_save(set, path));
    return set;
}

/* Bytes that this process has read so far. */
static long long nread(void) {
    long long n = 0;
    FILE *file = fopen("/proc/self/io", "r");
    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "rchar: %lld", &n), 1);
    fclose(file);
    return n;
}

static void expect_rows(const weft_tensors *got, const weft_tensors *whole, const char *n, int64_t first, int64_t end) {
    const weft_tensor *a = weft_tensors_find(got, n), *b = weft_tensors_find(whole, n);
    size_t row = COLUMNS * sizeof(float), at = (size_t)first * row;
    cr_assert(a && a->ndim == 2 && a->dims[0] == ROWS && a->dims[1] == COLUMNS, "%s", n);
    cr_expect(memcmp((char *)a->data + at, (char *)b->data + at, (size_t)(end - first) * row) == 0, "%s", n);
}

Test(feed_files, feeds_are_read_by_the_rows_of_ranks_and_the_steps_that_run) {
    static const char *const names[] = {"0/x", "1/x", "2/x"};
    const char *path = in_folder("feeds.npz");
    weft_tensors *whole = save(path, names, NSTEPS), *got;
    const weft_program *const programs[] = {program};
    weft_feeds_options o = {WEFT_FEEDS_OPTIONS_INIT, .programs = programs, .nprograms = 1, .nranks = NRANKS,
                            .first_step = 1};
    long long before = nread();
    cr_assert_null(weft_feeds_load(context, path, &o, 1, 2, &got));
    long long most = 2LL * (ROWS / 2) * COLUMNS * (long long)sizeof(float) + (256 << 10);
    cr_expect_leq(nread() - before, most, "%lld bytes of at most %lld", nread() - before, most);
    expect_rows(got, whole, "1/x", ROWS / 4, 3 * ROWS / 4);
    expect_rows(got, whole, "2/x", ROWS / 4, 3 * ROWS / 4);
    weft_tensors_destroy(got);
    weft_tensors_destroy(whole);
}

Test(feed_files, of_parameters_the_part_of_ranks_is_read) {
    static const char *const names[] = {"w", "v", "u", "of_other_programs"};
    const char *path = in_folder("params.npz");
    weft_tensors *whole = save(path, names, 4), *got;
    const weft_program *const programs[] = {program};
    long long before = nread();
    cr_assert_null(weft_params_load(context, path, programs, 1, 3, 1, &got));
    long long most = (2LL * ROWS + ROWS / 4) * COLUMNS * (long long)sizeof(float) + (256 << 10);
    cr_expect_leq(nread() - before, most, "%lld bytes of at most %lld", nread() - before, most);
    expect_rows(got, whole, "w", 3 * ROWS / 4, ROWS);
    expect_rows(got, whole, "v", 0, ROWS);
    expect_rows(got, whole, "u", 0, ROWS);
    weft_tensors_destroy(got);
    weft_tensors_destroy(whole);
}

Test(feed_files, compressed_members_are_read_by_rows_too) {
    static const char *const names[] = {"x"};
    const char *path = in_folder("feeds.npz");
    weft_tensors *whole = save(path, names, 1), *got;
    const weft_program *const programs[] = {program};
    weft_feeds_options o = {WEFT_FEEDS_OPTIONS_INIT, .programs = programs, .nprograms = 1, .nranks = NRANKS};
    zip_t *archive = zip_open(path, 0, NULL);
    cr_assert(archive && zip_set_file_compression(archive, 0, ZIP_CM_DEFLATE, 0) == 0 && zip_close(archive) == 0);
    cr_assert_null(weft_feeds_load(context, path, &o, 3, 1, &got));
    expect_rows(got, whole, "x", 3 * ROWS / 4, ROWS);
    weft_tensors_destroy(got);
    weft_tensors_destroy(whole);
}

Test(feed_files, a_cut_file_is_an_error) {
    static const char *const names[] = {"0/x"};
    const char *path = in_folder("feeds.npz");
    weft_tensors *whole = save(path, names, 1), *got = NULL;
    const weft_program *const programs[] = {program};
    weft_feeds_options o = {WEFT_FEEDS_OPTIONS_INIT, .programs = programs, .nprograms = 1, .nranks = NRANKS};
    cr_assert_eq(truncate(path, 5000), 0);
    weft_status status = weft_feeds_load(context, path, &o, 0, 1, &got);
    cr_expect_eq(weft_status_code(status), WEFT_PARSE);
    weft_status_free(status);
    status = weft_feeds_load(context, in_folder("nowhere.npz"), &o, 0, 1, &got);
    cr_expect_eq(weft_status_code(status), WEFT_IO);
    weft_status_free(status);
    weft_tensors_destroy(whole);
}
