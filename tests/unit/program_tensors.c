/* Tensors in files: what NumPy and Paddle wrote is read, what is written is read back and is the same every time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/context.h"
#include "program/tensors.h"
#include "tests/support/fixtures.h"
#include "tests/support/folder.h"
#include "tests/support/table.h"

static weft_context *context;

static void begin(void) {
    cr_assert_null(context_create_bare(NULL, &context));
    folder_begin();
}

static void end(void) {
    folder_end();
    context_destroy(context);
}
TestSuite(program_tensors, .init = begin, .fini = end);

static weft_tensors *load(const char *path, const weft_program *p) {
    weft_tensors *tensors = NULL;
    weft_status status = weft_tensors_load(context, path, p, &tensors);
    cr_assert_null(status, "%s: %s", path, weft_status_message(status));
    return tensors;
}

static bool tensor_equal(const weft_tensor *a, const weft_tensor *b) {
    return a && b && strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->dims, b->dims, a->ndim * sizeof *a->dims) == 0 && a->nbytes == b->nbytes &&
           memcmp(a->data, b->data, a->nbytes) == 0;
}

static void expect_same(const weft_tensors *a, const weft_tensors *b) {
    cr_expect_eq(weft_tensors_count(a), weft_tensors_count(b));
    for (size_t i = 0; i < weft_tensors_count(a); i++) {
        const weft_tensor *t = weft_tensors_at(a, i);
        cr_expect(tensor_equal(t, weft_tensors_find(b, t->name)), "%s differs", t->name);
    }
}

static void expect_same_bytes(const char *path_a, const char *path_b) {
    char *a, *b;
    size_t na, nb;
    cr_assert_null(file_read(&context->allocator, path_a, SIZE_MAX, &a, &na));
    cr_assert_null(file_read(&context->allocator, path_b, SIZE_MAX, &b, &nb));
    cr_expect(na == nb && memcmp(a, b, na) == 0, "%s and %s differ", path_a, path_b);
    base_free(&context->allocator, a, na + 1);
    base_free(&context->allocator, b, nb + 1);
}

/* --- sets --------------------------------------------------------------------------------------------------------- */

Test(program_tensors, a_set_finds_by_name_and_replaces) {
    enum { MANY = 1000 };
    weft_tensors *set;
    weft_tensor *t;
    char tensor_name[16];
    cr_assert_null(weft_tensors_create(context, &set));
    cr_expect_null(weft_tensors_find(set, "t0"));
    for (int i = 0; i < MANY; i++) {
        snprintf(tensor_name, sizeof tensor_name, "t%d", i);
        cr_assert_null(weft_tensors_add(set, tensor_name, WEFT_INT32, 1, (int64_t[]){1}, &t));
        cr_expect_eq(*(int32_t *)t->data, 0, "new tensors are zero");
        *(int32_t *)t->data = i;
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(tensor_name, sizeof tensor_name, "t%d", i);
        cr_assert_eq(*(int32_t *)weft_tensors_find(set, tensor_name)->data, i);
    }
    cr_assert_null(weft_tensors_add(set, "t7", WEFT_FP64, 0, NULL, &t));
    cr_expect_eq(weft_tensors_count(set), MANY);
    cr_expect_eq(weft_tensors_find(set, "t7")->dtype, WEFT_FP64);
    cr_expect_eq(weft_tensors_find(set, "t7")->nbytes, 8);
    cr_expect_null(weft_tensors_at(set, MANY));
    weft_status status = weft_tensors_add(set, "big", WEFT_FP32, 3, (int64_t[]){1 << 30, 1 << 30, 1 << 30}, &t);
    cr_expect_eq(weft_status_code(status), WEFT_LIMIT);
    weft_status_free(status);
    weft_tensors_destroy(set);
}

