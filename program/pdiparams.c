/* pdiparams.c: Paddle's combined parameter files: one record a persistable var, in lexicographic order of their names,
 * which stand only in the program.
 *
 * A record: version, LoD levels, version, TensorDesc, raw elements
 * (paddle/phi/core/framework/dense_tensor_serialize). */
#include <stdlib.h>

#include "program/part_file.h"
#include "program/pdmodel/wire.h"

typedef struct record_reader {
    byte_source *source;
    size_t nbytes, at;
    const char *place, *var;
} record_reader;

/* What stands before a record's elements. */
typedef struct record_head {
    weft_dtype dtype;
    size_t ndim, nbytes;
    int64_t dims[WEFT_MAX_RANK];
} record_head;

static weft_status take(record_reader *r, void *out, size_t nbytes, const char *what) {
    if (nbytes > r->nbytes - r->at)
        return weft_status_create(WEFT_PARSE, r->place, "%s of \"%s\" at byte %zu: expected %zu bytes, found %zu", what,
                                  r->var, r->at, nbytes, r->nbytes - r->at);
    if (out)
        TRY(r->source->read(r->source->user, out, nbytes));
    else
        r->source->skip(r->source->user, nbytes);
    r->at += nbytes;
    return NULL;
}

static weft_status take_version(record_reader *r) {
    uint32_t version = 0;
    TRY(take(r, &version, sizeof version, "version"));
    if (version != 0)
        return weft_status_create(WEFT_PARSE, r->place, "version of \"%s\" at byte %zu: expected 0, found %u", r->var,
                                  r->at - sizeof version, version);
    return NULL;
}

static weft_status take_varint(record_reader *r, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = 0;
        TRY(take(r, &byte, 1, "TensorDesc"));
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return NULL;
    }
    return weft_status_create(WEFT_PARSE, r->place, "TensorDesc of \"%s\" at byte %zu: a varint of over 10 bytes",
                              r->var, r->at);
}

/* TensorDesc: data_type = 1, dims = 2, both varints (dims unpacked, or packed as any protobuf reader accepts). */
static weft_status take_desc(record_reader *r, weft_dtype *out_dtype, size_t *out_ndim, int64_t *dims) {
    int32_t length;
    TRY(take(r, &length, sizeof length, "TensorDesc length"));
    if (length < 0 || (size_t)length > r->nbytes - r->at)
        return weft_status_create(WEFT_PARSE, r->place, "TensorDesc length of \"%s\" at byte %zu: found %d", r->var,
                                  r->at, length);
    size_t end = r->at + (size_t)length, packed_end = 0;
    *out_dtype = WEFT_DTYPE_NONE;
    *out_ndim = 0;
    while (r->at < end) {
        uint64_t key = 2 << 3, value;
        if (r->at >= packed_end) TRY(take_varint(r, &key));
        TRY(take_varint(r, &value));
        if (key == (2 << 3 | 2)) {
            packed_end = value <= end - r->at ? r->at + (size_t)value : end;
        } else if (key == 1 << 3) {
            *out_dtype = (weft_dtype)value;
        } else if (key == 2 << 3 && *out_ndim < WEFT_MAX_RANK) {
            dims[(*out_ndim)++] = (int64_t)value;
        } else {
            return weft_status_create(WEFT_PARSE, r->place, "TensorDesc of \"%s\" at byte %zu: unexpected field",
                                      r->var, r->at);
        }
    }
    return r->at == end ? NULL
                        : weft_status_create(WEFT_PARSE, r->place, "TensorDesc of \"%s\" runs over its length", r->var);
}

static weft_status take_lod(record_reader *r) {
    uint64_t levels, nbytes;
    TRY(take(r, &levels, sizeof levels, "LoD level count"));
    for (uint64_t i = 0; i < levels; i++) {
        TRY(take(r, &nbytes, sizeof nbytes, "LoD level size"));
        TRY(take(r, NULL, nbytes, "LoD level"));
    }
    return NULL;
}

static weft_status take_head(record_reader *r, record_head *out) {
    *out = (record_head){.dtype = WEFT_DTYPE_NONE};
    TRY(take_version(r));
    TRY(take_lod(r));
    TRY(take_version(r));
    TRY(take_desc(r, &out->dtype, &out->ndim, out->dims));
    out->nbytes = weft_dtype_nbytes(out->dtype);
    bool good = out->nbytes > 0;
    for (size_t i = 0; good && i < out->ndim; i++)
        good = out->dims[i] >= 0 && base_mul(out->nbytes, (size_t)out->dims[i], &out->nbytes);
    if (good && out->nbytes <= r->nbytes - r->at) return NULL;
    return weft_status_create(WEFT_PARSE, r->place,
                              "\"%s\" at byte %zu claims more elements than there are bytes (%zu)", r->var, r->at,
                              r->nbytes - r->at);
}

/* The elements too, or only where none are left for later. */
static weft_status take_record(record_reader *r, weft_tensors *into, bool may_leave) {
    record_head head;
    weft_tensor *t;
    TRY(take_head(r, &head));
    bool leaves = may_leave && tensors_may_leave(head.ndim, head.nbytes);
    TRY(leaves ? tensors_reserve(into, r->var, head.dtype, head.ndim, head.dims, &t)
               : weft_tensors_add(into, r->var, head.dtype, head.ndim, head.dims, &t));
    return take(r, leaves ? NULL : t->data, head.nbytes, "elements");
}

