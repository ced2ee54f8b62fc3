/* Large programs go to their files in pieces: the bytes are those of printing, however well the length of a block was
 * guessed, and a save that fails leaves what was there. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "program/ir.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/folder.h"
#include "tests/support/table.h"

TestSuite(program_save, .init = folder_begin, .fini = folder_end);

/* --- programs ----------------------------------------------------------------------------------------------------- */

/* Ops of two blocks, each of an input and an output with names so long; block by block. */
typedef struct large {
    size_t nops[2], name_nbytes;
    bool with_dist;
    const char *about;
} large;

static const large programs[] = {
    {{10, 10}, 10, true, "a few ops: in one piece"},
    {{6000, 6000}, 100, true, "lengths as thought: written once"},
    {{500, 500}, 3000, false, "longer than thought, both blocks: written twice"},
    {{10, 9000}, 4, true, "shorter than thought: the second block is written twice"},
};

static void add_ops(weft_block *b, const large *of, size_t count) {
    weft_program *p = b->program;
    char *long_name = malloc(of->name_nbytes + 16);
    memset(long_name, 'n', of->name_nbytes);
    snprintf(long_name + of->name_nbytes, 16, "_%d", b->idx);
    weft_var *v;
    weft_op *op;
    cr_assert_null(weft_block_add_var(b, long_name, WEFT_FP32, 0, NULL, &v));
    for (size_t i = 0; i < count; i++) {
        cr_assert_null(weft_op_create(p, "relu", &op));
        cr_assert_null(weft_op_add_input(op, "X", v));
        cr_assert_null(weft_op_add_output(op, "Out", v));
        if (b->last)
            op_share_attrs(op, b->last);
        else
            cr_assert_null(weft_op_set_attr_int(op, "op_role", 0));
        weft_block_insert_before(b, NULL, op);
        op_dist *d;
        if (!of->with_dist) continue;
        cr_assert_null(op_dist_get(op, &d));
        d->execution_stream = "gradient_sync";
        d->event_to_record = "an_event_of_some_length";
    }
    free(long_name);
}

static weft_program *make(weft_context *context, const large *of) {
    weft_program *p = NULL;
    weft_block *b;
    cr_assert_null(weft_program_create(context, &p));
    cr_assert_null(program_add_block(p, 0, &b));
    for (size_t i = 0; i < 2; i++) add_ops(p->blocks[i], of, of->nops[i]);
    p->has_dist = of->with_dist;
    return p;
}

static void assert_holds(const char *leaf, const char *expected, size_t nexpected) {
    weft_allocator libc = base_libc_allocator();
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_status status = file_read(&libc, in_folder(leaf), SIZE_MAX, &bytes, &nbytes);
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_assert_eq(nbytes, nexpected, "%s: %zu bytes, expected %zu", leaf, nbytes, nexpected);
    cr_assert_eq(memcmp(bytes, expected, nexpected), 0, "%s: other bytes", leaf);
    base_free(&libc, bytes, nbytes + 1);
}

/* --- what is written ---------------------------------------------------------------------------------------------- */

static void assert_saved(const weft_program *p, weft_form form, const char *leaf) {
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_status status = weft_program_save(p, in_folder(leaf));
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_assert_null(weft_program_print(p, form, &bytes, &nbytes));
    assert_holds(leaf, bytes, nbytes);
    weft_bytes_free(p->context, bytes, nbytes);
}

TABLE_ROWS(program_save, files_hold_what_is_printed, programs);
TABLE_TEST(size_t *row, program_save, files_hold_what_is_printed) {
    const large *of = &programs[*row];
    weft_context *context;
    cr_assert_null(context_create_bare(NULL, &context));
    weft_program *p = make(context, of);
    assert_saved(p, WEFT_FORM_PDMODEL, "p.pdmodel");
    assert_saved(p, WEFT_FORM_PDMODEL, "p.pdmodel"); /* in the place of the first */
    assert_saved(p, WEFT_FORM_PDMODEL, "p.pdmodel.gz");
    if (of->name_nbytes < 1000) assert_saved(p, WEFT_FORM_YAML, "p.yaml");
    char *json;
    size_t nbytes;
    cr_assert_null(weft_program_print_sidecar(p, &json, &nbytes));
    if (of->with_dist) assert_holds("p.dist.json", json, nbytes);
    weft_bytes_free(context, json, nbytes);
    weft_program_destroy(p);
    context_destroy(context);
}

