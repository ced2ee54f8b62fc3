/* Hostile files: every prefix, random flips, counts of 2^60, bombs and no memory. Whatever the bytes, reading them ends
 * with a program or a status, and gives all memory back. It never holds more than 16 times the file and 16 MiB. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zip.h>

#include "base/context.h"
#include "program/tensors.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/fixtures.h"
#include "tests/support/table.h"

enum { FLIPS = 20000, MEMORY_FACTOR = 16, MEMORY_BASE = 16 << 20 };

static failing_allocator memory;
static weft_context *context;

static void begin(void) {
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&memory)};
    cr_assert_null(context_create_bare(&options, &context));
}

static void end(void) {
    context_destroy(context);
    cr_expect_eq(memory.held, 0, "%zu bytes are held", memory.held);
    cr_expect_not(memory.wrong_size);
}
TestSuite(program_hostile, .init = begin, .fini = end, .timeout = 1200);

/* --- small files of each form ------------------------------------------------------------------------------------- */

static const char with_everything[] =
    "weft: 1\n"
    "version: 2006002\n"
    "op_versions: [[adam, 4]]\n"
    "rank: 1\n"
    "rings: {0: [0, 1], 12: {ranks: [1, 0], type: p2p}}\n"
    "meshes: [{shape: [2], ids: [0, 1], dims: [dp]}]\n"
    "params_grads: [[w, w@GRAD]]\n"
    "dist_extra: '{\"loss\":\"l\"}'\n"
    "blocks:\n"
    "- vars:\n"
    "    x: {float32: [2, 3], lod: 0, stop_gradient: true, dist: {mesh: 0, dims_mapping: [-1, -1], partial: [0]}}\n"
    "    w: {bfloat16: [3], persistable: true, parameter: true, attrs: {a: 1, b: s, c: [1]}, dist: null}\n"
    "    b: {int64: [], persistable: true}\n"
    "    arr: {kind: 13, type_bytes: \"\\x08\\x0D\"}\n"
    "  ops:\n"
    "  - {relu: {X: [x]}, out: {Out: [nobody], None: []}, attrs: {.callstack: 0, .role: backward, f: 0.5, l: !long 3, "
    "d: "
    "!double 0.1, s: a, i: [1, 2], fs: [0.5], ss: [a, b], bs: [true], ls: !longs [1], ds: !doubles [1.5], v: !var x, "
    "vs: "
    "!vars [x], sc: !scalar [1.0, 2.0], scs: !scalars [1, true], sub_block: !block 1, blocks: !blocks [1]}, dist: "
    "{mesh: "
    "0, impl: default, stream: gradient_sync, record: e, wait: [a, b], in: {x: [0, -1]}, extra: "
    "'{\"stale_names\":1}'}}\n"
    "- {parent: 0, forward: 0, vars: {v: {float32: [1]}}, ops: [{scale: {X: [v]}, out: {Out: [v]}}]}\n"
    "callstacks: [[\"  File\", b]]\n";
static const char with_sub_blocks[] = "weft: 1\n"
                                      "blocks:\n"
                                      "- {vars: {p: {float64: [2, 2], persistable: true}}, ops: []}\n"
                                      "- {parent: 0, ops: [{a: {X: [p]}, attrs: {sub_block: !block 2}}]}\n"
                                      "- {parent: 1, forward: 0, ops: [{b: {X: [p]}}]}\n";
static const char with_little[] =
    "weft: 1\nblocks: [{vars: {u: {uint8: [5], persistable: true}}, ops: [{relu: {X: u}}]}]\n";
static const char *const texts[] = {with_everything, with_sub_blocks, with_little};

typedef enum { PDMODEL, YAML, SIDECAR, NPZ, PDIPARAMS } file_form;

typedef struct file_row {
    file_form form;
    const char *recorded; /* below the fixtures; NULL: made from a text */
    size_t made;
} file_row;

static const file_row file_rows[] = {
    {PDMODEL, NULL, 0},   {PDMODEL, NULL, 1},   {PDMODEL, "ops/transpose2/021.pdmodel", 0},
    {YAML, NULL, 0},      {YAML, NULL, 1},      {YAML, NULL, 2},
    {SIDECAR, NULL, 0},   {SIDECAR, NULL, 1},   {SIDECAR, NULL, 2},
    {NPZ, NULL, 0},       {NPZ, NULL, 1},       {NPZ, "paddle26/sparse_emb_dp2/feeds.npz", 0},
    {PDIPARAMS, NULL, 0}, {PDIPARAMS, NULL, 1}, {PDIPARAMS, NULL, 2},
};

