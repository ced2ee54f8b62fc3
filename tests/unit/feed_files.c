/* What a process with some of the ranks reads of files of feeds and parameters: the parts of its ranks, and no more. */
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

/* Columns [first, end) of all rows. */
static void expect_columns(const weft_tensors *got, const weft_tensors *whole, const char *n, int64_t first,
                           int64_t end) {
    const weft_tensor *a = weft_tensors_find(got, n), *b = weft_tensors_find(whole, n);
    cr_assert(a && a->ndim == 2 && a->dims[0] == ROWS && a->dims[1] == COLUMNS, "%s", n);
    bool same = true;
    for (int64_t i = 0; i < ROWS; i++) {
        size_t at = (size_t)(i * COLUMNS + first) * sizeof(float);
        same &= memcmp((char *)a->data + at, (char *)b->data + at, (size_t)(end - first) * sizeof(float)) == 0;
    }
    cr_expect(same, "%s", n);
}

/* So many rows, and what is not elements: libzip looks for an archive's end in its last 64 KiB, twice here. */
static void expect_read(long long before, double rows) {
    long long n = nread() - before, most = (long long)(rows * COLUMNS * sizeof(float)) + (160 << 10);
    cr_expect_leq(n, most, "%lld bytes of at most %lld", n, most);
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

/* w by rows, v by columns, u whole: for rank 3, whose parts are the last. */
static void expect_params_read(const char *path, const weft_tensors *whole) {
    const weft_program *const programs[] = {program};
    weft_tensors *got;
    long long before = nread();
    cr_assert_null(weft_params_load(context, path, programs, 1, 3, 1, &got));
    expect_read(before, ROWS / 4 + ROWS / 4 + ROWS);
    expect_rows(got, whole, "w", 3 * ROWS / 4, ROWS);
    expect_columns(got, whole, "v", 3 * COLUMNS / 4, COLUMNS);
    expect_rows(got, whole, "u", 0, ROWS);
    weft_tensors_destroy(got);
}

Test(feed_files, of_parameters_the_part_of_ranks_is_read) {
    static const char *const names[] = {"w", "v", "u", "of_other_programs"};
    const char *path = in_folder("params.npz");
    weft_tensors *whole = save(path, names, 4);
    expect_params_read(path, whole);
    weft_tensors_destroy(whole);
}

/* Records in the order of names. */
Test(feed_files, of_combined_parameters_the_part_of_ranks_is_read) {
    static const char *const names[] = {"w", "v", "u"};
    const char *path = in_folder("all.pdiparams");
    weft_tensors *whole = save(path, names, 3);
    expect_params_read(path, whole);
    weft_tensors_destroy(whole);
}

Test(feed_files, parts_of_two_ranks_are_read_apart) {
    static const char *const names[] = {"v"};
    const char *path = in_folder("params.npz");
    const weft_program *const programs[] = {program};
    weft_tensors *whole = save(path, names, 1), *got;
    long long before = nread();
    cr_assert_null(weft_params_load(context, path, programs, 1, 0, 2, &got));
    expect_read(before, ROWS / 2);
    expect_columns(got, whole, "v", 0, COLUMNS / 2);
    weft_tensors_destroy(got);
    weft_tensors_destroy(whole);
}

Test(feed_files, of_one_array_the_rows_of_ranks_are_read) {
    static const char *const names[] = {"x"};
    const char *path = in_folder("x.npy");
    const weft_program *const programs[] = {program};
    weft_feeds_options o = {WEFT_FEEDS_OPTIONS_INIT, .programs = programs, .nprograms = 1, .nranks = NRANKS,
                            .nsteps = 1};
    weft_tensors *whole = save(path, names, 1), *got;
    long long before = nread();
    cr_assert_null(weft_feeds_load(context, path, &o, 2, 1, &got));
    expect_read(before, ROWS / 4);
    expect_rows(got, whole, "x", ROWS / 2, 3 * ROWS / 4);
    weft_tensors_destroy(got);
    weft_tensors_destroy(whole);
}

Test(feed_files, a_cut_array_or_parameter_file_is_an_error) {
    static const char *const names[] = {"w", "v", "u"}, *const array[] = {"w"};
    const weft_program *const programs[] = {program};
    const struct {
        const char *file;
        const char *const *names;
        size_t count;
    } cases[] = {{"all.pdiparams", names, 3}, {"w.npy", array, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (off_t length = 0; length < 5000; length = 3 * length + 1) {
            const char *path = in_folder(cases[i].file);
            weft_tensors *got = NULL;
            weft_tensors_destroy(save(path, cases[i].names, cases[i].count));
            cr_assert_eq(truncate(path, length), 0);
            weft_status status = weft_params_load(context, path, programs, 1, 0, 1, &got);
            cr_expect_eq(weft_status_code(status), WEFT_PARSE, "%s of %lld bytes: %s", cases[i].file, (long long)length,
                         weft_status_message(status));
            weft_status_free(status);
        }
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
    cr_expect_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_free(status);
    weft_tensors_destroy(whole);
}