Test(program_tensors, borrowed_data_stays_the_callers) {
    static const float mine[2] = {1.5f, 2.5f};
    weft_tensors *set, *again;
    weft_tensor *t;
    cr_assert_null(weft_tensors_create(context, &set));
    cr_assert_null(weft_tensors_add(set, "a", WEFT_INT32, 1, (int64_t[]){1}, &t));
    cr_assert_null(weft_tensors_borrow(set, "a", WEFT_FP32, 1, (int64_t[]){2}, mine));
    cr_assert_null(weft_tensors_borrow(set, "b", WEFT_FP32, 2, (int64_t[]){2, 1}, mine));
    cr_expect_eq(weft_tensors_find(set, "a")->data, mine, "nothing is copied");
    cr_assert_null(weft_tensors_save(set, in_folder("mine.npz")));
    again = load(in_folder("mine.npz"), NULL);
    expect_same(set, again);
    cr_assert_null(weft_tensors_add(set, "b", WEFT_FP32, 1, (int64_t[]){1}, &t));
    cr_expect_neq(t->data, mine, "data of its own again");
    const char *odd = (const char *)mine + 1;
    weft_status status = weft_tensors_borrow(set, "c", WEFT_FP32, 0, NULL, odd);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT, "not aligned");
    weft_status_free(status);
    cr_expect_eq(weft_tensors_count(set), 2);
    weft_tensors_destroy(set);
    weft_tensors_destroy(again);
}

/* Every element type, a 0-d and an empty one, odd names. */
static weft_tensors *mixed(void) {
    static const weft_dtype dtypes[] = {WEFT_BOOL, WEFT_INT8, WEFT_UINT8, WEFT_INT16, WEFT_INT32,     WEFT_INT64,
                                        WEFT_FP16, WEFT_BF16, WEFT_FP32,  WEFT_FP64,  WEFT_COMPLEX64, WEFT_COMPLEX128};
    weft_tensors *set;
    weft_tensor *t;
    cr_assert_null(weft_tensors_create(context, &set));
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        cr_assert_null(weft_tensors_add(set, weft_dtype_name(dtypes[i]), dtypes[i], 2, (int64_t[]){2, 3}, &t));
        for (size_t k = 0; k < t->nbytes; k++) ((char *)t->data)[k] = (char)(dtypes[i] == WEFT_BOOL ? k % 2 : k);
    }
    cr_assert_null(weft_tensors_add(set, "0/x@GRAD", WEFT_FP32, 0, NULL, &t));
    *(float *)t->data = 1.5f;
    cr_assert_null(weft_tensors_add(set, "empty", WEFT_FP32, 2, (int64_t[]){0, 4}, &t));
    cr_assert_null(weft_tensors_add(set,
                                    "gr\xc3\xb6\xc3\x9f"
                                    "e",
                                    WEFT_INT64, 1, (int64_t[]){1}, &t));
    return set;
}

Test(program_tensors, npz_reads_back_and_is_the_same_every_time) {
    weft_tensors *set = mixed(), *again;
    char first[FOLDER_PATH_ROOM];
    snprintf(first, sizeof first, "%s", in_folder("a.npz"));
    cr_assert_null(weft_tensors_save(set, first));
    cr_assert_null(weft_tensors_save(set, in_folder("b.npz")));
    expect_same_bytes(first, in_folder("b.npz"));
    again = load(first, NULL);
    expect_same(set, again);
    weft_tensors_destroy(set);
    weft_tensors_destroy(again);
}

Test(program_tensors, a_set_of_none_is_a_file_too) {
    weft_tensors *set, *again;
    cr_assert_null(weft_tensors_create(context, &set));
    cr_assert_null(weft_tensors_save(set, in_folder("none.npz")));
    again = load(in_folder("none.npz"), NULL);
    cr_expect_eq(weft_tensors_count(again), 0);
    weft_tensors_destroy(set);
    weft_tensors_destroy(again);
}

Test(program_tensors, npy_is_named_by_its_file) {
    weft_tensors *set, *again;
    weft_tensor *t;
    cr_assert_null(weft_tensors_create(context, &set));
    cr_assert_null(weft_tensors_add(set, "loss", WEFT_FP32, 1, (int64_t[]){2}, &t));
    ((float *)t->data)[1] = 0.25f;
    cr_assert_null(weft_tensors_save(set, in_folder("loss.npy")));
    again = load(in_folder("loss.npy"), NULL);
    expect_same(set, again);
    cr_assert_null(weft_tensors_add(set, "other", WEFT_FP32, 0, NULL, &t));
    weft_status status = weft_tensors_save(set, in_folder("loss.npy"));
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT, "one file, two tensors");
    weft_status_free(status);
    weft_tensors_destroy(set);
    weft_tensors_destroy(again);
}