static weft_program *program_of(size_t made) {
    weft_program *p = NULL;
    weft_status status =
        weft_program_parse(context, WEFT_FORM_YAML, texts[made], strlen(texts[made]), NULL, 0, "made", &p);
    cr_assert_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
    return p;
}

/* The persistables of a program, with bytes that count. */
static weft_tensors *tensors_of(const weft_program *p) {
    weft_tensors *tensors;
    cr_assert_null(weft_tensors_create(context, &tensors));
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        weft_tensor *t;
        if (!v->persistable) continue;
        cr_assert_null(weft_tensors_add(tensors, v->name->bytes, (weft_dtype)v->dtype, v->ndim, v->dims, &t));
        for (size_t k = 0; k < t->nbytes; k++) ((char *)t->data)[k] = (char)k;
    }
    return tensors;
}

static void take_npz(const weft_tensors *tensors, char **out_bytes, size_t *out_nbytes) {
    char path[80];
    const char *root = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.40s/weft_hostile_%ld.npz", root ? root : P_tmpdir, (long)getpid());
    cr_assert_null(weft_tensors_save(tensors, path));
    cr_assert_null(file_read(&context->allocator, path, SIZE_MAX, out_bytes, out_nbytes));
    remove(path);
}

/* The row's file; freed with base_free(.., nbytes + 1). False if it is not there. */
static bool take_file(const file_row *row, char **out_bytes, size_t *out_nbytes) {
    char path[400];
    if (row->recorded) {
        if (!fixture_path(path, sizeof path, row->recorded)) return false;
        cr_assert_null(file_read(&context->allocator, path, SIZE_MAX, out_bytes, out_nbytes));
        return true;
    }
    weft_program *p = program_of(row->made);
    weft_tensors *tensors = tensors_of(p);
    buffer out;
    buffer_init(&out, &context->allocator);
    switch (row->form) {
    case PDMODEL: cr_assert_null(pdmodel_print(p, &out)); break;
    case YAML: cr_assert_null(yaml_print(p, &out)); break;
    case SIDECAR: cr_assert_null(sidecar_print(p, &out)); break;
    case PDIPARAMS: cr_assert_null(pdiparams_print(tensors, &out)); break;
    case NPZ: take_npz(tensors, out_bytes, out_nbytes); break;
    }
    if (row->form != NPZ) cr_assert_null(buffer_take(&out, out_bytes, out_nbytes));
    buffer_fini(&out);
    weft_tensors_destroy(tensors);
    weft_program_destroy(p);
    return true;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* What a file is read with: the program that a sidecar or parameters belong to. */
static weft_status read_into(const file_row *row, weft_program *with, const char *bytes, size_t nbytes) {
    weft_program *p = NULL;
    weft_tensors *tensors = NULL;
    weft_status status = NULL;
    switch (row->form) {
    case PDMODEL:
    case YAML:
        status = weft_program_parse(context, row->form == YAML ? WEFT_FORM_YAML : WEFT_FORM_PDMODEL, bytes, nbytes,
                                    NULL, 0, "hostile", &p);
        if (!status) weft_program_destroy(p);
        return status;
    case SIDECAR:
        TRY(weft_program_clone(with, &p));
        status = sidecar_parse(p, bytes, nbytes, "hostile", true);
        weft_program_destroy(p);
        return status;
    case NPZ:
    case PDIPARAMS:
        TRY(weft_tensors_create(context, &tensors));
        status = row->form == NPZ ? npz_read(tensors, bytes, nbytes, "hostile", with)
                                  : pdiparams_read(tensors, bytes, nbytes, "hostile", with);
        weft_tensors_destroy(tensors);
        return status;
    }
    return status;
}

/* Reads, and checks what holds for any bytes. */
static void check(const file_row *row, weft_program *with, const char *bytes, size_t nbytes, const char *what,
                  size_t n) {
    size_t before = memory.held;
    memory.peak = before;
    weft_status status = read_into(row, with, bytes, nbytes);
    weft_code code = weft_status_code(status);
    bool worded = !status || (*weft_status_message(status) && *weft_status_place(status));
    weft_status_free(status);
    cr_assert(worded, "%s %zu: a status without words or place", what, n);
    cr_assert_neq(code, WEFT_OUT_OF_MEMORY, "%s %zu: the limit was the allocator's", what, n);
    cr_assert_eq(memory.held, before, "%s %zu leaves %zu bytes", what, n, memory.held - before);
    cr_assert_leq(memory.peak - before, nbytes * MEMORY_FACTOR + MEMORY_BASE, "%s %zu took %zu bytes", what, n,
                  memory.peak - before);
}

/* The same numbers in every run. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void check_prefixes(const file_row *row, weft_program *with, const char *bytes, size_t nbytes) {
    for (size_t n = 0; n < nbytes; n++) {
        char *prefix = malloc(n ? n : 1); /* at its own size, so that reading past it is seen */
        cr_assert_not_null(prefix);
        memcpy(prefix, bytes, n);
        check(row, with, prefix, n, "prefix", n);
        free(prefix);
    }
}

