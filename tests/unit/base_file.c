#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/folder.h"

static weft_allocator libc;

static void setup(void) {
    libc = base_libc_allocator();
    folder_begin();
}
TestSuite(file, .init = setup, .fini = folder_end);

static void assert_holds(const char *leaf, const char *expected, size_t nexpected) {
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_status status = file_read(&libc, in_folder(leaf), 1 << 20, &bytes, &nbytes);
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_assert_eq(nbytes, nexpected);
    cr_assert_eq(memcmp(bytes, expected, nexpected), 0);
    cr_assert_eq(bytes[nbytes], '\0');
    base_free(&libc, bytes, nbytes + 1);
}

static weft_code read_code(const char *leaf, size_t max_nbytes) {
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_status status = file_read(&libc, in_folder(leaf), max_nbytes, &bytes, &nbytes);
    weft_code code = weft_status_code(status);
    if (!status) base_free(&libc, bytes, nbytes + 1);
    weft_status_free(status);
    return code;
}

Test(file, plain_and_gzip_read_back) {
    static const char text[] = "hello\0world\n";
    cr_assert_null(file_write(&libc, in_folder("a.bin"), text, sizeof text));
    cr_assert_null(file_write(&libc, in_folder("a.bin.gz"), text, sizeof text));
    cr_assert_null(file_write(&libc, in_folder("empty"), "", 0));
    cr_assert_null(file_write(&libc, in_folder("empty.gz"), "", 0));
    assert_holds("a.bin", text, sizeof text);
    assert_holds("a.bin.gz", text, sizeof text);
    assert_holds("empty", "", 0);
    assert_holds("empty.gz", "", 0);
    cr_assert_eq(folder_nfiles(), 4, "no temporary is left");
    cr_assert(file_exists(in_folder("a.bin")));
    cr_assert_not(file_exists(in_folder("b.bin")));
}

Test(file, large_gzip_files_read_back) {
    size_t nbytes = 900000;
    char *bytes = malloc(nbytes);
    for (size_t i = 0; i < nbytes; i++) bytes[i] = (char)(i * 2654435761u >> 13);
    cr_assert_null(file_write(&libc, in_folder("big.gz"), bytes, nbytes));
    assert_holds("big.gz", bytes, nbytes);
    free(bytes);
}

Test(file, several_gzip_members_are_one_file) {
    cr_assert_null(file_write(&libc, in_folder("a.gz"), "abc", 3));
    FILE *f = fopen(in_folder("a.gz"), "rb");
    char raw[256];
    size_t n = fread(raw, 1, sizeof raw, f);
    fclose(f);
    f = fopen(in_folder("a.gz"), "ab");
    cr_assert_eq(fwrite(raw, 1, n, f), n);
    fclose(f);
    assert_holds("a.gz", "abcabc", 6);
}

Test(file, bombs_and_limits_are_refused) {
    size_t nbytes = 64 << 20;
    char *zeros = calloc(1, nbytes);
    cr_assert_null(file_write(&libc, in_folder("bomb.gz"), zeros, nbytes));
    cr_assert_null(file_write(&libc, in_folder("plain"), zeros, 1000));
    free(zeros);
    cr_assert_eq(read_code("bomb.gz", 1 << 20), WEFT_LIMIT);
    cr_assert_eq(read_code("bomb.gz", nbytes), WEFT_OK);
    cr_assert_eq(read_code("bomb.gz", nbytes - 1), WEFT_LIMIT);
    cr_assert_eq(read_code("plain", 999), WEFT_LIMIT);
    cr_assert_eq(read_code("plain", 1000), WEFT_OK);
}

Test(file, damaged_gzip_is_a_parse_error) {
    cr_assert_null(file_write(&libc, in_folder("a.gz"), "some text to pack", 17));
    FILE *f = fopen(in_folder("a.gz"), "rb");
    char raw[128];
    size_t n = fread(raw, 1, sizeof raw, f);
    fclose(f);
    for (size_t cut = 0; cut < n; cut++) {
        f = fopen(in_folder("a.gz"), "wb");
        fwrite(raw, 1, cut, f);
        fclose(f);
        cr_assert_eq(read_code("a.gz", 1000), WEFT_PARSE, "cut after %zu bytes", cut);
    }
    f = fopen(in_folder("a.gz"), "wb");
    fwrite(raw, 1, n, f);
    fputs("rubbish behind", f);
    fclose(f);
    cr_assert_eq(read_code("a.gz", 1000), WEFT_PARSE);
}

Test(file, what_cannot_be_read_or_written_is_said) {
    cr_assert_eq(read_code("absent", 100), WEFT_NOT_FOUND);
    cr_assert_eq(read_code(".", 100), WEFT_IO);
    weft_status status = file_write(&libc, in_folder("no/such/folder"), "x", 1);
    cr_assert_eq(weft_status_code(status), WEFT_NOT_FOUND);
    cr_assert_not_null(strstr(weft_status_place(status), "no/such/folder"));
    weft_status_free(status);
}

Test(file, a_failed_write_leaves_the_old_file) {
    cr_assert_null(file_write(&libc, in_folder("kept.gz"), "old", 3));
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        failing_allocator state = {.fail_at = n};
        weft_allocator failing = failing_allocator_on(&state);
        weft_status status = file_write(&failing, in_folder("kept.gz"), "new text", 8);
        failed = state.failed;
        cr_assert_eq(weft_status_code(status), failed ? WEFT_OUT_OF_MEMORY : WEFT_OK);
        cr_assert_eq(state.held, 0);
        assert_holds("kept.gz", failed ? "old" : "new text", failed ? 3 : 8);
        cr_assert_eq(folder_nfiles(), 1);
    }
}

Test(file, a_link_and_the_mode_survive) {
    cr_assert_null(file_write(&libc, in_folder("target"), "old", 3));
    cr_assert_eq(chmod(in_folder("target"), 0640), 0);
    char link_path[128];
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    cr_assert_eq(symlink("target", link_path), 0);
    cr_assert_null(file_write(&libc, link_path, "new", 3));
    assert_holds("target", "new", 3);
    struct stat found;
    cr_assert_eq(lstat(link_path, &found), 0);
    cr_assert(S_ISLNK(found.st_mode));
    cr_assert_eq(stat(in_folder("target"), &found), 0);
    cr_assert_eq(found.st_mode & 0777, 0640);
    unlink(link_path);
}

Test(file, devices_are_written_as_they_are) {
    cr_assert_null(file_write(&libc, "/dev/null", "x", 1));
    struct stat found;
    cr_assert_eq(stat("/dev/null", &found), 0);
    cr_assert(S_ISCHR(found.st_mode));
}

Test(file, every_failed_request_while_reading_is_clean) {
    cr_assert_null(file_write(&libc, in_folder("a.gz"), "text", 4));
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        failing_allocator state = {.fail_at = n};
        weft_allocator failing = failing_allocator_on(&state);
        char *bytes = NULL;
        size_t nbytes = 0;
        weft_status status = file_read(&failing, in_folder("a.gz"), 1000, &bytes, &nbytes);
        failed = state.failed;
        cr_assert_eq(weft_status_code(status), failed ? WEFT_OUT_OF_MEMORY : WEFT_OK);
        if (!status) base_free(&failing, bytes, nbytes + 1);
        cr_assert_eq(state.held, 0);
        cr_assert_not(state.wrong_size);
    }
}
