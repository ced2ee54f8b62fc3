/* folder.h: a folder of a test's own, for the suites that read and write files. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FOLDER_PATH_ROOM = 320 }; /* the folder, and the longest name of a file */
static char folder[64];

static void folder_begin(void) {
    const char *root = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/weft_XXXXXX", root ? root : P_tmpdir);
    cr_assert_not_null(mkdtemp(folder));
}

/* Valid until the next call. */
static const char *in_folder(const char *leaf) {
    static char path[FOLDER_PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", folder, leaf);
    return path;
}

static inline size_t folder_nfiles(void) {
    size_t count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry; (entry = readdir(d));) count += entry->d_name[0] != '.';
    closedir(d);
    return count;
}

/* With its files; it has no folders. */
static void folder_end(void) {
    DIR *d = opendir(folder);
    for (struct dirent *entry; (entry = readdir(d));)
        unlink(in_folder(entry->d_name)); /* but for "." and "..", which are no files */
    closedir(d);
    rmdir(folder);
}

#endif