static void check_flips(const file_row *row, weft_program *with, const char *bytes, size_t nbytes, char *changed) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < FLIPS; i++) {
        memcpy(changed, bytes, nbytes);
        for (size_t k = 0; k < 1 + i % 4; k++)
            changed[next_random(&state) % nbytes] ^= (char)(1 + next_random(&state) % 255);
        check(row, with, changed, nbytes, "flip", i);
    }
}

/* 2^60 as a varint, as 8 bytes and as digits, over every place of the file. */
static void check_claims(const file_row *row, weft_program *with, const char *bytes, size_t nbytes, char *changed) {
    static const char *const claims[] = {"\x80\x80\x80\x80\x80\x80\x80\x80\x10", "\0\0\0\0\0\0\0\x10",
                                         "1152921504606846976"};
    static const size_t lengths[] = {9, 8, 19};
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i + lengths[k] <= nbytes; i++) {
            memcpy(changed, bytes, nbytes);
            memcpy(changed + i, claims[k], lengths[k]);
            check(row, with, changed, nbytes, "claim at", i);
        }
    }
}

TABLE_ROWS(program_hostile, any_bytes_end_in_a_status, file_rows);
TABLE_TEST(size_t *index, program_hostile, any_bytes_end_in_a_status) {
    const file_row *row = &file_rows[*index];
    char *bytes;
    size_t nbytes;
    if (!take_file(row, &bytes, &nbytes)) cr_skip_test("%s is not there", row->recorded);
    weft_program *with = program_of(row->made);
    weft_status status = read_into(row, with, bytes, nbytes);
    cr_assert_null(status, "%s", weft_status_message(status));
    char *changed = malloc(nbytes);
    cr_assert_not_null(changed);
    check_prefixes(row, with, bytes, nbytes);
    check_flips(row, with, bytes, nbytes, changed);
    check_claims(row, with, bytes, nbytes, changed);
    free(changed);
    base_free(&context->allocator, bytes, nbytes + 1);
    weft_program_destroy(with);
}

/* --- no memory ---------------------------------------------------------------------------------------------------- */

TABLE_ROWS(program_hostile, memory_may_run_out_anywhere, file_rows);
TABLE_TEST(size_t *index, program_hostile, memory_may_run_out_anywhere) {
    const file_row *row = &file_rows[*index];
    char *bytes;
    size_t nbytes;
    if (!take_file(row, &bytes, &nbytes)) cr_skip_test("%s is not there", row->recorded);
    weft_program *with = program_of(row->made);
    size_t before = memory.held;
    for (size_t n = 1;; n++) {
        memory.nrequests = 0;
        memory.fail_at = n;
        memory.failed = false;
        weft_status status = read_into(row, with, bytes, nbytes);
        memory.fail_at = 0;
        cr_assert_eq(memory.held, before, "request %zu refused: %zu bytes leak", n, memory.held - before);
        if (!memory.failed) {
            cr_expect_null(status);
            cr_expect_gt(n, 3);
            break;
        }
        cr_assert_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY, "request %zu refused: %s", n,
                     weft_status_message(status));
        weft_status_free(status);
    }
    base_free(&context->allocator, bytes, nbytes + 1);
    weft_program_destroy(with);
}

/* --- bombs -------------------------------------------------------------------------------------------------------- */

typedef struct bomb_row {
    file_form form;
    const char *before, *repeated, *after;
    size_t times;
} bomb_row;

