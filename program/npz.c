/* npz.c: a zip archive of .npy members, read and written in memory with libzip.
 *
 * Members are inflated straight into their tensors. An archive may not inflate to more than 12 times its own size and
 * 8 MiB, so that a small file cannot claim all memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zip.h>

#include "program/tensors.h"

enum { max_ratio = 12, free_nbytes = 8 << 20 };

static weft_status zip_problem(const char *place, const char *doing, const char *why) {
    return weft_status_create(WEFT_PARSE, place, "cannot %s the archive: %s", doing, why);
}

typedef struct member {
    zip_file_t *file;
    const char *place, *member_name;
} member;

static weft_status read_member(void *user, void *out, size_t nbytes) {
    member *m = user;
    char *at = out;
    while (nbytes > 0) {
        zip_int64_t got = zip_fread(m->file, at, nbytes);
        if (got <= 0)
            return weft_status_create(WEFT_PARSE, m->place, "member \"%s\": expected %zu more bytes, found %s",
                                      m->member_name, nbytes, got < 0 ? zip_file_strerror(m->file) : "its end");
        at += got;
        nbytes -= (size_t)got;
    }
    return NULL;
}

typedef weft_status npy_reader(byte_source *source, weft_tensors *into, const char *tensor_name,
                               const weft_program *program);

/* Member "x.npy" is tensor x. */
static weft_status add_member(weft_tensors *into, zip_t *archive, zip_uint64_t index, const zip_stat_t *about,
                              const char *place, const weft_program *program, npy_reader *read) {
    const weft_allocator *allocator = &into->context->allocator;
    size_t length = strlen(about->name), stem = length;
    if (length > 4 && strcmp(about->name + length - 4, ".npy") == 0) stem -= 4;
    member m = {zip_fopen_index(archive, index, 0), place, about->name};
    if (!m.file) return zip_problem(place, "read a member of", zip_strerror(archive));
    weft_status status = NULL;
    char *tensor_name = base_alloc(allocator, length + 1);
    if (!tensor_name) {
        status = base_out_of_memory();
        goto done;
    }
    memcpy(tensor_name, about->name, stem);
    tensor_name[stem] = '\0';
    byte_source source = {read_member, &m, about->size, place};
    status = read(&source, into, tensor_name, program);
done:
    base_free(allocator, tensor_name, length + 1);
    zip_fclose(m.file);
    return status;
}

static weft_status add_members(weft_tensors *into, zip_t *archive, size_t nbytes, const char *place,
                               const weft_program *program, npy_reader *read) {
    uint64_t inflated = 0, limit = (uint64_t)nbytes * max_ratio + free_nbytes;
    zip_int64_t count = zip_get_num_entries(archive, 0);
    for (zip_int64_t i = 0; i < count; i++) {
        zip_stat_t about;
        zip_stat_init(&about);
        if (zip_stat_index(archive, (zip_uint64_t)i, 0, &about) != 0)
            return zip_problem(place, "list", zip_strerror(archive));
        if (!(about.valid & ZIP_STAT_NAME) || !(about.valid & ZIP_STAT_SIZE))
            return zip_problem(place, "list", "a member without name or size");
        if (about.size > limit - inflated)
            return weft_status_create(WEFT_LIMIT, place, "member \"%s\" claims %llu bytes in an archive of %zu",
                                      about.name, (unsigned long long)about.size, nbytes);
        inflated += about.size;
        TRY(add_member(into, archive, (zip_uint64_t)i, &about, place, program, read));
    }
    return NULL;
}

weft_status npz_read(weft_tensors *into, const char *bytes, size_t nbytes, const char *place,
                     const weft_program *program) {
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_buffer_create(bytes, nbytes, 0, &error);
    zip_t *archive = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    weft_status status;
    if (archive) {
        status = add_members(into, archive, nbytes, place, program, npy_read);
        zip_discard(archive);
    } else {
        status = zip_problem(place, "open", zip_error_strerror(&error));
        zip_source_free(source);
    }
    zip_error_fini(&error);
    return status;
}

/* --- some of it --------------------------------------------------------------------------------------------------- */