static int by_name(const void *a, const void *b) {
    const weft_var *x = *(const weft_var *const *)a, *y = *(const weft_var *const *)b;
    return strcmp(x->name->bytes, y->name->bytes);
}

/* The persistable dense tensors of block 0, sorted. The array is the caller's to free: *out_capacity items. */
static weft_status sorted_persistables(const weft_program *program, const weft_allocator *allocator, weft_var ***out,
                                       size_t *out_count, size_t *out_capacity) {
    const weft_block *block = program->blocks[0];
    weft_var **vars = base_alloc(allocator, block->nvars * sizeof(weft_var *));
    if (!vars) return base_out_of_memory();
    size_t n = 0;
    for (size_t i = 0; i < block->nvars; i++) {
        weft_var *v = block_var(block, i);
        if (v->persistable && v->kind == WEFT_DENSE_TENSOR) vars[n++] = v;
    }
    qsort(vars, n, sizeof(weft_var *), by_name);
    *out = vars;
    *out_count = n;
    *out_capacity = block->nvars;
    return NULL;
}

static weft_status read_records(weft_tensors *into, byte_source *source, const weft_program *program, bool may_leave) {
    if (!program || program->nblocks == 0)
        return weft_status_create(WEFT_INVALID_ARGUMENT, source->place,
                                  "a .pdiparams file holds no names: the program is needed");
    const weft_allocator *allocator = &into->context->allocator;
    weft_var **vars = NULL;
    size_t nvars = 0, capacity = 0;
    record_reader r = {source, source->nbytes, 0, source->place, ""};
    weft_status status;
    TRY_DONE(sorted_persistables(program, allocator, &vars, &nvars, &capacity));
    for (size_t i = 0; i < nvars; i++) {
        r.var = vars[i]->name->bytes;
        TRY_DONE(take_record(&r, into, may_leave));
    }
    if (r.at != r.nbytes)
        status = weft_status_create(WEFT_PARSE, r.place, "expected the end after %zu records, found %zu bytes more",
                                    nvars, r.nbytes - r.at);
done:
    base_free(allocator, vars, capacity * sizeof(weft_var *));
    return status;
}

weft_status pdiparams_read(weft_tensors *into, const char *bytes, size_t nbytes, const char *place,
                           const weft_program *program) {
    memory_bytes m = {bytes, nbytes, 0, place};
    byte_source source = memory_source(&m);
    return read_records(into, &source, program, false);
}

weft_status pdiparams_describe(weft_tensors *into, byte_source *source, const weft_program *program) {
    return read_records(into, source, program, true);
}

/* --- some of it --------------------------------------------------------------------------------------------------- */

/* Tensors are in the order of records. */
weft_status pdiparams_fill(const weft_tensors *tensors, part_file *file, weft_tensor_part_fn parts, void *user) {
    byte_source source = part_file_source(file);
    record_reader r = {&source, source.nbytes, 0, source.place, ""};
    for (size_t i = 0; i < tensors->count; i++) {
        const weft_tensor *t = &tensors->items[i];
        record_head head;
        r.var = t->name;
        TRY(take_head(&r, &head));
        if (head.nbytes != t->nbytes || head.ndim != t->ndim)
            return weft_status_create(WEFT_PARSE, r.place, "\"%s\" at byte %zu is not what it was a moment ago", r.var,
                                      r.at);
        if (tensors_may_leave(t->ndim, t->nbytes)) TRY(part_file_fill(file, r.at, t, parts, user));
        TRY(take(&r, NULL, head.nbytes, "elements"));
    }
    return NULL;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void put_record(buffer *out, const weft_tensor *t) {
    static const char zeros[16];
    buffer_append(out, zeros, 4 + 8 + 4); /* version, no LoD levels, version */
    size_t at = out->nbytes;
    buffer_append(out, zeros, 4);
    wire_put_varint(out, 1 << 3);
    wire_put_varint(out, (uint64_t)t->dtype);
    for (size_t i = 0; i < t->ndim; i++) {
        wire_put_varint(out, 2 << 3);
        wire_put_varint(out, (uint64_t)t->dims[i]);
    }
    int32_t length = (int32_t)(out->nbytes - at - 4);
    if (!out->failed) memcpy(out->bytes + at, &length, sizeof length);
    buffer_append(out, t->data, t->nbytes);
}

static int by_tensor_name(const void *a, const void *b) {
    return strcmp((*(const weft_tensor *const *)a)->name, (*(const weft_tensor *const *)b)->name);
}

weft_status pdiparams_print(const weft_tensors *tensors, buffer *out) {
    const weft_allocator *allocator = &tensors->context->allocator;
    const weft_tensor **sorted = base_alloc(allocator, tensors->count * sizeof *sorted);
    if (!sorted) return base_out_of_memory();
    for (size_t i = 0; i < tensors->count; i++) sorted[i] = &tensors->items[i];
    qsort(sorted, tensors->count, sizeof *sorted, by_tensor_name);
    for (size_t i = 0; i < tensors->count; i++) put_record(out, sorted[i]);
    base_free(allocator, sorted, tensors->count * sizeof *sorted);
    return buffer_status(out);
}