static const bomb_row bomb_rows[] = {
    {YAML, "weft: 1\nblocks: [{ops: [{a: &a {X: [x]}}, ", "{a: *a}, ", "]}]\n", 1000},
    {YAML, "weft: 1\nblocks: ", "[", "", 200000},
    {YAML, "weft: 1\nblocks: [{ops: [{a: {X: [", "a,", "]}}]}]\n", 1000000},
    {YAML, "weft: 1\nblocks: [{ops: [", "{a: },", "]}]\n", 300000},
    {YAML, "weft: 1\nblocks: [{vars: {", "? ,", "}}]\n", 300000},
    {YAML, "weft: 1\nblocks: [", "{},", "]\n", 300000},
    {YAML, "weft: 1\nblocks: [{ops: [{a: {}, attrs: {a: \"", "\\x01", "\"}}]}]\n", 1000000},
    {YAML, "weft: 1\ncallstacks: [", "[],", "]\nblocks: []\n", 500000},
    {SIDECAR, "{\"ops\": ", "[", "", 100000},
    {SIDECAR, "{\"rank\": ", "{\"a\":", "", 100000},
    {SIDECAR, "{\"vars\": {\"x\": {\"dims_mapping\": [", "0,", "0]}}}", 300000},
    {SIDECAR, "{\"ops\": [", "{},", "{}]}", 200000},
    {PDMODEL, "\x08\x00\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\"\x02\x1a\x00", "", 300000},
};

/* Bytes of a program's one block. */
static void wrap_block(buffer *b) {
    char head[16];
    size_t n = 0, left = b->nbytes;
    head[n++] = 0x0a;
    for (; left >= 128; left >>= 7) head[n++] = (char)(left | 0x80);
    head[n++] = (char)left;
    buffer_append(b, head, n); /* room */
    cr_assert_null(buffer_status(b));
    memmove(b->bytes + n, b->bytes, b->nbytes - n);
    memcpy(b->bytes, head, n);
}

TABLE_ROWS(program_hostile, bombs_do_not_go_off, bomb_rows);
TABLE_TEST(size_t *index, program_hostile, bombs_do_not_go_off) {
    const bomb_row *row = &bomb_rows[*index];
    buffer b;
    buffer_init(&b, &context->allocator);
    size_t n = row->form == PDMODEL ? 13 : strlen(row->before), m = row->form == PDMODEL ? 4 : strlen(row->repeated);
    buffer_append(&b, row->before, n);
    for (size_t i = 0; i < row->times; i++) buffer_append(&b, row->repeated, m);
    buffer_text(&b, row->after);
    if (row->form == PDMODEL) wrap_block(&b);
    weft_program *with = program_of(0);
    check(&(file_row){.form = row->form}, with, b.bytes, b.nbytes, "bomb", *index);
    weft_program_destroy(with);
    buffer_fini(&b);
}

/* An archive of a few kilobytes that inflates to 64 MiB. */
Test(program_hostile, archives_do_not_inflate_without_limit) {
    enum { LARGE = 64 << 20 };
    zip_error_t error;
    zip_source_t *archive_bytes = zip_source_buffer_create(NULL, 0, 0, &error);
    cr_assert_not_null(archive_bytes);
    zip_t *archive = zip_open_from_source(archive_bytes, ZIP_TRUNCATE, &error);
    cr_assert_not_null(archive);
    zip_source_keep(archive_bytes);
    char *large = calloc(LARGE, 1);
    cr_assert_not_null(large);
    static const char header[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (67108736,), }";
    memset(large, ' ', 128);
    memcpy(large, header, sizeof header - 1);
    large[127] = '\n';
    cr_assert_geq(zip_file_add(archive, "x.npy", zip_source_buffer(archive, large, LARGE, 0), 0), 0);
    cr_assert_eq(zip_close(archive), 0);
    zip_stat_t about;
    cr_assert_eq(zip_source_stat(archive_bytes, &about), 0);
    char *bytes = malloc(about.size);
    cr_assert_not_null(bytes);
    cr_assert_eq(zip_source_open(archive_bytes), 0);
    cr_assert_eq(zip_source_read(archive_bytes, bytes, about.size), (zip_int64_t)about.size);
    zip_source_close(archive_bytes);
    zip_source_free(archive_bytes);
    file_row row = {.form = NPZ};
    weft_program *with = program_of(0);
    check(&row, with, bytes, about.size, "archive of", about.size);
    weft_status status = read_into(&row, with, bytes, about.size);
    cr_expect_eq(weft_status_code(status), WEFT_LIMIT, "%s", weft_status_message(status));
    weft_status_free(status);
    weft_program_destroy(with);
    free(bytes);
    free(large);
}

Test(program_hostile, what_32_bits_do_not_count_is_refused_unread) {
    weft_program *p;
    for (weft_form form = WEFT_FORM_PDMODEL; form <= WEFT_FORM_FX; form++) {
        weft_status status = weft_program_parse(context, form, "", (size_t)UINT32_MAX + 1, NULL, 0, "large", &p);
        cr_expect_eq(weft_status_code(status), WEFT_LIMIT, "%s", weft_status_message(status));
        weft_status_free(status);
    }
}
