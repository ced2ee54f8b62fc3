/* tensors.h: what the tensor file forms share. */
#ifndef PROGRAM_TENSORS_H
#define PROGRAM_TENSORS_H

#include "program/ir.h"
#include "weft/tensor.h"

struct weft_tensors {
    weft_context *context;
    weft_tensor *items;
    size_t count, capacity;
    hash_table table; /* of items by name */
    bool *borrowed;   /* an item's data is the caller's; as long as `capacity_borrowed` says */
    size_t capacity_borrowed;
};

/* weft_tensors_add with data that nothing was written to: memory that nobody touches costs none. */
WEFT_MUST_USE weft_status tensors_reserve(weft_tensors *tensors, const char *tensor_name, weft_dtype dtype, size_t ndim,
                                          const int64_t *dims, weft_tensor **out_tensor);

/* Where a form's bytes come from, in order. `read` fills exactly nbytes or fails. */
typedef struct byte_source {
    weft_status (*read)(void *user, void *out, size_t nbytes);
    void (*skip)(void *user, size_t nbytes); /* as many as are there; NULL: it cannot */
    void *user;
    uint64_t nbytes; /* in all: what shapes claim is held against it before anything is allocated */
    const char *place;
} byte_source;

/* Bytes in memory as a source. */
typedef struct memory_bytes {
    const char *bytes;
    size_t nbytes, at;
    const char *place;
} memory_bytes;
byte_source memory_source(memory_bytes *m);

/* One array in NumPy's format (NEP 1) from `source` into a tensor of that name. `program` says which uint16 arrays are
 * bf16; may be NULL. */
WEFT_MUST_USE weft_status npy_read(byte_source *source, weft_tensors *into, const char *tensor_name,
                                   const weft_program *program);
/* The same where elements are read later: of up to TENSOR_SMALL_NBYTES, or in column order, they are read at once. */
enum { TENSOR_SMALL_NBYTES = 1 << 14 };
static inline bool tensors_may_leave(size_t ndim, size_t nbytes) {
    return nbytes > TENSOR_SMALL_NBYTES && ndim > 0;
}
WEFT_MUST_USE weft_status npy_describe(byte_source *source, weft_tensors *into, const char *tensor_name,
                                       const weft_program *program);
/* Whether npy_describe would have left the elements of an array like `t`; *out_used: how many bytes are before them. */
WEFT_MUST_USE weft_status npy_is_left(byte_source *source, const weft_tensors *tensors, const weft_tensor *t,
                                      bool *out_left, uint64_t *out_used);
/* The header that goes before a tensor's bytes in that format. */
WEFT_MUST_USE weft_status npy_header(const weft_tensor *t, buffer *out);

/* A zip archive of .npy members. */
WEFT_MUST_USE weft_status npz_read(weft_tensors *into, const char *bytes, size_t nbytes, const char *place,
                                   const weft_program *program);
/* By name, so that only what is asked for is read. */
WEFT_MUST_USE weft_status npz_describe(weft_tensors *into, const char *path, const weft_program *program);
WEFT_MUST_USE weft_status npz_fill(weft_tensors *tensors, const char *path, weft_tensor_part_fn parts, void *user);
WEFT_MUST_USE weft_status npz_write(const weft_tensors *tensors, const char *path);

/* Paddle's combined parameters: records without names, in lexicographic order of the program's persistables. */
WEFT_MUST_USE weft_status pdiparams_read(weft_tensors *into, const char *bytes, size_t nbytes, const char *place,
                                         const weft_program *program);
/* The same where elements are read later, as npy_describe does: by pdiparams_fill, from a source at the same bytes. */
WEFT_MUST_USE weft_status pdiparams_describe(weft_tensors *into, byte_source *source, const weft_program *program);
struct part_file;
WEFT_MUST_USE weft_status pdiparams_fill(const weft_tensors *tensors, struct part_file *file, weft_tensor_part_fn parts,
                                         void *user);
WEFT_MUST_USE weft_status pdiparams_print(const weft_tensors *tensors, buffer *out);

#endif