Test(program_tensors, other_names_are_refused) {
    weft_tensors *set = mixed(), *again;
    weft_status status = weft_tensors_save(set, in_folder("x.txt"));
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    status = weft_tensors_load(context, in_folder("nowhere.npz"), NULL, &again);
    cr_expect_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_free(status);
    weft_tensors_destroy(set);
}

/* --- arrays of NumPy ---------------------------------------------------------------------------------------------- */

typedef struct array_row {
    int version;
    const char *header;
    const char *data; /* bytes */
    size_t nbytes;
    weft_dtype dtype; /* NONE: refused */
    size_t ndim;
    int64_t dims[3];
    const char *expected; /* the tensor's bytes; or words of the message */
} array_row;

static const array_row array_rows[] = {
    {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc", 3, WEFT_UINT8, 1, {3}, "abc"},
    {2, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc", 3, WEFT_UINT8, 1, {3}, "abc"},
    {3, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc", 3, WEFT_UINT8, 1, {3}, "abc"},
    {1, "{'shape': (2, 2), 'fortran_order': False, 'descr': '<u1'}", "abcd", 4, WEFT_UINT8, 2, {2, 2}, "abcd"},
    {1, "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", "abcdef", 6, WEFT_INT8, 2, {2, 3}, "acebdf"},
    {1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 2), }", "aabbccdd", 8, WEFT_INT16, 2, {2, 2}, "aaccbbdd"},
    {1,
     "{'descr': '|i1', 'fortran_order': True, 'shape': (2, 1, 3), }",
     "abcdef",
     6,
     WEFT_INT8,
     3,
     {2, 1, 3},
     "acebdf"},
    {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "abcd", 4, WEFT_FP32, 0, {0}, "abcd"},
    {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 5), }", "", 0, WEFT_FP64, 2, {0, 5}, ""},
    {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (1,), }", "ab", 2, WEFT_BF16, 1, {1}, "ab"},
    {1,
     "{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }",
     "abcd",
     4,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "little-endian"},
    {1,
     "{'descr': '<U3', 'fortran_order': False, 'shape': (), }",
     "a\0\0\0b\0\0\0c\0\0\0",
     12,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "dtype"},
    {1,
     "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }",
     "abcd",
     4,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "dtype"},
    {1,
     "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }",
     "abc",
     3,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "claims 4 bytes, found 3"},
    {1,
     "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }",
     "abc",
     3,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "claims 2 bytes, found 3"},
    {1,
     "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
     "",
     0,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "claims"},
    {1,
     "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
     "",
     0,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "64 bits"},
    {1,
     "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1), }",
     "a",
     1,
     WEFT_DTYPE_NONE,
     0,
     {0},
     "axes"},
    {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (-1,), }", "a", 1, WEFT_DTYPE_NONE, 0, {0}, "extent"},
    {1, "{'descr': '|u1', 'fortran_order': False}", "a", 1, WEFT_DTYPE_NONE, 0, {0}, "shape"},
    {1, "{'descr': '|u1', 'shape': (1,)}", "a", 1, WEFT_DTYPE_NONE, 0, {0}, "fortran_order"},
    {4, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", "a", 1, WEFT_DTYPE_NONE, 0, {0}, "version"},
};

static size_t put_array(char *out, const array_row *row) {
    size_t n = 0, length = strlen(row->header);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)row->version;
    out[7] = 0;
    n = row->version == 1 ? 10 : 12;
    memset(out + 8, 0, 4);
    out[8] = (char)length;
    memcpy(out + n, row->header, length);
    if (row->nbytes) memcpy(out + n + length, row->data, row->nbytes);
    return n + length + row->nbytes;
}

TABLE_ROWS(program_tensors, arrays_of_numpy, array_rows);
TABLE_TEST(size_t *index, program_tensors, arrays_of_numpy) {
    const array_row *row = &array_rows[*index];
    char bytes[256];
    size_t nbytes = put_array(bytes, row);
    weft_tensors *set = NULL;
    cr_assert_null(file_write(&context->allocator, in_folder("x.npy"), bytes, nbytes));
    weft_status status = weft_tensors_load(context, in_folder("x.npy"), NULL, &set);
    if (row->dtype == WEFT_DTYPE_NONE) {
        cr_assert_not_null(status, "accepted: %s", row->header);
        cr_expect(strstr(weft_status_message(status), row->expected), "%s: %s", row->header,
                  weft_status_message(status));
        cr_expect(strstr(weft_status_place(status), "x.npy"));
        weft_status_free(status);
        return;
    }
    cr_assert_null(status, "%s: %s", row->header, weft_status_message(status));
    const weft_tensor *t = weft_tensors_find(set, "x");
    cr_assert_not_null(t);
    cr_expect_eq(t->dtype, row->dtype);
    cr_expect_eq(t->ndim, row->ndim);
    cr_expect(row->ndim == 0 || memcmp(t->dims, row->dims, row->ndim * sizeof *t->dims) == 0);
    cr_expect(row->nbytes == 0 || memcmp(t->data, row->expected, row->nbytes) == 0, "%s", row->header);
    weft_tensors_destroy(set);
}

/* --- parameters of Paddle ----------------------------------------------------------------------------------------- */

static weft_program *serial(const char *folder_name, char *out_params, char *out_npz, size_t room) {
    char program_path[400], relative[200];
    weft_program *p;
    snprintf(relative, sizeof relative, "%s/serial.pdmodel", folder_name);
    if (!fixture_path(program_path, sizeof program_path, relative)) return NULL;
    snprintf(relative, sizeof relative, "%s/params.pdiparams", folder_name);
    if (!fixture_path(out_params, room, relative)) return NULL;
    snprintf(relative, sizeof relative, "%s/params.npz", folder_name);
    if (!fixture_path(out_npz, room, relative)) return NULL;
    cr_assert_null(weft_program_load(context, program_path, NULL, &p));
    return p;
}

Test(program_tensors, parameters_of_paddle_come_back_as_the_bytes_they_were) {
    char params[400], npz[400];
    weft_program *p = serial("paddle26/mlp_sgd_dp2", params, npz, sizeof params);
    if (!p) cr_skip_test("no recorded parameters");
    weft_tensors *from_params = load(params, p), *from_npz = load(npz, p);
    cr_expect_gt(weft_tensors_count(from_params), 3);
    expect_same(from_params, from_npz);
    cr_assert_null(weft_tensors_save(from_npz, in_folder("again.pdiparams")));
    expect_same_bytes(params, in_folder("again.pdiparams"));
    weft_tensors_destroy(from_params);
    weft_tensors_destroy(from_npz);
    weft_program_destroy(p);
}

Test(program_tensors, parameters_need_their_program_and_all_their_bytes) {
    char params[400], npz[400], *bytes;
    size_t nbytes;
    weft_program *p = serial("paddle26/mlp_sgd_dp2", params, npz, sizeof params);
    if (!p) cr_skip_test("no recorded parameters");
    weft_tensors *set;
    weft_status status = weft_tensors_load(context, params, NULL, &set);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    cr_assert_null(file_read(&context->allocator, params, SIZE_MAX, &bytes, &nbytes));
    cr_assert_null(file_write(&context->allocator, in_folder("short.pdiparams"), bytes, nbytes - 1));
    status = weft_tensors_load(context, in_folder("short.pdiparams"), p, &set);
    cr_expect_eq(weft_status_code(status), WEFT_PARSE);
    weft_status_free(status);
    cr_assert_null(file_write(&context->allocator, in_folder("long.pdiparams"), bytes, nbytes + 1)); /* its NUL */
    status = weft_tensors_load(context, in_folder("long.pdiparams"), p, &set);
    cr_expect_eq(weft_status_code(status), WEFT_PARSE);
    cr_expect(strstr(weft_status_message(status), "1 bytes more"), "%s", weft_status_message(status));
    weft_status_free(status);
    base_free(&context->allocator, bytes, nbytes + 1);
    weft_program_destroy(p);
}
