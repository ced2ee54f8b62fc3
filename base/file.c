/* file.c: files in and out. Reading is capped before and after inflating; writing goes to a temporary beside the
 * target, which a rename then replaces at once. A printer's large output goes there while it grows, so that it never
 * stands in memory whole. */
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
    char message[128];
    weft_code code = reason == ENOENT ? WEFT_NOT_FOUND : WEFT_IO;
    return weft_status_create(code, path, "cannot %s: %s", verb, strerror_r(reason, message, sizeof message));
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

/* A file beside the one that it is to replace. */
typedef struct file_temporary {
    const weft_allocator *allocator;
    int fd;
    char *target;       /* from libc: what a link leads to; NULL: the path itself */
    size_t name_nbytes; /* room for its name */
    char name[];
} file_temporary;

/* Opens a new file beside `path`; its name goes to t->name. */
enum { TEMPORARY_ROOM = 48, TEMPORARY_TRIES = 1000 };
static bool open_beside(file_temporary *t, const char *path, mode_t mode) {
    for (int i = 0; i < TEMPORARY_TRIES; i++) {
        snprintf(t->name, t->name_nbytes, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        t->fd = open(t->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (t->fd >= 0 || errno != EEXIST) break;
    }
    return t->fd >= 0;
}

static void temporary_free(file_temporary *t) {
    free(t->target);
    base_free(t->allocator, t, sizeof *t + t->name_nbytes);
}

static weft_status temporary_open(const weft_allocator *allocator, const char *path, file_temporary **out) {
    struct stat found;
    bool exists = stat(path, &found) == 0;
    char *target = exists ? realpath(path, NULL) : NULL;
    const char *beside = target ? target : path;
    size_t room = strlen(beside) + TEMPORARY_ROOM;
    file_temporary *t = base_alloc(allocator, sizeof *t + room);
    if (!t) {
        free(target);
        return base_out_of_memory();
    }
    *t = (file_temporary){.allocator = allocator, .target = target, .name_nbytes = room};
    if (open_beside(t, beside, exists ? found.st_mode & 0777 : 0666)) {
        *out = t;
        return NULL;
    }
    weft_status status = system_error(path, "create");
    temporary_free(t);
    return status;
}

/* Puts it in the place of `path`, or away if `status` is a failure, which it takes and returns. */
static weft_status temporary_end(file_temporary *t, const char *path, weft_status status) {
    if (close(t->fd) != 0 && !status) status = system_error(path, "write");
    if (!status && rename(t->name, t->target ? t->target : path) != 0) status = system_error(path, "replace");
    if (status) unlink(t->name);
    temporary_free(t);
    return status;
}

/* Pipes and devices cannot be replaced: they are written as they are. A link is followed, its target replaced. */
static bool can_be_replaced(const char *path) {
    struct stat found;
    return strcmp(path, "-") != 0 && (stat(path, &found) != 0 || S_ISREG(found.st_mode));
}

static weft_status write_as_it_is(const char *path, const char *bytes, size_t nbytes) {
    if (strcmp(path, "-") == 0) return write_all(STDOUT_FILENO, path, bytes, nbytes);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return system_error(path, "open");
    weft_status status = write_all(fd, path, bytes, nbytes);
    if (close(fd) != 0 && !status) status = system_error(path, "write");
    return status;
}

static weft_status write_plain(const weft_allocator *allocator, const char *path, const char *bytes, size_t nbytes) {
    file_temporary *t;
    if (!can_be_replaced(path)) return write_as_it_is(path, bytes, nbytes);
    TRY(temporary_open(allocator, path, &t));
    return temporary_end(t, path, write_all(t->fd, path, bytes, nbytes));
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

/* --- writing in pieces -------------------------------------------------------------------------------------------- */

void file_writer_init(file_writer *w, const weft_allocator *allocator, const char *path) {
    *w = (file_writer){.path = path, .is_whole = is_gzip_name(path) || !can_be_replaced(path)};
    buffer_init(&w->out, allocator);
    w->out.file = w;
}

/* The first problem stays; nothing is printed or written after it. */
static void fail(file_writer *w, weft_status problem) {
    if (!problem) return;
    w->problem = problem;
    w->out.failed = true;
}

void file_writer_flush(file_writer *w) {
    buffer *out = &w->out;
    if (w->is_whole || out->failed) return;
    if (!w->temporary) fail(w, temporary_open(out->allocator, w->path, &w->temporary));
    if (!w->problem) fail(w, write_all(w->temporary->fd, w->path, out->bytes, out->nbytes));
    if (w->problem) return;
    out->nflushed += out->nbytes;
    out->nbytes = 0;
}

void file_writer_overwrite(file_writer *w, size_t at, const void *bytes, size_t nbytes) {
    const char *from = bytes;
    while (nbytes && !w->out.failed) {
        ssize_t n = pwrite(w->temporary->fd, from, nbytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            fail(w, system_error(w->path, "write"));
            return;
        }
        from += n;
        at += (size_t)n;
        nbytes -= (size_t)n;
    }
}

void file_writer_rewind(file_writer *w, size_t at) {
    buffer *out = &w->out;
    if (out->failed) return;
    if (ftruncate(w->temporary->fd, (off_t)at) != 0 || lseek(w->temporary->fd, (off_t)at, SEEK_SET) < 0)
        fail(w, system_error(w->path, "write"));
    out->nflushed = at;
    out->nbytes = 0;
}

weft_status file_writer_end(file_writer *w, weft_status printed) {
    buffer *out = &w->out;
    weft_status status = printed;
    if (w->problem) {
        weft_status_free(printed);
        status = w->problem;
    }
    if (w->temporary) {
        if (!status) status = write_all(w->temporary->fd, w->path, out->bytes, out->nbytes);
        status = temporary_end(w->temporary, w->path, status);
    } else if (!status) {
        status = file_write(out->allocator, w->path, out->bytes, out->nbytes);
    }
    buffer_fini(out);
    return status;
}
