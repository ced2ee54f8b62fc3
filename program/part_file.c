/* part_file.c: files of which only some bytes are read, and boxes of tensors as runs of bytes.
 *
 * A tensor's bytes lie in memory as in the file, so a run is read to where it belongs. Runs that a small hole parts are
 * read as one: the bytes of the hole cost less than another call. */
#include "program/part_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* About what a call takes in the time that it takes. */
enum { HOLE_NBYTES = 2048 };

static weft_status failed(const part_file *f, const char *verb) {
    char message[128];
    int reason = errno;
    weft_code code = reason == ENOENT ? WEFT_NOT_FOUND : WEFT_IO;
    return weft_status_create(code, f->place, "cannot %s: %s", verb, strerror_r(reason, message, sizeof message));
}

bool part_file_is_regular(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

weft_status part_file_open(part_file *f, const char *path, size_t most_nbytes) {
    struct stat found;
    *f = (part_file){.fd = open(path, O_RDONLY | O_CLOEXEC), .place = path};
    if (f->fd < 0 || fstat(f->fd, &found) != 0) {
        weft_status status = failed(f, "open");
        part_file_close(f);
        return status;
    }
    f->nbytes = (uint64_t)found.st_size;
    if (f->nbytes <= most_nbytes) return NULL;
    part_file_close(f);
    return weft_status_create(WEFT_LIMIT, path, "the file has %llu bytes, more than the limit of %zu",
                              (unsigned long long)found.st_size, most_nbytes);
}

void part_file_close(part_file *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

static weft_status read_straight(part_file *f, uint64_t at, char *out, size_t nbytes) {
    while (nbytes > 0) {
        ssize_t got = pread(f->fd, out, nbytes, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed(f, "read");
        if (got == 0)
            return weft_status_create(WEFT_PARSE, f->place, "expected %zu more bytes at byte %llu, found the end",
                                      nbytes, (unsigned long long)at);
        out += got;
        at += (uint64_t)got;
        nbytes -= (size_t)got;
    }
    return NULL;
}

weft_status part_file_read_at(part_file *f, uint64_t at, void *out, size_t nbytes) {
    if (at > f->nbytes || nbytes > f->nbytes - at)
        return weft_status_create(WEFT_PARSE, f->place, "expected %zu more bytes at byte %llu, found %llu", nbytes,
                                  (unsigned long long)at, (unsigned long long)(at < f->nbytes ? f->nbytes - at : 0));
    if (nbytes > sizeof f->window / 2) return read_straight(f, at, out, nbytes);
    if (at < f->window_at || at + nbytes > f->window_at + f->in_window) {
        size_t n = f->nbytes - at < sizeof f->window ? (size_t)(f->nbytes - at) : sizeof f->window;
        f->in_window = 0;
        TRY(read_straight(f, at, f->window, n));
        f->window_at = at;
        f->in_window = n;
    }
    memcpy(out, f->window + (at - f->window_at), nbytes);
    return NULL;
}

static weft_status read_next(void *user, void *out, size_t nbytes) {
    part_file *f = user;
    TRY(part_file_read_at(f, f->at, out, nbytes));
    f->at += nbytes;
    return NULL;
}

static void skip_next(void *user, size_t nbytes) {
    part_file *f = user;
    f->at += nbytes;
}

byte_source part_file_source(part_file *f) {
    return (byte_source){read_next, skip_next, f, f->nbytes, f->place};
}

/* --- boxes -------------------------------------------------------------------------------------------------------- */

/* A run that grows while the next one is near. */
typedef struct run {
    const weft_tensor *t;
    part_read_fn read;
    void *user;
    uint64_t at, end;
} run;

static weft_status run_flush(run *r) {
    size_t nbytes = (size_t)(r->end - r->at);
    return nbytes ? r->read(r->user, r->at, (char *)r->t->data + r->at, nbytes) : NULL;
}

static weft_status run_add(run *r, uint64_t at, uint64_t nbytes) {
    if (r->end > r->at && at - r->end <= HOLE_NBYTES) {
        r->end = at + nbytes;
        return NULL;
    }
    TRY(run_flush(r));
    r->at = at;
    r->end = at + nbytes;
    return NULL;
}

/* Axes from `inner` on are whole: of those before it each index of the box is a run, those of axis inner - 1 together.
 */
static weft_status add_runs(run *r, const int64_t *offset, const int64_t *extent, size_t inner) {
    const weft_tensor *t = r->t;
    int64_t index[WEFT_MAX_RANK] = {0};
    uint64_t stride[WEFT_MAX_RANK + 1], size = weft_dtype_nbytes(t->dtype);
    for (size_t d = t->ndim; d-- > 0; size *= (uint64_t)t->dims[d]) stride[d] = size;
    size_t last = inner ? inner - 1 : 0; /* the axis whose indices lie together */
    for (;;) {
        uint64_t at = (uint64_t)offset[last] * stride[last];
        for (size_t d = 0; d < last; d++) at += (uint64_t)(offset[d] + index[d]) * stride[d];
        TRY(run_add(r, at, (uint64_t)extent[last] * stride[last]));
        size_t d = last;
        while (d > 0 && ++index[d - 1] == extent[d - 1]) index[--d] = 0;
        if (d == 0) return run_flush(r);
    }
}

/* Reads a box of a tensor's elements: what of it lies together at once, with holes that are smaller than a read costs.
 * `at` counts from the tensor's first byte. */
static weft_status read_box(const weft_tensor *t, const int64_t *offset, const int64_t *extent, part_read_fn read,
                            void *user) {
    size_t inner = t->ndim;
    bool is_inside = t->ndim > 0;
    for (size_t d = 0; d < t->ndim; d++) {
        if (extent[d] == 0) return NULL;
        is_inside = is_inside && extent[d] > 0 && offset[d] >= 0 && offset[d] <= t->dims[d] - extent[d];
    }
    if (!is_inside) return weft_status_create(WEFT_INVALID_ARGUMENT, t->name, "a part that is not within the tensor");
    while (inner > 1 && offset[inner - 1] == 0 && extent[inner - 1] == t->dims[inner - 1]) inner--;
    run r = {.t = t, .read = read, .user = user};
    return add_runs(&r, offset, extent, inner);
}

weft_status part_read_boxes(const weft_tensor *t, weft_tensor_part_fn parts, void *parts_user, part_read_fn read,
                            void *user) {
    int64_t offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
    for (size_t k = 0; parts(parts_user, t, k, offset, extent); k++) TRY(read_box(t, offset, extent, read, user));
    return NULL;
}

/* --- tensors in the file ------------------------------------------------------------------------------------------ */

typedef struct tensor_place {
    part_file *file;
    uint64_t first;
} tensor_place;

static weft_status read_run(void *user, uint64_t at, void *out, size_t nbytes) {
    const tensor_place *p = user;
    return part_file_read_at(p->file, p->first + at, out, nbytes);
}

weft_status part_file_fill(part_file *f, uint64_t first, const weft_tensor *t, weft_tensor_part_fn parts, void *user) {
    tensor_place place = {f, first};
    return part_read_boxes(t, parts, user, read_run, &place);
}
