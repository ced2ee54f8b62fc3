/* file.c: whole files in and out. Reading is capped before and after inflating; writing goes to a temporary beside the
 * target, which a rename then replaces at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/gzip.h"

static weft_status system_error(const char *path, const char *verb) {
    int reason = errno;
    char words[128];
    weft_code code = reason == ENOENT ? WEFT_NOT_FOUND : WEFT_IO;
    return weft_status_create(code, path, "cannot %s: %s", verb, strerror_r(reason, words, sizeof words));
}

bool file_exists(const char *path) {
    struct stat found;
    return stat(path, &found) == 0;
}

static bool is_gzip_name(const char *path) {
    size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Everything that `fd` gives, at most `max_nbytes`. */
static weft_status read_all(int fd, const char *path, size_t max_nbytes, buffer *out) {
    struct stat found;
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0) {
        if ((uint64_t)found.st_size > max_nbytes)
            return weft_status_create(WEFT_LIMIT, path, "the file has %lld bytes, more than the limit of %zu",
                                      (long long)found.st_size, max_nbytes);
        TRY(vector_reserve(out->allocator, &out->bytes, &out->capacity, (size_t)found.st_size + 1, 1));
    }
    for (;;) {
        if (out->nbytes + 1 >= out->capacity)
            TRY(vector_reserve(out->allocator, &out->bytes, &out->capacity, out->nbytes + (1 << 16), 1));
        ssize_t n = read(fd, out->bytes + out->nbytes, out->capacity - out->nbytes - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(path, "read");
        if (n == 0) return NULL;
        out->nbytes += (size_t)n;
        if (out->nbytes > max_nbytes)
            return weft_status_create(WEFT_LIMIT, path, "the input has more than the limit of %zu bytes", max_nbytes);
    }
}

weft_status file_read(const weft_allocator *allocator, const char *path, size_t max_nbytes, char **out_bytes,
                      size_t *out_nbytes) {
    weft_status status = NULL;
    buffer raw, inflated;
    buffer_init(&raw, allocator);
    buffer_init(&inflated, allocator);
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return system_error(path, "open");
    TRY_DONE(read_all(fd, path, max_nbytes, &raw));
    if (is_gzip_name(path)) {
        TRY_DONE(gzip_inflate(raw.bytes, raw.nbytes, path, max_nbytes, &inflated));
        TRY_DONE(buffer_take(&inflated, out_bytes, out_nbytes));
    } else {
        TRY_DONE(buffer_take(&raw, out_bytes, out_nbytes));
    }
done:
    if (!is_stdin) close(fd);
    buffer_fini(&inflated);
    buffer_fini(&raw);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static weft_status write_all(int fd, const char *path, const char *bytes, size_t nbytes) {
    while (nbytes) {
        ssize_t n = write(fd, bytes, nbytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return system_error(path, "write");
        bytes += n;
        nbytes -= (size_t)n;
    }
    return NULL;
}

/* Opens a new file beside `path`; its name goes to `temporary` (strlen(path) + TEMPORARY_ROOM bytes). */
enum { TEMPORARY_ROOM = 48, TEMPORARY_TRIES = 1000 };
static int open_temporary(const char *path, mode_t mode, char *temporary) {
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        snprintf(temporary, strlen(path) + TEMPORARY_ROOM, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

static weft_status replace_file(const weft_allocator *allocator, const char *path, mode_t mode, const char *bytes,
                                size_t nbytes) {
    size_t room = strlen(path) + TEMPORARY_ROOM;
    char *temporary = base_alloc(allocator, room);
    if (!temporary) return base_out_of_memory();
    weft_status status = NULL;
    int fd = open_temporary(path, mode, temporary);
    if (fd < 0) {
        status = system_error(path, "create");
    } else {
        status = write_all(fd, path, bytes, nbytes);
        if (close(fd) != 0 && !status) status = system_error(path, "write");
        if (!status && rename(temporary, path) != 0) status = system_error(path, "replace");
        if (status) unlink(temporary);
    }
    base_free(allocator, temporary, room);
    return status;
}

/* Pipes and devices cannot be replaced: they are written as they are. A link is followed, its target replaced. */
static weft_status write_plain(const weft_allocator *allocator, const char *path, const char *bytes, size_t nbytes) {
    if (strcmp(path, "-") == 0) return write_all(STDOUT_FILENO, path, bytes, nbytes);
    struct stat found;
    bool exists = stat(path, &found) == 0;
    if (exists && !S_ISREG(found.st_mode)) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) return system_error(path, "open");
        weft_status status = write_all(fd, path, bytes, nbytes);
        if (close(fd) != 0 && !status) status = system_error(path, "write");
        return status;
    }
    char *target = exists ? realpath(path, NULL) : NULL;
    mode_t mode = exists ? found.st_mode & 0777 : 0666;
    weft_status status = replace_file(allocator, target ? target : path, mode, bytes, nbytes);
    free(target);
    return status;
}

weft_status file_write(const weft_allocator *allocator, const char *path, const void *bytes, size_t nbytes) {
    if (!is_gzip_name(path)) return write_plain(allocator, path, bytes, nbytes);
    buffer deflated;
    buffer_init(&deflated, allocator);
    weft_status status = gzip_deflate(bytes, nbytes, &deflated);
    if (!status) status = write_plain(allocator, path, deflated.bytes, deflated.nbytes);
    buffer_fini(&deflated);
    return status;
}
