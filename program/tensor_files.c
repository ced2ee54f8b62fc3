/* tensor_files.c: sets of tensors from files and to them, by the form that the name says. */
#include "program/part_file.h"

static bool ends_with(const char *path, const char *tail) {
    size_t n = strlen(path), m = strlen(tail);
    return n >= m && strcmp(path + n - m, tail) == 0;
}

typedef weft_status npy_reader(byte_source *source, weft_tensors *into, const char *tensor_name,
                               const weft_program *program);

/* A .npy file's tensor is named by the file: "dir/x.npy" is x. */
static weft_status read_npy_file(weft_tensors *into, byte_source *source, const weft_program *program,
                                 npy_reader *read) {
    const char *stem = strrchr(source->place, '/');
    stem = stem ? stem + 1 : source->place;
    size_t length = strlen(stem) - strlen(".npy");
    const weft_allocator *allocator = &into->context->allocator;
    char *tensor_name = base_alloc(allocator, length + 1);
    if (!tensor_name) return base_out_of_memory();
    memcpy(tensor_name, stem, length);
    tensor_name[length] = '\0';
    weft_status status = read(source, into, tensor_name, program);
    base_free(allocator, tensor_name, length + 1);
    return status;
}

static weft_status unknown_form(const char *path) {
    return weft_status_create(WEFT_INVALID_ARGUMENT, path, "expected a name ending in .npz, .npy or .pdiparams");
}

weft_status weft_tensors_load(weft_context *context, const char *path, const weft_program *program,
                              weft_tensors **out_tensors) {
    char *bytes = NULL;
    size_t nbytes = 0;
    weft_tensors *tensors = NULL;
    weft_status status = file_read(&context->allocator, path, context->max_file_nbytes, &bytes, &nbytes);
    if (status) return status;
    memory_bytes m = {bytes, nbytes, 0, path};
    byte_source source = memory_source(&m);
    TRY_DONE(weft_tensors_create(context, &tensors));
    if (ends_with(path, ".npz"))
        status = npz_read(tensors, bytes, nbytes, path, program);
    else if (ends_with(path, ".npy"))
        status = read_npy_file(tensors, &source, program, npy_read);
    else if (ends_with(path, ".pdiparams"))
        status = pdiparams_read(tensors, bytes, nbytes, path, program);
    else
        status = unknown_form(path);
done:
    base_free(&context->allocator, bytes, nbytes + 1);
    if (status)
        weft_tensors_destroy(tensors);
    else
        *out_tensors = tensors;
    return status;
}

/* --- some of a file ----------------------------------------------------------------------------------------------- */

/* Forms of which some can be read; a pipe is read whole. */
static bool is_read_in_parts(const char *path) {
    bool is_form = ends_with(path, ".npz") || ends_with(path, ".npy") || ends_with(path, ".pdiparams");
    return is_form && part_file_is_regular(path);
}

static weft_status describe(weft_tensors *tensors, const char *path, const weft_program *program) {
    if (ends_with(path, ".npz")) return npz_describe(tensors, path, program);
    part_file file;
    TRY(part_file_open(&file, path, tensors->context->max_file_nbytes));
    byte_source source = part_file_source(&file);
    weft_status status = ends_with(path, ".npy") ? read_npy_file(tensors, &source, program, npy_describe)
                                                 : pdiparams_describe(tensors, &source, program);
    part_file_close(&file);
    return status;
}

weft_status weft_tensors_describe(weft_context *context, const char *path, const weft_program *program,
                                  weft_tensors **out_tensors) {
    weft_tensors *tensors;
    if (!is_read_in_parts(path)) return weft_tensors_load(context, path, program, out_tensors);
    TRY(weft_tensors_create(context, &tensors));
    weft_status status = describe(tensors, path, program);
    if (status)
        weft_tensors_destroy(tensors);
    else
        *out_tensors = tensors;
    return status;
}

static weft_status fill_npy(const weft_tensors *tensors, part_file *file, weft_tensor_part_fn parts, void *user) {
    byte_source source = part_file_source(file);
    uint64_t first;
    bool left;
    TRY(npy_is_left(&source, tensors, &tensors->items[0], &left, &first));
    return left ? part_file_fill(file, first, &tensors->items[0], parts, user) : NULL;
}

weft_status weft_tensors_fill(weft_tensors *tensors, const char *path, weft_tensor_part_fn parts, void *user) {
    if (!is_read_in_parts(path)) return NULL;
    if (ends_with(path, ".npz")) return npz_fill(tensors, path, parts, user);
    part_file file;
    TRY(part_file_open(&file, path, tensors->context->max_file_nbytes));
    weft_status status =
        ends_with(path, ".npy") ? fill_npy(tensors, &file, parts, user) : pdiparams_fill(tensors, &file, parts, user);
    part_file_close(&file);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static weft_status save_buffer(const weft_tensors *tensors, const char *path) {
    buffer b;
    buffer_init(&b, &tensors->context->allocator);
    weft_status status = NULL;
    if (ends_with(path, ".pdiparams")) {
        status = pdiparams_print(tensors, &b);
    } else if (tensors->count != 1) {
        status =
            weft_status_create(WEFT_INVALID_ARGUMENT, path, "a .npy file holds one tensor, found %zu", tensors->count);
    } else {
        status = npy_header(&tensors->items[0], &b);
        buffer_append(&b, tensors->items[0].data, tensors->items[0].nbytes);
    }
    if (!status) status = buffer_status(&b);
    if (!status) status = file_write(&tensors->context->allocator, path, b.bytes, b.nbytes);
    buffer_fini(&b);
    return status;
}

weft_status weft_tensors_save(const weft_tensors *tensors, const char *path) {
    if (ends_with(path, ".npz")) return npz_write(tensors, path);
    if (ends_with(path, ".npy") || ends_with(path, ".pdiparams")) return save_buffer(tensors, path);
    return unknown_form(path);
}