static weft_status open_file(const char *path, size_t most_nbytes, zip_t **out_archive, size_t *out_nbytes) {
    struct stat found;
    int code;
    zip_error_t error;
    if (stat(path, &found) != 0) return weft_status_create(WEFT_IO, path, "cannot open: %s", strerror(errno));
    if ((uint64_t)found.st_size > most_nbytes)
        return weft_status_create(WEFT_LIMIT, path, "expected at most %zu bytes, found %lld", most_nbytes,
                                  (long long)found.st_size);
    *out_nbytes = (size_t)found.st_size;
    *out_archive = zip_open(path, ZIP_RDONLY, &code);
    if (*out_archive) return NULL;
    zip_error_init_with_code(&error, code);
    weft_status status = zip_problem(path, "open", zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
}

weft_status npz_describe(weft_tensors *into, const char *path, const weft_program *program) {
    zip_t *archive;
    size_t nbytes;
    TRY(open_file(path, into->context->max_file_nbytes, &archive, &nbytes));
    weft_status status = add_members(into, archive, nbytes, path, program, npy_describe);
    zip_discard(archive);
    return status;
}

/* Goes on to a byte of the member: at once where it is stored, else by reading what is before. */
static weft_status go_to(member *m, bool is_stored, uint64_t from, uint64_t at) {
    char unused[4096];
    if (is_stored && zip_fseek(m->file, (zip_int64_t)at, SEEK_SET) == 0) return NULL;
    for (uint64_t n; from < at; from += n) {
        n = at - from < sizeof unused ? at - from : sizeof unused;
        TRY(read_member(m, unused, (size_t)n));
    }
    return NULL;
}

static weft_status fill_member(weft_tensor *t, member *m, const zip_stat_t *about, const weft_tensors *tensors,
                               int64_t first, int64_t end) {
    byte_source source = {read_member, m, about->size, m->place};
    bool left, is_stored = about->valid & ZIP_STAT_COMP_METHOD && about->comp_method == ZIP_CM_STORE;
    uint64_t used;
    TRY(npy_is_left(&source, tensors, &left, &used));
    size_t row = t->nbytes / (size_t)t->dims[0];
    if (!left || used + t->nbytes != about->size) return NULL;
    TRY(go_to(m, is_stored, used, used + (uint64_t)first * row));
    return read_member(m, (char *)t->data + (size_t)first * row, (size_t)(end - first) * row);
}

/* The member of a tensor, -1: none. */
static weft_status locate(const weft_tensors *tensors, zip_t *archive, const char *tensor_name, zip_int64_t *out) {
    buffer member_name;
    buffer_init(&member_name, &tensors->context->allocator);
    buffer_format(&member_name, "%s.npy", tensor_name);
    buffer_append(&member_name, "", 1);
    weft_status status = buffer_status(&member_name);
    *out = status ? -1 : zip_name_locate(archive, member_name.bytes, 0);
    if (*out < 0 && !status) *out = zip_name_locate(archive, tensor_name, 0);
    buffer_fini(&member_name);
    return status;
}

static weft_status fill_tensor(weft_tensors *tensors, weft_tensor *t, zip_t *archive, const char *path, int64_t first,
                               int64_t end) {
    zip_int64_t index;
    zip_stat_t about;
    TRY(locate(tensors, archive, t->name, &index));
    member m = {index < 0 ? NULL : zip_fopen_index(archive, (zip_uint64_t)index, 0), path, t->name};
    if (!m.file) return zip_problem(path, "read a member of", zip_strerror(archive));
    weft_status status = NULL;
    if (zip_stat_index(archive, (zip_uint64_t)index, 0, &about) != 0)
        status = zip_problem(path, "list", zip_strerror(archive));
    if (!status) status = fill_member(t, &m, &about, tensors, first, end);
    zip_fclose(m.file);
    return status;
}

weft_status npz_fill(weft_tensors *tensors, const char *path, weft_tensor_rows_fn rows, void *user) {
    zip_t *archive;
    size_t nbytes;
    TRY(open_file(path, tensors->context->max_file_nbytes, &archive, &nbytes));
    weft_status status = NULL;
    for (size_t i = 0; i < tensors->count && !status; i++) {
        weft_tensor *t = &tensors->items[i];
        int64_t first = 0, end = 0;
        if (t->nbytes <= TENSOR_SMALL_NBYTES || !t->ndim) continue;
        rows(user, t, &first, &end);
        if (first < end) status = fill_tensor(tensors, t, archive, path, first, end);
    }
    zip_discard(archive);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* Adds one member, stored, with a fixed date, so that equal tensors give equal files. `bytes` live until the close. */
static weft_status put_member(zip_t *archive, const weft_tensor *t, buffer *bytes, buffer *member_name) {
    TRY(npy_header(t, bytes));
    buffer_append(bytes, t->data, t->nbytes);
    TRY(buffer_status(bytes));
    member_name->nbytes = 0;
    buffer_format(member_name, "%s.npy", t->name);
    buffer_append(member_name, "", 1);
    TRY(buffer_status(member_name));
    zip_source_t *source = zip_source_buffer(archive, bytes->bytes, bytes->nbytes, 0);
    zip_int64_t index = source ? zip_file_add(archive, member_name->bytes, source, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
        zip_source_free(source);
        return zip_problem(t->name, "write", zip_strerror(archive));
    }
    enum { first_of_january_1980 = 0x21 };
    if (zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive, (zip_uint64_t)index, 0, first_of_january_1980, 0) != 0)
        return zip_problem(t->name, "write", zip_strerror(archive));
    return NULL;
}

/* The finished archive's bytes go to the file. */
static weft_status write_source(const weft_allocator *allocator, zip_source_t *source, const char *path) {
    zip_stat_t about;
    zip_stat_init(&about);
    if (zip_source_stat(source, &about) != 0 || zip_source_open(source) != 0)
        return zip_problem(path, "finish", zip_error_strerror(zip_source_error(source)));
    weft_status status = NULL;
    size_t nbytes = about.valid & ZIP_STAT_SIZE ? (size_t)about.size : 0;
    char *bytes = base_alloc(allocator, nbytes);
    if (!bytes)
        status = base_out_of_memory();
    else if (zip_source_read(source, bytes, nbytes) != (zip_int64_t)nbytes)
        status = zip_problem(path, "finish", zip_error_strerror(zip_source_error(source)));
    zip_source_close(source);
    if (!status) status = file_write(allocator, path, bytes, nbytes);
    base_free(allocator, bytes, nbytes);
    return status;
}

/* An archive of no members has no bytes in libzip; NumPy reads this end record as empty. */
static weft_status write_empty(const weft_allocator *allocator, const char *path) {
    static const char end_record[22] = "PK\x05\x06";
    return file_write(allocator, path, end_record, sizeof end_record);
}

weft_status npz_write(const weft_tensors *tensors, const char *path) {
    const weft_allocator *allocator = &tensors->context->allocator;
    if (tensors->count == 0) return write_empty(allocator, path);
    buffer *members = base_alloc(allocator, tensors->count * sizeof *members), member_name;
    if (!members) return base_out_of_memory();
    for (size_t i = 0; i < tensors->count; i++) buffer_init(&members[i], allocator);
    buffer_init(&member_name, allocator);
    zip_error_t error;
    zip_error_init(&error);
    weft_status status = NULL;
    zip_t *archive = NULL;
    zip_source_t *source = zip_source_buffer_create(NULL, 0, 0, &error);
    if (source && (archive = zip_open_from_source(source, ZIP_TRUNCATE, &error))) zip_source_keep(source);
    if (!archive) {
        status = zip_problem(path, "create", zip_error_strerror(&error));
        goto done;
    }
    for (size_t i = 0; i < tensors->count; i++)
        TRY_DONE(put_member(archive, &tensors->items[i], &members[i], &member_name));
    if (zip_close(archive) != 0) {
        status = zip_problem(path, "write", zip_strerror(archive));
        goto done;
    }
    archive = NULL;
    status = write_source(allocator, source, path);
done:
    if (archive) zip_discard(archive);
    zip_source_free(source);
    zip_error_fini(&error);
    for (size_t i = 0; i < tensors->count; i++) buffer_fini(&members[i]);
    base_free(allocator, members, tensors->count * sizeof *members);
    buffer_fini(&member_name);
    return status;
}