/* What saving takes beside the program does not grow with the file. */
Test(program_save, a_large_file_does_not_stand_in_memory) {
    failing_allocator state = {.fail_at = 0};
    weft_context *context;
    cr_assert_null(context_create_bare(
        &(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&state)}, &context));
    for (size_t i = 1; i < sizeof programs / sizeof *programs; i++) {
        weft_program *p = make(context, &programs[i]);
        size_t before = state.peak = state.held;
        cr_assert_null(weft_program_save(p, in_folder("p.pdmodel")));
        struct stat found;
        cr_assert_eq(stat(in_folder("p.pdmodel"), &found), 0);
        cr_expect_lt(state.peak - before, (3u << 20) / 4, "%s: %zu bytes for a file of %lld", programs[i].about,
                     state.peak - before, (long long)found.st_size);
        cr_expect_eq(state.held, before);
        weft_program_destroy(p);
    }
    context_destroy(context);
    cr_expect_not(state.wrong_size);
}

/* --- what cannot be written --------------------------------------------------------------------------------------- */

static void write_old(void) {
    weft_allocator libc = base_libc_allocator();
    cr_assert_null(file_write(&libc, in_folder("p.pdmodel"), "old", 3));
}

/* A file may not have more bytes than these: the first piece fails, or a later one, or what comes at the end. */
static const rlim_t limits[] = {1000, 400000, 2500000};
TABLE_ROWS(program_save, a_full_disk_leaves_the_old_file, limits);
TABLE_TEST(size_t *row, program_save, a_full_disk_leaves_the_old_file) {
    weft_context *context;
    cr_assert_null(context_create_bare(NULL, &context));
    for (size_t i = 1; i < 3; i++) {
        large alone = programs[i]; /* without a sidecar */
        alone.with_dist = false;
        weft_program *p = make(context, &alone);
        write_old();
        struct rlimit had;
        signal(SIGXFSZ, SIG_IGN);
        cr_assert_eq(getrlimit(RLIMIT_FSIZE, &had), 0);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limits[*row], had.rlim_max}), 0);
        weft_status status = weft_program_save(p, in_folder("p.pdmodel"));
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &had), 0);
        cr_expect_eq(weft_status_code(status), WEFT_IO, "%s", programs[i].about);
        cr_expect_str_eq(weft_status_place(status), in_folder("p.pdmodel"));
        weft_status_free(status);
        assert_holds("p.pdmodel", "old", 3);
        cr_expect_eq(folder_nfiles(), 1, "no temporary is left");
        weft_program_destroy(p);
    }
    context_destroy(context);
}

Test(program_save, devices_and_folders_that_are_not_there_are_reported) {
    weft_context *context;
    cr_assert_null(context_create_bare(NULL, &context));
    weft_program *p = make(context, &programs[2]);
    char link_path[128];
    snprintf(link_path, sizeof link_path, "%s/full.pdmodel", folder);
    cr_assert_eq(symlink("/dev/full", link_path), 0);
    weft_status status = weft_program_save(p, link_path);
    cr_expect_eq(weft_status_code(status), WEFT_IO);
    weft_status_free(status);
    cr_expect_eq(folder_nfiles(), 1);
    status = weft_program_save(p, in_folder("no/such/p.pdmodel"));
    cr_expect_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_free(status);
    weft_program_destroy(p);
    context_destroy(context);
}

Test(program_save, every_failed_request_is_clean) {
    failing_allocator state = {.fail_at = 0};
    weft_context *context;
    cr_assert_null(context_create_bare(
        &(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&state)}, &context));
    weft_program *p = make(context, &programs[2]);
    write_old();
    const size_t held = state.held;
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        state.failed = false;
        state.fail_at = state.nrequests + n;
        weft_status status = weft_program_save(p, in_folder("p.pdmodel"));
        failed = state.failed;
        cr_assert_eq(weft_status_code(status), failed ? WEFT_OUT_OF_MEMORY : WEFT_OK);
        cr_assert_eq(state.held, held);
        cr_assert_eq(folder_nfiles(), 1);
        if (failed) assert_holds("p.pdmodel", "old", 3);
    }
    state.fail_at = 0;
    weft_program_destroy(p);
    context_destroy(context);
}
