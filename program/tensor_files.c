/* tensor_files.c: sets of tensors from files and to them, by the form that the name says. */
#include "program/tensors.h"

static bool ends_with(const char *path, const char *tail) {
    size_t n = strlen(path), m = strlen(tail);
    return n >= m && strcmp(path + n - m, tail) == 0;
}

typedef struct memory {
    const char *bytes;
    size_t nbytes, at;
    const char *place;
} memory;

static weft_status read_memory(void *user, void *out, size_t nbytes) {
    memory *m = user;
    if (nbytes > m->nbytes - m->at)
        return weft_status_create(WEFT_PARSE, m->place, "expected %zu more bytes at byte %zu, found %zu", nbytes, m->at,
                                  m->nbytes - m->at);
    memcpy(out, m->bytes + m->at, nbytes);
    m->at += nbytes;
    return NULL;
}

/* A .npy file's tensor is named by the file: "dir/x.npy" is x. */
static weft_status read_npy_file(weft_tensors *into, const char *bytes, size_t nbytes, const char *path,
                                 const weft_program *program) {
    const char *stem = strrchr(path, '/');
    stem = stem ? stem + 1 : path;
    size_t length = strlen(stem) - strlen(".npy");
    const weft_allocator *allocator = &into->context->allocator;
    char *tensor_name = base_alloc(allocator, length + 1);
    if (!tensor_name) return base_out_of_memory();
    memcpy(tensor_name, stem, length);
    tensor_name[length] = '\0';
    memory m = {bytes, nbytes, 0, path};
    byte_source source = {read_memory, &m, nbytes, path};
    weft_status status = npy_read(&source, into, tensor_name, program);
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
    TRY_DONE(weft_tensors_create(context, &tensors));
    if (ends_with(path, ".npz"))
        status = npz_read(tensors, bytes, nbytes, path, program);
    else if (ends_with(path, ".npy"))
        status = read_npy_file(tensors, bytes, nbytes, path, program);
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

weft_status weft_tensors_describe(weft_context *context, const char *path, const weft_program *program,
                                  weft_tensors **out_tensors) {
    weft_tensors *tensors;
    if (!ends_with(path, ".npz")) return weft_tensors_load(context, path, program, out_tensors);
    TRY(weft_tensors_create(context, &tensors));
    weft_status status = npz_describe(tensors, path, program);
    if (status)
        weft_tensors_destroy(tensors);
    else
        *out_tensors = tensors;
    return status;
}

weft_status weft_tensors_fill(weft_tensors *tensors, const char *path, weft_tensor_rows_fn rows, void *user) {
    return ends_with(path, ".npz") ? npz_fill(tensors, path, rows, user) : NULL;
}

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
