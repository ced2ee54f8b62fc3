/* npz.c: a zip archive of .npy members, read and written in memory with libzip.
 *
 * Members are inflated straight into their tensors. An archive may not inflate to more than 12 times its own size and
 * 8 MiB, so that a small file cannot claim all memory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zip.h>

#include "program/part_file.h"

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
    byte_source source = {read_member, NULL, &m, about->size, place};
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

/* libzip's own source of a file reads blocks of 4 KiB: this one reads what is asked for. */
typedef struct archive_file {
    part_file file;
    zip_error_t error;
} archive_file;

static zip_int64_t read_archive(archive_file *f, void *out, uint64_t nbytes) {
    uint64_t left = f->file.at < f->file.nbytes ? f->file.nbytes - f->file.at : 0;
    size_t n = (size_t)(nbytes < left ? nbytes : left);
    weft_status status = part_file_read_at(&f->file, f->file.at, out, n);
    if (status) zip_error_set(&f->error, ZIP_ER_READ, EIO);
    f->file.at += status ? 0 : n;
    weft_status_free(status);
    return status ? -1 : (zip_int64_t)n;
}

static zip_int64_t archive_source(void *user, void *data, zip_uint64_t nbytes, zip_source_cmd_t cmd) {
    archive_file *f = user;
    zip_int64_t at;
    switch (cmd) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_SUPPORTS, ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK,
                                              ZIP_SOURCE_TELL, -1);
    case ZIP_SOURCE_OPEN: f->file.at = 0; return 0;
    case ZIP_SOURCE_READ: return read_archive(f, data, nbytes);
    case ZIP_SOURCE_STAT:
        zip_stat_init(data);
        ((zip_stat_t *)data)->size = f->file.nbytes;
        ((zip_stat_t *)data)->valid = ZIP_STAT_SIZE;
        return sizeof(zip_stat_t);
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&f->error, data, nbytes);
    case ZIP_SOURCE_SEEK:
        at = zip_source_seek_compute_offset(f->file.at, f->file.nbytes, data, nbytes, &f->error);
        if (at >= 0) f->file.at = (uint64_t)at;
        return at < 0 ? -1 : 0;
    case ZIP_SOURCE_TELL: return (zip_int64_t)f->file.at;
    default: return 0;
    }
}

static weft_status open_archive(archive_file *f, const char *path, size_t most_nbytes, zip_t **out_archive) {
    zip_error_t error;
    TRY(part_file_open(&f->file, path, most_nbytes));
    zip_error_init(&f->error);
    zip_error_init(&error);
    zip_source_t *source = zip_source_function_create(archive_source, f, &error);
    *out_archive = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    weft_status status = *out_archive ? NULL : zip_problem(path, "open", zip_error_strerror(&error));
    if (status) {
        zip_source_free(source);
        part_file_close(&f->file);
    }
    zip_error_fini(&error);
    return status;
}

static void close_archive(archive_file *f, zip_t *archive) {
    zip_discard(archive);
    zip_error_fini(&f->error);
    part_file_close(&f->file);
}

weft_status npz_describe(weft_tensors *into, const char *path, const weft_program *program) {
    archive_file file;
    zip_t *archive;
    TRY(open_archive(&file, path, into->context->max_file_nbytes, &archive));
    weft_status status = add_members(into, archive, (size_t)file.file.nbytes, path, program, npy_describe);
    close_archive(&file, archive);
    return status;
}

/* A member of which runs of bytes are read, in ascending order where it is compressed. */
typedef struct filling {
    member m;
    zip_t *archive;
    zip_uint64_t index;
    bool is_stored;
    uint64_t first, at; /* of the elements; where the member stands */
} filling;

static weft_status open_member(filling *f) {
    f->at = 0;
    f->m.file = zip_fopen_index(f->archive, f->index, 0);
    return f->m.file ? NULL : zip_problem(f->m.place, "read a member of", zip_strerror(f->archive));
}

/* Goes on to a byte of the member: at once where it is stored, else by reading what is before. */
static weft_status go_to(filling *f, uint64_t at) {
    char unused[4096];
    if (f->is_stored && zip_fseek(f->m.file, (zip_int64_t)at, SEEK_SET) == 0) return NULL;
    if (at < f->at) {
        zip_fclose(f->m.file);
        TRY(open_member(f));
    }
    for (uint64_t n; f->at < at; f->at += n) {
        n = at - f->at < sizeof unused ? at - f->at : sizeof unused;
        TRY(read_member(&f->m, unused, (size_t)n));
    }
    return NULL;
}

static weft_status read_run(void *user, uint64_t at, void *out, size_t nbytes) {
    filling *f = user;
    TRY(go_to(f, f->first + at));
    TRY(read_member(&f->m, out, nbytes));
    f->at = f->first + at + nbytes;
    return NULL;
}

static weft_status fill_member(filling *f, const weft_tensors *tensors, const weft_tensor *t, weft_tensor_part_fn parts,
                               void *user) {
    zip_stat_t about;
    bool left;
    if (zip_stat_index(f->archive, f->index, 0, &about) != 0)
        return zip_problem(f->m.place, "list", zip_strerror(f->archive));
    f->is_stored = about.valid & ZIP_STAT_COMP_METHOD && about.comp_method == ZIP_CM_STORE;
    byte_source source = {read_member, NULL, &f->m, about.size, f->m.place};
    TRY(npy_is_left(&source, tensors, t, &left, &f->first));
    f->at = f->first;
    return left ? part_read_boxes(t, parts, user, read_run, f) : NULL;
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

static weft_status fill_tensor(const weft_tensors *tensors, const weft_tensor *t, zip_t *archive, const char *path,
                               weft_tensor_part_fn parts, void *user) {
    zip_int64_t index;
    int64_t offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
    if (!tensors_may_leave(t->ndim, t->nbytes) || !parts(user, t, 0, offset, extent)) return NULL;
    TRY(locate(tensors, archive, t->name, &index));
    filling f = {.m = {NULL, path, t->name}, .archive = archive, .index = (zip_uint64_t)index};
    if (index < 0) return zip_problem(path, "read a member of", zip_strerror(archive));
    weft_status status = open_member(&f);
    if (!status) status = fill_member(&f, tensors, t, parts, user);
    if (f.m.file) zip_fclose(f.m.file);
    return status;
}

weft_status npz_fill(weft_tensors *tensors, const char *path, weft_tensor_part_fn parts, void *user) {
    archive_file file;
    zip_t *archive;
    TRY(open_archive(&file, path, tensors->context->max_file_nbytes, &archive));
    weft_status status = NULL;
    for (size_t i = 0; i < tensors->count && !status; i++)
        status = fill_tensor(tensors, &tensors->items[i], archive, path, parts, user);
    close_archive(&file, archive);
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
